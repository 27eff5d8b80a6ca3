//! What kernels are asked for: a network, a precision and options, on a GPU that need not be here.

use flopgap_gpu::compile::Architecture;

use crate::{MlpError, Network, Precision};

use super::options::Options;
use super::source::Source;
use super::target::Target;

/// Everything that decides which kernels are made.
#[derive(Debug, Clone, Copy)]
pub(super) struct Request<'a> {
    pub(super) network: &'a Network,
    pub(super) precision: Precision,
    pub(super) options: Options,
    pub(super) target: Target,
}

impl Request<'_> {
    /// A source for the network, see [`Source::new`].
    pub(super) fn source(&self, name: &str, body: &str, constants: &[(&str, usize)]) -> Source {
        self.source_for(self.target.architecture(), name, body, constants)
    }

    /// The source of the kernels in a file, by its path from this folder, after `tables`: functions
    /// of a layer, and macros.
    pub(super) fn kernel(&self, path: &str, tables: &str, constants: &[(&str, usize)]) -> Source {
        self.source(path, &format!("{tables}#include \"{path}\"\n"), constants)
    }

    /// The same for another machine language of the same device, such as `sm_90a`.
    pub(super) fn source_for(
        &self,
        architecture: Architecture,
        name: &str,
        body: &str,
        constants: &[(&str, usize)],
    ) -> Source {
        let Request { network, precision, options, .. } = *self;
        let plan = self.target.plan();
        Source::new(name, body, network, precision, options.accumulate, architecture, plan, constants)
    }

    /// Why there are no kernels for this request, and the alternative.
    pub(super) fn unsupported(&self, reason: impl Into<String>) -> MlpError {
        MlpError::Unsupported {
            implementation: self.options.implementation.to_string(),
            precision: self.precision.to_string(),
            architecture: self.target.architecture().to_string(),
            reason: reason.into(),
        }
    }
}

//! A pass that has been chosen, before its kernels are compiled.

use std::fmt;

use crate::MlpError;
use crate::cuda::source::{Program, Source};

/// A pass that has been chosen: what is compiled for it, and how it is made of the loaded programs,
/// which come in the order of the sources.
pub(super) struct Plan<Pass: ?Sized> {
    pub(super) sources: Vec<Source>,
    pub(super) load: Box<Load<Pass>>,
}

type Load<Pass> = dyn FnOnce(&[Program]) -> Result<Box<Pass>, MlpError>;

impl<Pass: ?Sized> fmt::Debug for Plan<Pass> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Plan").field("sources", &self.sources).finish_non_exhaustive()
    }
}

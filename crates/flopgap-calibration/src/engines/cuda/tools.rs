//! Shared resources for creating kernels of steps.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use flopgap_gpu::blaslt::BlasLt;
use flopgap_gpu::compile::Compiler;
use flopgap_gpu::dnn::Dnn;
use flopgap_gpu::{Context, GpuError, Stream};
use flopgap_graph::Step;

use crate::engines::error::EngineError;

use super::conv::plans::Plans;
use super::kernel::Numbers;
use super::launches::Launches;
use super::own::OwnKernels;

/// The engine's name.
pub(crate) const NAME: &str = "cuda";

/// The device, the libraries and the kernels that steps are made with.
#[derive(Debug)]
pub(crate) struct Tools {
    pub(crate) context: Context,
    pub(crate) stream: Stream,
    pub(crate) blas: BlasLt,
    /// Opened with the first convolution: networks without one need no cuDNN.
    dnn: OnceLock<Dnn>,
    pub(crate) convolutions: Plans,
    compiler: Compiler,
    own: Mutex<Vec<(Numbers, Arc<OwnKernels>)>>,
    /// The unit of launched times.
    pub(super) launches: Launches,
    /// Bytes of workspace that an algorithm may use.
    pub(crate) most_workspace: usize,
}

impl Tools {
    /// Opens a device and the libraries.
    ///
    /// # Errors
    /// When a library or the device is missing.
    pub(crate) fn new(
        device: usize,
        references: Option<&BTreeMap<String, f64>>,
    ) -> Result<Self, EngineError> {
        let context = Context::new(device)?;
        let stream = context.stream()?;
        let blas = BlasLt::new(&context)?;
        let compiler = Compiler::new().map_err(|error| match error {
            flopgap_gpu::compile::CompileError::Library(error) => EngineError::Gpu(error.into()),
            other => {
                EngineError::Failed { action: "start the compiler".to_owned(), message: other.to_string() }
            }
        })?;
        let own = Arc::new(OwnKernels::new(&context, &compiler, Numbers::F32)?);
        let launches = Launches::new(&stream, &own, references)?;
        let most_workspace = flopgap_gpu::blas::Blas::recommended_workspace(&stream);
        Ok(Tools {
            context,
            stream,
            blas,
            dnn: OnceLock::new(),
            convolutions: Plans::default(),
            compiler,
            own: Mutex::new(vec![(Numbers::F32, own)]),
            launches,
            most_workspace,
        })
    }

    /// cuDNN.
    ///
    /// # Errors
    /// When it is missing or refuses the device.
    pub(crate) fn dnn(&self) -> Result<&Dnn, GpuError> {
        if let Some(dnn) = self.dnn.get() {
            return Ok(dnn);
        }
        let opened = Dnn::new(&self.context)?;
        Ok(self.dnn.get_or_init(|| opened))
    }

    /// Our own kernels on numbers that are stored so.
    ///
    /// # Errors
    /// When they cannot be compiled or loaded.
    pub(crate) fn own(&self, numbers: Numbers) -> Result<Arc<OwnKernels>, EngineError> {
        let mut own = self.own.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, found)) = own.iter().find(|(stored, _)| *stored == numbers) {
            return Ok(found.clone());
        }
        let made = Arc::new(OwnKernels::new(&self.context, &self.compiler, numbers)?);
        own.push((numbers, made.clone()));
        Ok(made)
    }
}

/// An error for an unsupported step.
pub(crate) fn unsupported(step: &Step, reason: impl Into<String>) -> EngineError {
    EngineError::Unsupported { engine: NAME, what: describe(step), reason: reason.into() }
}

/// A step in a message.
pub(crate) fn describe(step: &Step) -> String {
    step.label()
}

/// A size as an index of this machine.
///
/// # Errors
/// [`EngineError::Unsupported`] for sizes that no memory holds.
pub(crate) fn size(step: &Step, value: u64) -> Result<usize, EngineError> {
    usize::try_from(value)
        .ok()
        .filter(|&size| isize::try_from(size).is_ok())
        .ok_or_else(|| unsupported(step, format!("{value} elements exceed the memory")))
}

/// A product of sizes.
///
/// # Errors
/// As [`size`].
pub(crate) fn sizes(step: &Step, values: &[u64]) -> Result<usize, EngineError> {
    let product = values.iter().try_fold(1_u64, |product, &value| product.checked_mul(value));
    size(step, product.unwrap_or(u64::MAX))
}

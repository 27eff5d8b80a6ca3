//! Convolutions that are ready to run.

use std::sync::{Arc, Mutex, PoisonError};

use cudarc::cudnn::sys;
use sys::cudnnBackendAttributeName_t as Name;
use sys::cudnnBackendDescriptorType_t as Kind;

use super::api::{Api, Object};
use super::choice::Choice;
use super::convolution::{Arithmetic, Convolution};
use super::descriptor::{Address, Descriptor};
use super::operations::{Fusion, Operand};
use super::planner::{Planned, Planner};
use crate::capture::is_any_open;
use crate::captured::Kept;
use crate::context::Context;
use crate::error::{During as _, GpuError};
use crate::library::LibraryError;
use crate::memory::Buffer;
use crate::stream::Stream;

/// cuDNN on a device. Cloning shares the handle.
#[derive(Debug, Clone)]
pub struct Dnn {
    pub(super) handle: Arc<Handle>,
}

/// A handle of the library, destroyed with the last user.
#[derive(Debug)]
pub(super) struct Handle {
    pub(super) api: &'static Api,
    pub(super) object: Object,
    context: Context,
    /// The stream that it is set to, by its handle. Locked while it is used: a handle serves one
    /// thread at a time.
    pub(super) stream: Mutex<usize>,
}

// SAFETY: the library allows a handle on any thread, on one at a time: `stream` is locked for that.
unsafe impl Send for Handle {}
// SAFETY: as above.
unsafe impl Sync for Handle {}

impl Handle {
    pub(super) fn bind(&self) -> Result<(), GpuError> {
        self.context.cuda().bind_to_thread().during("open the GPU")
    }

    /// Runs `call` with the handle set to a stream.
    pub(super) fn on(
        &self,
        stream: &Stream,
        call: impl FnOnce(Object) -> Result<(), GpuError>,
    ) -> Result<(), GpuError> {
        self.bind()?;
        let mut current = self.stream.lock().unwrap_or_else(PoisonError::into_inner);
        let wanted = stream.handle() as usize;
        if *current != wanted {
            // SAFETY: handle and stream are alive; a stream of the driver is one of the runtime.
            let status = unsafe { (self.api.set_stream)(self.object, stream.handle().cast()) };
            self.api.check("give cuDNN a stream", status)?;
            *current = wanted;
        }
        call(self.object)
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        // Destroying a handle waits for the device, which a capture does not allow. Nothing can be
        // done about an error here.
        if !is_any_open() && self.bind().is_ok() {
            // SAFETY: it was created by the library and is destroyed once.
            unsafe { (self.api.destroy)(self.object) };
        }
    }
}

impl Dnn {
    /// Opens cuDNN on a device.
    ///
    /// # Errors
    /// When cuDNN or a library that it calls is missing or older than 9, or refuses the device.
    pub fn new(context: &Context) -> Result<Self, GpuError> {
        let api = Api::load()?;
        let bound = context.cuda().bind_to_thread();
        bound.during("open the GPU")?;
        let mut object = std::ptr::null_mut();
        // SAFETY: the pointer is valid for the call.
        let status = unsafe { (api.create)(&raw mut object) };
        api.check("create a handle of cuDNN", status)?;
        let handle = Handle { api, object, context: context.clone(), stream: Mutex::new(0) };
        Ok(Dnn { handle: Arc::new(handle) })
    }

    /// Makes a convolution ready to run: chooses an engine, and creates what it needs in addition
    /// to the operands on `stream`.
    ///
    /// # Errors
    /// [`GpuError::NoEngine`] when cuDNN has none for this convolution with what follows;
    /// [`GpuError::Shape`].
    pub fn convolution(
        &self,
        stream: &Stream,
        convolution: &Convolution,
        fusion: &Fusion,
    ) -> Result<ConvolutionPlan, GpuError> {
        let integers = convolution.arithmetic == Arithmetic::Int8;
        if !integers && (Fusion { scale: 1.0, ..*fusion }) != *fusion {
            let message = format!("a factor of {} is for 8-bit integers", fusion.scale);
            return Err(GpuError::Shape { what: "a convolution", message });
        }
        self.handle.bind()?;
        let planned = {
            let _alone = self.handle.stream.lock().unwrap_or_else(PoisonError::into_inner);
            let planner = Planner { api: self.handle.api, handle: self.handle.object };
            planner.plan(convolution, fusion)?
        };
        let needs = |operand| planned.operands.contains(&operand);
        let bias_bytes = convolution.outputs * convolution.arithmetic.bias_bytes();
        let zeros = if needs(Operand::Bias) && !fusion.bias {
            Some(Arc::new(stream.zeros::<u8>(bias_bytes)?))
        } else {
            None
        };
        let scales = if needs(Operand::Scale) {
            Some(Arc::new(stream.upload(&vec![fusion.scale; convolution.outputs])?))
        } else {
            None
        };
        let output_len = convolution.output_len()?;
        Ok(ConvolutionPlan {
            plan: Arc::new(Plan { planned, handle: self.handle.clone() }),
            convolution: convolution.clone(),
            fusion: *fusion,
            output_len,
            zeros,
            scales,
            pack: Mutex::new(None),
        })
    }
}

/// A plan of the library. Graphs keep it: kernels that cuDNN compiled for it are unloaded with it.
#[derive(Debug)]
pub(crate) struct Plan {
    planned: Planned,
    handle: Arc<Handle>,
}

impl Drop for Plan {
    fn drop(&mut self) {
        // Kernels may still run. During a capture nothing may be waited for, and after an error
        // nothing is known of what runs.
        if is_any_open() || self.handle.context.synchronize().is_err() {
            self.planned.plan.leak();
        }
    }
}

/// A convolution that is ready to run, as often as wanted. A clone shares what cuDNN prepared, and
/// is for operands elsewhere.
#[derive(Debug)]
pub struct ConvolutionPlan {
    plan: Arc<Plan>,
    convolution: Convolution,
    fusion: Fusion,
    output_len: usize,
    /// A bias of zeros, where the engine reads one and there is none.
    zeros: Option<Arc<Buffer<u8>>>,
    /// The factor of each channel's sums, where the engine reads them.
    scales: Option<Arc<Buffer<f32>>>,
    /// The addresses of the last call, and how the library takes them.
    pack: Mutex<Option<(Vec<u64>, Descriptor)>>,
}

impl Clone for ConvolutionPlan {
    fn clone(&self) -> Self {
        ConvolutionPlan {
            plan: self.plan.clone(),
            convolution: self.convolution.clone(),
            fusion: self.fusion,
            output_len: self.output_len,
            zeros: self.zeros.clone(),
            scales: self.scales.clone(),
            pack: Mutex::new(None),
        }
    }
}

/// The operands of a convolution by their addresses on the device; 0 for what it does not have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConvolutionAddresses {
    /// The input.
    pub input: u64,
    /// The weights.
    pub weights: u64,
    /// A number for each channel of the result, where [`Fusion::bias`] is set: of the input's type,
    /// or 32-bit floats for 8-bit integers.
    pub bias: u64,
    /// What is added to the result, where [`Fusion::residual`] is set. It may be the output.
    pub residual: u64,
    /// The result.
    pub output: u64,
    /// At least [`ConvolutionPlan::workspace`] bytes, aligned to 256; 0 where it needs none.
    pub workspace: u64,
}

impl ConvolutionPlan {
    /// The convolution.
    pub fn convolution(&self) -> &Convolution {
        &self.convolution
    }

    /// The operations after it.
    pub fn fusion(&self) -> &Fusion {
        &self.fusion
    }

    /// The engine.
    pub fn choice(&self) -> &Choice {
        &self.plan.planned.choice
    }

    /// Elements of the result.
    pub fn output_len(&self) -> usize {
        self.output_len
    }

    /// Bytes of workspace that the engine needs.
    pub fn workspace(&self) -> usize {
        self.choice().workspace
    }

    /// Queues the convolution. In a capture, the graph owns the plan.
    ///
    /// # Errors
    /// What cuDNN returns.
    ///
    /// # Safety
    /// The operands lie there with the sizes that the plan says, in memory that is entered (see
    /// `Submission`) and borrowed until the call returns, or that the caller takes care of until
    /// the convolution has run, and every time that a graph with it has run.
    pub unsafe fn queue_at(&self, stream: &Stream, addresses: &ConvolutionAddresses) -> Result<(), GpuError> {
        let submission = stream.submission();
        let Plan { planned, handle } = &*self.plan;
        let bias = match &self.zeros {
            Some(zeros) => submission.read(&**zeros)?,
            None => addresses.bias,
        };
        let scale = self.scales.as_ref().map_or(Ok(0), |scales| submission.read(&**scales))?;
        submission.keep(|| Kept::owner(self.plan.clone()))?;
        let address = |operand: &Operand| match operand {
            Operand::Input => addresses.input,
            Operand::Weights => addresses.weights,
            Operand::Output => addresses.output,
            Operand::Bias => bias,
            // With the factor 0 it is not read, but must be somewhere.
            Operand::Residual if !self.fusion.residual => addresses.output,
            Operand::Residual => addresses.residual,
            Operand::Scale => scale,
        };
        let mut all: Vec<u64> = planned.operands.iter().map(address).collect();
        all.push(addresses.workspace);
        let mut pack = self.pack.lock().unwrap_or_else(PoisonError::into_inner);
        let current = match pack.take() {
            Some((of, current)) if of == all => current,
            _ => self.pack_of(&all)?,
        };
        let done = handle.on(stream, |object| {
            // SAFETY: plan, pack and handle are alive; the addresses hold what the plan needs,
            // which is the caller's promise.
            let status = unsafe { (handle.api.execute)(object, planned.plan.object(), current.object()) };
            handle.api.check("run a convolution", status)
        });
        *pack = Some((all, current));
        done
    }

    /// The addresses of the operands, the workspace last, as the library takes them.
    fn pack_of(&self, all: &[u64]) -> Result<Descriptor, GpuError> {
        let planned = &self.plan.planned;
        let numbers: Vec<i64> = planned.operands.iter().map(|&operand| operand as i64).collect();
        let addresses: Vec<Address> = all.iter().map(|&address| Address(address)).collect();
        let (workspace, operands) = addresses.split_last().unwrap_or((&Address(0), &[]));
        let mut pack = Descriptor::new(self.plan.handle.api, Kind::CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR)?;
        pack.set(Name::CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, &numbers)?
            .set(Name::CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, operands)?
            .set(Name::CUDNN_ATTR_VARIANT_PACK_WORKSPACE, &[*workspace])?;
        pack.finalize()
    }
}

/// The version of this machine's cuDNN: `(9, 19, 0)`. No GPU is needed.
///
/// # Errors
/// When cuDNN is missing or older than 9.
pub fn version() -> Result<(u32, u32, u32), GpuError> {
    let api = Api::load()?;
    // SAFETY: it takes nothing.
    let number = u32::try_from(unsafe { (api.version)() }).unwrap_or(0);
    if number < 90_000 {
        let path = crate::library::probe(crate::library::Library::Cudnn)?.path().to_owned();
        let library = crate::library::Library::Cudnn;
        return Err(LibraryError::Symbol { library, path, symbol: "cudnnGetLastErrorString" }.into());
    }
    // 91900 is 9.19.0.
    Ok((number / 10_000, number / 100 % 100, number % 100))
}

//! NVIDIA GPUs: products by cuBLASLt, everything small by kernels of our own.
//!
//! A workload's steps are what [`flopgap_graph::plan`] makes of it, one or a few kernels each.
//! `kernel::Kernel` is what computes a step; `tools::Tools::kernel` chooses it.

mod arena;
mod attention;
mod choice;
mod clock;
mod conv;
mod counted;
mod draft;
mod fused;
mod gemm;
mod kernel;
mod launched;
mod launches;
mod own;
mod pointwise;
mod pool;
mod program;
mod rows;
mod session;
mod tools;
mod value;

pub use fused::Fused;
pub use own::compile_kernels;

use std::collections::BTreeMap;

use crate::Origin;
use flopgap_flops::Precision;
use flopgap_gpu::{Device, blaslt, dnn, driver_version};
use flopgap_graph::{Mode, Op, Workload};

use crate::engines::engine::{Engine, Session};
use crate::engines::error::EngineError;

use program::Program;
use session::CudaSession;
use tools::{NAME, Tools, unsupported};

/// The engine `cuda`: one GPU, its libraries' heuristics in a fixed mode, on a stream or in a
/// graph.
#[derive(Debug)]
pub struct Cuda {
    tools: Tools,
    origin: Origin,
}

impl Cuda {
    /// Opens the GPU with this number, and the libraries.
    ///
    /// # Errors
    /// [`EngineError::Gpu`] when the driver, the GPU, NVRTC or cuBLASLt is missing.
    pub fn new(device: usize) -> Result<Self, EngineError> {
        Self::with_references(device, None)
    }

    /// The same with the unit of launched times that an earlier session found
    /// ([`Engine::references`]); without it, a quarter of a second is spent to find one.
    ///
    /// # Errors
    /// As [`Cuda::new`].
    pub fn with_references(
        device: usize,
        references: Option<&BTreeMap<String, f64>>,
    ) -> Result<Self, EngineError> {
        let tools = Tools::new(device, references)?;
        let mut origin = origin_of(tools.context.device())?;
        let (major, minor, patch) = blaslt::version()?;
        origin.versions.insert("cublaslt".to_owned(), format!("{major}.{minor}.{patch}"));
        // Needed for convolutions alone.
        if let Ok((major, minor, patch)) = dnn::version() {
            origin.versions.insert("cudnn".to_owned(), format!("{major}.{minor}.{patch}"));
        }
        Ok(Cuda { tools, origin })
    }
}

/// What a GPU is, and the versions of what computes on it.
///
/// # Errors
/// When the driver does not answer.
pub(crate) fn origin_of(device: &Device) -> Result<Origin, EngineError> {
    let driver = driver_version()?;
    let properties = [
        ("compute_capability", device.compute_capability.to_string()),
        ("multiprocessors", device.multiprocessors.to_string()),
        ("clock_khz", device.clock_khz.to_string()),
        ("memory_bytes", device.memory_bytes.to_string()),
        ("memory_clock_khz", device.memory_clock_khz.to_string()),
        ("memory_bus_bits", device.memory_bus_bits.to_string()),
        ("l2_bytes", device.l2_bytes.to_string()),
        ("shared_bytes_per_multiprocessor", device.shared_bytes_per_multiprocessor.to_string()),
    ];
    let mut versions = vec![
        ("cuda_driver", format!("{}.{}", driver.cuda.0, driver.cuda.1)),
        ("flopgap", env!("CARGO_PKG_VERSION").to_owned()),
    ];
    versions.extend(driver.module.map(|module| ("driver", module)));
    let named = |pairs: &[(&str, String)]| {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect()
    };
    Ok(Origin {
        device: device.name.clone(),
        kind: "cuda".to_owned(),
        properties: named(&properties),
        versions: named(&versions),
    })
}

/// The oldest compute capability that multiplies numbers of a precision fast, or at all.
fn oldest(precision: Precision) -> (u32, u32) {
    match precision {
        Precision::Fp32 | Precision::Fp16 => (7, 0),
        Precision::Int8 => (7, 5),
        Precision::Tf32 | Precision::Bf16 => (8, 0),
    }
}

impl Engine for Cuda {
    fn name(&self) -> &'static str {
        NAME
    }

    fn origin(&self) -> &Origin {
        &self.origin
    }

    fn modes(&self) -> &[Mode] {
        &[Mode::Stream, Mode::Graph]
    }

    fn references(&self) -> BTreeMap<String, f64> {
        self.tools.launches.references()
    }

    fn supports(&self, workload: &Workload, precision: Precision) -> Result<(), EngineError> {
        let capability = self.tools.context.device().compute_capability;
        if (capability.major, capability.minor) < oldest(precision) {
            let (engine, what) = (NAME, workload.label());
            let reason = format!("a GPU of compute capability {capability} does not support {precision}");
            return Err(EngineError::Unsupported { engine, what, reason });
        }
        for step in program::steps(workload)? {
            match &step.op {
                Op::Gemm(_)
                | Op::Conv(_)
                | Op::Pool(_)
                | Op::Elementwise(_)
                | Op::Softmax { .. }
                | Op::Norm(_)
                | Op::Gather { .. }
                | Op::Copy { .. }
                | Op::Empty => {}
                Op::Reduce { inputs, outputs } => rows::parts([*inputs, *outputs], &step)?,
                Op::Attention(sizes) => attention::supported(sizes, &step, precision)?,
                _ => return Err(unsupported(&step, "no kernel supports this operation")),
            }
        }
        Ok(())
    }

    fn open<'a>(
        &'a self,
        workload: &Workload,
        precision: Precision,
        mode: Mode,
    ) -> Result<Box<dyn Session + 'a>, EngineError> {
        self.supports(workload, precision)?;
        if !self.modes().contains(&mode) {
            let (engine, what) = (NAME, workload.label());
            let reason = "it only supports streams and graphs".to_owned();
            return Err(EngineError::Unsupported { engine, what, reason });
        }
        // Memory that earlier sessions freed leaves the pool only when the device is done.
        self.tools.context.synchronize()?;
        let free = self.tools.context.memory()?.free;
        let program = Program::new(&self.tools, workload, precision)?;
        Ok(Box::new(CudaSession::new(&self.tools, program, (precision, mode), free)?))
    }
}

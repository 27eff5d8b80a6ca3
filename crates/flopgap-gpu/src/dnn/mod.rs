//! cuDNN: convolutions with what is fused behind them, and pooling.
//!
//! Convolutions go through cuDNN's graph API: operations are described, a heuristic ranks the
//! engines that can compute them, and the best one whose arithmetic is what was requested is taken
//! (32-bit floats never become TF32, sums are in 32 bits). The heuristic is recorded with the
//! engine and its settings in [`Choice`]; the workspace is the caller's memory.
//!
//! cuDNN's older API (`cudnnConvolutionBiasActivationForward` with the first algorithm that
//! `cudnnGetConvolutionForwardAlgorithm_v7` names) runs the same engines for floats, but takes up
//! to 28 times longer for 8-bit integers (3x3, 128 to 128 channels, stride 2, 32 images of 56x56 on
//! an H200 with cuDNN 9.14: 426 µs, here 14.9).
//!
//! ```no_run
//! use flopgap_gpu::Context;
//! use flopgap_gpu::dnn::{Activation, Arithmetic, Convolution, ConvolutionAddresses, Dnn, Fusion, Layout};
//!
//! let gpu = Context::new(0)?;
//! let (stream, dnn) = (gpu.stream()?, Dnn::new(&gpu)?);
//! let convolution = Convolution {
//!     arithmetic: Arithmetic::Fp32,
//!     layout: Layout::ChannelsLast,
//!     batch: 1,
//!     inputs: 64,
//!     outputs: 64,
//!     groups: 1,
//!     image: vec![56, 56],
//!     kernel: vec![3, 3],
//!     stride: vec![1, 1],
//!     dilation: vec![1, 1],
//!     padding: vec![[1, 1]; 2],
//!     transposed: false,
//!     output_padding: vec![0, 0],
//! };
//! let fusion = Fusion { bias: true, activation: Activation::Relu, ..Fusion::NONE };
//! let plan = dnn.convolution(&stream, &convolution, &fusion)?;
//! let (x, w) = (stream.zeros::<f32>(convolution.input_len())?, stream.zeros::<f32>(convolution.weight_len())?);
//! let (b, mut y) = (stream.zeros::<f32>(64)?, stream.zeros::<f32>(convolution.output_len()?)?);
//! let mut workspace = stream.zeros::<u8>(plan.workspace())?;
//! let memory = stream.submission();
//! let at = ConvolutionAddresses {
//!     input: memory.read(&x)?,
//!     weights: memory.read(&w)?,
//!     bias: memory.read(&b)?,
//!     residual: 0,
//!     output: memory.write(&mut y)?,
//!     workspace: memory.write(&mut workspace)?,
//! };
//! // SAFETY: the arrays have the sizes of the convolution.
//! unsafe { plan.queue_at(&stream, &at) }?;
//! println!("{}", plan.choice());
//! # Ok::<(), flopgap_gpu::GpuError>(())
//! ```

mod api;
mod choice;
mod convolution;
mod descriptor;
mod operations;
mod plan;
mod planner;
mod pooling;

pub use choice::{Choice, Heuristic, Trait};
pub use convolution::{Activation, Arithmetic, Convolution, Layout};
pub use operations::{Form, Fusion};
pub use plan::{ConvolutionAddresses, ConvolutionPlan, Dnn, version};
pub use pooling::{PoolFunction, Pooling, PoolingPlan};

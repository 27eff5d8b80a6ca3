//! What engines compute and measure.

mod cuda;
mod kernels;
mod native;
mod ort;
mod torch;

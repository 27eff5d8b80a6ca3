//! What engines compute and measure.

mod kernels;
mod native;

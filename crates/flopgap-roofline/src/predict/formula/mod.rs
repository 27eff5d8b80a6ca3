//! Times and memory as formulas with fitted factors.

pub(crate) mod baseline;
pub(crate) mod convolution;
pub(crate) mod convolutions;
pub(crate) mod groups;
pub(crate) mod levenberg_marquardt;
pub(crate) mod nonnegative;
pub(crate) mod onnx_runtime;
pub(crate) mod product;
pub(crate) mod products;
pub(crate) mod step_terms;
pub(crate) mod structure;

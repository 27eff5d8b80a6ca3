#![doc = include_str!("../README.md")]
// Half the documentation is product names (FlashInfer, CuPy, TensorFlow), which are not code.
#![allow(clippy::doc_markdown)]

mod classifier;
mod demangle;
mod distinct;
mod info;
mod library;
mod normalize;
mod operation;
mod path;
mod precision;
pub mod rules;
mod same;
mod short;
mod simple;
mod taxonomy;
mod tile;
mod unit;

pub use classifier::Classifier;
pub use demangle::{Demangled, demangle, demangle_nvidia};
pub use distinct::distinct_names;
pub use info::{KernelInfo, classify};
pub use path::base_name;
pub use same::{Sameness, compare_names};
pub use simple::simple_kernel;
pub use taxonomy::{KernelClass, Library, NumberType, Tile, UnknownName};

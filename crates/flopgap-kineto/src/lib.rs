#![doc = include_str!("../README.md")]

mod error;
mod event;
pub mod formula;
mod part;
mod reader;
mod trace;

pub use error::Error;
pub use part::Part;
pub use reader::Options;
pub use trace::{GpuKind, GpuWork, Operator, OperatorTotal, Source, Trace, Warning, WarningKind};

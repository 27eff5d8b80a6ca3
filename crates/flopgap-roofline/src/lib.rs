#![doc = include_str!("../README.md")]

mod ceilings;
mod file;
mod floor;
mod kriging;
pub mod machines;
pub mod predict;
pub mod probe;
pub mod pytorch;
mod statistics;

pub use ceilings::{Bandwidth, Ceilings, Details, Instruction, Level, OneThread, Peak, Quantity};
pub use file::CeilingsError;
pub use statistics::quantile;

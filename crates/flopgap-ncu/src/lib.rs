#![doc = include_str!("../README.md")]

mod csv;
mod decode;
mod error;
mod flops;
mod model;
mod reader;
mod rep;
mod source;
mod units;

pub use csv::number::NumberFormat;
pub use error::Error;
pub use flops::{
    Arithmetic, Count, Counters, FlopCounter, Flops, Instruction, Instructions, Measurement, Precision,
    Unknown,
};
pub use model::{
    Dim3, Launch, LaunchView, Layout, Metric, NvtxKind, NvtxRange, Strings, Symbol, Value, Warning,
};
pub use reader::{Options, Reader, Report, read};
pub use units::BaseValue;

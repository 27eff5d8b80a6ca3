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
mod utf16;
mod warning;

pub use csv::number::NumberFormat;
pub use error::{Error, Fault, Found};
pub use flops::{
    Arithmetic, Count, Counters, FlopCounter, Flops, Instruction, Instructions, Measurement, OperationType,
    Unknown,
};
pub use model::{
    Dim3, Launch, LaunchView, Layout, Metric, NvtxKind, NvtxRange, Opcode, Strings, Symbol, Value,
};
pub use reader::{Options, Reader, Report, read};
pub use rep::FormatFault;
pub use units::BaseValue;
pub use warning::{Note, Unlisted, Warning, WarningKind};

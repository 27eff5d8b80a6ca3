#![doc = include_str!("../README.md")]

mod attribution;
mod containment;
mod error;
pub mod export;
mod hierarchy;
mod ids;
mod in_time;
mod launches;
mod model;
mod names;
mod pages;
mod ranges;
mod report;
mod round;
mod row;
mod rows;
mod rules;
mod schema;
mod stats;
mod tables;
mod trace;

pub use error::Error;
pub use ids::GlobalId;
pub use model::{ApiCall, Kernel, MemoryCopy, MemorySet, Placement, copy_label, memory_label};
pub use names::{Name, Names};
pub use ranges::{NvtxRange, NvtxRanges, RangeStyle};
pub use report::{
    Column, CsvSink, KernelName, Report, ReportKind, ReportTable, Sink, TimeUnit, Unit, Units, UnknownReport,
    Value,
};
pub use rules::{Rule, UnknownRule};
pub use schema::Schema;
pub use stats::Summary;
pub use trace::{Trace, Warning};

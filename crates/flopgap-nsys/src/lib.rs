#![doc = include_str!("../README.md")]

mod attribution;
mod correlation;
mod error;
pub mod export;
mod fold;
mod gpu_work;
mod hierarchy;
mod ids;
mod in_time;
mod launches;
mod model;
mod names;
mod nesting;
mod operations;
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

pub use attribution::{AttributeBy, Attribution, GpuActivity, GpuWork, RangeWork};
pub use error::Error;
pub use fold::fold_name;
pub use ids::GlobalId;
pub use model::{ApiCall, Kernel, MemoryCopy, MemorySet, Placement, copy_label, memory_label};
pub use names::{Name, Names};
pub use operations::OperationTimes;
pub use ranges::{NvtxRange, NvtxRanges, RangeStyle};
pub use report::{
    Column, CsvSink, KernelName, Report, ReportKind, ReportOptions, ReportTable, Sink, TimeUnit, Unit, Units,
    UnknownReport, Value,
};
pub use rules::{Rule, UnknownRule};
pub use schema::Schema;
pub use stats::Summary;
pub use trace::{Trace, Warning};

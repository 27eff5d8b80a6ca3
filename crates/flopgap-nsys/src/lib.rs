#![doc = include_str!("../README.md")]

mod annotations;
mod attribution;
mod correlation;
mod covered;
mod error;
pub mod export;
mod filter;
mod fold;
mod gpu_work;
mod hierarchy;
mod ids;
mod in_time;
mod kernel_name;
mod kinds;
mod launched;
mod launches;
mod names;
mod nesting;
mod operations;
mod owners;
mod problems;
mod ranges;
mod repeats;
mod report;
mod round;
mod row;
mod rows;
mod rules;
mod schema;
mod stats;
mod strings;
mod tables;
mod trace;
mod warning;

pub use annotations::{Annotation, AnnotationKind, Annotations};
pub use attribution::{AttributeBy, Attribution, GpuActivity, GpuWork, RangeWork};
pub use error::{Error, Found};
pub use filter::{Filter, InvalidTime};
pub use flopgap_hint::Hint;
pub use fold::fold_name;
pub use ids::GlobalId;
pub use kernel_name::KernelName;
pub use launched::{Launched, Unlaunched, WorkSum};
pub use names::{Name, Names};
pub use operations::{OperationTimes, PlaceTimes};
pub use problems::Problem;
pub use ranges::{NvtxRange, NvtxRanges, RangeName, RangeNames, RangeStyle};
pub use report::{
    Column, CsvSink, Report, ReportKind, ReportOptions, ReportTable, Sink, TimeUnit, Unit, Units,
    UnknownReport, Value,
};
pub use rows::RowsOf;
pub use rules::{AppliedRule, InvalidRule, Rule, RuleOptions, UnknownRule};
pub use schema::Schema;
pub use stats::Summary;
pub use tables::{
    ApiCall, Context, CpuPageFault, CudaDevice, CudaEvent, Diagnostic, Gpu, GpuPageFault, GraphCreation,
    GraphPart, GraphRun, Kernel, MemoryCopy, MemorySet, Metadata, Migration, NvtxEvent, NvtxKind,
    NvtxPayload, NvtxText, OsCall, Placement, Process, ProfilerOverhead, Session, Stream, Synchronization,
    ThreadName, access_label, copy_label, memory_label, migration_label, severity_label, stream_label,
    sync_label,
};
pub use trace::Trace;
pub use warning::{Oddity, Warning};

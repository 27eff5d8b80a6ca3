#![doc = include_str!("../README.md")]

mod annotations;
mod attribution;
mod error;
pub mod export;
mod filter;
mod gpu_work;
mod hierarchy;
mod in_time;
mod kernel_name;
mod launched;
mod launches;
mod operations;
mod problems;
mod ranges;
mod recording;
mod repeats;
mod report;
mod round;
mod row;
mod rows;
mod rules;
mod schema;
mod strings;
mod tables;
mod trace;
mod warning;

pub use annotations::{Annotation, AnnotationKind, Annotations};
pub use attribution::RangeWork;
pub use error::{Error, Found};
pub use filter::{Filter, InvalidTime};
pub use flopgap_hint::Hint;
pub use flopgap_trace::{
    AttributeBy, Attribution, GlobalId, GpuActivity, GpuWork, Launched, Name, Names, OperationTimes,
    PlaceTimes, Range as NvtxRange, RangeName, RangeNames, RangeStyle, Ranges as NvtxRanges, Summary,
    Unlaunched, WorkSum, fold_name,
};
pub use kernel_name::KernelName;
pub use problems::Problem;
pub use report::{
    Column, CsvSink, Report, ReportKind, ReportOptions, ReportTable, Sink, TimeUnit, Unit, Units,
    UnknownReport, Value,
};
pub use rows::RowsOf;
pub use rules::{AppliedRule, InvalidRule, Rule, RuleOptions, UnknownRule};
pub use schema::Schema;
pub use tables::{
    ApiCall, Context, CpuPageFault, CudaDevice, CudaEvent, Diagnostic, Gpu, GpuPageFault, GraphCreation,
    GraphPart, GraphRun, Kernel, MemoryCopy, MemorySet, Metadata, Migration, NvtxEvent, NvtxKind,
    NvtxPayload, NvtxText, OsCall, Placement, Process, ProfilerOverhead, Session, Stream, Synchronization,
    ThreadName, access_label, copy_label, memory_label, migration_label, severity_label, stream_label,
    sync_label,
};
pub use trace::Trace;
pub use warning::{Oddity, Warning};

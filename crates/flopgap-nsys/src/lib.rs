#![doc = include_str!("../README.md")]

mod annotations;
mod error;
pub mod export;
mod filter;
mod gpu_activity;
mod gpu_work;
mod hierarchy;
mod in_time;
mod job;
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
pub mod sqlite;
mod strings;
mod tables;
mod trace;
mod warning;

pub use annotations::{Annotation, AnnotationKind, Annotations};
pub use error::{Error, Found};
pub use filter::{Filter, InvalidTime};
pub use flopgap_files::Hint;
pub use flopgap_trace::{
    AttributeBy, Attribution, ContextId, CorrelationId, DeviceId, Dim3, DomainId, EventId, GpuActivity,
    GpuId, GpuWork, GraphExecId, GraphId, GraphNodeId, Launched, Name, Names, OperationTimes, PlaceTimes,
    ProcessId, Range as NvtxRange, RangeId, RangeName, RangeNames, RangeStyle, Ranges as NvtxRanges,
    StreamId, StringId, Summary, ThreadId, Unlaunched, WorkSum, fold_name,
};
pub use job::Job;
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
    AccessKind, ApiCall, ApiClass, CopyKind, CpuPageFault, CudaDevice, Diagnostic, DiagnosticClock,
    DiagnosticSource, Gpu, GpuPageFault, GraphRun, Kernel, MemoryCopy, MemoryKind, MemorySet, Metadata,
    NvtxKind, OsCall, OsClass, Placement, Process, ProfilerOverhead, Session, Severity, SyncKind,
    Synchronization, ThreadName,
};
pub use trace::Trace;
pub use warning::{Oddity, Warning};

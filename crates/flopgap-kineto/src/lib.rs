#![doc = include_str!("../README.md")]

mod error;
mod event;
pub mod formula;
mod frame;
mod host;
mod job;
mod json;
mod part;
mod reader;
mod recognize;
mod recorded;
mod trace;
mod xla;

pub use error::Error;
pub use job::{Job, Process};
pub use part::Part;
pub use reader::Options;
pub use recognize::is_trace;
pub use trace::{
    Annotation, AnnotationKind, Call, Device, Distributed, GpuKind, GpuWork, Operator, OperatorTotal,
    Profiler, Source, Thread, Trace, Warning, WarningKind,
};

#![doc = include_str!("../README.md")]

mod activity;
mod attribution;
mod correlation;
mod covered;
mod dim3;
mod fold;
mod ids;
mod kinds;
mod launched;
mod names;
mod nesting;
mod operations;
mod owners;
mod ranges;
mod recording;
mod self_time;
mod stats;
mod work;

pub use activity::Activities;
pub use attribution::{AttributeBy, Attribution, GpuActivity, GpuWork};
pub use correlation::{CorrelationIds, Correlations};
pub use covered::{Added, Covered};
pub use dim3::Dim3;
pub use fold::fold_name;
pub use ids::{
    ContextId, CorrelationId, DeviceId, DomainId, EventId, ExternalId, GpuId, GraphExecId, GraphId,
    GraphNodeId, ProcessId, RangeId, StreamId, StringId, ThreadId,
};
pub use kinds::Kinds;
pub use launched::{Collecting, Launched, Piece, Unlaunched, WorkSum};
pub use names::{Name, Names};
pub use nesting::{LaunchCalls, Nesting};
pub use operations::{OperationSums, OperationTimes, PlaceTimes};
pub use owners::{Interval, Owners, OwnersByThread};
pub use ranges::{Range, RangeName, RangeNames, RangeStyle, Ranges};
pub use recording::{
    ActivitySample, ApiCall, ClockCorrection, ClockSample, Copied, CountedKernel, CountedOperations,
    CountedStep, Frame, GpuNumber, Joined, Memory, Operation, Overhead, RankGroup, ReadError, Recording,
    common_name,
};
pub use stats::{Summary, Values};
pub use work::{Work, WorkKind};

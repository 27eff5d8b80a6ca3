#![doc = include_str!("../README.md")]

mod analyze;
mod config;
mod error;
mod fill;
mod lock;
mod manifest;
mod meter;
mod metrics;
mod plan;
mod problem;
mod raw;
mod record;
mod session;

pub use analyze::{RunAnalysis, analyze};
pub use config::Config;
pub use error::{Holder, Occupant, RunError};
pub use fill::{Event, Filled};
pub use flopgap_cluster::{Shard, ShardError};
pub use manifest::{FORMAT, Grid, Manifest, Origin, OriginDifference, OriginPart, VERSION};
pub use meter::{Backend, Meter, MeterError};
pub use metrics::{MetricsRow, read_metrics, write_metrics};
pub use plan::{MAX_CONFIGS, MAX_SIZE, PlanError, Sizes};
pub use problem::{Problem, ProblemGroup, ProblemKind};
pub use raw::{Ignored, RawFiles, Stage, is_record, parse_file_name};
pub use record::{
    Quantity, RECORD_ENDING, RECORD_FORMAT, RECORD_VERSION, Record, RecordComparison, RecordDifference,
    RecordError, RecordFault, RecordedLaunch,
};
pub use session::{Outstanding, Session, Worker};

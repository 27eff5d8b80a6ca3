#![doc = include_str!("../../docs/sweep.md")]

mod analyze;
mod config;
mod error;
mod fill;
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
pub use error::{RunError, RunFault};
pub use fill::{Event, Filled};
pub use flopgap_files::run::Shard;
pub use manifest::{Grid, Manifest, Origin, OriginDifference, OriginPart};
pub use meter::{Backend, Meter, MeterError};
pub use metrics::{MetricsRow, read_metrics, write_metrics};
pub use plan::{MAX_CONFIGS, MAX_SIZE, PlanError, Sizes};
pub use problem::{Problem, ProblemKind};
pub use raw::{RawFiles, Stage, is_record, parse_file_name};
pub use record::{Quantity, Record, RecordComparison, RecordError, RecordFault, RecordedLaunch};
pub use session::{Outstanding, Session, Worker};

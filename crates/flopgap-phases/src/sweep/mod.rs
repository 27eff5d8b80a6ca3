#![doc = include_str!("../../docs/sweep.md")]

#[cfg(feature = "workers")]
mod analyze;
mod config;
mod error;
#[cfg(feature = "workers")]
mod fill;
mod manifest;
mod meter;
#[cfg(feature = "workers")]
mod metrics;
mod plan;
mod problem;
mod raw;
mod record;
#[cfg(feature = "workers")]
mod session;

#[cfg(feature = "workers")]
pub use analyze::{Launches, RunAnalysis, analyze};
pub use config::Config;
pub use error::{RunError, RunFault};
#[cfg(feature = "workers")]
pub use fill::{Event, Filled};
pub use flopgap_files::run::Shard;
pub use manifest::{Grid, Manifest, Origin, OriginDifference, OriginPart};
pub use meter::{Backend, Meter, MeterError};
#[cfg(feature = "workers")]
pub use metrics::{MetricsRow, read_metrics, write_metrics};
pub use plan::{MAX_CONFIGS, MAX_SIZE, PlanError, Sizes};
pub use problem::{Problem, ProblemKind};
pub use raw::{RawFiles, Stage, is_record, parse_file_name};
pub use record::{Quantity, Record, RecordComparison, RecordError, RecordFault, RecordedLaunch};
#[cfg(feature = "workers")]
pub use session::{Outstanding, Session, Worker};

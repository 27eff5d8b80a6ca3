#![doc = include_str!("../README.md")]

mod analyze;
mod config;
mod error;
mod fill;
mod journal;
mod manifest;
mod meter;
mod metrics;
mod plan;
mod raw;
mod record;
mod session;

pub use analyze::{Problem, RunAnalysis, analyze, analyze_with};
pub use config::Config;
pub use error::RunError;
pub use fill::{Event, Filled};
pub use journal::{Entry, JOURNAL_FORMAT, JOURNAL_VERSION, JournalContents, read_journal};
pub use manifest::{FORMAT, Grid, Manifest, Origin, OriginDifference, VERSION};
pub use meter::{Backend, Meter, MeterError};
pub use metrics::{MetricsRow, read_metrics, write_metrics};
pub use plan::{MAX_CONFIGS, MAX_SIZE, PlanError, Shard, Sizes};
pub use raw::{RawFiles, Stage, is_record, parse_file_name};
pub use record::{
    Quantity, RECORD_ENDING, RECORD_FORMAT, RECORD_VERSION, Record, RecordError, RecordedLaunch,
};
pub use session::{Outstanding, Session, Worker};

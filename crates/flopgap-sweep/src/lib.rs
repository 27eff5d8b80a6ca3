#![doc = include_str!("../README.md")]

mod analyze;
mod config;
mod error;
mod manifest;
mod metrics;
mod raw;

pub use analyze::{Problem, RunAnalysis, analyze};
pub use config::Config;
pub use error::RunError;
pub use manifest::{FORMAT, Grid, Manifest, Origin, VERSION};
pub use metrics::{MetricsRow, read_metrics, write_metrics};
pub use raw::{RawFiles, Stage, parse_file_name};

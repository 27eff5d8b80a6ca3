#![doc = include_str!("../README.md")]

mod error;
mod export;
#[allow(dead_code, clippy::duplicate_mod, reason = "the injected library has a copy of its own")]
mod format;
mod gpm;
#[cfg(all(test, target_os = "linux"))]
mod library;
mod reader;
mod session;

pub use error::RecordError;
pub use export::{Cause, Exported, Loss, export, export_between};
pub use gpm::{GpmSample, write_gpm};
pub use session::{
    CUPTI_VARIABLE, Counted, Counters, DIRECTORY_VARIABLE, Graphs, Options, Session, counting_failed,
    is_counting, switch, wait_for_records, wait_for_switch,
};

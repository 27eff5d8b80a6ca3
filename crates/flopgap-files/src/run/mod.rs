//! What run directories have in common: a plan that many processes share, locks, and JSON files
//! with a format and a version.
//!
//! A [`Shard`] is the I-th of K parts of a plan. Every process computes its part from the plan
//! alone, so there is no coordinator:
//!
//! ```
//! use flopgap_files::run::{Opening, Shard};
//!
//! fn main() -> Result<(), Box<dyn std::error::Error>> {
//!     let plan = ["a", "b", "c", "d", "e"];
//!     let shard: Shard = "2/3".parse()?;
//!     assert_eq!(shard.deal(plan).collect::<Vec<_>>(), ["b", "e"]);
//!
//!     // No other process measures these two while the lock lives.
//!     let run = tempfile::tempdir()?;
//!     let lock = Opening::wait(run.path())?.claim(shard)?;
//!     let error = Opening::wait(run.path())?.claim(Shard::WHOLE).unwrap_err();
//!     assert!(error.to_string().contains(&format!("process {}", std::process::id())));
//!     drop(lock);
//!     Ok(())
//! }
//! ```
//!
//! A task of a Slurm job array has the shard that its numbers say: [`Shard::of_slurm_task`]. A
//! `kill -9` leaves no stale lock: the system releases it with the process.
//!
//! A [`Format`] reads and writes JSON files that begin with `format` and `version`; another version
//! is refused by name.

mod format;
mod lock;
mod shard;

pub use format::{Format, FormatError, FormatFault};
pub use lock::{Holder, LOCKS, Lock, LockError, Opening};
pub use shard::{Shard, ShardError};

/// The time in RFC 3339 (UTC), to the second.
pub fn now() -> String {
    humantime::format_rfc3339_seconds(std::time::SystemTime::now()).to_string()
}

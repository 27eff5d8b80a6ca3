#![doc = include_str!("../README.md")]

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

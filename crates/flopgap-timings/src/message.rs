//! Kernels that communicate.

use serde::{Deserialize, Serialize};

/// A kernel that communicates.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Call {
    pub(crate) start: i64,
    pub(crate) end: i64,
    /// The size of its message.
    pub(crate) bytes: Option<u64>,
    /// How many bytes its rank gives and gets.
    pub(crate) exchanged: Option<[u64; 2]>,
}

/// Why the time of kernels that communicate is not divided.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Why {
    /// Not all ranks that take part were recorded together.
    NotAllRanks,
    /// Ranks ran different numbers of them.
    Unmatched,
    /// Those that would be one did not run at the same time: the clocks of the ranks differ, or
    /// they are not one.
    NotTogether,
    /// Nothing says that every rank needs all others, as where they send, receive or broadcast.
    NotOfAll,
}

//! What is measured of steps and passes.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A time of a step or pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Measure {
    /// From its beginning to that of the next one.
    Period,
    /// On the host, from its beginning to its end.
    Wall,
    /// From its first to its last GPU operation.
    Projected,
    /// The time in which at least one of its GPU operations ran.
    Busy,
}

impl fmt::Display for Measure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Measure::Period => "period",
            Measure::Wall => "wall time",
            Measure::Projected => "projected GPU time",
            Measure::Busy => "GPU busy time",
        })
    }
}

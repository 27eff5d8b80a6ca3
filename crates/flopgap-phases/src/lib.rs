#![doc = include_str!("../README.md")]

mod analysis;
mod arithmetic;
mod attribution;
mod breakdown;
mod ceiling;
mod contradiction;
mod cut;
mod error;
mod launch;
mod missing;
mod pass;
mod phase;
mod profile;
mod recording;
mod repeat;
mod report;
mod sequence;
mod sizes;
mod split;
mod structure;
#[cfg(feature = "sweep")]
pub mod sweep;
mod totals;
mod warning;

pub use analysis::{Analysis, Strictness};
pub use arithmetic::arithmetic;
pub use attribution::Matches;
pub use breakdown::{Breakdown, Cause, Step};
pub use ceiling::Gpu;
pub use contradiction::{Clue, Contradiction, LaunchKind, SizeEvidence};
pub use cut::{PhaseLaunches, Phases};
pub use error::PhaseError;
pub use launch::{LaunchName, NumberedLaunch};
pub use missing::{Missing, MissingCounters, Place};
pub use pass::PassAnalysis;
pub use phase::Phase;
pub use profile::{KernelProfile, Profile, Whole};
pub use recording::{CountedLaunch, Kernel, KernelId, Recording};
pub use sequence::Sequence;
pub use split::{KernelTotal, PhaseFlops, Share};
pub use totals::{Sum, Totals};
pub use warning::Warning;

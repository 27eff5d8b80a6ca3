#![doc = include_str!("../README.md")]

mod analysis;
mod arithmetic;
mod breakdown;
mod contradiction;
mod cut;
mod error;
mod gap;
mod launch;
mod phase;
mod profile;
mod recording;
mod repeat;
mod report;
mod sequence;
mod sizes;
mod split;
mod structure;
mod warning;

pub use analysis::{Analysis, PassAnalysis, Strictness};
pub use arithmetic::arithmetic;
pub use breakdown::{Breakdown, Cause, Step};
pub use contradiction::{Clue, Contradiction, LaunchKind, SizeEvidence};
pub use cut::{PhaseLaunches, Phases};
pub use error::PhaseError;
pub use gap::{Gap, Missing, Place};
pub use launch::{LaunchName, NumberedLaunch};
pub use phase::Phase;
pub use profile::{KernelProfile, Profile, Sum, Totals};
pub use recording::{CountedLaunch, Kernel, KernelId, Recording};
pub use sequence::Sequence;
pub use split::{KernelTotal, PhaseFlops, Share};
pub use warning::Warning;

#![doc = include_str!("../README.md")]

mod analysis;
mod breakdown;
mod cut;
mod error;
mod phase;
mod profile;
mod recording;
mod report;
mod split;

pub use analysis::{Analysis, PassAnalysis};
pub use breakdown::{Breakdown, Cause, Step};
pub use cut::{PhaseLaunches, Phases};
pub use error::PhaseError;
pub use phase::Phase;
pub use profile::{KernelProfile, Profile, Sum, Totals};
pub use recording::{CountedLaunch, Kernel, KernelId, Recording};
pub use split::{KernelTotal, PhaseFlops, Share};

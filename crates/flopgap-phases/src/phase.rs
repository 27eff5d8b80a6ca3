//! The three phases of a profiled run.

use std::fmt;

use flopgap_ncu::{LaunchView, NvtxRange, Strings};

use crate::attribution::with_main_thread;

/// A part of a profiled run of one network.
///
/// A program is profiled up to the end of a phase, so the forward run holds setup and forward, and
/// the forward+backward run all three.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Phase {
    /// Making weights and inputs: random numbers, copies.
    Setup,
    /// The forward pass.
    Forward,
    /// The loss and the backward pass.
    Backward,
}

impl Phase {
    /// All phases, in the order in which they run.
    pub const ALL: [Phase; 3] = [Phase::Setup, Phase::Forward, Phase::Backward];

    /// The name of the phase, which is also the name of the NVTX range that marks it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Phase::Setup => "setup",
            Phase::Forward => "forward",
            Phase::Backward => "backward",
        }
    }

    /// The phase that an NVTX range of this name marks; upper and lower case do not matter.
    ///
    /// ```
    /// use flopgap_phases::Phase;
    /// assert_eq!(Phase::of_range("Forward"), Some(Phase::Forward));
    /// assert_eq!(Phase::of_range("forward_hook"), None);
    /// ```
    pub fn of_range(name: &str) -> Option<Phase> {
        Phase::ALL.into_iter().find(|phase| name.eq_ignore_ascii_case(phase.as_str()))
    }

    /// The phase of a launch: that of the outermost range around it that marks one. Where no range
    /// of its own thread marks one, the main thread's does, if the report lists them.
    pub(crate) fn of_launch(launch: LaunchView<'_>) -> Option<Phase> {
        Phase::of_ranges(&launch.nvtx, launch.strings)
            .or_else(|| Phase::of_ranges(&with_main_thread(launch), launch.strings))
    }

    /// The phase that the outermost of some ranges marks, of those that mark one.
    pub fn of_ranges(ranges: &[NvtxRange], strings: &Strings) -> Option<Phase> {
        ranges.iter().find_map(|range| Phase::of_range(strings.get(range.name)))
    }
}

impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

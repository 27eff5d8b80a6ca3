//! Measures the ceilings of this machine.

pub mod cpu;
pub mod cuda;
mod error;
mod levels;

pub use error::ProbeError;

use crate::Peak;

/// Sorted by precision, the fastest peak of each first.
fn sort(peaks: &mut [Peak]) {
    let rate = |peak: &Peak| peak.ops_per_second.value;
    peaks.sort_by(|a, b| a.precision.cmp(&b.precision).then(rate(b).total_cmp(&rate(a))));
}

/// A callback for progress: `bandwidth over 64 MiB`.
pub type Progress<'a> = &'a mut dyn FnMut(&str);

//! Ceilings of this machine, measured.

pub mod cpu;
pub mod cuda;
mod error;
mod levels;
mod statistics;

pub use error::ProbeError;

use crate::Peak;

/// By precision, of each the fastest first.
fn sort(peaks: &mut [Peak]) {
    let rate = |peak: &Peak| peak.ops_per_second.value;
    peaks.sort_by(|a, b| a.precision.cmp(&b.precision).then(rate(b).total_cmp(&rate(a))));
}

/// Hears what is measured next, to show it: `bandwidth over 64 MiB`.
pub type Progress<'a> = &'a mut dyn FnMut(&str);

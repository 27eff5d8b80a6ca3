//! The cost of an empty launch.

use flopgap_gpu::Stream;
use flopgap_gpu::timing::{Repetitions, launches, replays};

use super::super::{ProbeError, Progress};
use super::kernels::Kernels;
use crate::Quantity;

/// Launches of a measurement, one behind the other.
const IN_A_ROW: u32 = 1000;

/// Nanoseconds of a launch on a stream, and of a node of a graph.
pub(super) fn measure(
    kernels: &Kernels,
    stream: &Stream,
    progress: Progress<'_>,
) -> Result<(Quantity, Quantity), ProbeError> {
    progress("launches");
    let in_a_row = launches(stream, Repetitions { warmup: 2, measured: 15 }, || {
        (0..IN_A_ROW).try_for_each(|_| kernels.queue_empty(stream))
    })?;
    let launch = in_a_row.sorted().iter().map(|all| all / f64::from(IN_A_ROW)).collect();
    let node = replays(stream, Repetitions { warmup: 3, measured: 31 }, || kernels.queue_empty(stream))?;
    let nothing = || ProbeError::Start { reason: "no launch was timed".to_owned() };
    Ok((Quantity::of(launch).ok_or_else(nothing)?, Quantity::of(node.sorted().to_vec()).ok_or_else(nothing)?))
}

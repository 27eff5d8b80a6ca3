//! Work that is captured once and timed as often as wanted.

use crate::error::GpuError;
use crate::graph::Graph;
use crate::stream::Stream;

use super::{Repetitions, Samples, durations, pairs};

/// Below this, what a graph takes is measured as the slope between two graphs: the driver resolves
/// half a microsecond, and beginning a graph takes several.
const SHORT_NANOSECONDS: u64 = 50_000;
/// How long the shorter of the two graphs should take, and how many copies it has at most.
const GRAPH_NANOSECONDS: u64 = 150_000;
const MOST_COPIES: u64 = 100;

/// Graphs of some work, for measurements that go on until they are good enough: see
/// [`replays`](super::replays).
#[derive(Debug)]
pub struct Replay {
    stream: Stream,
    graphs: Graphs,
}

#[derive(Debug)]
enum Graphs {
    Single(Graph),
    /// Of k and 2k copies.
    Slope {
        few: Graph,
        many: Graph,
        copies: u64,
    },
}

impl Replay {
    /// Runs the work once, then captures it: once, or where it takes less than 50 µs k times and 2k
    /// times. What `work` allocates must be allocated before.
    ///
    /// # Errors
    /// The error of `work`; the driver's.
    pub fn new<E: From<GpuError>>(
        stream: &Stream,
        mut work: impl FnMut() -> Result<(), E>,
    ) -> Result<Self, E> {
        // What is loaded at first use must be loaded before the capture.
        work()?;
        stream.synchronize()?;
        Self::prepared(stream, &mut work)
    }

    /// The same of work that has run before.
    pub(super) fn prepared<E: From<GpuError>>(
        stream: &Stream,
        work: &mut impl FnMut() -> Result<(), E>,
    ) -> Result<Self, E> {
        let single = stream.capture(&mut *work)?;
        let of = |warmup, measured| Repetitions { warmup, measured };
        let mut once = Samples::new(durations(stream, of(1, 1), &single)?).median();
        if once < 10.0 * SHORT_NANOSECONDS as f64 {
            once = Samples::new(durations(stream, of(2, 5), &single)?).median();
        }
        if once >= SHORT_NANOSECONDS as f64 {
            return Ok(Replay { stream: stream.clone(), graphs: Graphs::Single(single) });
        }
        let copies = (GRAPH_NANOSECONDS as f64 / once.max(1.0)).ceil().clamp(2.0, MOST_COPIES as f64);
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "from 2 to MOST_COPIES")]
        let copies = copies as u64;
        let mut graph_of = |copies: u64| stream.capture(|| (0..copies).try_for_each(|_| work()));
        let (few, many) = (graph_of(copies)?, graph_of(2 * copies)?);
        Ok(Replay { stream: stream.clone(), graphs: Graphs::Slope { few, many, copies } })
    }

    /// Times the work: nanoseconds of a run, in the order of measurement.
    ///
    /// Pairs of graphs that the host was late for are left out: there are fewer measurements then
    /// than were requested, but at least one.
    ///
    /// # Errors
    /// The driver's.
    pub fn nanoseconds(&self, repetitions: Repetitions) -> Result<Vec<f64>, GpuError> {
        match &self.graphs {
            Graphs::Single(graph) => durations(&self.stream, repetitions, graph),
            Graphs::Slope { few, many, copies } => {
                // The pair before the first fills the queue: the device must not wait for the host.
                let repetitions = Repetitions { warmup: repetitions.warmup.max(1), ..repetitions };
                Ok(slopes(&pairs(&self.stream, repetitions, few, many)?, *copies as f64))
            }
        }
    }

    /// Runs that [`Replay::launch`] queues.
    pub fn runs(&self) -> u64 {
        match &self.graphs {
            Graphs::Single(_) => 1,
            Graphs::Slope { copies, .. } => 2 * copies,
        }
    }

    /// Queues the graph, the larger one of two.
    ///
    /// # Errors
    /// As [`Graph::launch`].
    pub fn launch(&self) -> Result<(), GpuError> {
        match &self.graphs {
            Graphs::Single(graph) | Graphs::Slope { many: graph, .. } => graph.launch(),
        }
    }
}

/// Nanoseconds of a run, from those of k and of 2k runs.
///
/// What a launch costs once is in both, so that the slope is at most the mean over the 2k runs, and
/// not far below it: k runs take ten times what a launch costs. Where the host was late, one of
/// both holds the wait. If it always was, the mean is what is known: no less was taken.
fn slopes(pairs: &[(f64, f64)], copies: f64) -> Vec<f64> {
    let mean = |long: f64| long / (2.0 * copies);
    let slope = |&(short, long): &(f64, f64)| {
        let slope = (long - short) / copies;
        (slope > 0.5 * mean(long) && slope < 1.25 * mean(long)).then_some(slope)
    };
    let found: Vec<f64> = pairs.iter().filter_map(slope).collect();
    if found.is_empty() { pairs.iter().map(|&(_, long)| mean(long)).collect() } else { found }
}

#[cfg(test)]
mod tests {
    use super::slopes;

    #[test]
    fn launches_are_taken_off_and_disturbed_pairs_left_out() {
        // 100 and 200 runs of 1 µs, and a launch of 10 µs.
        let quiet = (110_000.0, 210_000.0);
        assert_eq!(slopes(&[quiet, quiet], 100.0), [1000.0, 1000.0]);
        // The host was 300 µs late for the first graph, or for the second.
        let late = [(410_000.0, 210_000.0), quiet, (110_000.0, 510_000.0)];
        assert_eq!(slopes(&late, 100.0), [1000.0]);
        // Always: an upper bound instead of nonsense.
        assert_eq!(slopes(&late[..1], 100.0), [1050.0]);
        assert!(slopes(&[], 100.0).is_empty());
    }
}

//! Work that is captured once and timed as often as wanted.

use crate::error::GpuError;
use crate::graph::Graph;
use crate::stream::Stream;

use super::{Repetitions, Samples, differences, durations};

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
    /// # Errors
    /// The driver's.
    pub fn nanoseconds(&self, repetitions: Repetitions) -> Result<Vec<f64>, GpuError> {
        match &self.graphs {
            Graphs::Single(graph) => durations(&self.stream, repetitions, graph),
            Graphs::Slope { few, many, copies } => differences(&self.stream, repetitions, few, many, *copies),
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

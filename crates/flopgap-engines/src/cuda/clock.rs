//! How long a run takes, launched or in a graph.

use std::time::{Duration, Instant};

use flopgap_calibration::Timing;
use flopgap_gpu::timing::{Repetitions, Replay, host_calls};
use flopgap_gpu::{Event, Stream};
use flopgap_graph::Mode;

use crate::engine::Repetition;
use crate::error::EngineError;
use crate::repeat::repeat;

/// A sample of launches is of so many runs that it takes about this long: events cost microseconds.
const SAMPLE: Duration = Duration::from_micros(300);

/// How long the device works before it is timed.
const WARM: Duration = Duration::from_millis(5);

/// Runs of a sample at most.
const MOST_RUNS: u64 = 500;

/// How long the device works on what is queued before the host waits for it, in a window without a
/// clock.
const AHEAD: Duration = Duration::from_millis(20);

/// Queues one run.
pub(super) type Run<'r> = dyn FnMut() -> Result<(), EngineError> + 'r;

/// Times runs on a stream. The graphs of a run are kept, so it must always be given the same one.
pub(super) struct Clock {
    stream: Stream,
    mode: Mode,
    replay: Option<Replay>,
}

impl Clock {
    pub(super) fn new(stream: &Stream, mode: Mode) -> Self {
        Clock { stream: stream.clone(), mode, replay: None }
    }

    fn replay(&mut self, run: &mut Run<'_>) -> Result<&Replay, EngineError> {
        let replay = match self.replay.take() {
            Some(replay) => replay,
            None => Replay::new(&self.stream, run)?,
        };
        Ok(self.replay.insert(replay))
    }

    /// Nanoseconds of a run by the host's clock: from one of a long run, from the median of some
    /// short ones.
    fn once(&self, run: &mut Run<'_>) -> Result<f64, EngineError> {
        let first = host_calls(&self.stream, Repetitions { warmup: 0, measured: 1 }, &mut *run)?.median();
        if first > WARM.as_nanos() as f64 {
            return Ok(first);
        }
        Ok(host_calls(&self.stream, Repetitions { warmup: 0, measured: 5 }, run)?.median())
    }

    /// Runs until the device has worked for a while, so that its clocks are up, and so often at
    /// least unless that takes long.
    fn warm_up(&self, least: u64, once: f64, run: &mut Run<'_>) -> Result<(), EngineError> {
        let runs = runs_of(WARM, once);
        let least = least.min(runs_of(WARM * 4, once));
        (0..runs.max(least)).try_for_each(|_| run())?;
        Ok(self.stream.synchronize()?)
    }

    /// Times runs until the interval is narrow enough or the limit is reached. In a graph: what the
    /// device takes. On a stream: what passes from one run to the next where a program launches
    /// them back to back.
    ///
    /// # Errors
    /// Those of `run`; the driver's.
    pub(super) fn time(&mut self, limit: &Repetition, run: &mut Run<'_>) -> Result<Timing, EngineError> {
        let once = self.once(run)?;
        self.warm_up(limit.warmup, once, run)?;
        if self.mode == Mode::Graph {
            let replay = self.replay(run)?;
            return repeat(limit, |measured| Ok(replay.nanoseconds(Repetitions { warmup: 0, measured })?));
        }
        let runs = runs_of(SAMPLE, once);
        repeat(limit, |samples| launched(&self.stream, run, runs, samples))
    }

    /// Runs for at least this long, and says how many runs that were.
    ///
    /// # Errors
    /// Those of `run`; the driver's.
    pub(super) fn run_for(&mut self, duration: Duration, run: &mut Run<'_>) -> Result<u64, EngineError> {
        let once = self.once(run)?;
        let stream = self.stream.clone();
        if self.mode == Mode::Graph {
            let replay = self.replay(run)?;
            let launches = runs_of(AHEAD, once).div_ceil(replay.runs());
            let batches =
                batches(&stream, duration, || Ok((0..launches).try_for_each(|_| replay.launch())?))?;
            return Ok(batches * launches * replay.runs());
        }
        let runs = runs_of(AHEAD, once);
        Ok(runs * batches(&stream, duration, || (0..runs).try_for_each(|_| run()))?)
    }
}

/// Queues batches, one of which the device works on while the next is queued, for at least this
/// long; says how many.
fn batches(
    stream: &Stream,
    duration: Duration,
    mut batch: impl FnMut() -> Result<(), EngineError>,
) -> Result<u64, EngineError> {
    let start = Instant::now();
    let mut before: Option<Event> = None;
    let mut count = 0;
    while start.elapsed() < duration {
        batch()?;
        count += 1;
        let end = stream.event()?;
        if let Some(before) = before.replace(end) {
            before.synchronize()?;
        }
    }
    stream.synchronize()?;
    Ok(count)
}

/// Runs that take about this long.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "clamped")]
fn runs_of(duration: Duration, once: f64) -> u64 {
    (duration.as_nanos() as f64 / once.max(1.0)).ceil().clamp(1.0, MOST_RUNS as f64) as u64
}

/// Times launches back to back: events between groups of runs, none of which waits for the host.
fn launched(stream: &Stream, run: &mut Run<'_>, runs: u64, samples: usize) -> Result<Vec<f64>, EngineError> {
    // A group before the clock starts, so that the queue is as full as a program keeps it.
    (0..runs).try_for_each(|_| run())?;
    let mut events = vec![stream.event()?];
    for _ in 0..samples {
        (0..runs).try_for_each(|_| run())?;
        events.push(stream.event()?);
    }
    let of = |pair: &[Event]| Ok(pair[1].nanoseconds_since(&pair[0])? as f64 / runs as f64);
    events.windows(2).map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_are_long_enough_for_events() {
        assert_eq!(runs_of(SAMPLE, 3_000.0), 100);
        assert_eq!(runs_of(SAMPLE, 1e9), 1);
        assert_eq!(runs_of(SAMPLE, 0.0), MOST_RUNS);
    }
}

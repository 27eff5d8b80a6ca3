//! Times runs, launched or in a graph.

use std::time::{Duration, Instant};

use crate::Timing;
use crate::accuracy::median;
use flopgap_gpu::timing::{Repetitions, Replay, host_calls};
use flopgap_gpu::{Event, Stream};
use flopgap_graph::Mode;

use crate::engines::engine::Repetition;
use crate::engines::error::EngineError;
use crate::engines::repeat::repeat;

use super::launches::Launches;

/// A sample of launches is of so many runs that it takes about this long: events cost microseconds.
const SAMPLE: Duration = Duration::from_micros(600);

/// Where the host takes this part of the time to queue runs, the device waits for it. The rest is
/// what the first launch takes to arrive and the last to run.
const HOST_BOUND: f64 = 0.93;

/// How long the device works before it is timed.
const WARM: Duration = Duration::from_millis(5);

/// The most runs of a sample.
const MOST_RUNS: u64 = 500;

/// How long the device works on what is queued before the host waits for it, in a window without a
/// clock.
const AHEAD: Duration = Duration::from_millis(20);

/// Queues one run.
pub(super) type Run<'r> = dyn FnMut() -> Result<(), EngineError> + 'r;

/// Times runs on a stream. The graphs of a run are kept, so it must always be given the same one.
pub(super) struct Clock<'l> {
    stream: Stream,
    mode: Mode,
    launches: &'l Launches,
    replay: Option<Replay>,
}

impl<'l> Clock<'l> {
    pub(super) fn new(stream: &Stream, mode: Mode, launches: &'l Launches) -> Self {
        Clock { stream: stream.clone(), mode, launches, replay: None }
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
    /// them back to back; where the device waits for the host, in units of launches of an empty
    /// kernel next to it, times the best of these.
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
        let mut groups = Vec::new();
        let timing = repeat(limit, |samples| {
            let begin = groups.len();
            for _ in 0..samples {
                groups.push(launched(&self.stream, self.launches, run, runs)?);
            }
            Ok(groups[begin..].iter().map(Group::nanoseconds).collect())
        })?;
        let normalized = groups.iter().any(Group::waits_for_host);
        let wall = groups.iter().map(|group| group.device).collect();
        Ok(Timing { wall_ns: median(wall).filter(|_| normalized), ..timing })
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

/// The number of runs that take about this long.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "clamped")]
fn runs_of(duration: Duration, once: f64) -> u64 {
    (duration.as_nanos() as f64 / once.max(1.0)).ceil().clamp(1.0, MOST_RUNS as f64) as u64
}

/// A group of launches.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Group {
    /// Nanoseconds of a run on the device, from the first to the last.
    device: f64,
    /// Nanoseconds that the host took to queue a run.
    host: f64,
    /// From what a launch costs now to what it costs at best.
    factor: f64,
}

impl Group {
    /// Whether the device waited for the host, rather than the host for the device.
    fn waits_for_host(&self) -> bool {
        self.host >= HOST_BOUND * self.device
    }

    /// Nanoseconds of a run where launches are at their best.
    fn nanoseconds(&self) -> f64 {
        if self.waits_for_host() { self.device * self.factor } else { self.device }
    }
}

/// Times launches back to back, from an idle device on.
fn launched(
    stream: &Stream,
    launches: &Launches,
    run: &mut Run<'_>,
    runs: u64,
) -> Result<Group, EngineError> {
    let factor = launches.factor(stream)?;
    let start = stream.event()?;
    let begin = Instant::now();
    (0..runs).try_for_each(|_| run())?;
    let queued = begin.elapsed();
    let end = stream.event()?;
    let device = end.nanoseconds_since(&start)? as f64 / runs as f64;
    Ok(Group { device, host: queued.as_nanos() as f64 / runs as f64, factor })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_waits_for_the_host_is_in_units_of_launches() {
        let group = |device, host| Group { device, host, factor: 0.8 };
        assert!((group(10.0, 9.9).nanoseconds() - 8.0).abs() < 1e-12);
        assert!((group(100.0, 9.9).nanoseconds() - 100.0).abs() < 1e-12);
    }
    #[test]
    fn samples_are_long_enough_for_events() {
        assert_eq!(runs_of(SAMPLE, 3_000.0), 200);
        assert_eq!(runs_of(SAMPLE, 1e9), 1);
        assert_eq!(runs_of(SAMPLE, 0.0), MOST_RUNS);
    }
}

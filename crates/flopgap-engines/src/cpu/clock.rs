//! Times of runs on a CPU, in the unit of its reference kernels.

use std::time::{Duration, Instant};

use flopgap_calibration::Timing;

use super::references::{Reading, References};
use crate::engine::Repetition;

/// Short runs are timed several at a time, so that a sample takes at least this long.
const SAMPLE: Duration = Duration::from_micros(200);
/// What a sample holds at most.
const MOST_RUNS: u64 = 20_000;
/// The reference kernels leave the caches to themselves. Runs that take longer than this fill them
/// again in a small part of their time; before others there is a run that is not timed.
const LONG: Duration = Duration::from_millis(20);
/// The part of a sample's time that the kernels around it take, where they are repeated.
const REFERENCE_PART: f64 = 0.1;
const MOST_READINGS: f64 = 8.0;
/// Runs of a workload so slow that fewer than [`Repetition::least`] fit into the limit.
const FEWEST: u64 = 3;

/// One sample: nanoseconds of a run, and how slow the machine was around it.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Sample {
    wall: f64,
    slowdown: Reading,
}

impl Sample {
    /// What the run would have taken on a machine that is not disturbed.
    fn normalized(&self) -> f64 {
        // The geometric mean: a kernel of a network computes and reads.
        self.wall / (self.slowdown.compute * self.slowdown.memory).sqrt()
    }
}

/// Times `run` until the interval of the median is narrow enough or the limit is reached.
pub(crate) fn time<E>(
    references: &References,
    limit: &Repetition,
    mut run: impl FnMut() -> Result<(), E>,
) -> Result<Timing, E> {
    let begin = Instant::now();
    let mut once = one(&mut run)?;
    for _ in 1..limit.warmup {
        if begin.elapsed() * 5 > limit.limit {
            break;
        }
        once = once.min(one(&mut run)?);
    }
    let runs = (SAMPLE.as_nanos() as f64 / once.as_nanos().max(1) as f64).ceil();
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a count, limited")]
    let runs = (runs as u64).clamp(1, MOST_RUNS);
    let sample_ns = once.as_nanos() as f64 * runs as f64;

    let mut before = references.read(1);
    let times = (REFERENCE_PART * sample_ns / (before.compute + before.memory)).clamp(1.0, MOST_READINGS);
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "at most MOST_READINGS")]
    let times = times as u32;
    let mut samples: Vec<Sample> = Vec::new();
    loop {
        if once < LONG {
            run()?;
        }
        let start = Instant::now();
        for _ in 0..runs {
            run()?;
        }
        let wall = start.elapsed().as_nanos() as f64 / runs as f64;
        let after = references.read(times);
        let around = Reading {
            compute: f64::midpoint(before.compute, after.compute),
            memory: f64::midpoint(before.memory, after.memory),
        };
        samples.push(Sample { wall: wall.max(0.01), slowdown: references.slowdown(around) });
        before = after;

        let count = samples.len() as u64;
        let timing = summary(&samples, runs);
        let width = (timing.high_ns - timing.low_ns) / 2.0 / timing.median_ns;
        if count >= limit.least.max(2) && width <= limit.interval {
            return Ok(timing);
        }
        if count >= FEWEST && begin.elapsed() >= limit.limit {
            return Ok(Timing { capped: true, ..timing });
        }
    }
}

/// Runs for at least this long, and says how many runs that were.
pub(crate) fn run_for<E>(duration: Duration, mut run: impl FnMut() -> Result<(), E>) -> Result<u64, E> {
    let begin = Instant::now();
    let mut runs = 0;
    while runs == 0 || begin.elapsed() < duration {
        run()?;
        runs += 1;
    }
    Ok(runs)
}

fn one<E>(run: &mut impl FnMut() -> Result<(), E>) -> Result<Duration, E> {
    let start = Instant::now();
    run()?;
    Ok(start.elapsed().max(Duration::from_nanos(1)))
}

fn summary(samples: &[Sample], runs_of_sample: u64) -> Timing {
    let sorted = |of: fn(&Sample) -> f64| {
        let mut numbers: Vec<f64> = samples.iter().map(of).collect();
        numbers.sort_by(f64::total_cmp);
        numbers
    };
    let (normalized, walls) = (sorted(Sample::normalized), sorted(|sample| sample.wall));
    let (low_ns, high_ns) = interval(&normalized);
    Timing {
        median_ns: median(&normalized),
        low_ns,
        high_ns,
        minimum_ns: walls[0],
        runs: samples.len() as u64 * runs_of_sample,
        capped: false,
        wall_ns: Some(median(&walls)),
    }
}

fn median(sorted: &[f64]) -> f64 {
    f64::midpoint(sorted[(sorted.len() - 1) / 2], sorted[sorted.len() / 2])
}

/// The 95 % confidence interval of the median: between the order statistics whose ranks are 1.96
/// standard deviations of the binomial distribution from the middle (normal approximation). Of fewer
/// than six samples it is their whole range, which covers less.
fn interval(sorted: &[f64]) -> (f64, f64) {
    let last = sorted.len() - 1;
    let away = 0.98 * (sorted.len() as f64).sqrt();
    let middle = last as f64 / 2.0;
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a place in a slice")]
    let place = |rank: f64| rank.clamp(0.0, last as f64) as usize;
    (sorted[place((middle - away).floor())], sorted[place((middle + away).ceil())])
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::convert::Infallible;
    use std::num::NonZero;
    use std::thread::sleep;

    use super::*;

    fn references() -> References {
        References::new(NonZero::<usize>::MIN, None)
    }

    #[test]
    fn a_slow_machine_is_taken_out() {
        // The same work, while everything takes two, three and eight times as long.
        let sample =
            |slow: f64| Sample { wall: 1000.0 * slow, slowdown: Reading { compute: slow, memory: slow } };
        let timing = summary(&[2.0, 3.0, 8.0].map(sample), 4);
        assert!((timing.median_ns - 1000.0).abs() < 1e-9, "{timing:?}");
        assert!((timing.high_ns - timing.low_ns).abs() < 1e-9, "{timing:?}");
        assert_eq!((timing.wall_ns, timing.runs), (Some(3000.0), 12));
        assert!((timing.minimum_ns - 2000.0).abs() < 1e-9, "{timing:?}");
    }

    #[test]
    fn the_interval_narrows_as_samples_come() {
        let ranks = |count: u32| {
            let numbers: Vec<f64> = (0..count).map(f64::from).collect();
            let (low, high) = interval(&numbers);
            (low, high)
        };
        assert_eq!(ranks(1), (0.0, 0.0));
        assert_eq!(ranks(5), (0.0, 4.0));
        // Tables of the binomial distribution give ranks 2 and 9 of 10 (97.9 %), and 40 and 61 of 100.
        assert_eq!(ranks(10), (1.0, 8.0));
        assert_eq!(ranks(100), (39.0, 60.0));
    }

    #[test]
    fn work_of_known_length_is_timed() {
        let limit = Repetition { warmup: 1, interval: 0.0, least: 4, limit: Duration::from_millis(120) };
        let wait = || -> Result<(), Infallible> {
            sleep(Duration::from_millis(2));
            Ok(())
        };
        let Ok(timing) = time(&references(), &limit, wait);
        assert!(timing.minimum_ns >= 2e6 && timing.capped && timing.runs >= FEWEST, "{timing:?}");
        assert!(timing.low_ns <= timing.median_ns && timing.median_ns <= timing.high_ns, "{timing:?}");
    }

    #[test]
    fn short_runs_are_timed_together_and_errors_end_it() {
        let limit = Repetition { warmup: 3, interval: 10.0, least: 3, limit: Duration::from_secs(5) };
        let mut runs = 0_u64;
        let counted = || -> Result<(), Infallible> {
            runs += 1;
            Ok(())
        };
        let Ok(timing) = time(&references(), &limit, counted);
        assert!(timing.runs > 3 && runs > timing.runs && !timing.capped, "{timing:?}, {runs} runs");
        assert_eq!(time(&references(), &limit, || Err("broken")), Err("broken"));
        assert_eq!(run_for(Duration::ZERO, || Ok::<(), Infallible>(())), Ok(1));
    }

    #[test]
    fn the_unit_of_an_earlier_session_is_used() {
        let best = |ns: f64| BTreeMap::from([("compute_ns".to_owned(), ns), ("memory_ns".to_owned(), ns)]);
        let limit = Repetition { warmup: 1, interval: 10.0, least: 3, limit: Duration::from_secs(5) };
        let of = |ns: f64| {
            let references = References::new(NonZero::<usize>::MIN, Some(&best(ns)));
            let work = || -> Result<(), Infallible> {
                sleep(Duration::from_micros(500));
                Ok(())
            };
            let Ok(timing) = time(&references, &limit, work);
            timing.median_ns
        };
        // A machine a hundred times faster at its best: the same work takes a hundredth of the time then.
        let ratio = of(1e6) / of(1e4);
        assert!(ratio > 20.0 && ratio < 500.0, "{ratio}");
    }
}

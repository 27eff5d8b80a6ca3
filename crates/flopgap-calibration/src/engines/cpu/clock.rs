//! Times runs on a CPU, in units of its reference kernels.

use std::time::{Duration, Instant};

use crate::Timing;
use crate::accuracy::quantile;

use super::references::{Clock, References};
use crate::engines::engine::Repetition;

/// Short runs are timed in groups, so that a sample takes at least this long.
const SAMPLE_NS: f64 = 500_000.0;
/// Before a sample, runs that are not timed take at least this long, or there is one: they fill the
/// caches that the reference kernels emptied, and wide vectors and tiles run slowly for some ten
/// microseconds after code that has none.
const WARM_NS: f64 = 200_000.0;
/// The most that a sample may hold.
const MOST_RUNS: u64 = 20_000;
/// The reference kernels leave the caches to themselves. Runs that take longer than this fill them
/// again in a small part of their time; before others there are runs that are not timed.
const LONG_NS: f64 = 2e7;
/// Runs of a workload so slow that fewer than [`Repetition::least`] fit into the limit.
const FEWEST: usize = 3;

/// Times runs of one workload, on one thread or several.
///
/// On one thread it is the median of the time in which the thread ran, each divided by how slow the
/// machine was around it. On several, the thread that calls sleeps while others compute, so it is
/// the wall time; whatever else runs on the machine adds to it, and the lower quartile of the
/// quotients is taken. Both repeat best of what was tried on a machine with three times as many
/// busy processes as cores (the same 48 networks twice, median difference: 1.4 % on one thread, 2.0
/// % on two; without references 7 to 8 %).
#[derive(Debug, Clone, Copy)]
pub(crate) struct Stopwatch<'a> {
    references: &'a References,
    clock: Clock,
    quantile: f64,
}

/// Nanoseconds of some runs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Elapsed {
    /// In which the thread that computes ran.
    pub(crate) thread: f64,
    pub(crate) wall: f64,
}

/// One sample: nanoseconds of a run.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Sample {
    /// By the stopwatch's clock, as on a machine that is not disturbed.
    normalized: f64,
    wall: f64,
}

impl<'a> Stopwatch<'a> {
    /// For work on so many threads.
    pub(crate) fn new(references: &'a References, threads: usize) -> Self {
        let (clock, quantile) = if threads == 1 { (Clock::Thread, 0.5) } else { (Clock::Wall, 0.25) };
        Stopwatch { references, clock, quantile }
    }

    /// Times `run` until the interval is narrow enough or the limit is reached.
    pub(crate) fn time<E>(
        &self,
        limit: &Repetition,
        mut run: impl FnMut() -> Result<(), E>,
    ) -> Result<Timing, E> {
        self.time_many(limit, |runs| {
            let (thread, wall) = (Clock::Thread.now(), Clock::Wall.now());
            for _ in 0..runs {
                run()?;
            }
            let (wall_end, thread_end) = (Clock::Wall.now(), Clock::Thread.now());
            Ok(Elapsed { thread: thread_end - thread, wall: wall_end - wall })
        })
    }

    /// The same, where `run` does so many runs and times them itself.
    pub(crate) fn time_many<E>(
        &self,
        limit: &Repetition,
        mut run: impl FnMut(u64) -> Result<Elapsed, E>,
    ) -> Result<Timing, E> {
        let begin = Instant::now();
        let mut once = run(1)?.wall.max(1.0);
        for _ in 1..limit.warmup {
            if begin.elapsed() * 5 > limit.limit {
                break;
            }
            once = once.min(run(1)?.wall.max(1.0));
        }
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a count, limited")]
        let filling = |nanoseconds: f64| ((nanoseconds / once).ceil() as u64).clamp(1, MOST_RUNS);
        let (warm, runs) = (filling(WARM_NS), filling(SAMPLE_NS));

        let slowdown = || self.references.slowdown(self.references.read(self.clock));
        let mut before = slowdown();
        let mut samples: Vec<Sample> = Vec::new();
        loop {
            if once < LONG_NS {
                run(warm)?;
            }
            let elapsed = run(runs)?;
            let after = slowdown();
            let counted = if self.clock == Clock::Thread { elapsed.thread } else { elapsed.wall };
            let each = |nanoseconds: f64| nanoseconds.max(1.0) / runs as f64;
            samples.push(Sample {
                normalized: each(counted) / f64::midpoint(before, after),
                wall: each(elapsed.wall),
            });
            before = after;

            let timing = self.summary(&samples, runs);
            let width = (timing.high_ns - timing.low_ns) / 2.0 / timing.median_ns;
            let enough = samples.len() as u64 >= limit.least && samples.len() >= FEWEST;
            if enough && width <= limit.interval {
                return Ok(timing);
            }
            if samples.len() >= FEWEST && begin.elapsed() >= limit.limit {
                return Ok(Timing { capped: true, ..timing });
            }
        }
    }

    fn summary(&self, samples: &[Sample], runs_of_sample: u64) -> Timing {
        let sorted = |of: fn(&Sample) -> f64| {
            let mut numbers: Vec<f64> = samples.iter().map(of).collect();
            numbers.sort_by(f64::total_cmp);
            numbers
        };
        let (normalized, walls) = (sorted(|sample| sample.normalized), sorted(|sample| sample.wall));
        let (low_ns, high_ns) = interval(&normalized, self.quantile);
        let at = |sorted: &[f64], part| quantile(sorted, part).unwrap_or(f64::NAN);
        Timing {
            median_ns: at(&normalized, self.quantile),
            low_ns,
            high_ns,
            minimum_ns: walls[0],
            runs: samples.len() as u64 * runs_of_sample,
            capped: false,
            wall_ns: Some(at(&walls, 0.5)),
        }
    }
}

/// Runs for at least this long, and returns the number of runs.
pub(crate) fn run_for<E>(duration: Duration, mut run: impl FnMut() -> Result<(), E>) -> Result<u64, E> {
    let begin = Instant::now();
    let mut runs = 0;
    while runs == 0 || begin.elapsed() < duration {
        run()?;
        runs += 1;
    }
    Ok(runs)
}

/// The 95 % confidence interval of a quantile: between the order statistics whose ranks are 1.96
/// standard deviations of the binomial distribution from its own (normal approximation). Of a few
/// samples it ends at the outermost, and covers less.
fn interval(sorted: &[f64], quantile: f64) -> (f64, f64) {
    let last = (sorted.len() - 1) as f64;
    let away = 1.96 * (sorted.len() as f64 * quantile * (1.0 - quantile)).sqrt();
    let middle = quantile * last;
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a place in a slice")]
    let place = |rank: f64| rank.clamp(0.0, last) as usize;
    (sorted[place((middle - away).floor())], sorted[place((middle + away).ceil())])
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::convert::Infallible;
    use std::thread::sleep;

    use super::*;

    fn best(ns: f64) -> BTreeMap<String, f64> {
        BTreeMap::from([("compute_ns".to_owned(), ns), ("memory_ns".to_owned(), ns)])
    }

    fn patient(least: u64) -> Repetition {
        Repetition { warmup: 1, interval: 10.0, least, limit: Duration::from_secs(20) }
    }

    #[test]
    fn the_quantile_goes_with_the_threads() {
        let references = References::new(Some(&best(1e5)));
        let samples: Vec<Sample> =
            (0..101).map(|i| Sample { normalized: f64::from(i), wall: f64::from(2 * i + 1) }).collect();
        let of = |threads| Stopwatch::new(&references, threads).summary(&samples, 4);
        assert_eq!((of(1).median_ns, of(2).median_ns), (50.0, 25.0));
        assert_eq!((of(1).wall_ns, of(1).minimum_ns, of(1).runs), (Some(101.0), 1.0, 404));
        assert!(of(2).low_ns < 25.0 && of(2).high_ns > 25.0, "{:?}", of(2));
    }

    #[test]
    fn the_interval_narrows_as_samples_come() {
        let ranks = |count: u32| {
            let numbers: Vec<f64> = (0..count).map(f64::from).collect();
            interval(&numbers, 0.5)
        };
        assert_eq!(ranks(1), (0.0, 0.0));
        assert_eq!(ranks(5), (0.0, 4.0));
        // Tables of the binomial distribution give ranks 2 and 9 of 10 (97.9 %), and 40 and 61 of
        // 100.
        assert_eq!(ranks(10), (1.0, 8.0));
        assert_eq!(ranks(100), (39.0, 60.0));
    }

    #[test]
    fn work_of_known_length_is_timed() {
        let references = References::new(None);
        let limit = Repetition { warmup: 1, interval: 0.0, least: 4, limit: Duration::from_millis(150) };
        let wait = || -> Result<(), Infallible> {
            sleep(Duration::from_millis(2));
            Ok(())
        };
        let Ok(timing) = Stopwatch::new(&references, 2).time(&limit, wait);
        assert!(timing.minimum_ns >= 2e6 && timing.capped && timing.runs >= 3, "{timing:?}");
        assert!(timing.low_ns <= timing.median_ns && timing.median_ns <= timing.high_ns, "{timing:?}");
        // A thread that sleeps does not run.
        let Ok(alone) = Stopwatch::new(&references, 1).time(&limit, wait);
        assert!(alone.median_ns < 1e6 && alone.minimum_ns >= 2e6, "{alone:?}");
    }

    #[test]
    fn short_runs_are_timed_together_and_errors_end_it() {
        let references = References::new(Some(&best(1e5)));
        let stopwatch = Stopwatch::new(&references, 1);
        let mut runs = 0_u64;
        let counted = || -> Result<(), Infallible> {
            runs += 1;
            Ok(())
        };
        let Ok(timing) = stopwatch.time(&patient(3), counted);
        assert!(timing.runs > 3 && runs > timing.runs && !timing.capped, "{timing:?}, {runs} runs");
        assert_eq!(stopwatch.time(&patient(3), || Err("broken")), Err("broken"));
        assert_eq!(run_for(Duration::ZERO, || Ok::<(), Infallible>(())), Ok(1));
    }

    #[test]
    fn times_are_in_the_unit_of_an_earlier_session() {
        let each = 5e5;
        let of = |best_ns: f64| {
            let references = References::new(Some(&best(best_ns)));
            let work = |runs: u64| -> Result<Elapsed, Infallible> {
                let whole = each * runs as f64;
                Ok(Elapsed { thread: whole, wall: whole })
            };
            let Ok(timing) = Stopwatch::new(&references, 2).time_many(&patient(3), work);
            timing.median_ns
        };
        // The kernels take a fraction of a second on any machine, and more than a nanosecond.
        assert!(of(1e9) > 10.0 * each, "a machine that was far slower at its best");
        assert!(of(1.0) < each / 10.0, "a machine that was far faster at its best");
    }
}

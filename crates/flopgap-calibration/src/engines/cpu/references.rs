//! Two kernels whose times show how slow the machine currently is.
//!
//! On a machine that is shared, the same work takes a quarter longer or shorter from minute to
//! minute, which no statistic of its own runs shows. So known work runs between the runs (duet
//! benchmarking, Bulej et al., ICPE 2020): one kernel that computes in registers, and one that
//! reads memory, on the calling thread. How much longer they take than at their best is how slow
//! the machine is.

use std::collections::BTreeMap;
use std::hint::black_box;
use std::time::{Duration, Instant};

/// Steps of the kernel that computes: about 0.15 ms.
const STEPS: usize = 15_000;
/// Bytes that the other reads: more than a second-level cache holds.
const BYTES: usize = 16 << 20;
/// A reading is the best of at least so many runs: a run in which another process had the core says
/// nothing about the core.
const LEAST: usize = 3;
/// And of no more than so many.
const MOST: usize = 8;
/// It goes on while runs become faster by this part. What ran before leaves the caches to others
/// and may leave the core at a lower clock, for as long as it takes to run a few times: that is a
/// trace of the work that is timed, not the state of the machine. Two readings of memory, and three
/// of computing, made runs of more than 10 ms seem a quarter shorter than they were on a Xeon.
const FASTER: f64 = 0.02;
/// How much memory counts: what a network reads is mostly in caches. Of the exponents tried on two
/// shared machines, those from 0 to 0.3 repeat best.
const MEMORY_PART: f64 = 0.25;
/// How long to search for the best times.
const SEARCH: Duration = Duration::from_millis(800);

/// Names of the reference kernels, in the order of [`Reading`]'s fields.
const NAMES: [&str; 2] = ["compute_ns", "memory_ns"];

/// The reference kernels and their best times.
#[derive(Debug)]
pub struct References {
    array: Vec<u64>,
    best: Reading,
}

/// Nanoseconds of each kernel.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Reading {
    pub(crate) compute: f64,
    pub(crate) memory: f64,
}

/// The clock that times runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Clock {
    /// While the calling thread runs: time in which another process has the core does not count.
    Thread,
    /// Always.
    Wall,
}

impl Clock {
    /// Nanoseconds since a moment that does not change.
    #[cfg(unix)]
    pub(crate) fn now(self) -> f64 {
        use rustix::time::{ClockId, clock_gettime};
        let now = clock_gettime(match self {
            Clock::Thread => ClockId::ThreadCPUTime,
            Clock::Wall => ClockId::Monotonic,
        });
        now.tv_sec as f64 * 1e9 + now.tv_nsec as f64
    }

    /// Nanoseconds since a moment that does not change: Windows counts the time of a thread in
    /// steps that are longer than these kernels.
    #[cfg(not(unix))]
    pub(crate) fn now(self) -> f64 {
        static FIRST: std::sync::OnceLock<Instant> = std::sync::OnceLock::new();
        FIRST.get_or_init(Instant::now).elapsed().as_nanos() as f64
    }
}

impl References {
    /// The kernels. `best` are times from an earlier session ([`References::best`]); kernels that
    /// it does not name, or not with a time, are run for a second to find theirs.
    pub fn new(best: Option<&BTreeMap<String, f64>>) -> Self {
        // Zeros would be one page of the system, many times.
        let array = vec![1; BYTES / size_of::<u64>()];
        let mut references = References { array, best: Reading { compute: 0.0, memory: 0.0 } };
        let known = NAMES.map(|name| best?.get(name).copied().filter(|time| time.is_finite() && *time > 0.0));
        references.best = match known {
            [Some(compute), Some(memory)] => Reading { compute, memory },
            [compute, memory] => {
                let found = references.search();
                Reading { compute: compute.unwrap_or(found.compute), memory: memory.unwrap_or(found.memory) }
            }
        };
        references
    }

    /// The best time of each kernel in nanoseconds, by its name: what a calibration file keeps, so
    /// that a later session measures in the same unit.
    ///
    /// ```
    /// use flopgap_calibration::engines::cpu::References;
    ///
    /// let first = References::new(None);
    /// let second = References::new(Some(&first.best()));
    /// assert_eq!(first.best(), second.best());
    /// ```
    pub fn best(&self) -> BTreeMap<String, f64> {
        let best = [self.best.compute, self.best.memory];
        NAMES.into_iter().map(str::to_owned).zip(best).collect()
    }

    /// Runs both kernels now.
    pub(crate) fn read(&self, clock: Clock) -> Reading {
        let best_of = |kernel: &dyn Fn()| {
            steady_best(|| {
                let start = clock.now();
                kernel();
                clock.now() - start
            })
        };
        Reading {
            memory: best_of(&|| {
                let sum = black_box(&self.array).iter().fold(0_u64, |sum, number| sum.wrapping_add(*number));
                black_box(sum);
            }),
            compute: best_of(&|| {
                black_box(multiply_and_add());
            }),
        }
    }

    /// The factor by which everything is slower than at its best.
    pub(crate) fn slowdown(&self, reading: Reading) -> f64 {
        (reading.compute / self.best.compute).powf(1.0 - MEMORY_PART)
            * (reading.memory / self.best.memory).powf(MEMORY_PART)
    }

    fn search(&self) -> Reading {
        let mut best = self.read(Clock::Thread);
        let start = Instant::now();
        while start.elapsed() < SEARCH {
            let found = self.read(Clock::Thread);
            best.compute = best.compute.min(found.compute);
            best.memory = best.memory.min(found.memory);
        }
        best
    }
}

/// The best of a few times, and of more as long as they become shorter.
fn steady_best(mut time: impl FnMut() -> f64) -> f64 {
    let mut best = f64::INFINITY;
    for run in 1..=MOST {
        let found = time();
        let faster = found < (1.0 - FASTER) * best;
        best = best.min(found);
        if run >= LEAST && !faster {
            break;
        }
    }
    best.max(1.0)
}

/// Chains of multiplications and additions in registers, as many as hide each other's latency.
fn multiply_and_add() -> f32 {
    let (factor, term) = (black_box(0.999_f32), black_box(1e-3_f32));
    let mut lanes = [[1.0_f32; 4]; 12];
    for _ in 0..STEPS {
        for lane in &mut lanes {
            for number in lane {
                *number = *number * factor + term;
            }
        }
    }
    lanes.as_flattened().iter().sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn best(compute: f64, memory: f64) -> BTreeMap<String, f64> {
        BTreeMap::from([("compute_ns".to_owned(), compute), ("memory_ns".to_owned(), memory)])
    }

    #[test]
    fn slowdowns_are_relative_to_the_best() {
        let references = References::new(Some(&best(2.0, 3.0)));
        assert_eq!(references.best(), best(2.0, 3.0));
        for clock in [Clock::Thread, Clock::Wall] {
            let reading = references.read(clock);
            assert!(reading.compute > 1e3 && reading.memory > 1e3, "{reading:?}");
        }
        let twice = references.slowdown(Reading { compute: 4.0, memory: 6.0 });
        assert!((twice - 2.0).abs() < 1e-12, "{twice}");
        let memory_alone = references.slowdown(Reading { compute: 2.0, memory: 48.0 });
        assert!((memory_alone - 2.0).abs() < 1e-12, "{memory_alone}");
    }

    #[test]
    fn a_reading_goes_on_until_it_is_steady() {
        let read = |times: &[f64]| {
            let mut given = times.iter().copied();
            let best = steady_best(|| given.next().unwrap());
            (best, times.len() - given.len())
        };
        assert_eq!(read(&[5.0, 5.0, 5.0, 1.0]), (5.0, 3));
        // The caches fill again: it waits for that.
        assert_eq!(read(&[9.0, 8.0, 7.0, 6.0, 5.99, 1.0]), (5.99, 5));
        // Another process had the core for a run.
        assert_eq!(read(&[5.0, 50.0, 5.1, 1.0]), (5.0, 3));
        let falling: Vec<f64> = (0..20).map(|run| 100.0 * 0.9_f64.powi(run)).collect();
        assert_eq!(read(&falling).1, MOST);
    }

    #[test]
    fn times_that_are_none_are_found_again() {
        let references = References::new(Some(&best(f64::NAN, -1.0)));
        assert!(references.best().values().all(|time| *time > 1e3), "{:?}", references.best());
    }

    #[test]
    fn the_clock_of_the_thread_stands_while_it_sleeps() {
        let start = [Clock::Thread, Clock::Wall].map(Clock::now);
        std::thread::sleep(Duration::from_millis(20));
        let [thread, wall] = [Clock::Thread.now() - start[0], Clock::Wall.now() - start[1]];
        assert!(wall >= 2e7 && thread < 1e7, "{thread} of {wall}");
    }
}

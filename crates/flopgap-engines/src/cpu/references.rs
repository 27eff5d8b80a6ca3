//! Two kernels whose times tell how slow the machine is at a moment.
//!
//! On a machine that is shared, the same work takes a quarter longer or shorter from minute to
//! minute, and no statistic of its own runs tells. So known work runs between the runs (duet
//! benchmarking, Bulej et al., ICPE 2020): one kernel that computes in registers, and one that reads
//! memory. How much longer they take than at their best is how slow the machine is.

use std::collections::BTreeMap;
use std::hint::black_box;
use std::num::NonZero;
use std::time::{Duration, Instant};

use rayon::{ThreadPool, ThreadPoolBuilder};

/// Steps of the kernel that computes: about 0.15 ms.
const STEPS: usize = 40_000;
/// Bytes that all threads read together, and a thread at least.
const BYTES: usize = 16 << 20;
const LEAST_BYTES: usize = 4 << 20;
/// How long the best times are looked for.
const SEARCH: Duration = Duration::from_millis(800);

/// Names of the reference kernels, in the order of [`Reading`]'s fields.
const NAMES: [&str; 2] = ["compute_ns", "memory_ns"];

/// The reference kernels, on as many threads as what is measured, and their best times.
#[derive(Debug)]
pub struct References {
    /// All threads but the calling one.
    others: Option<ThreadPool>,
    /// What each thread reads.
    arrays: Vec<Vec<u64>>,
    best: Reading,
}

/// Nanoseconds of each kernel.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Reading {
    pub(crate) compute: f64,
    pub(crate) memory: f64,
}

impl References {
    /// The kernels on so many threads. `best` are times from an earlier session ([`References::best`]);
    /// kernels that it does not name, or not with a time, are run for a second to find theirs.
    ///
    /// If the system does not let so many threads start, there are fewer.
    pub fn new(threads: NonZero<usize>, best: Option<&BTreeMap<String, f64>>) -> Self {
        let others = (threads.get() > 1)
            .then(|| {
                let builder = ThreadPoolBuilder::new().num_threads(threads.get() - 1);
                builder.thread_name(|index| format!("reference-{index}")).build().ok()
            })
            .flatten();
        let count = 1 + others.as_ref().map_or(0, ThreadPool::current_num_threads);
        let numbers = (BYTES / count).max(LEAST_BYTES) / size_of::<u64>();
        // Zeros would be one page of the system, many times.
        let arrays = vec![vec![1; numbers]; count];
        let mut references = References { others, arrays, best: Reading { compute: 0.0, memory: 0.0 } };
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
    /// use std::num::NonZero;
    ///
    /// use flopgap_engines::cpu::References;
    ///
    /// let first = References::new(NonZero::<usize>::MIN, None);
    /// let second = References::new(NonZero::<usize>::MIN, Some(&first.best()));
    /// assert_eq!(first.best(), second.best());
    /// ```
    pub fn best(&self) -> BTreeMap<String, f64> {
        let best = [self.best.compute, self.best.memory];
        NAMES.into_iter().map(str::to_owned).zip(best).collect()
    }

    /// Runs both so many times and gives the means.
    pub(crate) fn read(&self, times: u32) -> Reading {
        let times = times.max(1);
        let memory = Instant::now();
        (0..times).for_each(|_| self.memory());
        let compute = Instant::now();
        (0..times).for_each(|_| self.compute());
        let end = Instant::now();
        let mean = |duration: Duration| (duration.as_nanos() as f64 / f64::from(times)).max(1.0);
        Reading { compute: mean(end - compute), memory: mean(compute - memory) }
    }

    /// How many times longer than at their best.
    pub(crate) fn slowdown(&self, reading: Reading) -> Reading {
        Reading { compute: reading.compute / self.best.compute, memory: reading.memory / self.best.memory }
    }

    fn search(&self) -> Reading {
        let mut best = self.read(1);
        let start = Instant::now();
        while start.elapsed() < SEARCH {
            let found = self.read(1);
            best.compute = best.compute.min(found.compute);
            best.memory = best.memory.min(found.memory);
        }
        best
    }

    fn compute(&self) {
        self.each(|_| {
            black_box(multiply_and_add());
        });
    }

    fn memory(&self) {
        self.each(|array| {
            black_box(black_box(array).iter().fold(0_u64, |sum, number| sum.wrapping_add(*number)));
        });
    }

    /// The same on every thread.
    fn each(&self, work: impl Fn(&[u64]) + Sync) {
        let work = &work;
        match (&self.others, &self.arrays[..]) {
            (Some(others), [own, rest @ ..]) => others.in_place_scope(|scope| {
                for array in rest {
                    scope.spawn(move |_| work(array));
                }
                work(own);
            }),
            (_, arrays) => arrays.iter().for_each(|array| work(array)),
        }
    }
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

    #[test]
    fn all_threads_run_the_kernels() {
        use std::sync::atomic::{AtomicUsize, Ordering};
        for threads in [1, 3] {
            let best = BTreeMap::from([("compute_ns".to_owned(), 2.0), ("memory_ns".to_owned(), 3.0)]);
            let references = References::new(NonZero::new(threads).unwrap(), Some(&best));
            assert_eq!(references.best(), best);
            let runs = AtomicUsize::new(0);
            references.each(|array| {
                assert!(array.len() * 8 >= LEAST_BYTES);
                runs.fetch_add(1, Ordering::Relaxed);
            });
            assert_eq!(runs.into_inner(), threads);
            let reading = references.read(1);
            assert!(reading.compute > 1e3 && reading.memory > 1e3, "{reading:?}");
            let slowdown = references.slowdown(reading);
            assert!((slowdown.compute * 2.0 - reading.compute).abs() < 1e-6);
            assert!((slowdown.memory * 3.0 - reading.memory).abs() < 1e-6);
        }
    }

    #[test]
    fn times_that_are_none_are_found_again() {
        let broken = BTreeMap::from([("compute_ns".to_owned(), f64::NAN), ("memory_ns".to_owned(), -1.0)]);
        let references = References::new(NonZero::<usize>::MIN, Some(&broken));
        assert!(references.best().values().all(|time| *time > 1e3), "{:?}", references.best());
    }
}

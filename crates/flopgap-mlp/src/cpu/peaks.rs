//! What this machine's cores reach, measured.

use std::hint::black_box;
use std::num::NonZero;
use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

use crate::numerics::{Matrix, product};

/// Rows and columns of the products: a product takes about a millisecond, and its matrices stay in
/// the caches of a core.
const SIDE: usize = 384;
/// Numbers of the array that is read and of the one that is written, all threads together: 256 MiB
/// each, more than most caches hold.
const NUMBERS: usize = 1 << 26;
/// The least of a thread, and how many are moved between two looks at the clock.
const LEAST_NUMBERS: usize = 1 << 22;
const PIECE: usize = 1 << 20;
/// How long each of the three is measured.
const DURATION: Duration = Duration::from_millis(250);

/// The rates at which all cores of this machine multiply and move 32-bit floats, all at once: what
/// a floor of the time is computed from.
///
/// ```
/// use flopgap_mlp::CorePeaks;
///
/// let peaks = CorePeaks { flops: 2.0e12, bytes: 2.0e11 };
/// // The least seconds of 1 GFLOP that moves 1 GB.
/// assert_eq!((1e9 / peaks.flops).max(1e9 / peaks.bytes), 5e-3);
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CorePeaks {
    /// FLOP/s of products of 384 x 384 matrices by the crate `gemm`, one a thread, which stay in
    /// the caches.
    pub flops: f64,
    /// Bytes/s that are read and written, of arrays of 256 MiB or more: the better of reading one,
    /// and of copying it into another.
    pub bytes: f64,
}

impl CorePeaks {
    /// Measures them with a thread for each core the machine offers: takes about a second, and 512
    /// MiB of memory or more for that time. Other programs that are at work disturb it.
    pub fn measure() -> Self {
        let threads = thread::available_parallelism().map_or(1, NonZero::get);
        let numbers = (NUMBERS / threads).max(LEAST_NUMBERS);
        CorePeaks { flops: flops(threads, DURATION), bytes: bytes(threads, numbers, DURATION) }
    }
}

fn flops(threads: usize, duration: Duration) -> f64 {
    let work = || {
        let numbers: Vec<f32> = (0..SIDE * SIDE).map(|at| (at % 7) as f32 - 3.0).collect();
        let mut result = vec![0.0; SIDE * SIDE];
        move || {
            let matrix = || Matrix::new(&numbers, SIDE, SIDE);
            product(black_box(&mut result), &matrix(), &matrix(), false);
            2 * SIDE * SIDE * SIDE
        }
    };
    rate(threads, duration, work)
}

fn bytes(threads: usize, numbers: usize, duration: Duration) -> f64 {
    let pieces = numbers.div_ceil(PIECE);
    // Arrays are first written by the thread that uses them, so that they lie in the memory near
    // it. Zeros would not be in memory at all.
    let array = move || vec![1_u32; pieces * PIECE];
    let read = || {
        let (from, mut piece) = (array(), 0);
        move || {
            piece = (piece + 1) % pieces;
            let numbers = black_box(&from[piece * PIECE..][..PIECE]);
            black_box(numbers.iter().fold(0_u32, |sum, &number| sum.wrapping_add(number)));
            size_of_val(numbers)
        }
    };
    let copy = || {
        let (from, mut to, mut piece) = (array(), array(), 0);
        move || {
            piece = (piece + 1) % pieces;
            let part = piece * PIECE..(piece + 1) * PIECE;
            black_box(&mut to[part.clone()]).copy_from_slice(black_box(&from[part.clone()]));
            2 * size_of_val(&from[part])
        }
    };
    rate(threads, duration, read).max(rate(threads, duration, copy))
}

/// Work per second: every thread makes its work and repeats it for so long, at the same
/// time as the others. Each counts with the median of its calls, so that what interrupts some of
/// them does not matter. A call returns how much was done.
fn rate<W: FnMut() -> usize>(threads: usize, duration: Duration, make: impl Fn() -> W + Sync) -> f64 {
    let begin = Barrier::new(threads);
    let of_thread = || {
        let mut work = make();
        work();
        begin.wait();
        let (start, mut rates) = (Instant::now(), Vec::new());
        while rates.is_empty() || start.elapsed() < duration {
            let call = Instant::now();
            let done = work() as f64;
            rates.push(done / call.elapsed().as_secs_f64().max(1e-9));
        }
        rates.sort_unstable_by(f64::total_cmp);
        rates[rates.len() / 2]
    };
    thread::scope(|scope| {
        let others: Vec<_> = (1..threads).map(|_| scope.spawn(of_thread)).collect();
        let own = of_thread();
        others.into_iter().filter_map(|other| other.join().ok()).sum::<f64>() + own
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rates_of_all_threads_are_added() {
        let work = || {
            || {
                thread::sleep(Duration::from_millis(5));
                1000
            }
        };
        let (one, three) = (rate(1, Duration::ZERO, work), rate(3, Duration::ZERO, work));
        // Each sleeps for five milliseconds at least.
        assert!(one > 0.0 && one <= 200_000.0, "{one}");
        assert!(three > 0.0 && three <= 600_000.0, "{three}");
    }

    #[test]
    fn rates_are_those_of_a_machine() {
        let (flops, bytes) = (flops(2, Duration::ZERO), bytes(2, 1 << 16, Duration::ZERO));
        assert!(flops > 1e7 && flops < 1e15, "{flops}");
        assert!(bytes > 1e7 && bytes < 1e15, "{bytes}");
    }
}

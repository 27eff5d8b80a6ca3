//! Bandwidth over working sets.

use std::hint::black_box;
use std::time::Duration;

use super::super::levels::Capacity;
use super::super::{ProbeError, Progress};
use super::lockstep::together;
use super::machine::available_memory;
use super::walks::{Walk, walk};
use crate::{Bandwidth, Quantity};

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
/// The smallest part of a thread: at 100 bytes in a nanosecond, a walk through it takes 40 ns.
const LEAST: u64 = 4 * KIB;
/// What a part is a multiple of: both of its halves are whole steps of a walk.
const STEP: u64 = 512;

/// How long a round takes, and how often it is timed: less often where a single walk takes longer.
const ROUND: Duration = Duration::from_micros(500);
const ROUNDS: usize = 41;
const FEW_ROUNDS: usize = 7;

/// The curve of so many threads together.
pub(super) fn curve(
    threads: usize,
    caches: &[Capacity],
    largest: Option<u64>,
    progress: Progress<'_>,
) -> Result<Vec<Bandwidth>, ProbeError> {
    let sizes = sizes(threads as u64, caches, available_memory(), largest);
    let mut curve = Vec::with_capacity(sizes.len());
    for part in sizes {
        let bytes = part * threads as u64;
        progress(&format!("bandwidth over {} KiB, {threads} threads", bytes / KIB));
        let rate = |walk| rate(threads, part, walk);
        let (read, write, copy) = (rate(Walk::Read)?, rate(Walk::Write)?, rate(Walk::Copy)?);
        if let (Some(read), Some(write), Some(copy)) = (read, write, copy) {
            curve.push(Bandwidth { bytes, read, write, copy });
        }
    }
    Ok(curve)
}

/// Bytes of each thread, smallest first: two to each doubling, up to `largest` of all threads, or
/// more than three times the caches, but no more than a quarter of the memory.
fn sizes(threads: u64, caches: &[Capacity], memory: Option<u64>, largest: Option<u64>) -> Vec<u64> {
    let held = caches.iter().map(|cache| cache.bytes).max().unwrap_or(32 * MIB);
    let wanted = largest.unwrap_or((held * 4).clamp(256 * MIB, 2048 * MIB));
    let most = (wanted.min(memory.unwrap_or(u64::MAX) / 4) / threads).max(LEAST);
    let mut sizes = Vec::new();
    let mut base = LEAST;
    while base <= most {
        sizes.extend([base, base * 3 / 2]);
        base *= 2;
    }
    sizes.retain(|size| *size <= most);
    sizes.into_iter().map(|size| size / STEP * STEP).collect()
}

/// What a thread walks through. It begins at a line of the cache: loads of 64 bytes would lie in
/// two lines each otherwise, and take twice as long.
struct Part {
    memory: Vec<u64>,
    begin: usize,
    length: usize,
}

impl Part {
    fn new(length: usize) -> Self {
        // Ones, since zeros would be one page of the system, many times.
        let memory = vec![1_u64; length + LINE / size_of::<u64>()];
        let begin = memory.as_ptr().align_offset(LINE).min(memory.len() - length);
        Part { memory, begin, length }
    }

    fn numbers(&mut self) -> &mut [u64] {
        &mut self.memory[self.begin..self.begin + self.length]
    }
}

/// Bytes of a line of the cache, and of the widest vectors.
const LINE: usize = 64;

/// Bytes per second of all threads; those of a copy count as read and as written.
fn rate(threads: usize, part: u64, way: Walk) -> Result<Option<Quantity>, ProbeError> {
    let prepare = |_| Part::new(usize::try_from(part / 8).unwrap_or(usize::MAX / 16));
    let guess = u32::try_from(MIB / part).unwrap_or(1).max(1);
    let trial = together(threads, 3, prepare, |part| {
        black_box(walk(way, part.numbers(), guess));
    })?;
    let best = trial.into_iter().min().unwrap_or_default().as_secs_f64().max(1e-9);
    let passes = passes(guess, best);
    let once = best * f64::from(passes) / f64::from(guess);
    let rounds = if once > 5.0 * ROUND.as_secs_f64() { FEW_ROUNDS } else { ROUNDS };
    // The first round brings the part to where it stays.
    let times = together(threads, rounds + 1, prepare, |part| {
        black_box(walk(way, part.numbers(), passes));
    })?;
    let moved = part as f64 * f64::from(passes) * threads as f64;
    Ok(Quantity::largest(times[1..].iter().map(|time| moved / time.as_secs_f64()).collect()))
}

/// Walks of a round, if so many take so many seconds.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "clamped")]
fn passes(guess: u32, seconds: f64) -> u32 {
    (f64::from(guess) * ROUND.as_secs_f64() / seconds).round().clamp(1.0, 1e9) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cache(bytes: u64) -> [Capacity; 1] {
        [Capacity { name: "L3".to_owned(), bytes }]
    }

    #[test]
    fn working_sets_reach_beyond_the_caches_and_leave_memory() {
        let sizes = sizes(2, &cache(120 * MIB), Some(16 << 30), None);
        assert_eq!(sizes[..3], [4 * KIB, 6 * KIB, 8 * KIB]);
        let most = sizes.last().unwrap() * 2;
        assert!((3 * 120 * MIB..=4 * 120 * MIB).contains(&most), "{most}");
        let scarce = super::sizes(2, &cache(120 * MIB), Some(64 * MIB), None);
        assert!(scarce.last().unwrap() * 2 <= 16 * MIB);
        assert_eq!(super::sizes(8, &[], Some(1), None), [LEAST], "there is always one");
        assert!(sizes.iter().all(|size| size % STEP == 0));
    }

    #[test]
    fn a_part_begins_at_a_line() {
        for length in [0, 64, 1 << 16] {
            let mut part = Part::new(length);
            let numbers = part.numbers();
            assert_eq!((numbers.len(), numbers.as_ptr().addr() % LINE), (length, 0));
        }
    }

    #[test]
    fn a_rate_is_that_of_memory() {
        for way in [Walk::Read, Walk::Write, Walk::Copy] {
            let rate = rate(1, 64 * KIB, way).unwrap().unwrap();
            // From a machine that is slow in a debug build to faster than any.
            assert!((1e7..1e13).contains(&rate.value), "{rate:?}");
        }
    }
}

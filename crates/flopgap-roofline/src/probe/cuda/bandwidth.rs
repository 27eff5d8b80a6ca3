//! Bandwidth over working sets.

use flopgap_gpu::timing::{Repetitions, Samples, launches};
use flopgap_gpu::{Buffer, GpuError, Stream};

use super::super::{ProbeError, Progress};
use super::kernels::{Kernels, UNIT, UNITS_AT_ONCE, Walk};
use super::peaks::{rates, scaled};
use crate::{Bandwidth, Quantity};

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;

/// How long a timed kernel should take: two events around it add about 3 µs.
const TIMED_NS: f64 = 6e5;
const REPETITIONS: Repetitions = Repetitions { warmup: 1, measured: 11 };

/// Working sets that all multiprocessors walk through, past the first-level cache, to far beyond
/// the second level. In the smallest, each thread has a unit of its own also in half of the set:
/// over smaller ones, threads would ask for the same unit at the same time, of which the
/// second-level cache sees one.
pub(super) fn shared(
    kernels: &Kernels,
    stream: &Stream,
    progress: Progress<'_>,
) -> Result<Vec<Bandwidth>, ProbeError> {
    let device = kernels.context().device();
    let threads = 512;
    let blocks = device.multiprocessors * (1024 / threads);
    let most = (kernels.context().memory()?.free / 2).min((device.l2_bytes * 32).max(2048 * MIB));
    let least = (2 * UNIT * u64::from(blocks * threads)).next_multiple_of(64 * KIB);
    let sizes = sizes(least, most, 64 * KIB);
    let mut data = buffer(stream, &sizes)?;
    let mut curve = Vec::with_capacity(sizes.len());
    for bytes in sizes {
        progress(&format!("bandwidth over {}", written(bytes)));
        let walk = |halves: u64| {
            let units = bytes / UNIT / halves;
            Some((u32::try_from(units).ok()?, units * halves))
        };
        let point = |name, halves| {
            let Some((units, touched)) = walk(halves) else { return Ok(None) };
            let walk = Walk { blocks, threads, units, touched, steps: 1 };
            // The first pass brings the set to where it stays: it takes so many steps.
            let pass = u64::from(units).div_ceil(u64::from(blocks * threads) * UNITS_AT_ONCE);
            rate(kernels, stream, name, walk, pass, halves, &mut data)
        };
        curve.extend(bandwidth(bytes, ["shared_read", "shared_write", "shared_copy"], point)?);
    }
    Ok(curve)
}

/// Working sets of which every multiprocessor has a slice of its own, to beyond the first-level
/// cache; the smallest as above.
pub(super) fn own_slices(
    kernels: &Kernels,
    stream: &Stream,
    progress: Progress<'_>,
) -> Result<Vec<Bandwidth>, ProbeError> {
    let device = kernels.context().device();
    let blocks = device.multiprocessors;
    let threads = 1024;
    let sizes = sizes(2 * UNIT * u64::from(threads), 4 * device.shared_bytes_per_multiprocessor, KIB);
    let all: Vec<u64> = sizes.iter().map(|bytes| bytes * u64::from(blocks)).collect();
    let mut data = buffer(stream, &all)?;
    let mut curve = Vec::with_capacity(sizes.len());
    for bytes in sizes {
        progress(&format!("bandwidth over {} on each multiprocessor", written(bytes)));
        let point = |name, halves: u64| {
            let units = bytes / UNIT / halves;
            let touched = units * halves * u64::from(blocks);
            let Ok(units) = u32::try_from(units) else { return Ok(None) };
            let walk = Walk { blocks, threads, units, touched, steps: 1 };
            let pass = u64::from(units).div_ceil(u64::from(walk.threads) * UNITS_AT_ONCE);
            rate(kernels, stream, name, walk, pass, halves, &mut data)
        };
        let all = bytes * u64::from(blocks);
        curve.extend(bandwidth(all, ["own_read", "own_write", "own_copy"], point)?);
    }
    Ok(curve)
}

/// Room for the largest of these.
fn buffer(stream: &Stream, sizes: &[u64]) -> Result<Buffer<u8>, GpuError> {
    let most = sizes.iter().copied().max().unwrap_or_default();
    stream.zeros(
        usize::try_from(most).map_err(|_| GpuError::TooLarge { what: "a working set", value: usize::MAX })?,
    )
}

/// Sizes from `least` to `most`, three for each doubling apart from the powers of two times
/// `least`, each a multiple of `step`.
fn sizes(least: u64, most: u64, step: u64) -> Vec<u64> {
    let mut sizes = Vec::new();
    let mut base = least;
    while base <= most {
        sizes.extend([base, base * 5 / 4, base * 3 / 2, base * 7 / 4].map(|size| size / step * step));
        base *= 2;
    }
    sizes.retain(|size| *size <= most);
    sizes.dedup();
    sizes
}

/// A point from its three kernels: read, write, copy, the last of two halves.
fn bandwidth(
    bytes: u64,
    names: [&'static str; 3],
    mut point: impl FnMut(&'static str, u64) -> Result<Option<Quantity>, ProbeError>,
) -> Result<Option<Bandwidth>, ProbeError> {
    let [read, write, copy] = names;
    let (read, write, copy) = (point(read, 1)?, point(write, 1)?, point(copy, 2)?);
    let (Some(read), Some(write), Some(copy)) = (read, write, copy) else { return Ok(None) };
    Ok(Some(Bandwidth { bytes, read, write, copy }))
}

/// Bytes per second of a walk: whole passes of so many steps. What is moved is counted in every
/// half.
fn rate(
    kernels: &Kernels,
    stream: &Stream,
    name: &'static str,
    walk: Walk,
    pass: u64,
    halves: u64,
    data: &mut Buffer<u8>,
) -> Result<Option<Quantity>, ProbeError> {
    let Ok(pass) = u32::try_from(pass.max(1)) else { return Ok(None) };
    let mut run = |steps: u32, repetitions: Repetitions| -> Result<Samples, ProbeError> {
        launches(stream, repetitions, || kernels.queue_walk(stream, name, Walk { steps, ..walk }, data))
    };
    let guess = pass.max(32);
    let short = run(guess, Repetitions { warmup: 1, measured: 3 })?.median().max(1.0);
    let steps =
        scaled(guess, (TIMED_NS / short).max(f64::from(pass) / f64::from(guess))).div_ceil(pass) * pass;
    let samples = run(steps, REPETITIONS)?;
    let moved =
        u64::from(walk.blocks) * u64::from(walk.threads) * u64::from(steps) * UNITS_AT_ONCE * UNIT * halves;
    Ok(Quantity::of(rates(&samples, moved as f64)))
}

/// `64 MiB`, `1.5 GiB`.
fn written(bytes: u64) -> String {
    let units = [(1024 * MIB, "GiB"), (MIB, "MiB"), (KIB, "KiB")];
    let (unit, name) = units.into_iter().find(|(unit, _)| bytes >= *unit).unwrap_or((1, "B"));
    format!("{} {name}", (bytes as f64 / unit as f64 * 100.0).round() / 100.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_grow_by_a_quarter_at_most_and_stay_within_bounds() {
        let sizes = sizes(256 * KIB, 2048 * MIB, 64 * KIB);
        assert_eq!((sizes[0], sizes[1]), (256 * KIB, 320 * KIB));
        assert_eq!(sizes.last(), Some(&(2048 * MIB)));
        for pair in sizes.windows(2) {
            assert!(pair[1] > pair[0] && pair[1] as f64 <= 1.26 * pair[0] as f64, "{pair:?}");
        }
        assert!(sizes.iter().all(|size| size % (64 * KIB) == 0));
    }

    #[test]
    fn bytes_are_written_in_the_largest_unit() {
        assert_eq!(written(4 * KIB), "4 KiB");
        assert_eq!(written(3 * MIB / 2), "1.5 MiB");
        assert_eq!(written(2048 * MIB), "2 GiB");
    }
}

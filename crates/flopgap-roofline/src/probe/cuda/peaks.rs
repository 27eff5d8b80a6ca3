//! Peaks of arithmetic.

use std::time::{Duration, Instant};

use flopgap_flops::Precision;
use flopgap_gpu::Stream;
use flopgap_gpu::timing::{Repetitions, Samples, launches};

use super::super::{ProbeError, Progress, sort};
use super::kernels::{Extent, Kernels, PEAK_THREADS, Pattern, Sums};
use crate::{Instruction, Peak, Quantity};

/// A kernel of a peak.
#[derive(Debug, Clone, Copy)]
struct Kind {
    name: &'static str,
    precision: Precision,
    instruction: Instruction,
    /// Multiply-adds of a thread in a step; with ones, as much is added to the thread's sum.
    multiply_adds: u64,
    /// Random operands.
    random: Pattern,
    /// Operands that are all one.
    ones: Pattern,
}

/// Signs and mantissas are random, magnitudes from 0.5 to 1; 8-bit integers are random as a whole.
fn patterns(precision: Precision) -> (Pattern, Pattern) {
    let (keep, set, one) = match precision {
        Precision::Fp32 => (0x807f_ffff, 0x3f00_0000, 0x3f80_0000),
        Precision::Tf32 => (0x807f_e000, 0x3f00_0000, 0x3f80_0000),
        Precision::Fp16 => (0x83ff_83ff, 0x3800_3800, 0x3c00_3c00),
        Precision::Bf16 => (0x807f_807f, 0x3f00_3f00, 0x3f80_3f80),
        Precision::Int8 => (u32::MAX, 0, 0x0101_0101),
    };
    (Pattern { keep, set }, Pattern { keep: 0, set: one })
}

/// The peaks in the order in which they are measured. `turing`: products of tensor cores are
/// smaller there.
fn kinds(turing: bool) -> Vec<Kind> {
    let kind = |name, precision, instruction, multiply_adds| {
        let (random, ones) = patterns(precision);
        Kind { name, precision, instruction, multiply_adds, random, ones }
    };
    // Length of the sums of a product of 32 bytes a row.
    let length = |precision: Precision| 32 / precision.element().bytes();
    // A step is 32 products, of each of which a thread has four sums.
    let mma = |name, precision| {
        // On Turing m16n8k8, and m8n8k16 of integers: as many multiply-adds of a thread.
        let of_product = if turing { 4 * 8 } else { 4 * length(precision) };
        kind(name, precision, Instruction::MmaSync, 32 * of_product)
    };
    // A step is 16 products, of each of which a thread has 128 sums.
    let wgmma = |name, precision| kind(name, precision, Instruction::Wgmma, 16 * 128 * length(precision));
    vec![
        kind("peak_fma", Precision::Fp32, Instruction::Fma, 16 * 8),
        mma("peak_mma_tf32", Precision::Tf32),
        mma("peak_mma_fp16", Precision::Fp16),
        mma("peak_mma_bf16", Precision::Bf16),
        mma("peak_mma_int8", Precision::Int8),
        wgmma("peak_wgmma_tf32", Precision::Tf32),
        wgmma("peak_wgmma_fp16", Precision::Fp16),
        wgmma("peak_wgmma_bf16", Precision::Bf16),
        wgmma("peak_wgmma_int8", Precision::Int8),
    ]
}

/// Steps on ones: no sum reaches 2^24, up to which 32-bit floats count.
const CHECKED_STEPS: u32 = 4;
/// How long a timed kernel should take, and how long the GPU works before, so that its clock
/// is steady.
const TIMED_NS: f64 = 2e6;
const WARM_UP: Duration = Duration::from_millis(120);
const REPETITIONS: Repetitions = Repetitions { warmup: 2, measured: 15 };

/// Peaks, the fastest of a precision first; the clock while they ran; and what is absent.
pub(super) type Measured = (Vec<Peak>, Option<Quantity>, Vec<String>);

/// Measures all peaks of this GPU.
pub(super) fn measure(
    kernels: &Kernels,
    stream: &Stream,
    progress: Progress<'_>,
) -> Result<Measured, ProbeError> {
    let device = kernels.context().device();
    let turing = device.compute_capability.major < 8;
    // `wgmma` holds a block a multiprocessor, by its registers; the others fill the multiprocessor.
    let full = (device.threads_per_multiprocessor / PEAK_THREADS).max(1);
    let mut sums = Sums::new(stream, (device.multiprocessors * full * PEAK_THREADS) as usize)?;
    let (mut peaks, mut clocks, mut absent) = (Vec::new(), Vec::new(), Vec::new());
    for kind in kinds(turing).into_iter().filter(|kind| kernels.has(kind.name)) {
        progress(&format!("peak of {} ({:?})", kind.precision, kind.instruction));
        let each = match kind.instruction {
            Instruction::Wgmma => 1,
            // 32 tiles of sums and their operands: what every architecture holds.
            Instruction::MmaSync => full.min(4),
            _ => full,
        };
        let blocks = device.multiprocessors * each;
        check(kernels, stream, kind, blocks, &mut sums)?;
        let (rate, clock) = time(kernels, stream, kind, blocks, &mut sums)?;
        clocks.extend(clock);
        let tensor = kind.instruction != Instruction::Fma;
        let peak = |ops_per_second| Peak {
            precision: kind.precision,
            tensor,
            ops_per_second,
            instruction: Some(kind.instruction),
        };
        peaks.extend(rate.map(peak));
    }
    for precision in Precision::ALL {
        if !peaks.iter().any(|peak| peak.precision == precision) {
            absent.push(format!("{precision}: this GPU has no instruction for it"));
        }
    }
    if device.compute_capability.major >= 10 {
        absent.push(
            "tcgen05: tensor-core peaks are those of mma.sync, which may be far below those of libraries"
                .to_owned(),
        );
    }
    sort(&mut peaks);
    Ok((peaks, Quantity::of(clocks), absent))
}

/// With ones, every multiply-add adds one: every thread's sum must be the number of those that are
/// counted as its work.
fn check(
    kernels: &Kernels,
    stream: &Stream,
    kind: Kind,
    blocks: u32,
    sums: &mut Sums,
) -> Result<(), ProbeError> {
    let extent = Extent { blocks, steps: CHECKED_STEPS };
    kernels.queue_peak(stream, kind.name, extent, kind.ones, sums)?;
    let expected = (kind.multiply_adds * u64::from(CHECKED_STEPS)) as f64;
    let found = sums.download(stream)?;
    let threads = (blocks * PEAK_THREADS) as usize;
    match found[..threads].iter().find(|sum| (f64::from(**sum) - expected).abs() > 0.5) {
        None => Ok(()),
        Some(sum) => Err(ProbeError::Wrong { kernel: kind.name, found: f64::from(*sum), expected }),
    }
}

/// Operations per second, and the clock in kHz meanwhile.
fn time(
    kernels: &Kernels,
    stream: &Stream,
    kind: Kind,
    blocks: u32,
    sums: &mut Sums,
) -> Result<(Option<Quantity>, Option<f64>), ProbeError> {
    let mut run = |steps: u32, repetitions: Repetitions| -> Result<Samples, ProbeError> {
        launches(stream, repetitions, || {
            kernels.queue_peak(stream, kind.name, Extent { blocks, steps }, kind.random, sums)
        })
    };
    let once = Repetitions { warmup: 1, measured: 3 };
    let guess = 256_u32;
    let short = run(guess, once)?.median().max(1.0);
    let steps = scaled(guess, TIMED_NS / short);
    let start = Instant::now();
    while start.elapsed() < WARM_UP {
        run(steps, Repetitions { warmup: 0, measured: 8 })?;
    }
    let samples = run(steps, REPETITIONS)?;
    let operations =
        2.0 * kind.multiply_adds as f64 * f64::from(steps) * f64::from(blocks) * f64::from(PEAK_THREADS);
    let rates = rates(&samples, operations);
    Ok((Quantity::of(rates), sums.clock_khz(stream)?))
}

/// So many times as many, at least one.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "clamped")]
pub(super) fn scaled(steps: u32, factor: f64) -> u32 {
    (f64::from(steps) * factor).round().clamp(1.0, f64::from(u32::MAX / 2)) as u32
}

/// An amount in each second, of samples in nanoseconds.
pub(super) fn rates(samples: &Samples, amount: f64) -> Vec<f64> {
    samples.sorted().iter().map(|nanoseconds| amount / (nanoseconds * 1e-9)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_work_of_a_step_follows_from_the_shapes_of_the_products() {
        // m64n256k16 by a warpgroup of 128 threads, 16 times.
        let fp16 = kinds(false).into_iter().find(|kind| kind.name == "peak_wgmma_fp16").unwrap();
        assert_eq!(fp16.multiply_adds * 128, 64 * 256 * 16 * 16);
        // m16n8k32 by a warp, 32 times; m8n8k16 on Turing.
        let int8 = |turing| kinds(turing).into_iter().find(|kind| kind.name == "peak_mma_int8").unwrap();
        assert_eq!(int8(false).multiply_adds * 32, 16 * 8 * 32 * 32);
        assert_eq!(int8(true).multiply_adds * 32, 8 * 8 * 16 * 32);
        let tf32 = kinds(false).into_iter().find(|kind| kind.name == "peak_mma_tf32").unwrap();
        assert_eq!(tf32.multiply_adds * 32, 16 * 8 * 8 * 32);
    }

    #[test]
    fn sums_of_ones_stay_exact() {
        for kind in kinds(false).into_iter().chain(kinds(true)) {
            assert!(kind.multiply_adds * u64::from(CHECKED_STEPS) < 1 << 24, "{}", kind.name);
        }
    }

    #[test]
    fn operands_are_numbers_of_the_magnitude() {
        for hash in [0_u32, u32::MAX, 0x1234_5678] {
            let Pattern { keep, set } = patterns(Precision::Fp32).0;
            let magnitude = f32::from_bits(hash & keep | set).abs();
            assert!((0.5..1.0).contains(&magnitude), "{magnitude}");
        }
        for precision in Precision::ALL {
            let (random, ones) = patterns(precision);
            assert_eq!((random.keep & random.set, ones.keep), (0, 0), "{precision}");
        }
    }

    #[test]
    fn rates_are_those_of_every_sample() {
        let samples = Samples::new(vec![4.0, 1.0, 2.0]);
        let rates = rates(&samples, 8.0);
        assert_eq!(rates.len(), 3);
        for (rate, expected) in rates.iter().zip([8e9, 4e9, 2e9]) {
            assert!((rate / expected - 1.0).abs() < 1e-12, "{rate}");
        }
    }
}

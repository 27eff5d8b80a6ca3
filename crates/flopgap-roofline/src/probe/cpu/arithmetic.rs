//! Peaks of arithmetic.

use std::hint::black_box;
use std::time::{Duration, Instant};

use super::super::{ProbeError, Progress, sort};
use super::lockstep::together;
use super::looped::Loop;
use super::vectors::loops;
use crate::{Instruction, Peak, Quantity};

/// How long a round of a loop takes on one thread, and how often it is timed.
const ROUND: Duration = Duration::from_millis(1);
const ROUNDS: usize = 80;
/// The first rounds, in which clocks rise.
const WARM_UP: usize = 5;
/// Steps on ones: few enough that 32-bit floats count exactly.
const CHECKED_STEPS: u32 = 1000;

/// Peaks of so many threads together.
pub(super) fn peaks(threads: usize, progress: Progress<'_>) -> Result<Vec<Peak>, ProbeError> {
    let mut peaks = Vec::new();
    for one in loops() {
        progress(&format!("peak of {} ({:?}), {threads} threads", one.precision, one.instruction));
        check(one)?;
        let steps = steps(one);
        let times = together(
            threads,
            ROUNDS + WARM_UP,
            |_| (),
            |()| {
                black_box((one.run)(steps, false));
            },
        )?;
        let operations = 2.0 * one.multiply_adds as f64 * f64::from(steps) * threads as f64;
        let rates = times[WARM_UP..].iter().map(|time| operations / time.as_secs_f64()).collect();
        let peak = |ops_per_second| Peak {
            precision: one.precision,
            tensor: one.instruction == Instruction::Amx,
            ops_per_second,
            instruction: Some(one.instruction),
        };
        peaks.extend(Quantity::largest(rates).map(peak));
    }
    sort(&mut peaks);
    Ok(peaks)
}

/// With ones, the sum of all sums is the number of multiply-adds.
fn check(one: Loop) -> Result<(), ProbeError> {
    let found = (one.run)(CHECKED_STEPS, true);
    let expected = (one.multiply_adds * u64::from(CHECKED_STEPS)) as f64;
    if (found - expected).abs() < 0.5 {
        return Ok(());
    }
    let kernel = match one.instruction {
        Instruction::Avx512Vnni | Instruction::AvxVnni => "of VNNI",
        Instruction::Avx512Bf16 => "of AVX-512 BF16",
        Instruction::Amx => "of AMX",
        _ => "of fp32 on the CPU",
    };
    Err(ProbeError::Wrong { kernel, found, expected })
}

/// Steps of a round.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "clamped")]
fn steps(one: Loop) -> u32 {
    const GUESS: u32 = 20_000;
    let time = |()| {
        let start = Instant::now();
        black_box((one.run)(GUESS, false));
        start.elapsed().as_secs_f64()
    };
    let best = [(); 3].map(time).into_iter().fold(f64::INFINITY, f64::min).max(1e-9);
    (f64::from(GUESS) * ROUND.as_secs_f64() / best).clamp(1000.0, 1e9) as u32
}

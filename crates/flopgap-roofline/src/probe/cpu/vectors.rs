//! Loops of multiply-adds on vector registers. The unsafe part of the probe of a CPU: calling
//! functions that need instructions which were requested before.
#![cfg_attr(
    target_arch = "x86_64",
    expect(
        unsafe_code,
        reason = "a function that uses instructions beyond the baseline may only be called where the CPU has them"
    )
)]

use flopgap_flops::Precision;

use super::looped::Loop;
use crate::Instruction;

/// Sums that are computed side by side: enough to hide the latency of four or five cycles in two or
/// four units.
const SUMS: usize = 16;

/// The loops that this CPU can run, for each precision the widest of its kind.
pub(super) fn loops() -> Vec<Loop> {
    let mut loops = Vec::new();
    #[cfg(target_arch = "x86_64")]
    {
        let wide =
            |precision, instruction, multiply_adds, run| Loop { precision, instruction, multiply_adds, run };
        let sums = SUMS as u64;
        if is_x86_feature_detected!("avx512f") {
            loops.push(wide(Precision::Fp32, Instruction::Avx512, sums * 16, |steps, ones| {
                // SAFETY: the CPU has AVX-512F.
                unsafe { x86::fma_512(steps, ones) }
            }));
        } else if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") {
            loops.push(wide(Precision::Fp32, Instruction::Avx2, x86::SUMS_256 as u64 * 8, |steps, ones| {
                // SAFETY: the CPU has AVX2 and FMA.
                unsafe { x86::fma_256(steps, ones) }
            }));
        }
        if is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512bf16") {
            loops.push(wide(Precision::Bf16, Instruction::Avx512Bf16, sums * 32, |steps, ones| {
                // SAFETY: the CPU has AVX-512F and AVX-512 BF16.
                unsafe { x86::bf16_512(steps, ones) }
            }));
        }
        if is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512vnni") {
            loops.push(wide(Precision::Int8, Instruction::Avx512Vnni, sums * 64, |steps, ones| {
                // SAFETY: the CPU has AVX-512F and AVX-512 VNNI.
                unsafe { x86::int8_512(steps, ones) }
            }));
        } else if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("avxvnni") {
            loops.push(wide(
                Precision::Int8,
                Instruction::AvxVnni,
                x86::SUMS_256 as u64 * 32,
                |steps, ones| {
                    // SAFETY: the CPU has AVX2 and AVX-VNNI.
                    unsafe { x86::int8_256(steps, ones) }
                },
            ));
        }
    }
    #[cfg(all(target_arch = "x86_64", target_os = "linux"))]
    loops.extend(super::tiles::loops());
    if !loops.iter().any(|one: &Loop| one.precision == Precision::Fp32) {
        let multiply_adds = SUMS as u64 * 4;
        loops.push(Loop {
            precision: Precision::Fp32,
            instruction: Instruction::Vector128,
            multiply_adds,
            run: portable,
        });
    }
    loops
}

/// Factor and addend: ones, or numbers near them with which sums stay where they are.
fn operands(ones: bool) -> (f32, f32) {
    let (factor, addend) = if ones { (1.0, 1.0) } else { (0.999_7, 0.000_3) };
    // The compiler must not know them: it would compute the sums itself.
    (std::hint::black_box(factor), std::hint::black_box(addend))
}

/// The compiler's translation of 128-bit vectors, without knowledge of CPU features.
fn portable(steps: u32, ones: bool) -> f64 {
    let (factor, addend) = operands(ones);
    let mut sums = [[0.0_f32; 4]; SUMS];
    for _ in 0..steps {
        for sum in sums.as_flattened_mut() {
            // Fused where it is one instruction; a function of the library elsewhere.
            *sum = if cfg!(target_arch = "aarch64") {
                sum.mul_add(factor, addend)
            } else {
                *sum * factor + addend
            };
        }
    }
    sums.as_flattened().iter().copied().map(f64::from).sum()
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::x86_64::{
        __m256, __m256i, __m512, __m512bh, __m512i, _mm256_dpbusd_avx_epi32, _mm256_fmadd_ps,
        _mm256_set1_epi8, _mm256_set1_ps, _mm256_setzero_ps, _mm256_setzero_si256, _mm512_dpbf16_ps,
        _mm512_dpbusd_epi32, _mm512_fmadd_ps, _mm512_set1_epi8, _mm512_set1_epi16, _mm512_set1_ps,
        _mm512_setzero_ps, _mm512_setzero_si512,
    };
    use std::hint::black_box;

    use super::{SUMS, operands};

    /// There are 16 registers of 256 bits, of which two hold the operands.
    pub(super) const SUMS_256: usize = 12;

    #[target_feature(enable = "avx512f")]
    pub(super) fn fma_512(steps: u32, ones: bool) -> f64 {
        let (factor, addend) = operands(ones);
        let (factor, addend) = (_mm512_set1_ps(factor), _mm512_set1_ps(addend));
        let mut sums = [_mm512_setzero_ps(); SUMS];
        for _ in 0..steps {
            for sum in &mut sums {
                *sum = _mm512_fmadd_ps(*sum, factor, addend);
            }
        }
        sums.iter().map(floats_512).sum()
    }

    #[target_feature(enable = "avx2,fma")]
    pub(super) fn fma_256(steps: u32, ones: bool) -> f64 {
        let (factor, addend) = operands(ones);
        let (factor, addend) = (_mm256_set1_ps(factor), _mm256_set1_ps(addend));
        let mut sums = [_mm256_setzero_ps(); SUMS_256];
        for _ in 0..steps {
            for sum in &mut sums {
                *sum = _mm256_fmadd_ps(*sum, factor, addend);
            }
        }
        // SAFETY: both are 32 bytes, and any bits are floats.
        let lanes = |sum: &__m256| unsafe { std::mem::transmute::<__m256, [f32; 8]>(*sum) };
        sums.iter().flat_map(lanes).map(f64::from).sum()
    }

    #[target_feature(enable = "avx512f,avx512bf16")]
    pub(super) fn bf16_512(steps: u32, ones: bool) -> f64 {
        // 1.0, and the smallest number above 2^-24 with which sums stay small.
        let bits: i16 = if ones { 0x3f80 } else { 0x3380 };
        let factor = _mm512_set1_epi16(black_box(bits));
        // SAFETY: both are 64 bytes, and any bits are numbers.
        let factor = unsafe { std::mem::transmute::<__m512i, __m512bh>(factor) };
        let mut sums = [_mm512_setzero_ps(); SUMS];
        for _ in 0..steps {
            for sum in &mut sums {
                *sum = _mm512_dpbf16_ps(*sum, factor, factor);
            }
        }
        sums.iter().map(floats_512).sum()
    }

    #[target_feature(enable = "avx512f,avx512vnni")]
    pub(super) fn int8_512(steps: u32, ones: bool) -> f64 {
        let (left, right) = bytes(ones);
        let (left, right) = (_mm512_set1_epi8(left), _mm512_set1_epi8(right));
        let mut sums = [_mm512_setzero_si512(); SUMS];
        for _ in 0..steps {
            for sum in &mut sums {
                *sum = _mm512_dpbusd_epi32(*sum, left, right);
            }
        }
        // SAFETY: both are 64 bytes, and any bits are integers.
        let lanes = |sum: &__m512i| unsafe { std::mem::transmute::<__m512i, [i32; 16]>(*sum) };
        sums.iter().flat_map(lanes).map(f64::from).sum()
    }

    #[target_feature(enable = "avx2,avxvnni")]
    pub(super) fn int8_256(steps: u32, ones: bool) -> f64 {
        let (left, right) = bytes(ones);
        let (left, right) = (_mm256_set1_epi8(left), _mm256_set1_epi8(right));
        let mut sums = [_mm256_setzero_si256(); SUMS_256];
        for _ in 0..steps {
            for sum in &mut sums {
                *sum = _mm256_dpbusd_avx_epi32(*sum, left, right);
            }
        }
        // SAFETY: both are 32 bytes, and any bits are integers.
        let lanes = |sum: &__m256i| unsafe { std::mem::transmute::<__m256i, [i32; 8]>(*sum) };
        sums.iter().flat_map(lanes).map(f64::from).sum()
    }

    fn bytes(ones: bool) -> (i8, i8) {
        let (left, right) = if ones { (1, 1) } else { (113, -91) };
        (black_box(left), black_box(right))
    }

    fn floats_512(sum: &__m512) -> f64 {
        // SAFETY: both are 64 bytes, and any bits are floats.
        let lanes = unsafe { std::mem::transmute::<__m512, [f32; 16]>(*sum) };
        lanes.into_iter().map(f64::from).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_loop_does_the_work_that_it_counts() {
        let mut all = loops();
        let fallback = Loop {
            precision: Precision::Fp32,
            instruction: Instruction::Vector128,
            multiply_adds: SUMS as u64 * 4,
            run: portable,
        };
        all.push(fallback);
        for one in all {
            let sum = (one.run)(100, true);
            let expected = (one.multiply_adds * 100) as f64;
            assert!((sum - expected).abs() < 0.5, "{:?}: {sum}, not {expected}", one.instruction);
        }
    }

    #[test]
    fn sums_of_other_numbers_stay_numbers() {
        for one in loops() {
            assert!((one.run)(100_000, false).is_finite(), "{:?}", one.instruction);
        }
    }

    #[test]
    fn there_is_always_fp32() {
        assert_eq!(loops().iter().filter(|one| one.precision == Precision::Fp32).count(), 1);
    }
}

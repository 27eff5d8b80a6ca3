//! Walks through memory, compiled for the widest vectors that this CPU has.
#![cfg_attr(
    target_arch = "x86_64",
    expect(
        unsafe_code,
        reason = "a function that uses instructions beyond the baseline may only be called where the CPU has them"
    )
)]

use std::hint::black_box;

/// Numbers that are read or written side by side: 256 bytes, four registers of 512 bits or sixteen
/// of 128.
const AT_ONCE: usize = 32;

/// A walk; all of the memory is touched once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Walk {
    /// Reads it.
    Read,
    /// Writes it.
    Write,
    /// Reads the first half and writes the second.
    Copy,
}

/// Walks through the memory so many times; what comes out is only there to be used.
pub(super) fn walk(walk: Walk, memory: &mut [u64], passes: u32) -> u64 {
    #[cfg(target_arch = "x86_64")]
    {
        if is_x86_feature_detected!("avx512f") {
            // SAFETY: the CPU has AVX-512F.
            return unsafe { x86::walk_512(walk, memory, passes) };
        }
        if is_x86_feature_detected!("avx2") {
            // SAFETY: the CPU has AVX2.
            return unsafe { x86::walk_256(walk, memory, passes) };
        }
    }
    walk_any(walk, memory, passes, read)
}

/// Compiled again into each of its callers, with their instructions. `read` gives all numbers of so
/// many passes, xor-ed.
#[inline(always)]
#[expect(clippy::inline_always, reason = "it must have the instructions of its caller")]
fn walk_any(walk: Walk, memory: &mut [u64], passes: u32, read: impl Fn(&[u64], u32) -> u64) -> u64 {
    if walk == Walk::Read {
        return read(memory, passes);
    }
    for pass in 0..passes {
        let memory = black_box(&mut *memory);
        if walk == Walk::Write {
            write(memory, u64::from(pass) | 0x0102_0304_0506_0700);
        } else {
            copy(memory, u64::from(pass));
        }
    }
    0
}

fn read(memory: &[u64], passes: u32) -> u64 {
    // The compiler must not see that a pass repeats the one before.
    (0..passes).fold(0, |all, _| black_box(memory).iter().fold(all, |all, number| all ^ number))
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::x86_64::{
        __m256i, __m512i, _mm256_loadu_si256, _mm256_setzero_si256, _mm256_xor_si256, _mm512_loadu_si512,
        _mm512_setzero_si512, _mm512_xor_si512,
    };

    use std::hint::black_box;

    use super::{AT_ONCE, Walk, walk_any};

    #[target_feature(enable = "avx512f")]
    pub(super) fn walk_512(walk: Walk, memory: &mut [u64], passes: u32) -> u64 {
        walk_any(walk, memory, passes, |memory, passes| read_512(memory, passes))
    }

    #[target_feature(enable = "avx2")]
    pub(super) fn walk_256(walk: Walk, memory: &mut [u64], passes: u32) -> u64 {
        walk_any(walk, memory, passes, |memory, passes| read_256(memory, passes))
    }

    /// With arrays of numbers as sums, the compiler writes them to memory after every step.
    #[target_feature(enable = "avx512f")]
    fn read_512(memory: &[u64], passes: u32) -> u64 {
        let mut sums = [_mm512_setzero_si512(); AT_ONCE / 8];
        for _ in 0..passes {
            for numbers in black_box(memory).as_chunks::<AT_ONCE>().0 {
                for (sum, eight) in sums.iter_mut().zip(numbers.as_chunks::<8>().0) {
                    // SAFETY: eight numbers of 64 bits are 512.
                    *sum = _mm512_xor_si512(*sum, unsafe { _mm512_loadu_si512(eight.as_ptr().cast()) });
                }
            }
        }
        // SAFETY: both are 64 bytes, and any bits are integers.
        let lanes = |sum: __m512i| unsafe { std::mem::transmute::<__m512i, [u64; 8]>(sum) };
        sums.into_iter().flat_map(lanes).fold(0, |all, number| all ^ number)
    }

    #[target_feature(enable = "avx2")]
    fn read_256(memory: &[u64], passes: u32) -> u64 {
        let mut sums = [_mm256_setzero_si256(); AT_ONCE / 4];
        for _ in 0..passes {
            for numbers in black_box(memory).as_chunks::<AT_ONCE>().0 {
                for (sum, four) in sums.iter_mut().zip(numbers.as_chunks::<4>().0) {
                    // SAFETY: four numbers of 64 bits are 256.
                    *sum = _mm256_xor_si256(*sum, unsafe { _mm256_loadu_si256(four.as_ptr().cast()) });
                }
            }
        }
        // SAFETY: both are 32 bytes, and any bits are integers.
        let lanes = |sum: __m256i| unsafe { std::mem::transmute::<__m256i, [u64; 4]>(sum) };
        sums.into_iter().flat_map(lanes).fold(0, |all, number| all ^ number)
    }
}

#[inline(always)]
#[expect(clippy::inline_always, reason = "it must have the instructions of its caller")]
fn write(memory: &mut [u64], number: u64) {
    // Not one byte repeated: the compiler would call `memset`, which writes past the caches where
    // it finds that better.
    let number = black_box(number);
    for numbers in memory.as_chunks_mut::<AT_ONCE>().0 {
        numbers.fill(number);
    }
}

#[inline(always)]
#[expect(clippy::inline_always, reason = "it must have the instructions of its caller")]
fn copy(memory: &mut [u64], number: u64) {
    // Not a plain copy: the compiler would call `memcpy`, likewise.
    let number = black_box(number);
    let (from, to) = memory.split_at_mut(memory.len() / 2);
    for (to, from) in to.as_chunks_mut::<AT_ONCE>().0.iter_mut().zip(from.as_chunks::<AT_ONCE>().0) {
        for (to, from) in to.iter_mut().zip(from) {
            *to = from ^ number;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn walks_touch_all_of_the_memory() {
        let mut memory: Vec<u64> = (0..256).map(|index| 1 << (index % 64)).collect();
        memory[7] ^= 0xff00;
        assert_eq!(walk(Walk::Read, &mut memory, 1), 0xff00, "every other bit is there four times");
        assert_eq!(walk(Walk::Copy, &mut memory, 1), 0);
        assert_eq!(memory[..128], memory[128..]);
        walk(Walk::Write, &mut memory, 3);
        assert!(memory.iter().all(|number| *number == 0x0102_0304_0506_0702));
    }

    #[test]
    fn every_way_of_compiling_does_the_same() {
        let memory: Vec<u64> = (0..512_u64).map(|index| index.wrapping_mul(0x9e37_79b9_7f4a_7c15)).collect();
        for way in [Walk::Read, Walk::Write, Walk::Copy] {
            let (mut one, mut other) = (memory.clone(), memory.clone());
            assert_eq!(walk(way, &mut one, 2), walk_any(way, &mut other, 2, read), "{way:?}");
            assert_eq!(one, other, "{way:?}");
        }
    }
}

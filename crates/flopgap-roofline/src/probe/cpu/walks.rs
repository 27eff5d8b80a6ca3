//! Walks through memory, compiled for the widest vectors that this CPU has.
#![expect(
    unsafe_code,
    reason = "a function that uses instructions beyond the baseline may only be called where the CPU has them"
)]

/// Numbers that are read or written side by side: 256 bytes, four registers of 512 bits or sixteen of 128.
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
            return unsafe { walk_512(walk, memory, passes) };
        }
        if is_x86_feature_detected!("avx2") {
            // SAFETY: the CPU has AVX2.
            return unsafe { walk_256(walk, memory, passes) };
        }
    }
    walk_any(walk, memory, passes)
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f")]
fn walk_512(walk: Walk, memory: &mut [u64], passes: u32) -> u64 {
    walk_any(walk, memory, passes)
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn walk_256(walk: Walk, memory: &mut [u64], passes: u32) -> u64 {
    walk_any(walk, memory, passes)
}

/// Compiled anew into each of the functions above, with their instructions.
#[inline(always)]
#[expect(clippy::inline_always, reason = "it must have the instructions of its caller")]
fn walk_any(walk: Walk, memory: &mut [u64], passes: u32) -> u64 {
    let mut result = 0;
    for pass in 0..passes {
        // The compiler must not see that a pass repeats the one before.
        let memory = std::hint::black_box(&mut *memory);
        match walk {
            Walk::Read => result ^= read(memory),
            Walk::Write => write(memory, u64::from(pass) | 0x0102_0304_0506_0700),
            Walk::Copy => copy(memory, u64::from(pass)),
        }
    }
    result
}

#[inline(always)]
#[expect(clippy::inline_always, reason = "it must have the instructions of its caller")]
fn read(memory: &[u64]) -> u64 {
    let mut sums = [0; AT_ONCE];
    for numbers in memory.as_chunks::<AT_ONCE>().0 {
        for (sum, number) in sums.iter_mut().zip(numbers) {
            *sum ^= number;
        }
    }
    sums.into_iter().fold(0, |all, sum| all ^ sum)
}

#[inline(always)]
#[expect(clippy::inline_always, reason = "it must have the instructions of its caller")]
fn write(memory: &mut [u64], number: u64) {
    // Not one byte repeated: the compiler would call `memset`, which writes past the caches where it finds that better.
    let number = std::hint::black_box(number);
    for numbers in memory.as_chunks_mut::<AT_ONCE>().0 {
        numbers.fill(number);
    }
}

#[inline(always)]
#[expect(clippy::inline_always, reason = "it must have the instructions of its caller")]
fn copy(memory: &mut [u64], number: u64) {
    // Not a plain copy: the compiler would call `memcpy`, likewise.
    let number = std::hint::black_box(number);
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
            assert_eq!(walk(way, &mut one, 2), walk_any(way, &mut other, 2), "{way:?}");
            assert_eq!(one, other, "{way:?}");
        }
    }
}

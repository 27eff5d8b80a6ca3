//! Numbers from a seed: the same on every machine, since a plan must not change between them.

use crate::split::{fnv, mix};

/// `SplitMix64` (Steele, Lea, Flood 2014). Integers only, so that no rounding of a mathematical
/// library shows.
#[derive(Debug, Clone)]
pub(super) struct Random(u64);

impl Random {
    /// The sequence of a seed and of what it is for: two purposes share no numbers.
    pub(super) fn new(seed: u64, purpose: &str) -> Self {
        let mut random = Random(seed ^ fnv(purpose.as_bytes()));
        random.next();
        random
    }

    fn next(&mut self) -> u64 {
        let bits = mix(self.0);
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        bits
    }

    /// Uniform below `bound`; 0 for a bound of 0.
    pub(super) fn below(&mut self, bound: u64) -> u64 {
        // The high half of a 128-bit product: uneven by less than 2^-40 for the bounds used here.
        u64::try_from((u128::from(self.next()) * u128::from(bound)) >> 64).unwrap_or(0)
    }

    /// Uniform from `low` to `high`, both included.
    pub(super) fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.below(high.saturating_sub(low) + 1)
    }

    /// Whether something of this probability in percent happens.
    pub(super) fn percent(&mut self, probability: u64) -> bool {
        self.below(100) < probability
    }

    /// A number whose octave is uniform, from `2^low` to below `2^high`.
    pub(super) fn octave(&mut self, low: u64, high: u64) -> u64 {
        let base = 1 << self.between(low, high.saturating_sub(1));
        base + self.below(base)
    }

    /// A power of two from `2^low` to `2^high`, both included.
    pub(super) fn power(&mut self, low: u64, high: u64) -> u64 {
        1 << self.between(low, high)
    }

    /// One of several; they must not be empty.
    pub(super) fn pick<T: Copy>(&mut self, all: &[T]) -> T {
        all[usize::try_from(self.below(all.len() as u64)).unwrap_or(0)]
    }

    /// One of several by their weights.
    pub(super) fn weighted<T: Copy>(&mut self, all: &[(u64, T)]) -> T {
        let mut left = self.below(all.iter().map(|(weight, _)| weight).sum());
        for &(weight, value) in all {
            if left < weight {
                return value;
            }
            left -= weight;
        }
        all[0].1
    }

    /// Another order of the same.
    pub(super) fn shuffle<T>(&mut self, all: &mut [T]) {
        for last in (1..all.len()).rev() {
            let other = usize::try_from(self.below(last as u64 + 1)).unwrap_or(0);
            all.swap(last, other);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sequence_is_the_published_one() {
        // SplitMix64 from seed 0 begins e220a8397b1dcdaf, 6e789e6aa1b965f4.
        let mut random = Random(0);
        assert_eq!((random.next(), random.next()), (0xe220_a839_7b1d_cdaf, 0x6e78_9e6a_a1b9_65f4));
    }

    #[test]
    fn numbers_keep_to_their_bounds_and_reach_them() {
        let mut random = Random::new(1, "test");
        let mut seen = [0; 3];
        for _ in 0..3000 {
            seen[usize::try_from(random.below(3)).unwrap()] += 1;
            assert!((16..1024).contains(&random.octave(4, 10)));
            assert!([4, 8].contains(&random.power(2, 3)));
            assert_eq!(random.weighted(&[(0, 'a'), (5, 'b')]), 'b');
        }
        assert!(seen.iter().all(|&count| (900..1100).contains(&count)), "{seen:?}");
        assert_eq!(random.below(0), 0);
    }

    #[test]
    fn purposes_share_no_numbers() {
        let first = |purpose| Random::new(7, purpose).next();
        assert_ne!(first("a"), first("b"));
        assert_eq!(first("a"), first("a"));
    }

    #[test]
    fn a_shuffle_keeps_everything() {
        let mut all: Vec<u32> = (0..100).collect();
        Random::new(7, "shuffle").shuffle(&mut all);
        assert_ne!(all, (0..100).collect::<Vec<_>>());
        all.sort_unstable();
        assert_eq!(all, (0..100).collect::<Vec<_>>());
    }
}

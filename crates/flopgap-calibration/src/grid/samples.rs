//! How many samples a layer or network is measured with.

use super::random::Random;

/// Numbers of samples: those that are requested, or from 1 to `2^octaves`; half of them powers of
/// two, as batches are.
pub(super) fn samples(random: &mut Random, batches: &[u64], octaves: u64) -> u64 {
    if !batches.is_empty() {
        return random.pick(batches);
    }
    match random.below(20) {
        0..10 => random.power(0, octaves),
        10..13 => 3 * random.power(0, octaves - 2),
        13..16 => random.octave(0, octaves).next_multiple_of(8),
        _ => random.octave(0, octaves),
    }
}

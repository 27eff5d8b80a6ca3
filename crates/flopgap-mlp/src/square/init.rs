//! Weights and inputs from a seed: the same numbers on every backend.

use crate::square::Shape;

/// The number at `index` of the sequence of `seed`, uniform in [-1, 1) in steps of 2^-23.
///
/// It is the top 24 bits of `SplitMix64` (Steele, Lea, Flood 2014), started at `seed` and read at `index`. All of it is exact, so a GPU
/// gives the same bits.
pub fn uniform(seed: u64, index: u64) -> f32 {
    let mut bits = seed.wrapping_add(index.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^= bits >> 31;
    // 24 bits: exact as an f32.
    (bits >> 40) as f32 * (1.0 / 8_388_608.0) - 1.0
}

/// The largest weight of a network of this width: Glorot's bound for the sigmoid, `4 sqrt(6 / (D + D))`. Activations then keep their spread
/// from layer to layer and gradients do not vanish, so that errors show.
#[expect(clippy::cast_possible_truncation, reason = "rounded to the precision of the weights")]
pub fn weight_bound(shape: Shape) -> f32 {
    (4.0 * (3.0 / shape.width() as f64).sqrt()) as f32
}

/// The weights of a seed: elements 0 to N D^2 of its sequence, times [`weight_bound`].
pub fn weights(shape: Shape, seed: u64) -> Vec<f32> {
    let bound = weight_bound(shape);
    (0..shape.weights() as u64).map(|index| uniform(seed, index) * bound).collect()
}

/// The input of a seed: the D M elements of its sequence after the weights.
pub fn input(shape: Shape, seed: u64) -> Vec<f32> {
    let first = shape.weights() as u64;
    (0..shape.panel() as u64).map(|index| uniform(seed, first.wrapping_add(index))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sequence_is_the_published_one() {
        // SplitMix64 from seed 0 begins e220a8397b1dcdaf, 6e789e6aa1b965f4.
        let expected = |bits: u64| (bits >> 40) as f32 / 8_388_608.0 - 1.0;
        assert_eq!(uniform(0, 0).to_bits(), expected(0xe220_a839_7b1d_cdaf).to_bits());
        assert_eq!(uniform(0, 1).to_bits(), expected(0x6e78_9e6a_a1b9_65f4).to_bits());
    }

    #[test]
    fn numbers_are_uniform_and_differ_by_seed() {
        let shape = Shape::new(2, 32, 8).unwrap();
        let all = weights(shape, 7);
        let bound = weight_bound(shape);
        assert!(all.iter().all(|weight| weight.abs() <= bound));
        let mean = all.iter().sum::<f32>() / all.len() as f32;
        assert!(mean.abs() < 0.1 * bound, "{mean}");
        assert_ne!(all, weights(shape, 8));
        assert!(input(shape, 7).iter().all(|x| (-1.0..1.0).contains(x)));
    }
}

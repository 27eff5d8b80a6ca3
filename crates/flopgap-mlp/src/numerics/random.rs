//! Numbers from a seed.

/// The number at `index` of the sequence of `seed`, uniform in [-1, 1) in steps of 2^-23.
///
/// It is the top 24 bits of `SplitMix64` (Steele, Lea, Flood 2014), started at `seed` and read at
/// `index`. Every step is exact, so a GPU produces the same bits.
pub fn uniform(seed: u64, index: u64) -> f32 {
    let mut bits = seed.wrapping_add(index.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^= bits >> 31;
    // 24 bits: exact as an f32.
    (bits >> 40) as f32 * (1.0 / 8_388_608.0) - 1.0
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
}

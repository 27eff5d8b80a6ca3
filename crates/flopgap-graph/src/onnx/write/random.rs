//! Parameters from a seed.

use crate::graph::Tensor;

/// The numbers of `SplitMix64` (Steele, Lea and Flood 2014).
pub(super) struct Random(u64);

impl Random {
    /// The numbers of one tensor of a model: those of another tensor are others.
    pub(super) fn new(seed: u64, tensor: usize) -> Self {
        let mut random = Random(seed ^ (tensor as u64).wrapping_mul(0xD1B5_4A32_D192_ED03));
        random.next();
        random
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// Uniform in `low..high`.
    pub(super) fn between(&mut self, low: f32, high: f32) -> f32 {
        // 24 bits are what a float holds exactly.
        let unit = (self.next() >> 40) as f32 / (1_u32 << 24) as f32;
        low + unit * (high - low)
    }
}

/// The role of a parameter, which decides its values.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Role {
    /// Weights of inner sums of this length.
    Weights {
        /// Products in each sum.
        inner: u64,
    },
    /// Something added.
    Bias,
    /// A gain, shift or statistic of a normalization, or a factor.
    Gain,
}

impl Role {
    /// The values are uniform between these bounds.
    pub(super) fn bounds(self) -> (f32, f32) {
        match self {
            // With a variance of 2/3 over the length, sums neither grow nor fade much through
            // dozens of layers, in 16 bits, too.
            Role::Weights { inner } => {
                let bound = (2.0 / inner.max(1) as f32).sqrt();
                (-bound, bound)
            }
            Role::Bias => (-0.1, 0.1),
            Role::Gain => (0.5, 1.5),
        }
    }

    /// The mean of the squares of the values.
    pub(super) fn mean_square(self) -> f64 {
        let (low, high) = self.bounds();
        let (low, high) = (f64::from(low), f64::from(high));
        (low * low + low * high + high * high) / 3.0
    }

    /// The values of a tensor in this role.
    pub(super) fn values(self, tensor: &Tensor, index: usize, seed: u64) -> Vec<f32> {
        let mut random = Random::new(seed, index);
        let (low, high) = self.bounds();
        let count = tensor.shape.iter().product::<u64>();
        (0..count).map(|_| random.between(low, high)).collect()
    }
}

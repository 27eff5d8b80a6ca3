//! Types of elements, and numbers from a seed.

use flopgap_gpu::AnyBits;
use half::{bf16, f16};

/// Numbers from a seed (`splitmix64`).
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Random(seed)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// From -1 to 1.
    fn uniform(&mut self) -> f64 {
        (self.next() >> 11) as f64 / f64::from(1 << 26) / f64::from(1 << 26) - 1.0
    }
}

/// How activations and weights are stored.
pub(crate) trait Element: AnyBits + Copy {
    /// How the bias is stored.
    type Bias: AnyBits + Copy;

    fn of(value: f64) -> Self;
    fn value(self) -> f64;
    fn bias_value(bias: Self::Bias) -> f64;

    /// Uniform within `width` of 0.
    fn draw(random: &mut Random, count: usize, width: f64) -> Vec<Self> {
        (0..count).map(|_| Self::of(width * random.uniform())).collect()
    }

    fn draw_bias(random: &mut Random, count: usize) -> Vec<Self::Bias>;
}

macro_rules! float {
    ($($kind:ty: $of:expr, $value:expr;)*) => {
        $(
            impl Element for $kind {
                type Bias = $kind;

                #[expect(clippy::cast_possible_truncation, reason = "rounded")]
                fn of(value: f64) -> Self {
                    $of(value as f32)
                }

                fn value(self) -> f64 {
                    $value(self)
                }

                fn bias_value(bias: Self) -> f64 {
                    bias.value()
                }

                fn draw_bias(random: &mut Random, count: usize) -> Vec<Self> {
                    Self::draw(random, count, 1.0)
                }
            }
        )*
    };
}

float! {
    f32: |value: f32| value, f64::from;
    f16: f16::from_f32, f16::to_f64;
    bf16: bf16::from_f32, bf16::to_f64;
}

/// Whole numbers over the whole range, whatever the width.
impl Element for i8 {
    type Bias = f32;

    #[expect(clippy::cast_possible_truncation, reason = "clamped")]
    fn of(value: f64) -> Self {
        value.round_ties_even().clamp(-128.0, 127.0) as i8
    }

    fn value(self) -> f64 {
        f64::from(self)
    }

    fn bias_value(bias: f32) -> f64 {
        f64::from(bias)
    }

    fn draw(random: &mut Random, count: usize, _width: f64) -> Vec<Self> {
        (0..count).map(|_| Self::of(127.0 * random.uniform())).collect()
    }

    #[expect(clippy::cast_possible_truncation, reason = "rounded")]
    fn draw_bias(random: &mut Random, count: usize) -> Vec<f32> {
        (0..count).map(|_| (16.0 * random.uniform()) as f32).collect()
    }
}

//! The types that numbers are stored in.

use std::fmt;
use std::str::FromStr;

use flopgap_gpu::AnyBits;
use half::{bf16, f16};

use crate::MlpError;

/// The type in which parameters, inputs and outputs are stored. Sums are in 32 bits unless
/// [`Accumulate::F16`](crate::cuda::Accumulate::F16) is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Precision {
    /// 32-bit floats. Products are exact multiply-adds: no TF32.
    F32,
    /// IEEE half precision: 11 significant bits, up to 65,504.
    F16,
    /// bfloat16: 8 significant bits, the range of 32-bit floats.
    Bf16,
}

impl Precision {
    /// All of them.
    pub const ALL: [Self; 3] = [Precision::F32, Precision::F16, Precision::Bf16];

    /// Bytes of a number.
    pub const fn bytes(self) -> usize {
        match self {
            Precision::F32 => 4,
            Precision::F16 | Precision::Bf16 => 2,
        }
    }

    /// `fp32`, `fp16` or `bf16`.
    pub const fn name(self) -> &'static str {
        match self {
            Precision::F32 => "fp32",
            Precision::F16 => "fp16",
            Precision::Bf16 => "bf16",
        }
    }

    /// The largest relative error of [`round`](Self::round): half of the last of its 24, 11 or 8
    /// bits.
    pub const fn unit_roundoff(self) -> f64 {
        match self {
            Precision::F32 => f32::EPSILON as f64 / 2.0,
            Precision::F16 => 1.0 / 2048.0,
            Precision::Bf16 => 1.0 / 256.0,
        }
    }

    /// The nearest number that can be stored, ties to even.
    #[expect(clippy::cast_possible_truncation, reason = "rounding is what it is for")]
    pub fn round(self, value: f64) -> f64 {
        match self {
            Precision::F32 => f64::from(value as f32),
            Precision::F16 => f16::from_f64(value).to_f64(),
            Precision::Bf16 => bf16::from_f64(value).to_f64(),
        }
    }
}

impl fmt::Display for Precision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Precision {
    type Err = MlpError;

    fn from_str(text: &str) -> Result<Self, MlpError> {
        Self::ALL.into_iter().find(|precision| precision.name() == text).ok_or_else(|| MlpError::Name {
            what: "precision",
            found: text.to_owned(),
            known: "fp32, fp16, bf16",
        })
    }
}

/// A number as it is stored: `f32`, [`half::f16`] or [`half::bf16`].
pub trait Element:
    AnyBits + Copy + Default + fmt::Debug + PartialEq + Send + Sync + sealed::Sealed + 'static
{
    /// Which it is.
    const PRECISION: Precision;

    /// The nearest number of this type, ties to even.
    fn narrow(value: f32) -> Self;

    /// The same number in 32 bits.
    fn widen(self) -> f32;
}

mod sealed {
    pub trait Sealed {}
    impl Sealed for f32 {}
    impl Sealed for half::f16 {}
    impl Sealed for half::bf16 {}
}

impl Element for f32 {
    const PRECISION: Precision = Precision::F32;

    fn narrow(value: f32) -> Self {
        value
    }

    fn widen(self) -> f32 {
        self
    }
}

impl Element for f16 {
    const PRECISION: Precision = Precision::F16;

    fn narrow(value: f32) -> Self {
        f16::from_f32(value)
    }

    fn widen(self) -> f32 {
        self.to_f32()
    }
}

impl Element for bf16 {
    const PRECISION: Precision = Precision::Bf16;

    fn narrow(value: f32) -> Self {
        bf16::from_f32(value)
    }

    fn widen(self) -> f32 {
        self.to_f32()
    }
}

//! The arithmetic of products.

use std::str::FromStr;

use strum::{EnumCount as _, VariantArray as _};

use crate::{ElementType, FlopError, checked};

/// The arithmetic of matrix products and convolutions. In text and JSON: `fp32`, `tf32`, `fp16`,
/// `bf16`, `int8`.
///
/// It differs from [`ElementType`], which says how a number is stored: TF32 products read and write
/// 32-bit floats.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
#[derive(strum::Display, strum::IntoStaticStr, strum::EnumCount, strum::VariantArray)]
#[strum(serialize_all = "lowercase")]
pub enum Precision {
    /// 32-bit multiplications and additions; no TF32.
    Fp32,
    /// 32-bit floats, multiplied with 10 bits of mantissa, added in 32 bits: tensor cores from
    /// Ampere on.
    Tf32,
    /// IEEE binary16, added in 32 bits.
    Fp16,
    /// bfloat16, added in 32 bits.
    Bf16,
    /// 8-bit integers, added in 32-bit integers.
    Int8,
}

impl Precision {
    /// Every precision, widest first.
    pub const ALL: [Self; Self::COUNT] = *Self::VARIANTS.first_chunk().expect("all variants");

    /// How its operands are stored.
    ///
    /// ```
    /// use flopgap_flops::{ElementType, Precision};
    ///
    /// assert_eq!(Precision::Tf32.element(), ElementType::Fp32);
    /// ```
    pub const fn element(self) -> ElementType {
        match self {
            Self::Fp32 | Self::Tf32 => ElementType::Fp32,
            Self::Fp16 => ElementType::Fp16,
            Self::Bf16 => ElementType::Bf16,
            Self::Int8 => ElementType::Int8,
        }
    }

    /// The precision of products of operands that are stored so; in 32 bits, that without tensor
    /// cores.
    ///
    /// ```
    /// use flopgap_flops::{ElementType, Precision};
    ///
    /// assert_eq!(Precision::of(ElementType::Fp32), Some(Precision::Fp32));
    /// assert_eq!(Precision::of(ElementType::Fp64), None);
    /// ```
    pub fn of(element: ElementType) -> Option<Self> {
        Self::ALL.into_iter().find(|precision| precision.element() == element)
    }

    /// The name used in text and JSON.
    pub fn name(self) -> &'static str {
        self.into()
    }
}

impl FromStr for Precision {
    type Err = FlopError;

    fn from_str(text: &str) -> Result<Self, FlopError> {
        checked::by_name("precision", text, &Self::ALL, Self::name)
    }
}

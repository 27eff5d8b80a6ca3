//! FLOPs and bytes of one operation.

use std::str::FromStr;

use strum::{EnumCount as _, VariantArray as _};

use crate::{FlopError, checked};

/// How a number is stored. In text and JSON: `fp64`, `fp32`, `fp16`, `bf16`, `fp8`, `int8`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
#[derive(strum::Display, strum::IntoStaticStr, strum::EnumCount, strum::VariantArray)]
#[strum(serialize_all = "lowercase")]
pub enum ElementType {
    /// IEEE binary64.
    Fp64,
    /// IEEE binary32; also what TF32 products read and write.
    Fp32,
    /// IEEE binary16.
    Fp16,
    /// bfloat16.
    Bf16,
    /// Either 8-bit floating-point format.
    Fp8,
    /// 8-bit integer.
    Int8,
}

impl ElementType {
    /// Every type, widest first.
    pub const ALL: [Self; Self::COUNT] = *Self::VARIANTS.first_chunk().expect("all variants");

    /// Bytes of one element.
    pub const fn bytes(self) -> u64 {
        match self {
            Self::Fp64 => 8,
            Self::Fp32 => 4,
            Self::Fp16 | Self::Bf16 => 2,
            Self::Fp8 | Self::Int8 => 1,
        }
    }

    /// The name used in text and JSON.
    pub fn name(self) -> &'static str {
        self.into()
    }
}

impl FromStr for ElementType {
    type Err = FlopError;

    fn from_str(text: &str) -> Result<Self, FlopError> {
        checked::by_name("element type", text, &Self::ALL, Self::name)
    }
}

/// FLOPs of an operation and its compulsory bytes: every operand read once, every result written
/// once.
///
/// Compulsory bytes are what an ideal cache leaves; a kernel that re-reads operands moves more,
/// never less.
///
/// ```
/// use flopgap_flops::{ElementType, Work};
///
/// let product = Work::gemm(4096, 4096, 4096, ElementType::Bf16)?;
/// assert_eq!(product.flops, 137_438_953_472);
/// assert_eq!(product.bytes()?, 3 * 4096 * 4096 * 2);
/// # Ok::<(), flopgap_flops::FlopError>(())
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
pub struct Work {
    /// Floating-point operations: an addition or a multiplication is 1, a fused multiply-add 2.
    pub flops: u64,
    /// Bytes of all operands.
    pub bytes_read: u64,
    /// Bytes of all results.
    pub bytes_written: u64,
}

impl Work {
    /// Work from FLOPs and the numbers of elements read and written.
    pub(crate) fn of_elements(
        flops: u64,
        read: &[u64],
        written: &[u64],
        element: ElementType,
    ) -> Result<Self, FlopError> {
        let bytes = |quantity, elements: &[u64]| {
            checked::product(quantity, &[checked::sum(quantity, elements)?, element.bytes()])
        };
        Ok(Self {
            flops,
            bytes_read: bytes("bytes read", read)?,
            bytes_written: bytes("bytes written", written)?,
        })
    }

    /// The product of an `m x k` by a `k x n` matrix: `2 m n k` FLOPs; reads both, writes `m x n`.
    ///
    /// # Errors
    /// [`FlopError::Overflow`].
    pub fn gemm(m: u64, n: u64, k: u64, element: ElementType) -> Result<Self, FlopError> {
        let elements = |rows, columns| checked::product("GEMM operand elements", &[rows, columns]);
        let flops = checked::product("GEMM FLOPs", &[2, m, n, k])?;
        Self::of_elements(flops, &[elements(m, k)?, elements(k, n)?], &[elements(m, n)?], element)
    }

    /// Bytes read and written.
    ///
    /// # Errors
    /// [`FlopError::Overflow`].
    pub fn bytes(&self) -> Result<u64, FlopError> {
        checked::sum("bytes moved", &[self.bytes_read, self.bytes_written])
    }

    /// Component-wise sum: the operations one after the other, each with its own traffic.
    ///
    /// # Errors
    /// [`FlopError::Overflow`].
    pub fn checked_add(&self, more: &Self) -> Result<Self, FlopError> {
        Ok(Self {
            flops: checked::sum("total FLOPs", &[self.flops, more.flops])?,
            bytes_read: checked::sum("bytes read", &[self.bytes_read, more.bytes_read])?,
            bytes_written: checked::sum("bytes written", &[self.bytes_written, more.bytes_written])?,
        })
    }

    /// The same work done `times` times.
    ///
    /// # Errors
    /// [`FlopError::Overflow`].
    pub fn checked_repeat(&self, times: u64) -> Result<Self, FlopError> {
        Ok(Self {
            flops: checked::product("total FLOPs", &[self.flops, times])?,
            bytes_read: checked::product("bytes read", &[self.bytes_read, times])?,
            bytes_written: checked::product("bytes written", &[self.bytes_written, times])?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn element_names_agree_with_json() {
        for element in ElementType::ALL {
            assert_eq!(element.to_string().parse(), Ok(element));
            assert_eq!(serde_json::to_string(&element).unwrap(), format!("\"{element}\""));
        }
        assert!("float".parse::<ElementType>().is_err());
    }

    #[test]
    fn an_outer_product_by_hand() {
        // 2mn FLOPs over m + n + mn elements.
        let outer = Work::gemm(3, 5, 1, ElementType::Fp64).unwrap();
        assert_eq!(outer, Work { flops: 30, bytes_read: 64, bytes_written: 120 });
    }

    #[test]
    fn sums_and_repeats() {
        let work = Work { flops: 1, bytes_read: 2, bytes_written: 3 };
        assert_eq!(work.checked_add(&work), work.checked_repeat(2));
        assert_eq!(work.checked_repeat(u64::MAX), Err(FlopError::overflow("bytes read")));
        let most = Work { flops: u64::MAX, ..work };
        assert_eq!(most.checked_add(&work), Err(FlopError::overflow("total FLOPs")));
    }
}

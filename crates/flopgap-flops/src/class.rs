//! FLOPs by class of kernel.

use crate::{FlopError, checked};

/// FLOPs of one pass, by the class of the kernel that executed them.
///
/// Serializes as an object with the keys `gemm`, `split_k`, `activation`, `other` and `total`.
///
/// ```
/// use flopgap_flops::ClassFlops;
///
/// let counted = ClassFlops { gemm: 2_702_704_640, split_k: 3_932_160, activation: 20_969_786, other: 0 };
/// assert_eq!(counted.total()?, 2_727_606_586);
/// assert_eq!(
///     serde_json::to_string(&counted).unwrap(),
///     r#"{"gemm":2702704640,"split_k":3932160,"activation":20969786,"other":0,"total":2727606586}"#,
/// );
/// # Ok::<(), flopgap_flops::FlopError>(())
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct ClassFlops {
    /// Matrix products.
    pub gemm: u64,
    /// Reductions of partial sums: split-K (`splitKreduce_kernel`) and the loss or bias reduction
    /// of a backward pass (`reduce_kernel`).
    pub split_k: u64,
    /// Element-wise kernels: activations and their derivatives.
    pub activation: u64,
    /// Everything that belongs to none of the above. Never dropped: it is part of the total.
    pub other: u64,
}

impl ClassFlops {
    /// Sum of the four classes, in FLOPs.
    ///
    /// # Errors
    /// [`FlopError::Overflow`] when the sum exceeds `u64`.
    pub fn total(&self) -> Result<u64, FlopError> {
        checked::sum("total FLOPs", &[self.gemm, self.split_k, self.activation, self.other])
    }

    /// Class-wise sum, for adding launches or passes.
    ///
    /// # Errors
    /// [`FlopError::Overflow`] when a class exceeds `u64`.
    pub fn checked_add(&self, more: &Self) -> Result<Self, FlopError> {
        Ok(Self {
            gemm: checked::sum("GEMM FLOPs", &[self.gemm, more.gemm])?,
            split_k: checked::sum("split-K FLOPs", &[self.split_k, more.split_k])?,
            activation: checked::sum("activation FLOPs", &[self.activation, more.activation])?,
            other: checked::sum("other FLOPs", &[self.other, more.other])?,
        })
    }
}

impl serde::Serialize for ClassFlops {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        use serde::ser::{Error as _, SerializeStruct as _};

        let total = self.total().map_err(S::Error::custom)?;
        let mut object = serializer.serialize_struct("ClassFlops", 5)?;
        object.serialize_field("gemm", &self.gemm)?;
        object.serialize_field("split_k", &self.split_k)?;
        object.serialize_field("activation", &self.activation)?;
        object.serialize_field("other", &self.other)?;
        object.serialize_field("total", &total)?;
        object.end()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FLOPS: ClassFlops = ClassFlops { gemm: 40, split_k: 3, activation: 2, other: 1 };

    #[test]
    fn overflow_is_an_error_in_every_direction() {
        let huge = ClassFlops { gemm: u64::MAX, other: 1, ..ClassFlops::default() };
        assert_eq!(huge.total(), Err(FlopError::overflow("total FLOPs")));
        assert!(serde_json::to_string(&huge).unwrap_err().to_string().starts_with("total FLOPs overflows"));
        assert_eq!(huge.checked_add(&huge), Err(FlopError::overflow("GEMM FLOPs")));
        let doubled = FLOPS.checked_add(&FLOPS).unwrap();
        assert_eq!(doubled, ClassFlops { gemm: 80, split_k: 6, activation: 4, other: 2 });
    }
}

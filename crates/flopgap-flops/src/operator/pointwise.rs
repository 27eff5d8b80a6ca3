//! Operators whose cost goes by the element.

use crate::{ElementType, FlopError, Work, checked};

/// `each` FLOPs for each of `written` elements; reads `read` elements, a broadcast operand once.
///
/// # Errors
/// [`FlopError::Overflow`].
pub fn elementwise(each: u64, read: u64, written: u64, element: ElementType) -> Result<Work, FlopError> {
    let flops = checked::product("element-wise FLOPs", &[each, written])?;
    Work::of_elements(flops, &[read], &[written], element)
}

/// A softmax over each of `rows` rows: 5 FLOPs per element (maximum, subtract, exp, sum, divide).
///
/// ```
/// use flopgap_flops::{ElementType, operator};
///
/// assert_eq!(operator::softmax(4 * 12 * 512, 512, ElementType::Fp32)?.flops, 62_914_560);
/// # Ok::<(), flopgap_flops::FlopError>(())
/// ```
///
/// # Errors
/// [`FlopError::Overflow`].
pub fn softmax(rows: u64, columns: u64, element: ElementType) -> Result<Work, FlopError> {
    let elements = checked::product("softmax elements", &[rows, columns])?;
    elementwise(5, elements, elements, element)
}

/// The source of a normalization's statistics.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum NormKind {
    /// They are given: a scale and a shift by channel, 2 FLOPs per element.
    BatchInference,
    /// Mean and variance of rows or groups: 7 FLOPs per element (sum for the mean; subtract it;
    /// square and sum; scale; gain; shift).
    MeanAndVariance,
    /// The root of the mean square of each row: 4 FLOPs per element (square and sum; scale; gain).
    RootMeanSquare,
}

/// A normalization of `rows` times `columns` elements that reads so many parameters: gains, shifts,
/// stored statistics.
///
/// # Errors
/// [`FlopError::Overflow`].
pub fn normalization(
    kind: NormKind,
    rows: u64,
    columns: u64,
    parameters: u64,
    element: ElementType,
) -> Result<Work, FlopError> {
    let elements = checked::product("norm elements", &[rows, columns])?;
    let each = match kind {
        NormKind::BatchInference => 2,
        NormKind::MeanAndVariance => 7,
        NormKind::RootMeanSquare => 4,
    };
    let flops = checked::product("norm FLOPs", &[each, elements])?;
    Work::of_elements(flops, &[elements, parameters], &[elements], element)
}

/// `rows` rows of `width` elements picked out of a table: no FLOPs; the rows are read and written,
/// the indexes are not counted.
///
/// # Errors
/// [`FlopError::Overflow`].
pub fn gather(rows: u64, width: u64, element: ElementType) -> Result<Work, FlopError> {
    copy(checked::product("gathered elements", &[rows, width])?, element)
}

/// Sums, means or maxima: 1 FLOP for each element read.
///
/// # Errors
/// [`FlopError::Overflow`].
pub fn reduction(inputs: u64, outputs: u64, element: ElementType) -> Result<Work, FlopError> {
    Work::of_elements(inputs, &[inputs], &[outputs], element)
}

/// Elements moved without arithmetic.
///
/// # Errors
/// [`FlopError::Overflow`].
pub fn copy(elements: u64, element: ElementType) -> Result<Work, FlopError> {
    Work::of_elements(0, &[elements], &[elements], element)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn by_hand() {
        let e = ElementType::Fp32;
        let work = |flops, read: u64, written: u64| {
            Ok(Work { flops, bytes_read: 4 * read, bytes_written: 4 * written })
        };
        assert_eq!(elementwise(3, 20, 10, e), work(30, 20, 10));
        assert_eq!(softmax(3, 10, e), work(150, 30, 30));
        assert_eq!(normalization(NormKind::BatchInference, 3, 10, 12, e), work(60, 42, 30));
        assert_eq!(normalization(NormKind::MeanAndVariance, 3, 10, 20, e), work(210, 50, 30));
        assert_eq!(normalization(NormKind::RootMeanSquare, 3, 10, 10, e), work(120, 40, 30));
        assert_eq!(gather(3, 10, e), work(0, 30, 30));
        assert_eq!(reduction(30, 3, e), work(30, 30, 3));
        assert_eq!(copy(7, e), work(0, 7, 7));
    }

    #[test]
    fn too_large_is_named() {
        assert_eq!(softmax(u64::MAX, 2, ElementType::Int8), Err(FlopError::overflow("softmax elements")));
        assert_eq!(
            elementwise(5, 1, u64::MAX / 4, ElementType::Int8),
            Err(FlopError::overflow("element-wise FLOPs"))
        );
    }
}

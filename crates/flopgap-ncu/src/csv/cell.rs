//! Interprets cells of numbers and the separators of a file.

use crate::model::Value;

/// The decimal separator of a file, once it is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Decimal {
    Point,
    Comma,
}

impl Decimal {
    pub(super) fn of(byte: u8) -> Self {
        if byte == b'.' { Decimal::Point } else { Decimal::Comma }
    }

    pub(super) fn other(self) -> Self {
        match self {
            Decimal::Point => Decimal::Comma,
            Decimal::Comma => Decimal::Point,
        }
    }

    /// The byte that may group thousands with this decimal separator.
    pub(crate) fn group(self) -> u8 {
        match self {
            Decimal::Point => b',',
            Decimal::Comma => b'.',
        }
    }
}

/// The meaning of a cell.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Cell {
    /// A number, and the decimal separator that it proves.
    Number(Value, Option<Decimal>),
    /// A number only if it is read with the other separator than the file's.
    Contradicts,
    /// One separator with three digits behind it, in a file whose separator is not known yet.
    Ambiguous,
    /// Not measured.
    Absent,
    /// Not a number.
    Text,
    /// Digits and separators that do not form a number.
    Malformed,
}

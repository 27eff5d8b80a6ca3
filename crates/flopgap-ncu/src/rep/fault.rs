//! Violations of the `.ncu-rep` format.

use std::fmt;

/// A violation of the `.ncu-rep` format.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum FormatFault {
    /// It does not begin with `NVR\0`.
    NoMagic,
    /// Its header has no version.
    NoVersion,
    /// Nothing follows its header: ncu was stopped before it wrote a result, or the file was cut
    /// off.
    NoResults,
    /// The file ends before a part.
    EndsBefore {
        /// The part, such as `a block header`.
        part: &'static str,
    },
    /// The file ends within a part.
    EndsWithin {
        /// The part.
        part: &'static str,
        /// How many bytes of it there are.
        found: u64,
        /// How many it should have.
        expected: u64,
    },
    /// A block ends before the messages that its header announces.
    BlockEnds,
    /// A message is longer than what its block has left.
    MessageTooLong {
        /// Bytes of the message.
        length: u64,
        /// Bytes left.
        left: u64,
    },
    /// A number is cut off by the end of its message.
    NumberCut,
    /// A number has more than 64 bits.
    NumberTooLong,
    /// A field is longer than its message.
    FieldTooLong,
    /// A field has no valid number.
    FieldNumber,
    /// A field has a type that no report uses.
    FieldType,
    /// A number exceeds 32 bits.
    Exceeds32Bits {
        /// What it counts.
        part: &'static str,
        /// The number.
        value: u64,
    },
    /// A part lacks something that it must have.
    Lacks {
        /// The part.
        part: &'static str,
        /// What is missing.
        what: &'static str,
    },
}

impl fmt::Display for FormatFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FormatFault::NoMagic => f.write_str("file does not begin with `NVR\\0`"),
            FormatFault::NoVersion => f.write_str("file header has no version"),
            FormatFault::NoResults => f.write_str(
                "file ends after its header: ncu was stopped before it wrote a result, or the file was cut off",
            ),
            FormatFault::EndsBefore { part } => write!(f, "file ends before {part}"),
            FormatFault::EndsWithin { part, found, expected } => {
                write!(f, "file ends after {found} of the {expected} bytes of {part}")
            }
            FormatFault::BlockEnds => {
                f.write_str("block ends before the messages that its header announces")
            }
            FormatFault::MessageTooLong { length, left } => {
                write!(f, "message of {length} bytes does not fit into the {left} bytes left in its block")
            }
            FormatFault::NumberCut => f.write_str("number is cut off by the end of its message"),
            FormatFault::NumberTooLong => f.write_str("number has more than 64 bits"),
            FormatFault::FieldTooLong => f.write_str("field is longer than its message"),
            FormatFault::FieldNumber => f.write_str("invalid field number"),
            FormatFault::FieldType => f.write_str("invalid field type"),
            FormatFault::Exceeds32Bits { part, value } => write!(f, "{part} of {value} exceeds 32 bits"),
            FormatFault::Lacks { part, what } => write!(f, "{part} has no {what}"),
        }
    }
}

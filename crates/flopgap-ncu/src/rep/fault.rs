//! Violations of the `.ncu-rep` format.

/// A violation of the `.ncu-rep` format.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FormatFault {
    /// It does not begin with `NVR\0`.
    #[error("file does not begin with `NVR\\0`")]
    NoMagic,
    /// Its header has no version.
    #[error("file header has no version")]
    NoVersion,
    /// Nothing follows its header: ncu was stopped before it wrote a result, or the file was cut
    /// off.
    #[error("file ends after its header: ncu was stopped before it wrote a result, or the file was cut off")]
    NoResults,
    /// The file ends before a part.
    #[error("file ends before {part}")]
    EndsBefore {
        /// The part, such as `a block header`.
        part: &'static str,
    },
    /// The file ends within a part.
    #[error("file ends after {found} of the {expected} bytes of {part}")]
    EndsWithin {
        /// The part.
        part: &'static str,
        /// How many bytes of it there are.
        found: u64,
        /// How many it should have.
        expected: u64,
    },
    /// A block ends before the messages that its header announces.
    #[error("block ends before the messages that its header announces")]
    BlockEnds,
    /// A message is longer than what its block has left.
    #[error("message of {length} bytes does not fit into the {left} bytes left in its block")]
    MessageTooLong {
        /// Bytes of the message.
        length: u64,
        /// Bytes left.
        left: u64,
    },
    /// A number is cut off by the end of its message.
    #[error("number is cut off by the end of its message")]
    NumberCut,
    /// A number has more than 64 bits.
    #[error("number has more than 64 bits")]
    NumberTooLong,
    /// A field is longer than its message.
    #[error("field is longer than its message")]
    FieldTooLong,
    /// A field has no valid number.
    #[error("invalid field number")]
    FieldNumber,
    /// A field has a type that no report uses.
    #[error("invalid field type")]
    FieldType,
    /// A number exceeds 32 bits.
    #[error("{part} of {value} exceeds 32 bits")]
    Exceeds32Bits {
        /// What it counts.
        part: &'static str,
        /// The number.
        value: u64,
    },
    /// A part lacks something that it must have.
    #[error("{part} has no {what}")]
    Lacks {
        /// The part.
        part: &'static str,
        /// What is missing.
        what: &'static str,
    },
}

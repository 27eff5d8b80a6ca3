//! The error type of the crate.

use std::borrow::Cow;

use flopgap_hint::Hint;

/// An error of computing a count.
///
/// Sizes and counts are checked integers: a result that does not fit is an
/// [`Overflow`](Self::Overflow) that names the quantity, never a wrapped, saturated or rounded
/// number.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FlopError {
    /// A count does not fit the integer that holds it (`u64` for counts, `i128`/`u128` inside a
    /// [`Ratio`](crate::Ratio)).
    #[error("{quantity} overflows its integer: too large to be counted exactly")]
    Overflow {
        /// What was being computed, for example `forward GEMM FLOPs` or `layer 3: parameters`.
        quantity: Cow<'static, str>,
    },
    /// A size that must be at least 1 is 0.
    #[error("{name} is 0; expected at least 1")]
    ZeroSize {
        /// The size.
        name: Cow<'static, str>,
    },
    /// An MLP was given fewer than two sizes.
    #[error("an MLP needs at least two sizes (input and output); found {found}")]
    TooFewSizes {
        /// How many sizes were given.
        found: usize,
    },
    /// An MLP was given more or fewer bias flags than it has layers.
    #[error("an MLP with {layers} layers needs {layers} bias flags; found {found}")]
    BiasCount {
        /// Layers of the MLP.
        layers: usize,
        /// Flags that were given.
        found: usize,
    },
    /// A recorded total differs from the sum of its classes.
    #[error(
        "total is {stated}, but gemm + split_k + activation + other is {sum}: the record is damaged or was edited"
    )]
    TotalMismatch {
        /// The recorded total.
        stated: u64,
        /// The sum of the recorded classes.
        sum: u64,
    },
    /// An unknown name.
    #[error("unknown {what} `{found}`; expected one of: {expected}")]
    UnknownName {
        /// What kind of name was read: `pass`, `activation`, `element type`.
        what: &'static str,
        /// The text that was read.
        found: String,
        /// The accepted names, separated by commas.
        expected: String,
    },
    /// Grouped-query attention needs the query heads to be a multiple of the key/value heads.
    #[error(
        "{heads} query heads cannot share {kv_heads} key/value heads evenly; expected a divisor of {heads}"
    )]
    UnevenHeads {
        /// Query heads.
        heads: u64,
        /// Key/value heads.
        kv_heads: u64,
    },
    /// Causal attention with fewer keys than queries leaves queries that may attend to nothing.
    #[error("causal attention with {queries} queries needs at least as many keys; found {keys}")]
    CausalNeedsKeys {
        /// Query positions.
        queries: u64,
        /// Key positions.
        keys: u64,
    },
    /// The groups of a convolution must divide its channels.
    #[error("{channels} channels cannot be divided evenly into {groups} groups")]
    UnevenGroups {
        /// Channels read or written.
        channels: u64,
        /// Groups.
        groups: u64,
    },
    /// A window is larger than the image with its padding.
    #[error("a window of {window} does not fit in an image of {image}, padding included")]
    WindowTooLarge {
        /// What the window covers, dilation included.
        window: u64,
        /// The image's size, padding included.
        image: u64,
    },
    /// Lists of sizes by dimension that differ in length.
    #[error("{name} has {found} sizes, but the image has {expected} dimensions")]
    UnequalRanks {
        /// The list.
        name: &'static str,
        /// Its length.
        found: usize,
        /// Dimensions of the image.
        expected: usize,
    },
    /// A fraction with denominator 0.
    #[error("denominator of a ratio is 0")]
    ZeroDenominator,
}

impl Hint for FlopError {}

impl FlopError {
    pub(crate) fn overflow(quantity: impl Into<Cow<'static, str>>) -> Self {
        Self::Overflow { quantity: quantity.into() }
    }

    /// Adds the position in a larger model to an overflow.
    pub(crate) fn within(self, place: impl std::fmt::Display) -> Self {
        match self {
            Self::Overflow { quantity } => Self::overflow(format!("{place}: {quantity}")),
            other => other,
        }
    }
}

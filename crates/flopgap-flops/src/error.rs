//! The error type of the crate.

use std::borrow::Cow;

use flopgap_files::Hint;

/// An error of computing a count.
///
/// Sizes and counts are checked integers: a result that does not fit is an
/// [`Overflow`](Self::Overflow) that names the quantity, never a wrapped, saturated or rounded
/// number.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FlopError {
    /// A count does not fit the integer that holds it.
    #[error("{quantity} overflows its integer: too large to be counted exactly")]
    Overflow {
        /// What was being computed, for example `forward GEMM FLOPs`.
        quantity: Cow<'static, str>,
    },
    /// A size that must be at least 1 is 0.
    #[error("{name} is 0; expected at least 1")]
    ZeroSize {
        /// The size.
        name: Cow<'static, str>,
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
}

impl Hint for FlopError {}

impl FlopError {
    pub(crate) fn overflow(quantity: impl Into<Cow<'static, str>>) -> Self {
        Self::Overflow { quantity: quantity.into() }
    }
}

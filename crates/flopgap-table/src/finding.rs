//! What is said of a recording that was read.

/// A warning, and whether rows or values are lost with it.
#[derive(Clone, Debug)]
pub(crate) struct Finding {
    pub(crate) text: String,
    pub(crate) is_loss: bool,
}

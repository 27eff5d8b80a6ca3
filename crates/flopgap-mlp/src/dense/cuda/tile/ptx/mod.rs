//! Instructions: all inline assembly of this crate.

pub(in crate::dense::cuda) mod wgmma;

//! Instructions: all inline assembly of this crate.

pub(in crate::cuda) mod wgmma;

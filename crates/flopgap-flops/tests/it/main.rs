//! Golden numbers, costs worked out by hand, and invariants over the whole range of sizes and
//! counts.

mod attention;
mod decomposition;
mod golden;

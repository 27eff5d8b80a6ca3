//! Golden numbers, costs worked out by hand, and invariants over the whole range of sizes and
//! counts.

mod attention;
mod by_hand;
mod decomposition;
mod general_mlp;
mod golden;

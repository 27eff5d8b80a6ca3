//! Golden numbers, published parameter counts, and invariants over the whole range of sizes and
//! counts.

mod by_hand;
mod decomposition;
mod general_mlp;
mod golden;
mod transformers;

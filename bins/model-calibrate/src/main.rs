//! `model-calibrate`.
fn main() {}

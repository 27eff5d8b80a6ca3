//! Trees over features, what they correct, how predictions are weighed, and intervals.

pub(crate) mod blend;
pub(crate) mod correction;
pub(crate) mod extra_trees;
pub(crate) mod forest;
pub(crate) mod interval;
pub(crate) mod separate;
pub(crate) mod split;

//! Models of steps and networks, made of formulas and trees.

pub(crate) mod experts;
pub(crate) mod memory;
pub(crate) mod model;
pub(crate) mod power;
pub(crate) mod steps;
pub(crate) mod total;

#![doc = include_str!("../README.md")]

mod ceilings;

pub use ceilings::{Bandwidth, Ceilings, Level, Peak, Quantity};

#![doc = include_str!("../README.md")]

pub mod file;
mod row;
#[cfg(test)]
mod testing;

pub use file::{Calibration, FileError, Header, Writer};
pub use row::{Check, DeviceState, Energy, EnergySource, Measurement, Origin, Row, RowKey, Timing};

#![doc = include_str!("../README.md")]

pub mod accuracy;
pub mod compare;
#[cfg(feature = "engines")]
pub mod engines;
mod executed;
pub mod file;
pub mod grid;
pub mod judge;
pub mod report;
mod row;
pub mod run;
pub mod sheet;
pub mod split;
#[cfg(test)]
mod testing;

pub use executed::executed_flops;
pub use file::{Calibration, FileError, FileFault, Header, Writer};
pub use row::{
    Check, DeviceState, Energy, EnergySource, Measurement, Origin, Row, RowKey, Timing, mode_by_name,
    mode_name,
};

#![doc = include_str!("../README.md")]

mod row;

pub use row::{Check, DeviceState, Energy, EnergySource, Measurement, Origin, Row, Timing};

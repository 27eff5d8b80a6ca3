//! Ceilings of this machine, measured.

pub mod cpu;
pub mod cuda;
mod error;
mod levels;
mod statistics;

pub use error::ProbeError;

/// Hears what is measured next, to show it: `bandwidth over 64 MiB`.
pub type Progress<'a> = &'a mut dyn FnMut(&str);

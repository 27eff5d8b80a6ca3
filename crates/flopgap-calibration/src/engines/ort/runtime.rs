//! The library and how sessions of it are opened.

use super::library::Loaded;
use crate::engines::cpu::{CpuSettings, References};

/// The engine's name.
pub(super) const NAME: &str = "ort";

/// The library, the settings of its sessions and the unit of their times.
#[derive(Debug)]
pub(super) struct Runtime {
    pub(super) settings: CpuSettings,
    pub(super) references: References,
    pub(super) loaded: Loaded,
}

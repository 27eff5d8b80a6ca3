//! The regimes of steps and models, which intervals and reports distinguish.

use crate::predict::inputs::machine::Roof;

/// What most of a prediction's time is bound by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
pub enum Regime {
    /// Launches: their cost exceeds the roofline.
    Launch,
    /// Arithmetic.
    Compute,
    /// Bytes.
    Memory,
}

impl Regime {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Launch, Self::Compute, Self::Memory];

    /// Its name in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Launch => "launch",
            Self::Compute => "compute",
            Self::Memory => "memory",
        }
    }

    /// The regime of a step with this launch cost and roofline.
    pub(crate) fn new(launch: f64, roof: &Roof) -> Self {
        if launch >= roof.nanoseconds() {
            Self::Launch
        } else if roof.compute >= roof.memory {
            Self::Compute
        } else {
            Self::Memory
        }
    }
}

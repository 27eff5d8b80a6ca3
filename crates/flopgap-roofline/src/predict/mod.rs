//! Time, memory and energy of networks on one engine of one machine, predicted from what was measured there.

mod baseline;
mod blend;
mod error;
mod estimate;
mod experts;
mod features;
mod forest;
mod interval;
mod kernel;
mod machine;
mod measured;
mod memory;
mod model;
mod nonnegative;
mod observation;
mod point;
mod power;
mod predictor;
mod range;
mod regime;
mod residue;
mod settings;
mod shape;
mod split;
mod steps;
mod structure;
mod terms;
mod trees;
mod whole;

pub use baseline::{Baseline, Constants};
pub use error::FitError;
pub use estimate::{Bottleneck, Estimate, StepEstimate};
pub use observation::Observation;
pub use predictor::Predictor;
pub use regime::Regime;
pub use settings::FitSettings;

//! Time, memory and energy of networks on one engine of one machine, predicted from what was
//! measured there.

mod error;
mod estimate;
mod formula;
mod inputs;
mod models;
mod observation;
mod predictor;
mod settings;
mod trees;

pub use error::FitError;
pub use estimate::{Basis, Bottleneck, Estimate, StepEstimate};
pub use formula::baseline::{Baseline, Constants};
pub use inputs::regime::Regime;
pub use observation::Observation;
pub use predictor::Predictor;
pub use settings::FitSettings;

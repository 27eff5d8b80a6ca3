//! Phases and overheads of recorded runs.

mod attribution;
mod breakdown;
mod cut;
mod profile;
mod recorded;
mod sizes;
mod structure;

use std::path::PathBuf;

use flopgap_flops::SquareMlp;
use flopgap_kernels::Classifier;
use flopgap_phases::{Analysis, PhaseError, Phases, Recording, Strictness};
use flopgap_testing::{fixture, unpacked_text};

/// The analysis of three reports that share a beginning of their names.
fn analyze(sizes: (u64, u64, u64), [setup, forward, both]: [PathBuf; 3]) -> Result<Analysis, PhaseError> {
    let classifier = Classifier::new();
    let setup = Recording::load_setup(&setup, &classifier)?;
    let forward = Recording::load(&forward, &classifier)?;
    let both = Recording::load(&both, &classifier)?;
    let network = SquareMlp::new(sizes.0, sizes.1, sizes.2)?;
    Analysis::new(network, &Phases::by_sequence(&setup, &forward, &both)?, Strictness::Strict)
}

//! Phases and overheads of recorded runs.

mod attribution;
mod breakdown;
mod cut;
mod profile;
mod recorded;
mod sizes;
mod structure;

use std::path::{Path, PathBuf};

use flopgap_flops::SquareMlp;
use flopgap_kernels::Classifier;
use flopgap_phases::{Analysis, PhaseError, Phases, Recording, Strictness};

/// A file of the repository's `fixtures/`.
fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures").join(name)
}

/// The analysis of three reports that share a beginning of their names.
fn analyze(sizes: (u64, u64, u64), [setup, forward, both]: [PathBuf; 3]) -> Result<Analysis, PhaseError> {
    let classifier = Classifier::new();
    let setup = Recording::load_setup(&setup, &classifier)?;
    let forward = Recording::load(&forward, &classifier)?;
    let both = Recording::load(&both, &classifier)?;
    let network = SquareMlp::new(sizes.0, sizes.1, sizes.2)?;
    Analysis::of(network, &Phases::by_sequence(&setup, &forward, &both)?, Strictness::Strict)
}

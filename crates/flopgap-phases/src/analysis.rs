//! Counted against theoretical FLOPs of a network, for both passes.

use flopgap_flops::{Decomposition, OverheadFactors, Pass, Plausibility, SquareMlp};
use serde::ser::SerializeStruct as _;
use serde::{Serialize, Serializer};

use crate::{KernelTotal, PhaseError, PhaseFlops, PhaseLaunches, Phases};

/// One pass of a network: counted and theoretical FLOPs, the overheads between them, and the kernels behind.
///
/// In JSON: `measured`, `theory`, `epsilon`, `rho`, `kappa`, `omega`, `reconstructed`.
#[derive(Clone, Debug, PartialEq)]
pub struct PassAnalysis {
    /// Counts, closed forms and overheads.
    pub decomposition: Decomposition,
    /// The kernels of the pass, the one with the most FLOPs first.
    pub kernels: Vec<KernelTotal>,
    /// Whether the counted GEMM FLOPs can be those of the stated network.
    pub plausibility: Plausibility,
}

impl PassAnalysis {
    fn of(network: SquareMlp, pass: Pass, phase: &PhaseLaunches<'_>) -> Result<Self, PhaseError> {
        let PhaseFlops { classes, kernels } = PhaseFlops::of(phase, pass)?;
        Ok(PassAnalysis {
            decomposition: Decomposition::of(network, pass, classes)?,
            plausibility: Plausibility::check(network, pass, &classes)?,
            kernels,
        })
    }
}

impl Serialize for PassAnalysis {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Decomposition { measured, theory, factors, reconstructed, .. } = &self.decomposition;
        let OverheadFactors { epsilon, rho, kappa, omega } = factors;
        let mut object = serializer.serialize_struct("PassAnalysis", 7)?;
        object.serialize_field("measured", measured)?;
        object.serialize_field("theory", theory)?;
        object.serialize_field("epsilon", epsilon)?;
        object.serialize_field("rho", rho)?;
        object.serialize_field("kappa", kappa)?;
        object.serialize_field("omega", omega)?;
        object.serialize_field("reconstructed", reconstructed)?;
        object.end()
    }
}

/// The overhead analysis of one network. In JSON: `config`, `forward`, `backward`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Analysis {
    /// The network.
    pub config: SquareMlp,
    /// The forward pass.
    pub forward: PassAnalysis,
    /// The loss and the backward pass.
    pub backward: PassAnalysis,
    /// What makes the numbers questionable, in words.
    #[serde(skip)]
    pub warnings: Vec<String>,
}

impl Analysis {
    /// Adds up both phases and decomposes them against the closed forms of `network`.
    ///
    /// # Errors
    /// [`PhaseError::Flops`] when a sum or a closed form does not fit its integer.
    pub fn of(network: SquareMlp, phases: &Phases<'_>) -> Result<Analysis, PhaseError> {
        let forward = PassAnalysis::of(network, Pass::Forward, &phases.forward)?;
        let backward = PassAnalysis::of(network, Pass::Backward, &phases.backward)?;
        let mut warnings = Vec::new();
        for (pass, part) in [(Pass::Forward, &forward), (Pass::Backward, &backward)] {
            if !part.plausibility.is_plausible() {
                warnings.push(format!("{pass}: {}", part.plausibility));
            }
        }
        if !phases.outside.launches.is_empty() {
            let outside = PhaseFlops::of(&phases.outside, Pass::Backward)?.classes.total()?;
            warnings.push(format!(
                "{} launches with {outside} FLOPs lie outside of the ranges setup, forward and backward and are \
                 counted in no pass",
                phases.outside.launches.len()
            ));
        }
        Ok(Analysis { config: network, forward, backward, warnings })
    }
}

//! Counted against theoretical FLOPs of one pass.

use flopgap_flops::{Decomposition, Exactness, OverheadFactors, Pass, Plausibility, SquareMlp};
use serde::ser::SerializeStruct as _;
use serde::{Serialize, Serializer};

use crate::structure::Structure;
use crate::{Contradiction, KernelTotal, LaunchKind, PhaseError, PhaseFlops, PhaseLaunches};

/// One pass of a network: counted and theoretical FLOPs, the overheads between them, and the
/// kernels behind.
///
/// In JSON: `measured`, `theory`, `epsilon`, `rho`, `kappa`, `omega`, `reconstructed`.
#[derive(Debug, Clone, PartialEq)]
pub struct PassAnalysis {
    /// Counts, closed forms and overheads.
    pub decomposition: Decomposition,
    /// The kernels of the pass, the one with the most FLOPs first.
    pub kernels: Vec<KernelTotal>,
    /// Whether the counted GEMM FLOPs can be those of the stated network.
    pub plausibility: Plausibility,
    /// Whether the counted activation FLOPs can be.
    pub activation_plausibility: Plausibility,
    /// The extents that the tile of each product's kernel may have along the columns.
    pub(crate) column_tiles: Vec<Vec<u64>>,
}

impl PassAnalysis {
    pub(crate) fn new(network: SquareMlp, pass: Pass, phase: &PhaseLaunches<'_>) -> Result<Self, PhaseError> {
        let PhaseFlops { classes, kernels } = PhaseFlops::new(phase, pass)?;
        let exactness = if phase.recording.is_rounded() { Exactness::Rounded } else { Exactness::Exact };
        Ok(PassAnalysis {
            decomposition: Decomposition::new(network, pass, classes)?,
            plausibility: Plausibility::of_gemm(network, pass, &classes, exactness)?,
            activation_plausibility: Plausibility::of_activation(network, pass, &classes, exactness)?,
            kernels,
            column_tiles: Vec::new(),
        })
    }

    /// Whether the kernel of a product would need another tile for `to` columns, of which it has
    /// now `from`: its work does not grow before, and jumps there. As far as grids show which side
    /// of a tile lies along the columns.
    pub fn needs_another_tile(&self, from: u64, to: u64) -> bool {
        let steps = |extent: &u64| to.div_ceil(*extent) > from.div_ceil(*extent);
        self.column_tiles.iter().any(|extents| extents.iter().all(steps))
    }

    /// Contradictions between the counts and the stated network, first of its launches, then of its
    /// sums.
    pub(crate) fn contradictions(
        &self,
        network: SquareMlp,
        structure: &Structure<'_>,
        phase: &PhaseLaunches<'_>,
    ) -> Result<Vec<Contradiction>, PhaseError> {
        let pass = self.decomposition.pass;
        let mut found: Vec<Contradiction> = structure.missing(network).collect();
        // If launches are missing, so are their FLOPs; it is reported once.
        let lacks = |kind| {
            found.iter().any(
                |one| matches!(one, Contradiction::MissingLaunches { kind: missing, .. } if *missing == kind),
            )
        };
        let sums = [
            (LaunchKind::Product, &self.plausibility),
            (LaunchKind::Activation, &self.activation_plausibility),
        ];
        let sums: Vec<Contradiction> = sums
            .into_iter()
            .filter(|(kind, verdict)| verdict.is_impossible() && !lacks(*kind))
            .map(|(_, verdict)| Contradiction::Impossible {
                run: phase.recording.path().to_owned(),
                pass,
                verdict: verdict.clone(),
            })
            .collect();
        found.extend(sums);
        if self.decomposition.difference != 0 {
            let measured = self.decomposition.measured.total()?;
            let reconstructed = self.decomposition.reconstructed;
            found.push(Contradiction::Reconstruction { pass, reconstructed, measured });
        }
        Ok(found)
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

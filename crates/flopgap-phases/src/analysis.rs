//! Counted against theoretical FLOPs of a network, for both passes.

use flopgap_flops::{Pass, SquareMlp};
use serde::{Serialize, Serializer};

use crate::pass::PassAnalysis;
use crate::sizes::{Sizes, column_tiles, tiles_explain};
use crate::structure::{Structure, other_layers};
use crate::{Contradiction, PhaseError, PhaseFlops, Phases, Warning};

/// The overhead analysis of one network. In JSON: `config`, `forward`, `backward`, and
/// `contradictions` where there are any.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Analysis {
    /// The network.
    pub config: SquareMlp,
    /// The forward pass.
    pub forward: PassAnalysis,
    /// The loss and the backward pass.
    pub backward: PassAnalysis,
    /// Reasons to question the numbers.
    #[serde(skip)]
    pub warnings: Vec<Warning>,
    /// Reasons why the numbers are impossible: only an analysis that was
    /// [forced](Strictness::Forced) has any. In JSON they are sentences.
    #[serde(skip_serializing_if = "Vec::is_empty", serialize_with = "sentences")]
    pub contradictions: Vec<Contradiction>,
}

impl Analysis {
    /// Adds up both phases and decomposes them against the closed forms of `network`.
    ///
    /// # Errors
    /// [`PhaseError::Contradicted`] when the recording cannot be one of a complete step of
    /// `network`: launches are missing, counts are below theory, or it is one of another number of
    /// layers. [`Strictness::Forced`] lists these in [`contradictions`](Analysis::contradictions)
    /// instead. [`PhaseError::Flops`] when a sum or a closed form does not fit its integer.
    pub fn new(
        network: SquareMlp,
        phases: &Phases<'_>,
        strictness: Strictness,
    ) -> Result<Analysis, PhaseError> {
        let analysis = examine(network, phases)?;
        if strictness == Strictness::Strict && !analysis.contradictions.is_empty() {
            return Err(PhaseError::Contradicted { network, contradictions: analysis.contradictions });
        }
        Ok(analysis)
    }
}

/// Contradictions as JSON has them.
fn sentences<S: Serializer>(contradictions: &[Contradiction], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(contradictions.iter().map(ToString::to_string))
}

/// How to treat a recording that cannot belong to the stated network.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Strictness {
    /// It is rejected.
    #[default]
    Strict,
    /// It is analyzed, and the reason is reported.
    Forced,
}

impl Strictness {
    /// [`Strictness::Forced`] if `force`.
    pub fn forced_if(force: bool) -> Strictness {
        if force { Strictness::Forced } else { Strictness::Strict }
    }
}

fn examine(network: SquareMlp, phases: &Phases<'_>) -> Result<Analysis, PhaseError> {
    let mut forward = PassAnalysis::new(network, Pass::Forward, &phases.forward)?;
    let mut backward = PassAnalysis::new(network, Pass::Backward, &phases.backward)?;
    let structures =
        [Structure::new(Pass::Forward, &phases.forward), Structure::new(Pass::Backward, &phases.backward)];
    for (part, structure) in [&mut forward, &mut backward].into_iter().zip(&structures) {
        part.column_tiles = column_tiles(network, structure);
    }
    let contradictions = contradictions(network, [&forward, &backward], &structures, phases)?;
    let other_sizes = contradictions.iter().any(|one| matches!(one, Contradiction::OtherSizes { .. }));
    let mut warnings = Vec::new();
    for (part, structure) in [&forward, &backward].into_iter().zip(&structures) {
        let (pass, verdict) = (part.decomposition.pass, &part.plausibility);
        let questionable = !verdict.is_plausible() && !verdict.is_impossible();
        // What the tiles of the kernels explain is padding, which the overheads show.
        let explained = tiles_explain(network, structure, part.decomposition.measured.gemm);
        if questionable && !explained && !other_sizes {
            warnings.push(Warning::FarAbove { pass, verdict: verdict.clone() });
        }
    }
    if !phases.outside.launches.is_empty() {
        let flops = PhaseFlops::new(&phases.outside, Pass::Backward)?.classes.total()?;
        warnings.push(Warning::Outside { launches: phases.outside.launches.len(), flops });
    }
    Ok(Analysis { config: network, forward, backward, warnings, contradictions })
}

/// What contradicts the network: the number of products, the sizes, then each pass.
fn contradictions(
    network: SquareMlp,
    [forward, backward]: [&PassAnalysis; 2],
    structures: &[Structure<'_>; 2],
    phases: &Phases<'_>,
) -> Result<Vec<Contradiction>, PhaseError> {
    if let Some(other) = other_layers(network, &structures[0], &structures[1]) {
        return Ok(vec![other]);
    }
    let mut found = forward.contradictions(network, &structures[0], &phases.forward)?;
    found.extend(backward.contradictions(network, &structures[1], &phases.backward)?);
    let impossible = found.iter().any(|one| matches!(one, Contradiction::Impossible { .. }));
    let sizes = Sizes::new(network, (forward, &structures[0]), (backward, &structures[1]));
    if let Some(other) = sizes.contradiction(impossible)? {
        found.insert(0, other);
    }
    Ok(found)
}

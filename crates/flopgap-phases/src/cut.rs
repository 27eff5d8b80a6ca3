//! Assigns launches to phases.

use crate::{CountedLaunch, Phase, PhaseError, Recording};

/// The launches of one phase, with the recording that explains their kernels.
#[derive(Debug, Clone)]
pub struct PhaseLaunches<'a> {
    /// The run that they were recorded in.
    pub recording: &'a Recording,
    /// The launches, in launch order.
    pub launches: Vec<CountedLaunch>,
}

/// The forward and backward launches of a network, however they were separated.
#[derive(Debug, Clone)]
pub struct Phases<'a> {
    /// The launches of the forward pass.
    pub forward: PhaseLaunches<'a>,
    /// The launches of the loss and the backward pass.
    pub backward: PhaseLaunches<'a>,
    /// Launches outside of every phase's NVTX range; empty for runs that were cut by sequence.
    pub outside: PhaseLaunches<'a>,
}

impl<'a> Phases<'a> {
    /// Cuts three runs of one program, each of which goes on where the one before stopped.
    ///
    /// The forward run must begin with the launches of the setup run and the forward+backward run
    /// with those of the forward run: same base name, grid and block. What follows is the phase.
    /// (Full names differ between runs of the same kernel, because Nsight Compute shortens them by
    /// what else is in the report.)
    ///
    /// # Errors
    /// [`PhaseError::DifferentLaunch`] at the first difference, [`PhaseError::TooFewLaunches`] and
    /// [`PhaseError::EmptyPhase`].
    pub fn by_sequence(
        setup: &'a Recording,
        forward: &'a Recording,
        forward_backward: &'a Recording,
    ) -> Result<Self, PhaseError> {
        Ok(Phases {
            forward: rest(setup, forward, Phase::Forward)?,
            backward: rest(forward, forward_backward, Phase::Backward)?,
            outside: PhaseLaunches { recording: forward_backward, launches: Vec::new() },
        })
    }

    /// Cuts one run by its NVTX ranges named `setup`, `forward` and `backward` (the outermost one
    /// counts).
    ///
    /// # Errors
    /// [`PhaseError::EmptyPhase`] when no launch lies in the forward or the backward range.
    pub fn by_ranges(recording: &'a Recording) -> Result<Self, PhaseError> {
        let of = |range: Option<Phase>| PhaseLaunches {
            recording,
            launches: recording.launches().iter().filter(|launch| launch.range == range).copied().collect(),
        };
        let nonempty = |phase| {
            let launches = of(Some(phase));
            if launches.launches.is_empty() {
                return Err(PhaseError::EmptyPhase { run: recording.path().to_owned(), phase });
            }
            Ok(launches)
        };
        Ok(Phases {
            forward: nonempty(Phase::Forward)?,
            backward: nonempty(Phase::Backward)?,
            outside: of(None),
        })
    }
}

/// The launches of `longer` after those of `shorter`, which it must begin with.
fn rest<'a>(
    shorter: &Recording,
    longer: &'a Recording,
    phase: Phase,
) -> Result<PhaseLaunches<'a>, PhaseError> {
    let beginning = shorter.sequence();
    for (index, launch) in longer.launches().iter().enumerate() {
        let base = longer.kernel(launch.kernel).base.as_str();
        beginning.check_launch(index, longer.path(), (base, launch.grid, launch.block))?;
    }
    beginning.check_end(longer.path(), longer.launches().len(), phase)?;
    Ok(PhaseLaunches { recording: longer, launches: longer.launches()[beginning.len()..].to_vec() })
}

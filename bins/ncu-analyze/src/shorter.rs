//! Phases of a report without ranges: what follows the launches of a shorter report.

use std::path::Path;

use flopgap_kernels::KernelClass;
use flopgap_phases::{KernelProfile, Phase, PhaseError, Profile, Sequence};

use crate::input::Input;

/// Reports of the same program that end earlier.
#[derive(Default, Clone, Copy)]
pub(crate) struct Shorter<'a> {
    pub(crate) setup: Option<&'a Path>,
    pub(crate) forward: Option<&'a Path>,
}

/// Which launches of a run are a phase's, by their place.
pub(crate) struct Cut {
    pub(crate) begin: usize,
    pub(crate) end: usize,
    /// What the run must begin with.
    pub(crate) longest: Sequence,
    /// The phase behind which the longest shorter run ends.
    pub(crate) ends_before: Phase,
}

impl Shorter<'_> {
    /// Where a phase begins and ends; `None` where no shorter report is given.
    pub(crate) fn cut(&self, phase: Phase, input: &Input) -> Result<Option<Cut>, PhaseError> {
        let read = |path: &Path| Sequence::read(input.open(path), path);
        let cut = match (phase, self.setup, self.forward) {
            (_, None, None) => return Ok(None),
            (Phase::Setup, Some(setup), _) => {
                let longest = read(setup)?;
                Cut { begin: 0, end: longest.len(), longest, ends_before: Phase::Setup }
            }
            (Phase::Forward, Some(setup), None) => {
                let longest = read(setup)?;
                Cut { begin: longest.len(), end: usize::MAX, longest, ends_before: Phase::Forward }
            }
            (Phase::Forward, Some(setup), Some(forward)) => {
                let setup = read(setup)?;
                let longest = read(forward)?;
                setup.check_begins(&longest)?;
                Cut { begin: setup.len(), end: longest.len(), longest, ends_before: Phase::Setup }
            }
            (Phase::Backward, _, Some(forward)) => {
                let longest = read(forward)?;
                Cut { begin: longest.len(), end: usize::MAX, longest, ends_before: Phase::Backward }
            }
            (phase, ..) => {
                let run = self.setup.or(self.forward).unwrap_or(Path::new("-")).to_owned();
                return Err(PhaseError::EmptyPhase { run, phase });
            }
        };
        Ok(Some(cut))
    }

    /// Where the phase begins, if nothing but the end of the report ends it: ` (all after FILE)`.
    pub(crate) fn open_end(&self, phase: Phase) -> Option<String> {
        let after = match (phase, self.setup, self.forward) {
            (Phase::Forward, Some(setup), None) => setup,
            (Phase::Backward, _, Some(forward)) => forward,
            _ => return None,
        };
        let name = after.file_name().unwrap_or(after.as_os_str());
        Some(format!(" (all after {})", name.to_string_lossy()))
    }

    /// A kernel that shows that a forward pass with an open end holds more than that pass. Of a
    /// backward pass none does: most optimizers are kernels that any addition has, too.
    pub(crate) fn beyond<'p>(&self, phase: Phase, profile: &'p Profile) -> Option<&'p KernelProfile> {
        self.open_end(phase).filter(|_| phase == Phase::Forward)?;
        let later = |kernel: &&KernelProfile| {
            kernel.info.class == KernelClass::Optimizer || is_backward(&kernel.name)
        };
        profile.kernels.iter().find(later)
    }
}

/// Whether the name of a kernel says that it computes gradients.
fn is_backward(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    ["backward", "_bwd", "bwd_", "wgrad", "dgrad"].iter().any(|word| name.contains(word))
}

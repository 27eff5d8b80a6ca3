//! The launches of a run without their counts, for comparison with the beginning of another run.

use std::path::{Path, PathBuf};

use flopgap_ncu::{Dim3, Error, Fault, LaunchView, Reader, Symbol};
use rustc_hash::FxHashMap;

use crate::{LaunchName, Phase, PhaseError};

/// The launches of one run, in launch order, by what they have in common with those of another run:
/// base name, grid and block.
#[derive(Debug, Clone)]
pub struct Sequence {
    path: PathBuf,
    bases: Vec<String>,
    launches: Vec<(usize, Option<Dim3>, Option<Dim3>)>,
}

impl Sequence {
    /// Launches, each with the place of its base name.
    pub(crate) fn new(
        path: &Path,
        bases: Vec<String>,
        launches: Vec<(usize, Option<Dim3>, Option<Dim3>)>,
    ) -> Sequence {
        Sequence { path: path.to_owned(), bases, launches }
    }

    /// Reads a report; one in which no kernel was profiled is empty, as the setup of a program that
    /// makes everything on the host.
    ///
    /// # Errors
    /// [`PhaseError::Report`] when it cannot be read, [`PhaseError::Lossy`] when launches are
    /// missing from it, [`PhaseError::Summary`] for a page without launches.
    pub fn read(reader: Result<Reader, Error>, path: &Path) -> Result<Sequence, PhaseError> {
        let mut sequence = Sequence::new(path, Vec::new(), Vec::new());
        let mut reader = match reader {
            Err(Error { what: Fault::NoKernels, .. }) => return Ok(sequence),
            reader => reader?,
        };
        let mut slots: FxHashMap<Symbol, usize> = FxHashMap::default();
        while let Some(launch) = reader.next_launch()? {
            if launch.id.is_none() {
                return Err(PhaseError::Summary { path: path.to_owned() });
            }
            let slot = *slots.entry(launch.name).or_insert_with(|| {
                sequence.bases.push(flopgap_kernels::base_name(launch.kernel_name()).into_owned());
                sequence.bases.len() - 1
            });
            sequence.launches.push((slot, launch.grid, launch.block));
        }
        match reader.lost_at() {
            Some(position) => Err(PhaseError::Lossy { path: path.to_owned(), position }),
            None => Ok(sequence),
        }
    }

    /// How many launches there are.
    pub fn len(&self) -> usize {
        self.launches.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.launches.is_empty()
    }

    /// Checks that the launch at `index` of the run in `longer` is this one's.
    ///
    /// # Errors
    /// [`PhaseError::DifferentLaunch`].
    pub fn check(&self, index: usize, longer: &Path, launch: LaunchView<'_>) -> Result<(), PhaseError> {
        if index >= self.launches.len() {
            return Ok(());
        }
        let base = flopgap_kernels::base_name(launch.kernel_name());
        self.check_launch(index, longer, (&base, launch.grid, launch.block))
    }

    pub(crate) fn check_launch(
        &self,
        index: usize,
        longer: &Path,
        (base, found_grid, found_block): (&str, Option<Dim3>, Option<Dim3>),
    ) -> Result<(), PhaseError> {
        let Some(&(slot, grid, block)) = self.launches.get(index) else { return Ok(()) };
        if self.bases[slot] == base && grid == found_grid && block == found_block {
            return Ok(());
        }
        let name = |base: &str, grid, block| Box::new(LaunchName { kernel: base.to_owned(), grid, block });
        Err(PhaseError::DifferentLaunch {
            shorter: self.path.clone(),
            longer: longer.to_owned(),
            index,
            expected: name(&self.bases[slot], grid, block),
            found: name(base, found_grid, found_block),
        })
    }

    /// Checks that another run begins with this one.
    ///
    /// # Errors
    /// [`PhaseError::DifferentLaunch`] at the first difference, [`PhaseError::TooFewLaunches`] and
    /// [`PhaseError::EmptyPhase`] where it ends too early.
    pub fn check_begins(&self, longer: &Sequence) -> Result<(), PhaseError> {
        for (index, &(slot, grid, block)) in longer.launches.iter().enumerate() {
            self.check_launch(index, &longer.path, (&longer.bases[slot], grid, block))?;
        }
        self.check_end(&longer.path, longer.len(), Phase::Forward)
    }

    /// Checks that a run with `found` launches, of which each was [checked](Sequence::check), goes
    /// on behind this one.
    ///
    /// # Errors
    /// [`PhaseError::TooFewLaunches`], and [`PhaseError::EmptyPhase`] when it ends where this one
    /// does.
    pub fn check_end(&self, longer: &Path, found: usize, phase: Phase) -> Result<(), PhaseError> {
        let expected = self.len();
        if found < expected {
            let (shorter, longer) = (self.path.clone(), longer.to_owned());
            return Err(PhaseError::TooFewLaunches { shorter, longer, expected, found });
        }
        if found == expected && phase != Phase::Setup {
            return Err(PhaseError::EmptyPhase { run: longer.to_owned(), phase });
        }
        Ok(())
    }
}

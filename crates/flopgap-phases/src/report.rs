//! Nsight Compute reports as recordings.

use std::path::Path;

use flopgap_kernels::Classifier;
use flopgap_ncu::{
    Arithmetic, Error, Fault, FlopCounter, Flops, LaunchView, Layout, Measurement, OperationType, Reader,
    Symbol, Unknown,
};
use rustc_hash::FxHashMap;

use crate::arithmetic::arithmetic;
use crate::repeat::SeenLaunches;
use crate::{Phase, PhaseError, Recording, Warning};

impl Recording {
    /// Reads the launches of an Nsight Compute report (any CSV layout with launches, or
    /// `.ncu-rep`), in launch order.
    ///
    /// The FLOPs of a launch are those of all precisions that the report has counters for;
    /// half-precision instructions that are no arithmetic (constants loaded with HFMA) are not
    /// among them. A launch whose FLOPs are not known ([`flopgap_ncu::Unknown`]) is an error: every
    /// sum over it would be too small.
    ///
    /// # Errors
    /// [`PhaseError::Report`] when it cannot be read; [`PhaseError::Lossy`],
    /// [`PhaseError::NoFlopCounters`] and [`PhaseError::UncountedLaunch`] when its sums would be
    /// too small; [`PhaseError::RepeatedLaunch`] when they would be too large;
    /// [`PhaseError::Summary`] for a page without launches.
    pub fn load(path: &Path, classifier: &Classifier) -> Result<Recording, PhaseError> {
        Recording::read(Reader::open(path)?, path, classifier)
    }

    /// Like [`Recording::load`], from a reader that was opened with other options or on
    /// something other than a file; `path` names it in messages.
    ///
    /// # Errors
    /// As [`Recording::load`].
    pub fn read(mut reader: Reader, path: &Path, classifier: &Classifier) -> Result<Recording, PhaseError> {
        let mut recording = Recording::new(path);
        let mut counter = FlopCounter::new();
        let mut known: FxHashMap<Symbol, Arithmetic> = FxHashMap::default();
        let mut undecided = Undecided::default();
        let mut seen = SeenLaunches::default();
        while let Some(launch) = reader.next_launch()? {
            seen.note(path, launch)?;
            let computes =
                known.entry(launch.name).or_insert_with(|| arithmetic(&classifier.get(launch.kernel_name())));
            let flops = counter.count_as(launch, computes);
            undecided.take(launch, &flops);
            if flops.total().is_some_and(|total| total.rounded) {
                recording.mark_rounded();
            }
            let flops = counted(path, launch, &flops, recording.launches().is_empty())?;
            let range = Phase::of_launch(launch);
            recording.push(classifier, launch.kernel_name(), launch.grid, launch.block, flops, range);
        }
        if matches!(reader.layout(), Layout::Summary | Layout::NvtxSummary) {
            return Err(PhaseError::Summary { path: path.to_owned() });
        }
        if let Some(at) = reader.lost_at() {
            return Err(PhaseError::Lossy { path: path.to_owned(), position: at });
        }
        recording.warnings = Warning::of_report(path, reader.warnings());
        if recording.is_rounded() {
            recording.warnings.push(Warning::RoundedCounts { path: path.to_owned() });
        }
        recording.warnings.extend(undecided.warning(path));
        Ok(recording)
    }

    /// Like [`Recording::load`], for a setup run, which may have launched no kernel at all.
    ///
    /// # Errors
    /// As [`Recording::load`].
    pub fn load_setup(path: &Path, classifier: &Classifier) -> Result<Recording, PhaseError> {
        Recording::or_empty(Recording::load(path, classifier), path)
    }

    /// A setup run: the recording, or an empty one if the report says that no kernel was profiled.
    ///
    /// # Errors
    /// Every other error of `result`.
    pub fn or_empty(result: Result<Recording, PhaseError>, path: &Path) -> Result<Recording, PhaseError> {
        match result {
            Err(PhaseError::Report(Error { what: Fault::NoKernels, .. })) => Ok(Recording::new(path)),
            result => result,
        }
    }
}

/// Half-precision instructions that may be arithmetic or not.
#[derive(Default)]
struct Undecided {
    launches: u64,
    operations: u64,
    first: Option<(u64, String)>,
}

impl Undecided {
    fn take(&mut self, launch: LaunchView<'_>, flops: &Flops) {
        if let Measurement::Undecided(count) = flops.get(OperationType::Fp16) {
            self.launches += 1;
            self.operations = self.operations.saturating_add(count.value);
            self.first.get_or_insert_with(|| (launch.position, launch.kernel_name().to_owned()));
        }
    }

    fn warning(self, path: &Path) -> Option<Warning> {
        let (position, kernel) = self.first?;
        let Undecided { launches, operations, .. } = self;
        Some(Warning::UndecidedHalf { path: path.to_owned(), position, kernel, operations, launches })
    }
}

/// The launch's FLOPs, or why they are not known.
fn counted(path: &Path, launch: LaunchView<'_>, flops: &Flops, first: bool) -> Result<u64, PhaseError> {
    let reason = match flops.work() {
        Ok(count) => return Ok(count.value),
        Err(reason) => reason,
    };
    let counters = reason.counters_to_record(launch.compute_capability);
    let nothing = matches!(reason, Unknown::NotRecorded);
    if first
        && (nothing || matches!(reason, Unknown::Incomplete(_)))
        && flops.get(OperationType::Fp32).count().is_none()
    {
        let missing = if nothing { Vec::new() } else { counters };
        return Err(PhaseError::NoFlopCounters { path: path.to_owned(), missing });
    }
    Err(PhaseError::UncountedLaunch {
        path: path.to_owned(),
        position: launch.position,
        kernel: launch.kernel_name().to_owned(),
        reason: Box::new(reason),
        counters,
    })
}

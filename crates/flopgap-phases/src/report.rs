//! Nsight Compute reports as recordings.

use std::path::Path;

use flopgap_kernels::Classifier;
use flopgap_ncu::{Error, FlopCounter, Flops, LaunchView, Layout, Precision, Reader};

use crate::repeat::SeenLaunches;
use crate::{Phase, PhaseError, Recording};

impl Recording {
    /// Reads the launches of an Nsight Compute report (any CSV layout with launches, or `.ncu-rep`), in launch order.
    ///
    /// The FLOPs of a launch are those of all precisions that the report has counters for; suspect half-precision counts (constants
    /// loaded with HFMA) are not among them.
    ///
    /// # Errors
    /// [`PhaseError::Report`] when it cannot be read; [`PhaseError::Lossy`], [`PhaseError::NoFlopCounters`] and
    /// [`PhaseError::UncountedLaunch`] when its sums would be too small; [`PhaseError::RepeatedLaunch`] when they would be too large;
    /// [`PhaseError::Summary`] for a page without launches.
    pub fn load(path: &Path, classifier: &Classifier) -> Result<Recording, PhaseError> {
        Recording::read(Reader::open(path)?, path, classifier)
    }

    /// Like [`Recording::load`], from a reader that was opened with other options or on something that is no file; `path`
    /// names it in messages.
    ///
    /// # Errors
    /// As [`Recording::load`].
    pub fn read(mut reader: Reader, path: &Path, classifier: &Classifier) -> Result<Recording, PhaseError> {
        let mut recording = Recording::new(path);
        let mut counter = FlopCounter::new();
        let mut seen = SeenLaunches::default();
        while let Some(launch) = reader.next_launch()? {
            seen.note(path, launch)?;
            let flops = counter.count(launch);
            if flops.total().is_some_and(|total| total.rounded) {
                recording.mark_rounded();
            }
            let flops = counted(path, launch, &flops, recording.launches().is_empty())?;
            let range = phase_of(launch);
            recording.push(classifier, launch.kernel_name(), launch.grid, launch.block, flops, range);
        }
        if matches!(reader.layout(), Layout::Summary | Layout::NvtxSummary) {
            return Err(PhaseError::Summary { path: path.to_owned() });
        }
        if let Some(at) = reader.lost_at() {
            return Err(PhaseError::Lossy { path: path.to_owned(), position: at });
        }
        recording.warnings = reader.warnings().iter().map(|warning| warning.of_file(path)).collect();
        if recording.is_rounded() {
            recording.warnings.push(format!(
                "{}: ncu printed counts rounded (such as `1.32 Minst`), so sums may be off by half a percent; --print-units \
                 base prints them whole",
                path.display()
            ));
        }
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
            Err(PhaseError::Report(Error::NoKernels { .. })) => Ok(Recording::new(path)),
            result => result,
        }
    }
}

/// The phase of the outermost range that marks one.
fn phase_of(launch: LaunchView<'_>) -> Option<Phase> {
    launch.nvtx.iter().find_map(|range| Phase::of_range(launch.strings.get(range.name)))
}

/// The launch's FLOPs, or why they are not known.
fn counted(path: &Path, launch: LaunchView<'_>, flops: &Flops, first: bool) -> Result<u64, PhaseError> {
    let missing =
        flops.incomplete().flat_map(|(_, counters)| counters.names()).collect::<Vec<_>>().join(", ");
    if let (Some(total), "") = (flops.total(), missing.as_str()) {
        return Ok(total.value);
    }
    let missing = if missing.is_empty() { "none of them is in the report".to_owned() } else { missing };
    if first && flops.get(Precision::Fp32).count().is_none() {
        return Err(PhaseError::NoFlopCounters { path: path.to_owned(), missing });
    }
    Err(PhaseError::UncountedLaunch {
        path: path.to_owned(),
        position: launch.position,
        kernel: launch.kernel_name().to_owned(),
        missing,
    })
}

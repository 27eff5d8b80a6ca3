//! Errors of assigning launches to phases.

use std::path::PathBuf;

use flopgap_files::{ErrorKind, Hint, Text};
use flopgap_flops::{FlopError, SquareMlp};

use crate::{Contradiction, LaunchName, Phase};

/// An error of assigning launches to phases, or of counts that would be wrong.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PhaseError {
    /// A report could not be read.
    #[error(transparent)]
    Report(#[from] flopgap_ncu::Error),
    /// The report is cut off or damaged, so that launches are missing and every sum would be too
    /// small.
    #[error("{}:{position}: the report is cut off or damaged here", path.display())]
    Lossy {
        /// The report.
        path: PathBuf,
        /// The line (CSV) or byte (`.ncu-rep`).
        position: u64,
    },
    /// The report has launches, but not the counters that FLOPs are computed from.
    #[error("{}: no FLOP counters{}", path.display(), missing_counters(missing))]
    NoFlopCounters {
        /// The report.
        path: PathBuf,
        /// The counters that are missing; empty where none of them is in the report.
        missing: Vec<String>,
    },
    /// The FLOPs of one launch are unknown, so that a sum over the file would be too small.
    #[error("{}:{position}: the FLOPs of `{kernel}` are unknown: {reason}", path.display())]
    UncountedLaunch {
        /// The report.
        path: PathBuf,
        /// Line or result index of the launch.
        position: u64,
        /// The kernel.
        kernel: String,
        /// Why its FLOPs are unknown.
        reason: Box<flopgap_ncu::Unknown>,
        /// The counters to record so that they are known; empty where recording again does not
        /// help.
        counters: Vec<String>,
    },
    /// A per-kernel summary has no launch order.
    #[error("{}: a summary has no launch order, which cutting phases needs", path.display())]
    Summary {
        /// The report.
        path: PathBuf,
    },
    /// A summary by NVTX range lists one launch under several ranges.
    #[error("{}: a summary per NVTX range lists a launch once for every domain, so its rows cannot be added", path.display())]
    NvtxSummary {
        /// The report.
        path: PathBuf,
    },
    /// The longer run does not begin with the launches of the shorter one.
    #[error(
        "{} does not begin with the launches of {}: launch {index} should be {expected}, but is {found}",
        longer.display(), shorter.display()
    )]
    DifferentLaunch {
        /// The run that should be a beginning.
        shorter: PathBuf,
        /// The run that should continue it.
        longer: PathBuf,
        /// The position of the first difference, from 0.
        index: usize,
        /// The launch of the shorter run.
        expected: Box<LaunchName>,
        /// The launch of the longer run.
        found: Box<LaunchName>,
    },
    /// The longer run ends before the shorter one.
    #[error(
        "{} has only {found} launches, but {}, which it should begin with, has {expected}",
        longer.display(), shorter.display()
    )]
    TooFewLaunches {
        /// The run that should be a beginning.
        shorter: PathBuf,
        /// The run that should continue it.
        longer: PathBuf,
        /// Launches of the shorter run.
        expected: usize,
        /// Launches of the longer run.
        found: usize,
    },
    /// A phase has no launch at all.
    #[error("{}: no launch belongs to the {phase} phase", run.display())]
    EmptyPhase {
        /// The run that should contain it.
        run: PathBuf,
        /// The phase.
        phase: Phase,
    },
    /// Two launches of one process have the same id: the report was appended to itself, and every
    /// sum would count them twice.
    #[error(
        "{}:{second}: launch {id}{} is already at {first}",
        path.display(), process.map(|process| format!(" of process {process}")).unwrap_or_default()
    )]
    RepeatedLaunch {
        /// The report.
        path: PathBuf,
        /// The launch's id.
        id: u64,
        /// The process that launched it.
        process: Option<u64>,
        /// The line (CSV) or result (`.ncu-rep`) where it occurs first.
        first: u64,
        /// The line or result where it occurs again.
        second: u64,
    },
    /// The recording cannot be one of a complete step of the required network.
    #[error("the recording is not one of {network}: {}", listed(contradictions))]
    Contradicted {
        /// The network that was required.
        network: SquareMlp,
        /// The evidence; at least one.
        contradictions: Vec<Contradiction>,
    },
    /// A sum exceeds the range of exact integers.
    #[error(transparent)]
    Flops(#[from] FlopError),
}

fn listed(contradictions: &[Contradiction]) -> String {
    contradictions.iter().map(ToString::to_string).collect::<Vec<_>>().join(". ")
}

fn missing_counters(counters: &[String]) -> String {
    if counters.is_empty() {
        " in the report".to_owned()
    } else {
        format!(": {} missing", counters.join(", "))
    }
}

/// The counters of FP32 work without tensor cores, as ncu takes them.
const FP32: &str = "smsp__sass_thread_inst_executed_op_fadd_pred_on.sum,\
                    smsp__sass_thread_inst_executed_op_fmul_pred_on.sum,\
                    smsp__sass_thread_inst_executed_op_ffma_pred_on.sum";

impl Hint for PhaseError {
    fn hint(&self) -> Option<Text<'_>> {
        let hint = match self {
            PhaseError::Report(error) => return error.hint(),
            PhaseError::UncountedLaunch { counters, .. } if counters.is_empty() => return None,
            PhaseError::UncountedLaunch { counters, .. } => {
                let counters = counters.join(",");
                return Some(
                    format!(
                        "profile again with `ncu --metrics {counters}` and the counters that the report has; a \
                         network in FP32 without tensor cores needs {FP32} and no others"
                    )
                    .into(),
                );
            }
            PhaseError::NoFlopCounters { .. } => {
                return Some(format!("profile again with `ncu --metrics {FP32}`").into());
            }
            PhaseError::Lossy { .. } => "copy the complete file again, or record again",
            PhaseError::NvtxSummary { .. } => {
                "print the report with `ncu --print-summary per-kernel`, or without a summary"
            }
            PhaseError::Summary { .. } => "print the report without `--print-summary`",
            PhaseError::DifferentLaunch { .. } | PhaseError::TooFewLaunches { .. } => {
                "the files must come from the same program and the same sizes, stopped after setup, after the \
                 forward pass and after the backward pass; or profile once with NVTX ranges named setup, \
                 forward and backward (`ncu --nvtx`)"
            }
            PhaseError::EmptyPhase { .. } => {
                "pass one run with NVTX ranges named setup, forward and backward, or three runs in this order: \
                 stopped after setup, stopped after the forward pass, not stopped"
            }
            PhaseError::RepeatedLaunch { .. } => {
                "keep one copy of each report in a file, and read reports of several runs one by one"
            }
            PhaseError::Contradicted { contradictions, .. } => return contradictions.first()?.hint(),
            PhaseError::Flops(_) => return None,
        };
        Some(hint.into())
    }

    fn kind(&self) -> ErrorKind {
        match self {
            PhaseError::Report(error) => error.kind(),
            PhaseError::NoFlopCounters { .. }
            | PhaseError::UncountedLaunch { .. }
            | PhaseError::EmptyPhase { .. } => ErrorKind::Absent,
            PhaseError::Lossy { .. }
            | PhaseError::Summary { .. }
            | PhaseError::NvtxSummary { .. }
            | PhaseError::DifferentLaunch { .. }
            | PhaseError::TooFewLaunches { .. }
            | PhaseError::RepeatedLaunch { .. }
            | PhaseError::Contradicted { .. }
            | PhaseError::Flops(_) => ErrorKind::Failed,
        }
    }
}

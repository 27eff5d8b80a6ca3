//! Why launches could not be cut into phases or added up.

use std::path::PathBuf;

use flopgap_flops::{FlopError, SquareMlp};

use crate::Contradiction;

/// Why a set of recordings gives no phases or no FLOPs.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PhaseError {
    /// A report could not be read.
    #[error(transparent)]
    Report(#[from] flopgap_ncu::Error),
    /// The report breaks off or is damaged, so that launches are missing and every sum would be too small.
    #[error("{}:{position}: the report breaks off or is damaged here", path.display())]
    Lossy {
        /// The report.
        path: PathBuf,
        /// The line (CSV) or byte (`.ncu-rep`).
        position: u64,
    },
    /// The report holds launches, but not the counters that FLOPs are made of.
    #[error("{}: no FLOP counters: {missing}", path.display())]
    NoFlopCounters {
        /// The report.
        path: PathBuf,
        /// The counters that are missing.
        missing: String,
    },
    /// The FLOPs of one launch are not known, so that a sum over the file would be too small.
    #[error("{}:{position}: the FLOPs of `{kernel}` are not known: {reason}{}", path.display(), to_record(counters))]
    UncountedLaunch {
        /// The report.
        path: PathBuf,
        /// Line or result index of the launch.
        position: u64,
        /// The kernel.
        kernel: String,
        /// Why its FLOPs are not known.
        reason: Box<flopgap_ncu::Unknown>,
        /// The counters that would tell, with commas between them; empty where none would.
        counters: String,
    },
    /// A per-kernel summary has no launch order.
    #[error("{}: a --print-summary page has no launch order, which cutting phases needs", path.display())]
    Summary {
        /// The report.
        path: PathBuf,
    },
    /// A summary by NVTX range lists one launch under several ranges.
    #[error("{}: a --print-summary per-nvtx page lists a launch once for every domain, so its rows cannot be added", path.display())]
    NvtxSummary {
        /// The report.
        path: PathBuf,
    },
    /// The longer run does not begin with the launches of the shorter one.
    #[error(
        "{longer} does not begin with the launches of {shorter}: launch {index} should be {expected}, but is {found}"
    )]
    DifferentLaunch {
        /// The run that should be a beginning.
        shorter: String,
        /// The run that should continue it.
        longer: String,
        /// The position of the first difference, from 0.
        index: usize,
        /// The launch of the shorter run.
        expected: String,
        /// The launch of the longer run.
        found: String,
    },
    /// The longer run ends before the shorter one.
    #[error("{longer} has only {found} launches, but {shorter}, which it should begin with, has {expected}")]
    TooFewLaunches {
        /// The run that should be a beginning.
        shorter: String,
        /// The run that should continue it.
        longer: String,
        /// Launches of the shorter run.
        expected: usize,
        /// Launches of the longer run.
        found: usize,
    },
    /// A phase has no launch at all.
    #[error("{run}: no launch belongs to the {phase} phase")]
    EmptyPhase {
        /// The run that should contain it.
        run: String,
        /// The phase.
        phase: crate::Phase,
    },
    /// Two launches of one process have the same id: the report was appended to itself, and every sum would count them twice.
    #[error(
        "{}:{second}: launch {id}{} is already at {first}; counting it again would be wrong",
        path.display(), process.map(|process| format!(" of process {process}")).unwrap_or_default()
    )]
    RepeatedLaunch {
        /// The report.
        path: PathBuf,
        /// The launch's id.
        id: u64,
        /// The process that launched it.
        process: Option<u64>,
        /// The line (CSV) or result (`.ncu-rep`) where it comes first.
        first: u64,
        /// The line or result where it comes again.
        second: u64,
    },
    /// The recording cannot be one of a complete step of the stated network.
    #[error("the recording is not one of {network}: {}", listed(contradictions))]
    Contradicted {
        /// The network that was stated.
        network: SquareMlp,
        /// What shows it; at least one.
        contradictions: Vec<Contradiction>,
    },
    /// A sum left the range of exact integers.
    #[error(transparent)]
    Flops(#[from] FlopError),
}

fn listed(contradictions: &[Contradiction]) -> String {
    contradictions.iter().map(ToString::to_string).collect::<Vec<_>>().join(". ")
}

/// `; record --metrics …`, where counters would help.
fn to_record(counters: &str) -> String {
    if counters.is_empty() { String::new() } else { format!(" (record --metrics {counters})") }
}

impl PhaseError {
    /// What the user can do about it, where there is something.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            PhaseError::Report(error) => error.hint(),
            PhaseError::UncountedLaunch { counters, .. } if counters.is_empty() => None,
            PhaseError::UncountedLaunch { .. } => Some(
                "profile again with these counters besides those that the report has; a network in FP32 without tensor cores needs \
                 smsp__sass_thread_inst_executed_op_fadd_pred_on.sum,\
                 smsp__sass_thread_inst_executed_op_fmul_pred_on.sum,\
                 smsp__sass_thread_inst_executed_op_ffma_pred_on.sum and no others",
            ),
            PhaseError::NoFlopCounters { .. } => Some(
                "profile again with --metrics smsp__sass_thread_inst_executed_op_fadd_pred_on.sum,\
                 smsp__sass_thread_inst_executed_op_fmul_pred_on.sum,\
                 smsp__sass_thread_inst_executed_op_ffma_pred_on.sum",
            ),
            PhaseError::Lossy { .. } => Some("record it again, or copy it again from where it is whole"),
            PhaseError::NvtxSummary { .. } => {
                Some("print the report with --print-summary per-kernel, or without a summary")
            }
            PhaseError::Summary { .. } => Some("print the report without --print-summary"),
            PhaseError::DifferentLaunch { .. } | PhaseError::TooFewLaunches { .. } => Some(
                "the files must come from the same program and the same sizes, stopped after setup, after the \
                 forward pass and after the backward pass; or profile once with NVTX ranges named setup, \
                 forward and backward (ncu --nvtx)",
            ),
            PhaseError::EmptyPhase { .. } => Some(
                "check that each file is what it is given or named as: one run with NVTX ranges named setup, forward and backward, or \
                 three runs, stopped after setup, after forward, and not stopped, in this order",
            ),
            PhaseError::RepeatedLaunch { .. } => {
                Some("keep one copy of each report in a file; reports of several runs are read one by one")
            }
            PhaseError::Contradicted { contradictions, .. } => {
                contradictions.first().map(Contradiction::hint)
            }
            PhaseError::Flops(_) => None,
        }
    }
}

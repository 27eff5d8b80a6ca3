//! What this program adds to the errors of the libraries: its own commands and options.

use std::io::ErrorKind;

use flopgap_cli::Failure;
use flopgap_hint::Hint as _;
use flopgap_sweep::{MeterError, OriginPart, Problem, ProblemGroup, ProblemKind, RunError};

/// Where nothing can be counted, a recorded run shows what the program does.
pub(crate) const RECORDED_RUN: &str =
    "`hyper-profile analyze fixtures/runs/h200-default` analyzes a run that was recorded on an H200";

/// How an error of a run directory ends the program.
pub(crate) fn of_run(error: &RunError) -> Failure {
    let own = match error {
        // What happened is on the device: its number is the one that was asked for.
        RunError::Device { error: meter @ MeterError::Unavailable { .. }, .. } => return of_meter(meter),
        RunError::NothingComplete { .. } => "each problem is listed above",
        RunError::Occupied { .. } => "`hyper-profile resume DIR` resumes a run",
        RunError::NoManifest { .. } => "`hyper-profile new --output DIR` starts it again",
        RunError::OtherOrigin { difference, .. } if difference.part == OriginPart::Driver => {
            "--accept-driver resumes the run: the same libraries launch the same kernels under another driver"
        }
        RunError::Busy { .. } => "several processes share a run if each is started with its own --shard I/K",
        RunError::Write(error)
            if matches!(error.source.kind(), ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem) =>
        {
            "--output DIR names another directory"
        }
        _ => return Failure::of(error),
    };
    Failure::of(error).hint(own)
}

/// How an error of what counts ends the program before anything was counted.
pub(crate) fn of_meter(error: &MeterError) -> Failure {
    let failure = Failure::of(error);
    if error.is_absence() { failure.hint(RECORDED_RUN) } else { failure }
}

/// A problem of a run as a warning.
pub(crate) fn of_problem(problem: &Problem) -> Failure {
    of_problems(&ProblemGroup { first: problem, last: problem, count: 1 })
}

/// The problem of several configurations as one warning.
pub(crate) fn of_problems(problems: &ProblemGroup<'_>) -> Failure {
    match problems.first.kind {
        ProblemKind::NotMeasured | ProblemKind::Gap { .. } => {
            Failure::new(problems.to_string()).hint("`hyper-profile resume` measures what is missing")
        }
        _ => Failure::of(problems),
    }
}

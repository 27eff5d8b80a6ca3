//! Adds this program's commands and options to the errors of the libraries.

use std::io::ErrorKind;

use flopgap_cli::Failure;
use flopgap_hint::Hint as _;
use flopgap_sweep::{MeterError, OriginPart, Problem, ProblemGroup, ProblemKind, RunError};

/// Shown if nothing can be counted: a recorded run demonstrates the program.
pub(crate) const RECORDED_RUN: &str =
    "`flopgap profile analyze fixtures/runs/h200-default` analyzes a run that was recorded on an H200";

/// Converts an error of a run directory.
pub(crate) fn of_run(error: &RunError) -> Failure {
    let own = match error {
        // The cause is the device, whose number was requested.
        RunError::Device { error: meter @ MeterError::Unavailable { .. }, .. } => return of_meter(meter),
        RunError::NothingComplete { .. } => "each problem is listed above",
        RunError::Occupied { .. } => "`flopgap profile resume DIR` resumes a run",
        RunError::NoManifest { .. } => "`flopgap profile new --output DIR` starts it again",
        RunError::OtherOrigin { difference, .. } if difference.part == OriginPart::Driver => {
            "--accept-driver resumes the run: the same libraries launch the same kernels under another driver"
        }
        RunError::OtherOrigin { .. } => {
            "on a cluster, all tasks need one type of GPU, such as `--sbatch-arg=--gres=gpu:h100:1`"
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

/// Converts an error of a meter that occurred before anything was counted.
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
        ProblemKind::NotMeasured => {
            Failure::new(problems.to_string()).hint("`flopgap profile resume` measures what is missing")
        }
        _ => Failure::of(problems),
    }
}

//! Adds this program's commands and options to the errors of the libraries.

use std::io::ErrorKind;

use flopgap_cli::Failure;
use flopgap_files::{Hint as _, InFile};
use flopgap_phases::sweep::{MeterError, OriginPart, Problem, ProblemKind, RunError, RunFault};

/// Shown if nothing can be counted: a recorded run demonstrates the program.
pub(crate) const RECORDED_RUN: &str =
    "`flopgap profile analyze fixtures/runs/h200-default` analyzes a run that was recorded on an H200";

/// Converts an error of a run directory.
pub(crate) fn of_run(error: &RunError) -> Failure {
    let own = match error {
        // The cause is the device, whose number was requested.
        RunError::Device { error: meter @ MeterError::Unavailable { .. }, .. } => return of_meter(meter),
        RunError::Run(InFile { what: RunFault::NothingComplete { .. }, .. }) => {
            "each problem is listed above"
        }
        RunError::Run(InFile { what: RunFault::Occupied | RunFault::OtherFiles, .. }) => {
            "`flopgap profile resume DIR` resumes a run"
        }
        RunError::Run(InFile { what: RunFault::NoManifest, .. }) => {
            "`flopgap profile new --output DIR` starts it again"
        }
        RunError::Run(InFile { what: RunFault::OtherOrigin(difference), .. }) => match difference.part {
            OriginPart::Driver => {
                "--accept-driver resumes the run: the same libraries launch the same kernels under another driver"
            }
            _ => "on a cluster, all tasks need one type of GPU, such as `sbatch --gres=gpu:h100:1`",
        },
        RunError::Lock(_) => "several processes share a run if each is started with its own --shard I/K",
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
    match problem.kind {
        ProblemKind::NotMeasured => {
            Failure::new(problem.to_string()).hint("`flopgap profile resume` measures what is missing")
        }
        _ => Failure::of(problem),
    }
}

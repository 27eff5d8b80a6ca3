//! A sweep as a job array.

use flopgap_calibration::run::{RunError, RunPlan};
use flopgap_cli::{Console, Exit, Failure, Restart, absolute};
use flopgap_cluster::slurm::{self, JobArray};
use flopgap_roofline::Ceilings;

use super::arguments::Options;
use super::{Arguments, folder_name, models, run_failure};
use crate::device::Device;

/// Submits a sweep. The plan depends on the device and its engines, so the first task makes it.
pub(super) fn run(arguments: &Arguments, restart: &Restart, console: Console) -> Result<(), Failure> {
    let mut options = arguments.options.clone();
    let mut rows = usize::MAX;
    if arguments.resume {
        let Some(run) = &arguments.output else {
            return Err(Failure::new("--resume needs --output").exit(Exit::Usage));
        };
        let plan = RunPlan::read(run).map_err(|error| run_failure(&error))?;
        rows = plan.rows.len();
        if let Ok(planned) = Options::of_words(&plan.options) {
            options.device = options.device.or(planned.device);
        }
    }
    let device = options.device.unwrap_or(Device::Cuda(0));
    options.device = Some(device);
    let gpus = match device {
        Device::Cpu => 0,
        Device::Cuda(0) => 1,
        Device::Cuda(_) => {
            let message = format!("--device {device}: a task of a job array has one GPU, which is cuda:0");
            return Err(Failure::new(message).exit(Exit::Usage));
        }
    };
    // What can be wrong in files is said here rather than in the log of a job.
    models::read(&options)?;
    for model in &mut options.model {
        *model = absolute(model)?.0;
    }
    let run = arguments.output.clone().unwrap_or_else(|| folder_name(device));
    let (path, name) = absolute(&run)?;
    match RunPlan::read(&path) {
        Ok(_) if !arguments.resume => {
            return Err(run_failure(&RunError::Occupied { run: run.clone() }));
        }
        _ => {}
    }

    let words = |words: &[&str]| words.iter().map(|&word| word.to_owned()).collect::<Vec<String>>();
    let mut task = words(&["sweep"]);
    if arguments.resume {
        task.extend(words(&["--resume"]));
    } else {
        task.extend(options.words());
    }
    if let Some(ceilings) = &arguments.ceilings {
        Ceilings::read(ceilings)?;
        task.extend(words(&["--ceilings", &absolute(ceilings)?.1]));
    }
    if let Some(limit) = arguments.limit {
        let limit = humantime::format_duration(limit).to_string().replace(' ', "");
        task.extend(words(&["--limit", &limit]));
    }
    task.extend(words(&["--output", &name]));
    let again = format!("flopgap calibrate {} --submit slurm", task.join(" "));
    let array = JobArray {
        evidence: slurm::directory(&path),
        run: path,
        program: restart.program()?,
        tasks: arguments.submit.tasks(rows),
        gpus,
        task: restart.arguments(task),
        aggregate: restart.arguments(words(&["sweep", "--resume", "--output", &name])),
        options: arguments.submit.sbatch_args.clone(),
    };
    let submission = arguments.submit.prepare(array, arguments.dry_run)?;
    console.note(format_args!("run directory {}", run.display()));
    submission.submit(console, &again)
}

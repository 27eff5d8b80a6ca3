//! `flopgap profile new` and `flopgap profile resume RUN`.

use std::collections::BTreeSet;
use std::path::PathBuf;

use clap::ValueEnum;
use flopgap_cli::{Console, Exit, Failure, Restart, Termination, Verbosity};
use flopgap_files::{Hint as _, chain};
use flopgap_phases::sweep::{
    Backend, Config, Event, Filled, Grid, Manifest, MeterError, Origin, RunError, RunFault, Session, Sizes,
    Worker,
};
use flopgap_report::numbers;

use crate::hardware::{Counted, Hardware, InProcess};
use crate::ncu::Ncu;
use crate::processes::Processes;
use crate::{analyze, configurations, failure};

/// What counts, and how this program starts the processes that do.
#[derive(Clone, Copy)]
pub(crate) struct Machine<'a> {
    pub(crate) hardware: &'a dyn Hardware,
    pub(crate) restart: &'a Restart,
}

/// The backend.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum BackendArg {
    /// CUPTI in this process (one process per device if there are several): one pass, no replay
    Cupti,
    /// Nsight Compute with a process for each configuration, for cross-checks
    Ncu,
}

impl BackendArg {
    fn name(self) -> &'static str {
        match self {
            BackendArg::Cupti => "cupti",
            BackendArg::Ncu => "ncu",
        }
    }

    fn open<'a>(
        self,
        machine: Machine<'a>,
        worker: &WorkerArguments,
        console: Console,
    ) -> Result<Box<dyn Backend + 'a>, Failure> {
        let Machine { hardware, restart } = machine;
        let counted = Counted::all_if(worker.count_all);
        match self {
            BackendArg::Cupti if worker.devices()?.len() > 1 => {
                Ok(Box::new(Processes { hardware, counted, restart }))
            }
            BackendArg::Cupti => Ok(Box::new(InProcess { hardware, counted })),
            BackendArg::Ncu => {
                let ncu = Ncu::find(hardware, restart).map_err(|error| failure::of_meter(&error))?;
                console.detail(ncu.found());
                Ok(Box::new(ncu))
            }
        }
    }
}

/// The sizes of a grid. Each option takes several: `-n 2 4 8`, `-n 2,4,8`, `-d 128..2048:128` (both
/// ends included). The aliases are the options of `hyper_profile.py`, which people have in scripts.
#[derive(clap::Args)]
struct SizeArguments {
    /// Layers of the network (n): `2 4 8` or `2..8:2`, both ends included
    #[arg(long, short = 'n', alias = "n", num_args = 1.., value_delimiter = ',', allow_negative_numbers = true, value_name = "N")]
    layers: Vec<Sizes>,
    /// Width of each layer (d), in the same form
    #[arg(long, short = 'd', alias = "d", num_args = 1.., value_delimiter = ',', allow_negative_numbers = true, value_name = "D")]
    width: Vec<Sizes>,
    /// Columns of the input (m), in the same form
    #[arg(long, short = 'm', alias = "m", num_args = 1.., value_delimiter = ',', allow_negative_numbers = true, value_name = "M")]
    columns: Vec<Sizes>,
}

impl SizeArguments {
    fn are_given(&self) -> bool {
        [&self.layers, &self.width, &self.columns].iter().any(|sizes| !sizes.is_empty())
    }

    /// The requested grid, with `default` for the other axes.
    fn grid(&self, default: &Grid) -> Result<Grid, Failure> {
        let axis = |axis, written: &[Sizes], default: &[u64]| match written {
            [] => Ok(default.to_vec()),
            written => Sizes::join(axis, written)
                .map_err(|error| Failure::new(format!("--{axis}: {error}")).exit(Exit::Usage)),
        };
        let grid = Grid {
            n: axis("layers", &self.layers, &default.n)?,
            d: axis("width", &self.width, &default.d)?,
            m: axis("columns", &self.columns, &default.m)?,
        };
        grid.check()?;
        Ok(grid)
    }
}

#[derive(clap::Args)]
struct WorkerArguments {
    /// Device to measure on: a GPU by its number, or several of one kind, such as 0,1, of which
    /// each free one takes the next configuration [default: 0]
    #[arg(long, value_name = "DEVICE", value_delimiter = ',', value_parser = flopgap_cli::gpu)]
    device: Vec<u32>,
    /// Measure only the I-th of K equal parts (from 1), while other processes measure the others.
    /// `slurm` takes I and K from the task of a job array
    #[arg(long, value_name = "I/K")]
    shard: Option<String>,
    /// Count every launch, also of deeper networks whose launches are equal to counted ones. With
    /// the backend ncu, all are counted in any case
    #[arg(long)]
    count_all: bool,
    /// Measure only, and leave the analysis to another process
    #[arg(long)]
    no_analysis: bool,
    /// Write no plots and no report.html, only the metrics
    #[arg(long)]
    no_plots: bool,
}

impl WorkerArguments {
    fn devices(&self) -> Result<Vec<u32>, Failure> {
        let mut seen = BTreeSet::new();
        match self.device.as_slice() {
            [] => Ok(vec![0]),
            devices => match devices.iter().find(|&&device| !seen.insert(device)) {
                Some(twice) => {
                    Err(Failure::new(format!("--device: {twice} is given twice")).exit(Exit::Usage))
                }
                None => Ok(devices.to_vec()),
            },
        }
    }

    fn worker(&self, backend: &dyn Backend, name: &str) -> Result<Worker, Failure> {
        Worker::new(backend, name, &self.devices()?, flopgap_cli::shard(self.shard.as_deref())?)
            .map_err(|error| failure::of_run(&error))
    }
}

#[derive(clap::Args)]
#[command(after_help = "\
Default sizes: n 2 4 8 16 32, d 128..2048:128, m 16..256:16

Examples:
  flopgap profile new -n 2 4 8 -d 256..1024:256 -m 32,64,128 -o run
  flopgap profile new --device 0,1 --no-plots
  flopgap profile new -o /scratch/run --shard 1/16 --no-analysis")]
pub(crate) struct NewArguments {
    #[command(flatten)]
    sizes: SizeArguments,
    /// Backend that counts the FLOPs
    #[arg(long, value_enum, default_value_t = BackendArg::Cupti)]
    backend: BackendArg,
    #[command(flatten)]
    worker: WorkerArguments,
    /// Write to this run directory, which must not exist [default: named after the time and the
    /// sizes, in the current directory]
    #[arg(long, short, value_name = "DIR")]
    output: Option<PathBuf>,
}

#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  flopgap profile resume run
  flopgap profile resume run -n 64 --device 1")]
pub(crate) struct ResumeArguments {
    /// The run directory
    run: PathBuf,
    #[command(flatten)]
    sizes: SizeArguments,
    #[command(flatten)]
    worker: WorkerArguments,
    /// Resume with a driver other than the one that started the run
    #[arg(long)]
    accept_driver: bool,
}

/// Creates a run directory, fills it and analyzes it.
pub(crate) fn new(arguments: &NewArguments, machine: Machine<'_>, console: Console) -> Result<(), Failure> {
    let grid = arguments.sizes.grid(&Grid::standard())?;
    if arguments.worker.shard.is_some() && arguments.output.is_none() {
        let message = "--shard needs --output: all workers of a run name the same directory";
        return Err(Failure::new(message).exit(Exit::Usage));
    }
    // The backend is opened first: if it fails, no directory is created.
    let backend = arguments.backend.open(machine, &arguments.worker, console)?;
    let worker = arguments.worker.worker(&*backend, arguments.backend.name())?;
    let run = arguments.output.clone().unwrap_or_else(|| directory_name(&grid));
    let session = Session::create(&run, &grid, worker).map_err(|error| failure::of_run(&error))?;
    console.note(format_args!("run directory {}", run.display()));
    fill(session, &*backend, &grid.configs().collect(), &arguments.worker, console)
}

/// Measures what is missing in a run directory and analyzes it.
pub(crate) fn resume(
    arguments: &ResumeArguments,
    machine: Machine<'_>,
    console: Console,
) -> Result<(), Failure> {
    let run = &arguments.run;
    let refused = |fault: RunFault| failure::of_run(&fault.at(run));
    let manifest = Manifest::read(run).map_err(|error| failure::of_run(&error.into()))?;
    let manifest = manifest.ok_or_else(|| refused(RunFault::NoManifest))?;
    let name = manifest.backend.as_deref().ok_or_else(|| refused(RunFault::RecordedElsewhere))?;
    let backend = BackendArg::from_str(name, false).map_err(|_| {
        Failure::new(format!(
            "{}: recorded with the backend `{name}`, which this program does not have",
            run.display()
        ))
        .hint("use the version of flopgap that wrote the run, or a newer one")
    })?;
    let grid = if arguments.sizes.are_given() { Some(arguments.sizes.grid(&manifest.grid)?) } else { None };
    let name = backend.name();
    let backend = backend.open(machine, &arguments.worker, console)?;
    let worker = arguments.worker.worker(&*backend, name)?;
    let session = Session::resume(run, grid.as_ref(), worker, arguments.accept_driver);
    let session = session.map_err(|error| failure::of_run(&error))?;
    let plan = grid.map_or_else(|| session.manifest().plan(), |grid| grid.configs().collect());
    fill(session, &*backend, &plan, &arguments.worker, console)
}

/// Measures the missing part of `plan`, then analyzes the run unless other workers still have work
/// to do.
fn fill(
    mut session: Session,
    backend: &dyn Backend,
    plan: &BTreeSet<Config>,
    options: &WorkerArguments,
    console: Console,
) -> Result<(), Failure> {
    let outstanding = session.outstanding(plan).map_err(|error| failure::of_run(&error))?;
    for error in &outstanding.damaged {
        console.warn(format_args!("{}; it is measured again", chain(error)));
    }
    if outstanding.done > 0 {
        let done = numbers::group_thousands(outstanding.done as u64);
        let all = configurations(outstanding.done + outstanding.configs.len());
        console.note(format_args!("{done} of {all} are done"));
    }
    let Origin { device, profiler, .. } = &session.manifest().origin;
    let [device, profiler] = [device, profiler].map(|part| part.as_deref().unwrap_or("unknown"));
    let left = configurations(outstanding.configs.len());
    console.detail(format_args!("{left} to measure on {device} by {profiler}"));
    let measuring = || measure(&mut session, backend, &outstanding.configs, console);
    let filled = match console.timed("measurement", measuring) {
        Ok(filled) => filled,
        Err(stopped) => {
            if stopped.before_the_first {
                session.discard().map_err(|error| failure::of_run(&error))?;
            }
            return Err(stopped.failure);
        }
    };
    let run = session.run().to_owned();
    if filled.left > 0 {
        let message = format!("stopped by SIGTERM with {} left", configurations(filled.left));
        return Err(
            Failure::new(message).hint(format!("`flopgap profile resume {}` continues", run.display()))
        );
    }
    let others = session.left_to_others();
    let shard = session.worker().shard;
    if others > 0 {
        let left = configurations(others);
        console.note(format_args!("worker {shard} is done; the others have {left} left"));
    } else if options.no_analysis {
        let path = run.display();
        console.note(format_args!(
            "all configurations are measured; `flopgap profile analyze {path}` analyzes them"
        ));
    } else {
        let named = filled.skipped.iter().chain(&filled.failed).map(|(config, _)| *config).collect();
        analyze::run(&analyze::Arguments::of_run(&run, options.no_plots, named), console)?;
    }
    drop(session); // no sooner: the next process removes what looks like temporary files of a dead one
    match filled.failed.len() {
        0 => Ok(()),
        failed => Err(Failure::new(format!(
            "{} could not be measured; each is named above",
            configurations(failed)
        ))
        .hint(format!("`flopgap profile resume {}` tries again", run.display()))),
    }
}

/// The reason why filling a run stopped.
struct Stopped {
    failure: Failure,
    /// Whether counting was impossible from the beginning.
    before_the_first: bool,
}

/// Fills the run with a bar that shows rate and time left.
fn measure(
    session: &mut Session,
    backend: &dyn Backend,
    configs: &[Config],
    console: Console,
) -> Result<Filled, Stopped> {
    let run = session.run().to_owned();
    let progress = console.progress(configs.len() as u64, "configurations");
    // Outside of this, there is nothing to finish: the signal ends the program.
    let termination = Termination::catch().map_err(|error| Stopped {
        failure: Failure::new(format!("SIGTERM cannot be handled: {error}")),
        before_the_first: true,
    })?;
    let result = session.fill(backend, configs, termination.flag(), |event| {
        let warn = |config: Config, reason: &MeterError| {
            progress.suspend(|| console.warn(format_args!("{config}: {reason}")));
        };
        match event {
            Event::Done(config) => {
                progress.note(config.to_string());
                // Only then, since the bar is drawn again.
                if console.verbosity() == Verbosity::Verbose {
                    progress.suspend(|| console.detail(format_args!("{config}: measured")));
                }
            }
            Event::Skipped(config, reason) | Event::Failed(config, reason) => warn(config, reason),
            _ => {}
        }
        progress.advance(1);
    });
    let done = progress.done(); // before it is finished, which counts as all done
    progress.finish();
    result.map_err(|error| {
        let unavailable = match &error {
            RunError::Device { error: meter, .. } if meter.is_absence() => Some(meter),
            _ => None,
        };
        let before_the_first = unavailable.is_some() && done == 0;
        let failure = if before_the_first {
            failure::of_run(&error)
        } else {
            let failure = unavailable.map_or_else(|| failure::of_run(&error), Failure::of);
            let resume = format!("flopgap profile resume {}", run.display());
            failure.hint(format!("what was measured is kept; `{resume}` continues"))
        };
        Stopped { failure, before_the_first }
    })
}

/// `20261121-034222_n2-32_d128-2048_m16-256`, in UTC.
fn directory_name(grid: &Grid) -> PathBuf {
    PathBuf::from(format!("{}_{}", flopgap_cli::time_stamp(), grid.span()))
}

//! `flopgap calibrate sweep`.

mod arguments;
mod drive;
mod engines;
mod models;
mod shard;
mod summary;

use std::collections::BTreeMap;
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use flopgap_calibration::grid::{self, Family, Point, Request, Size};
use flopgap_calibration::run::{self, PlannedRow, RunPlan};
use flopgap_calibration::{Calibration, FileError, FileFault, Header, Origin, Row, Writer, shards};
use flopgap_cli::{Console, Exit, Failure, Termination};
use flopgap_engines::Engine;
use flopgap_graph::{Op, Workload};
use flopgap_hint::chain;
use flopgap_roofline::Ceilings;

pub(crate) use arguments::Arguments;

use crate::PROGRAM;
use crate::device::Device;
use crate::load::of_file;
use arguments::Options;
use drive::{Driver, Filled};
use engines::Engines;
use models::UserModel;

/// How long to wait for a file's lock.
const PATIENCE: Duration = Duration::from_secs(2);

pub(crate) fn run(arguments: &Arguments, console: Console) -> Result<(), Failure> {
    let begin = Instant::now();
    if arguments.resume && arguments.dry_run {
        let message = "--dry-run shows the plan of a new run, and --resume has one";
        return Err(Failure::new(message).exit(Exit::Usage));
    }
    if let (Some(run), Some(shard)) = (&arguments.output, &arguments.shard) {
        return shard::run(arguments, run, flopgap_cli::shard(Some(shard))?, begin, console);
    }
    if arguments.resume {
        return resume(arguments, begin, console);
    }
    let Begun { plan, options, device, engines } = Begun::new(arguments, console)?;
    if arguments.dry_run {
        return summary::of_plan(&plan);
    }
    let ceilings = ceilings(arguments, &engines.origin)?;
    let run = arguments.output.clone().unwrap_or_else(|| folder_name(device));
    plan.write_new(&run).map_err(|error| run_failure(&error))?;
    console.note(format_args!("run directory {}", run.display()));
    let header = Header { references: engines.references(), ..Header::new(engines.origin.clone(), ceilings) };
    let path = run::calibration_path(&run);
    let writer = Writer::create(&path, &header).map_err(|error| of_file(&error))?;
    let open = Open { plan: &plan, engines: &engines, device, options: &options };
    let filled = open.fill(writer, &plan.outstanding(&[]), arguments, begin, console)?;
    conclude_run(&filled, &run, begin.elapsed(), console)
}

/// A new plan, and the engines that it is for.
struct Begun {
    plan: RunPlan,
    options: Options,
    device: Device,
    engines: Engines,
}

impl Begun {
    fn new(arguments: &Arguments, console: Console) -> Result<Begun, Failure> {
        let mut options = arguments.options.clone();
        let device = options.device.take().map_or_else(Device::find, Ok)?;
        options.device = Some(device);
        // The engines are opened first: if none works, no directory is created.
        let models = models::read(&options)?;
        let engines = opened(console, || Engines::open(&options, device, &models, None))?;
        let rows = console.timed("rows: planned", || plan(&options, device, &engines, &models))?;
        Ok(Begun { plan: RunPlan::new(options.words(), rows), options, device, engines })
    }
}

/// Opens engines, and says which on what device.
fn opened(console: Console, open: impl FnOnce() -> Result<Engines, Failure>) -> Result<Engines, Failure> {
    let engines = console.timed("engines: opened", open)?;
    let names: Vec<&str> = engines.all.iter().map(|engine| engine.name()).collect();
    console.detail(format_args!("{} on {}", names.join(", "), engines.origin.device));
    Ok(engines)
}

/// The plan of a run directory, as it was asked for.
struct Planned {
    plan: RunPlan,
    options: Options,
    device: Device,
}

impl Planned {
    /// Reads the plan, which must be what the arguments ask for.
    fn read(arguments: &Arguments, run: &Path) -> Result<Planned, Failure> {
        let plan = RunPlan::read(run).map_err(|error| run_failure(&error))?;
        let options = Options::of_words(&plan.options).map_err(|error| {
            let message = format!("{}: invalid options in the plan: {error}", run.display());
            Failure::new(message).hint("use the flopgap version that started the run, or start another run")
        })?;
        if let Some(other) = arguments.options.beyond(&options) {
            let planned = plan.options.join(" ");
            let message = format!("{}: planned with `{planned}`, not `{other}`", run.display());
            let hint = "omit the options to continue, or start another run";
            return Err(Failure::new(message).exit(Exit::Usage).hint(hint));
        }
        let device = options.device.map_or_else(Device::find, Ok)?;
        Ok(Planned { plan, options, device })
    }

    /// Opens the engines of the plan.
    fn engines(
        &self,
        references: Option<BTreeMap<String, f64>>,
        console: Console,
    ) -> Result<Engines, Failure> {
        let names = self.plan.engines().into_iter().map(str::to_owned).collect();
        let models = models::read(&self.options)?;
        let asked = Options { engine: names, ..self.options.clone() };
        opened(console, || Engines::open(&asked, self.device, &models, references))
    }

    fn open<'a>(&'a self, engines: &'a Engines) -> Open<'a> {
        Open { plan: &self.plan, engines, device: self.device, options: &self.options }
    }
}

/// Measures what is missing in a run directory, and joins the rows of its shards.
fn resume(arguments: &Arguments, begin: Instant, console: Console) -> Result<(), Failure> {
    let Some(run) = &arguments.output else {
        let hint = "flopgap calibrate sweep --resume --output RUN";
        return Err(Failure::new("--resume needs --output").exit(Exit::Usage).hint(hint));
    };
    let planned = Planned::read(arguments, run)?;
    let path = run::calibration_path(run);
    // A sweep that was killed between its plan and its file has measured nothing.
    if !path.exists() {
        let engines = planned.engines(None, console)?;
        let header = Header { references: engines.references(), ..Header::new(engines.origin.clone(), None) };
        let writer = Writer::create(&path, &header).map_err(|error| of_file(&error))?;
        let outstanding = planned.plan.outstanding(&[]);
        let filled = planned.open(&engines).fill(writer, &outstanding, arguments, begin, console)?;
        return conclude_run(&filled, run, begin.elapsed(), console);
    }
    let gathered = shards::gather(run, &planned.plan).map_err(|error| of_file(&error))?;
    let header = gathered.calibration.header;
    if gathered.files > 0 && planned.plan.outstanding(&gathered.calibration.rows).is_empty() {
        // Joining needs no device.
        let (_writer, rows) = joined(run, &planned.plan, &header, console)?;
        let all = rows.len();
        console.note(format_args!("{all} of {all} rows are done"));
        return conclude_run(&Filled::default(), run, begin.elapsed(), console);
    }
    let engines = planned.engines(Some(header.references), console)?;
    let ours = Header::new(engines.origin.clone(), None);
    let (writer, measured) = joined(run, &planned.plan, &ours, console)?;
    let outstanding = planned.plan.outstanding(&measured);
    note_done(console, planned.plan.rows.len() - outstanding.len(), planned.plan.rows.len(), "");
    let filled = planned.open(&engines).fill(writer, &outstanding, arguments, begin, console)?;
    if gathered.files > 0 {
        drop(joined(run, &planned.plan, &ours, console)?);
    }
    conclude_run(&filled, run, begin.elapsed(), console)
}

/// Opens the run's file and brings the rows of all shards into it, in the order of the plan.
fn joined(
    run: &Path,
    plan: &RunPlan,
    ours: &Header,
    console: Console,
) -> Result<(Writer, Vec<Row>), Failure> {
    let path = run::calibration_path(run);
    let (writer, found) = reopened(|| Writer::resume(&path, ours))?;
    if found.torn {
        console.note("the last row is incomplete and is measured again");
    }
    let gathered = shards::gather(run, plan).map_err(|error| of_file(&error))?;
    if gathered.surplus > 0 {
        let surplus = gathered.surplus;
        flopgap_cli::warn(
            PROGRAM,
            format_args!("{surplus} rows were measured more often than planned and are left out"),
        );
    }
    if gathered.calibration.rows == found.rows {
        return Ok((writer, found.rows));
    }
    gathered.calibration.write(&path).map_err(|error| of_file(&error))?;
    // The file is a new one, and so is its lock.
    drop(writer);
    let (writer, found) = reopened(|| Writer::resume(&path, ours))?;
    Ok((writer, found.rows))
}

/// Opens a file again. A process that was just killed may hold its lock for a moment longer.
fn reopened<T>(open: impl Fn() -> Result<T, FileError>) -> Result<T, Failure> {
    let begin = Instant::now();
    loop {
        match open() {
            Err(FileError { what: FileFault::Locked, .. }) if begin.elapsed() < PATIENCE => {
                thread::sleep(PATIENCE / 20);
            }
            opened => return opened.map_err(|error| of_file(&error)),
        }
    }
}

/// What is done before the first row is measured; nothing in a new run.
fn note_done(console: Console, done: usize, all: usize, of: &str) {
    if done > 0 {
        console.note(format_args!("{done} of {all} rows{of} are done"));
    }
}

/// A run that is open for measuring.
struct Open<'a> {
    plan: &'a RunPlan,
    engines: &'a Engines,
    device: Device,
    options: &'a Options,
}

impl Open<'_> {
    /// Measures the rows at these places of the plan.
    fn fill(
        &self,
        writer: Writer,
        places: &[usize],
        arguments: &Arguments,
        begin: Instant,
        console: Console,
    ) -> Result<Filled, Failure> {
        let termination = Termination::catch()
            .map_err(|error| Failure::new(format!("SIGTERM cannot be handled: {error}")))?;
        let mut driver = Driver {
            engine: &|name| self.engines.get(name),
            plan: self.plan,
            writer,
            monitor: engines::monitor(self.device, self.options.energy() > 0),
            repetition: self.options.repetition(self.device),
            console,
            until: arguments.limit.map(|limit| begin + limit),
            stop: termination.flag(),
        };
        let filled = driver.fill(places)?;
        driver.writer.sync().map_err(|error| of_file(&error))?;
        Ok(filled)
    }
}

/// Reports all rows of a run, and how the sweep ended.
fn conclude_run(filled: &Filled, run: &Path, took: Duration, console: Console) -> Result<(), Failure> {
    let path = run::calibration_path(run);
    let again = format!("flopgap calibrate sweep --resume --output {}", run.display());
    let next = format!("flopgap calibrate fit {}", path.display());
    conclude(filled, &path, &again, &next, took, console)
}

/// Reports the rows of a file, and how the sweep ended: with `again` it continues, `next` is what
/// can be done when it is complete.
fn conclude(
    filled: &Filled,
    path: &Path,
    again: &str,
    next: &str,
    took: Duration,
    console: Console,
) -> Result<(), Failure> {
    let calibration = Calibration::read(path).map_err(|error| of_file(&error))?;
    summary::of_rows(&calibration.rows)?;
    let seconds = took.as_secs_f64();
    console.note(format_args!("{} rows in {seconds:.1} s", filled.measured));
    let left = filled.left;
    if filled.stopped {
        let message = format!("stopped by SIGTERM with {left} rows left");
        return Err(Failure::new(message).hint(format!("`{again}` continues")));
    }
    if left > 0 {
        flopgap_cli::note(
            PROGRAM,
            format_args!("the limit was reached with {left} rows left; continue with: {again}"),
        );
    }
    match filled.failed {
        0 => {
            console.note(format_args!("next: {next}"));
            Ok(())
        }
        failed => {
            let message = format!("{failed} rows could not be measured; each is named above");
            Err(Failure::new(message).hint(format!("`{again}` tries again")))
        }
    }
}

/// The rows of a new run, on all of its engines.
fn plan(
    options: &Options,
    device: Device,
    engines: &Engines,
    models: &[UserModel],
) -> Result<Vec<PlannedRow>, Failure> {
    let mut points: Vec<(String, Vec<Point>)> = Vec::new();
    let mut refused: Option<String> = None;
    for engine in &engines.all {
        let engine = engine.as_ref();
        let mut of_engine = of_models(options, engine, models);
        if options.is_drawn() {
            match drawn(options, device, engine) {
                Ok(drawn) => of_engine.extend(drawn),
                Err(Undrawn::Nothing(reason)) => {
                    if engines.all.len() > 1 {
                        flopgap_cli::note(
                            PROGRAM,
                            format_args!("without engine {}: {reason}", engine.name()),
                        );
                    }
                    refused = Some(reason);
                }
                Err(Undrawn::Failed(failure)) => return Err(failure),
            }
        }
        if !of_engine.is_empty() {
            points.push((engine.name().to_owned(), of_engine));
        }
    }
    if points.is_empty() {
        let message =
            refused.unwrap_or_else(|| "nothing to measure: no engine can run the models".to_owned());
        let hint = "request fewer models or precisions, or another `--engine`";
        return Err(Failure::new(message).exit(Exit::Absent).hint(hint));
    }
    let all: usize = points.iter().map(|(_, points)| points.len()).sum();
    let repeats = options.repeats().min(all / 4);
    if options.is_drawn() && (options.size() == Size::Quick || options.rows.is_some()) {
        // The number of rows is kept: some are measured twice instead of others once.
        if let Some((_, points)) = points.last_mut() {
            leave_out(points, repeats);
        }
    }
    let mut rows = run::mix(points, repeats);
    mark(&mut rows, options.energy(), |row| row.energy = true);
    mark(&mut rows, options.count(), |row| row.count = true);
    Ok(rows)
}

/// The models that an engine can run; others are reported.
fn of_models(options: &Options, engine: &dyn Engine, models: &[UserModel]) -> Vec<Point> {
    let mut points = Vec::new();
    for (model, point) in models::points(models, options, &options.modes(engine.modes())) {
        let supported = models[model].suits(engine.name()).and_then(|()| {
            engine.supports(&point.workload, point.precision).map_err(|error| chain(&error).to_string())
        });
        match supported {
            Ok(()) => points.push(point),
            Err(reason) => {
                let (name, engine) = (&models[model].spec.name, engine.name());
                flopgap_cli::note(PROGRAM, format_args!("without {name} on {engine}: {reason}"));
            }
        }
    }
    points
}

/// Why no rows are planned.
enum Undrawn {
    /// The engine supports nothing that was requested.
    Nothing(String),
    /// The device does not report what is needed.
    Failed(Failure),
}

/// The points of one engine.
fn drawn(options: &Options, device: Device, engine: &dyn Engine) -> Result<Vec<Point>, Undrawn> {
    let request = Request {
        target: device.target(),
        size: options.size(),
        families: options.family.clone(),
        batches: options.batch.clone(),
        precisions: options.precision.clone(),
        modes: options.modes(engine.modes()),
        scenario: options.scenario,
        caches: device.caches().map_err(Undrawn::Failed)?,
        seed: options.seed(),
    };
    let mut accept = |point: &Point| {
        engine.supports(&point.workload, point.precision).map_err(|error| chain(&error).to_string())
    };
    let plan =
        grid::plan(&request, &mut accept).map_err(|error| Undrawn::Nothing(chain(&error).to_string()))?;
    for (family, refusal) in &plan.refused {
        // Single refusals are the design's: a size that an engine cannot have is drawn again.
        if plan.points.iter().all(|point| Family::of(&point.workload) != Some(*family)) {
            let (engine, reason) = (engine.name(), &refusal.reason);
            flopgap_cli::note(PROGRAM, format_args!("{engine} without family {family}: {reason}"));
        }
    }
    let mut points = plan.points;
    let rows = options.rows.map_or(usize::MAX, NonZero::get);
    let beyond = points.len().saturating_sub(rows);
    leave_out(&mut points, beyond);
    points.truncate(rows);
    Ok(points)
}

/// Leaves out the last points, but no empty ones: these are the least that a launch costs.
fn leave_out(points: &mut Vec<Point>, count: usize) {
    let is_empty = |point: &Point| matches!(&point.workload, Workload::Step(step) if step.op == Op::Empty);
    for _ in 0..count {
        if let Some(last) = points.iter().rposition(|point| !is_empty(point)) {
            points.remove(last);
        }
    }
}

/// Marks some of the rows, of every kind.
fn mark(rows: &mut [PlannedRow], count: usize, set: impl Fn(&mut PlannedRow)) {
    let points: Vec<Point> = rows.iter().map(|row| row.point.clone()).collect();
    for place in grid::choose(&points, count) {
        set(&mut rows[place]);
    }
}

/// The ceilings stored in the file's header.
fn ceilings(arguments: &Arguments, origin: &Origin) -> Result<Option<Ceilings>, Failure> {
    let Some(path) = &arguments.ceilings else { return Ok(None) };
    let ceilings = Ceilings::read(path)?;
    ceilings.expect_machine(&origin.kind, &origin.device, &origin.properties).map_err(|error| {
        let hint = "measure them with `flopgap calibrate probe --output ceilings.json`";
        Failure::new(format!("{}: {error}", path.display())).hint(hint)
    })?;
    Ok(Some(ceilings))
}

/// A name for a run directory: the time, and the device.
fn folder_name(device: Device) -> PathBuf {
    PathBuf::from(format!("{}_{}", flopgap_cli::time_stamp(), device.to_string().replace(':', "")))
}

fn run_failure(error: &run::RunError) -> Failure {
    let failure = Failure::of(error);
    match error {
        run::RunError::Occupied { .. } => failure.hint("`--resume` continues a sweep"),
        _ => failure,
    }
}

//! `flopgap calibrate sweep`.

mod arguments;
mod drive;
mod engines;
mod models;
mod summary;

use std::collections::BTreeMap;
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use flopgap_calibration::engines::Engine;
use flopgap_calibration::grid::{self, Family, Point, Request, Size};
use flopgap_calibration::run::{self, Gathered, PlannedRow, RunError, RunPlan, Session};
use flopgap_calibration::{Calibration, Header, Origin};
use flopgap_cli::{Console, Device, Exit, Failure, Termination};
use flopgap_files::chain;
use flopgap_files::run::Shard;
use flopgap_graph::{Op, Workload};
use flopgap_roofline::Ceilings;

pub(crate) use arguments::Arguments;

use crate::PROGRAM;
use crate::device;
use crate::load::of_file;
use arguments::Options;
use drive::{Driver, Filled};
use engines::Engines;
use models::UserModel;

pub(crate) fn run(arguments: &Arguments, console: Console) -> Result<(), Failure> {
    let begin = Instant::now();
    if arguments.resume && arguments.dry_run {
        let message = "--dry-run shows the plan of a new run, and --resume has one";
        return Err(Failure::new(message).exit(Exit::Usage));
    }
    let shard = flopgap_cli::shard(arguments.shard.as_deref())?;
    let is_planned = |run: &Path| !arguments.dry_run && !shard.is_whole() && RunPlan::exists(run);
    let mut opened = None;
    let run = match &arguments.output {
        Some(run) if arguments.resume || is_planned(run) => run.clone(),
        None if arguments.resume => {
            let hint = "flopgap calibrate sweep --resume --output RUN";
            return Err(Failure::new("--resume needs --output").exit(Exit::Usage).hint(hint));
        }
        output => {
            let Begun { plan, device, engines } = Begun::new(arguments, console)?;
            if arguments.dry_run {
                return summary::of_plan(&plan);
            }
            ceilings(arguments, &engines.origin)?; // read before a directory is created
            let run = output.clone().unwrap_or_else(|| folder_name(device));
            match plan.write_new(&run) {
                Ok(()) => console.note(format_args!("run directory {}", run.display())),
                // Another process of the same run was faster.
                Err(RunError::Occupied { .. }) if !shard.is_whole() => {}
                Err(error) => return Err(run_failure(&error)),
            }
            opened = Some(engines);
            run
        }
    };
    let planned = Planned::read(arguments, &run)?;
    let filled = planned.measure(arguments, &run, shard, opened, begin, console)?;
    conclude(&filled, &run, shard, begin.elapsed(), console)
}

/// A new plan, and the engines that it is for.
struct Begun {
    plan: RunPlan,
    device: Device,
    engines: Engines,
}

impl Begun {
    fn new(arguments: &Arguments, console: Console) -> Result<Begun, Failure> {
        let mut options = arguments.options.clone();
        let device = options.device.take().map_or_else(device::find, Ok)?;
        options.device = Some(device);
        // The engines are opened first: if none works, no directory is created.
        let models = models::read(&options)?;
        let engines = opened(console, || Engines::open(&options, device, &models, None))?;
        let rows = console.timed("rows: planned", || plan(&options, device, &engines, &models))?;
        Ok(Begun { plan: RunPlan::new(options.words(), rows), device, engines })
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
        let device = options.device.map_or_else(device::find, Ok)?;
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
        let options = Options { engine: names, ..self.options.clone() };
        opened(console, || Engines::open(&options, self.device, &models, references))
    }

    /// Measures what is missing of a shard, or of the whole, which brings the rows of shards
    /// together. `opened` are the engines that the plan was made with.
    fn measure(
        &self,
        arguments: &Arguments,
        run: &Path,
        shard: Shard,
        opened: Option<Engines>,
        begin: Instant,
        console: Console,
    ) -> Result<Filled, Failure> {
        let plan = &self.plan;
        let path = run::calibration_path(run);
        let known = path.exists().then(|| run::gather(run, plan)).transpose();
        let known = known.map_err(|error| of_file(&error))?;
        if let Some(Gathered { calibration, files: 1.., .. }) = &known
            && shard.is_whole()
            && plan.outstanding(&calibration.rows).is_empty()
        {
            // Joining needs no device.
            self.open(run, shard, &calibration.header, console)?
                .finish(plan)
                .map_err(|error| run_failure(&error))?;
            return Ok(Filled::default());
        }
        let mut engines = match (opened, known) {
            (Some(engines), None) => engines,
            (_, known) => self.engines(known.map(|known| known.calibration.header.references), console)?,
        };
        let header = Header {
            references: engines.references(),
            ..Header::new(engines.origin.clone(), ceilings(arguments, &engines.origin)?)
        };
        let mut session = self.open(run, shard, &header, console)?;
        let references = &session.gathered.calibration.header.references;
        if *references != header.references {
            // Another process of the same run was faster: its unit of time is that of the run.
            engines = self.engines(Some(references.clone()), console)?;
        }
        let filled = self.fill(&engines, &mut session, arguments, begin, console)?;
        session.finish(plan).map_err(|error| run_failure(&error))?;
        Ok(filled)
    }

    /// Opens the run for measuring, and says what is done of it.
    fn open(&self, run: &Path, shard: Shard, header: &Header, console: Console) -> Result<Session, Failure> {
        let plan = &self.plan;
        let session = Session::open(run, plan, shard, header).map_err(|error| run_failure(&error))?;
        if session.torn {
            console.note("the last row is incomplete and is measured again");
        }
        let surplus = session.gathered.surplus;
        if surplus > 0 {
            flopgap_cli::warn(
                PROGRAM,
                format_args!("{surplus} rows were measured more often than planned and are left out"),
            );
        }
        let all = plan.part(shard).len();
        let done = all - session.outstanding(plan).len();
        let of = if shard.is_whole() { String::new() } else { format!(" of shard {shard}") };
        if done > 0 {
            console.note(format_args!("{done} of {all} rows{of} are done"));
        }
        Ok(session)
    }

    fn fill(
        &self,
        engines: &Engines,
        session: &mut Session,
        arguments: &Arguments,
        begin: Instant,
        console: Console,
    ) -> Result<Filled, Failure> {
        let termination = Termination::catch()
            .map_err(|error| Failure::new(format!("SIGTERM cannot be handled: {error}")))?;
        let places = session.outstanding(&self.plan);
        let mut driver = Driver {
            engine: &|name| engines.get(name),
            plan: &self.plan,
            writer: &mut session.writer,
            monitor: engines::monitor(self.device, self.options.energy() > 0),
            repetition: self.options.repetition(self.device),
            console,
            until: arguments.limit.map(|limit| begin + limit),
            stop: termination.flag(),
        };
        driver.fill(&places)
    }
}

/// Reports the rows of a run, or of a shard, and how the sweep ended.
fn conclude(
    filled: &Filled,
    run: &Path,
    shard: Shard,
    took: Duration,
    console: Console,
) -> Result<(), Failure> {
    let path = run::rows_path(run, shard);
    let whole = format!("flopgap calibrate sweep --resume --output {}", run.display());
    let (again, next) = if shard.is_whole() {
        (whole, format!("flopgap calibrate fit {}", path.display()))
    } else {
        (format!("{whole} --shard {shard}"), format!("when all shards are measured, {whole}"))
    };
    let calibration = Calibration::read(&path).map_err(|error| of_file(&error))?;
    summary::of_rows(&calibration.rows)?;
    console.note(format_args!("{} rows in {:.1} s", filled.measured, took.as_secs_f64()));
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

/// The networks and models that an engine can run; others are reported.
fn of_models(options: &Options, engine: &dyn Engine, models: &[UserModel]) -> Vec<Point> {
    let mut points = Vec::new();
    for (model, point) in models::points(models, options, &options.modes(engine.modes())) {
        let suits = model.map_or(Ok(()), |model| model.suits(engine.name()));
        let supported = suits.and_then(|()| {
            engine.supports(&point.workload, point.precision).map_err(|error| chain(&error).to_string())
        });
        match supported {
            Ok(()) => points.push(point),
            Err(reason) => {
                let name = model.map_or_else(|| point.workload.label(), |model| model.spec.name.clone());
                let engine = engine.name();
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
        target: device::target(device),
        size: options.size(),
        families: options.family.clone(),
        batches: options.batch.clone(),
        precisions: options.precision.clone(),
        modes: options.modes(engine.modes()),
        scenario: options.scenario,
        caches: device::caches(device).map_err(Undrawn::Failed)?,
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

fn run_failure(error: &RunError) -> Failure {
    match error {
        RunError::Rows(error) => of_file(error),
        RunError::Occupied { .. } => Failure::of(error).hint("`--resume` continues a sweep"),
        _ => Failure::of(error),
    }
}

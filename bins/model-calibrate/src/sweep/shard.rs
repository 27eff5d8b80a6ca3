//! A part of a sweep, while other processes measure the others.

use std::collections::HashSet;
use std::path::Path;
use std::time::Instant;

use flopgap_calibration::run::{RunError, RunPlan, calibration_path};
use flopgap_calibration::shards::{self, Member};
use flopgap_calibration::{Calibration, FileError, FileFault, Header, Writer};
use flopgap_cli::{Console, Failure};
use flopgap_cluster::Shard;

use super::engines::Engines;
use super::{Arguments, Begun, Planned, ceilings, conclude, note_done, reopened, run_failure};
use crate::load::of_file;

/// Measures what is missing of a shard. The first process makes the plan.
pub(super) fn run(
    arguments: &Arguments,
    run: &Path,
    shard: Shard,
    begin: Instant,
    console: Console,
) -> Result<(), Failure> {
    let opened = match RunPlan::read(run) {
        Err(RunError::NoPlan { .. }) if !arguments.resume => Some(first(arguments, run, console)?),
        _ => None,
    };
    let planned = Planned::read(arguments, run)?;
    let engines = engines(arguments, run, &planned, opened, console)?;
    let Member { writer, torn, claim } = reopened(|| shards::join(run, shard, &engines.origin))?;
    if torn {
        console.note("the last row is incomplete and is measured again");
    }
    let gathered = shards::gather(run, &planned.plan).map_err(|error| of_file(&error))?;
    let mine = planned.plan.part(shard);
    let outstanding: HashSet<usize> =
        planned.plan.outstanding(&gathered.calibration.rows).into_iter().collect();
    let places: Vec<usize> = mine.iter().copied().filter(|place| outstanding.contains(place)).collect();
    note_done(console, mine.len() - places.len(), mine.len(), &format!(" of shard {shard}"));
    let filled = planned.open(&engines).fill(writer, &places, arguments, begin, console)?;
    drop(claim);
    let whole = format!("flopgap calibrate sweep --resume --output {}", run.display());
    let again = format!("{whole} --shard {shard}");
    let next = format!("when all shards are measured, {whole}");
    conclude(&filled, &shards::shard_path(run, shard), &again, &next, begin.elapsed(), console)
}

/// Makes the plan, unless another process is faster.
fn first(arguments: &Arguments, run: &Path, console: Console) -> Result<Engines, Failure> {
    let Begun { plan, engines, .. } = Begun::new(arguments, console)?;
    match plan.write_new(run) {
        Ok(()) => console.note(format_args!("run directory {}", run.display())),
        Err(RunError::Occupied { .. }) => {}
        Err(error) => return Err(run_failure(&error)),
    }
    Ok(engines)
}

/// The engines, with the references of the run: those of the process that writes its header.
fn engines(
    arguments: &Arguments,
    run: &Path,
    planned: &Planned,
    opened: Option<Engines>,
    console: Console,
) -> Result<Engines, Failure> {
    let path = calibration_path(run);
    if !path.exists() {
        let engines = opened.map_or_else(|| planned.engines(None, console), Ok)?;
        let ceilings = ceilings(arguments, &engines.origin)?;
        let header =
            Header { references: engines.references(), ..Header::new(engines.origin.clone(), ceilings) };
        match Writer::create(&path, &header) {
            // Locked by a process that has joined this very moment.
            Ok(_) | Err(FileError { what: FileFault::Locked, .. }) => return Ok(engines),
            Err(FileError { what: FileFault::Exists, .. }) => {}
            Err(error) => return Err(of_file(&error)),
        }
    }
    let header = Calibration::read(&path).map_err(|error| of_file(&error))?.header;
    planned.engines(Some(header.references), console)
}

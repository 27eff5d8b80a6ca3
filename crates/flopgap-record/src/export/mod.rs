//! A recording as an export of Nsight Systems: the tables that its reports and ours read.

mod activities;
mod counts;
mod loss;
mod names;
mod ranges;
mod rows;
mod schema;
mod target;

use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};

use flopgap_files::write_atomic_at;
use rusqlite::{Connection, params};

use crate::RecordError;
use crate::format::SWITCH;
use crate::gpm;
use crate::reader::{Event, Process, Strides};
use activities::Activities;
use names::Strings;
use ranges::Ranges;
use rows::Table;

pub use loss::{Cause, Loss};

/// The only machine of a recording, as nsys numbers it.
const MACHINE: i64 = 1 << 48;

/// What an export has.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Exported {
    /// Processes that were recorded.
    pub processes: u64,
    /// Kernels, each launch on its own.
    pub kernels: u64,
    /// Copies and sets of memory.
    pub copies: u64,
    /// Calls of the runtime and the driver.
    pub calls: u64,
    /// Ranges and marks of NVTX.
    pub ranges: u64,
    /// Kernels whose operations are known: launches like them were counted before the recording.
    pub counted: u64,
    /// Other kernels of processes that counted.
    pub uncounted: u64,
    /// What is missing, by process and cause.
    pub losses: Vec<Loss>,
}

/// Global numbers of a process and its threads, and its times.
#[derive(Debug, Clone, Copy, Default)]
struct Ids {
    pid: u64,
    /// Nanoseconds since 1970 that are time 0 of the export.
    origin: u64,
}

impl Ids {
    /// The process among all of the recording.
    fn process(&self) -> i64 {
        MACHINE | (self.pid << 24).cast_signed()
    }

    /// A thread among all of the recording.
    fn thread(&self, thread: u32) -> i64 {
        self.process() | i64::from(thread & 0xff_ffff)
    }

    /// A time of the export. One before its beginning is negative.
    fn time(&self, time: u64) -> i64 {
        time.wrapping_sub(self.origin).cast_signed()
    }
}

/// Writes the recordings of a directory as one export, whole or not at all.
///
/// # Errors
/// A directory without recordings; files that cannot be read or written.
pub fn export(directory: &Path, to: &Path) -> Result<Exported, RecordError> {
    export_between(directory, to, 0..u64::MAX)
}

/// As [`export`], of what began within these times: nanoseconds since 1970.
///
/// # Errors
/// As [`export`].
pub fn export_between(directory: &Path, to: &Path, times: Range<u64>) -> Result<Exported, RecordError> {
    let processes = processes(directory)?;
    let switched = on_times(&fs::read_to_string(directory.join(SWITCH)).unwrap_or_default());
    write_atomic_at(to, |temporary| {
        write((directory, &processes), temporary, times, &switched).map_err(|failure| match failure {
            Failure::Read(error) => error,
            Failure::Write(error) => RecordError::Database { path: to.to_owned(), reason: error.to_string() },
        })
    })
}

/// The files of a directory that are recordings.
pub(crate) fn files(directory: &Path) -> Result<Vec<PathBuf>, RecordError> {
    let io = RecordError::io(directory);
    let mut files: Vec<PathBuf> =
        fs::read_dir(directory).map_err(&io)?.filter_map(|file| Some(file.ok()?.path())).collect();
    files.retain(|file| file.extension().is_some_and(|extension| extension == "fgr"));
    Ok(files)
}

/// The recordings of a directory, the process that began first first.
pub(crate) fn processes(directory: &Path) -> Result<Vec<Process>, RecordError> {
    let files = files(directory)?;
    let processes: Result<Vec<Process>, RecordError> = files.iter().map(|file| Process::open(file)).collect();
    let mut processes = processes?;
    if processes.is_empty() {
        return Err(RecordError::Empty { path: directory.to_owned() });
    }
    processes.sort_by_key(|process| (process.opened(), process.pid()));
    Ok(processes)
}

fn write(
    (directory, processes): (&Path, &[Process]),
    to: &Path,
    times: Range<u64>,
    switched: &[Range<u64>],
) -> Result<Exported, Failure> {
    let database = Connection::open(to)?;
    // The file is renamed when it is whole: nothing of it needs to survive until then.
    let fast = "PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; PRAGMA locking_mode = EXCLUSIVE; BEGIN";
    database.execute_batch(fast)?;
    database.execute_batch(schema::TABLES)?;
    let first = processes.iter().map(Process::opened).min().unwrap_or(0);
    let mut writer = Writer::new(&database, first.max(times.start), times);
    for process in processes {
        writer.process(process, switched)?;
    }
    writer.gpm(directory)?;
    let exported = writer.finish()?;
    database.execute_batch("COMMIT")?;
    Ok(exported)
}

/// When recording was switched on, by the lines of the file that says it. Without one it is always.
fn on_times(lines: &str) -> Vec<Range<u64>> {
    let switches: Vec<(bool, u64)> = lines
        .lines()
        .filter_map(|line| {
            let (state, time) = line.split_once(' ')?;
            Some((state == "1", time.parse().ok()?))
        })
        .collect();
    intervals(if switches.is_empty() { vec![(true, 0)] } else { switches })
}

/// The times between on and off.
fn intervals(switches: Vec<(bool, u64)>) -> Vec<Range<u64>> {
    let mut intervals: Vec<Range<u64>> = Vec::new();
    for (on, time) in switches {
        match intervals.last_mut().filter(|last| last.end == u64::MAX) {
            Some(last) if !on => last.end = time,
            None if on => intervals.push(time..u64::MAX),
            _ => {}
        }
    }
    intervals
}

/// Writes processes one after another.
struct Writer<'d> {
    database: &'d Connection,
    origin: u64,
    times: Range<u64>,
    strings: Strings,
    nvtx: Table<'d>,
    nodes: Table<'d>,
    activities: Activities<'d>,
    exported: Exported,
}

/// An error while rows are written.
enum Failure {
    Read(RecordError),
    Write(rusqlite::Error),
}

impl From<RecordError> for Failure {
    fn from(error: RecordError) -> Failure {
        Failure::Read(error)
    }
}

impl From<rusqlite::Error> for Failure {
    fn from(error: rusqlite::Error) -> Failure {
        Failure::Write(error)
    }
}

impl<'d> Writer<'d> {
    fn new(database: &'d Connection, origin: u64, times: Range<u64>) -> Writer<'d> {
        Writer {
            database,
            origin,
            times,
            strings: Strings::default(),
            nvtx: Table::default(),
            nodes: Table::default(),
            activities: Activities::default(),
            exported: Exported::default(),
        }
    }

    fn process(&mut self, process: &Process, switched: &[Range<u64>]) -> Result<(), Failure> {
        let ids = Ids { pid: process.pid(), origin: self.origin };
        let mut ranges = Ranges::default();
        self.activities.begin(ids);
        let mut result = Ok(());
        let mut strides = Strides::default();
        let mut own = Vec::new();
        process.definitions(|event| {
            if let Event::Stride { kind, bytes } = event {
                strides.insert(kind, bytes as usize);
            } else if let Event::Switched { on, time } = event {
                own.push((on, time));
            } else if result.is_ok() {
                result = self.define(&ids, &event, &mut ranges);
            }
        })?;
        result?;
        // Ranges mean nothing while kernels are not recorded. Where CUDA is not used, or another
        // profiler has it, they are all that there is.
        let on = match process.counting() {
            Some((_, None)) => Vec::new(),
            _ if own.is_empty() => switched.to_vec(),
            _ => intervals(own),
        };
        self.events(process, &ids, &mut ranges, &on)?;
        let Writer { database, strings, activities, times, .. } = self;
        let unread = process.activities(&strides, |activity| -> Result<(), Failure> {
            if activity.begun().is_some_and(|begun| begun != 0 && !times.contains(&begun)) {
                return Ok(());
            }
            Ok(activities.take(activity, strings, database)?)
        })?;
        let (counted, uncounted) = activities.write_counts(strings, database)?;
        self.exported.counted += counted;
        self.exported.uncounted += uncounted;
        let times = activities.times();
        let losses = loss::of(process, unread, ranges.without_beginning, times);
        loss::write(&losses, &ids, process, database)?;
        self.exported.losses.extend(losses);
        self.exported.processes += 1;
        Ok(())
    }

    /// Rows of what threads wrote.
    fn events(
        &mut self,
        process: &Process,
        ids: &Ids,
        ranges: &mut Ranges,
        on: &[Range<u64>],
    ) -> Result<(), Failure> {
        let Writer { database, strings, nvtx, nodes, times, .. } = self;
        let made = strings.id(database, "Graph Node Creation")?;
        let mut result = Ok(());
        process.events(|thread, time, event| {
            if result.is_err() {
                return;
            }
            // Ends are followed to their beginnings, wherever those are.
            let begins = !matches!(event, Event::Pop { .. } | Event::End { .. });
            let is_node = matches!(event, Event::Node { .. });
            let is_on = || is_node || on.iter().any(|on| on.contains(&time));
            let is_recorded = || times.contains(&time) && is_on();
            if begins && !is_recorded() {
                ranges.skip(thread, &event);
                return;
            }
            let time = ids.time(time);
            result = if let Event::Node { number, original } = event {
                let original = Some(original.cast_signed()).filter(|&original| original != 0);
                let row = params![time, ids.thread(thread), made, number.cast_signed(), original];
                nodes.insert(database, &schema::NODE, row)
            } else {
                ranges.take((thread, time), event, (nvtx, ids, database))
            };
        })?;
        result?;
        Ok(ranges.finish((nvtx, ids, database))?)
    }

    /// Definitions: names that rows refer to, and rows of their own.
    fn define(&mut self, ids: &Ids, event: &Event<'_>, ranges: &mut Ranges) -> Result<(), Failure> {
        let Writer { database, strings, nvtx, activities, .. } = self;
        match event {
            Event::Command { arguments } => {
                let program = arguments.split('\0').next().unwrap_or_default();
                let name = program.rsplit('/').next().unwrap_or(program);
                let row = params![ids.process(), ids.pid.cast_signed(), name];
                database.execute("INSERT INTO PROCESSES VALUES (?1, ?2, ?3)", row)?;
            }
            Event::Thread { number, name } => {
                let thread = ids.thread(u32::try_from(*number).unwrap_or(0));
                database.execute("DELETE FROM ThreadNames WHERE globalTid = ?1", [thread])?;
                let row = params![strings.id(database, name)?, thread];
                database.execute("INSERT INTO ThreadNames VALUES (?1, 20, ?2)", row)?;
            }
            Event::Message { severity, text } => {
                loss::message(*severity, text, ids, database)?;
            }
            Event::Function { domain, number, name } => {
                activities.function(*domain, *number, strings.id(database, name)?, name);
            }
            Event::Device { device, name } => activities.device(*device, name.to_string()),
            Event::String { number, address, text } => activities.string(*number, *address, text),
            Event::Metrics { .. } | Event::Work { .. } | Event::Counted { .. } | Event::Step { .. } => {
                activities.counts.define(event.clone());
            }
            event => ranges.define(event, nvtx, strings, database)?,
        }
        Ok(())
    }

    /// What was sampled of GPUs that processes used.
    fn gpm(&mut self, directory: &Path) -> Result<(), Failure> {
        let Writer { database, times, activities, exported, .. } = self;
        let (mut table, ids) = (Table::default(), Ids { pid: 0, origin: self.origin });
        let numbers = activities.gpus();
        let damaged = gpm::read(directory, |sample| -> Result<(), Failure> {
            let gpu = numbers.get(sample.gpu).filter(|_| times.contains(&sample.start));
            let Some(gpu) = gpu else { return Ok(()) };
            let (start, end) = (ids.time(sample.start), ids.time(sample.end));
            let row = params![start, end, gpu, sample.metric, sample.percent];
            Ok(table.insert(database, &schema::GPM, row)?)
        })?;
        let loss = Loss { pid: 0, cause: Cause::Samples, count: damaged };
        if damaged > 0 {
            loss::write_one(&loss, None, &ids, database)?;
            exported.losses.push(loss);
        }
        Ok(())
    }

    fn finish(mut self) -> rusqlite::Result<Exported> {
        let database = self.database;
        self.activities.write_targets(database)?;
        let utc = utc(self.origin);
        let session = params![self.origin.cast_signed(), utc, utc];
        database.execute("INSERT INTO TARGET_INFO_SESSION_START_TIME VALUES (?1, ?2, ?3)", session)?;
        let stop = self.activities.last();
        let details = params![MACHINE, stop, 0, stop];
        database.execute("INSERT INTO ANALYSIS_DETAILS VALUES (?1, ?2, ?3, ?4)", details)?;
        for (name, value) in [
            ("EXPORT_PRODUCT_NAME", "flopgap"),
            ("EXPORT_PRODUCT_VERSION", env!("CARGO_PKG_VERSION")),
            ("EXPORT_SCHEMA_VERSION", "3.20.3"),
            ("EXPORT_SCHEMA_VERSION_MAJOR", "3"),
            ("EXPORT_SCHEMA_VERSION_MINOR", "20"),
            ("EXPORT_SCHEMA_VERSION_MICRO", "3"),
        ] {
            database.execute("INSERT INTO META_DATA_EXPORT VALUES (?1, ?2)", params![name, value])?;
        }
        let activities = &self.activities;
        self.exported.kernels = activities.kernels.rows;
        self.exported.copies = activities.copies.rows + activities.sets.rows;
        self.exported.calls = activities.calls.rows;
        self.exported.ranges = self.nvtx.rows;
        Ok(self.exported)
    }
}

/// A time as people write it.
fn utc(nanoseconds: u64) -> String {
    let time = UNIX_EPOCH + Duration::from_nanos(nanoseconds);
    humantime::format_rfc3339_seconds(time).to_string().trim_end_matches('Z').to_owned()
}

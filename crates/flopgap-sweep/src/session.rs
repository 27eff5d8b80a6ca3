//! A run directory that this process fills, alone or together with others.

use std::collections::BTreeSet;
use std::fs::{self, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, SystemTime};

use flopgap_fs::{WriteError, create_folder, remove_leftovers, write_new};
use flopgap_kernels::Classifier;
use flopgap_phases::Strictness;
use rayon::prelude::*;

use crate::journal::{self, DamagedLine, Entry, Journal, Journals};
use crate::plan;
use crate::record::file_name;
use crate::{
    Backend, Config, Grid, Holder, JournalContents, Manifest, Occupant, Origin, OriginPart, Record,
    RecordError, RunError, Shard, read_journal,
};

/// The directories that a run's files are written to.
const FOLDERS: [&str; 5] = ["", "raw", "journal", "processed", "plots"];

/// How long to wait for another process that is opening the same run.
const PATIENCE: Duration = Duration::from_secs(30);

/// A worker of a run: its part of the plan, its devices, and its origin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Worker {
    /// The part of the plan.
    pub shard: Shard,
    /// The devices, each of which gets a thread.
    pub devices: Vec<u32>,
    /// The backend's name, as the manifest keeps it.
    pub backend: String,
    /// The origin, the same on all devices.
    pub origin: Origin,
}

impl Worker {
    /// A worker on these devices.
    ///
    /// # Errors
    /// [`RunError::Device`] when a device is not there, [`RunError::UnlikeDevices`] when two are of
    /// different kinds.
    pub fn new(backend: &dyn Backend, name: &str, devices: &[u32], shard: Shard) -> Result<Worker, RunError> {
        let origin = |device| backend.origin(device).map_err(|error| RunError::Device { device, error });
        let first = devices.first().copied().unwrap_or_default();
        let common = origin(first)?;
        for &second in devices.get(1..).unwrap_or_default() {
            if let Some(difference) = common.difference(&origin(second)?) {
                return Err(RunError::UnlikeDevices { first, second, difference });
            }
        }
        Ok(Worker { shard, devices: devices.to_vec(), backend: name.to_owned(), origin: common })
    }
}

/// A run directory that is open for filling: its manifest was checked, and no other process fills
/// the same part of it.
///
/// What is missing is never stored: it is the plan without the configurations whose records are
/// there and undamaged.
#[derive(Debug)]
pub struct Session {
    run: PathBuf,
    manifest: Manifest,
    worker: Worker,
    pub(crate) journal: Journal,
    damaged: Vec<DamagedLine>,
    created: Created,
}

/// What this session created in its run directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Created {
    /// Nothing: the run existed.
    Nothing,
    /// The run, in an existing directory.
    Contents,
    /// The directory, too.
    Folder,
}

/// What a worker has to do.
#[derive(Debug, Default)]
pub struct Outstanding {
    /// The configurations to measure, in order.
    pub configs: Vec<Config>,
    /// How many of this worker's configurations are done.
    pub done: usize,
    /// Records that are damaged and will be measured again.
    pub damaged: Vec<RecordError>,
}

impl Session {
    /// Creates a run directory, or joins one that another worker of the same plan created.
    ///
    /// # Errors
    /// [`RunError::Occupied`] when there is a run already (and this is not one of several workers)
    /// or something else; [`RunError::OtherPlan`] and [`RunError::OtherOrigin`] when the run to
    /// join is not the same; [`RunError::Busy`]; [`RunError::Plan`]; [`RunError::Write`].
    pub fn create(run: &Path, grid: &Grid, worker: Worker) -> Result<Session, RunError> {
        grid.check()?;
        let created = if run.exists() { Created::Contents } else { Created::Folder };
        create_folder(run)?;
        let occupied = |occupant| RunError::Occupied { path: run.to_owned(), occupant };
        // The manifest comes first: a worker creates it before everything else.
        let unused = is_unused(run)?;
        match Manifest::read(run)? {
            Some(_) if worker.shard.is_whole() => return Err(occupied(Occupant::Run)),
            Some(_) => drop(resumable(run)?),
            None if !unused => return Err(occupied(Occupant::Files)),
            None => {}
        }
        let guard = opening_lock(run)?;
        let manifest = Manifest::new(grid.clone(), &worker.backend, worker.origin.clone());
        if !manifest.write_new(run)? {
            if worker.shard.is_whole() {
                return Err(occupied(Occupant::Run));
            }
            let found = resumable(run)?;
            if found.grid != manifest.grid || found.backend != manifest.backend {
                return Err(RunError::OtherPlan { path: run.to_owned() });
            }
            return Session::open(run, &guard, found, worker, false);
        }
        Ok(Session { created, ..Session::open(run, &guard, manifest, worker, false)? })
    }

    /// Plans a run that workers fill later, on other machines: a run directory with a manifest that
    /// does not say yet what counts. The first worker that resumes the run says it.
    ///
    /// # Errors
    /// [`RunError::Occupied`] when there is a run already or something else; [`RunError::Plan`];
    /// [`RunError::Write`].
    pub fn plan(run: &Path, grid: &Grid, backend: &str) -> Result<(), RunError> {
        grid.check()?;
        create_folder(run)?;
        let occupied = |occupant| RunError::Occupied { path: run.to_owned(), occupant };
        let unused = is_unused(run)?;
        match Manifest::read(run)? {
            Some(_) => return Err(occupied(Occupant::Run)),
            None if !unused => return Err(occupied(Occupant::Files)),
            None => {}
        }
        let manifest = Manifest::new(grid.clone(), backend, Origin::default());
        if !manifest.write_new(run)? {
            return Err(occupied(Occupant::Run));
        }
        Ok(create_folder(&run.join("raw"))?)
    }

    /// Removes what [`Session::create`] created, for a run that could not be started: manifest,
    /// journal, and the directory if it is new. A run that has a record, or that other workers may
    /// join, stays.
    ///
    /// # Errors
    /// [`RunError::Io`] when something cannot be removed.
    pub fn discard(self) -> Result<(), RunError> {
        let Session { run, worker, journal, created, .. } = self;
        let error = |path: &Path, source| RunError::Io { path: path.to_owned(), source };
        let raw = run.join("raw");
        let is_empty = fs::read_dir(&raw).map_err(|source| error(&raw, source))?.next().is_none();
        if created == Created::Nothing || !worker.shard.is_whole() || !is_empty {
            return Ok(());
        }
        let guard = opening_lock(&run)?;
        drop(journal);
        let journals = journal::folder(&run);
        let manifest = Manifest::path(&run);
        fs::remove_dir(&raw).map_err(|source| error(&raw, source))?;
        fs::remove_file(&manifest).map_err(|source| error(&manifest, source))?;
        fs::remove_dir_all(&journals).map_err(|source| error(&journals, source))?;
        drop(guard);
        if created == Created::Folder {
            // Other files stay.
            let _ = fs::remove_dir(&run);
        }
        Ok(())
    }

    /// Opens a run directory to measure what is missing, or what of `grid` is missing, which then
    /// belongs to the plan.
    ///
    /// With `accept_driver`, another driver than that of the manifest is no obstacle.
    ///
    /// # Errors
    /// [`RunError::NoManifest`], [`RunError::Version`] and [`RunError::RecordedElsewhere`] when it
    /// cannot be resumed; [`RunError::OtherPlan`], [`RunError::OtherOrigin`]; [`RunError::Busy`];
    /// [`RunError::Plan`]; [`RunError::Write`].
    pub fn resume(
        run: &Path,
        grid: Option<&Grid>,
        worker: Worker,
        accept_driver: bool,
    ) -> Result<Session, RunError> {
        fs::metadata(run).map_err(|source| RunError::Io { path: run.to_owned(), source })?;
        resumable(run)?; // before anything is created in a directory that may not be a run
        let guard = opening_lock(run)?;
        let mut manifest = resumable(run)?;
        manifest.extended.iter().chain([&manifest.grid]).chain(grid).try_for_each(Grid::check)?;
        if manifest.backend.as_deref() != Some(worker.backend.as_str()) {
            return Err(RunError::OtherPlan { path: run.to_owned() });
        }
        let plan = manifest.plan();
        let extension = grid.filter(|grid| grid.configs().any(|config| !plan.contains(&config)));
        manifest.extended.extend(extension.cloned());
        let extended = extension.is_some();
        let session = Session::open(run, &guard, manifest, worker, accept_driver)?;
        if extended {
            session.manifest.write(run)?;
        }
        Ok(session)
    }

    /// Checks the origin and claims the worker's part, while the opening lock keeps others from
    /// doing so.
    fn open(
        run: &Path,
        _opening: &File,
        mut manifest: Manifest,
        worker: Worker,
        accept_driver: bool,
    ) -> Result<Session, RunError> {
        let is_first = manifest.is_without_origin();
        if is_first {
            manifest.origin = first_origin(run, &worker.origin)?;
        }
        match worker.origin.difference(&manifest.origin) {
            Some(difference) if !(accept_driver && difference.part == OriginPart::Driver) => {
                return Err(RunError::OtherOrigin { path: run.to_owned(), difference });
            }
            _ => {}
        }
        if is_first {
            manifest.write(run)?;
        }
        create_folder(&run.join("raw"))?;
        let (mut journal, contents) = claim(run, worker.shard)?;
        let damaged = contents.damaged_lines(&journal::path(run, worker.shard)).collect();
        journal.append(&Entry::Start {
            time: now(),
            pid: std::process::id(),
            host: host(),
            devices: worker.devices.clone(),
            origin: worker.origin.clone(),
        })?;
        let run = run.to_owned();
        Ok(Session { run, manifest, worker, journal, damaged, created: Created::Nothing })
    }

    /// The directory.
    pub fn run(&self) -> &Path {
        &self.run
    }

    /// Its manifest.
    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// Who fills it.
    pub fn worker(&self) -> &Worker {
        &self.worker
    }

    /// The damaged lines of the journal, which are ignored: what is done follows from the records.
    pub fn damaged_lines(&self) -> &[DamagedLine] {
        &self.damaged
    }

    /// The path of a configuration's record.
    pub fn record_path(&self, config: Config) -> PathBuf {
        self.run.join("raw").join(file_name(config))
    }

    /// What this worker has to do of a plan: its part, without the configurations whose records are
    /// there and undamaged.
    ///
    /// # Errors
    /// [`RunError::Record`] when a record was written by a newer program: it is not overwritten.
    pub fn outstanding(&self, plan: &BTreeSet<Config>) -> Result<Outstanding, RunError> {
        let mine = plan::part(self.worker.shard, plan);
        let classifier = Classifier::new();
        let whole = |config| {
            let path = self.record_path(config);
            Record::read(&path)?.analyze(&path, &classifier, Strictness::Strict)
        };
        let records: Vec<Result<_, RecordError>> = mine.par_iter().map(|&config| whole(config)).collect();
        let mut outstanding = Outstanding::default();
        for (config, record) in mine.into_iter().zip(records) {
            match record {
                Ok(_) => {
                    outstanding.done += 1;
                    continue;
                }
                Err(RecordError::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => {}
                Err(error @ RecordError::Version { .. }) => return Err(error.into()),
                Err(error) => outstanding.damaged.push(error),
            }
            outstanding.configs.push(config);
        }
        Ok(outstanding)
    }

    /// How many configurations of the whole plan nobody has come to yet: they have no record, and
    /// no journal says why.
    ///
    /// # Errors
    /// When a journal cannot be read.
    pub fn untouched(&self) -> Result<usize, RunError> {
        let gaps = Journals::read(&self.run)?.gaps;
        let plan = self.manifest.plan().into_iter();
        Ok(plan.filter(|config| !gaps.contains_key(config) && !self.record_path(*config).exists()).count())
    }
}

/// The time in RFC 3339, to the second.
pub(crate) fn now() -> String {
    humantime::format_rfc3339_seconds(SystemTime::now()).to_string()
}

/// The machine's name, for messages.
fn host() -> String {
    let name =
        fs::read_to_string("/proc/sys/kernel/hostname").ok().or_else(|| std::env::var("HOSTNAME").ok());
    name.map_or_else(|| "this machine".to_owned(), |name| name.trim().to_owned())
}

/// Whether a directory holds only what an interrupted [`Session::create`] may have left.
fn is_unused(run: &Path) -> Result<bool, RunError> {
    let error = |source| RunError::Io { path: run.to_owned(), source };
    for entry in fs::read_dir(run).map_err(error)? {
        let name = entry.map_err(error)?.file_name();
        if !name.to_str().is_some_and(|name| name == "journal" || name.starts_with(".flopgap-")) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// The manifest of a run that this program recorded.
fn resumable(run: &Path) -> Result<Manifest, RunError> {
    let manifest = Manifest::read(run)?.ok_or_else(|| RunError::NoManifest { path: run.to_owned() })?;
    if manifest.backend.is_none() {
        return Err(RunError::RecordedElsewhere { path: run.to_owned() });
    }
    Ok(manifest)
}

/// The origin of a planned run: that of the first worker. A file that only one worker can create
/// decides which one it is, since not every file system has locks.
fn first_origin(run: &Path, ours: &Origin) -> Result<Origin, RunError> {
    let path = journal::folder(run).join("origin.json");
    let json = serde_json::to_vec(ours).unwrap_or_else(|error| unreachable!("{error}"));
    if write_new(&path, &json)? {
        return Ok(ours.clone());
    }
    let bytes = fs::read(&path).map_err(|source| RunError::Io { path: path.clone(), source })?;
    serde_json::from_slice(&bytes).map_err(|error| RunError::Manifest { path, source: error.into() })
}

/// Serializes the opening of a run among processes. Held briefly and released when the process
/// ends.
fn opening_lock(run: &Path) -> Result<File, RunError> {
    create_folder(&journal::folder(run))?;
    let path = journal::folder(run).join("lock");
    let write_error = |source| WriteError::new(&path, source);
    let file = File::options().write(true).create(true).truncate(false).open(&path).map_err(write_error)?;
    let mut waited = Duration::ZERO;
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(file),
            Err(TryLockError::WouldBlock) if waited < PATIENCE => {
                let moment = Duration::from_millis(5);
                thread::sleep(moment);
                waited += moment;
            }
            Err(TryLockError::WouldBlock) => {
                return Err(RunError::Busy { path: run.to_owned(), holder: Holder::Opening });
            }
            Err(TryLockError::Error(error)) if error.kind() == io::ErrorKind::Unsupported => return Ok(file),
            Err(TryLockError::Error(error)) => return Err(write_error(error).into()),
        }
    }
}

/// Opens the worker's journal, unless a living process fills a part of the run that overlaps with
/// it. Where no other process is left, temporary files of killed ones are removed.
fn claim(run: &Path, shard: Shard) -> Result<(Journal, JournalContents), RunError> {
    let mut others_live = false;
    for (path, other) in journal::list(run)? {
        if other != shard && Journal::open(&path)?.is_none() {
            if other.overlaps(shard) {
                return Err(busy(run, &path));
            }
            others_live = true;
        }
    }
    let path = journal::path(run, shard);
    let Some((journal, contents)) = Journal::open(&path)? else {
        return Err(busy(run, &path));
    };
    if !others_live {
        for folder in FOLDERS {
            remove_leftovers(&run.join(folder))?;
        }
    }
    Ok((journal, contents))
}

/// Names the process that writes a journal.
fn busy(run: &Path, journal: &Path) -> RunError {
    let start = read_journal(journal).ok().and_then(|contents| contents.last_start().cloned());
    let holder = match start {
        Some(Entry::Start { time: started, pid, host, .. }) => Holder::Process { pid, host, started },
        _ => Holder::Starting,
    };
    RunError::Busy { path: run.to_owned(), holder }
}

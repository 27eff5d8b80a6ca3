//! A run directory that this process fills, alone or together with others.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use crate::Strictness;
use flopgap_files::{
    create_folder,
    run::{LOCKS, Lock, Opening},
};
use flopgap_kernels::Classifier;
use rayon::prelude::*;

use crate::sweep::plan;
use crate::sweep::record::file_name;
use crate::sweep::{
    Backend, Config, Grid, Manifest, Origin, OriginPart, Record, RecordError, RunError, RunFault, Shard,
};

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
    lock: Lock,
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
    /// [`RunFault::Occupied`] when there is a run already (and this is not one of several workers),
    /// [`RunFault::OtherFiles`] when there is something else; [`RunFault::OtherPlan`] and
    /// [`RunFault::OtherOrigin`] when the run to join is not the same; [`RunError::Lock`];
    /// [`RunError::Plan`]; [`RunError::Write`].
    pub fn create(run: &Path, grid: &Grid, worker: Worker) -> Result<Session, RunError> {
        grid.check()?;
        let created = if run.exists() { Created::Contents } else { Created::Folder };
        create_folder(run)?;
        // The manifest comes first: a worker creates it before everything else.
        let unused = is_unused(run)?;
        match Manifest::read(run)? {
            Some(_) if worker.shard.is_whole() => return Err(RunFault::Occupied.at(run)),
            Some(_) => drop(resumable(run)?),
            None if !unused => return Err(RunFault::OtherFiles.at(run)),
            None => {}
        }
        let opening = Opening::wait(run)?;
        let manifest = Manifest::new(grid.clone(), &worker.backend, worker.origin.clone());
        if !manifest.write_new(run)? {
            if worker.shard.is_whole() {
                return Err(RunFault::Occupied.at(run));
            }
            let found = resumable(run)?;
            if found.grid != manifest.grid || found.backend != manifest.backend {
                return Err(RunFault::OtherPlan.at(run));
            }
            return Session::open(run, &opening, found, worker, false);
        }
        Ok(Session { created, ..Session::open(run, &opening, manifest, worker, false)? })
    }

    /// Removes what [`Session::create`] created, for a run that could not be started: manifest,
    /// locks, and the directory if it is new. A run that has a record, or that other workers may
    /// join, stays.
    ///
    /// # Errors
    /// [`RunFault::Io`] when something cannot be removed.
    pub fn discard(self) -> Result<(), RunError> {
        let Session { run, worker, lock, created, .. } = self;
        let raw = run.join("raw");
        let is_empty = fs::read_dir(&raw).map_err(RunFault::io(&raw))?.next().is_none();
        if created == Created::Nothing || !worker.shard.is_whole() || !is_empty {
            return Ok(());
        }
        let opening = Opening::wait(&run)?;
        drop(lock);
        let (locks, manifest) = (run.join(LOCKS), Manifest::path(&run));
        fs::remove_dir(&raw).map_err(RunFault::io(&raw))?;
        fs::remove_file(&manifest).map_err(RunFault::io(&manifest))?;
        fs::remove_dir_all(&locks).map_err(RunFault::io(&locks))?;
        drop(opening);
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
    /// [`RunFault::NoManifest`], [`RunError::Manifest`] and [`RunFault::RecordedElsewhere`] when it
    /// cannot be resumed; [`RunFault::OtherPlan`], [`RunFault::OtherOrigin`]; [`RunError::Lock`];
    /// [`RunError::Plan`]; [`RunError::Write`].
    pub fn resume(
        run: &Path,
        grid: Option<&Grid>,
        worker: Worker,
        accept_driver: bool,
    ) -> Result<Session, RunError> {
        fs::metadata(run).map_err(RunFault::io(run))?;
        resumable(run)?; // before anything is created in a directory that may not be a run
        let opening = Opening::wait(run)?;
        let mut manifest = resumable(run)?;
        manifest.extended.iter().chain([&manifest.grid]).chain(grid).try_for_each(Grid::check)?;
        if manifest.backend.as_deref() != Some(worker.backend.as_str()) {
            return Err(RunFault::OtherPlan.at(run));
        }
        let plan = manifest.plan();
        let extension = grid.filter(|grid| grid.configs().any(|config| !plan.contains(&config)));
        manifest.extended.extend(extension.cloned());
        let extended = extension.is_some();
        let session = Session::open(run, &opening, manifest, worker, accept_driver)?;
        if extended {
            session.manifest.write(run)?;
        }
        Ok(session)
    }

    /// Checks the origin and claims the worker's part.
    fn open(
        run: &Path,
        opening: &Opening,
        manifest: Manifest,
        worker: Worker,
        accept_driver: bool,
    ) -> Result<Session, RunError> {
        match worker.origin.difference(&manifest.origin) {
            Some(difference) if !(accept_driver && difference.part == OriginPart::Driver) => {
                return Err(RunFault::OtherOrigin(difference).at(run));
            }
            _ => {}
        }
        create_folder(&run.join("raw"))?;
        let lock = opening.claim(worker.shard)?;
        Ok(Session { run: run.to_owned(), manifest, worker, lock, created: Created::Nothing })
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

    /// The path of a configuration's record.
    pub(crate) fn record_path(&self, config: Config) -> PathBuf {
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
                Err(error) if error.is_missing() => {}
                Err(error) if error.is_of_another_version() => return Err(error.into()),
                Err(error) => outstanding.damaged.push(error),
            }
            outstanding.configs.push(config);
        }
        Ok(outstanding)
    }

    /// How many configurations of other workers' parts of the plan have no record.
    pub fn left_to_others(&self) -> usize {
        let plan = self.manifest.plan();
        let mine: BTreeSet<Config> = plan::part(self.worker.shard, &plan).into_iter().collect();
        plan.difference(&mine).filter(|config| !self.record_path(**config).exists()).count()
    }
}

/// Whether a directory holds only what an interrupted [`Session::create`] may have left.
fn is_unused(run: &Path) -> Result<bool, RunError> {
    for entry in fs::read_dir(run).map_err(RunFault::io(run))? {
        let name = entry.map_err(RunFault::io(run))?.file_name();
        if !name.to_str().is_some_and(|name| name == LOCKS || name.starts_with(".flopgap-")) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// The manifest of a run that this program recorded.
fn resumable(run: &Path) -> Result<Manifest, RunError> {
    let manifest = Manifest::read(run)?.ok_or_else(|| RunFault::NoManifest.at(run))?;
    if manifest.backend.is_none() {
        return Err(RunFault::RecordedElsewhere.at(run));
    }
    Ok(manifest)
}

//! Opens traces: exports of Nsight Systems and traces of `torch.profiler`, also compressed with
//! gzip or Zstandard, and those of all ranks of a job as one recording. The content decides what a
//! file is, not its name. Traces of `torch.profiler` say of which rank of which job they are; those
//! of Nsight Systems are of one job where they were recorded at the same time. Clocks of ranks are
//! corrected where their collectives show that they differ.
//!
//! ```
//! use flopgap_answers::open;
//!
//! # let fixtures = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures");
//! let trace = open::open(format!("{fixtures}/nsys/small_forward.sqlite.zst"))?;
//! assert!(trace.nsys().is_some());
//!
//! // Two ranks of one job.
//! let ranks = ["ddp_rank0.json.gz", "ddp_rank1.json.gz"];
//! let traces = open::open_all(&ranks.map(|rank| format!("{fixtures}/kineto/{rank}")))?;
//! assert_eq!((traces.len(), traces[0].name().as_str()), (1, "ddp_rank0"));
//! # Ok::<(), flopgap_answers::Error>(())
//! ```

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::{fs, io};

use flopgap_files::{each_on_all_cores, present};
use flopgap_kernels::Classifier;
use flopgap_kineto::Job;
use flopgap_nsys::{Job as ExportsJob, Problem};
#[cfg(feature = "tables")]
use flopgap_table::Source;
use flopgap_table::{Export, Kind, Trace};
use flopgap_timings::clocks;
use flopgap_trace::{ClockCorrection, Recording};

use crate::error::Error;

/// An open trace, or those of all ranks of a job.
#[derive(Debug)]
pub struct Opened {
    path: PathBuf,
    trace: Trace,
    /// The exports that it consists of: they keep what was unpacked.
    exports: Vec<Export>,
}

/// Whether several traces of one profiler are the ranks of one job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Reading {
    /// As they say themselves, or else if they were recorded at the same time.
    #[default]
    AsRecorded,
    /// They are.
    Ranks,
    /// Each is a recording of its own.
    Apart,
}

/// Opens a trace, or a directory with those of all ranks of a job.
///
/// # Errors
/// When it is neither, or cannot be read or unpacked.
pub fn open(path: impl AsRef<Path>) -> Result<Opened, Error> {
    File::read(path.as_ref())?.alone()
}

/// Opens some traces. Those of several ranks of one job are one.
///
/// # Errors
/// As [`open()`].
pub fn open_all(paths: &[impl AsRef<Path> + Sync]) -> Result<Vec<Opened>, Error> {
    Ok(together(files(paths)?, Reading::AsRecorded)?.traces)
}

fn files(paths: &[impl AsRef<Path> + Sync]) -> Result<Vec<File>, Error> {
    each_on_all_cores(paths, |path| File::read(path.as_ref())).into_iter().collect()
}

/// A file that was read.
#[derive(Debug)]
pub enum File {
    /// A trace for itself, or a directory.
    Trace(Opened),
    /// A trace of `torch.profiler`, which may be of a rank of a job, and its file.
    Rank(PathBuf, Box<flopgap_kineto::Trace>),
}

impl File {
    /// Reads a file or directory.
    ///
    /// # Errors
    /// As [`open()`].
    pub fn read(path: &Path) -> Result<File, Error> {
        if path.is_dir() {
            return Directory::read(path)?.open().map(File::Trace);
        }
        // Pipes are not read: that could take forever.
        let kind = if path.is_file() { Kind::of(path).ok() } else { None };
        if kind == Some(Kind::Kineto) {
            let trace = flopgap_kineto::Trace::options().without_shapes(true).open(path)?;
            return Ok(File::Rank(path.to_owned(), Box::new(trace)));
        }
        if kind == Some(Kind::Nsys) {
            let export = Export::open(path)?;
            let trace = Trace::Nsys(export.trace().clone());
            return Ok(File::Trace(Opened { path: path.to_owned(), trace, exports: vec![export] }));
        }
        // Its reader says what it is instead.
        let trace = Trace::Nsys(Arc::new(flopgap_nsys::Trace::open(path)?));
        Ok(File::Trace(Opened { path: path.to_owned(), trace, exports: Vec::new() }))
    }

    /// The trace of this file alone.
    ///
    /// # Errors
    /// As [`open()`].
    pub fn alone(self) -> Result<Opened, Error> {
        match self {
            File::Trace(opened) => Ok(opened),
            File::Rank(path, trace) => Opened::of_ranks(path, vec![*trace]),
        }
    }
}

/// Traces of some files.
#[derive(Debug)]
pub struct Together {
    /// The traces; one of the ranks of a job is in the place of the first.
    pub traces: Vec<Opened>,
    /// Why it is not known whether exports of Nsight Systems are of one job; each is then a
    /// recording of its own.
    pub unknown: Option<flopgap_nsys::Error>,
}

/// The traces of some files.
///
/// # Errors
/// As [`open()`]; with [`Reading::Ranks`], when they cannot be those of one job.
pub fn together(files: Vec<File>, reading: Reading) -> Result<Together, Error> {
    let mut opened = Vec::new();
    let (mut places, mut ranks) = (Vec::new(), Vec::new());
    let (mut exports, mut unknown) = (Vec::new(), None);
    for (at, file) in files.into_iter().enumerate() {
        match file {
            File::Trace(trace) if trace.nsys().is_some() => exports.push((at, trace)),
            File::Trace(trace) => opened.push((at, trace)),
            File::Rank(path, trace) => {
                places.push((at, path));
                ranks.push(*trace);
            }
        }
    }
    let are_ranks = match reading {
        Reading::AsRecorded => ranks.len() > 1 && Job::require_one(&ranks).is_ok(),
        Reading::Ranks => ranks.len() > 1,
        Reading::Apart => false,
    };
    if are_ranks {
        let (at, path) = places.swap_remove(0);
        opened.push((at, Opened::of_ranks(path, ranks)?));
    } else {
        for ((at, path), trace) in places.into_iter().zip(ranks) {
            opened.push((at, Opened::of_ranks(path, vec![trace])?));
        }
    }
    let job = if exports.len() > 1 {
        let traces = exports.iter().filter_map(|(_, export)| export.export()).collect();
        match reading {
            Reading::AsRecorded => match ExportsJob::at_same_time(traces) {
                Ok(job) => job,
                Err(
                    reason @ (flopgap_nsys::Error::NoStartTime { .. }
                    | flopgap_nsys::Error::SameProcess { .. }),
                ) => {
                    unknown = Some(reason);
                    None
                }
                Err(error) => return Err(error.into()),
            },
            Reading::Ranks => Some(ExportsJob::of(traces)?),
            Reading::Apart => None,
        }
    } else {
        None
    };
    if let Some(job) = job {
        let at = exports[0].0;
        opened.push((at, Opened::of_exports(job, exports.into_iter().map(|(_, export)| export))?));
    } else {
        opened.extend(exports);
    }
    opened.sort_by_key(|(at, _)| *at);
    Ok(Together { traces: opened.into_iter().map(|(_, trace)| trace).collect(), unknown })
}

/// By how much the clocks of several recordings are to be corrected; nothing where none is.
fn corrections(job: &dyn Recording) -> Result<Option<Vec<ClockCorrection>>, Error> {
    Ok(present(clocks::corrections(job, &Classifier::new()))?.filter(|all| !all.is_empty()))
}

impl Opened {
    /// The trace of a source; nothing where it is none.
    #[cfg(feature = "tables")]
    pub fn of(source: &Source) -> Option<Opened> {
        let exports = source.export().cloned().into_iter().collect();
        Some(Opened { path: source.path().to_owned(), trace: source.trace()?, exports })
    }

    fn of_exports(mut job: ExportsJob, exports: impl Iterator<Item = Opened>) -> Result<Opened, Error> {
        let path = job.path().to_owned();
        let exports = exports.flat_map(|export| export.exports).collect();
        if let Some(corrections) = corrections(&job)? {
            job.correct(corrections);
        }
        Ok(Opened { path, trace: Trace::Exports(Arc::new(job)), exports })
    }

    fn of_ranks(path: PathBuf, traces: Vec<flopgap_kineto::Trace>) -> Result<Opened, Error> {
        Opened::of_job(path, Job::of(traces)?)
    }

    fn of_job(path: PathBuf, mut job: Job) -> Result<Opened, Error> {
        if job.processes().len() > 1
            && let Some(corrections) = corrections(&job)?
        {
            job.correct(corrections);
        }
        Ok(Opened { path, trace: Trace::Kineto(Arc::new(job)), exports: Vec::new() })
    }

    /// The same trace under the name of the file that it was made from.
    #[must_use]
    pub fn called(self, path: &Path) -> Opened {
        Opened { path: path.to_owned(), ..self }
    }

    /// The file; of several ranks, that of the first.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What distinguishes it from other traces: [`name_of`] its file.
    pub fn name(&self) -> String {
        name_of(&self.path)
    }

    /// Its name, and of how many ranks it is, where there are several.
    pub fn title(&self) -> String {
        match &self.trace {
            Trace::Kineto(job) if job.processes().len() > 1 => {
                format!("{} ({} ranks)", self.name(), job.processes().len())
            }
            Trace::Exports(job) => format!("{} ({} exports)", self.name(), job.traces().len()),
            _ => self.name(),
        }
    }

    /// The trace.
    pub fn trace(&self) -> &Trace {
        &self.trace
    }

    /// What all traces answer.
    pub fn recording(&self) -> &dyn Recording {
        self.trace.recording()
    }

    /// The export of Nsight Systems, if it is one alone.
    pub fn nsys(&self) -> Option<&flopgap_nsys::Trace> {
        self.trace.nsys()
    }

    /// The exports of Nsight Systems that it consists of.
    pub fn exports(&self) -> Vec<&flopgap_nsys::Trace> {
        match &self.trace {
            Trace::Nsys(trace) => vec![trace],
            Trace::Exports(job) => job.traces().map(|trace| &**trace).collect(),
            Trace::Kineto(_) => Vec::new(),
        }
    }

    fn export(&self) -> Option<Arc<flopgap_nsys::Trace>> {
        if let Trace::Nsys(trace) = &self.trace { Some(trace.clone()) } else { None }
    }

    /// The file as tables, where it is an export of Nsight Systems alone; it is not unpacked again.
    #[cfg(feature = "tables")]
    pub fn source(&self) -> Option<Source> {
        if let [export] = self.exports.as_slice() { Some(export.clone().into()) } else { None }
    }

    /// The problems that nsys itself reported about the recording.
    ///
    /// # Errors
    /// When an export cannot be read.
    pub fn problems(&self) -> Result<Vec<Problem>, Error> {
        let exports = self.exports();
        let problems = exports.into_iter().map(flopgap_nsys::Trace::problems);
        Ok(problems.collect::<Result<Vec<_>, _>>()?.concat())
    }

    /// What was odd in what was read so far, each with the name of its file.
    pub fn warnings(&self) -> Vec<String> {
        match &self.trace {
            Trace::Nsys(_) | Trace::Exports(_) => {
                let of = |trace: &flopgap_nsys::Trace| {
                    let path = trace.path().display().to_string();
                    trace.warnings().into_iter().map(move |warning| format!("{path}: {warning}"))
                };
                self.exports().into_iter().flat_map(of).collect()
            }
            Trace::Kineto(job) => {
                let processes = job.processes().iter().flat_map(|process| {
                    process.warnings.iter().map(|warning| format!("{}: {warning}", process.path.display()))
                });
                processes.collect()
            }
        }
    }
}

/// A directory with the traces of a job.
#[derive(Clone, Debug)]
pub struct Directory {
    /// The directory.
    pub path: PathBuf,
    /// The traces of `torch.profiler` in it, or where there are none, the exports of Nsight
    /// Systems.
    pub traces: Vec<PathBuf>,
    /// What else is in it, and why it is not taken.
    pub others: Vec<(PathBuf, String)>,
    /// Whether its traces are exports of Nsight Systems.
    are_exports: bool,
}

impl Directory {
    /// Recognizes what is in a directory, but not in the directories in it.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn read(path: &Path) -> Result<Directory, Error> {
        let io = |source: io::Error| Error::Table(flopgap_table::Error::Io { path: path.to_owned(), source });
        let entries = fs::read_dir(path).map_err(io)?.map(|entry| entry.map(|entry| entry.path()));
        let mut entries = entries.collect::<Result<Vec<PathBuf>, _>>().map_err(io)?;
        entries.sort();
        let (mut traces, mut others) = (Vec::new(), Vec::new());
        let mut exports = Vec::new();
        for path in entries {
            match Kind::of(&path) {
                Ok(Kind::Kineto) => traces.push(path),
                Ok(Kind::Nsys) => exports.push(path),
                _ if path.is_dir() => {
                    others.push((path, "a directory, which is not searched".to_owned()));
                }
                found => others.push((path, not_taken(found))),
            }
        }
        let are_exports = traces.is_empty() && !exports.is_empty();
        if are_exports {
            traces = exports;
        } else {
            let beside = || "an export of Nsight Systems, beside traces of torch.profiler".to_owned();
            others.extend(exports.into_iter().map(|path| (path, beside())));
        }
        Ok(Directory { path: path.to_owned(), traces, others, are_exports })
    }

    /// Opens its traces as one.
    ///
    /// # Errors
    /// [`Error::NoTraces`], [`Error::NotOneJob`], or when a trace cannot be read.
    pub fn open(&self) -> Result<Opened, Error> {
        let path = self.path.clone();
        if self.traces.is_empty() {
            return Err(Error::NoTraces { path });
        }
        let not_one =
            |reason: String| Error::NotOneJob { path: path.clone(), traces: self.traces.len(), reason };
        if self.are_exports {
            let Together { mut traces, unknown } = together(files(&self.traces)?, Reading::AsRecorded)?;
            return match (traces.pop().filter(|_| traces.is_empty()), unknown) {
                (Some(opened), _) => Ok(Opened { path, ..opened }),
                (None, Some(reason)) => Err(not_one(reason.to_string())),
                (None, None) => Err(not_one("they were recorded at different times".to_owned())),
            };
        }
        match Job::open(&self.traces) {
            Ok(job) => Opened::of_job(path, job),
            Err(reason @ flopgap_kineto::Error::NotOneJob { .. }) => Err(not_one(reason.to_string())),
            Err(error) => Err(error.into()),
        }
    }
}

/// Why a file is none of the traces of a directory, where it was recognized as this.
pub fn not_taken(found: Result<Kind, flopgap_table::Error>) -> String {
    match found {
        Ok(kind) => format!("{}, which is no trace", kind.in_words()),
        Err(flopgap_table::Error::Unrecognized { what, .. }) => format!("not recognized: {what}"),
        Err(flopgap_table::Error::Io { source, .. }) => source.to_string(),
        Err(error) => error.to_string(),
    }
}

/// The name that distinguishes a trace from others: that of its file without endings.
///
/// ```
/// use std::path::Path;
///
/// use flopgap_answers::open::name_of;
///
/// assert_eq!(name_of(Path::new("runs/rank0.pt.trace.json.gz")), "rank0");
/// ```
pub fn name_of(path: &Path) -> String {
    let name = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy();
    // `rank0.pt.trace.json.gz` has more endings than a path knows.
    let mut stem = name.as_ref();
    for ending in [".gz", ".zst", ".sqlite", ".json", ".trace", ".pt"] {
        stem = stem.strip_suffix(ending).filter(|stem| !stem.is_empty()).unwrap_or(stem);
    }
    if stem.len() < name.len() {
        return stem.to_owned();
    }
    path.file_stem().unwrap_or(path.as_os_str()).to_string_lossy().into_owned()
}

//! Opens traces: exports of Nsight Systems and traces of `torch.profiler`, also compressed with
//! gzip or Zstandard, and those of all ranks of a job as one recording. The content decides what a
//! file is, not its name.
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

use flopgap_kineto::Job;
use flopgap_nsys::Problem;
use flopgap_table::{Kind, Source, Trace};
use flopgap_trace::Recording;

use crate::error::Error;

/// An open trace, or those of all ranks of a job.
#[derive(Debug)]
pub struct Opened {
    path: PathBuf,
    trace: Trace,
    /// The file as tables; it also keeps what was unpacked.
    source: Option<Source>,
}

/// Opens a trace, or a directory with those of all ranks of a job.
///
/// # Errors
/// When it is neither, or cannot be read or unpacked.
pub fn open(path: impl AsRef<Path>) -> Result<Opened, Error> {
    File::read(path.as_ref())?.alone()
}

/// Opens some traces. Those of `torch.profiler` that are of several ranks of one job are one.
///
/// # Errors
/// As [`open()`].
pub fn open_all(paths: &[impl AsRef<Path>]) -> Result<Vec<Opened>, Error> {
    let files: Result<Vec<File>, Error> = paths.iter().map(|path| File::read(path.as_ref())).collect();
    together(files?)
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
        if kind == Some(Kind::Nsys)
            && let Some(opened) = Opened::of(Source::open(path)?)
        {
            return Ok(File::Trace(opened));
        }
        // Its reader says what it is instead.
        let trace = Trace::Nsys(Arc::new(flopgap_nsys::Trace::open(path)?));
        Ok(File::Trace(Opened { path: path.to_owned(), trace, source: None }))
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

/// The traces of some files. Ranks of one job become one trace, in the place of the first.
///
/// # Errors
/// As [`open()`].
pub fn together(files: Vec<File>) -> Result<Vec<Opened>, Error> {
    let mut opened = Vec::new();
    let (mut places, mut ranks) = (Vec::new(), Vec::new());
    for (at, file) in files.into_iter().enumerate() {
        match file {
            File::Trace(trace) => opened.push((at, trace)),
            File::Rank(path, trace) => {
                places.push((at, path));
                ranks.push(*trace);
            }
        }
    }
    if ranks.len() > 1 && Job::require_one(&ranks).is_ok() {
        let (at, path) = places.swap_remove(0);
        opened.push((at, Opened::of_ranks(path, ranks)?));
    } else {
        for ((at, path), trace) in places.into_iter().zip(ranks) {
            opened.push((at, Opened::of_ranks(path, vec![trace])?));
        }
    }
    opened.sort_by_key(|(at, _)| *at);
    Ok(opened.into_iter().map(|(_, trace)| trace).collect())
}

impl Opened {
    /// The trace of a source; nothing where it is none.
    pub fn of(source: Source) -> Option<Opened> {
        Some(Opened { path: source.path().to_owned(), trace: source.trace()?, source: Some(source) })
    }

    fn of_ranks(path: PathBuf, traces: Vec<flopgap_kineto::Trace>) -> Result<Opened, Error> {
        Ok(Opened { path, trace: Trace::Kineto(Arc::new(Job::of(traces)?)), source: None })
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

    /// The export of Nsight Systems, if it is one.
    pub fn nsys(&self) -> Option<&flopgap_nsys::Trace> {
        self.trace.nsys()
    }

    /// The file as tables, where it was opened as such: an export of Nsight Systems.
    pub fn source(&self) -> Option<&Source> {
        self.source.as_ref()
    }

    /// The problems that nsys itself reported about the recording.
    ///
    /// # Errors
    /// When the export cannot be read.
    pub fn problems(&self) -> Result<Vec<Problem>, Error> {
        Ok(self.nsys().map(flopgap_nsys::Trace::problems).transpose()?.unwrap_or_default())
    }

    /// What was odd in what was read so far, each with the name of its file.
    pub fn warnings(&self) -> Vec<String> {
        match &self.trace {
            Trace::Nsys(trace) => {
                let of = |warning| format!("{}: {warning}", trace.path().display());
                trace.warnings().iter().map(of).collect()
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
    /// The traces of `torch.profiler` in it.
    pub traces: Vec<PathBuf>,
    /// What else is in it, and why it is not taken.
    pub others: Vec<(PathBuf, String)>,
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
        let mut directory = Directory { path: path.to_owned(), traces: Vec::new(), others: Vec::new() };
        for path in entries {
            match Kind::of(&path) {
                Ok(Kind::Kineto) => directory.traces.push(path),
                _ if path.is_dir() => {
                    directory.others.push((path, "a directory, which is not searched".to_owned()));
                }
                found => directory.others.push((path, not_taken(found))),
            }
        }
        Ok(directory)
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
        match Job::open(&self.traces) {
            Ok(job) => Ok(Opened { path, trace: Trace::Kineto(Arc::new(job)), source: None }),
            Err(reason @ flopgap_kineto::Error::NotOneJob { .. }) => {
                Err(Error::NotOneJob { path, traces: self.traces.len(), reason })
            }
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

//! Opening a trace: an export of nsys, which may be compressed, with `--export` a recording that
//! nsys exports first, or traces of `torch.profiler`.

use std::borrow::Cow;
use std::env;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError};

use clap::ValueEnum;
use flopgap_cli::{Console, Exit, Failure};
use flopgap_kineto::{Job, Trace};
use flopgap_nsys::{Error, Trace as Export};
use flopgap_table::Kind;
use flopgap_trace::Recording;
use tempfile::TempDir;

use crate::capture::find;
use crate::unpacking::{Unpacked, unpack};
use crate::{PROGRAM, failure};

/// Where the export of a recording goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ExportTo {
    /// A folder that is removed at the end.
    Temporary,
    /// The recording's folder, where it stays: `TRACE.sqlite` beside `TRACE.nsys-rep`.
    Beside,
}

/// Opens the traces of a run, and removes what it exported into temporary directories when it is
/// dropped.
pub(crate) struct Opener {
    console: Console,
    /// What `--export` said.
    export: Option<ExportTo>,
    temporary: Mutex<Vec<TempDir>>,
    /// The compressed exports that were unpacked: each once, although it may be opened twice.
    unpacked: Mutex<Vec<Unpacked>>,
}

impl Opener {
    pub(crate) fn new(export: Option<ExportTo>, console: Console) -> Self {
        Opener { console, export, temporary: Mutex::default(), unpacked: Mutex::default() }
    }

    /// Where messages go.
    pub(crate) fn console(&self) -> Console {
        self.console
    }

    /// Opens a trace, and shows what nsys itself reported about its recording, before any answer or
    /// guess. A folder of `torch.profiler` traces is one job.
    pub(crate) fn open(&self, path: &Path) -> Result<Opened, Failure> {
        let opened = self.open_again(path)?;
        if let Opened::Nsys(trace) = &opened {
            show_problems(trace)?;
        }
        Ok(opened)
    }

    /// Opens a trace that [`Opener::open`] has opened before: what nsys reported was shown then.
    pub(crate) fn open_again(&self, path: &Path) -> Result<Opened, Failure> {
        if path.is_dir() {
            let what = format!("{}: directory of traces of torch.profiler, opened", path.display());
            return self.console.timed(what, || job_of(path, self.console)).map(Opened::Kineto);
        }
        if is_kineto(path) {
            let what = format!("{}: trace of torch.profiler, read", path.display());
            let job = self.console.timed(what, || Job::open(&[path])).map_err(|error| Failure::of(&error))?;
            return Ok(Opened::Kineto(job));
        }
        self.open_export(path).map(Opened::Nsys)
    }

    /// Opens some traces. Those of `torch.profiler` that are of several ranks of one job are one.
    pub(crate) fn open_jobs(&self, paths: &[PathBuf]) -> Result<Vec<(PathBuf, Opened)>, Failure> {
        self.open_each(paths, Opener::open)
    }

    fn open_each(
        &self,
        paths: &[PathBuf],
        open: fn(&Opener, &Path) -> Result<Opened, Failure>,
    ) -> Result<Vec<(PathBuf, Opened)>, Failure> {
        let mut found: Vec<(PathBuf, Opened)> = Vec::new();
        let mut ranks: Vec<(PathBuf, Trace)> = Vec::new();
        for path in paths {
            if path.is_dir() || !is_kineto(path) {
                found.push((path.clone(), open(self, path)?));
                continue;
            }
            let what = format!("{}: trace of torch.profiler, read", path.display());
            let trace = self.console.timed(what, || Trace::options().without_shapes(true).open(path));
            ranks.push((path.clone(), trace.map_err(|error| Failure::of(&error))?));
        }
        let (given, traces): (Vec<PathBuf>, Vec<Trace>) = ranks.into_iter().unzip();
        if traces.len() > 1 && Job::require_one(&traces).is_ok() {
            let path = given.first().cloned().unwrap_or_default();
            found.push((path, Opened::Kineto(Job::of(traces).map_err(|error| Failure::of(&error))?)));
        } else {
            for (path, trace) in given.into_iter().zip(traces) {
                found
                    .push((path, Opened::Kineto(Job::of(vec![trace]).map_err(|error| Failure::of(&error))?)));
            }
        }
        // In the order in which they were given.
        found.sort_by_key(|(path, _)| paths.iter().position(|given| given == path));
        Ok(found)
    }

    /// [`Opener::open_jobs`] without messages.
    pub(crate) fn open_quietly(&self, paths: &[PathBuf]) -> Result<Vec<(PathBuf, Opened)>, Failure> {
        self.open_each(paths, Opener::open_again)
    }

    /// Opens an export of nsys for what only such an export answers.
    pub(crate) fn open_nsys(&self, path: &Path, what: &str) -> Result<Export, Failure> {
        if path.is_dir() || is_kineto(path) {
            let message =
                format!("{}: a trace of torch.profiler, and {what} are of exports of nsys", path.display());
            return Err(Failure::new(message)
                .hint("`passes`, `kernels`, `compare`, `attention`, `diff`, `summary` and `batch` take such traces")
                .exit(Exit::Absent));
        }
        let trace = self.open_export(path)?;
        show_problems(&trace)?;
        Ok(trace)
    }

    fn open_export(&self, path: &Path) -> Result<Export, Failure> {
        let file = self.unpack(path)?;
        let what = format!("{}: export of Nsight Systems, opened", path.display());
        let opened = self.console.timed(what, || Export::open_unpacked(&file, path));
        match (opened, self.export) {
            (Ok(trace), _) => Ok(trace),
            (Err(Error::NotExported { .. }), Some(to)) => {
                let exported = self.export(path, to)?;
                Export::open(&exported).map_err(|error| failure(&error))
            }
            (Err(error @ Error::NotExported { .. }), None) => Err(Failure::from_error(&error).hint(
                "add --export where nsys is installed, or export it first: \
                 `nsys export --type sqlite --output TRACE.sqlite TRACE.nsys-rep`",
            )),
            (Err(error), _) => Err(failure(&error)),
        }
    }

    /// Unpacks a compressed export; the file that holds it then. Other files are opened as they
    /// are.
    fn unpack<'a>(&self, path: &'a Path) -> Result<Cow<'a, Path>, Failure> {
        let mut unpacked = self.unpacked.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(unpacked) = unpacked.iter().find(|unpacked| unpacked.packed == path) {
            return Ok(Cow::Owned(unpacked.export.clone()));
        }
        let what = format!("{}: looked for compression", path.display());
        let found = self.console.timed(what, || unpack(path)).map_err(|error| {
            let failure = Failure::new(format!(
                "{}: cannot be unpacked in {}: {error}",
                path.display(),
                env::temp_dir().display()
            ));
            match error.kind() {
                io::ErrorKind::FileTooLarge => failure.hint(flopgap_unpack::HINT),
                _ => failure.hint("decompress the file yourself and pass the result"),
            }
        })?;
        Ok(match found {
            Some(found) => {
                let export = found.export.clone();
                unpacked.push(found);
                Cow::Owned(export)
            }
            None => Cow::Borrowed(path),
        })
    }

    /// Exports a recording; the file that holds it then.
    fn export(&self, recording: &Path, to: ExportTo) -> Result<PathBuf, Failure> {
        let nsys = find::nsys(env::var_os("PATH").as_deref(), Path::new("/")).map_err(|searched| {
            let message =
                format!("{}: nsys is not on this machine, so it cannot be exported", recording.display());
            Failure::new(message).hint(format!("searched: {}", searched.join(", "))).exit(Exit::Absent)
        })?;
        let beside = recording.with_extension("sqlite");
        let output = match to {
            ExportTo::Beside if beside.exists() => {
                let message = format!("{} exists already", beside.display());
                return Err(Failure::new(message).hint("give that file, or move it away to export again"));
            }
            ExportTo::Beside => beside,
            ExportTo::Temporary => {
                let folder = tempfile::tempdir().map_err(|error| {
                    Failure::new(format!(
                        "{}: no temporary folder for the export: {error}",
                        env::temp_dir().display()
                    ))
                    .hint("set TMPDIR, or use --export=beside")
                })?;
                // The name is that of the recording: it is what reports show and files are called.
                let output = folder.path().join(beside.file_name().unwrap_or_default());
                self.temporary.lock().unwrap_or_else(PoisonError::into_inner).push(folder);
                output
            }
        };
        self.console.note(format_args!("exporting {} with {}", recording.display(), nsys.display()));
        let run = Command::new(&nsys)
            .args(["export", "--type=sqlite", "--output"])
            .args([&output, recording])
            // What it prints is progress; standard output is for results.
            .stdout(Stdio::from(io::stderr()))
            .status()
            .map_err(|error| Failure::new(format!("{}: {error}", nsys.display())))?;
        if run.success() && output.exists() {
            return Ok(output);
        }
        let message = format!("{}: nsys did not export it ({run})", recording.display());
        Err(Failure::new(message)
            .hint("what it said is above; a recording needs an nsys that is not older than it"))
    }
}

/// A trace, by whichever profiler.
pub(crate) enum Opened {
    /// An export of nsys.
    Nsys(Export),
    /// A trace of `torch.profiler`, or those of all ranks of a job.
    Kineto(Job),
}

impl Opened {
    /// What all traces answer.
    pub(crate) fn recording(&self) -> &dyn Recording {
        match self {
            Opened::Nsys(trace) => trace,
            Opened::Kineto(job) => job,
        }
    }

    /// The export, for what only that holds.
    pub(crate) fn nsys(&self) -> Option<&Export> {
        match self {
            Opened::Nsys(trace) => Some(trace),
            Opened::Kineto(_) => None,
        }
    }

    /// What was odd in it, each with the name of its file.
    pub(crate) fn warnings(&self) -> Vec<String> {
        match self {
            Opened::Nsys(trace) => {
                let of = |warning| format!("{}: {warning}", trace.path().display());
                trace.warnings().iter().map(of).collect()
            }
            Opened::Kineto(job) => {
                let processes = job.processes().iter().flat_map(|process| {
                    process.warnings.iter().map(|warning| format!("{}: {warning}", process.path.display()))
                });
                processes.collect()
            }
        }
    }

    /// Shows what was odd in it.
    pub(crate) fn warn_all(&self) {
        for warning in self.warnings() {
            flopgap_cli::warn(PROGRAM, warning);
        }
    }
}

fn show_problems(trace: &Export) -> Result<(), Failure> {
    let problems = trace.problems().map_err(|error| failure(&error))?;
    flopgap_cli::warn_all(
        PROGRAM,
        problems.iter().map(|problem| format!("{}: {problem}", trace.path().display())),
    );
    Ok(())
}

/// Whether a file is a trace of `torch.profiler` or the like, by its content. What is neither that
/// nor an export is reported by the reader of exports.
pub(crate) fn is_kineto(path: &Path) -> bool {
    path.is_file() && matches!(Kind::of(path), Ok(Kind::Kineto))
}

/// The traces of `torch.profiler` in a folder as one job. What else is in it is named.
fn job_of(folder: &Path, console: Console) -> Result<Job, Failure> {
    let io = |error: io::Error| Failure::new(format!("{}: {error}", folder.display()));
    let entries = std::fs::read_dir(folder).map_err(io)?;
    let mut entries: Vec<PathBuf> =
        entries.map(|entry| entry.map(|entry| entry.path())).collect::<Result<_, _>>().map_err(io)?;
    entries.sort();
    let mut paths = Vec::new();
    for path in entries {
        let why = match Kind::of(&path) {
            Ok(Kind::Kineto) => {
                paths.push(path);
                continue;
            }
            _ if path.is_dir() => "a directory, which is not searched".to_owned(),
            found => not_taken(found),
        };
        console.note(format_args!("SKIPPED: {}: {why}", path.display()));
    }
    let each = "`flopgap nsys batch` takes a directory of traces, each for itself";
    if paths.is_empty() {
        let message = format!("{}: no trace of torch.profiler is in this directory", folder.display());
        return Err(Failure::new(message).hint(each).exit(Exit::Absent));
    }
    Job::open(&paths).map_err(|error| match error {
        error @ flopgap_kineto::Error::NotOneJob { .. } => {
            let message =
                format!("{}: {} traces, and not those of one job: {error}", folder.display(), paths.len());
            Failure::new(message).hint(each).exit(Exit::Usage)
        }
        error => Failure::of(&error),
    })
}

/// Why a file is none of the traces of a folder.
pub(crate) fn not_taken(found: Result<Kind, flopgap_table::Error>) -> String {
    match found {
        Ok(kind) => format!("{}, which is no trace", kind.in_words()),
        Err(flopgap_table::Error::Unrecognized { what, .. }) => format!("not recognized: {what}"),
        Err(flopgap_table::Error::Io { source, .. }) => source.to_string(),
        Err(error) => error.to_string(),
    }
}

//! Opening a trace, or with `--export` a recording that nsys exports first, with messages.

use std::env;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use clap::ValueEnum;
use flopgap_answers::open::{self, Directory, File, Reading, Together};
use flopgap_answers::{Error, Opened};
use flopgap_cli::{Console, Exit, Failure};
use flopgap_files::each_on_all_cores;
use flopgap_nsys::Error as NsysError;
use flopgap_table::{Kind, Trace};
use tempfile::TempDir;

use crate::{PROGRAM, failure, find, of_nsys};

/// Where the export of a recording goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ExportTo {
    /// A folder that is removed at the end.
    Temporary,
    /// The recording's folder, where it stays: `TRACE.sqlite` beside `TRACE.nsys-rep`.
    Beside,
}

/// Whether several traces are the ranks of one job.
#[derive(Clone, Copy, Debug, Default, clap::Args)]
pub(crate) struct ReadAs {
    /// Read several traces as the ranks of one job, or each as a recording of its own [default:
    /// what traces of `torch.profiler` say; exports are ranks where their GPU work ran at the same
    /// time].
    #[arg(long, value_enum, value_name = "WHAT")]
    read_as: Option<Separate>,
}

/// What several traces are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Separate {
    /// The ranks of one job.
    Ranks,
    /// A recording of its own each.
    Recordings,
}

/// A file that was read, what it is, and how long that took.
struct Read {
    file: File,
    what: &'static str,
    seconds: f64,
}

/// Opens the traces of a run, and removes what it exported into temporary directories when it is
/// dropped.
pub(crate) struct Opener {
    console: Console,
    /// What `--export` said.
    export: Option<ExportTo>,
    temporary: Mutex<Vec<TempDir>>,
}

impl Opener {
    pub(crate) fn new(export: Option<ExportTo>, console: Console) -> Self {
        Opener { console, export, temporary: Mutex::default() }
    }

    /// Where messages go.
    pub(crate) fn console(&self) -> Console {
        self.console
    }

    /// Opens a trace, and shows what nsys itself reported about its recording, before any answer or
    /// guess. A folder of `torch.profiler` traces is one job.
    pub(crate) fn open(&self, path: &Path) -> Result<Opened, Failure> {
        self.shown(path, self.read(path)?)?.alone().map_err(|error| failure(&error))
    }

    /// Opens some traces. Those of several ranks of one job are one.
    pub(crate) fn open_jobs(&self, paths: &[PathBuf], read_as: ReadAs) -> Result<Vec<Opened>, Failure> {
        let read = each_on_all_cores(paths, |path| self.read(path));
        let files = paths.iter().zip(read).map(|(path, read)| self.shown(path, read?));
        let files: Result<Vec<File>, Failure> = files.collect();
        let reading = match read_as.read_as {
            None => Reading::AsRecorded,
            Some(Separate::Ranks) => Reading::Ranks,
            Some(Separate::Recordings) => Reading::Apart,
        };
        let Together { traces, unknown } =
            open::together(files?, reading).map_err(|error| failure(&error))?;
        if let Some(reason) = unknown {
            let assumed = "each is read as a recording of its own, and not as a rank of one job";
            self.console.note(format_args!("ASSUMED: {assumed}: {reason}"));
        }
        Ok(traces)
    }

    /// Opens an export of nsys for what only such an export answers.
    pub(crate) fn open_nsys(
        &self,
        path: &Path,
        what: &str,
    ) -> Result<(Arc<flopgap_nsys::Trace>, Opened), Failure> {
        let refused = || {
            let message =
                format!("{}: a trace of torch.profiler, and {what} are of exports of nsys", path.display());
            Failure::new(message)
                .hint("`passes`, `kernels`, `compare`, `attention`, `diff`, `summary` and `batch` take such traces")
                .exit(Exit::Absent)
        };
        if path.is_dir() || is_kineto(path) {
            return Err(refused());
        }
        let opened = self.open(path)?;
        match opened.trace() {
            Trace::Nsys(trace) => Ok((trace.clone(), opened)),
            Trace::Exports(_) | Trace::Kineto(_) => Err(refused()),
        }
    }

    fn read(&self, path: &Path) -> Result<Read, Failure> {
        let start = Instant::now();
        let (file, what) = if path.is_dir() {
            (self.directory(path).map(File::Trace)?, "directory of traces, opened")
        } else {
            match self.file(path)? {
                file @ File::Rank(..) => (file, "trace of torch.profiler, read"),
                file @ File::Trace(_) => (file, "export of Nsight Systems, opened"),
            }
        };
        Ok(Read { file, what, seconds: start.elapsed().as_secs_f64() })
    }

    /// Shows what nsys itself reported about the recording of a file that was read.
    fn shown(&self, path: &Path, Read { file, what, seconds }: Read) -> Result<File, Failure> {
        self.console.detail(format_args!("{}: {what}: {seconds:.3} s", path.display()));
        if let File::Trace(opened) = &file {
            show_problems(opened)?;
        }
        Ok(file)
    }

    /// The traces in a folder as one job. What else is in it is named.
    fn directory(&self, path: &Path) -> Result<Opened, Failure> {
        let directory = Directory::read(path).map_err(|error| failure(&error))?;
        for (path, why) in &directory.others {
            self.console.note(format_args!("SKIPPED: {}: {why}", path.display()));
        }
        directory.open().map_err(|error| failure(&error))
    }

    fn file(&self, path: &Path) -> Result<File, Failure> {
        match (File::read(path), self.export) {
            (Err(Error::Nsys(NsysError::NotExported { .. })), Some(to)) => {
                let exported = open::open(self.export(path, to)?).map_err(|error| failure(&error))?;
                Ok(File::Trace(exported.called(path)))
            }
            (Err(Error::Nsys(error @ NsysError::NotExported { .. })), None) => {
                Err(Failure::from_error(&error).hint(
                    "add --export where nsys is installed, or export it first: \
                     `nsys export --type sqlite --output TRACE.sqlite TRACE.nsys-rep`",
                ))
            }
            (read, _) => read.map_err(|error| failure(&error)),
        }
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

/// Shows what was odd in what was read of a trace.
pub(crate) fn warn_all(trace: &Opened) {
    for warning in trace.warnings() {
        flopgap_cli::warn(PROGRAM, warning);
    }
}

fn show_problems(trace: &Opened) -> Result<(), Failure> {
    for export in trace.exports() {
        let problems = export.problems().map_err(|error| of_nsys(&error))?;
        let path = export.path().display();
        flopgap_cli::warn_all(PROGRAM, problems.iter().map(|problem| format!("{path}: {problem}")));
    }
    Ok(())
}

/// Whether a file is a trace of `torch.profiler` or the like, by its content. What is neither that
/// nor an export is reported by the reader of exports.
pub(crate) fn is_kineto(path: &Path) -> bool {
    path.is_file() && matches!(Kind::of(path), Ok(Kind::Kineto))
}

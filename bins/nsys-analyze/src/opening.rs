//! Opening a trace: an export, which may be compressed, or with `--export` a recording that nsys exports first.

use std::borrow::Cow;
use std::env;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError};

use clap::ValueEnum;
use flopgap_cli::{Exit, Failure};
use flopgap_nsys::{Error, Trace};
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
#[derive(Default)]
pub(crate) struct Opener {
    /// What `--export` said.
    export: Option<ExportTo>,
    temporary: Mutex<Vec<TempDir>>,
    /// The compressed exports that were unpacked: each once, although it may be opened twice.
    unpacked: Mutex<Vec<Unpacked>>,
}

impl Opener {
    pub(crate) fn new(export: Option<ExportTo>) -> Self {
        Opener { export, temporary: Mutex::default(), unpacked: Mutex::default() }
    }

    /// Opens a trace and shows what nsys itself reported about its recording, before any answer or
    /// guess.
    pub(crate) fn open(&self, path: &Path) -> Result<Trace, Failure> {
        let trace = self.open_again(path)?;
        let problems = trace.problems().map_err(|error| failure(&error))?;
        flopgap_cli::warn_all(
            PROGRAM,
            problems.iter().map(|problem| format!("{}: {problem}", trace.path().display())),
        );
        Ok(trace)
    }

    /// Opens a trace that [`Opener::open`] has opened before: what nsys reported was shown then.
    pub(crate) fn open_again(&self, path: &Path) -> Result<Trace, Failure> {
        let file = self.unpack(path)?;
        match (Trace::open_unpacked(&file, path), self.export) {
            (Ok(trace), _) => Ok(trace),
            (Err(Error::NotExported { .. }), Some(to)) => {
                let exported = self.export(path, to)?;
                Trace::open(&exported).map_err(|error| failure(&error))
            }
            (Err(error @ Error::NotExported { .. }), None) => Err(Failure::from_error(&error).hint(
                "add --export where nsys is installed, or export it first: \
                 `nsys export --type sqlite --output TRACE.sqlite TRACE.nsys-rep`",
            )),
            (Err(error), _) if path.is_dir() => {
                Err(Failure::from_error(&error).hint("`nsys-analyze batch` takes a directory of traces"))
            }
            (Err(error), _) => Err(failure(&error)),
        }
    }

    /// Unpacks a compressed export; the file that holds it then. Other files are opened as they are.
    fn unpack<'a>(&self, path: &'a Path) -> Result<Cow<'a, Path>, Failure> {
        let mut unpacked = self.unpacked.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(unpacked) = unpacked.iter().find(|unpacked| unpacked.packed == path) {
            return Ok(Cow::Owned(unpacked.export.clone()));
        }
        let found = unpack(path).map_err(|error| {
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
        flopgap_cli::note(PROGRAM, format!("exporting {} with {}", recording.display(), nsys.display()));
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

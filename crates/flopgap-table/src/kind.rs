//! Recognizes what a file or directory is by its content.

use std::fmt;
use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;

use flopgap_phases::sweep::is_record;

use crate::Error;
use crate::decompressed::{Compression, reader};

/// What a file or directory is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Kind {
    /// A report of Nsight Compute: CSV of any layout, or `.ncu-rep`.
    Ncu,
    /// An export of Nsight Systems.
    Nsys,
    /// A recording of Nsight Systems that is to be exported first.
    Recording,
    /// A trace of `torch.profiler`.
    Kineto,
    /// A run directory of `hyper-profile`.
    Run,
    /// A record of one network in a run of `hyper-profile`.
    Record,
    /// Measured rows of `model-calibrate`, or the directory of its run.
    Calibration,
    /// Results of `mlp-bench`.
    Bench,
    /// A table that was written as a Parquet file.
    Parquet,
    /// A data set of `run-table`: a directory of Parquet files.
    DataSet,
}

/// The file of a calibration in its run directory.
const CALIBRATION: &str = "calibration.jsonl";

/// How many bytes are examined to recognize a file.
const HEAD: usize = 4096;

impl Kind {
    /// Recognizes a file or directory of any name, also if it is compressed with gzip or Zstandard,
    /// and reads little of it. [`Source::open`](crate::Source::open) opens most of them:
    /// recordings, records and data sets have programs of their own.
    ///
    /// # Errors
    /// [`Error::Unrecognized`] with what was found instead, and when it cannot be read.
    ///
    /// ```
    /// use flopgap_table::Kind;
    ///
    /// # let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/nsys/small_forward.sqlite.zst");
    /// assert_eq!(Kind::of(path)?, Kind::Nsys);
    /// # Ok::<(), flopgap_table::Error>(())
    /// ```
    pub fn of(path: impl AsRef<Path>) -> Result<Kind, Error> {
        let path = path.as_ref();
        match examine(path)?.0 {
            Some(Kind::Kineto) if is_record(path) => Ok(Kind::Record),
            // What begins as JSON need not be a trace.
            Some(Kind::Kineto) => {
                let io = |source| Error::Io { path: path.to_owned(), source };
                if flopgap_kineto::is_trace(path).map_err(io)? {
                    Ok(Kind::Kineto)
                } else {
                    unknown(path, "JSON")
                }
            }
            // Other files of flopgap begin with their format, too.
            Some(Kind::Calibration) if path.is_file() => {
                let io = |source| Error::Io { path: path.to_owned(), source };
                match first_entry(text_of(&head(path).map_err(io)?.0)) {
                    Some((_, b"flopgap-calibration")) => Ok(Kind::Calibration),
                    Some((_, format)) => {
                        unknown(path, &format!("JSON of the format {}", String::from_utf8_lossy(format)))
                    }
                    None => unknown(path, "JSON"),
                }
            }
            Some(kind) => Ok(kind),
            None => match require_report(path) {
                Ok(()) => Ok(Kind::Ncu),
                Err(Error::Nsys(flopgap_nsys::Error::NotExported { .. })) => Ok(Kind::Recording),
                // It is one; why nothing is in it is for its reader to say.
                Err(Error::Ncu(error)) if !matches!(error.what, flopgap_ncu::Fault::Io { .. }) => {
                    Ok(Kind::Ncu)
                }
                Err(error) => Err(error),
            },
        }
    }

    /// A short name: `ncu`, `nsys`, `recording`, `kineto`, `run`, `record`, `calibration`, `bench`,
    /// `parquet`, `data-set`.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Ncu => "ncu",
            Kind::Nsys => "nsys",
            Kind::Recording => "recording",
            Kind::Kineto => "kineto",
            Kind::Run => "run",
            Kind::Record => "record",
            Kind::Calibration => "calibration",
            Kind::Bench => "bench",
            Kind::Parquet => "parquet",
            Kind::DataSet => "data-set",
        }
    }

    /// A description for messages.
    pub fn in_words(self) -> &'static str {
        match self {
            Kind::Ncu => "a report of Nsight Compute",
            Kind::Nsys => "an export of Nsight Systems",
            Kind::Recording => "a recording of Nsight Systems",
            Kind::Kineto => "a trace of torch.profiler",
            Kind::Run => "a run directory",
            Kind::Record => "a record of flopgap profile",
            Kind::Calibration => "a calibration",
            Kind::Bench => "a document of flopgap bench",
            Kind::Parquet => "a Parquet file",
            Kind::DataSet => "a data set of flopgap table",
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// The kind as far as the first bytes tell it, and the compression. Nothing is left for a report of
/// Nsight Compute; any JSON that is nothing else is [`Kind::Kineto`].
pub(crate) fn examine(path: &Path) -> Result<(Option<Kind>, Option<Compression>), Error> {
    let io = |source| Error::Io { path: path.to_owned(), source };
    if path.metadata().map_err(io)?.is_dir() {
        return Ok((Some(of_directory(path)?), None));
    }
    let (head, compression) = head(path).map_err(io)?;
    let text = text_of(&head);
    let kind = if head.starts_with(b"PAR1") && compression.is_none() {
        Kind::Parquet
    } else if head.starts_with(b"SQLite format 3\0") {
        Kind::Nsys
    } else if first_key(text) == Some(b"format") && !is_record(path) {
        Kind::Calibration
    } else if first_key(text) == Some(b"device") && !is_record(path) {
        Kind::Bench
    } else if is_json(text) && !is_mixed_report(path) {
        Kind::Kineto
    } else {
        return Ok((None, compression));
    };
    Ok((Some(kind), compression))
}

fn of_directory(path: &Path) -> Result<Kind, Error> {
    if path.join("raw").is_dir() {
        Ok(Kind::Run)
    } else if path.join(CALIBRATION).is_file() {
        Ok(Kind::Calibration)
    } else if path.join("_runs").is_dir() {
        Ok(Kind::DataSet)
    } else {
        unknown(path, "a folder without raw/")
    }
}

fn unknown(path: &Path, what: &str) -> Result<Kind, Error> {
    Err(Error::Unrecognized { path: path.to_owned(), what: what.to_owned() })
}

/// Whether this is how a JSON object or array begins. The first line of a TOML file begins with a
/// bracket, too.
fn is_json(text: &[u8]) -> bool {
    let Some((first @ (b'{' | b'['), rest)) = text.split_first() else { return false };
    match rest.trim_ascii_start().first() {
        Some(b'"' | b'}') => *first == b'{',
        Some(next) => *first == b'[' && matches!(next, b'{' | b'[' | b']' | b'-' | b'0'..=b'9'),
        None => true,
    }
}

/// Whether what begins as JSON is the output of a program, before the report of ncu that it ran
/// under.
fn is_mixed_report(path: &Path) -> bool {
    flopgap_kineto::is_trace(path).is_ok_and(|is_trace| !is_trace) && require_report(path).is_ok()
}

/// Checks that what is nothing else is a report of Nsight Compute; the error says what it looks
/// like.
pub(crate) fn require_report(path: &Path) -> Result<(), Error> {
    let Err(error) = flopgap_ncu::Reader::open(path) else { return Ok(()) };
    Err(match error {
        flopgap_ncu::Error { path, what: flopgap_ncu::Fault::NotAReport { found }, .. } => {
            // The extension identifies a recording of nsys; the reader's error says how to export
            // it.
            let ending = path.extension().and_then(|ending| ending.to_str()).unwrap_or_default();
            if ["nsys-rep", "qdrep", "qdstrm"].contains(&ending) {
                Error::Nsys(flopgap_nsys::Error::NotExported { path })
            } else {
                Error::Unrecognized { path, what: found.to_string() }
            }
        }
        error => Error::Ncu(error),
    })
}

/// The name of the first entry of a JSON object.
fn first_key(text: &[u8]) -> Option<&[u8]> {
    let key = text.strip_prefix(b"{")?.trim_ascii_start().strip_prefix(b"\"")?;
    key.split(|&byte| byte == b'"').next()
}

/// The first entry of a JSON object, where its value is a text.
fn first_entry(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let key = first_key(text)?;
    let text = text.strip_prefix(b"{")?.trim_ascii_start().get(key.len() + 2..)?;
    let value = text.trim_ascii_start().strip_prefix(b":")?.trim_ascii_start().strip_prefix(b"\"")?;
    Some((key, value.split(|&byte| byte == b'"').next()?))
}

/// The first bytes of a file, unpacked, and its compression.
fn head(path: &Path) -> io::Result<(Vec<u8>, Option<Compression>)> {
    let mut head = Vec::with_capacity(HEAD);
    File::open(path)?.take(HEAD as u64).read_to_end(&mut head)?;
    let compression = Compression::of(&head);
    if let Some(compression) = compression {
        head.clear();
        // A file that ends within the head is reported by the reader of the whole file.
        let _ = reader(path, compression)?.take(HEAD as u64).read_to_end(&mut head);
    }
    Ok((head, compression))
}

/// How a file is compressed.
pub(crate) fn compression_of(path: &Path) -> Result<Option<Compression>, Error> {
    let mut begin = [0; 4];
    let read = File::open(path).and_then(|file| io::copy(&mut file.take(4), &mut begin.as_mut_slice()));
    read.map_err(|source| Error::Io { path: path.to_owned(), source })?;
    Ok(Compression::of(&begin))
}

/// Text without a byte order mark and the space before it.
fn text_of(head: &[u8]) -> &[u8] {
    head.strip_prefix(b"\xef\xbb\xbf").unwrap_or(head).trim_ascii_start()
}

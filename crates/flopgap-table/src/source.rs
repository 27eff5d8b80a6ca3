//! Sources, recognized by their content, and the tables in them.

use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;
use std::sync::Arc;

use crate::decompressed::{Compression, Unpacked, reader};
use crate::kineto::Kineto;
use crate::ncu::Ncu;
use crate::nsys::Nsys;
use crate::run::Run;
use crate::{Error, Table};

/// The kind of a source.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Kind {
    /// A report of Nsight Compute: CSV of any layout, or `.ncu-rep`.
    Ncu,
    /// An export of Nsight Systems.
    Nsys,
    /// A trace of `torch.profiler`.
    Kineto,
    /// A run directory of `hyper-profile`.
    Run,
}

impl Kind {
    /// A short name: `ncu`, `nsys`, `kineto`, `run`.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Ncu => "ncu",
            Kind::Nsys => "nsys",
            Kind::Kineto => "kineto",
            Kind::Run => "run",
        }
    }

    /// A description for messages.
    pub fn in_words(self) -> &'static str {
        match self {
            Kind::Ncu => "a report of Nsight Compute",
            Kind::Nsys => "an export of Nsight Systems",
            Kind::Kineto => "a trace of torch.profiler",
            Kind::Run => "a run directory",
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// A table of a source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TableInfo {
    /// Its name: `kernels`.
    pub name: &'static str,
    /// What a row is, as a sentence.
    pub about: &'static str,
}

/// A recorded file or directory. A clone is another view of the same.
///
/// ```
/// use flopgap_table::{Kind, Source};
///
/// # let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/nsys/small_forward.sqlite.zst");
/// let source = Source::open(path)?;
/// assert_eq!(source.kind(), Kind::Nsys);
/// let names: Vec<&str> = source.tables().iter().map(|table| table.name).collect();
/// assert_eq!(names[..3], ["kernels", "copies", "memsets"]);
/// # Ok::<(), flopgap_table::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Source {
    path: Arc<Path>,
    content: Content,
}

#[derive(Clone, Debug)]
enum Content {
    Ncu(Arc<Ncu>),
    Nsys(Arc<Nsys>),
    Kineto(Arc<Kineto>),
    Run(Arc<Run>),
}

/// How many bytes are examined to recognize a file.
const HEAD: usize = 4096;

impl Source {
    /// Opens a file or directory of any name. The content decides what it is, also if it is
    /// compressed with gzip or Zstandard.
    ///
    /// A compressed export of Nsight Systems is unpacked into a temporary file, and a trace of
    /// `torch.profiler` is read at once; everything else is read when a table is.
    ///
    /// # Errors
    /// [`Error::Unrecognized`] when it is nothing that can be read, and what its reader says when
    /// it is damaged or holds nothing.
    pub fn open(path: impl AsRef<Path>) -> Result<Source, Error> {
        let path: Arc<Path> = path.as_ref().into();
        let io = |source| Error::Io { path: path.to_path_buf(), source };
        let metadata = path.metadata().map_err(io)?;
        let content = if metadata.is_dir() {
            Content::Run(Arc::new(Run::open(&path)?))
        } else {
            let (head, compression) = head(&path).map_err(io)?;
            let text = text_of(&head);
            if head.starts_with(b"SQLite format 3\0") {
                let unpacked = compression.map(|compression| Unpacked::new(&path, compression));
                Content::Nsys(Arc::new(Nsys::open(&path, unpacked.transpose().map_err(io)?)?))
            } else if matches!(text.first(), Some(b'{' | b'[')) {
                Content::Kineto(Arc::new(Kineto::open(&path)?))
            } else {
                Content::Ncu(Arc::new(ncu(&path)?))
            }
        };
        Ok(Source { path, content })
    }

    /// The file or directory.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Its kind.
    pub fn kind(&self) -> Kind {
        match &self.content {
            Content::Ncu(_) => Kind::Ncu,
            Content::Nsys(_) => Kind::Nsys,
            Content::Kineto(_) => Kind::Kineto,
            Content::Run(_) => Kind::Run,
        }
    }

    /// Its tables.
    pub fn tables(&self) -> Vec<TableInfo> {
        match &self.content {
            Content::Ncu(_) => crate::ncu::TABLES.to_vec(),
            Content::Nsys(nsys) => nsys.tables(),
            Content::Kineto(kineto) => kineto.tables(),
            Content::Run(run) => run.tables(),
        }
    }

    /// A table by its name.
    ///
    /// # Errors
    /// [`Error::NoSuchTable`]; when what the table would hold was not recorded; for reports of
    /// Nsight Compute, whose columns are known when all of it was read, what is damaged in it.
    pub fn table(&self, name: &str) -> Result<Table, Error> {
        let table = match &self.content {
            Content::Ncu(ncu) => ncu.table(&self.path, name)?,
            Content::Nsys(nsys) => nsys.table(&self.path, name)?,
            Content::Kineto(kineto) => kineto.table(&self.path, name),
            Content::Run(run) => run.table(&self.path, name)?,
        };
        table.ok_or_else(|| {
            let names: Vec<&str> = self.tables().iter().map(|table| table.name).collect();
            let (path, table) = (self.path.to_path_buf(), name.to_owned());
            Error::NoSuchTable { path, kind: self.kind().in_words(), table, tables: names.join(", ") }
        })
    }

    /// Warnings about what has been read so far, with the file's name.
    pub fn warnings(&self) -> Vec<String> {
        let of_file = |warning: &dyn fmt::Display| format!("{}: {warning}", self.path.display());
        match &self.content {
            Content::Ncu(ncu) => ncu.warnings(&self.path),
            Content::Nsys(nsys) => nsys.trace.warnings().iter().map(|warning| of_file(warning)).collect(),
            Content::Kineto(kineto) => kineto.trace.warnings.iter().map(|warning| of_file(warning)).collect(),
            Content::Run(run) => run.warnings().iter().map(|warning| of_file(warning)).collect(),
        }
    }

    /// The trace, if this is an export of Nsight Systems: the input of `flopgap-timings`.
    pub fn nsys(&self) -> Option<&flopgap_nsys::Trace> {
        match &self.content {
            Content::Nsys(nsys) => Some(&nsys.trace),
            _ => None,
        }
    }
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

/// Text without a byte order mark and the space before it.
fn text_of(head: &[u8]) -> &[u8] {
    head.strip_prefix(b"\xef\xbb\xbf").unwrap_or(head).trim_ascii_start()
}

/// A report of Nsight Compute, tried last.
fn ncu(path: &Path) -> Result<Ncu, Error> {
    Ncu::open(path).map_err(|error| match error {
        flopgap_ncu::Error::NotAReport { path, found } => {
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

//! Sources, and the tables in them.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use crate::bench::Bench;
use crate::finding::Finding;
use crate::info::TableInfo;
use crate::kind::{Kind, examine, require_report};
use crate::kineto::Kineto;
use crate::ncu::Ncu;
use crate::nsys::Nsys;
use crate::run::Run;
use crate::trace::{Export, Trace};
use crate::{Error, Table};

/// A recorded file or directory. A clone is another view of the same.
///
/// ```
/// use flopgap_table::{Kind, Source};
///
/// # let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/nsys/small_forward.sqlite.zst");
/// let source = Source::open(path)?;
/// assert_eq!(source.kind(), Kind::Nsys);
/// let names: Vec<_> = source.tables().into_iter().map(|table| table.name).collect();
/// assert_eq!(names[..3], ["kernels", "copies", "memsets"]);
/// # Ok::<(), flopgap_table::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Source {
    path: Arc<Path>,
    content: Content,
    /// The SHA-256 of the file or folder, once it was asked for.
    #[cfg(feature = "parquet")]
    digest: Arc<std::sync::OnceLock<String>>,
}

#[derive(Clone, Debug)]
enum Content {
    Ncu(Arc<Ncu>),
    Nsys(Arc<Nsys>),
    Kineto(Arc<Kineto>),
    Run(Arc<Run>),
    #[cfg(feature = "calibration")]
    Calibration(Arc<crate::calibration::Calibration>),
    Bench(Arc<Bench>),
    #[cfg(feature = "parquet")]
    Parquet(Arc<crate::parquet::Stored>),
}

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
        let (kind, compression) = examine(&path)?;
        let content = match kind {
            Some(Kind::Run) => Content::Run(Arc::new(Run::open(&path)?)),
            Some(Kind::Nsys) => Content::Nsys(Arc::new(Nsys::new(Export::packed(&path, compression)?))),
            Some(Kind::Parquet) => stored(&path)?,
            Some(Kind::Calibration) if path.is_file() => calibration(&path)?,
            Some(Kind::Bench) => Content::Bench(Arc::new(Bench::open(&path, compression)?)),
            Some(Kind::Kineto) => Content::Kineto(Arc::new(Kineto::open(&path)?)),
            Some(kind) => {
                let what = format!("{}, which holds several files", kind.in_words());
                return Err(Error::Unrecognized { path: path.to_path_buf(), what });
            }
            None => {
                require_report(&path)?;
                Content::Ncu(Arc::default())
            }
        };
        Ok(Source::new(path, content))
    }

    fn new(path: Arc<Path>, content: Content) -> Source {
        Source {
            path,
            content,
            #[cfg(feature = "parquet")]
            digest: Arc::default(),
        }
    }

    /// The same source whose SHA-256 is known already ([`digest`](crate::parquet::digest)), so that
    /// [`Source::provenance`] does not read the file for it.
    #[cfg(feature = "parquet")]
    #[must_use]
    pub fn with_digest(self, digest: String) -> Source {
        Source { digest: Arc::new(digest.into()), ..self }
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
            #[cfg(feature = "calibration")]
            Content::Calibration(_) => Kind::Calibration,
            Content::Bench(_) => Kind::Bench,
            #[cfg(feature = "parquet")]
            Content::Parquet(_) => Kind::Parquet,
        }
    }

    /// Its tables.
    pub fn tables(&self) -> Vec<TableInfo> {
        let tables = match &self.content {
            Content::Ncu(_) => crate::ncu::TABLES.to_vec(),
            Content::Nsys(nsys) => nsys.tables(),
            Content::Kineto(kineto) => kineto.tables(),
            Content::Run(run) => run.tables(),
            #[cfg(feature = "calibration")]
            Content::Calibration(_) => vec![crate::calibration::ROWS],
            Content::Bench(_) => vec![crate::bench::RESULTS],
            #[cfg(feature = "parquet")]
            Content::Parquet(stored) => {
                let (name, about) = (stored.table.name().to_owned(), stored.table.about().to_owned());
                return vec![TableInfo { name: name.into(), about: about.into() }];
            }
        };
        tables.into_iter().map(TableInfo::from).collect()
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
            #[cfg(feature = "calibration")]
            Content::Calibration(calibration) => calibration.table(&self.path, name),
            Content::Bench(bench) => bench.table(&self.path, name),
            #[cfg(feature = "parquet")]
            Content::Parquet(stored) => (stored.table.name() == name).then(|| stored.table.clone()),
        };
        table.ok_or_else(|| {
            let names: Vec<_> = self.tables().into_iter().map(|table| table.name).collect();
            let (path, table) = (self.path.to_path_buf(), name.to_owned());
            Error::NoSuchTable { path, kind: self.kind().in_words(), table, tables: names.join(", ") }
        })
    }

    /// Warnings about what has been read so far, with the file's name.
    pub fn warnings(&self) -> Vec<String> {
        self.findings().into_iter().map(|finding| finding.text).collect()
    }

    /// Those of [`Source::warnings`] with which rows or values are lost: the file is cut off or
    /// damaged, or something of it could not be used.
    pub fn losses(&self) -> Vec<String> {
        self.findings().into_iter().filter(|finding| finding.is_loss).map(|finding| finding.text).collect()
    }

    fn findings(&self) -> Vec<Finding> {
        let of_file = |text: &dyn fmt::Display, is_loss| {
            let text = format!("{}: {text}", self.path.display());
            Finding { text, is_loss }
        };
        match &self.content {
            Content::Ncu(ncu) => ncu.findings(&self.path),
            Content::Nsys(nsys) => {
                let warnings = nsys.export.trace().warnings();
                warnings.iter().map(|warning| of_file(warning, warning.what.is_loss())).collect()
            }
            Content::Kineto(kineto) => {
                let warnings = kineto.trace.warnings.iter();
                warnings.map(|warning| of_file(warning, warning.kind.is_loss())).collect()
            }
            Content::Run(run) => {
                run.findings().iter().map(|finding| of_file(&finding.text, finding.is_loss)).collect()
            }
            #[cfg(feature = "calibration")]
            Content::Calibration(it) => it.warnings().iter().map(|warning| of_file(warning, true)).collect(),
            Content::Bench(_) => Vec::new(),
            #[cfg(feature = "parquet")]
            Content::Parquet(_) => Vec::new(),
        }
    }

    /// Where the rows of its tables come from: what recorded them, on which GPU, and the SHA-256 of
    /// the file, which is read for it once.
    ///
    /// # Errors
    /// When the file cannot be read.
    #[cfg(feature = "parquet")]
    pub fn provenance(&self) -> Result<crate::parquet::Provenance, Error> {
        use crate::parquet::{Provenance, digest};
        let known = match &self.content {
            Content::Parquet(stored) => return Ok(stored.provenance.clone()),
            Content::Ncu(_) => {
                Provenance { profiler: Some("NVIDIA Nsight Compute".to_owned()), ..Provenance::default() }
            }
            Content::Nsys(nsys) => nsys.provenance()?,
            Content::Kineto(kineto) => kineto.provenance(),
            Content::Run(run) => run.provenance()?,
            #[cfg(feature = "calibration")]
            Content::Calibration(calibration) => calibration.provenance(),
            Content::Bench(bench) => bench.provenance(),
        };
        let digest = if let Some(digest) = self.digest.get() {
            digest.clone()
        } else {
            let digest = digest(&self.path)?;
            self.digest.get_or_init(|| digest).clone()
        };
        let name = self.path.file_name().map(|name| name.to_string_lossy().into_owned());
        Ok(Provenance {
            kind: Some(self.kind().name().to_owned()),
            source: name,
            source_sha256: Some(digest),
            ..known
        })
    }

    /// The trace, if it is one.
    pub fn trace(&self) -> Option<Trace> {
        match &self.content {
            Content::Nsys(nsys) => Some(Trace::Nsys(nsys.export.trace().clone())),
            Content::Kineto(kineto) => kineto.job().cloned().map(Trace::Kineto),
            _ => None,
        }
    }

    /// The export of Nsight Systems, if it is one.
    pub fn export(&self) -> Option<&Export> {
        if let Content::Nsys(nsys) = &self.content { Some(&nsys.export) } else { None }
    }
}

/// An export that is open already.
impl From<Export> for Source {
    fn from(export: Export) -> Source {
        Source::new(export.path().into(), Content::Nsys(Arc::new(Nsys::new(export))))
    }
}

/// The names of all tables that sources have, whatever their kind. A Parquet file has a table of
/// any name.
pub fn table_names() -> std::collections::BTreeSet<&'static str> {
    let tables = crate::ncu::TABLES.iter().chain(&crate::kineto::TABLES).chain(&crate::run::TABLES);
    let tables = tables.chain([&crate::bench::RESULTS]).copied().chain(crate::nsys::all());
    #[cfg(feature = "calibration")]
    let tables = tables.chain([crate::calibration::ROWS]);
    tables.map(|table| table.name).collect()
}

#[cfg(feature = "calibration")]
fn calibration(path: &Path) -> Result<Content, Error> {
    Ok(Content::Calibration(Arc::new(crate::calibration::Calibration::open(path)?)))
}

#[cfg(not(feature = "calibration"))]
fn calibration(path: &Path) -> Result<Content, Error> {
    let what = "a calibration, which this build does not read".to_owned();
    Err(Error::Unrecognized { path: path.to_owned(), what })
}

#[cfg(feature = "parquet")]
fn stored(path: &Path) -> Result<Content, Error> {
    Ok(Content::Parquet(Arc::new(crate::parquet::read(path)?)))
}

#[cfg(not(feature = "parquet"))]
fn stored(path: &Path) -> Result<Content, Error> {
    let what = "a Parquet file, which this build does not read".to_owned();
    Err(Error::Unrecognized { path: path.to_owned(), what })
}

//! Opens an export.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::SystemTime;

use crate::error::Found;
use crate::filter::Filter;
use crate::sqlite::{Database, PageCache};
use crate::tables::TableSpec;
use crate::warning::{Oddity, Warning};
use crate::{Attribution, Error, Launched, NvtxRanges, Schema};

/// The first bytes of every `SQLite` database.
const MAGIC: &[u8; 16] = b"SQLite format 3\0";

/// Magic bytes of compressed files, and their formats.
const COMPRESSED: [(&[u8], &str); 2] = [(b"\x28\xb5\x2f\xfd", "zstd"), (b"\x1f\x8b", "gzip")];

/// An Nsight Systems export, open for reading.
///
/// The file is opened read-only: nothing is written to it or next to it, and no lock is taken.
/// Tables are read from their pages, without `SQLite`, which costs a fraction. A trace may be read
/// by several threads.
///
/// ```no_run
/// let trace = flopgap_nsys::Trace::open("step.sqlite")?;
/// let mut busy = 0;
/// for kernel in trace.kernels()? {
///     busy += kernel?.at.duration();
/// }
/// println!("{busy} ns in kernels");
/// # Ok::<(), flopgap_nsys::Error>(())
/// ```
#[derive(Debug)]
pub struct Trace {
    file: Arc<Opened>,
    filter: Option<Filter>,
    memory: Mutex<Memory>,
}

/// Cached parts of a trace, kept while someone holds them, so that the next question need not read
/// them again.
#[derive(Debug, Default)]
pub(crate) struct Memory {
    nvtx: Weak<NvtxRanges>,
    launched: Option<(Attribution, Weak<Launched>)>,
}

impl Memory {
    /// The ranges, if held.
    pub(crate) fn nvtx(&self) -> Option<Arc<NvtxRanges>> {
        self.nvtx.upgrade()
    }

    pub(crate) fn keep_nvtx(&mut self, nvtx: &Arc<NvtxRanges>) {
        self.nvtx = Arc::downgrade(nvtx);
    }

    /// The GPU work by this attribution, if held.
    pub(crate) fn launched(&self, attribution: Attribution) -> Option<Arc<Launched>> {
        let (known, launched) = self.launched.as_ref()?;
        (*known == attribution).then(|| launched.upgrade())?
    }

    /// The GPU work with or without whole graphs, by any attribution, if held.
    pub(crate) fn any_launched(&self, whole_graphs: bool) -> Option<Arc<Launched>> {
        let (known, launched) = self.launched.as_ref()?;
        (known.whole_graphs == whole_graphs).then(|| launched.upgrade())?
    }

    pub(crate) fn keep_launched(&mut self, attribution: Attribution, launched: &Arc<Launched>) {
        self.launched = Some((attribution, Arc::downgrade(launched)));
    }
}

/// What all filtered views of one file share.
#[derive(Debug)]
struct Opened {
    /// The file that is read.
    file: PathBuf,
    /// The file that messages name.
    path: PathBuf,
    /// Identity of the file when it was opened.
    stamp: Stamp,
    schema: Schema,
    database: Database,
    cache: Mutex<PageCache>,
    warnings: Mutex<Vec<Warning>>,
}

impl Trace {
    /// Opens an export of `nsys export --type sqlite`.
    ///
    /// # Errors
    /// When the file is not a whole database ([`Error::NotADatabase`], [`Error::Truncated`]), is
    /// not exported yet ([`Error::NotExported`]), is being written ([`Error::Locked`],
    /// [`Error::Journal`]; later, [`Error::Changed`]), or was not written by nsys
    /// ([`Error::NotAnExport`]).
    pub fn open(path: impl AsRef<Path>) -> Result<Trace, Error> {
        Trace::open_unpacked(path.as_ref(), path.as_ref())
    }

    /// Opens an export that was unpacked from another file. Messages and [`Trace::path`] name that
    /// one.
    ///
    /// # Errors
    /// As [`Trace::open`].
    pub fn open_unpacked(file: impl AsRef<Path>, packed: impl AsRef<Path>) -> Result<Trace, Error> {
        let (file, path) = (file.as_ref(), packed.as_ref());
        let stamp = Stamp::of(file).map_err(|source| Error::Io { path: path.to_owned(), source })?;
        check_file(file)?;
        let of_schema = |error| Error::of_pages(error, "sqlite_schema");
        let database = Database::open(file).map_err(of_schema)?;
        let schema = Schema::probe(&database).map_err(of_schema)?;
        if !schema.is_export() {
            return Err(Error::NotAnExport { path: path.to_owned() });
        }
        let file = Opened {
            file: file.to_owned(),
            path: path.to_owned(),
            stamp,
            schema,
            database,
            cache: Mutex::default(),
            warnings: Mutex::default(),
        };
        Ok(Trace { file: Arc::new(file), filter: None, memory: Mutex::default() })
    }

    /// The same file with a different selection of rows.
    pub(crate) fn with_filter(&self, filter: Option<Filter>) -> Trace {
        Trace { file: self.file.clone(), filter, memory: Mutex::default() }
    }

    /// The cached parts.
    pub(crate) fn memory(&self) -> MutexGuard<'_, Memory> {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn filter(&self) -> Option<Filter> {
        self.filter
    }

    /// The file that is read.
    pub(crate) fn file(&self) -> &Path {
        &self.file.file
    }

    /// The file: of an unpacked export, the one that it was unpacked from.
    pub fn path(&self) -> &Path {
        &self.file.path
    }

    /// Its tables and columns.
    pub fn schema(&self) -> &Schema {
        &self.file.schema
    }

    /// What was odd about the rows read so far.
    pub fn warnings(&self) -> Vec<Warning> {
        self.file.warnings.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Pages of the table of strings.
    pub(crate) fn strings_cache(&self) -> &Mutex<PageCache> {
        &self.file.cache
    }

    /// The pages of the file and the first of a table (a name that the export has).
    ///
    /// # Errors
    /// [`Error::NotPlain`] when rows do not lie there as nsys writes them.
    pub(crate) fn pages(&self, table: &str) -> Result<(&Database, u32), Error> {
        let root = self.file.schema.root(table).ok_or_else(|| self.not_plain(table))?;
        Ok((&self.file.database, root))
    }

    pub(crate) fn not_plain(&self, table: &str) -> Error {
        Error::NotPlain { path: self.file.path.clone(), table: table.to_owned() }
    }

    /// The name of a table in this export.
    ///
    /// # Errors
    /// [`Error::NoTable`] when there is none.
    pub(crate) fn require(&self, table: &TableSpec) -> Result<&str, Error> {
        let found = self.file.schema.table(table.name);
        found.ok_or_else(|| Error::NoTable {
            path: self.file.path.clone(),
            table: table.name,
            what: table.holds,
        })
    }

    pub(crate) fn warn(&self, table: &str, tally: &Tally, what: Oddity) {
        if tally.rows == 0 {
            return;
        }
        let warning = Warning { table: table.to_owned(), rows: tally.rows, first: tally.first, what };
        let mut warnings = self.file.warnings.lock().unwrap_or_else(PoisonError::into_inner);
        // Several reports may read one table: it is reported once.
        if !warnings.contains(&warning) {
            warnings.push(warning);
        }
    }

    /// Whether the file is what it was when it was opened.
    ///
    /// # Errors
    /// [`Error::Changed`] when it is not.
    pub(crate) fn unchanged(&self) -> Result<(), Error> {
        match Stamp::of(self.file()) {
            Ok(stamp) if stamp != self.file.stamp => Err(Error::Changed { path: self.file.path.clone() }),
            // A file that was moved or deleted is still open, and unchanged.
            _ => Ok(()),
        }
    }

    /// The error that reading the pages of a table ended with.
    pub(crate) fn fault(&self, table: &str, error: crate::sqlite::Error) -> Error {
        // Pages that change during a read look damaged.
        self.unchanged().err().unwrap_or_else(|| Error::of_pages(error, table))
    }
}

/// Size and modification time of a file, which change when it is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stamp {
    size: u64,
    modified: Option<SystemTime>,
}

impl Stamp {
    fn of(path: &Path) -> io::Result<Stamp> {
        let metadata = path.metadata()?;
        Ok(Stamp { size: metadata.len(), modified: metadata.modified().ok() })
    }
}

/// How many rows were odd, and which first.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    rows: u64,
    first: i64,
}

impl Tally {
    pub(crate) fn add(&mut self, rowid: i64) {
        if self.rows == 0 {
            self.first = rowid;
        }
        self.rows += 1;
    }
}

/// Rejects files that are no whole database, or that another program writes.
fn check_file(path: &Path) -> Result<(), Error> {
    let io = |source| Error::Io { path: path.to_owned(), source };
    let not = |found| Error::NotADatabase { path: path.to_owned(), found };
    // Before it is opened: opening a pipe without a writer waits forever.
    let metadata = path.metadata().map_err(io)?;
    if metadata.is_dir() {
        return Err(io(io::Error::from(io::ErrorKind::IsADirectory)));
    }
    if !metadata.is_file() {
        return Err(Error::NotAFile { path: path.to_owned() });
    }
    let mut file = File::open(path).map_err(io)?;
    // First: what is being written may look like anything.
    if is_locked(&file) {
        return Err(Error::Locked { path: path.to_owned() });
    }
    let mut header = Vec::with_capacity(100);
    file.by_ref().take(100).read_to_end(&mut header).map_err(io)?;
    if !header.starts_with(MAGIC) {
        let extension = path.extension().and_then(|extension| extension.to_str()).unwrap_or_default();
        return Err(if ["nsys-rep", "qdrep", "qdstrm"].contains(&extension) {
            Error::NotExported { path: path.to_owned() }
        } else if header.is_empty() {
            not(Found::Empty)
        } else if header.iter().all(|byte| *byte == 0) {
            not(Found::Zeros)
        } else if let Some((_, with)) = COMPRESSED.iter().find(|(magic, _)| header.starts_with(magic)) {
            Error::Compressed { path: path.to_owned(), with }
        } else if header.starts_with(b"NVR\0") {
            not(Found::ComputeReport)
        } else {
            not(Found::Other)
        });
    }
    if header.len() < 100 {
        return Err(Error::Truncated { path: path.to_owned(), expected: 100, found: metadata.len() });
    }
    let page_size = match u16::from_be_bytes([header[16], header[17]]) {
        1 => 65_536,
        size => u64::from(size),
    };
    let number = |at: usize| u32::from_be_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]]);
    // The page count is only valid when it was written together with the change counter.
    if number(24) == number(92) {
        let expected = page_size * u64::from(number(28));
        if metadata.len() < expected {
            return Err(Error::Truncated { path: path.to_owned(), expected, found: metadata.len() });
        }
    }
    for suffix in ["-journal", "-wal"] {
        let mut journal = path.as_os_str().to_owned();
        journal.push(suffix);
        let journal = PathBuf::from(journal);
        if journal.metadata().is_ok_and(|metadata| metadata.len() > 0) {
            return Err(Error::Journal { path: path.to_owned(), journal });
        }
    }
    Ok(())
}

/// Whether another process holds one of `SQLite`'s locks for writing (reserved, pending or
/// exclusive). This takes no lock itself, so that it cannot make that process fail.
#[cfg(unix)]
fn is_locked(file: &File) -> bool {
    use rustix::process::{Flock, FlockOffsetType, FlockType, fcntl_getlk};

    // The pending byte, the reserved byte and the 510 bytes that readers share, at 1 GiB:
    // https://sqlite.org/fileformat2.html.
    let lock = Flock {
        start: 0x4000_0000,
        length: 512,
        pid: None,
        typ: FlockType::ReadLock,
        offset_type: FlockOffsetType::Set,
    };
    // A file system that has no locks holds none.
    matches!(fcntl_getlk(file, &lock), Ok(Some(_)))
}

#[cfg(not(unix))]
fn is_locked(_: &File) -> bool {
    false
}

//! The file, page by page.

use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::Arc;

use super::error::{Damage, Error, Fault, Unsupported};

/// The first bytes of every `SQLite` database.
const MAGIC: &[u8; 16] = b"SQLite format 3\0";
/// The least that `SQLite` leaves of a page for content.
const LEAST_USABLE: usize = 480;
/// The page that names all tables. The header of the file comes before its own.
pub(crate) const SCHEMA: u32 = 1;
/// How many bytes the header of the file has.
const HEADER: usize = 100;
/// The header's code of UTF-8.
const UTF8: u32 = 1;

/// A database file that is open for reading. A clone is another view of the same open file.
///
/// The file must not change while it is read: no lock is taken. A caller that reads files of other
/// programs checks, before and after, that none of them writes.
#[derive(Clone, Debug)]
pub struct Database {
    file: Arc<File>,
    path: Arc<Path>,
    pub(crate) page_size: usize,
    /// The bytes of a page that hold content: all but those reserved for extensions.
    pub(crate) usable: usize,
    /// How many whole pages the file has.
    pub(crate) count: u32,
}

impl Database {
    /// Opens a database.
    ///
    /// # Errors
    /// [`Fault::NotADatabase`] when the file has no header of `SQLite`, [`Fault::Unsupported`] when
    /// its texts are UTF-16 or its page size is none that the format allows.
    pub fn open(path: impl AsRef<Path>) -> Result<Database, Error> {
        let path = path.as_ref();
        let refused = |fault| Error::new(path, fault);
        let io = |source| refused(Fault::Io(source));
        let file = File::open(path).map_err(io)?;
        let length = file.metadata().map_err(io)?.len();
        let mut header = [0; HEADER];
        match read_exact_at(&file, &mut header, 0) {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                return Err(refused(Fault::NotADatabase));
            }
            read => read.map_err(io)?,
        }
        if !header.starts_with(MAGIC) {
            return Err(refused(Fault::NotADatabase));
        }
        let page_size = match u16::from_be_bytes([header[16], header[17]]) {
            1 => 65_536,
            size => usize::from(size),
        };
        let usable = page_size.saturating_sub(usize::from(header[20]));
        if !page_size.is_power_of_two() || page_size < 512 || usable < LEAST_USABLE {
            return Err(refused(Fault::Unsupported(Unsupported::PageSize)));
        }
        if u32::from_be_bytes([header[56], header[57], header[58], header[59]]) != UTF8 {
            return Err(refused(Fault::Unsupported(Unsupported::Encoding)));
        }
        let count = u32::try_from(length / page_size as u64).unwrap_or(u32::MAX);
        Ok(Database { file: Arc::new(file), path: path.into(), page_size, usable, count })
    }

    /// Reads consecutive pages, of which `buffer` holds a whole number.
    pub(crate) fn read(&self, first: u32, buffer: &mut [u8]) -> Result<(), Fault> {
        let offset = u64::from(first.saturating_sub(1)) * self.page_size as u64;
        Ok(read_exact_at(&self.file, buffer, offset)?)
    }

    /// Refuses the number of a page that the file does not have; page 1 is the root of the schema
    /// and of nothing else.
    pub(crate) fn check(&self, page: u32, named_by: u32) -> Result<(), Fault> {
        if page <= SCHEMA || page > self.count {
            return Damage::OutsideFile.on(named_by);
        }
        Ok(())
    }

    /// Where on a page its own header begins.
    #[inline]
    pub(crate) fn header_at(page: u32) -> usize {
        if page == SCHEMA { HEADER } else { 0 }
    }

    /// The error of this file that a fault is.
    #[cold]
    pub(crate) fn error(&self, fault: Fault) -> Error {
        Error::new(&*self.path, fault)
    }
}

#[cfg(unix)]
fn read_exact_at(file: &File, buffer: &mut [u8], offset: u64) -> io::Result<()> {
    std::os::unix::fs::FileExt::read_exact_at(file, buffer, offset)
}

#[cfg(windows)]
fn read_exact_at(file: &File, mut buffer: &mut [u8], mut offset: u64) -> io::Result<()> {
    while !buffer.is_empty() {
        match std::os::windows::fs::FileExt::seek_read(file, buffer, offset) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(read) => {
                buffer = &mut buffer[read..];
                offset += read as u64;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

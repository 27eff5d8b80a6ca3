//! The pages of an `SQLite` database, read without `SQLite`.
//!
//! Stepping through rows and fetching their columns is most of what a report costs when `SQLite` does it. A table of an export is a
//! b-tree of pages, each with a few dozen rows; here its leaves are read in large blocks, and of each row only the columns that were
//! asked for are decoded. The format: <https://www.sqlite.org/fileformat2.html>.
//!
//! Nothing in a file is trusted: every page is in the file and read once, every cell lies within its page, row ids ascend. What
//! breaks that is a [`Fault`] with the page's number; time and memory are bounded by the size of the file.

mod cursor;
mod find;
mod leaf;
mod record;
#[cfg(test)]
mod tests;
mod varint;
mod walk;

use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::Arc;

pub(crate) use cursor::Cursor;
pub(crate) use find::PageCache;
pub(crate) use record::{Record, Slot, Value};

/// Why a table could not be read.
#[derive(Debug)]
pub(crate) enum Fault {
    /// The system could not read the file.
    Io(io::Error),
    /// A page is not what the format allows.
    Damage {
        /// Its number, counted from 1.
        page: u32,
        /// What is wrong with it.
        what: &'static str,
    },
}

impl From<io::Error> for Fault {
    fn from(error: io::Error) -> Fault {
        Fault::Io(error)
    }
}

fn damage<T>(page: u32, what: &'static str) -> Result<T, Fault> {
    Err(Fault::Damage { page, what })
}

/// A database file, page by page. A clone is another view of the same open file.
#[derive(Clone, Debug)]
pub(crate) struct Pages {
    file: Arc<File>,
    page_size: usize,
    /// The bytes of a page that hold content: all but those reserved for extensions.
    usable: usize,
    /// How many whole pages the file has.
    count: u32,
}

/// The least that `SQLite` leaves of a page for content.
const LEAST_USABLE: usize = 480;
/// The header's code of UTF-8.
const UTF8: u32 = 1;

impl Pages {
    /// Opens a file of which [`crate::Trace::open`] knows that it is a database; none when its texts are not UTF-8, or its header
    /// is one that only `SQLite` may judge.
    pub(crate) fn open(path: &Path) -> io::Result<Option<Pages>> {
        let file = File::open(path)?;
        let length = file.metadata()?.len();
        let mut header = [0; 100];
        read_exact_at(&file, &mut header, 0)?;
        let page_size = match u16::from_be_bytes([header[16], header[17]]) {
            1 => 65_536,
            size => usize::from(size),
        };
        let encoding = u32::from_be_bytes([header[56], header[57], header[58], header[59]]);
        let usable = page_size.saturating_sub(usize::from(header[20]));
        let sound = page_size.is_power_of_two() && page_size >= 512 && usable >= LEAST_USABLE;
        if !sound || encoding != UTF8 {
            return Ok(None);
        }
        let count = u32::try_from(length / page_size as u64).unwrap_or(u32::MAX);
        Ok(Some(Pages { file: Arc::new(file), page_size, usable, count }))
    }

    /// The rows of the table whose b-tree begins on page `root`, in the order of row ids.
    ///
    /// `slots` says where each column lies that is asked for; [`Record`] counts columns as they do.
    pub(crate) fn rows(&self, root: u32, slots: Vec<Slot>) -> Result<Cursor, Fault> {
        self.check(root, 1)?;
        Ok(Cursor::new(self, root, slots))
    }

    /// Reads consecutive pages, of which `buffer` holds a whole number.
    fn read(&self, first: u32, buffer: &mut [u8]) -> Result<(), Fault> {
        let offset = u64::from(first.saturating_sub(1)) * self.page_size as u64;
        Ok(read_exact_at(&self.file, buffer, offset)?)
    }

    /// Refuses the number of a page that the file does not have; page 1 is the root of the schema and of nothing else.
    fn check(&self, page: u32, named_by: u32) -> Result<(), Fault> {
        if page < 2 || page > self.count {
            return damage(named_by, "names a page that is not in the file");
        }
        Ok(())
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

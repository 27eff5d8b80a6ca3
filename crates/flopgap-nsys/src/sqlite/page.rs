//! Pages of a table, and the cells of its leaves.

use super::database::Database;
use super::error::{Damage, Fault};
use super::varint::varint;
use super::visited::Visited;

/// The first byte of a page that names other pages.
pub(crate) const INTERIOR: u8 = 0x05;
/// The first byte of a page that holds rows.
pub(crate) const LEAF: u8 = 0x0d;

/// The header of a page, whose cell pointers lie within it.
pub(crate) struct Header {
    pub(crate) cells: usize,
    /// The last child of an interior page.
    pub(crate) right: u32,
    pointers: usize,
}

/// Reads the header of a page.
pub(crate) fn header_of(bytes: &[u8], number: u32) -> Result<Header, Fault> {
    let at = Database::header_at(number);
    let header = &bytes[at..];
    let cells = usize::from(u16::from_be_bytes([header[3], header[4]]));
    let pointers = at + if header[0] == INTERIOR { 12 } else { 8 };
    if pointers + 2 * cells > bytes.len() {
        return Damage::TooManyCells.on(number);
    }
    Ok(Header { cells, right: u32::from_be_bytes([header[8], header[9], header[10], header[11]]), pointers })
}

impl Header {
    /// Where a cell begins.
    #[inline]
    fn pointer(&self, bytes: &[u8], at: usize) -> usize {
        let pointer = self.pointers + 2 * at;
        usize::from(u16::from_be_bytes([bytes[pointer], bytes[pointer + 1]]))
    }

    /// The row that a cell of a leaf is.
    #[inline]
    pub(crate) fn row<'a>(&self, bytes: &'a [u8], at: usize, number: u32) -> Result<Cell<'a>, Fault> {
        match cell(bytes, self.pointer(bytes, at)) {
            Some(cell) => Ok(cell),
            None => Damage::CellOutside.on(number),
        }
    }

    /// The child that a cell of an interior page names, and the largest row id below it.
    pub(crate) fn child(&self, bytes: &[u8], at: usize, number: u32) -> Result<(u32, i64), Fault> {
        let cell = bytes.get(self.pointer(bytes, at)..).and_then(|cell| cell.split_first_chunk::<4>());
        match cell.and_then(|(page, key)| Some((page, varint(key)?.0))) {
            Some((page, key)) => Ok((u32::from_be_bytes(*page), key.cast_signed())),
            None => Damage::CellOutside.on(number),
        }
    }
}

/// A row as it lies on its leaf.
pub(crate) struct Cell<'a> {
    pub(crate) rowid: i64,
    /// How many bytes the record has.
    pub(crate) size: u64,
    /// Those of them that lie on the leaf.
    pub(crate) local: &'a [u8],
    /// The same with what follows them on the leaf.
    pub(crate) rest: &'a [u8],
    /// The page on which it continues; 0 for none.
    overflow: u32,
}

#[inline]
fn cell(page: &[u8], at: usize) -> Option<Cell<'_>> {
    let bytes = page.get(at..)?;
    let (size, taken) = varint(bytes)?;
    let bytes = &bytes[taken..];
    let (rowid, taken) = varint(bytes)?;
    let (rowid, bytes) = (rowid.cast_signed(), &bytes[taken..]);
    let most = page.len() as u64 - 35;
    if size <= most {
        let local = bytes.get(..usize::try_from(size).ok()?)?;
        return Some(Cell { rowid, size, local, rest: bytes, overflow: 0 });
    }
    // What remains beyond whole overflow pages is kept on the leaf when it fits there.
    let usable = page.len() as u64;
    let least = (usable - 12) * 32 / 255 - 23;
    let best = least + (size - least) % (usable - 4);
    let local = usize::try_from(if best <= most { best } else { least }).ok()?;
    let (local, after) = bytes.split_at_checked(local)?;
    Some(Cell { rowid, size, local, rest: bytes, overflow: u32::from_be_bytes(*after.first_chunk()?) })
}

impl Cell<'_> {
    /// Puts the whole record of a row of `leaf` together from the pages on which it continues.
    pub(crate) fn assemble(
        &self,
        database: &Database,
        leaf: u32,
        visited: &mut Visited,
        into: &mut Vec<u8>,
    ) -> Result<(), Fault> {
        if self.size > u64::from(database.count) * database.usable as u64 {
            return Damage::RowTooLong.on(leaf);
        }
        let size = usize::try_from(self.size).unwrap_or(usize::MAX);
        into.clear();
        into.extend_from_slice(self.local);
        let mut page = vec![0; if into.len() < size { database.page_size } else { 0 }];
        let (mut next, mut named_by) = (self.overflow, leaf);
        while into.len() < size {
            database.check(next, named_by)?;
            visited.mark(next, named_by)?;
            database.read(next, &mut page)?;
            let content = &page[4..database.usable];
            into.extend_from_slice(&content[..content.len().min(size - into.len())]);
            named_by = next;
            next = u32::from_be_bytes([page[0], page[1], page[2], page[3]]);
        }
        Ok(())
    }
}

//! One row by its id.

use std::cmp::Ordering;

use super::database::Database;
use super::error::{Damage, Error, Fault};
use super::page::{INTERIOR, LEAF, header_of};
use super::record::{Layout, Record, Slot, Value};
use super::visited::Visited;
use super::walk::DEEPEST;

/// The pages that were read last, so that many look-ups in one table do not read its upper pages
/// each time.
#[derive(Debug, Default)]
pub struct PageCache {
    pages: Vec<Option<(u32, Vec<u8>)>>,
}

/// How many pages a cache keeps.
const KEPT: usize = 256;

impl PageCache {
    fn page(&mut self, database: &Database, number: u32) -> Result<&[u8], Fault> {
        self.pages.resize_with(KEPT, || None);
        let place = &mut self.pages[number as usize % KEPT];
        let (held, bytes) = place.get_or_insert_with(|| (0, Vec::new()));
        if *held != number {
            // Until it is read, the place holds no page.
            *held = 0;
            bytes.resize(database.page_size, 0);
            database.read(number, bytes)?;
            *held = number;
        }
        Ok(&bytes[..database.usable])
    }
}

impl Database {
    /// What `take` makes of one column of the row of this id; `None` when there is no such row.
    ///
    /// A cache serves one database.
    ///
    /// # Errors
    /// [`Fault::Damaged`] when a page on the way does not follow the file format.
    pub fn find<T>(
        &self,
        cache: &mut PageCache,
        root: u32,
        rowid: i64,
        column: Slot,
        take: impl FnOnce(Value<'_>) -> T,
    ) -> Result<Option<T>, Error> {
        self.find_row(cache, root, rowid, column, take).map_err(|fault| self.error(fault))
    }

    fn find_row<T>(
        &self,
        cache: &mut PageCache,
        root: u32,
        rowid: i64,
        column: Slot,
        take: impl FnOnce(Value<'_>) -> T,
    ) -> Result<Option<T>, Fault> {
        let number = self.leaf_of(cache, root, rowid)?;
        let leaf = cache.page(self, number)?;
        let header = header_of(leaf, number)?;
        let (mut low, mut high) = (0, header.cells);
        while low < high {
            let middle = low.midpoint(high);
            let cell = header.row(leaf, middle, number)?;
            match cell.rowid.cmp(&rowid) {
                Ordering::Less => low = middle + 1,
                Ordering::Greater => high = middle,
                Ordering::Equal => {
                    let mut layout = Layout::new(vec![column]);
                    if layout.fits(cell.local, cell.size, number)? {
                        return Ok(Some(take(Record::new(rowid, cell.local, &layout).value(0))));
                    }
                    let (mut payload, mut visited) = (Vec::new(), Visited::new(self.count));
                    cell.assemble(self, number, &mut visited, &mut payload)?;
                    if !layout.fits(&payload, cell.size, number)? {
                        return Damage::RowTooShort.on(number);
                    }
                    return Ok(Some(take(Record::new(rowid, &payload, &layout).value(0))));
                }
            }
        }
        Ok(None)
    }

    /// The leaf that holds the row of this id, if any does.
    fn leaf_of(&self, cache: &mut PageCache, root: u32, rowid: i64) -> Result<u32, Fault> {
        let (mut number, mut named_by) = (root, 1);
        for _ in 0..=DEEPEST {
            self.check(number, named_by)?;
            let bytes = cache.page(self, number)?;
            match bytes[0] {
                INTERIOR => {
                    let header = header_of(bytes, number)?;
                    // The first child whose largest row id is not below the one that is sought.
                    let (mut low, mut high) = (0, header.cells);
                    let mut child = header.right;
                    while low < high {
                        let middle = low.midpoint(high);
                        let (page, largest) = header.child(bytes, middle, number)?;
                        if largest < rowid {
                            low = middle + 1;
                        } else {
                            (child, high) = (page, middle);
                        }
                    }
                    (number, named_by) = (child, number);
                }
                LEAF => return Ok(number),
                _ => return Damage::NotATable.on(number),
            }
        }
        Damage::TooDeep.on(number)
    }
}

//! One row by its id.

use std::cmp::Ordering;

use super::leaf::{INTERIOR, LEAF, header_of};
use super::record::{Layout, Record};
use super::walk::{DEEPEST, Visited};
use super::{Fault, Pages, Slot, Value, damage};

/// The pages that were looked at last, so that many look-ups in one table do not read its upper pages each time.
#[derive(Debug, Default)]
pub(crate) struct PageCache {
    pages: Vec<Option<(u32, Vec<u8>)>>,
}

/// How many pages a cache keeps.
const KEPT: usize = 256;

impl PageCache {
    fn page(&mut self, pages: &Pages, number: u32) -> Result<&[u8], Fault> {
        self.pages.resize_with(KEPT, || None);
        let place = &mut self.pages[number as usize % KEPT];
        let (held, bytes) = place.get_or_insert_with(|| (0, Vec::new()));
        if *held != number {
            // Until it is read, the place holds no page.
            *held = 0;
            bytes.resize(pages.page_size, 0);
            pages.read(number, bytes)?;
            *held = number;
        }
        Ok(&bytes[..pages.usable])
    }
}

impl Pages {
    /// Calls `visit` with one column of the row of this id; nothing when there is no such row.
    pub(crate) fn find<T>(
        &self,
        cache: &mut PageCache,
        root: u32,
        rowid: i64,
        slot: Slot,
        visit: impl FnOnce(Value<'_>) -> T,
    ) -> Result<Option<T>, Fault> {
        let (mut number, mut named_by) = (root, 1);
        let mut depth = 0;
        loop {
            self.check(number, named_by)?;
            if depth > DEEPEST {
                return damage(number, "lies too deep in its table");
            }
            depth += 1;
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
                LEAF => break,
                _ => return damage(number, "is no page of a table"),
            }
        }
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
                    let mut layout = Layout::of(vec![slot]);
                    if layout.fits(cell.local, cell.size, number)? {
                        return Ok(Some(visit(Record::new(rowid, cell.local, &layout).value(0))));
                    }
                    let (mut payload, mut visited) = (Vec::new(), Visited::new(self.count));
                    cell.assemble(self, number, &mut visited, &mut payload)?;
                    if !layout.fits(&payload, cell.size, number)? {
                        return damage(number, "has a row that ends before its columns");
                    }
                    return Ok(Some(visit(Record::new(rowid, &payload, &layout).value(0))));
                }
            }
        }
        Ok(None)
    }
}

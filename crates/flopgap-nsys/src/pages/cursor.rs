//! The rows of a table, one after the other.

use super::leaf::Header;
use super::record::{Layout, Record};
use super::walk::{Visited, Walk};
use super::{Fault, Pages, Slot, damage};

/// A place in a table, from the first row to the last.
pub(crate) struct Cursor {
    pages: Pages,
    walk: Walk,
    visited: Visited,
    layout: Layout,
    leaf: Option<(Header, u32)>,
    /// The next row of the leaf.
    next: usize,
    before: Option<i64>,
    overflowing: Vec<u8>,
}

impl Cursor {
    pub(super) fn new(pages: &Pages, root: u32, slots: Vec<Slot>) -> Cursor {
        Cursor {
            pages: pages.clone(),
            walk: Walk::new(pages.clone(), root),
            visited: Visited::new(pages.count),
            layout: Layout::of(slots),
            leaf: None,
            next: 0,
            before: None,
            overflowing: Vec::new(),
        }
    }

    /// The next row; nothing after the last.
    #[inline]
    pub(crate) fn next_row(&mut self) -> Result<Option<Record<'_>>, Fault> {
        let number = loop {
            match &self.leaf {
                Some((header, number)) if self.next < header.cells => break *number,
                _ => {
                    let Some(number) = self.walk.next_leaf(&mut self.visited)? else { return Ok(None) };
                    self.leaf = Some((self.walk.header()?, number));
                    self.next = 0;
                }
            }
        };
        let Some((header, _)) = &self.leaf else { return Ok(None) };
        let cell = header.row(self.walk.leaf(), self.next, number)?;
        self.next += 1;
        if self.before.is_some_and(|before| before >= cell.rowid) {
            return damage(number, "has row ids that do not ascend");
        }
        self.before = Some(cell.rowid);
        let payload = if self.layout.fits(cell.local, cell.size, number)? {
            cell.rest
        } else {
            cell.assemble(&self.pages, number, &mut self.visited, &mut self.overflowing)?;
            if !self.layout.fits(&self.overflowing, cell.size, number)? {
                return damage(number, "has a row that ends before its columns");
            }
            self.overflowing.as_slice()
        };
        Ok(Some(Record::new(cell.rowid, payload, &self.layout)))
    }
}

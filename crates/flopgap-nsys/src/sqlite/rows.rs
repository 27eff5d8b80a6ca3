//! The rows of a table, one after the other.

use std::fmt;

use super::database::{Database, SCHEMA};
use super::error::{Damage, Error, Fault};
use super::page::Header;
use super::record::{Layout, Record, Slot};
use super::visited::Visited;
use super::walk::Walk;

/// The rows of a table in the order of row ids, read on demand.
///
/// Not an [`Iterator`]: a [`Record`] lies in the page that is held, until the next row.
pub struct Rows {
    database: Database,
    place: Place,
}

/// A place in a table.
struct Place {
    walk: Walk,
    visited: Visited,
    layout: Layout,
    leaf: Option<(Header, u32)>,
    /// The next row of the leaf.
    next: usize,
    before: Option<i64>,
    overflowing: Vec<u8>,
}

impl Database {
    /// The rows of the table whose b-tree begins on page `root` (`rootpage` in `sqlite_schema`), in
    /// the order of row ids.
    ///
    /// `columns` says where each column lies that is requested; [`Record::value`] counts columns as
    /// they do.
    ///
    /// # Errors
    /// [`Fault::Damaged`] when the file has no such page.
    pub fn rows(&self, root: u32, columns: &[Slot]) -> Result<Rows, Error> {
        self.check(root, SCHEMA).map_err(|fault| self.error(fault))?;
        Ok(Rows::new(self, root, columns))
    }
}

impl fmt::Debug for Rows {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rows").field("database", &self.database).finish_non_exhaustive()
    }
}

impl Rows {
    /// The rows below a page that is in the file.
    pub(crate) fn new(database: &Database, root: u32, columns: &[Slot]) -> Rows {
        let place = Place {
            walk: Walk::new(database.clone(), root),
            visited: Visited::new(database.count),
            layout: Layout::new(columns.to_vec()),
            leaf: None,
            next: 0,
            before: None,
            overflowing: Vec::new(),
        };
        Rows { database: database.clone(), place }
    }

    /// The next row; `None` after the last.
    ///
    /// # Errors
    /// [`Fault::Damaged`] when a page does not follow the file format. Rows may follow an error,
    /// but nothing is known of them.
    #[inline]
    pub fn next_row(&mut self) -> Result<Option<Record<'_>>, Error> {
        let Rows { database, place } = self;
        place.next_row(database).map_err(|fault| database.error(fault))
    }
}

impl Place {
    #[inline]
    fn next_row(&mut self, database: &Database) -> Result<Option<Record<'_>>, Fault> {
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
            return Damage::Order.on(number);
        }
        self.before = Some(cell.rowid);
        let payload = if self.layout.fits(cell.local, cell.size, number)? {
            cell.rest
        } else {
            cell.assemble(database, number, &mut self.visited, &mut self.overflowing)?;
            if !self.layout.fits(&self.overflowing, cell.size, number)? {
                return Damage::RowTooShort.on(number);
            }
            self.overflowing.as_slice()
        };
        Ok(Some(Record::new(cell.rowid, payload, &self.layout)))
    }
}

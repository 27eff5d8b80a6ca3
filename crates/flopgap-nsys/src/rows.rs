//! The rows of a table: all of them, or one after the other.

use std::fmt::Write as _;
use std::vec;

use crate::pages::{Cursor, Slot};
use crate::row::{Held, Row};
use crate::trace::{Column, TableSpec, Tally, connect};
use crate::{Error, Trace};

/// What is done with each row of a table, and what was strange in them.
#[derive(Debug, Default)]
struct Offer {
    unusable: Tally,
    strange: Tally,
}

impl Offer {
    /// Offers a row; one of which nothing is made could not be used.
    #[inline]
    fn row<T>(&mut self, row: &Row<'_>, visit: impl FnOnce(&Row<'_>) -> Option<T>) -> Option<T> {
        let made = visit(row);
        if made.is_none() {
            self.unusable.add(row.id());
        } else if row.was_mistyped() {
            self.strange.add(row.id());
        }
        made
    }

    fn end(&mut self, trace: &Trace, table: &str) {
        trace.warn(table, &self.unusable, "without the numbers it needs: left out");
        trace.warn(
            table,
            &self.strange,
            "with text or a fraction where a whole number belongs: that value was ignored",
        );
    }
}

/// The rows of a table, in the order of the file, one when it is asked for.
pub(crate) struct Rows<'t> {
    trace: &'t Trace,
    table: &'t str,
    source: Source<'t>,
    offer: Offer,
}

enum Source<'t> {
    Pages(Box<Cursor<'t>>),
    /// A table that only `SQLite` can read is read when the first row is asked for.
    Held(vec::IntoIter<Held>),
}

impl Rows<'_> {
    /// What `visit` makes of the next row of which it makes something; nothing after the last. Rows of which it makes nothing are
    /// counted as a warning.
    #[inline]
    pub(crate) fn next<T>(
        &mut self,
        mut visit: impl FnMut(&Row<'_>) -> Option<T>,
    ) -> Result<Option<T>, Error> {
        loop {
            let made = match &mut self.source {
                Source::Pages(cursor) => {
                    match cursor.next_row().map_err(|fault| self.trace.fault(self.table, fault))? {
                        Some(record) => self.offer.row(&Row::of_page(record), &mut visit),
                        None => break,
                    }
                }
                Source::Held(rows) => match rows.next() {
                    Some(held) => self.offer.row(&Row::of_held(&held), &mut visit),
                    None => break,
                },
            };
            if made.is_some() {
                return Ok(made);
            }
        }
        self.offer.end(self.trace, self.table);
        Ok(None)
    }
}

impl Trace {
    /// The rows of a table, in the order of the file. Optional columns that the export does not have are NULL.
    pub(crate) fn rows(&self, table: &TableSpec, columns: &[Column]) -> Result<Rows<'_>, Error> {
        let (table, slots) = self.resolve(table, columns)?;
        let source = if let Some((pages, root)) = self.plain(table) {
            let cursor = pages.rows(root, slots).map_err(|fault| self.fault(table, fault))?;
            Source::Pages(Box::new(cursor))
        } else {
            let mut held = Vec::new();
            self.scan_by_sqlite(table, columns, &slots, |row| held.push(row.hold(columns.len())))?;
            Source::Held(held.into_iter())
        };
        Ok(Rows { trace: self, table, source, offer: Offer::default() })
    }

    /// Calls `visit` with every row of a table, in the order of the file.
    ///
    /// A visitor that returns nothing could not use the row: such rows are counted as a warning. Optional columns that the
    /// export does not have are NULL.
    pub(crate) fn scan(
        &self,
        table: &TableSpec,
        columns: &[Column],
        mut visit: impl FnMut(&Row<'_>) -> Option<()>,
    ) -> Result<(), Error> {
        let (name, slots) = self.resolve(table, columns)?;
        if self.plain(name).is_some() {
            let mut rows = self.rows(table, columns)?;
            while rows.next(&mut visit)?.is_some() {}
            return Ok(());
        }
        let mut offer = Offer::default();
        self.scan_by_sqlite(name, columns, &slots, |row| {
            offer.row(row, &mut visit);
        })?;
        offer.end(self, name);
        Ok(())
    }

    /// The name of a table in this export, and where its rows hold each column.
    fn resolve(&self, table: &TableSpec, columns: &[Column]) -> Result<(&str, Vec<Slot>), Error> {
        let name = self.require(table)?;
        let slots = columns.iter().map(|column| match self.schema().slot(name, column.name) {
            Some(slot) => Ok(slot),
            None if column.required => {
                Err(Error::NoColumn { path: self.path().to_owned(), table: table.name, column: column.name })
            }
            None => Ok(Slot::Absent),
        });
        Ok((name, slots.collect::<Result<_, _>>()?))
    }

    /// A scan of a table that does not lie in the file as a plain b-tree of rows.
    fn scan_by_sqlite(
        &self,
        name: &str,
        columns: &[Column],
        slots: &[Slot],
        mut visit: impl FnMut(&Row<'_>),
    ) -> Result<(), Error> {
        let mut sql = String::from("SELECT ");
        // A table without row ids has none to give.
        sql.push_str(if self.schema().has_rowid(name) { "rowid" } else { "0" });
        for (column, slot) in columns.iter().zip(slots) {
            match slot {
                Slot::Absent => sql.push_str(", NULL"),
                _ => {
                    let _ = write!(sql, ", \"{}\"", column.name);
                }
            }
        }
        let _ = write!(sql, " FROM \"{name}\"");
        // A connection of its own: the visitor may look up strings meanwhile.
        let connection = connect(self.path())?;
        let mut statement = connection.prepare(&sql).map_err(|source| self.sqlite(source))?;
        let mut rows = statement.query([]).map_err(|source| self.sqlite(source))?;
        while let Some(row) = rows.next().map_err(|source| self.sqlite(source))? {
            visit(&Row::of_sqlite(row));
        }
        Ok(())
    }
}

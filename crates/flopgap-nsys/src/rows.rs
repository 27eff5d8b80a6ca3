//! The rows of a table: all of them, or one after the other.

use std::fmt::{self, Write as _};
use std::vec;

use flopgap_sqlite::{Rows as Pages, Slot};

use crate::filter::RowFilter;
use crate::row::{Held, Row};
use crate::tables::{Column, TableSpec};
use crate::trace::{Tally, connect};
use crate::{Error, Trace, Warning};

/// What is said of rows of which nothing could be made.
pub(crate) const UNUSABLE: &str = "without the numbers it needs: left out";

/// What is done with each row of a table, and what was strange in them.
#[derive(Debug, Default)]
struct Offer {
    filter: Option<RowFilter>,
    /// Where the columns `start` and `end` are, if both are read.
    span: Option<(usize, usize)>,
    unusable: Tally,
    backward: Tally,
    strange: Tally,
}

impl Offer {
    fn new(filter: Option<RowFilter>, columns: &[Column]) -> Offer {
        let place = |name: &str| columns.iter().position(|column| column.name == name);
        Offer { filter, span: place("start").zip(place("end")), ..Offer::default() }
    }

    /// Offers a row that the filter keeps; one of which nothing is made could not be used.
    #[inline]
    fn row<T>(&mut self, row: &Row<'_>, visit: impl FnOnce(&Row<'_>) -> Option<T>) -> Option<T> {
        if self.filter.as_ref().is_some_and(|filter| !filter.keeps(row)) {
            return None;
        }
        let made = visit(row);
        if let Some((start, end)) = self.span
            && let (Some(start), Some(end)) = (row.int(start), row.int(end))
            && end < start
        {
            self.backward.add(row.id());
        } else if made.is_none() {
            self.unusable.add(row.id());
        } else if row.was_mistyped() {
            self.strange.add(row.id());
        }
        made
    }

    fn end(&mut self, trace: &Trace, table: &str) -> Result<(), Error> {
        trace.warn(table, &self.unusable, UNUSABLE);
        trace.warn(
            table,
            &self.backward,
            "ending before the start: `nsys stats` and its reports here count a negative time, other answers leave it out",
        );
        trace.warn(
            table,
            &self.strange,
            "with text or a fraction where a whole number belongs: that value was ignored",
        );
        trace.unchanged()
    }
}

/// The rows of a table, in the order of the file, one when it is asked for. They keep the file open.
pub(crate) struct Rows {
    trace: Trace,
    table: String,
    source: Source,
    offer: Offer,
}

enum Source {
    Pages(Box<Pages>),
    /// A table that only `SQLite` can read is read when the first row is asked for.
    Held(vec::IntoIter<Held>),
}

impl Rows {
    /// What `visit` makes of the next row of which it makes something; nothing after the last. Rows of which it makes nothing are
    /// counted as a warning.
    #[inline]
    pub(crate) fn next<T>(
        &mut self,
        mut visit: impl FnMut(&Row<'_>) -> Option<T>,
    ) -> Result<Option<T>, Error> {
        loop {
            let made = match &mut self.source {
                Source::Pages(rows) => {
                    match rows.next_row().map_err(|error| self.trace.fault(&self.table, error))? {
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
        self.offer.end(&self.trace, &self.table)?;
        Ok(None)
    }
}

/// The rows of one kind, in the order of the file, one when it is asked for: what [`Trace::kernel_rows`] and its like give.
///
/// It keeps the file open by itself, so it may outlive the [`Trace`] and go to another thread. After an error there are no more rows.
pub struct RowsOf<T> {
    rows: Rows,
    read: fn(&Row<'_>) -> Option<T>,
    failed: bool,
}

impl<T> RowsOf<T> {
    /// What was strange in the rows so far, and in those that others read of the same file; complete at the end.
    pub fn warnings(&self) -> Vec<Warning> {
        self.rows.trace.warnings()
    }
}

impl<T> fmt::Debug for RowsOf<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RowsOf").field("table", &self.rows.table).finish_non_exhaustive()
    }
}

impl<T> Iterator for RowsOf<T> {
    type Item = Result<T, Error>;

    #[inline]
    fn next(&mut self) -> Option<Result<T, Error>> {
        if self.failed {
            return None;
        }
        let next = self.rows.next(self.read);
        self.failed = next.is_err();
        next.transpose()
    }
}

/// How a table is read.
struct Resolved<'t> {
    /// Its name in this export.
    table: &'t str,
    columns: Vec<Column>,
    slots: Vec<Slot>,
    filter: Option<RowFilter>,
}

impl Trace {
    /// The rows of a table, in the order of the file. Optional columns that the export does not have are NULL.
    pub(crate) fn rows(&self, table: &TableSpec, columns: &[Column]) -> Result<Rows, Error> {
        let Resolved { table, columns, slots, filter } = self.resolve(table, columns)?;
        let source = if let Some((database, root)) = self.plain(table) {
            let rows = database.rows(root, &slots).map_err(|error| self.fault(table, error))?;
            Source::Pages(Box::new(rows))
        } else {
            let mut held = Vec::new();
            self.scan_by_sqlite(table, &columns, &slots, |row| held.push(row.hold(columns.len())))?;
            Source::Held(held.into_iter())
        };
        let offer = Offer::new(filter, &columns);
        Ok(Rows { trace: self.with_filter(self.filter()), table: table.to_owned(), source, offer })
    }

    /// What `read` makes of the rows of a table, for whoever asks for them one by one.
    pub(crate) fn rows_of<T>(
        &self,
        table: &TableSpec,
        columns: &[Column],
        read: fn(&Row<'_>) -> Option<T>,
    ) -> Result<RowsOf<T>, Error> {
        Ok(RowsOf { rows: self.rows(table, columns)?, read, failed: false })
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
        if self.plain(self.require(table)?).is_some() {
            let mut rows = self.rows(table, columns)?;
            while rows.next(&mut visit)?.is_some() {}
            return Ok(());
        }
        let Resolved { table, columns, slots, filter } = self.resolve(table, columns)?;
        let mut offer = Offer::new(filter, &columns);
        self.scan_by_sqlite(table, &columns, &slots, |row| {
            offer.row(row, &mut visit);
        })?;
        offer.end(self, table)
    }

    /// How many rows a table (a name that the export has) has, whatever the filter.
    pub(crate) fn count(&self, table: &str) -> Result<u64, Error> {
        let mut count = 0;
        if let Some((database, root)) = self.plain(table) {
            let fault = |error| self.fault(table, error);
            let mut rows = database.rows(root, &[]).map_err(fault)?;
            while rows.next_row().map_err(fault)?.is_some() {
                count += 1;
            }
        } else {
            self.scan_by_sqlite(table, &[], &[], |_| count += 1)?;
        }
        Ok(count)
    }

    /// Where a table is, and where its rows hold each column, those of the filter last.
    fn resolve(&self, table: &TableSpec, columns: &[Column]) -> Result<Resolved<'_>, Error> {
        let name = self.require(table)?;
        let mut columns = columns.to_vec();
        let filter = self.filter().and_then(|filter| {
            let (filter, more) = RowFilter::new(filter, table, self.schema(), columns.len())?;
            columns.extend(more);
            Some(filter)
        });
        let slots = columns.iter().map(|column| match self.schema().slot(name, column.name) {
            Some(slot) => Ok(slot),
            None if column.required => {
                Err(Error::NoColumn { path: self.path().to_owned(), table: table.name, column: column.name })
            }
            None => Ok(Slot::Absent),
        });
        let slots = slots.collect::<Result<_, _>>()?;
        Ok(Resolved { table: name, columns, slots, filter })
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

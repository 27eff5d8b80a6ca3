//! Reads the rows of a table on demand.

use std::fmt;
use std::vec;

use crate::sqlite::{Rows as Pages, Slot, Value};

use crate::row::{Field, Row};
use crate::tables::TableSpec;
use crate::tables::row_filter::RowFilter;
use crate::trace::Tally;
use crate::warning::Oddity;
use crate::{Error, Trace};

/// A column to read.
#[derive(Clone, Copy, Debug)]
struct Column {
    name: &'static str,
    /// Whether rows are meaningless without it.
    required: bool,
}

/// The columns of a table that a decoder reads.
pub(crate) struct Select<'t> {
    trace: &'t Trace,
    table: &'static TableSpec,
    columns: Vec<Column>,
}

impl Select<'_> {
    /// A column without which rows are meaningless.
    pub(crate) fn need(&mut self, name: &'static str) -> Field {
        self.add(name, true)
    }

    /// A column that some exports lack: it is NULL in all of their rows.
    pub(crate) fn want(&mut self, name: &'static str) -> Field {
        self.add(name, false)
    }

    fn add(&mut self, name: &'static str, required: bool) -> Field {
        self.columns.push(Column { name, required });
        Field(self.columns.len() - 1)
    }

    /// The rows of the table, as `decode` decodes them.
    ///
    /// # Errors
    /// [`Error::NoTable`] when the export does not have it, [`Error::NoColumn`] when it lacks a
    /// column that is needed.
    pub(crate) fn rows<T: Send + 'static, D>(self, decode: D) -> Result<impl Decoded<T> + use<T, D>, Error>
    where
        D: FnMut(&Row<'_>) -> Option<T> + Send + 'static,
    {
        Ok(Rows { scan: self.scan()?, decode, ahead: Ahead::new() })
    }

    /// The rows of the table, to be decoded where they are read.
    ///
    /// # Errors
    /// As [`Select::rows`].
    pub(crate) fn scan(mut self) -> Result<Scan, Error> {
        let Select { trace, table, .. } = self;
        let name = trace.require(table)?;
        let place = |name| self.columns.iter().position(|column| column.name == name).map(Field);
        let span = place("start").zip(place("end"));
        let filter = trace
            .filter()
            .and_then(|filter| RowFilter::of(filter, table, trace.schema(), |name| self.want(name)));
        let columns = self.columns;
        let slots = columns.iter().map(|column| match trace.schema().slot(name, column.name) {
            Some(slot) => Ok(slot),
            None if column.required => {
                Err(Error::NoColumn { path: trace.path().to_owned(), table: table.name, column: column.name })
            }
            None => Ok(Slot::Absent),
        });
        let slots: Vec<Slot> = slots.collect::<Result<_, _>>()?;
        let (database, root) = trace.pages(name)?;
        let rows = database.rows(root, &slots).map_err(|error| trace.fault(name, error))?;
        let rows = Box::new(rows);
        let offer = Offer { filter, span, ..Offer::default() };
        Ok(Scan { trace: trace.with_filter(None), table: name.to_owned(), rows, offer, done: false })
    }
}

/// Which rows are decoded, and warnings about them.
#[derive(Debug, Default)]
struct Offer {
    filter: Option<RowFilter>,
    /// The columns `start` and `end`, if both are read.
    span: Option<(Field, Field)>,
    unusable: Tally,
    backward: Tally,
    mistyped: Tally,
    out_of_range: Tally,
}

impl Offer {
    /// Decodes a row that the filter keeps; one that cannot be decoded is counted.
    #[inline]
    fn row(&mut self, row: &Row<'_>, decode: impl FnOnce(&Row<'_>) -> Option<()>) {
        if self.filter.as_ref().is_some_and(|filter| !filter.keeps(row)) {
            return;
        }
        let decoded = decode(row);
        if let Some((start, end)) = self.span
            && let (Some(start), Some(end)) = (row.int(start), row.int(end))
            && end < start
        {
            self.backward.add(row.id());
        } else if decoded.is_none() {
            let tally = if row.was_out_of_range() { &mut self.out_of_range } else { &mut self.unusable };
            tally.add(row.id());
        } else if row.was_mistyped() {
            self.mistyped.add(row.id());
        }
    }

    fn end(&self, trace: &Trace, table: &str) -> Result<(), Error> {
        trace.warn(table, &self.unusable, Oddity::Unusable);
        trace.warn(table, &self.backward, Oddity::EndsBeforeStart);
        trace.warn(table, &self.mistyped, Oddity::NotWhole);
        trace.warn(table, &self.out_of_range, Oddity::OutOfRange);
        trace.unchanged()
    }
}

/// The rows of a table in the order of the file. They keep the file open.
pub(crate) struct Scan {
    trace: Trace,
    table: String,
    rows: Box<Pages>,
    offer: Offer,
    done: bool,
}

impl Scan {
    /// Decodes the next rows: so many that the caller seldom asks, so few that they stay in the
    /// cache.
    ///
    /// `decode` returns none for a row that it cannot use.
    #[inline]
    fn some(&mut self, mut decode: impl FnMut(&Row<'_>) -> Option<()>) -> Result<(), Error> {
        for _ in 0..AHEAD {
            match self.rows.next_row() {
                Ok(Some(record)) => self.offer.row(&Row::new(record), &mut decode),
                Ok(None) => return self.end(),
                Err(error) => {
                    self.done = true;
                    return Err(self.trace.fault(&self.table, error));
                }
            }
        }
        Ok(())
    }

    #[cold]
    fn end(&mut self) -> Result<(), Error> {
        self.done = true;
        self.offer.end(&self.trace, &self.table)
    }
}

/// How many rows are decoded at once.
const AHEAD: usize = 128;

/// Rows that were decoded and not asked for yet.
///
/// A decoder runs over some rows at once and the fast path of a loop over them is a few
/// instructions: a row costs a third less than where each comes through the layers by itself.
pub(crate) struct Ahead<T> {
    rows: vec::IntoIter<T>,
    /// What ended the reading, to be reported after these rows.
    failure: Option<Error>,
}

impl<T> Ahead<T> {
    pub(crate) fn new() -> Ahead<T> {
        Ahead { rows: Vec::new().into_iter(), failure: None }
    }

    /// The next row of a scan; `None` after the last, and after an error.
    ///
    /// `decode` adds what it makes of a row, and returns none for a row that it cannot use.
    #[inline]
    pub(crate) fn next(
        &mut self,
        scan: &mut Scan,
        decode: impl FnMut(&Row<'_>, &mut Vec<T>) -> Option<Result<(), Error>>,
    ) -> Option<Result<T, Error>> {
        match self.rows.next() {
            Some(row) => Some(Ok(row)),
            None => self.refill(scan, decode),
        }
    }

    #[inline(never)]
    fn refill(
        &mut self,
        scan: &mut Scan,
        mut decode: impl FnMut(&Row<'_>, &mut Vec<T>) -> Option<Result<(), Error>>,
    ) -> Option<Result<T, Error>> {
        let mut rows = Vec::with_capacity(AHEAD);
        let failure = &mut self.failure;
        while rows.is_empty() && !scan.done && failure.is_none() {
            let read = scan.some(|row| {
                if let Err(error) = decode(row, &mut rows)? {
                    *failure = failure.take().or(Some(error));
                }
                Some(())
            });
            if let Err(error) = read {
                *failure = failure.take().or(Some(error));
            }
        }
        self.rows = rows.into_iter();
        match self.rows.next() {
            Some(row) => Some(Ok(row)),
            None => self.failure.take().map(|error| {
                scan.done = true;
                Err(error)
            }),
        }
    }
}

/// The decoded rows of a table, in the order of the file. After an error there are no more.
struct Rows<T, D> {
    scan: Scan,
    decode: D,
    ahead: Ahead<T>,
}

impl<T, D: FnMut(&Row<'_>) -> Option<T>> Iterator for Rows<T, D> {
    type Item = Result<T, Error>;

    #[inline]
    fn next(&mut self) -> Option<Result<T, Error>> {
        let Rows { scan, decode, ahead } = self;
        ahead.next(scan, |row, rows| {
            rows.push(decode(row)?);
            Some(Ok(()))
        })
    }
}

/// Decoded rows, whatever decodes them.
pub(crate) trait Decoded<T>: Iterator<Item = Result<T, Error>> + Send + 'static {}

impl<T, R: Iterator<Item = Result<T, Error>> + Send + 'static> Decoded<T> for R {}

/// The rows of one kind, in the order of the file, read on demand: what
/// [`Trace::kernels`] and its like return.
///
/// It keeps the file open by itself, so it may outlive the [`Trace`] and go to another thread.
/// After an error there are no more rows.
pub struct RowsOf<T> {
    trace: Trace,
    rows: Box<dyn Iterator<Item = Result<T, Error>> + Send>,
}

impl<T> RowsOf<T> {
    pub(crate) fn new(trace: &Trace, rows: impl Decoded<T>) -> RowsOf<T> {
        RowsOf { trace: trace.with_filter(None), rows: Box::new(rows) }
    }
}

impl<T> fmt::Debug for RowsOf<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RowsOf").field("path", &self.trace.path()).finish_non_exhaustive()
    }
}

impl<T> Iterator for RowsOf<T> {
    type Item = Result<T, Error>;

    #[inline]
    fn next(&mut self) -> Option<Result<T, Error>> {
        self.rows.next()
    }
}

impl Trace {
    /// Begins to read a table.
    pub(crate) fn select(&self, table: &'static TableSpec) -> Select<'_> {
        Select { trace: self, table, columns: Vec::new() }
    }

    /// When the rows of a table start, whatever else they hold.
    pub(crate) fn starts(&self, table: &'static TableSpec) -> Result<impl Decoded<i64> + use<>, Error> {
        let mut select = self.select(table);
        let start = select.need("start");
        let rows = select.rows(move |row| match row.value(start) {
            Value::Int(start) => Some(Some(start)),
            _ => Some(None),
        })?;
        Ok(rows.filter_map(Result::transpose))
    }

    /// How many rows a table (a name that the export has) has, whatever the filter.
    pub(crate) fn count(&self, table: &str) -> Result<u64, Error> {
        let (database, root) = self.pages(table)?;
        let fault = |error| self.fault(table, error);
        let mut count = 0;
        let mut rows = database.rows(root, &[]).map_err(fault)?;
        while rows.next_row().map_err(fault)?.is_some() {
            count += 1;
        }
        Ok(count)
    }
}

//! The rows of a table in the order of their starts, of which as few as possible are held.

use std::vec;

use flopgap_sqlite::Value;

use crate::row::Row;
use crate::rows::Rows;
use crate::tables::{Column, TableSpec};
use crate::{Error, Trace};

/// Where the rows of a table are in the order of their starts, it is read once and nothing is held. Rows that start before one
/// that comes earlier in the file are late: they, and no others, are read before all others and sorted.
pub(crate) struct InTime<T, R> {
    rows: Rows,
    read: R,
    /// The latest start so far, of rows in their place.
    latest: i64,
    /// The next row that is in its place.
    next: Option<Timed<T>>,
    late: vec::IntoIter<Timed<T>>,
    next_late: Option<Timed<T>>,
}

/// A row with its start and its place in the file.
struct Timed<T> {
    key: (i64, i64),
    made: T,
}

/// What is made of each row of `table` whose first of `columns` is the start; rows of which nothing is made are left out, and warned of.
///
/// # Errors
/// [`Error::NoTable`] and [`Error::NoColumn`] as [`Trace::rows`]; damage anywhere in the table, before any row is given.
pub(crate) fn in_time<T, R: FnMut(&Row<'_>) -> Option<T>>(
    trace: &Trace,
    table: &TableSpec,
    columns: &[Column],
    mut read: R,
) -> Result<InTime<T, R>, Error> {
    let (mut latest, mut late) = (i64::MIN, 0_usize);
    trace.scan(table, &columns[..1], |row| {
        if let Value::Int(start) = row.value(0) {
            late += usize::from(start < latest);
            latest = latest.max(start);
        }
        Some(())
    })?;
    let mut held = Vec::with_capacity(late);
    if late > 0 {
        let mut latest = i64::MIN;
        trace.scan(table, columns, |row| {
            let made = read(row);
            let (start, is_late) = place(row, &mut latest)?;
            let made = made?;
            if is_late {
                held.push(Timed { key: (start, row.id()), made });
            }
            Some(())
        })?;
        // Stable: tables without row ids keep the order in which they are read.
        held.sort_by_key(|timed| timed.key);
    }
    let rows = trace.rows(table, columns)?;
    let mut in_time =
        InTime { rows, read, latest: i64::MIN, next: None, late: held.into_iter(), next_late: None };
    in_time.next_late = in_time.late.next();
    in_time.advance()?;
    Ok(in_time)
}

/// When a row starts, and whether it is late.
#[inline]
fn place(row: &Row<'_>, latest: &mut i64) -> Option<(i64, bool)> {
    let Value::Int(start) = row.value(0) else { return None };
    let is_late = start < *latest;
    *latest = (*latest).max(start);
    Some((start, is_late))
}

impl<T, R: FnMut(&Row<'_>) -> Option<T>> InTime<T, R> {
    /// When the next row starts; nothing after the last.
    #[inline]
    pub(crate) fn start(&self) -> Option<i64> {
        let keys =
            (self.next.as_ref().map(|timed| timed.key), self.next_late.as_ref().map(|timed| timed.key));
        match keys {
            (Some(next), Some(late)) => Some(next.min(late).0),
            (next, late) => next.or(late).map(|key| key.0),
        }
    }

    /// The next row; nothing after the last.
    pub(crate) fn take(&mut self) -> Result<Option<T>, Error> {
        let late_first = match (&self.next, &self.next_late) {
            (Some(next), Some(late)) => late.key < next.key,
            (None, late) => late.is_some(),
            (_, None) => false,
        };
        if late_first {
            let taken = std::mem::replace(&mut self.next_late, self.late.next());
            return Ok(taken.map(|timed| timed.made));
        }
        let taken = self.next.take();
        self.advance()?;
        Ok(taken.map(|timed| timed.made))
    }

    fn advance(&mut self) -> Result<(), Error> {
        let (latest, read) = (&mut self.latest, &mut self.read);
        loop {
            let next = self.rows.next(|row| {
                let made = read(row);
                let (start, is_late) = place(row, latest)?;
                let timed = Timed { key: (start, row.id()), made: made? };
                Some((!is_late).then_some(timed))
            })?;
            match next {
                // It was given among those that are late.
                Some(None) => {}
                Some(next) => {
                    self.next = next;
                    return Ok(());
                }
                None => return Ok(()),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rusqlite::Connection;

    use super::*;
    use crate::tables::{MEMSET, need};

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]

        /// Rows in any order come out as a stable sort would have them.
        #[test]
        fn rows_come_by_start_then_by_place(starts in prop::collection::vec(-20_i64..20, 0..60), plain in any::<bool>()) {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("t.sqlite");
            let connection = Connection::open(&path).unwrap();
            let extra = if plain { "" } else { ", x INTEGER DEFAULT 7" };
            connection.execute_batch(&format!("CREATE TABLE {}(start INTEGER, end INTEGER{extra})", MEMSET.name)).unwrap();
            for (end, start) in starts.iter().enumerate() {
                connection.execute(
                    &format!("INSERT INTO {}(start, end) VALUES (?1, ?2)", MEMSET.name),
                    (start, 100 + i64::try_from(end).unwrap()),
                ).unwrap();
            }
            let unusable = format!("INSERT INTO {}(start, end) VALUES ('soon', 100), (3, NULL), (-30, NULL)", MEMSET.name);
            connection.execute_batch(&unusable).unwrap();
            drop(connection);
            let trace = Trace::open(&path).unwrap();
            let columns = [need("start"), need("end")];
            let mut rows = in_time(&trace, &MEMSET, &columns, |row| Some((row.int(0)?, row.int(1)?))).unwrap();
            let mut found = Vec::new();
            while let Some(start) = rows.start() {
                let row = rows.take().unwrap().unwrap();
                prop_assert_eq!(row.0, start);
                found.push(row);
            }
            let mut expected: Vec<(i64, i64)> = starts.iter().copied().zip(100..).collect();
            expected.sort_by_key(|row| row.0);
            prop_assert_eq!(found, expected);
            prop_assert_eq!(trace.warnings().iter().map(|warning| warning.rows).collect::<Vec<_>>(), [3]);
        }
    }
}

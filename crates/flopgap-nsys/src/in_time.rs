//! Reads the rows of a table in start order, holding as few of them as possible.

use std::vec;

use crate::tables::TableSpec;
use crate::{Error, Trace};

/// Where the rows of a table are in the order of their starts, it is read once and nothing is held.
/// Rows that start before one that comes earlier in the file are late: they, and no others, are
/// read before all others and sorted.
pub(crate) struct InTime<T, R> {
    rows: R,
    start_of: fn(&T) -> i64,
    /// The latest start so far, of rows in their place.
    latest: i64,
    /// The next row that is in its place, and when it starts.
    next: Option<(i64, T)>,
    late: vec::IntoIter<(i64, T)>,
    next_late: Option<(i64, T)>,
}

/// The rows that `open` reads of `table`, by start; of rows that start together in the order of the
/// file.
///
/// # Errors
/// [`Error::NoTable`] and [`Error::NoColumn`] when the table cannot be read so; damage anywhere in
/// the table, before any row is given.
pub(crate) fn in_time<T, R: Iterator<Item = Result<T, Error>>>(
    trace: &Trace,
    table: &'static TableSpec,
    open: impl Fn() -> Result<R, Error>,
    start_of: fn(&T) -> i64,
) -> Result<InTime<T, R>, Error> {
    let (mut latest, mut late) = (i64::MIN, 0_usize);
    for start in trace.starts(table)? {
        let start = start?;
        late += usize::from(start < latest);
        latest = latest.max(start);
    }
    let mut held = Vec::with_capacity(late);
    if late > 0 {
        let mut latest = i64::MIN;
        for row in open()? {
            let row = row?;
            let start = start_of(&row);
            if start < latest {
                held.push((start, row));
            }
            latest = latest.max(start);
        }
        // Stable: of rows that start together the order of the file stays.
        held.sort_by_key(|(start, _)| *start);
    }
    let mut late = held.into_iter();
    let next_late = late.next();
    let mut in_time = InTime { rows: open()?, start_of, latest: i64::MIN, next: None, late, next_late };
    in_time.advance()?;
    Ok(in_time)
}

impl<T, R: Iterator<Item = Result<T, Error>>> InTime<T, R> {
    /// When the next row starts; `None` after the last.
    #[inline]
    pub(crate) fn start(&self) -> Option<i64> {
        let start = |next: &Option<(i64, T)>| next.as_ref().map(|(start, _)| *start);
        match (start(&self.next), start(&self.next_late)) {
            (Some(next), Some(late)) => Some(next.min(late)),
            (next, late) => next.or(late),
        }
    }

    /// Goes to the next row that is not late: those that are late are held already.
    fn advance(&mut self) -> Result<(), Error> {
        self.next = None;
        for row in self.rows.by_ref() {
            let row = row?;
            let start = (self.start_of)(&row);
            if start >= self.latest {
                self.latest = start;
                self.next = Some((start, row));
                break;
            }
        }
        Ok(())
    }
}

impl<T, R: Iterator<Item = Result<T, Error>>> Iterator for InTime<T, R> {
    type Item = Result<T, Error>;

    fn next(&mut self) -> Option<Result<T, Error>> {
        // A row that is late comes later in the file than one in its place that starts with it.
        let late_first = match (&self.next, &self.next_late) {
            (Some((next, _)), Some((late, _))) => late < next,
            (None, late) => late.is_some(),
            (_, None) => false,
        };
        if late_first {
            let taken = std::mem::replace(&mut self.next_late, self.late.next());
            return taken.map(|(_, row)| Ok(row));
        }
        let (_, row) = self.next.take()?;
        Some(self.advance().map(|()| row))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rusqlite::Connection;

    use super::*;
    use crate::tables::gpu::MEMSET;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]

        /// Rows in any order come out as a stable sort would have them.
        #[test]
        fn rows_come_by_start_then_by_place(starts in prop::collection::vec(-20_i64..20, 0..60)) {
            let (_folder, [path]) = flopgap_testing::paths(["t.sqlite"]);
            let connection = Connection::open(&path).unwrap();
            connection.execute_batch(&format!("CREATE TABLE {}(start INTEGER, end INTEGER)", MEMSET.name)).unwrap();
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
            let open = || {
                let mut select = trace.select(&MEMSET);
                let (start, end) = (select.need("start"), select.need("end"));
                select.rows(move |row| Some((row.int(start)?, row.int(end)?)))
            };
            let mut rows = in_time(&trace, &MEMSET, open, |row: &(i64, i64)| row.0).unwrap();
            let mut found = Vec::new();
            while let Some(start) = rows.start() {
                let row = rows.next().unwrap().unwrap();
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

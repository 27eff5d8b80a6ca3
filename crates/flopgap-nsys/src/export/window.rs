//! Rows in the order of time, without holding them all.

use std::cmp::{Ordering, Reverse};
use std::collections::{BinaryHeap, VecDeque};

use crate::Error;

/// How many rows are held back. Recorded exports have a few rows out of order, each by a few places.
const HELD: usize = 1 << 14;

struct Entry<T> {
    start: i64,
    end: i64,
    /// Its place in the file, so that rows of equal span keep their order.
    place: u64,
    row: T,
}

impl<T> Entry<T> {
    /// The one that contains the other comes first.
    fn key(&self) -> (i64, Reverse<i64>, u64) {
        (self.start, Reverse(self.end), self.place)
    }
}

impl<T> PartialEq for Entry<T> {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}

impl<T> Eq for Entry<T> {}

impl<T> PartialOrd for Entry<T> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<T> Ord for Entry<T> {
    fn cmp(&self, other: &Self) -> Ordering {
        self.key().cmp(&other.key())
    }
}

/// The rows that are held back.
struct Held<T> {
    /// Those that came in order: a row goes here when it comes after the last.
    queue: VecDeque<Entry<T>>,
    /// The others.
    late: BinaryHeap<Reverse<Entry<T>>>,
}

impl<T> Held<T> {
    fn push(&mut self, entry: Entry<T>) {
        if self.queue.back().is_none_or(|last| *last <= entry) {
            self.queue.push_back(entry);
        } else {
            self.late.push(Reverse(entry));
        }
    }

    fn len(&self) -> usize {
        self.queue.len() + self.late.len()
    }

    /// Takes the first.
    fn pop(&mut self) -> Option<T> {
        let late_first = match (self.queue.front(), self.late.peek()) {
            (Some(queued), Some(Reverse(late))) => late < queued,
            (queued, _) => queued.is_none(),
        };
        let first = if late_first { self.late.pop().map(|late| late.0) } else { self.queue.pop_front() };
        first.map(|entry| entry.row)
    }

    fn clear(&mut self) {
        self.queue.clear();
        self.late.clear();
    }
}

/// Passes the rows of `scan` (start, end, row) to `write` by start, the longer first; a row that is further out of order
/// than the window is wide comes late.
pub(super) fn in_order<T>(
    scan: impl FnOnce(&mut dyn FnMut(i64, i64, T)) -> Result<(), Error>,
    mut write: impl FnMut(T) -> Result<(), Error>,
) -> Result<(), Error> {
    let mut held = Held { queue: VecDeque::new(), late: BinaryHeap::new() };
    let mut place = 0;
    let mut written = Ok(());
    scan(&mut |start, end, row| {
        held.push(Entry { start, end, place, row });
        place += 1;
        if held.len() > HELD
            && written.is_ok()
            && let Some(first) = held.pop()
        {
            written = write(first);
        }
        if written.is_err() {
            held.clear();
        }
    })?;
    written?;
    while let Some(first) = held.pop() {
        write(first)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn displaced_rows_come_in_order_and_none_is_lost() {
        let rows = (0..100_000_i64).map(|row| row ^ 0x3ff);
        let mut seen = Vec::new();
        let scan = |visit: &mut dyn FnMut(i64, i64, i64)| {
            rows.for_each(|row| visit(row, row + 1, row));
            Ok(())
        };
        in_order(scan, |row| {
            seen.push(row);
            Ok(())
        })
        .unwrap();
        assert_eq!(seen.len(), 100_000);
        assert!(seen.is_sorted());
    }

    #[test]
    fn of_rows_that_start_together_the_longest_is_first() {
        let mut seen = Vec::new();
        let scan = |visit: &mut dyn FnMut(i64, i64, &'static str)| {
            visit(5, 6, "inner");
            visit(5, 9, "outer");
            visit(5, 6, "innermost");
            Ok(())
        };
        in_order(scan, |row| {
            seen.push(row);
            Ok(())
        })
        .unwrap();
        assert_eq!(seen, ["outer", "inner", "innermost"]);
    }
}

//! Sorts rows by time without holding all of them.

use std::cmp::{Ordering, Reverse};
use std::collections::{BinaryHeap, VecDeque};

use crate::Error;

/// How many rows are held back. Recorded exports have a few rows out of order, each by a few
/// places.
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

/// Rows by start, the longer first.
pub(super) struct InOrder<T, R> {
    rows: R,
    span: fn(&T) -> (i64, i64),
    held: Held<T>,
    place: u64,
}

/// The rows by start, the longer first, where `span` says when a row starts and ends; a row that is
/// further out of order than the window is wide comes late.
pub(super) fn in_order<T, R: Iterator<Item = Result<T, Error>>>(
    rows: R,
    span: fn(&T) -> (i64, i64),
) -> InOrder<T, R> {
    InOrder { rows, span, held: Held { queue: VecDeque::new(), late: BinaryHeap::new() }, place: 0 }
}

impl<T, R: Iterator<Item = Result<T, Error>>> Iterator for InOrder<T, R> {
    type Item = Result<T, Error>;

    fn next(&mut self) -> Option<Result<T, Error>> {
        for row in self.rows.by_ref() {
            let row = match row {
                Ok(row) => row,
                Err(error) => {
                    self.held.clear();
                    return Some(Err(error));
                }
            };
            let (start, end) = (self.span)(&row);
            self.held.push(Entry { start, end, place: self.place, row });
            self.place += 1;
            if self.held.len() > HELD {
                break;
            }
        }
        self.held.pop().map(Ok)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn displaced_rows_come_in_order_and_none_is_lost() {
        let rows = (0..100_000_i64).map(|row| Ok(row ^ 0x3ff));
        let seen: Vec<i64> = in_order(rows, |row| (*row, row + 1)).collect::<Result<_, _>>().unwrap();
        assert_eq!(seen.len(), 100_000);
        assert!(seen.is_sorted());
    }

    #[test]
    fn of_rows_that_start_together_the_longest_is_first() {
        let rows = [(5, 6, "inner"), (5, 9, "outer"), (5, 6, "innermost")].map(Ok);
        let seen = in_order(rows.into_iter(), |(start, end, _)| (*start, *end)).map(|row| row.unwrap().2);
        assert_eq!(seen.collect::<Vec<_>>(), ["outer", "inner", "innermost"]);
    }

    #[test]
    fn an_error_is_the_last_row() {
        let failure = || Error::Output { source: std::io::ErrorKind::Other.into() };
        let rows = [Ok(1), Ok(2), Err(failure())].into_iter();
        let seen: Vec<bool> = in_order(rows, |row| (*row, *row)).map(|row| row.is_ok()).collect();
        assert_eq!(seen, [false]);
    }
}

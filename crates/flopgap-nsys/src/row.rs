//! One row of a scan.

use std::cell::Cell;

use rusqlite::types::ValueRef;

use crate::pages::{Record, Value};

/// A row; columns count from 0 as they were asked for.
pub(crate) struct Row<'a> {
    source: Source<'a>,
    mistyped: Cell<bool>,
}

enum Source<'a> {
    Page(Record<'a>),
    /// The row id comes first.
    Sqlite(&'a rusqlite::Row<'a>),
}

impl<'a> Row<'a> {
    #[inline]
    pub(crate) fn of_page(record: Record<'a>) -> Row<'a> {
        Row { source: Source::Page(record), mistyped: Cell::new(false) }
    }

    pub(crate) fn of_sqlite(row: &'a rusqlite::Row<'a>) -> Row<'a> {
        Row { source: Source::Sqlite(row), mistyped: Cell::new(false) }
    }

    /// The rowid.
    #[inline]
    pub(crate) fn id(&self) -> i64 {
        match &self.source {
            Source::Page(record) => record.rowid(),
            Source::Sqlite(row) => {
                row.get_ref(0).ok().and_then(|value| value.as_i64().ok()).unwrap_or_default()
            }
        }
    }

    /// The integer in a column; nothing when it is NULL or not an integer.
    #[inline]
    pub(crate) fn int(&self, column: usize) -> Option<i64> {
        match self.value(column) {
            Value::Int(value) => Some(value),
            Value::Null => None,
            _ => {
                self.mistyped.set(true);
                None
            }
        }
    }

    /// The number in a column, whole or not; nothing when it is NULL or no number.
    pub(crate) fn real(&self, column: usize) -> Option<f64> {
        match self.value(column) {
            Value::Real(value) => Some(value),
            Value::Int(value) => Some(value as f64),
            _ => None,
        }
    }

    /// The text in a column; nothing when it is NULL or not UTF-8.
    pub(crate) fn text(&self, column: usize) -> Option<&'a str> {
        match self.value(column) {
            Value::Text(bytes) => std::str::from_utf8(bytes).ok(),
            _ => None,
        }
    }

    /// The value of a column as `SQLite` gives it.
    #[inline]
    pub(crate) fn value(&self, column: usize) -> Value<'a> {
        match &self.source {
            Source::Page(record) => record.value(column),
            Source::Sqlite(row) => match row.get_ref(column + 1) {
                Ok(ValueRef::Integer(value)) => Value::Int(value),
                Ok(ValueRef::Real(value)) => Value::Real(value),
                Ok(ValueRef::Text(bytes)) => Value::Text(bytes),
                Ok(ValueRef::Blob(bytes)) => Value::Blob(bytes),
                Ok(ValueRef::Null) | Err(_) => Value::Null,
            },
        }
    }

    /// Whether a column was read as a whole number that holds something else.
    #[inline]
    pub(crate) fn was_mistyped(&self) -> bool {
        self.mistyped.get()
    }
}

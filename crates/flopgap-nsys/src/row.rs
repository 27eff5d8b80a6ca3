//! One row of a scan.

use std::cell::Cell;

use flopgap_sqlite::{Record, Value};
use rusqlite::types::{Value as Owned, ValueRef};

/// A row; columns count from 0 as they were asked for.
pub(crate) struct Row<'a> {
    source: Source<'a>,
    mistyped: Cell<bool>,
}

enum Source<'a> {
    Page(Record<'a>),
    /// The row id comes first.
    Sqlite(&'a rusqlite::Row<'a>),
    Held(&'a Held),
}

/// The values of a row that outlive its statement.
pub(crate) struct Held {
    rowid: i64,
    values: Vec<Owned>,
}

impl<'a> Row<'a> {
    #[inline]
    pub(crate) fn of_page(record: Record<'a>) -> Row<'a> {
        Row { source: Source::Page(record), mistyped: Cell::new(false) }
    }

    pub(crate) fn of_sqlite(row: &'a rusqlite::Row<'a>) -> Row<'a> {
        Row { source: Source::Sqlite(row), mistyped: Cell::new(false) }
    }

    pub(crate) fn of_held(held: &'a Held) -> Row<'a> {
        Row { source: Source::Held(held), mistyped: Cell::new(false) }
    }

    /// The rowid and the first `columns` columns, kept.
    pub(crate) fn hold(&self, columns: usize) -> Held {
        let values = (0..columns).map(|column| match self.value(column) {
            Value::Null => Owned::Null,
            Value::Int(value) => Owned::Integer(value),
            Value::Real(value) => Owned::Real(value),
            // Texts that are not UTF-8 are kept as what they are: bytes.
            Value::Text(bytes) => match std::str::from_utf8(bytes) {
                Ok(text) => Owned::Text(text.to_owned()),
                Err(_) => Owned::Blob(bytes.to_owned()),
            },
            Value::Blob(bytes) => Owned::Blob(bytes.to_owned()),
        });
        Held { rowid: self.id(), values: values.collect() }
    }

    /// The rowid.
    #[inline]
    pub(crate) fn id(&self) -> i64 {
        match &self.source {
            Source::Page(record) => record.rowid(),
            Source::Held(held) => held.rowid,
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
            value => self.no_int(value),
        }
    }

    #[cold]
    fn no_int(&self, value: Value<'_>) -> Option<i64> {
        self.mistyped.set(self.mistyped.get() || value != Value::Null);
        None
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
            _ => self.value_from_sqlite(column),
        }
    }

    fn value_from_sqlite(&self, column: usize) -> Value<'a> {
        match &self.source {
            Source::Page(record) => record.value(column),
            Source::Sqlite(row) => row.get_ref(column + 1).map_or(Value::Null, value_of),
            Source::Held(held) => held.values.get(column).map_or(Value::Null, |value| value_of(value.into())),
        }
    }

    /// Whether a column was read as a whole number that holds something else.
    #[inline]
    pub(crate) fn was_mistyped(&self) -> bool {
        self.mistyped.get()
    }
}

fn value_of(value: ValueRef<'_>) -> Value<'_> {
    match value {
        ValueRef::Null => Value::Null,
        ValueRef::Integer(value) => Value::Int(value),
        ValueRef::Real(value) => Value::Real(value),
        ValueRef::Text(bytes) => Value::Text(bytes),
        ValueRef::Blob(bytes) => Value::Blob(bytes),
    }
}

//! One row of a table.

use std::cell::Cell;

use crate::sqlite::{Record, Value};
use rusqlite::types::{Value as Owned, ValueRef};

/// A column that a decoder selected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Field(pub(crate) usize);

/// A row.
pub(crate) struct Row<'a> {
    source: Source<'a>,
    mistyped: Cell<bool>,
    out_of_range: Cell<bool>,
}

enum Source<'a> {
    Page(Record<'a>),
    Held(&'a Held),
}

/// A row that `SQLite` read.
pub(crate) struct Held {
    rowid: i64,
    values: Vec<Owned>,
}

impl Held {
    /// The values of a row whose first column is its id.
    pub(crate) fn of(row: &rusqlite::Row<'_>, columns: usize) -> rusqlite::Result<Held> {
        let values = (1..=columns).map(|column| {
            Ok(match row.get_ref(column)? {
                // Texts that are not UTF-8 are kept as bytes.
                ValueRef::Text(bytes) => match std::str::from_utf8(bytes) {
                    Ok(text) => Owned::Text(text.to_owned()),
                    Err(_) => Owned::Blob(bytes.to_owned()),
                },
                ValueRef::Null => Owned::Null,
                ValueRef::Integer(value) => Owned::Integer(value),
                ValueRef::Real(value) => Owned::Real(value),
                ValueRef::Blob(bytes) => Owned::Blob(bytes.to_owned()),
            })
        });
        let values = values.collect::<rusqlite::Result<_>>()?;
        Ok(Held { rowid: row.get_ref(0)?.as_i64().unwrap_or_default(), values })
    }

    /// Not inlined, so that the loop over a page stays small.
    #[cold]
    #[inline(never)]
    fn value(&self, column: usize) -> Value<'_> {
        match self.values.get(column) {
            None | Some(Owned::Null) => Value::Null,
            Some(Owned::Integer(value)) => Value::Int(*value),
            Some(Owned::Real(value)) => Value::Real(*value),
            Some(Owned::Text(text)) => Value::Text(text.as_bytes()),
            Some(Owned::Blob(bytes)) => Value::Blob(bytes),
        }
    }
}

impl<'a> Row<'a> {
    #[inline]
    pub(crate) fn of_page(record: Record<'a>) -> Row<'a> {
        Row { source: Source::Page(record), mistyped: Cell::new(false), out_of_range: Cell::new(false) }
    }

    pub(crate) fn of_held(held: &'a Held) -> Row<'a> {
        Row { source: Source::Held(held), mistyped: Cell::new(false), out_of_range: Cell::new(false) }
    }

    /// The rowid.
    #[inline]
    pub(crate) fn id(&self) -> i64 {
        match &self.source {
            Source::Page(record) => record.rowid(),
            Source::Held(held) => held.rowid,
        }
    }

    /// The integer in a column; `None` when it is NULL or not an integer.
    #[inline]
    pub(crate) fn int(&self, field: Field) -> Option<i64> {
        match self.value(field) {
            Value::Int(value) => Some(value),
            value => self.no_int(value),
        }
    }

    #[cold]
    fn no_int(&self, value: Value<'_>) -> Option<i64> {
        self.mistyped.set(self.mistyped.get() || value != Value::Null);
        None
    }

    /// An extent of a grid or block; `None` when it is NULL, not an integer, below 0 or above 32
    /// bits.
    #[inline]
    pub(crate) fn extent(&self, field: Field) -> Option<u32> {
        let extent = u32::try_from(self.int(field)?).ok();
        self.out_of_range.set(self.out_of_range.get() || extent.is_none());
        extent
    }

    /// The number in a column, whole or not; `None` when it is NULL or no number.
    pub(crate) fn real(&self, field: Field) -> Option<f64> {
        match self.value(field) {
            Value::Real(value) => Some(value),
            Value::Int(value) => Some(value as f64),
            _ => None,
        }
    }

    /// The text in a column; `None` when it is NULL or not UTF-8.
    pub(crate) fn text(&self, field: Field) -> Option<&'a str> {
        match self.value(field) {
            Value::Text(bytes) => std::str::from_utf8(bytes).ok(),
            _ => None,
        }
    }

    /// The value of a column.
    #[inline]
    pub(crate) fn value(&self, Field(column): Field) -> Value<'a> {
        match &self.source {
            Source::Page(record) => record.value(column),
            Source::Held(held) => held.value(column),
        }
    }

    /// Whether an extent was read that is below 0 or above 2³² - 1.
    #[inline]
    pub(crate) fn was_out_of_range(&self) -> bool {
        self.out_of_range.get()
    }

    /// Whether a column was read as a whole number that holds something else.
    #[inline]
    pub(crate) fn was_mistyped(&self) -> bool {
        self.mistyped.get()
    }
}

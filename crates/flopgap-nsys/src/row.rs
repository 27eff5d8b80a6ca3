//! One row of a table.

use std::cell::Cell;

use crate::sqlite::{Record, Value};

/// A column that a decoder selected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Field(pub(crate) usize);

/// A row.
pub(crate) struct Row<'a> {
    record: Record<'a>,
    mistyped: Cell<bool>,
    out_of_range: Cell<bool>,
}

impl<'a> Row<'a> {
    #[inline]
    pub(crate) fn new(record: Record<'a>) -> Row<'a> {
        Row { record, mistyped: Cell::new(false), out_of_range: Cell::new(false) }
    }

    /// The rowid.
    #[inline]
    pub(crate) fn id(&self) -> i64 {
        self.record.rowid()
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
        self.record.value(column)
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

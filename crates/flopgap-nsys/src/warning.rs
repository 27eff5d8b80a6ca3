//! Warnings about the rows of a trace.

use std::fmt;

/// Rows that could not be used or are unusual.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Warning {
    /// The table they are in.
    pub table: String,
    /// How many there are.
    pub rows: u64,
    /// The rowid of the first.
    pub first: i64,
    /// The problem.
    pub what: Oddity,
}

/// A problem of rows, and how they were treated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Oddity {
    /// They lack a required number and are left out.
    Unusable,
    /// They end before they start. Reports count a negative time, as `nsys stats` does; everything
    /// else leaves them out.
    EndsBeforeStart,
    /// They have text or a fraction where a whole number belongs. That value counts as absent.
    NotWhole,
    /// Their grid or block has an extent below 0 or above 2³² - 1. What shows it leaves them out.
    OutOfRange,
    /// They repeat a call to add its backtrace. Reports of API calls count both, as `nsys stats`
    /// does.
    Backtrace,
}

impl Oddity {
    /// Whether rows are left out of everything with it.
    pub fn is_loss(self) -> bool {
        self == Oddity::Unusable
    }
}

impl fmt::Display for Oddity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Oddity::Unusable => "without a required number: left out",
            Oddity::EndsBeforeStart => {
                "ending before the start: reports count a negative time, as `nsys stats` does; other answers \
                 leave it out"
            }
            Oddity::NotWhole => "with text or a fraction instead of a whole number: that value is ignored",
            Oddity::OutOfRange => "with a grid or block below 0 or above 2^32 - 1: left out",
            Oddity::Backtrace => {
                "repeating a call to add its backtrace: API reports count the call twice, as `nsys stats` does"
            }
        })
    }
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Warning { table, rows, first, what } = self;
        let word = if *rows == 1 { "row" } else { "rows" };
        write!(f, "{table}: {rows} {word} (first: row {first}) {what}")
    }
}

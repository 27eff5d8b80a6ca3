//! The interface between the reader and the two formats.

use crate::error::Error;
use crate::model::{Launch, Strings};
use crate::warning::{Note, Warning, WarningKind};

/// Where a format stores its findings while reading.
#[derive(Debug, Default)]
pub(crate) struct Context {
    pub(crate) strings: Strings,
    pub(crate) warnings: Vec<Warning>,
    /// Lines before the table and between tables: `==PROF==` messages and the program's own output,
    /// with their line.
    pub(crate) notes: Vec<Note>,
    /// Rows that hold a rule's advice instead of a metric.
    pub(crate) rule_rows: u64,
    /// Where launches or metrics were first lost.
    pub(crate) lost_at: Option<u64>,
}

impl Context {
    /// Adds a warning at `position`, and records a loss if it is one.
    pub(crate) fn warn(&mut self, position: u64, kind: WarningKind) {
        if kind.is_loss() {
            self.lost_at.get_or_insert(position);
        }
        self.warnings.push(Warning { position, kind });
    }
}

/// A format that yields launches one by one.
pub(crate) trait Source {
    /// Fills `launch` with the next launch (its vectors are cleared and reused); `false` at the end
    /// of the report.
    fn next_launch(&mut self, context: &mut Context, launch: &mut Launch) -> Result<bool, Error>;
}

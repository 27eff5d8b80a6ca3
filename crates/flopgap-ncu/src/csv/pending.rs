//! Holds launches back until the decimal separator of the file is known.

use std::collections::VecDeque;
use std::ops::Range;
use std::path::Path;

use crate::error::{Error, Fault};
use crate::model::Launch;

use super::cell::{Cell, Decimal};
use super::number::{self, NumberFormat};

/// Metrics that wait at most: about 8 MB. By then the metric's kind has to decide.
pub(super) const MAX_WAITING: usize = 64 * 1024;

/// Which number of a metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Slot {
    Value,
    Minimum,
    Maximum,
}

/// An ambiguous cell.
#[derive(Debug, Clone)]
struct Waiting {
    place: Place,
    text: Range<usize>,
    whole: bool,
}

/// The decimal separator of a file, and the values that depend on it.
#[derive(Debug, Default)]
pub(super) struct Numbers {
    decimal: Option<Decimal>,
    /// The line that decided; 0: the caller did.
    decided_at: u64,
    /// What an earlier table of the same file used.
    earlier: Option<Decimal>,
    chosen: bool,
    cells: Vec<Waiting>,
    text: Vec<u8>,
}

/// Where a cell stands.
#[derive(Debug, Clone, Copy)]
pub(super) struct Place {
    pub(super) launch: u64,
    pub(super) metric: usize,
    pub(super) slot: Slot,
    pub(super) line: u64,
}

impl Numbers {
    pub(super) fn chosen(decimal: Option<Decimal>) -> Self {
        Numbers { decimal, chosen: decimal.is_some(), ..Numbers::default() }
    }

    /// The byte that groups thousands, 0 while that is unknown.
    #[inline]
    pub(super) fn group(&self) -> u8 {
        self.decimal.map_or(0, Decimal::group)
    }

    /// The decimal separator, once it is known.
    #[inline]
    pub(super) fn decimal(&self) -> Option<Decimal> {
        self.decimal
    }

    /// Whether values wait.
    #[inline]
    pub(super) fn waiting(&self) -> bool {
        !self.cells.is_empty()
    }

    /// Whether values wait although the separator is known by now.
    pub(super) fn ready(&self) -> bool {
        self.waiting() && self.decimal.is_some()
    }

    /// A new table may come from another machine: what the last one proved is only a last resort
    /// now.
    pub(super) fn next_table(&mut self) {
        if !self.chosen {
            self.earlier = self.decimal.or(self.earlier);
            self.decimal = None;
        }
    }

    /// Reads a cell. An [ambiguous](Cell::Ambiguous) one waits for [`Numbers::resolve`].
    pub(super) fn read(
        &mut self,
        text: &[u8],
        whole: bool,
        place: Place,
        path: &Path,
    ) -> Result<Cell, Error> {
        let cell = number::read(text, self.decimal, whole);
        match cell {
            Cell::Number(_, Some(decimal)) if self.decimal.is_none() => {
                self.decimal = Some(decimal);
                self.decided_at = place.line;
            }
            Cell::Contradicts => return Err(self.contradiction(text, place.line, path)),
            Cell::Ambiguous => {
                let start = self.text.len();
                self.text.extend_from_slice(text);
                self.cells.push(Waiting { place, text: start..self.text.len(), whole });
            }
            _ => {}
        }
        Ok(cell)
    }

    /// Decides by the metrics' kinds: a separator inside a count groups thousands.
    pub(super) fn decide(&mut self, path: &Path) -> Result<(), Error> {
        let Some(first) = self.cells.first() else { return Ok(()) };
        let counted = self.cells.iter().find(|cell| cell.whole);
        self.decimal = match counted {
            Some(cell) => {
                self.decided_at = cell.place.line;
                let text = &self.text[cell.text.clone()];
                Some(if text.contains(&b',') { Decimal::Point } else { Decimal::Comma })
            }
            None => self.earlier,
        };
        if self.decimal.is_some() {
            return Ok(());
        }
        let value = String::from_utf8_lossy(&self.text[first.text.clone()]).into_owned();
        Err(Error::in_line(path, first.place.line, Fault::UndecidableNumber { value }))
    }

    /// Fills in everything that waits; `queue` begins with launch `front` and `open` comes behind
    /// it.
    pub(super) fn resolve(
        &mut self,
        queue: &mut VecDeque<Launch>,
        front: u64,
        open: &mut Launch,
        path: &Path,
    ) -> Result<(), Error> {
        for cell in std::mem::take(&mut self.cells) {
            let text = &self.text[cell.text.clone()];
            let index = usize::try_from(cell.place.launch - front).unwrap_or(usize::MAX);
            let launch = if index < queue.len() { &mut queue[index] } else { &mut *open };
            let Some(metric) = launch.metrics.get_mut(cell.place.metric) else { continue };
            let Cell::Number(value, _) = number::read(text, self.decimal, cell.whole) else {
                return Err(self.contradiction(text, cell.place.line, path));
            };
            let float = value.as_f64().unwrap_or(f64::NAN);
            match (cell.place.slot, &mut metric.spread) {
                (Slot::Minimum, Some((minimum, _))) => *minimum = float,
                (Slot::Maximum, Some((_, maximum))) => *maximum = float,
                _ => metric.value = value,
            }
        }
        self.text.clear();
        Ok(())
    }

    fn contradiction(&self, text: &[u8], line: u64, path: &Path) -> Error {
        let value = String::from_utf8_lossy(text).into_owned();
        let format = self.decimal.map_or(NumberFormat::Auto, NumberFormat::from);
        let decided_at = self.decided_at;
        Error::in_line(path, line, Fault::ContradictoryNumber { value, decided_at, format })
    }
}

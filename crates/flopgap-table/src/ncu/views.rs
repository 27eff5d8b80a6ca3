//! The launches of a report, one after the other.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use flopgap_ncu::{LaunchView, Reader, Report, Strings, Symbol, Warning};

use crate::Error;

/// The launches of a report in file order. If rows of one launch are not adjacent, the whole report
/// is read into memory and joined.
pub(super) struct Views {
    from: From,
    warnings: Arc<Mutex<Vec<Warning>>>,
}

enum From {
    File(Box<Reader>),
    Memory(Box<Report>, usize),
}

impl Views {
    /// Starts reading a report; its warnings are added to `warnings` at the end.
    pub(super) fn open(
        path: &Path,
        joined: bool,
        warnings: Arc<Mutex<Vec<Warning>>>,
    ) -> Result<Views, Error> {
        let reader = Reader::open(path)?;
        let from = if joined {
            From::Memory(Box::new(reader.into_report()?), 0)
        } else {
            From::File(Box::new(reader))
        };
        Ok(Views { from, warnings })
    }

    /// Converts the next launch; `None` after the last.
    pub(super) fn next<T>(&mut self, make: impl FnOnce(LaunchView<'_>) -> T) -> Result<Option<T>, Error> {
        let (found, warnings) = match &mut self.from {
            From::File(reader) => (reader.next_launch()?.map(make), reader.warnings()),
            From::Memory(report, next) => {
                let launch = report.launches.get(*next);
                *next += 1;
                let view = launch.map(|launch| LaunchView { launch, strings: &report.strings });
                (view.map(make), &report.warnings[..])
            }
        };
        if found.is_none() {
            *self.warnings.lock().unwrap_or_else(PoisonError::into_inner) = warnings.to_vec();
        }
        Ok(found)
    }
}

/// The strings of a report that rows share, each stored once.
#[derive(Default)]
pub(super) struct Shared(Vec<Option<Arc<str>>>);

impl Shared {
    pub(super) fn get(&mut self, symbol: Symbol, strings: &Strings) -> Arc<str> {
        let at = symbol.index();
        if at >= self.0.len() {
            self.0.resize(strings.len().max(at + 1), None);
        }
        self.0[at].get_or_insert_with(|| strings.get(symbol).into()).clone()
    }

    /// The same, with `None` for an empty string.
    pub(super) fn not_empty(&mut self, symbol: Symbol, strings: &Strings) -> Option<Arc<str>> {
        (symbol != Symbol::EMPTY).then(|| self.get(symbol, strings))
    }
}

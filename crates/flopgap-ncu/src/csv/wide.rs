//! Tables with one launch a row and one metric a column: the raw page.

use crate::error::Error;
use crate::model::{Strings, Symbol};
use crate::source::Context;

use super::assembly::{Assembly, MetricKind};
use super::header::Header;
use super::kind::is_whole;
use super::record::Record;
use super::text::lossy;

/// The metric columns of a wide table.
#[derive(Debug)]
pub(super) struct Wide {
    columns: Vec<(usize, MetricKind)>,
    /// The first row below the header is still to come: it may hold the units.
    expects_units: bool,
}

impl Wide {
    pub(super) fn new(header: &Header, strings: &mut Strings) -> Self {
        let columns = header.metrics.iter().map(|(index, name)| {
            let whole = is_whole(name, "");
            (
                *index,
                MetricKind { section: Symbol::EMPTY, name: strings.intern(name), unit: Symbol::EMPTY, whole },
            )
        });
        Wide { columns: columns.collect(), expects_units: true }
    }

    /// Takes the row if it is the units row: the one below the header, without an id.
    pub(super) fn take_units(
        &mut self,
        header: &Header,
        record: &Record,
        bytes: &[u8],
        strings: &mut Strings,
    ) -> bool {
        let empty = |column: Option<usize>| {
            column.is_none_or(|at| record.raw(bytes, at).is_some_and(|cell| cell.trim_ascii().is_empty()))
        };
        let columns = &header.columns;
        let is_units = std::mem::take(&mut self.expects_units) && empty(columns.id) && empty(columns.kernel);
        if is_units {
            for (index, kind) in &mut self.columns {
                let unit = record.get(bytes, *index).unwrap_or_default();
                let unit = lossy(unit.trim_ascii());
                kind.unit = strings.intern(&unit);
                kind.whole = is_whole(strings.get(kind.name), &unit);
            }
        }
        is_units
    }

    /// Reads the metrics of the row in `record`, of which the first `fields` fields stand, into the
    /// open launch.
    pub(super) fn row(
        &mut self,
        record: &Record,
        fields: usize,
        bytes: &[u8],
        line: u64,
        assembly: &mut Assembly,
        context: &mut Context,
    ) -> Result<(), Error> {
        for &(index, kind) in &self.columns {
            if index >= fields {
                break;
            }
            let Some(cell) = record.get(bytes, index) else { break };
            if !cell.is_empty() {
                assembly.push(kind, &cell, None, line, context)?;
            }
        }
        Ok(())
    }
}

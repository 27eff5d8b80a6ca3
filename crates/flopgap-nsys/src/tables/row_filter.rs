//! What a filter reads of a table.

use crate::sqlite::Value;

use super::TableSpec;
use super::nvtx_kind::{NVTX, NvtxKind};
use crate::filter::Filter;
use crate::row::{Field, Row};
use crate::{Schema, ThreadId};

/// What [`Filter`] needs of each row of a table.
#[derive(Debug)]
pub(crate) struct RowFilter {
    filter: Filter,
    start: Field,
    end: Field,
    owner: Option<Owner>,
    /// The kind of an annotation, in the table of these.
    kind: Option<Field>,
}

/// The column that names the thread or the process of a row.
#[derive(Clone, Copy, Debug)]
struct Owner {
    field: Field,
    is_thread: bool,
}

impl RowFilter {
    /// Selects the columns of `table` that a filter needs; `None` when the table has no times.
    pub(crate) fn of(
        filter: Filter,
        table: &TableSpec,
        schema: &Schema,
        mut want: impl FnMut(&'static str) -> Field,
    ) -> Option<RowFilter> {
        let has = |column| schema.has(table.name, column);
        if !(has("start") && has("end")) {
            return None;
        }
        let (start, end) = (want("start"), want("end"));
        let owner = [("globalTid", true), ("globalPid", false)].into_iter().find(|(column, _)| has(column));
        let owner = owner.map(|(column, is_thread)| Owner { field: want(column), is_thread });
        let kind = (table.name == NVTX.name).then(|| want("eventType"));
        Some(RowFilter { filter, start, end, owner, kind })
    }

    /// Whether a row is examined. One whose times are no numbers is: its decoder reports it.
    pub(crate) fn keeps(&self, row: &Row<'_>) -> bool {
        if let Some(kind) = self.kind
            && let Value::Int(kind) = row.value(kind)
            && NvtxKind::of(kind).is_name()
        {
            return true;
        }
        let end = match row.value(self.end) {
            Value::Int(end) => Some(end),
            _ => None,
        };
        let in_time = match row.value(self.start) {
            Value::Int(start) => self.filter.covers(start, end),
            Value::Null => false,
            _ => true,
        };
        in_time
            && match self.owner {
                Some(Owner { field, is_thread }) if !self.filter.is_for_anyone() => match row.value(field) {
                    Value::Int(owner) => self.filter.owns(ThreadId(owner), is_thread),
                    _ => false,
                },
                _ => true,
            }
    }
}

//! Unified memory.

use std::cmp::Reverse;
use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::table::{Column, Sink, Unit, Value};
use crate::tables::CPU_FAULTS;
use crate::trace::{need, want};
use crate::{Error, Trace};

static CPU_FAULT_COLUMNS: [Column; 4] = [
    Column::new("CPU Page Faults", Unit::Plain),
    Column::new("CPU Instruction Address", Unit::Plain),
    Column::new("Source File", Unit::Plain),
    Column::new("Source Line", Unit::Plain),
];

/// Where a page fault happened: the instruction, and where its source is known, the file and the line.
type Place = (Arc<str>, Option<Arc<str>>, Option<i64>);

/// `um_cpu_page_faults_sum`. Exports before 2025 name no source; nsys ends with an error on them.
pub(super) fn cpu_faults(trace: &Trace, sink: &mut dyn Sink) -> Result<(), Error> {
    let mut by_id: FxHashMap<(i64, Option<i64>, Option<i64>), u64> = FxHashMap::default();
    let columns = [need("CpuInstruction"), want("sourceFile"), want("sourceLine")];
    trace.scan(&CPU_FAULTS, &columns, |row| {
        *by_id.entry((row.int(0)?, row.int(1), row.int(2))).or_default() += 1;
        Some(())
    })?;
    let mut by_text: FxHashMap<Place, u64> = FxHashMap::default();
    for ((instruction, file, line), faults) in by_id {
        let file = file.map(|file| trace.string_or_id(file)).transpose()?;
        *by_text.entry((trace.string_or_id(instruction)?, file, line)).or_default() += faults;
    }
    let mut rows: Vec<_> = by_text.into_iter().collect();
    rows.sort_unstable_by(|(place, faults), (other_place, other)| {
        (Reverse(faults), place).cmp(&(Reverse(other), other_place))
    });
    trace.writing(|| {
        sink.columns(&CPU_FAULT_COLUMNS)?;
        for ((instruction, file, line), faults) in rows {
            let file = file.map_or(Value::Absent, Value::from);
            sink.row(&[faults.into(), instruction.into(), file, line.into()])?;
        }
        Ok(())
    })
}

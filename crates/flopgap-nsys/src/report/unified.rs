//! Unified memory.

use std::cmp::Reverse;
use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::table::{Column, Sink, Unit};
use crate::tables::CPU_FAULTS;
use crate::trace::need;
use crate::{Error, Trace};

static CPU_FAULT_COLUMNS: [Column; 2] =
    [Column::new("CPU Page Faults", Unit::Plain), Column::new("CPU Instruction Address", Unit::Plain)];

/// `um_cpu_page_faults_sum`.
pub(super) fn cpu_faults(trace: &Trace, sink: &mut dyn Sink) -> Result<(), Error> {
    let mut by_id: FxHashMap<i64, u64> = FxHashMap::default();
    trace.scan(&CPU_FAULTS, &[need("CpuInstruction")], |row| {
        *by_id.entry(row.int(0)?).or_default() += 1;
        Some(())
    })?;
    let mut by_text: FxHashMap<Arc<str>, u64> = FxHashMap::default();
    for (id, faults) in by_id {
        *by_text.entry(trace.string_or_id(id)?).or_default() += faults;
    }
    let mut rows: Vec<(Arc<str>, u64)> = by_text.into_iter().collect();
    rows.sort_unstable_by(|(name, faults), (other_name, other)| {
        (Reverse(faults), name).cmp(&(Reverse(other), other_name))
    });
    trace.writing(|| {
        sink.columns(&CPU_FAULT_COLUMNS)?;
        for (name, faults) in rows {
            sink.row(&[faults.into(), name.into()])?;
        }
        Ok(())
    })
}

//! What `flopgap record --flops` counted of kernels and of whole steps.

use std::sync::Arc;

use flopgap_trace::{CountedKernel, CountedOperations, CountedStep, ProcessId};
use rustc_hash::FxHashMap;

use super::TableSpec;
use crate::error::if_recorded;
use crate::{Error, StringId, Trace};

const KERNELS: TableSpec = TableSpec::new("FLOPGAP_KERNEL", "counts of kernels");
const COUNTED: TableSpec = TableSpec::new("FLOPGAP_COUNTED", "counts of kernels that are alike");
const STEPS: TableSpec = TableSpec::new("FLOPGAP_STEP", "counts of whole steps");
const OPERATIONS: TableSpec = TableSpec::new("FLOPGAP_OPERATIONS", "operations by type");

impl Trace {
    /// The counts that launches have, in the order of their numbers.
    pub(crate) fn counted_kernels(&self) -> Result<Vec<CountedKernel>, Error> {
        let mut kernels: Vec<CountedKernel> = Vec::new();
        let places = self.places_of_counts(|_, flops, dram_bytes| {
            kernels.push(CountedKernel { operations: Vec::new(), flops, dram_bytes });
        })?;
        let mut select = self.select(&OPERATIONS);
        let (counted, kind) = (select.need("counted"), select.need("type"));
        let (least, most) = (select.need("least"), select.need("most"));
        let rows = select.rows(move |row| {
            let kind: Arc<str> = row.text(kind)?.into();
            Some((row.int(counted)?, kind, row.int(least)?, row.int(most)?))
        });
        for row in if_recorded(rows)?.into_iter().flatten() {
            let (counted, kind, least, most) = row?;
            let (Ok(least), Ok(most)) = (u64::try_from(least), u64::try_from(most)) else { continue };
            if let Some(&place) = places.get(&counted) {
                kernels[place as usize].operations.push(CountedOperations { kind, least, most });
            }
        }
        Ok(kernels)
    }

    /// What was counted of each kernel, by its row: a place among [`Trace::counted_kernels`].
    pub(crate) fn counts_of_kernels(&self) -> Result<FxHashMap<i64, u32>, Error> {
        let places = self.places_of_counts(|_, _, _| ())?;
        let mut select = self.select(&KERNELS);
        let counted = select.need("counted");
        // The row of the kernel is the key of this table: SQLite stores it as the row's own number.
        let rows = select.rows(move |row| Some((row.id(), row.int(counted)?)));
        let mut kernels = FxHashMap::default();
        for row in if_recorded(rows)?.into_iter().flatten() {
            let (kernel, counted) = row?;
            if let Some(&place) = places.get(&counted) {
                kernels.insert(kernel, place);
            }
        }
        Ok(kernels)
    }

    /// What was counted of whole steps.
    pub(crate) fn counted_ranges(&self) -> Result<Vec<CountedStep>, Error> {
        let mut select = self.select(&STEPS);
        let (counted, process, range) =
            (select.need("counted"), select.need("globalPid"), select.need("range"));
        let rows = select.rows(move |row| {
            Some((row.int(counted)?, ProcessId(row.int(process)?), StringId(row.int(range)?)))
        });
        let Some(rows) = if_recorded(rows)? else { return Ok(Vec::new()) };
        let rows = rows.collect::<Result<Vec<_>, Error>>()?;
        if rows.is_empty() {
            return Ok(Vec::new());
        }
        let mut times = Vec::new();
        let places = self.places_of_counts(|own, _, _| times.push(own))?;
        let counts = self.counted_kernels()?;
        let mut steps = Vec::new();
        for (counted, process, range) in rows {
            let Some(&place) = places.get(&counted) else { continue };
            let range = self.string_or_id(range)?.to_string();
            let (times, counts) = (times[place as usize], counts[place as usize].clone());
            steps.push(CountedStep { process, range, times, counts });
        }
        Ok(steps)
    }

    /// The places of counts by their numbers. `take` gets how often each was counted, the
    /// operations and the bytes.
    fn places_of_counts(
        &self,
        mut take: impl FnMut(u64, Option<[u64; 2]>, Option<u64>),
    ) -> Result<FxHashMap<i64, u32>, Error> {
        let mut select = self.select(&COUNTED);
        let (least, most) = (select.want("leastFlops"), select.want("mostFlops"));
        let (bytes, times) = (select.want("dramBytes"), select.want("times"));
        let rows = select.rows(move |row| {
            let number = |field| row.int(field).and_then(|it| u64::try_from(it).ok());
            let flops = number(least).zip(number(most));
            Some((row.id(), number(times).unwrap_or(0), flops, number(bytes)))
        });
        let mut places = FxHashMap::default();
        for row in if_recorded(rows)?.into_iter().flatten() {
            let (id, times, flops, bytes) = row?;
            take(times, flops.map(Into::into), bytes);
            places.insert(id, u32::try_from(places.len()).unwrap_or(u32::MAX));
        }
        Ok(places)
    }
}

//! What `flopgap record --flops` counted of kernels.

use std::sync::Arc;

use flopgap_trace::{CountedKernel, CountedOperations};
use rustc_hash::FxHashMap;

use super::TableSpec;
use crate::error::if_recorded;
use crate::{Error, Trace};

const KERNELS: TableSpec = TableSpec::new("FLOPGAP_KERNEL", "counts of kernels");
const COUNTED: TableSpec = TableSpec::new("FLOPGAP_COUNTED", "counts of kernels that are alike");
const OPERATIONS: TableSpec = TableSpec::new("FLOPGAP_OPERATIONS", "operations by type");

impl Trace {
    /// The counts that launches have, in the order of their numbers.
    pub(crate) fn counted_kernels(&self) -> Result<Vec<CountedKernel>, Error> {
        let mut kernels: Vec<CountedKernel> = Vec::new();
        let places = self.places_of_counts(|flops, dram_bytes| {
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
        let places = self.places_of_counts(|_, _| ())?;
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

    /// The places of counts by their numbers.
    fn places_of_counts(
        &self,
        mut take: impl FnMut(Option<[u64; 2]>, Option<u64>),
    ) -> Result<FxHashMap<i64, u32>, Error> {
        let mut select = self.select(&COUNTED);
        let (least, most) = (select.want("leastFlops"), select.want("mostFlops"));
        let bytes = select.want("dramBytes");
        let rows = select.rows(move |row| {
            let flops = [row.int(least), row.int(most)].map(|it| u64::try_from(it?).ok());
            Some((row.id(), flops[0].zip(flops[1]), row.int(bytes).and_then(|it| u64::try_from(it).ok())))
        });
        let mut places = FxHashMap::default();
        for row in if_recorded(rows)?.into_iter().flatten() {
            let (id, flops, bytes) = row?;
            take(flops.map(Into::into), bytes);
            places.insert(id, u32::try_from(places.len()).unwrap_or(u32::MAX));
        }
        Ok(places)
    }
}

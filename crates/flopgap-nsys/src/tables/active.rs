//! Samples of NVML's GPM: `flopgap record --flops` where counters are not permitted.

use std::sync::Arc;

use flopgap_trace::ActivitySample;
use rustc_hash::FxHashSet;

use super::TableSpec;
use crate::error::if_recorded;
use crate::sqlite::Value;
use crate::{Error, GpuId, Trace};

const SAMPLES: TableSpec = TableSpec::new("FLOPGAP_GPM", "samples of NVML's GPM");

impl Trace {
    /// How active units of GPUs were, by time; empty where that was not sampled.
    pub(crate) fn activity_samples(&self) -> Result<Vec<ActivitySample>, Error> {
        let mut select = self.select(&SAMPLES);
        let (start, end) = (select.need("start"), select.need("end"));
        let (gpu, metric, value) = (select.need("deviceId"), select.need("metric"), select.need("value"));
        let mut names: FxHashSet<Arc<str>> = FxHashSet::default();
        let rows = select.rows(move |row| {
            let Value::Real(percent) = row.value(value) else { return None };
            let name = row.text(metric)?;
            let metric = names.get(name).cloned().unwrap_or_else(|| {
                names.insert(name.into());
                name.into()
            });
            Some(ActivitySample {
                start: row.int(start)?,
                end: row.int(end)?,
                gpu: GpuId(row.int(gpu)?),
                metric,
                percent,
            })
        });
        let mut samples = if_recorded(rows)?.into_iter().flatten().collect::<Result<Vec<_>, Error>>()?;
        samples.sort_by_key(|sample| sample.start);
        Ok(samples)
    }
}

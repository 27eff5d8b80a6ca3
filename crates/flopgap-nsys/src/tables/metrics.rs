//! Samples of hardware counters: `nsys profile --gpu-metrics-devices`.

use flopgap_trace::ClockSample;

use super::TableSpec;
use crate::error::if_recorded;
use crate::{Error, GpuId, Trace};

const SAMPLES: TableSpec = TableSpec::new("GPU_METRICS", "samples of GPU metrics");
const NAMES: TableSpec = TableSpec::new("TARGET_INFO_GPU_METRICS", "names of GPU metrics");

/// The clock of the multiprocessors, as all sets of metrics name it.
const CLOCK: &str = "GPC Clock Frequency";
/// Above this number, the rate is in hertz, although its name says MHz.
const MEGAHERTZ: i64 = 1_000_000;

impl Trace {
    /// How fast the clocks of the multiprocessors ran, by time; empty where that was not sampled.
    pub(crate) fn clock_samples(&self) -> Result<Vec<ClockSample>, Error> {
        let mut select = self.select(&NAMES);
        let (kind, metric, name) =
            (select.need("typeId"), select.need("metricId"), select.need("metricName"));
        let names = select
            .rows(move |row| Some((row.int(kind)?, row.int(metric)?, row.text(name)?.starts_with(CLOCK))));
        let Some(names) = if_recorded(names)? else { return Ok(Vec::new()) };
        let mut clocks = Vec::new();
        for name in names {
            let (kind, metric, is_clock) = name?;
            clocks.extend(is_clock.then_some((kind, metric)));
        }
        let mut select = self.select(&SAMPLES);
        let (time, kind) = (select.need("timestamp"), select.need("typeId"));
        let (metric, value) = (select.need("metricId"), select.need("value"));
        let rows =
            select.rows(move |row| Some((row.int(time)?, row.int(kind)?, row.int(metric)?, row.int(value)?)));
        let Some(rows) = if_recorded(rows)? else { return Ok(Vec::new()) };
        let mut samples = Vec::new();
        for row in rows {
            let (time, kind, metric, value) = row?;
            if clocks.contains(&(kind, metric)) && value > 0 {
                let hertz = if value < MEGAHERTZ { value.saturating_mul(MEGAHERTZ) } else { value };
                // The low bits are the number of the GPU.
                samples.push(ClockSample { time, gpu: GpuId(kind & 0xff), hertz });
            }
        }
        samples.sort_by_key(|sample| sample.time);
        Ok(samples)
    }
}

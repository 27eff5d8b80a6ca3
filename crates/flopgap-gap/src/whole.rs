//! What whole steps executed, by counters: each was counted as one, so nothing is missing in it.

use flopgap_trace::{CountedStep, ProcessId, Recording};
use serde::{Deserialize, Serialize};

use crate::error::Error;
use crate::executed::{Operations, at_peak, by_type};
use crate::peaks::Peaks;
use crate::steps::{FoundBy, HostSteps};

/// What all measured steps execute, by the counters of some that were counted as a whole.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WholeSteps {
    /// How many steps of a process the rarest of the counters counted.
    pub times: u64,
    /// Operations by type of all measured steps, most first.
    pub operations: Vec<Operations>,
    /// All their floating-point operations, at least and at most. Absent where not all types were
    /// counted: in CUDA graphs, instructions of the shader cores are not.
    pub flops: Option<[u64; 2]>,
    /// Bytes that the memory of the GPUs read and wrote; absent where they were not counted.
    pub dram_bytes: Option<u64>,
    /// Hardware FLOPs utilization, at least: the time that the operations of the busiest type need
    /// at their peak, as a fraction of the measured time. Absent without peaks.
    pub utilization: Option<f64>,
}

impl WholeSteps {
    /// Of measured steps, so many of each process; nothing where some of them were not counted.
    pub(crate) fn read(
        trace: &dyn Recording,
        found: &HostSteps,
        measured: &[(Option<ProcessId>, u64)],
        peaks: Option<&Peaks>,
        wall_ns: i64,
    ) -> Result<Option<WholeSteps>, Error> {
        let counted = trace.counted_steps()?;
        if counted.is_empty() || found.found != FoundBy::Marked {
            return Ok(None);
        }
        let steps = measured.iter().filter(|(_, steps)| *steps > 0);
        let own: Option<Vec<(&CountedStep, u64)>> = steps
            .map(|&(process, steps)| {
                // One GPU of a process is counted.
                let is_alone = measured.iter().filter(|(other, _)| *other == process).count() == 1;
                let own = counted.iter().find(|own| is_alone && process == Some(own.process))?;
                let mut names = found.steps.iter().filter(|step| step.process == process);
                names.all(|step| own.is_named(&step.name)).then_some((own, steps))
            })
            .collect();
        let Some(own) = own.filter(|own| !own.is_empty()) else { return Ok(None) };
        let sum = |value: fn(&CountedStep) -> Option<u64>| {
            own.iter().try_fold(0, |sum: u64, (own, steps)| {
                Some(sum.saturating_add(value(own)?.saturating_mul(*steps)))
            })
        };
        let operations = by_type(own.iter().map(|(own, steps)| (&own.counts, *steps)));
        let computing = |peaks: &Peaks| {
            let times = operations.iter().filter_map(|own| at_peak(&own.kind, own.least, peaks));
            times.fold(0.0, f64::max) / wall_ns.max(1) as f64
        };
        Ok(Some(WholeSteps {
            times: own.iter().map(|(own, _)| own.times).min().unwrap_or(0),
            flops: sum(|own| Some(own.counts.flops?[0]))
                .zip(sum(|own| Some(own.counts.flops?[1])))
                .map(Into::into),
            dram_bytes: sum(|own| own.counts.dram_bytes),
            utilization: peaks.map(computing),
            operations,
        }))
    }
}

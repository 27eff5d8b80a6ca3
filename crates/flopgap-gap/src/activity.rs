//! How active units of the GPUs were in measured time, as NVML's GPM samples them.

use std::collections::BTreeMap;

use flopgap_timings::join_intervals;
use flopgap_trace::{ActivitySample, GpuId, Recording};
use serde::{Deserialize, Serialize};

use crate::error::Error;
use crate::executed;

/// The tensor cores, whatever they multiply.
const TENSOR: &str = "ANY_TENSOR_UTIL";
const DRAM: &str = "DRAM_BW_UTIL";

/// How active units of the GPUs were in measured time. It is that of whole GPUs, with whatever else
/// ran on them, and no FLOPs follow from it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Activity {
    /// All GPUs together.
    pub all: Active,
    /// Each GPU of the measured steps, by its number.
    pub gpus: Vec<ActiveGpu>,
}

/// A GPU.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct ActiveGpu {
    /// As the machine numbers it.
    pub gpu: GpuId,
    /// How active it was.
    pub active: Active,
}

/// Means over time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Active {
    /// Measured time of a GPU, once for all processes on it; of several GPUs the sum.
    pub measured_ns: i64,
    /// How much of it was sampled.
    pub sampled_ns: i64,
    /// The fraction of the sampled time in which tensor cores were active, the mean over those of a
    /// GPU. Absent where that was not sampled.
    pub tensor: Option<f64>,
    /// The bandwidth of the memory that was used, as a fraction of the highest.
    pub dram: Option<f64>,
}

/// Sums of one GPU.
#[derive(Default)]
struct Sums {
    measured: Vec<(i64, i64)>,
    tensor: Sum,
    dram: Sum,
}

/// Percent times nanoseconds, and the nanoseconds.
#[derive(Clone, Copy, Default)]
struct Sum {
    percent_ns: f64,
    ns: i64,
}

impl Activity {
    /// Of the samples that overlap measured intervals, each for as long as it does; nothing
    /// without any.
    pub(crate) fn read(
        trace: &dyn Recording,
        measured: &[executed::Measured],
        gpu: impl Fn(&executed::Measured) -> Option<GpuId>,
    ) -> Result<Option<Activity>, Error> {
        let samples = trace.activity_samples()?;
        let mut gpus: BTreeMap<GpuId, Sums> = BTreeMap::new();
        for own in measured.iter().filter(|_| !samples.is_empty()) {
            if let Some(gpu) = gpu(own) {
                gpus.entry(gpu).or_default().measured.extend(&own.1);
            }
        }
        for sums in gpus.values_mut() {
            // Several threads and processes measure steps of one GPU.
            join_intervals(&mut sums.measured);
        }
        for sample in &samples {
            if let Some(sums) = gpus.get_mut(&sample.gpu) {
                sums.add(sample);
            }
        }
        let all = gpus.values().fold((0, [Sum::default(); 2]), |(measured, [tensor, dram]), own| {
            (measured + length(&own.measured), [tensor.with(own.tensor), dram.with(own.dram)])
        });
        let all = Active::new(all.0, all.1);
        let active = |own: &Sums| Active::new(length(&own.measured), [own.tensor, own.dram]);
        let gpus = gpus.iter().map(|(gpu, own)| ActiveGpu { gpu: *gpu, active: active(own) }).collect();
        Ok((all.sampled_ns > 0).then_some(Activity { all, gpus }))
    }
}

impl Active {
    fn new(measured_ns: i64, [tensor, dram]: [Sum; 2]) -> Active {
        let sampled_ns = tensor.ns.max(dram.ns);
        Active { measured_ns, sampled_ns, tensor: tensor.mean(), dram: dram.mean() }
    }
}

impl Sums {
    fn add(&mut self, sample: &ActivitySample) {
        let sum = match &*sample.metric {
            TENSOR => &mut self.tensor,
            DRAM => &mut self.dram,
            _ => return,
        };
        let first = self.measured.partition_point(|(_, end)| *end <= sample.start);
        let own = self.measured[first..].iter().take_while(|(start, _)| *start < sample.end);
        let ns = own.map(|(start, end)| (*end).min(sample.end) - (*start).max(sample.start)).sum::<i64>();
        *sum = sum.with(Sum { percent_ns: sample.percent * ns as f64, ns });
    }
}

impl Sum {
    fn with(self, other: Sum) -> Sum {
        Sum { percent_ns: self.percent_ns + other.percent_ns, ns: self.ns + other.ns }
    }

    fn mean(self) -> Option<f64> {
        (self.ns > 0).then(|| self.percent_ns / self.ns as f64 / 100.0)
    }
}

fn length(intervals: &[(i64, i64)]) -> i64 {
    intervals.iter().map(|(start, end)| end - start).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_that_overlap_or_touch_count_once() {
        let union = |mut intervals: Vec<(i64, i64)>| {
            join_intervals(&mut intervals);
            intervals
        };
        assert_eq!(
            union(vec![(5, 9), (0, 2), (2, 3), (6, 7), (8, 12), (20, 21)]),
            [(0, 3), (5, 12), (20, 21)]
        );
        assert_eq!(length(&union(vec![(0, 10), (0, 10)])), 10);
    }

    /// Of 40 ns measured, [0, 10) and [20, 50): 10 ns at 100 %, and of the samples that go beyond
    /// 10 and 5 ns.
    #[test]
    fn samples_count_for_as_long_as_they_overlap() {
        let mut sums = Sums { measured: vec![(0, 10), (20, 50)], ..Sums::default() };
        let of = |start, end, metric: &str, percent| {
            let gpu = GpuId(0);
            ActivitySample { start, end, gpu, metric: metric.into(), percent }
        };
        for sample in [
            of(-10, 0, TENSOR, 7.0),
            of(0, 25, TENSOR, 100.0),
            of(25, 30, "SM_UTIL", 50.0),
            of(45, 99, TENSOR, 40.0),
            of(99, 120, TENSOR, 7.0),
            of(10, 20, DRAM, 7.0),
        ] {
            sums.add(&sample);
        }
        let active = Active::new(length(&sums.measured), [sums.tensor, sums.dram]);
        let tensor = Some((15.0 * 1.0 + 5.0 * 0.4) / 20.0);
        assert_eq!(active, Active { measured_ns: 40, sampled_ns: 20, tensor, dram: None });
    }
}

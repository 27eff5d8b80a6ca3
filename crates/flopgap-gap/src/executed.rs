//! What the kernels of the measured steps executed, by counters, and what that needs at least.

use std::collections::BTreeMap;

use flopgap_kernels::NumberType;
use flopgap_trace::{CountedKernel, DeviceId, ProcessId, Recording, WorkKind};
use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};

use crate::error::Error;
use crate::intervals::interval_at;
use crate::peaks::Peaks;

/// What the kernels of all measured steps executed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Executed {
    /// Operations by type, most first: `tensor bf16`, `fp32`.
    pub operations: Vec<Operations>,
    /// All floating-point operations of kernels whose types were all counted, at least and at most.
    pub flops: [u64; 2],
    /// Bytes that the memory of the GPU read and wrote.
    pub dram_bytes: u64,
    /// The sums of all kernels.
    pub all: Sums,
    /// Hardware FLOPs utilization: the time that the operations need at the peaks of their types,
    /// as a fraction of the measured time. Absent without peaks.
    pub utilization: Option<f64>,
    /// By kernel, longest first.
    pub kernels: Vec<ExecutedKernel>,
}

/// Operations of one type.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Operations {
    /// The type.
    pub kind: String,
    /// At least so many: counts of some kernels differ from launch to launch.
    pub least: u64,
    /// At most so many.
    pub most: u64,
}

/// Launches and their times, in nanoseconds: each kernel's own, also while others run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sums {
    /// Launches that begin in measured time.
    pub launches: u64,
    /// Their time.
    pub ns: i64,
    /// Launches whose operations are all known.
    pub counted: u64,
    /// The time of these.
    pub counted_ns: i64,
    /// What these need at least: their operations at the peaks of their types or their bytes at the
    /// bandwidth of the memory, whichever takes longer, and no more than they took. Absent without
    /// peaks.
    pub bound_ns: Option<i64>,
}

/// A kernel.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExecutedKernel {
    /// Its demangled name.
    pub name: String,
    /// Launches and times.
    pub sums: Sums,
    /// Floating-point operations of its counted launches, at least and at most.
    pub flops: [u64; 2],
    /// Bytes that the memory read and wrote for these.
    pub dram_bytes: u64,
}

/// The measured intervals of a process on a GPU, by time.
pub(crate) type Measured = ((Option<ProcessId>, DeviceId), Vec<(i64, i64)>);

impl Executed {
    /// Of the kernels that begin in measured intervals; nothing where none of them was counted.
    pub(crate) fn read(
        trace: &dyn Recording,
        measured: &[Measured],
        peaks: Option<&Peaks>,
        wall_ns: i64,
    ) -> Result<Option<Executed>, Error> {
        let counted = trace.counted()?;
        if counted.is_empty() {
            return Ok(None);
        }
        let needs: Vec<[f64; 2]> = counted.iter().map(|own| needs(own, peaks)).collect();
        let mut kernels: FxHashMap<i64, ExecutedKernel> = FxHashMap::default();
        let mut times = vec![0_u64; counted.len()];
        trace.each_operation(false, &mut |operation| {
            let work = &operation.work;
            let is_measured = measured.iter().any(|(place, intervals)| {
                *place == (work.process, work.device) && interval_at(intervals, work.start).is_some()
            });
            if work.kind != WorkKind::Kernel || !is_measured {
                return;
            }
            let kernel = kernels.entry(operation.name_id).or_insert_with(|| ExecutedKernel {
                name: operation.name.to_owned(),
                sums: Sums { bound_ns: peaks.map(|_| 0), ..Sums::default() },
                flops: [0; 2],
                dram_bytes: 0,
            });
            kernel.sums.launches += 1;
            kernel.sums.ns += work.duration();
            let Some(at) = operation.counted.map(|at| at as usize) else { return };
            let Some((own, flops)) = counted.get(at).and_then(|own| Some((own, own.flops?))) else { return };
            times[at] += 1;
            kernel.sums.counted += 1;
            kernel.sums.counted_ns += work.duration();
            for (sum, own) in kernel.flops.iter_mut().zip(flops) {
                *sum = sum.saturating_add(own);
            }
            kernel.dram_bytes = kernel.dram_bytes.saturating_add(own.dram_bytes.unwrap_or(0));
            let [computing, moving] = needs[at];
            #[expect(clippy::cast_possible_truncation, reason = "at most the time measured")]
            let bound = computing.max(moving).min(work.duration() as f64) as i64;
            kernel.sums.bound_ns = kernel.sums.bound_ns.map(|sum| sum + bound);
        })?;
        if times.iter().all(|times| *times == 0) {
            return Ok(None);
        }
        let mut kernels: Vec<ExecutedKernel> = kernels.into_values().collect();
        kernels.sort_by(|a, b| (b.sums.ns, &a.name).cmp(&(a.sums.ns, &b.name)));
        let computing: f64 = times.iter().zip(&needs).map(|(times, [own, _])| *times as f64 * own).sum();
        let all = kernels.iter().fold(Sums { bound_ns: peaks.map(|_| 0), ..Sums::default() }, |all, own| {
            let own = own.sums;
            Sums {
                launches: all.launches + own.launches,
                ns: all.ns + own.ns,
                counted: all.counted + own.counted,
                counted_ns: all.counted_ns + own.counted_ns,
                bound_ns: all.bound_ns.zip(own.bound_ns).map(|(all, own)| all + own),
            }
        });
        let sum = |at: usize| kernels.iter().fold(0, |sum: u64, own| sum.saturating_add(own.flops[at]));
        let dram_bytes = kernels.iter().fold(0, |sum: u64, own| sum.saturating_add(own.dram_bytes));
        Ok(Some(Executed {
            operations: by_type(counted.iter().zip(times.iter().copied())),
            flops: [sum(0), sum(1)],
            dram_bytes,
            all,
            utilization: peaks.map(|_| computing / wall_ns.max(1) as f64),
            kernels,
        }))
    }
}

/// Operations by type of what ran so many times, most first.
pub(crate) fn by_type<'c>(counted: impl IntoIterator<Item = (&'c CountedKernel, u64)>) -> Vec<Operations> {
    let mut sums: BTreeMap<&str, [u64; 2]> = BTreeMap::new();
    for (own, times) in counted {
        for operations in &own.operations {
            let sum = sums.entry(&operations.kind).or_default();
            sum[0] = sum[0].saturating_add(operations.least.saturating_mul(times));
            sum[1] = sum[1].saturating_add(operations.most.saturating_mul(times));
        }
    }
    let sums = sums.into_iter().filter(|(_, [_, most])| *most > 0);
    let mut sums: Vec<Operations> =
        sums.map(|(kind, [least, most])| Operations { kind: kind.to_owned(), least, most }).collect();
    sums.sort_by_key(|own| std::cmp::Reverse(own.most));
    sums
}

/// The nanoseconds that the operations of a launch need at the peaks, at least, and those that its
/// bytes need.
fn needs(own: &CountedKernel, peaks: Option<&Peaks>) -> [f64; 2] {
    let Some(peaks) = peaks else { return [0.0; 2] };
    // Units of several types may work at the same time: the busiest counts.
    let computing = own.operations.iter().filter_map(|it| at_peak(&it.kind, it.least, peaks));
    [computing.fold(0.0, f64::max), own.dram_bytes.unwrap_or(0) as f64 / peaks.bytes * 1e9]
}

/// The nanoseconds that operations of a kind need at their peak.
pub(crate) fn at_peak(kind: &str, operations: u64, peaks: &Peaks) -> Option<f64> {
    Some(operations as f64 / peaks.peak(number(kind)?)? * 1e9)
}

/// The type whose peak bounds operations of a kind.
fn number(kind: &str) -> Option<NumberType> {
    Some(match kind {
        "tensor bf16" => NumberType::Bf16,
        "tensor fp16" => NumberType::Fp16,
        "tensor tf32" => NumberType::Tf32,
        "tensor fp8" => NumberType::Fp8,
        // The peak of a data sheet is that of the tensor cores, where they have the type.
        "tensor fp64" | "fp64" => NumberType::Fp64,
        "fp32" => NumberType::Fp32,
        _ => return None,
    })
}

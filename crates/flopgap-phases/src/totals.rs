//! What launches add up to.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use flopgap_flops::FlopError;
use flopgap_ncu::{Count, Flops, Instruction, Measurement, OperationType};

use crate::ceiling::Facts;

/// What the launches of a kernel, of a class or of a whole report add up to.
///
/// A sum is present only if it was measured for every launch: a part of the whole would be a wrong
/// number.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Totals {
    /// Launches.
    pub launches: u64,
    /// Floating-point operations of all precisions. It is measured for a launch only if nothing of
    /// that launch's is missing ([`Flops::work`]).
    pub flops: Sum,
    /// The same by precision; a precision that no launch was measured for is not listed.
    pub by_precision: BTreeMap<OperationType, Sum>,
    /// Instructions of the shader cores by kind, once for each thread; a kind that no launch was
    /// measured for is not listed.
    pub by_instruction: BTreeMap<Instruction, Sum>,
    /// Bytes to and from device memory.
    pub dram_bytes: Sum,
    /// Bytes through the L2 cache.
    pub l2_bytes: Sum,
    /// Time on the GPU in nanoseconds.
    pub duration_ns: Sum,
    /// The least time that the GPU's ceilings allow for the operations and bytes of each launch, in
    /// picoseconds.
    pub least_ps: Sum,
    /// Achieved occupancy of each launch, in millionths: divided by the launches, the mean.
    pub occupancy: Sum,
    /// Half-precision instructions, counted as operations, that are constants and conversions. Not
    /// in `flops`.
    pub half_artifacts: u64,
    /// Half-precision operations that may be arithmetic or not. Not in `flops`.
    pub half_undecided: u64,
}

/// A sum over launches, with the number of launches that it was measured for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Sum {
    value: u64,
    measured: u64,
    rounded: bool,
}

impl Sum {
    fn add(&mut self, count: Option<Count>, launches: u64, quantity: &'static str) -> Result<(), FlopError> {
        let Some(count) = count else { return Ok(()) };
        let overflow = || FlopError::Overflow { quantity: quantity.into() };
        self.value = self.value.checked_add(count.value).ok_or_else(overflow)?;
        self.measured += launches;
        self.rounded |= count.rounded;
        Ok(())
    }

    /// Whether ncu printed a part of it rounded (`10.53 Mbyte`).
    pub fn is_rounded(self) -> bool {
        self.rounded
    }
}

impl Totals {
    /// The sum if it was measured for every launch; `None` otherwise.
    pub fn complete(&self, sum: Sum) -> Option<u64> {
        (self.launches > 0 && sum.measured == self.launches).then_some(sum.value)
    }

    /// Floating-point operations of all types, if they are known for every launch.
    pub fn work(&self) -> Option<u64> {
        self.complete(self.flops)
    }

    /// Operations by type, each if it was measured for every launch.
    pub fn work_by_type(&self) -> impl Iterator<Item = (OperationType, Option<u64>)> + '_ {
        self.by_precision.iter().map(|(&operation, &sum)| (operation, self.complete(sum)))
    }

    /// The sum over those launches that it was measured for.
    pub fn known(&self, sum: Sum) -> u64 {
        sum.value
    }

    /// How many launches a sum was measured for.
    pub fn measured(&self, sum: Sum) -> u64 {
        sum.measured
    }

    /// Whether some launch lacks it.
    fn lacks(&self, sum: Sum) -> bool {
        sum.measured < self.launches
    }

    /// How many launches a sum lacks, if it was measured for some and not for all.
    pub fn lacking(&self, sum: Sum) -> Option<u64> {
        (sum.measured > 0).then(|| self.launches - sum.measured).filter(|&launches| launches > 0)
    }

    /// FLOPs for each byte of device memory.
    pub fn intensity(&self) -> Option<f64> {
        let bytes = self.complete(self.dram_bytes).filter(|&bytes| bytes > 0)?;
        Some(self.work()? as f64 / bytes as f64)
    }

    /// FLOPs for each second on the GPU.
    pub fn flops_per_second(&self) -> Option<f64> {
        Some(self.work()? as f64 / self.seconds()?)
    }

    /// Bytes of device memory for each second on the GPU.
    pub fn bytes_per_second(&self) -> Option<f64> {
        Some(self.complete(self.dram_bytes)? as f64 / self.seconds()?)
    }

    /// The least time that the GPU's ceilings allow, divided by the time on the GPU. Each launch
    /// has its own least time: what the busiest of its pipes or device memory needs.
    pub fn roofline_share(&self) -> Option<f64> {
        Some(self.complete(self.least_ps)? as f64 / 1e12 / self.seconds()?)
    }

    /// The mean of the launches' achieved occupancies, as a fraction.
    pub fn mean_occupancy(&self) -> Option<f64> {
        Some(self.complete(self.occupancy)? as f64 / 1e6 / self.launches as f64)
    }

    fn seconds(&self) -> Option<f64> {
        Some(self.complete(self.duration_ns).filter(|&ns| ns > 0)? as f64 / 1e9)
    }

    pub(crate) fn add(&mut self, launches: u64, flops: &Flops, facts: &Facts) -> Result<(), FlopError> {
        self.launches += launches;
        self.flops.add(flops.total(), launches, "FLOPs")?;
        for (precision, measurement) in flops.iter() {
            let operations = match measurement {
                // Constants and conversions: of arithmetic there is none.
                Measurement::Artifact(_) => Some(Count::default()),
                other => other.count(),
            };
            self.by_precision.entry(precision).or_default().add(
                operations,
                launches,
                "FLOPs of a precision",
            )?;
            match measurement {
                Measurement::Artifact(count) => add_to(&mut self.half_artifacts, count.value)?,
                Measurement::Undecided(count) => add_to(&mut self.half_undecided, count.value)?,
                _ => {}
            }
        }
        for (instruction, count) in flops.instructions.iter() {
            let sum = self.by_instruction.entry(instruction).or_default();
            sum.add(Some(count), launches, "instructions")?;
        }
        self.dram_bytes.add(flops.dram_bytes, launches, "DRAM bytes")?;
        self.l2_bytes.add(flops.l2_bytes, launches, "L2 bytes")?;
        self.duration_ns.add(flops.duration_ns, launches, "GPU time")?;
        let whole = |value: f64| whole(value).map(|value| Count { value, rounded: false });
        let least = facts.least_seconds(flops).and_then(|seconds| whole(seconds * 1e12));
        self.least_ps.add(least, launches, "least time")?;
        let occupancy = facts.occupancy.and_then(|percent| whole(percent * 1e4 * launches as f64));
        self.occupancy.add(occupancy, launches, "occupancy")?;
        Ok(())
    }
}

impl Sum {
    fn merge(&mut self, more: Sum, quantity: &'static str) -> Result<(), FlopError> {
        self.add(Some(Count { value: more.value, rounded: more.rounded }), more.measured, quantity)
    }
}

impl Totals {
    /// Adds the launches of `more`.
    ///
    /// # Errors
    /// [`FlopError::Overflow`] when a sum leaves `u64`.
    pub fn merge(&mut self, more: &Totals) -> Result<(), FlopError> {
        self.launches += more.launches;
        self.flops.merge(more.flops, "FLOPs")?;
        for (precision, sum) in &more.by_precision {
            self.by_precision.entry(*precision).or_default().merge(*sum, "FLOPs of a precision")?;
        }
        for (instruction, sum) in &more.by_instruction {
            self.by_instruction.entry(*instruction).or_default().merge(*sum, "instructions")?;
        }
        self.dram_bytes.merge(more.dram_bytes, "DRAM bytes")?;
        self.l2_bytes.merge(more.l2_bytes, "L2 bytes")?;
        self.duration_ns.merge(more.duration_ns, "GPU time")?;
        self.least_ps.merge(more.least_ps, "least time")?;
        self.occupancy.merge(more.occupancy, "occupancy")?;
        add_to(&mut self.half_artifacts, more.half_artifacts)?;
        add_to(&mut self.half_undecided, more.half_undecided)
    }

    /// What the largest come first by: what is not known may be anything, then FLOPs, then time.
    pub(crate) fn rank(&self) -> Reverse<(bool, u64, u64)> {
        Reverse((self.lacks(self.flops), self.flops.value, self.duration_ns.value))
    }
}

/// The nearest whole number, if there is one in 64 bits.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // the range is checked
fn whole(value: f64) -> Option<u64> {
    (0.0..1.8e19).contains(&value).then(|| value.round() as u64)
}

fn add_to(operations: &mut u64, more: u64) -> Result<(), FlopError> {
    let overflow = || FlopError::Overflow { quantity: "half-precision operations".into() };
    *operations = operations.checked_add(more).ok_or_else(overflow)?;
    Ok(())
}

//! FLOPs, memory traffic and time of a launch, from the counters in its report.

mod arithmetic;
mod chip;
mod counter;
mod counters;
mod half;
mod instructions;
mod operation;
mod pipe;
mod unknown;
mod work;

pub use arithmetic::Arithmetic;
pub use counter::FlopCounter;
pub use counters::Counters;
pub use instructions::{Instruction, Instructions};
pub use operation::OperationType;
pub use unknown::Unknown;

/// A number of operations, bytes or nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Count {
    /// The number.
    pub value: u64,
    /// The report does not hold it exactly: ncu scaled it (`1.32 Minst`), or averaged it over
    /// launches that differ.
    pub rounded: bool,
}

impl Count {
    fn plus(self, other: Count) -> Option<Count> {
        let value = self.value.checked_add(other.value)?;
        Some(Count { value, rounded: self.rounded || other.rounded })
    }

    fn times(self, factor: u64) -> Option<Count> {
        Some(Count { value: self.value.checked_mul(factor)?, ..self })
    }
}

/// The measurement of one precision of one launch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Measurement {
    /// None of its counters is present.
    #[default]
    NotMeasured,
    /// Some counters are present but not these, so a sum would be too small.
    Incomplete(Counters),
    /// The report gives different values for one counter.
    Conflicting(Counters),
    /// The operations executed.
    Counted(Count),
    /// Half-precision instructions (counted as if they were work) that are none: the compiler loads
    /// constants with HFMA and widens 16-bit values with HADD, in kernels that compute in another
    /// type or move data.
    Artifact(Count),
    /// Half-precision instructions (counted as if they were work) that may be work or not.
    Undecided(Count),
    /// The count exceeds 64 bits.
    Overflow,
}

impl Measurement {
    /// The operations, if they were counted and are arithmetic for certain.
    pub fn count(self) -> Option<Count> {
        match self {
            Measurement::Counted(count) => Some(count),
            _ => None,
        }
    }
}

/// FLOPs, traffic and time of one launch, or of all launches that a summary row stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Flops {
    by_precision: [Measurement; OperationType::ALL.len()],
    work: Result<Count, Unknown>,
    /// The instructions that the shader cores executed, by kind.
    pub instructions: Instructions,
    /// Bytes read from and written to device memory.
    pub dram_bytes: Option<Count>,
    /// Bytes read from device memory.
    pub dram_read_bytes: Option<Count>,
    /// Bytes written to device memory.
    pub dram_write_bytes: Option<Count>,
    /// Bytes through the L2 cache (`lts__t_bytes.sum`).
    pub l2_bytes: Option<Count>,
    /// Bytes through the L1 cache (`l1tex__t_bytes.sum`).
    pub l1_bytes: Option<Count>,
    /// Time on the GPU in nanoseconds: `gpu__time_duration.sum`, or else the elapsed cycles over
    /// their rate (`sm__cycles_elapsed.avg` and `.avg.per_second`).
    pub duration_ns: Option<Count>,
}

impl Default for Flops {
    fn default() -> Self {
        Flops {
            by_precision: Default::default(),
            work: Err(Unknown::NotRecorded),
            instructions: Instructions::default(),
            dram_bytes: None,
            dram_read_bytes: None,
            dram_write_bytes: None,
            l2_bytes: None,
            l1_bytes: None,
            duration_ns: None,
        }
    }
}

impl Flops {
    /// The measurement of a precision.
    pub fn get(&self, precision: OperationType) -> Measurement {
        self.by_precision[precision.index()]
    }

    /// All precisions with any counter in the report.
    pub fn iter(&self) -> impl Iterator<Item = (OperationType, Measurement)> + '_ {
        OperationType::ALL
            .into_iter()
            .map(|precision| (precision, self.get(precision)))
            .filter(|(_, measurement)| *measurement != Measurement::NotMeasured)
    }

    /// The floating-point operations of all precisions, or why they are not known. Integer
    /// operations are not in it, nor [`Measurement::Artifact`], nor [`Measurement::Undecided`]
    /// where it is less than what was counted.
    ///
    /// # Errors
    /// [`Unknown`], when the counters that the report has would give too small a number.
    pub fn work(&self) -> Result<Count, Unknown> {
        self.work
    }

    /// [`Flops::work`] without the reason.
    pub fn total(&self) -> Option<Count> {
        self.work.ok()
    }

    /// The precisions with some counters but not all, and the counters that are missing.
    pub fn incomplete(&self) -> impl Iterator<Item = (OperationType, Counters)> + '_ {
        self.iter().filter_map(|(precision, measurement)| match measurement {
            Measurement::Incomplete(missing) => Some((precision, missing)),
            _ => None,
        })
    }
}

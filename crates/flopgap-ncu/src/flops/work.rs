//! Decides whether the counters cover all floating-point operations of a launch.

use super::chip::{self, Capability};
use super::{Arithmetic, Count, Measurement, OperationType, Unknown};

/// The findings about one launch.
pub(super) struct Evidence<'a> {
    pub(super) by_precision: &'a [Measurement; OperationType::ALL.len()],
    pub(super) arithmetic: &'a Arithmetic,
    pub(super) capability: Capability,
    /// Whether the launch multiplied on the tensor cores, where counters prove it or the kernel's
    /// name says so.
    pub(super) tensor_cores: Option<bool>,
    /// The precision of the products on the tensor cores by the kernel's name, unless a counter
    /// contradicts it.
    pub(super) tensor_precision: Option<OperationType>,
    /// Whether the tensor pipe worked, on products or on HFMA2.
    pub(super) tensor_pipe_worked: bool,
    /// Whether every product on the tensor cores was counted, by its opcode.
    pub(super) products_counted: bool,
    /// The most operations that the tensor cores can have executed.
    pub(super) tensor_at_most: Option<u64>,
    /// The most operations that the half-precision instructions can be that are listed by opcode.
    pub(super) half_at_most: u64,
    /// By [`OperationType`]: a counter is there and above 0 while others are missing.
    pub(super) begun: u32,
}

impl Evidence<'_> {
    fn get(&self, precision: OperationType) -> Measurement {
        self.by_precision[precision.index()]
    }

    fn counted(&self, precision: OperationType) -> Option<u64> {
        self.get(precision).count().map(|count| count.value)
    }

    /// The sum over all precisions, or why it would be too small.
    pub(super) fn work(&self) -> Result<Count, Unknown> {
        if self.by_precision.iter().all(|measurement| *measurement == Measurement::NotMeasured) {
            return Err(Unknown::NotRecorded);
        }
        for precision in OperationType::ALL.into_iter().filter(|precision| precision.is_float()) {
            match self.get(precision) {
                Measurement::Conflicting(counters) => return Err(Unknown::Conflicting(counters)),
                Measurement::Overflow => return Err(Unknown::Overflow),
                Measurement::Incomplete(counters) if self.needs(precision) => {
                    return Err(Unknown::Incomplete(counters));
                }
                _ => {}
            }
        }
        let floats = OperationType::ALL.into_iter().filter(|precision| precision.is_float());
        let mut sum = floats
            .filter_map(|precision| self.get(precision).count())
            .try_fold(Count::default(), Count::plus)
            .ok_or(Unknown::Overflow)?;
        if self.tensor_cores.is_none() && self.is_negligible(sum.value) {
            sum.rounded = true;
        } else {
            self.tensor_operations()?;
        }
        self.shader_operations(sum.value)?;
        match self.get(OperationType::Fp16) {
            // Less than half of all is left out; beyond that the number would not be the kernel's.
            Measurement::Undecided(count) if count.value > sum.value => Err(Unknown::HalfPrecision),
            Measurement::NotMeasured
                if self.half_at_most > sum.value && self.arithmetic.half_arithmetic != Some(false) =>
            {
                Err(Unknown::NotCounted(OperationType::Fp16))
            }
            _ => Ok(sum),
        }
    }

    /// Whether a precision with missing counters matters: any kernel may compute in FP32, and in
    /// others where it is known to, or a counter that is there says so.
    fn needs(&self, precision: OperationType) -> bool {
        let named = |known: Option<OperationType>| known == Some(precision);
        if precision == OperationType::Fp16 && self.arithmetic.half_arithmetic == Some(false) {
            return false;
        }
        self.begun >> precision.index() & 1 == 1
            || match self.tensor_cores {
                Some(true) => named(self.tensor_precision),
                _ => named(self.arithmetic.precision),
            }
            || (precision == OperationType::Fp32 && self.arithmetic.precision != Some(OperationType::Fp64))
    }

    /// Whether the operations on the tensor cores, if there were any, are less than a hundredth of
    /// what was counted: a share of their peak that was printed as `0.00`, of a large kernel.
    fn is_negligible(&self, sum: u64) -> bool {
        self.tensor_at_most.is_some_and(|most| most <= sum / 100) && !self.arithmetic.is_composite
    }

    /// Whether the operations on the tensor cores were counted, if there were any.
    fn tensor_operations(&self) -> Result<(), Unknown> {
        let tensor_precision = self.tensor_precision;
        let Arithmetic { is_product, is_composite, .. } = *self.arithmetic;
        let perhaps = is_product || is_composite || self.tensor_pipe_worked;
        let none = self.tensor_cores == Some(false) || (self.tensor_cores.is_none() && !perhaps);
        if none || self.products_counted {
            return Ok(());
        }
        let counted_for = |precision| {
            let counters =
                OperationType::ALL.into_iter().filter(move |&counter| chip::counts(counter, precision));
            counters.filter_map(|counter| self.counted(counter))
        };
        let some_work = |precision| counted_for(precision).any(|count| count > 0);
        let all_types = chip::float_types(self.capability);
        let all_counted =
            !all_types.is_empty() && all_types.iter().all(|&precision| self.counted(precision).is_some());
        match self.tensor_cores {
            _ if all_counted || some_work(tensor_precision) || some_work(None) => Ok(()),
            Some(true) if tensor_precision.is_some() => {
                let counted = counted_for(tensor_precision).next().is_some();
                if counted { Ok(()) } else { Err(Unknown::TensorCores(tensor_precision)) }
            }
            Some(true) => Err(Unknown::TensorCores(None)),
            // Fused multiply-adds prove nothing: one HMMA does as much as 64 FFMA of a warp.
            _ => Err(Unknown::PerhapsTensorCores),
        }
    }

    /// Whether the shader cores' operations were counted that the kernel is known to execute.
    /// `sum`: everything that was counted.
    fn shader_operations(&self, sum: u64) -> Result<(), Unknown> {
        let Arithmetic { precision, half_arithmetic, .. } = *self.arithmetic;
        let absent = |precision: OperationType| self.get(precision) == Measurement::NotMeasured;
        let on_shader_cores = self.tensor_cores != Some(true);
        let single = !absent(OperationType::Fp32);
        match precision {
            Some(OperationType::Fp64) if on_shader_cores && absent(OperationType::Fp64) => {
                Err(if single { Unknown::NotCounted(OperationType::Fp64) } else { Unknown::NotRecorded })
            }
            Some(OperationType::Fp64) if !absent(OperationType::Fp64) => Ok(()),
            Some(OperationType::Fp16)
                if on_shader_cores
                    && sum == 0
                    && single
                    && half_arithmetic != Some(false)
                    && absent(OperationType::Fp16) =>
            {
                Err(Unknown::NotCounted(OperationType::Fp16))
            }
            Some(OperationType::Fp32) if on_shader_cores && !single && sum > 0 => {
                Err(Unknown::NotCounted(OperationType::Fp32))
            }
            // Without FP32 counters, 0 means that nothing was measured.
            _ if !single && sum == 0 => Err(Unknown::NotRecorded),
            _ => Ok(()),
        }
    }
}

//! FLOPs, memory traffic and time of a launch from whatever counters its report has.

mod counters;

use crate::model::{LaunchView, Metric, Strings, Value};
use crate::units;

pub use counters::Counters;
use counters::{COUNTERS, INSTRUCTIONS, Role, TENSOR, TRAFFIC, role, tensor_index};

/// An arithmetic that is counted by itself: a type, on the shader cores or on the tensor cores.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Precision {
    /// Double precision on the shader cores: DADD, DMUL, DFMA.
    Fp64,
    /// Single precision on the shader cores: FADD, FMUL, FFMA, and on Blackwell the packed FADD2, FMUL2, FFMA2.
    Fp32,
    /// Half precision on the shader cores, packed in twos: HADD, HMUL, HFMA.
    Fp16,
    /// Tensor operations on FP64.
    TensorFp64,
    /// Tensor operations on TF32.
    TensorTf32,
    /// Tensor operations on BF16.
    TensorBf16,
    /// Tensor operations on FP16.
    TensorFp16,
    /// Tensor operations on FP8.
    TensorFp8,
    /// Tensor operations on FP6.
    TensorFp6,
    /// Tensor operations on FP4.
    TensorFp4,
    /// Tensor operations on microscaled types.
    TensorMx,
    /// Tensor operations on 8-bit integers: operations, but not floating-point ones.
    TensorInt8,
    /// Tensor operations on 4-bit integers.
    TensorInt4,
    /// Tensor operations on bits.
    TensorInt1,
}

impl Precision {
    /// All of them.
    pub const ALL: [Precision; 14] = [
        Precision::Fp64,
        Precision::Fp32,
        Precision::Fp16,
        Precision::TensorFp64,
        Precision::TensorTf32,
        Precision::TensorBf16,
        Precision::TensorFp16,
        Precision::TensorFp8,
        Precision::TensorFp6,
        Precision::TensorFp4,
        Precision::TensorMx,
        Precision::TensorInt8,
        Precision::TensorInt4,
        Precision::TensorInt1,
    ];

    /// Whether its operations are floating-point operations.
    pub fn is_float(self) -> bool {
        !matches!(self, Precision::TensorInt8 | Precision::TensorInt4 | Precision::TensorInt1)
    }

    /// Whether the tensor cores execute it.
    pub fn is_tensor(self) -> bool {
        !matches!(self, Precision::Fp64 | Precision::Fp32 | Precision::Fp16)
    }

    /// A short name: `fp32`, `tensor bf16`.
    pub fn label(self) -> &'static str {
        match self {
            Precision::Fp64 => "fp64",
            Precision::Fp32 => "fp32",
            Precision::Fp16 => "fp16",
            Precision::TensorFp64 => "tensor fp64",
            Precision::TensorTf32 => "tensor tf32",
            Precision::TensorBf16 => "tensor bf16",
            Precision::TensorFp16 => "tensor fp16",
            Precision::TensorFp8 => "tensor fp8",
            Precision::TensorFp6 => "tensor fp6",
            Precision::TensorFp4 => "tensor fp4",
            Precision::TensorMx => "tensor mx",
            Precision::TensorInt8 => "tensor int8",
            Precision::TensorInt4 => "tensor int4",
            Precision::TensorInt1 => "tensor int1",
        }
    }

    fn index(self) -> usize {
        self as usize
    }
}

/// A number of operations, bytes or nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Count {
    /// The number.
    pub value: u64,
    /// The report does not hold it exactly: ncu scaled it (`1.32 Minst`), or averaged it over launches that differ.
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

/// What a report tells about one precision of one launch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Measurement {
    /// None of its counters is there.
    #[default]
    NotMeasured,
    /// Some of its counters are there, but not these, so a sum would be too small.
    Incomplete(Counters),
    /// The report gives different values for one counter.
    Conflicting(Counters),
    /// The operations executed.
    Counted(Count),
    /// HFMA instructions beside FP32 work and without any HADD or HMUL: the compiler loads constants with them, so these
    /// operations (counted as if they were work) are most likely none.
    Suspect(Count),
    /// More than 64 bits hold.
    Overflow,
}

impl Measurement {
    /// The operations, if they were counted and are not suspect.
    pub fn count(self) -> Option<Count> {
        match self {
            Measurement::Counted(count) => Some(count),
            _ => None,
        }
    }
}

/// FLOPs, traffic and time of one launch, or of all launches that a summary row stands for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flops {
    by_precision: [Measurement; Precision::ALL.len()],
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
    /// Time on the GPU (`gpu__time_duration.sum`), in nanoseconds.
    pub duration_ns: Option<Count>,
}

impl Flops {
    /// What the report tells about a precision.
    pub fn get(&self, precision: Precision) -> Measurement {
        self.by_precision[precision.index()]
    }

    /// All precisions that the report tells something about.
    pub fn iter(&self) -> impl Iterator<Item = (Precision, Measurement)> + '_ {
        Precision::ALL
            .into_iter()
            .map(|precision| (precision, self.get(precision)))
            .filter(|(_, measurement)| *measurement != Measurement::NotMeasured)
    }

    /// The floating-point operations of all precisions that were counted: integer and suspect ones are not in it. `None` if no
    /// precision was counted, if the sum is beyond 64 bits, and if only tensor operations were counted and there are none: what the
    /// shader cores did is unknown then.
    pub fn total(&self) -> Option<Count> {
        let counted = |(precision, measurement): (Precision, Measurement)| {
            precision.is_float().then(|| measurement.count()).flatten()
        };
        let mut counts = self.iter().filter_map(counted);
        let first = counts.next()?;
        let total = counts.try_fold(first, Count::plus)?;
        let shader_known = [Precision::Fp64, Precision::Fp32, Precision::Fp16]
            .into_iter()
            .any(|precision| self.get(precision).count().is_some());
        (total.value > 0 || shader_known).then_some(total)
    }

    /// The precisions with some counters but not all, and the counters that are missing.
    pub fn incomplete(&self) -> impl Iterator<Item = (Precision, Counters)> + '_ {
        self.iter().filter_map(|(precision, measurement)| match measurement {
            Measurement::Incomplete(missing) => Some((precision, missing)),
            _ => None,
        })
    }
}

/// Computes [`Flops`] launch by launch.
///
/// Per thread instruction: FADD, FMUL, DADD, DMUL count 1, FFMA and DFMA 2; HADD and HMUL work on two halves and count 2, HFMA 4, as
/// in ncu's own roofline sections; Blackwell's packed FADD2 and FMUL2 count 2, FFMA2 4. The tensor counters
/// (`sm__ops_path_tensor_*`) already count operations.
///
/// ```
/// # let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/ncu/n4_d512_m64_forward.csv");
/// use flopgap_ncu::{FlopCounter, Precision, Reader};
///
/// let mut reader = Reader::open(path)?;
/// let mut counter = FlopCounter::new();
/// let mut total = 0;
/// while let Some(launch) = reader.next_launch()? {
///     let flops = counter.count(launch);
///     total += flops.get(Precision::Fp32).count().expect("all three counters were collected").value;
/// }
/// assert_eq!(total, 358_154_240);
/// # Ok::<(), flopgap_ncu::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct FlopCounter {
    /// By symbol index: what a string means as a metric's name, and as a unit.
    known: Vec<Known>,
    values: Vec<Count>,
}

#[derive(Clone, Copy, Debug)]
struct Known {
    role: Role,
    /// The factor to the base unit; 0 where it was not looked up yet.
    factor: u64,
    is_time: bool,
}

/// What was found in one launch: bits say which of the counter's values are this launch's.
#[derive(Debug, Default)]
struct Found {
    present: u128,
    conflicts: u128,
    parts: u16,
    traffic: [Option<Count>; TRAFFIC],
    duration: Option<Count>,
    /// Instructions for each elapsed cycle.
    rates: [Option<f64>; INSTRUCTIONS.len()],
    cycles: Option<f64>,
}

impl FlopCounter {
    /// A counter for the launches of one report. Symbols mean something else in another report: use a new counter there.
    pub fn new() -> Self {
        FlopCounter::default()
    }

    /// The FLOPs of a launch.
    pub fn count(&mut self, launch: LaunchView<'_>) -> Flops {
        self.values.resize(COUNTERS, Count::default());
        let mut found = Found::default();
        for metric in &launch.metrics {
            let role = self.known(metric.name.index(), launch.strings).role;
            if role != Role::None {
                let unit = self.known(metric.unit.index(), launch.strings);
                self.take(metric, role, unit, launch.invocations, &mut found);
            }
        }
        // Averages over several launches do not multiply to a sum.
        if launch.invocations == 1 {
            self.fill_from_rates(&mut found);
        }
        self.flops(&found, launch.compute_capability)
    }

    /// Computes counters that the report has for each elapsed cycle only: `--set full` stores no sums.
    fn fill_from_rates(&mut self, found: &mut Found) {
        let Some(cycles) = found.cycles else { return };
        for (index, rate) in found.rates.iter().enumerate() {
            let bit = 1 << index;
            if let Some(count) = rate.and_then(|rate| count_from_rate(rate, cycles))
                && found.present & bit == 0
            {
                self.values[index] = count;
                found.present |= bit;
            }
        }
    }

    #[inline]
    fn known(&mut self, index: usize, strings: &Strings) -> Known {
        match self.known.get(index) {
            Some(&known) => known,
            None => self.learn(index, strings),
        }
    }

    /// Looks at all strings that are new.
    fn learn(&mut self, index: usize, strings: &Strings) -> Known {
        for text in strings.iter().skip(self.known.len()) {
            let (factor, base) = units::base_unit(text);
            self.known.push(Known { role: role(text), factor, is_time: base == "ns" });
        }
        self.known.get(index).copied().unwrap_or(Known { role: Role::None, factor: 1, is_time: false })
    }

    fn take(&mut self, metric: &Metric, role: Role, unit: Known, invocations: u64, found: &mut Found) {
        match role {
            Role::Rate(index) => found.rates[usize::from(index)] = in_base_unit(metric, unit.factor),
            Role::Cycles => found.cycles = in_base_unit(metric, unit.factor),
            _ => {}
        }
        let Some(count) = sum_of(metric, unit.factor, invocations) else { return };
        match role {
            Role::Counter(index) => {
                let bit = 1 << index;
                let value = &mut self.values[usize::from(index)];
                // The same counter under two names, or in two sections.
                if found.present & bit == 0 || (value.rounded && !count.rounded) {
                    *value = count;
                } else if value.value != count.value && !value.rounded && !count.rounded {
                    found.conflicts |= bit;
                }
                found.present |= bit;
            }
            Role::TensorPart(source) => found.parts |= 1 << source,
            Role::Traffic(traffic) => {
                found.traffic[traffic as usize].get_or_insert(count);
            }
            Role::Duration => found.duration = Some(count),
            Role::DurationLabel if unit.is_time => {
                found.duration.get_or_insert(count);
            }
            Role::DurationLabel | Role::Rate(_) | Role::Cycles | Role::None => {}
        }
    }

    fn flops(&self, found: &Found, compute_capability: Option<(u32, u32)>) -> Flops {
        let mut flops = Flops::default();
        let mut set = |precision: Precision, measurement| flops.by_precision[precision.index()] = measurement;
        // Bits: fadd fmul ffma fadd2 fmul2 ffma2 dadd dmul dfma hadd hmul hfma.
        let packed = 0b111_000;
        let is_b200 = matches!(compute_capability, Some((10, _)));
        let fp32 = if is_b200 || found.present & packed != 0 { packed | 0b111 } else { 0b111 };
        set(Precision::Fp32, self.instructions(found, fp32, &[1, 1, 2, 2, 2, 4]));
        set(Precision::Fp64, self.instructions(found, 0b111 << 6, &[0, 0, 0, 0, 0, 0, 1, 1, 2]));
        let fp16 = self.instructions(found, 0b111 << 9, &[0, 0, 0, 0, 0, 0, 0, 0, 0, 2, 2, 4]);
        let value = |op: &str| self.instruction(found, op).map(|count| count.value);
        set(
            Precision::Fp16,
            match fp16 {
                Measurement::Counted(count)
                    if count.value > 0
                        && value("hadd") == Some(0)
                        && value("hmul") == Some(0)
                        && value("ffma").is_some_and(|ffma| ffma > 0) =>
                {
                    Measurement::Suspect(count)
                }
                other => other,
            },
        );
        let has_tensor = found.present >> INSTRUCTIONS.len() != 0 || found.parts != 0;
        for (source, &(_, precision)) in TENSOR.iter().enumerate().take_while(|_| has_tensor) {
            set(precision, self.tensor(found, source));
        }
        let [total, read, write, l2, l1] = found.traffic;
        Flops {
            dram_bytes: total.or_else(|| read.zip(write).and_then(|(read, write)| read.plus(write))),
            dram_read_bytes: read,
            dram_write_bytes: write,
            l2_bytes: l2,
            l1_bytes: l1,
            duration_ns: found.duration,
            ..flops
        }
    }

    fn instruction(&self, found: &Found, op: &str) -> Option<Count> {
        let index = INSTRUCTIONS.iter().position(|&known| known == op)?;
        (found.present >> index & 1 == 1).then(|| self.values[index])
    }

    /// The weighted sum of the counters in `needed`.
    fn instructions(&self, found: &Found, needed: u128, weights: &[u64]) -> Measurement {
        if found.present & needed == 0 {
            return Measurement::NotMeasured;
        }
        if found.present & needed != needed {
            return Measurement::Incomplete(Counters(needed & !found.present));
        }
        if found.conflicts & needed != 0 {
            return Measurement::Conflicting(Counters(found.conflicts & needed));
        }
        let weighted =
            weights.iter().zip(&self.values).enumerate().filter(|(index, _)| needed >> index & 1 == 1);
        weighted
            .map(|(_, (&weight, count))| count.times(weight))
            .try_fold(Count::default(), |sum, count| sum.plus(count?))
            .map_or(Measurement::Overflow, Measurement::Counted)
    }

    /// The operations of a source type: its total, or the sum over all its destination types.
    fn tensor(&self, found: &Found, source: usize) -> Measurement {
        let forms =
            (0..3).flat_map(|dst| (0..3).map(move |sparsity| 1_u128 << tensor_index(source, dst, sparsity)));
        let any = forms.fold(0, |all, bit| all | bit);
        if found.present & any == 0 {
            let whole = Counters(1 << tensor_index(source, 0, 0));
            let is_part = found.parts >> source & 1 == 1;
            return if is_part { Measurement::Incomplete(whole) } else { Measurement::NotMeasured };
        }
        if found.conflicts & any != 0 {
            return Measurement::Conflicting(Counters(found.conflicts & any));
        }
        // BF16 and TF32 accumulate in FP32 only; the others have an FP16 path too.
        let fp32_only = matches!(TENSOR[source].1, Precision::TensorBf16 | Precision::TensorTf32)
            || !TENSOR[source].1.is_float();
        let split = if fp32_only { 2..3 } else { 1..3 };
        // Where a part of the total is there, the rest of it is what is missing.
        let total_begun = (0..3).any(|sparsity| found.present >> tensor_index(source, 0, sparsity) & 1 == 1);
        let sum = self.any_sparsity(found, source, 0).or_else(|missing| {
            if total_begun {
                return Err(missing);
            }
            split
                .map(|dst| self.any_sparsity(found, source, dst))
                .reduce(both)
                .unwrap_or(Err(Measurement::NotMeasured))
        });
        match sum {
            Ok(Some(count)) => Measurement::Counted(count),
            Ok(None) => Measurement::Overflow,
            Err(missing) => missing,
        }
    }

    /// The operations of a source and destination type (0: all), or what is missing. `Ok(None)`: overflow.
    fn any_sparsity(&self, found: &Found, source: usize, dst: usize) -> Result<Option<Count>, Measurement> {
        let value = |sparsity| {
            let index = tensor_index(source, dst, sparsity);
            (found.present >> index & 1 == 1).then(|| self.values[index])
        };
        let missing = |sparsity| Measurement::Incomplete(Counters(1 << tensor_index(source, dst, sparsity)));
        match (value(0), value(1), value(2)) {
            (Some(all), ..) => Ok(Some(all)),
            (None, Some(on), Some(off)) => Ok(on.plus(off)),
            (None, Some(_), None) => Err(missing(2)),
            (None, None, Some(_)) => Err(missing(1)),
            (None, None, None) => Err(missing(0)),
        }
    }
}

type Sum = Result<Option<Count>, Measurement>;

/// The sum of two parts, or everything that is missing from them.
fn both(a: Sum, b: Sum) -> Sum {
    match (a, b) {
        (Ok(a), Ok(b)) => Ok(a.zip(b).and_then(|(a, b)| a.plus(b))),
        (Err(Measurement::Incomplete(a)), Err(Measurement::Incomplete(b))) => {
            Err(Measurement::Incomplete(Counters(a.0 | b.0)))
        }
        (Err(missing), _) | (_, Err(missing)) => Err(missing),
    }
}

/// A metric's sum over the launches that its row stands for, in base units. `None` if it is no count.
fn sum_of(metric: &Metric, factor: u64, invocations: u64) -> Option<Count> {
    let scaled = factor != 1;
    let alike = invocations == 1 || metric.spread.is_some_and(|(low, high)| low.to_bits() == high.to_bits());
    match metric.value {
        Value::U64(value) => {
            let value = value.checked_mul(factor)?.checked_mul(invocations)?;
            // Minimum and maximum are floats: beyond 2^53 they may be equal by rounding.
            Some(Count {
                value,
                rounded: scaled || !alike || (invocations > 1 && value / invocations > 1 << 53),
            })
        }
        Value::F64(value) => {
            let whole = value.fract() == 0.0 && value < 9_007_199_254_740_992.0;
            let value = to_u64(value * factor as f64 * invocations as f64)?;
            Some(Count { value, rounded: scaled || !alike || !whole })
        }
        Value::Text(_) => None,
    }
}

/// The nearest whole number, if there is one in 64 bits.
/// A metric's value in its base unit.
fn in_base_unit(metric: &Metric, factor: u64) -> Option<f64> {
    metric.value.as_f64().map(|value| value * factor as f64)
}

/// The count behind a rate. ncu prints six decimals; the count is exact while these determine it.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // the range is checked
fn count_from_rate(rate: f64, cycles: f64) -> Option<Count> {
    const PRINTED: f64 = 0.5e-6;
    let count = rate * cycles;
    if !(0.0..9e15).contains(&count) {
        return None;
    }
    let error = PRINTED * (rate + cycles) + count * f64::EPSILON;
    let nearest = count.round();
    let exact = rate == 0.0 || (error < 0.5 && (count - nearest).abs() <= error);
    Some(Count { value: nearest as u64, rounded: !exact })
}

#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // the range is checked
fn to_u64(value: f64) -> Option<u64> {
    (0.0..18_446_744_073_709_549_568.0).contains(&value).then(|| value.round() as u64)
}

//! Computes FLOPs launch by launch.

use crate::model::{Launch, LaunchView, Layout, Metric, Strings, Value};
use crate::units;

use super::chip::{self, Capability, TENSOR};
use super::counters::{
    CLOCKS, COUNTERS, Clock, Counters, DADD, FADD, FFMA, FMUL, HADD, HFMA, HMUL, INSTRUCTIONS, Role, TRAFFIC,
    role, tensor_index,
};
use super::half::{Half, HalfOpcode, HalfOpcodes};
use super::pipe::{Pipes, Proof, Spelling, is_matrix_opcode, product, products};
use super::work::Evidence;
use super::{Arithmetic, Count, Flops, Instruction, Instructions, Measurement, OperationType};

/// Computes [`Flops`] launch by launch.
///
/// Per thread instruction: FADD, FMUL, DADD, DMUL count 1, FFMA and DFMA 2; HADD and HMUL work on
/// two halves and count 2, HFMA 4, as in ncu's own roofline sections; Blackwell's packed FADD2 and
/// FMUL2 count 2, FFMA2 4. The tensor counters (`sm__ops_path_tensor_*`) already count operations.
/// Where they are missing, the instructions by opcode ([`Launch::opcodes`]) and the tensor pipe's
/// counters in any spelling (`sm__inst_executed_pipe_tensor*`, `sm__pipe_tensor_cycles_active*`,
/// shares of their peaks) tell whether the tensor cores were used. How many operations that were
/// follows from the number of instructions on V100 (512 for each) and where the kernel's name has
/// the instruction's size ([`Arithmetic::instruction`]).
///
/// ```
/// # let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/ncu/n4_d512_m64_forward.csv");
/// use flopgap_ncu::{FlopCounter, OperationType, Reader};
///
/// let mut reader = Reader::open(path)?;
/// let mut counter = FlopCounter::new();
/// let mut total = 0;
/// while let Some(launch) = reader.next_launch()? {
///     let flops = counter.count(launch);
///     total += flops.get(OperationType::Fp32).count().expect("all counters are there").value;
/// }
/// assert_eq!(total, 358_154_240);
/// # Ok::<(), flopgap_ncu::Error>(())
/// ```
#[derive(Debug, Clone, Default)]
pub struct FlopCounter {
    /// By symbol index: what a string means as a metric's name, and as a unit.
    known: Vec<Known>,
    values: Vec<Count>,
}

#[derive(Debug, Clone, Copy)]
struct Known {
    role: Role,
    /// The factor to the base unit; 0 where it was not looked up yet.
    factor: u64,
    is_time: bool,
    /// As an opcode: a product of matrices.
    is_matrix: bool,
    /// The precision and the operations of a warp's product.
    product: Option<(OperationType, u64)>,
    half: Option<HalfOpcode>,
}

/// The counters found in one launch: bits mark the valid values.
#[derive(Debug, Default)]
struct Found {
    present: u128,
    conflicts: u128,
    /// By source type: a part of its operations was counted, and some were executed.
    parts: u16,
    busy_parts: u16,
    pipes: Pipes,
    /// Whether any instruction multiplied matrices, where all are listed by opcode.
    matrix_opcodes: Option<bool>,
    half_opcodes: HalfOpcodes,
    /// The operations of all products, where every one of them is listed with its size.
    products: Option<[u64; OperationType::ALL.len()]>,
    traffic: [Option<Count>; TRAFFIC],
    duration: Option<Count>,
    /// Instructions for each elapsed cycle.
    rates: [Option<f64>; INSTRUCTIONS.len()],
    cycles: [Option<f64>; CLOCKS],
    cycles_sum: [Option<f64>; CLOCKS],
    cycles_per_second: [Option<f64>; CLOCKS],
    sms: Option<f64>,
    /// The most operations that the tensor cores can have executed.
    tensor_at_most: Option<u64>,
}

impl FlopCounter {
    /// A counter for the launches of one report. Symbols mean something else in another report: use
    /// a new counter there.
    pub fn new() -> Self {
        FlopCounter::default()
    }

    /// The FLOPs of a launch of which nothing is known but its counters. That a kernel used the
    /// tensor cores shows only where their operations or instructions were counted: to know it from
    /// kernels' names, use [`FlopCounter::count_as`].
    pub fn count(&mut self, launch: LaunchView<'_>) -> Flops {
        self.count_as(launch, &Arithmetic::default())
    }

    /// The FLOPs of a launch whose kernel is known to compute as `arithmetic` says.
    pub fn count_as(&mut self, launch: LaunchView<'_>, arithmetic: &Arithmetic) -> Flops {
        self.values.resize(COUNTERS, Count::default());
        let mut found = Found::default();
        for metric in &launch.metrics {
            let role = self.known(metric.name.index(), launch.strings).role;
            if role != Role::None {
                let unit = self.known(metric.unit.index(), launch.strings);
                self.take(metric, role, unit, &launch, &mut found);
            }
        }
        for opcode in launch.opcodes.iter().filter(|opcode| opcode.count > 0) {
            let known = self.known(opcode.name.index(), launch.strings);
            found.matrix_opcodes = Some(found.matrix_opcodes == Some(true) || known.is_matrix);
            if let Some(half) = known.half {
                found.half_opcodes.take(half, opcode.count);
            }
        }
        let executed = launch.modified_opcodes.iter().filter(|opcode| opcode.count > 0);
        found.products = products(executed.filter_map(|opcode| {
            let known = self.known(opcode.name.index(), launch.strings);
            known.is_matrix.then_some((known.product, opcode.count))
        }));
        // Averages over several launches cannot be multiplied to a sum.
        if launch.invocations == 1 {
            fill_cycles(&mut found);
            self.fill_from_rates(&launch, &mut found);
            fill_duration(&mut found);
            found.tensor_at_most = tensor_at_most(&found, launch.compute_capability);
        }
        self.flops(&found, arithmetic, launch.compute_capability)
    }

    /// The FLOPs of a launch that was counted without a report: so many instructions of each kind,
    /// in so many nanoseconds, of a kernel that is known to compute as `arithmetic` says.
    pub fn count_instructions(
        &mut self,
        executed: impl IntoIterator<Item = (Instruction, u64)>,
        duration_ns: Option<u64>,
        arithmetic: &Arithmetic,
    ) -> Flops {
        self.values.resize(COUNTERS, Count::default());
        let exact = |value| Count { value, rounded: false };
        let mut found = Found { duration: duration_ns.map(exact), ..Found::default() };
        for (instruction, count) in executed {
            self.values[instruction as usize] = exact(count);
            found.present |= 1 << instruction as usize;
        }
        self.flops(&found, arithmetic, None)
    }

    /// Computes counters that the report has for each elapsed cycle only: `--set full` stores no
    /// sums.
    fn fill_from_rates(&mut self, launch: &Launch, found: &mut Found) {
        let Some(cycles) = found.cycles[Clock::Smsp as usize] else { return };
        for (index, rate) in found.rates.iter().enumerate() {
            let bit = 1 << index;
            if let Some(count) = rate.and_then(|rate| count_from_rate(rate, cycles, launch.layout))
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

    /// Examines all new strings.
    fn learn(&mut self, index: usize, strings: &Strings) -> Known {
        for text in strings.iter().skip(self.known.len()) {
            let (factor, base) = units::base_unit(text);
            self.known.push(Known {
                role: role(text),
                factor,
                is_time: base == "ns",
                is_matrix: is_matrix_opcode(text.split('.').next().unwrap_or(text)),
                product: product(text),
                half: HalfOpcode::new(text),
            });
        }
        let (role, is_time, is_matrix) = (Role::None, false, false);
        let unknown = Known { role, factor: 1, is_time, is_matrix, product: None, half: None };
        self.known.get(index).copied().unwrap_or(unknown)
    }

    fn take(&mut self, metric: &Metric, role: Role, unit: Known, launch: &Launch, found: &mut Found) {
        let is_zero = is_exact_zero(metric.value, launch.layout);
        match role {
            // ncu prints a rate of nothing as `0`, and one that it rounds to nothing as `0.000000`.
            Role::Rate(index) if metric.value == Value::U64(0) && found.present >> index & 1 == 0 => {
                self.values[usize::from(index)] = Count::default();
                found.present |= 1 << index;
            }
            Role::Rate(index) => found.rates[usize::from(index)] = in_base_unit(metric, unit.factor),
            Role::Cycles(clock) => found.cycles[clock as usize] = in_base_unit(metric, unit.factor),
            Role::CyclesSum(clock) => found.cycles_sum[clock as usize] = in_base_unit(metric, unit.factor),
            Role::Sms => found.sms = metric.value.as_f64().filter(|&sms| sms >= 1.0),
            Role::CyclesPerSecond(clock) => {
                found.cycles_per_second[clock as usize] = in_base_unit(metric, unit.factor);
            }
            Role::Pipe(pipe, spelling) if spelling != Spelling::Count => {
                if let Some(value) = metric.value.as_f64() {
                    let error = printed_error(launch.layout);
                    found.pipes.take_activity(pipe, spelling, value, is_zero, error);
                }
                return;
            }
            Role::TensorActivity(source, counter) => {
                let is_busy = metric.value.as_f64().is_some_and(|value| value > 0.0);
                found.parts |= u16::from(is_busy) << source;
                found.busy_parts |= u16::from(is_busy) << source;
                if let Some(index) = counter.filter(|index| is_zero && found.present >> index & 1 == 0) {
                    self.values[usize::from(index)] = Count::default();
                    found.present |= 1 << index;
                }
                return;
            }
            _ => {}
        }
        let Some(count) = sum_of(metric, unit.factor, launch.invocations) else { return };
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
            Role::TensorPart(source) => {
                found.parts |= 1 << source;
                found.busy_parts |= u16::from(count.value > 0) << source;
            }
            Role::Pipe(pipe, _) => found.pipes.take(pipe, count),
            Role::Traffic(traffic) => {
                found.traffic[traffic as usize].get_or_insert(count);
            }
            Role::Duration => found.duration = Some(count),
            Role::DurationLabel if unit.is_time => {
                found.duration.get_or_insert(count);
            }
            Role::DurationLabel
            | Role::Rate(_)
            | Role::Cycles(_)
            | Role::CyclesSum(_)
            | Role::CyclesPerSecond(_)
            | Role::Sms
            | Role::TensorActivity(..)
            | Role::None => {}
        }
    }

    fn flops(&self, found: &Found, arithmetic: &Arithmetic, capability: Capability) -> Flops {
        let mut by_precision = [Measurement::NotMeasured; OperationType::ALL.len()];
        let mut set = |precision: OperationType, measurement| by_precision[precision.index()] = measurement;
        // Bits: fadd fmul ffma fadd2 fmul2 ffma2 dadd dmul dfma hadd hmul hfma.
        let packed = 0b111_000;
        // Of the GPUs with tcgen05, Thor (11.0, once 10.1) has no packed FP32.
        let is_b200 = matches!(capability, Some((10, 0 | 3)));
        let fp32 = if is_b200 || found.present & packed != 0 { packed | 0b111 } else { 0b111 };
        set(OperationType::Fp32, self.instructions(found, fp32, &[1, 1, 2, 2, 2, 4]));
        set(OperationType::Fp64, self.instructions(found, 0b111 << 6, &[0, 0, 0, 0, 0, 0, 1, 1, 2]));
        let value = |index: usize| self.value(found, index);
        let single = [FADD, FMUL, FFMA].into_iter().map(value).sum::<Option<u64>>();
        let fp16 = match self.instructions(found, 0b111 << 9, &[0, 0, 0, 0, 0, 0, 0, 0, 0, 2, 2, 4]) {
            Measurement::Counted(operations) => {
                let half = Half {
                    hadd: value(HADD).unwrap_or_default(),
                    hmul: value(HMUL).unwrap_or_default(),
                    hfma: value(HFMA).unwrap_or_default(),
                    single,
                    operations,
                };
                half.judge(arithmetic)
            }
            other => other,
        };
        set(OperationType::Fp16, fp16);
        let has_tensor = found.present >> INSTRUCTIONS.len() != 0 || found.parts != 0;
        for (source, &(_, precision)) in TENSOR.iter().enumerate().take_while(|_| has_tensor) {
            set(precision, self.tensor(found, source, capability));
        }
        let hfma = value(HFMA);
        if let Some((precision, count)) = found.pipes.operations(arithmetic, capability, hfma)
            && by_precision[precision.index()] == Measurement::NotMeasured
        {
            by_precision[precision.index()] = Measurement::Counted(count);
        }
        for (precision, value) in OperationType::ALL.into_iter().zip(found.products.into_iter().flatten()) {
            let measurement = &mut by_precision[precision.index()];
            if value > 0 && *measurement == Measurement::NotMeasured {
                *measurement = Measurement::Counted(Count { value, rounded: false });
            }
        }
        let used = (found.busy_parts != 0).then_some(true).or(found.matrix_opcodes);
        let proof = match used {
            Some(true) => Proof::Used,
            Some(false) => Proof::Idle,
            None if chip::has_no_tensor_cores(capability) => Proof::Idle,
            None => found.pipes.prove(capability, hfma),
        };
        let work = Evidence {
            by_precision: &by_precision,
            arithmetic,
            capability,
            tensor_cores: match proof {
                Proof::Used => Some(true),
                Proof::Idle => Some(false),
                Proof::Perhaps | Proof::Nothing => arithmetic.tensor_cores,
            },
            tensor_precision: arithmetic
                .tensor_precision
                .filter(|named| !(named.is_float() && found.pipes.only_integers(capability))),
            tensor_pipe_worked: proof == Proof::Perhaps,
            products_counted: found.products.is_some(),
            tensor_at_most: found.tensor_at_most,
            half_at_most: found.half_opcodes.at_most(single),
            begun: self.begun(found, &by_precision),
        }
        .work();
        let [total, read, write, l2, l1] = found.traffic;
        Flops {
            by_precision,
            work,
            instructions: Instructions::new(found.present & !found.conflicts, &self.values),
            dram_bytes: total.or_else(|| read.zip(write).and_then(|(read, write)| read.plus(write))),
            dram_read_bytes: read,
            dram_write_bytes: write,
            l2_bytes: l2,
            l1_bytes: l1,
            duration_ns: found.duration,
        }
    }

    /// By precision: some of its counters are missing, and one that is there is above 0.
    fn begun(&self, found: &Found, by_precision: &[Measurement; OperationType::ALL.len()]) -> u32 {
        let busy = |counters: u128| {
            let mut left = found.present & counters;
            while left != 0 {
                if self.values[left.trailing_zeros() as usize].value > 0 {
                    return true;
                }
                left &= left - 1;
            }
            false
        };
        OperationType::ALL
            .into_iter()
            .filter(|precision| matches!(by_precision[precision.index()], Measurement::Incomplete(_)))
            .filter(|&precision| busy(counters_of(precision)))
            .fold(0, |begun, precision| begun | 1 << precision.index())
    }

    fn value(&self, found: &Found, index: usize) -> Option<u64> {
        (found.present >> index & 1 == 1).then(|| self.values[index].value)
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
    fn tensor(&self, found: &Found, source: usize, capability: Capability) -> Measurement {
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
        // BF16, TF32 and FP4 accumulate in FP32 only; the others have an FP16 path too.
        let precision = TENSOR[source].1;
        let fp32_only = matches!(
            precision,
            OperationType::TensorBf16 | OperationType::TensorTf32 | OperationType::TensorFp4
        ) || !precision.is_float();
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
            Err(Measurement::Incomplete(missing)) if capability == Some((7, 5)) => {
                Measurement::Incomplete(missing.on_turing())
            }
            Err(missing) => missing,
        }
    }

    /// The operations of a source and destination type (0: all), or what is missing. `Ok(None)`:
    /// overflow.
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

/// The bits of a precision's counters.
fn counters_of(precision: OperationType) -> u128 {
    match precision {
        OperationType::Fp32 => 0b111_111,
        OperationType::Fp64 => 0b111 << DADD,
        OperationType::Fp16 => 0b111 << HADD,
        _ => TENSOR
            .iter()
            .position(|&(_, known)| known == precision)
            .map_or(0, |source| 0x1ff << tensor_index(source, 0, 0)),
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

/// A metric's sum over the launches that its row stands for, in base units. `None` if it is no
/// count.
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

/// A metric's value in its base unit.
fn in_base_unit(metric: &Metric, factor: u64) -> Option<f64> {
    metric.value.as_f64().map(|value| value * factor as f64)
}

/// How far a printed value may be off: the raw page prints six decimals, the details page two; a
/// binary report holds doubles.
fn printed_error(layout: Layout) -> f64 {
    match layout {
        Layout::Report => 0.0,
        Layout::Wide => 0.5e-6,
        _ => 0.5e-2,
    }
}

/// Whether a value is 0 and not rounded to it: ncu prints a share of nothing as `0`, and one that
/// it rounds to nothing as `0.00`.
fn is_exact_zero(value: Value, layout: Layout) -> bool {
    value == Value::U64(0) || (layout == Layout::Report && value == Value::F64(0.0))
}

/// The cycles of an average unit from the sum over all units, which is all that ncu 2023 stores: an
/// SM has four parts (`smsp`) on every GPU that ncu reads.
fn fill_cycles(found: &mut Found) {
    let Some(sms) = found.sms else { return };
    for (clock, units) in [(Clock::Smsp, 4.0 * sms), (Clock::Sm, sms)] {
        let clock = clock as usize;
        found.cycles[clock] = found.cycles[clock].or(found.cycles_sum[clock].map(|sum| sum / units));
    }
}

/// The most operations that the tensor cores can have executed: the share of the peak that the
/// pipe's counters allow.
fn tensor_at_most(found: &Found, capability: Capability) -> Option<u64> {
    // More SMs than any GPU has, at a higher clock than any of them.
    const SM_CYCLES_PER_NS: f64 = 256.0 * 3.5;
    let share = found.pipes.most()?;
    let cycles = found.cycles[Clock::Smsp as usize].or(found.cycles[Clock::Sm as usize]);
    let sm_cycles = cycles
        .zip(found.sms)
        .map(|(cycles, sms)| cycles * sms)
        .or_else(|| found.duration.map(|ns| ns.value as f64 * SM_CYCLES_PER_NS))?;
    to_u64((share * sm_cycles * chip::peak_per_cycle(capability)).ceil())
}

/// The count behind a rate: exact while the digits that the report holds determine it.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // the range is checked
fn count_from_rate(rate: f64, cycles: f64, layout: Layout) -> Option<Count> {
    let printed = printed_error(layout);
    let count = rate * cycles;
    if !(0.0..9e15).contains(&count) {
        return None;
    }
    let error = printed * (rate + cycles) + 4.0 * count * f64::EPSILON;
    let nearest = count.round();
    let exact =
        (rate == 0.0 && layout == Layout::Report) || (error < 0.5 && (count - nearest).abs() <= error);
    Some(Count { value: nearest as u64, rounded: !exact })
}

/// The time from cycles and their rate, where it was not recorded itself, as NERSC's roofline
/// scripts compute it.
fn fill_duration(found: &mut Found) {
    let rates = found.cycles.iter().zip(found.cycles_per_second);
    let seconds = rates.filter_map(|(cycles, rate)| {
        let (cycles, rate) = ((*cycles)?, rate.filter(|&rate| rate > 0.0)?);
        to_u64(cycles / rate * 1e9)
    });
    if let (None, Some(value)) = (found.duration, seconds.into_iter().next()) {
        found.duration = Some(Count { value, rounded: true });
    }
}

/// The nearest whole number, if there is one in 64 bits.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // the range is checked
fn to_u64(value: f64) -> Option<u64> {
    (0.0..18_446_744_073_709_549_568.0).contains(&value).then(|| value.round() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A kernel of a millisecond: its six printed decimals do not determine the sum, the doubles of
    /// a binary report do.
    #[test]
    fn a_rate_is_as_exact_as_the_page_that_holds_it() {
        let (count, cycles) = (1_074_790_400_u64, 1_975_310.5);
        let rate = count as f64 / cycles;
        let printed = |decimals: f64| (rate * decimals).round() / decimals;
        let of = |rate, layout| count_from_rate(rate, cycles, layout).unwrap();
        assert_eq!(of(rate, Layout::Report), Count { value: count, rounded: false });
        let six = of(printed(1e6), Layout::Wide);
        assert!(six.rounded && six.value.abs_diff(count) <= 1, "{six:?}");
        // The details page prints two decimals, of a short kernel, too.
        let two = count_from_rate(12.35, 1000.0, Layout::Long).unwrap();
        assert_eq!(two, Count { value: 12_350, rounded: true });
        assert_eq!(
            count_from_rate(12.35, 1000.0, Layout::Wide).unwrap(),
            Count { value: 12_350, rounded: false }
        );
    }
}

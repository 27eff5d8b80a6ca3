//! The hardware counters that FLOPs are computed from, and their names.

use std::fmt;

use super::OperationType;
use super::chip::TENSOR;
use super::pipe::{Pipe, Spelling, pipe};

/// The counters of instructions that the shader cores execute, in the order of their bits.
pub(super) const INSTRUCTIONS: [&str; 12] =
    ["fadd", "fmul", "ffma", "fadd2", "fmul2", "ffma2", "dadd", "dmul", "dfma", "hadd", "hmul", "hfma"];

/// Positions among the [`INSTRUCTIONS`].
pub(super) const FADD: usize = 0;
pub(super) const FMUL: usize = 1;
pub(super) const FFMA: usize = 2;
pub(super) const DADD: usize = 6;
pub(super) const HADD: usize = 9;
pub(super) const HMUL: usize = 10;
pub(super) const HFMA: usize = 11;

/// The operations of a precision of the shader cores: add, multiply, fused multiply-add.
pub(super) const SHADER: [(OperationType, [&str; 3]); 3] = [
    (OperationType::Fp32, ["fadd", "fmul", "ffma"]),
    (OperationType::Fp64, ["dadd", "dmul", "dfma"]),
    (OperationType::Fp16, ["hadd", "hmul", "hfma"]),
];

/// The forms of one source type's counter: over all destination types, or for one; over all
/// sparsities, or for one.
const DESTINATIONS: [&str; 3] = ["", "_dst_fp16", "_dst_fp32"];
const SPARSITIES: [&str; 3] = ["", "_sparsity_on", "_sparsity_off"];
const FORMS: usize = DESTINATIONS.len() * SPARSITIES.len();

/// How many counters there are.
pub(super) const COUNTERS: usize = INSTRUCTIONS.len() + TENSOR.len() * FORMS;

/// The bit that says that the counters are Turing's.
const TURING: usize = 127;

/// A set of hardware counters, such as those that a report lacks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Counters(pub(super) u128);

impl Counters {
    /// The counters' full names.
    pub fn names(self) -> impl Iterator<Item = String> {
        let turing = self.0 >> TURING & 1 == 1;
        (0..COUNTERS).filter(move |index| self.0 >> index & 1 == 1).map(move |index| {
            let name = name(index);
            if turing { name.replace("src_fp16_dst_fp32", "src_fp16_bf16_tf32_dst_fp32") } else { name }
        })
    }

    /// The same counters by the names that they have on Turing.
    pub(super) fn on_turing(self) -> Self {
        Counters(self.0 | 1 << TURING)
    }

    /// Whether there is none.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }
}

impl fmt::Display for Counters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (position, name) in self.names().enumerate() {
            if position > 0 {
                f.write_str(", ")?;
            }
            f.write_str(&name)?;
        }
        Ok(())
    }
}

/// The counter of a source type's form.
pub(super) fn tensor_index(source: usize, destination: usize, sparsity: usize) -> usize {
    INSTRUCTIONS.len() + source * FORMS + destination * SPARSITIES.len() + sparsity
}

fn name(index: usize) -> String {
    if let Some(op) = INSTRUCTIONS.get(index) {
        return format!("smsp__sass_thread_inst_executed_op_{op}_pred_on.sum");
    }
    let (source, form) = ((index - INSTRUCTIONS.len()) / FORMS, (index - INSTRUCTIONS.len()) % FORMS);
    let destination = DESTINATIONS[form / SPARSITIES.len()];
    let sparsity = SPARSITIES[form % SPARSITIES.len()];
    format!("sm__ops_path_tensor_src_{}{destination}{sparsity}.sum", TENSOR[source].0)
}

/// The role of a metric in counting FLOPs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    None,
    /// One of the [`COUNTERS`].
    Counter(u8),
    /// One of the first [`INSTRUCTIONS`] for each elapsed cycle, which is all that `--set full`
    /// stores.
    Rate(u8),
    /// The cycles that rates are over (`smsp__cycles_elapsed.avg`), of a clock domain.
    Cycles(Clock),
    /// The same cycles, added up over all units of the GPU (`smsp__cycles_elapsed.sum`).
    CyclesSum(Clock),
    /// How many SMs the GPU has.
    Sms,
    /// These cycles per second (`sm__cycles_elapsed.avg.per_second`).
    CyclesPerSecond(Clock),
    /// A part of a source type's operations (`op_hgmma`): it shows that the type matters, not how
    /// much.
    TensorPart(u8),
    /// Any multiple of a source type's operations, such as a share of the peak, and the counter
    /// that is 0 where the multiple is.
    TensorActivity(u8, Option<u8>),
    /// Instructions of the tensor pipe, or a multiple of them.
    Pipe(Pipe, Spelling),
    Traffic(Traffic),
    /// `gpu__time_duration.sum`.
    Duration,
    /// The details page's `Duration`, which may be another metric's label too.
    DurationLabel,
}

/// The unit in which cycles are counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Clock {
    Smsp,
    Sm,
    Gpc,
}

/// How many clocks there are.
pub(super) const CLOCKS: usize = 3;

fn clock(unit: &str) -> Option<Clock> {
    Some(match unit {
        "smsp" => Clock::Smsp,
        "sm" => Clock::Sm,
        "gpc" => Clock::Gpc,
        _ => return None,
    })
}

/// Memory traffic.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Traffic {
    Dram,
    DramRead,
    DramWrite,
    L2,
    L1,
}

/// How many kinds of traffic there are.
pub(super) const TRAFFIC: usize = 5;

/// The beginnings of instruction counters. The second is the same counter rolled up to the SM:
/// equal sums, so one stands for both.
const SASS: [&str; 2] = ["smsp__sass_thread_inst_executed_op_", "sm__sass_thread_inst_executed_op_"];

/// The position of `ffma_pred_on` and the like among the [`INSTRUCTIONS`].
fn instruction(op: &str) -> Option<usize> {
    let op = op.strip_suffix("_pred_on")?;
    INSTRUCTIONS.iter().position(|&known| known == op)
}

/// The role of the metric `name`.
pub(super) fn role(name: &str) -> Role {
    match name {
        "Duration" => return Role::DurationLabel,
        "device__attribute_multiprocessor_count" | "launch__sm_count" | "# SMs" => return Role::Sms,
        _ => {}
    }
    if let Some((unit, "sum")) = name.split_once("__cycles_elapsed.") {
        return clock(unit).map_or(Role::None, Role::CyclesSum);
    }
    if let Some((pipe, spelling)) = pipe(name) {
        return Role::Pipe(pipe, spelling);
    }
    if let Some((unit, rate)) = name.split_once("__cycles_elapsed.avg") {
        return match (clock(unit), rate) {
            (Some(clock), "") => Role::Cycles(clock),
            (Some(clock), ".per_second") => Role::CyclesPerSecond(clock),
            _ => Role::None,
        };
    }
    if let Some(metric) = name.strip_suffix(".sum.per_cycle_elapsed") {
        let op = metric.strip_prefix(SASS[0]).and_then(instruction);
        let rate = op.and_then(|op| u8::try_from(op).ok()).map(Role::Rate);
        return rate.unwrap_or_else(|| tensor_activity(name));
    }
    let Some(metric) = name.strip_suffix(".sum") else { return tensor_activity(name) };
    if let Some(op) = SASS.iter().find_map(|prefix| metric.strip_prefix(prefix)) {
        return instruction(op).map_or(Role::None, counter);
    }
    if let Some(path) = tensor_path(metric) {
        return tensor_role(path);
    }
    match metric {
        "gpu__time_duration" => Role::Duration,
        "dram__bytes" => Role::Traffic(Traffic::Dram),
        "dram__bytes_read" | "dram__bytes_op_read" | "dram__read_bytes" => Role::Traffic(Traffic::DramRead),
        "dram__bytes_write" | "dram__bytes_op_write" | "dram__write_bytes" => {
            Role::Traffic(Traffic::DramWrite)
        }
        "lts__t_bytes" => Role::Traffic(Traffic::L2),
        "l1tex__t_bytes" => Role::Traffic(Traffic::L1),
        _ => Role::None,
    }
}

fn tensor_path(metric: &str) -> Option<&str> {
    let path = metric.strip_prefix("smsp").or_else(|| metric.strip_prefix("sm"))?;
    path.strip_prefix("__ops_path_tensor_")
}

/// `sm__ops_path_tensor_src_fp8.avg.pct_of_peak_sustained_elapsed` and other multiples of a source
/// type's operations, except their peak and the least of the units.
fn tensor_activity(name: &str) -> Role {
    let Some((counter, rollup)) = name.split_once('.') else { return Role::None };
    let (rollup, submetric) = rollup.split_once('.').unwrap_or((rollup, "per_unit"));
    let is_multiple = matches!(rollup, "avg" | "max" | "sum")
        && (submetric.starts_with("per_") || submetric.starts_with("pct_of_peak"));
    let Some(path) = tensor_path(counter).filter(|_| is_multiple) else { return Role::None };
    match tensor_role(path) {
        Role::Counter(index) => {
            let source = (usize::from(index) - INSTRUCTIONS.len()) / FORMS;
            u8::try_from(source).map_or(Role::None, |source| Role::TensorActivity(source, Some(index)))
        }
        Role::TensorPart(source) => Role::TensorActivity(source, None),
        _ => Role::None,
    }
}

/// `src_bf16_dst_fp32`, `src_fp8_sparsity_on`, `op_hgmma_src_fp16_sparsity_off`.
fn tensor_role(path: &str) -> Role {
    let (is_part, form) = match path.strip_prefix("src_") {
        Some(form) => (false, form),
        None => match path.split_once("_src_") {
            Some((_, form)) => (true, form),
            None => return Role::None,
        },
    };
    // Turing's tensor cores have no other of these types than FP16; FP16 to FP16 is counted by
    // itself.
    let form = form
        .strip_prefix("fp16_bf16_tf32_dst_fp32")
        .map_or(form.to_owned(), |rest| format!("fp16_dst_fp32{rest}"));
    let found = TENSOR.iter().enumerate().filter_map(|(index, (name, _))| {
        let rest = form.strip_prefix(name)?;
        (rest.is_empty() || rest.starts_with('_')).then_some((index, rest))
    });
    // `fp4_fp6_fp8` begins like `fp4`.
    let Some((source, rest)) = found.min_by_key(|(_, rest)| rest.len()) else { return Role::None };
    if is_part {
        return u8::try_from(source).map_or(Role::None, Role::TensorPart);
    }
    let sparsity = SPARSITIES.iter().rposition(|suffix| rest.ends_with(suffix)).unwrap_or(0);
    let destination = rest.strip_suffix(SPARSITIES[sparsity]).unwrap_or(rest);
    // Integer types have one destination, which counts like a floating-point type's only one.
    let destination = if destination == "_dst_int32" { "_dst_fp32" } else { destination };
    match DESTINATIONS.iter().position(|&known| known == destination) {
        Some(destination) => counter(tensor_index(source, destination, sparsity)),
        None => Role::None,
    }
}

fn counter(index: usize) -> Role {
    u8::try_from(index).map_or(Role::None, Role::Counter)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_counter_is_found_by_its_own_name() {
        for index in 0..COUNTERS {
            assert_eq!(role(&name(index)), Role::Counter(u8::try_from(index).unwrap()), "{}", name(index));
        }
    }

    #[test]
    fn the_positions_are_those_of_the_instructions() {
        let named = [
            (FADD, "fadd"),
            (FMUL, "fmul"),
            (FFMA, "ffma"),
            (DADD, "dadd"),
            (HADD, "hadd"),
            (HMUL, "hmul"),
            (HFMA, "hfma"),
        ];
        for (position, name) in named {
            assert_eq!(INSTRUCTIONS[position], name);
        }
    }

    #[test]
    fn a_sum_over_all_units_is_needed() {
        assert_eq!(role("smsp__sass_thread_inst_executed_op_ffma_pred_on.avg"), Role::None);
        assert_eq!(
            role("smsp__sass_thread_inst_executed_op_ffma_pred_on.sum.per_cycle_elapsed"),
            Role::Rate(2)
        );
        // With `sm__` it is the peak's, not the kernel's.
        assert_eq!(role("sm__sass_thread_inst_executed_op_ffma_pred_on.sum.per_cycle_elapsed"), Role::None);
        assert_eq!(role("derived__smsp__sass_thread_inst_executed_op_ffma_pred_on_x2"), Role::None);
        assert_eq!(role("smsp__sass_thread_inst_executed_ops_fadd_fmul_ffma_pred_on.sum"), Role::None);
    }

    #[test]
    fn multiples_of_a_tensor_path_are_not_its_count() {
        let index = u8::try_from(tensor_index(2, 2, 0)).unwrap();
        for rollup in ["avg", "max", "sum.per_cycle_elapsed", "avg.pct_of_peak_sustained_elapsed"] {
            let metric = format!("sm__ops_path_tensor_src_bf16_dst_fp32.{rollup}");
            assert_eq!(role(&metric), Role::TensorActivity(2, Some(index)), "{metric}");
        }
        let part = "sm__ops_path_tensor_op_hgmma_src_fp16.avg.per_second";
        assert_eq!(role(part), Role::TensorActivity(3, None));
        for rollup in ["min", "avg.peak_sustained", "avg.peak_sustained_elapsed.per_second"] {
            let metric = format!("sm__ops_path_tensor_src_bf16_dst_fp32.{rollup}");
            assert_eq!(role(&metric), Role::None, "{metric}");
        }
    }

    #[test]
    fn parts_of_a_tensor_path_are_distinguished_from_its_total() {
        assert_eq!(
            role("sm__ops_path_tensor_op_hgmma_src_bf16_dst_fp32_sparsity_off.sum"),
            Role::TensorPart(2)
        );
        assert!(matches!(role("sm__ops_path_tensor_src_int8.sum"), Role::Counter(_)));
        assert_eq!(role("sm__ops_path_tensor_src_fp16x.sum"), Role::None);
    }
}

//! The tensor pipe's counters (`sm__inst_executed_pipe_tensor.sum`): whether a launch used the
//! tensor cores, and its operations where those of an instruction are known.
//!
//! ncu writes one counter in many spellings: `--set full`, `detailed` and `roofline` store shares
//! of the peak (`sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active`), rates
//! (`.sum.per_cycle_elapsed`) and multiples (`derived__smsp__inst_executed_pipe_tensor_x512`). All
//! of them are the counter times a positive factor: above 0, the pipe worked; exactly 0, it did
//! not. They give no count of operations, since an instruction's size is not in them, but a bound:
//! the share of the peak times the peak.

use super::chip::{Capability, has_half_on_tensor_pipe};
use super::{Arithmetic, Count, OperationType};

/// A part of the tensor pipe that is counted by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Pipe {
    /// All of the tensor pipe.
    All,
    /// HMMA and what is counted with it: HFMA2.MMA, HGMMA.
    Hmma,
    /// HFMA2.MMA alone: arithmetic of the shader cores that A100 and H100 execute on the tensor
    /// pipe.
    Hfma2,
    /// Products of integers.
    Imma,
    /// Products of FP64.
    Dmma,
    /// Hopper's instructions of four warps.
    Gmma,
    /// Blackwell's tcgen05.
    Tc,
    /// Products in every type but FP64, without HFMA2.MMA.
    Matrix,
    /// Some of the products: 0 says nothing of the others.
    Part,
}

const PIPES: usize = 9;

/// How a metric spells a counter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Spelling {
    /// The number of instructions.
    Count,
    /// A percentage of the most that is possible, on average or at most over the units.
    Percent,
    /// Another multiple of the counter, on average, at most or in sum over the units.
    Multiple,
    /// The least of the units: 0 says nothing of the others.
    Least,
}

/// The counter that a metric is, and how it is spelled.
pub(super) fn pipe(metric: &str) -> Option<(Pipe, Spelling)> {
    if let Some(label) = label(metric) {
        return Some((label, Spelling::Percent));
    }
    // The factor is that of an instruction of V100. With `sm__` it is the peak's, not the
    // kernel's.
    if let Some(derived) = metric.strip_prefix("derived__smsp__inst_executed_pipe_") {
        let (name, factor) = derived.strip_suffix(".sum").unwrap_or(derived).rsplit_once("_x")?;
        let is_factor = !factor.is_empty() && factor.bytes().all(|byte| byte.is_ascii_digit());
        return part(name).filter(|_| is_factor).map(|part| (part, Spelling::Multiple));
    }
    // `sm__` and `smsp__` are one counter at two levels: equal sums.
    let unit = metric.strip_prefix("sm__").or_else(|| metric.strip_prefix("smsp__"))?;
    let mut words = unit.split('.');
    let (counter, rollup, submetric) = (words.next()?, words.next()?, words.next());
    let (name, is_count) = subject(counter)?;
    let percent = submetric.is_some_and(|words| words.starts_with("pct_of_peak"));
    if !percent && submetric.is_some_and(|words| !words.starts_with("per_")) {
        return None; // the peak itself, whatever the kernel does
    }
    let spelling = match rollup {
        "sum" if is_count && submetric.is_none() => Spelling::Count,
        "min" => Spelling::Least,
        "avg" | "max" | "sum" if percent => Spelling::Percent,
        "avg" | "max" | "sum" | "ratio" => Spelling::Multiple,
        _ => return None,
    };
    Some((part(name)?, spelling))
}

/// The part of the pipe in a counter's name, and whether the counter is its instructions.
fn subject(counter: &str) -> Option<(&str, bool)> {
    // Ada deprecated its first counters; some are counted while the kernel runs.
    let counter = ["_v2", "_realtime"]
        .into_iter()
        .fold(counter, |counter, suffix| counter.strip_suffix(suffix).unwrap_or(counter));
    if let Some(name) = counter.strip_prefix("inst_executed_pipe_") {
        return Some((name, true));
    }
    let between =
        |before: &str, after: &str| counter.strip_prefix(before).and_then(|rest| rest.strip_suffix(after));
    between("pipe_", "_cycles_active")
        .or_else(|| between("thread_inst_executed_pipe_", "_pred_on"))
        .or_else(|| between("average_inst_executed_pipe_", "_per_warp"))
        .map(|name| (name, false))
}

fn part(name: &str) -> Option<Pipe> {
    Some(match name {
        "tensor" => Pipe::All,
        "tensor_op_hmma" | "tensor_subpipe_hmma" | "hmma" => Pipe::Hmma,
        "tensor_op_hmma_type_hfma2" => Pipe::Hfma2,
        "tensor_op_imma" | "tensor_subpipe_imma" => Pipe::Imma,
        "tensor_op_dmma" | "tensor_subpipe_dmma" => Pipe::Dmma,
        "tensor_op_gmma" => Pipe::Gmma,
        "tc" => Pipe::Tc,
        "tensor_type_hmma_hgmma_qgmma_imma_igmma_bmma_bgmma" => Pipe::Matrix,
        "tensor_op_hmma_type_hmma_hgmma_qgmma" | "fp64_op_dmma" => Pipe::Part,
        _ if name.starts_with("tensor_subpipe_hmma_op_") || name.starts_with("tensor_subpipe_imma_op_") => {
            Pipe::Part
        }
        _ => return None,
    })
}

/// What the details page calls the shares of the section `ComputeWorkloadAnalysis`.
fn label(metric: &str) -> Option<Pipe> {
    Some(match metric.strip_prefix("Tensor (")?.strip_suffix(')')? {
        "All" => Pipe::All,
        "FP" => Pipe::Hmma,
        "INT" => Pipe::Imma,
        "DP" => Pipe::Dmma,
        "Warp Group" => Pipe::Gmma,
        _ => return None,
    })
}

/// What the spellings that are no count say of a part of the pipe.
#[derive(Debug, Clone, Copy)]
struct Activity {
    worked: Option<bool>,
    /// The largest share of the peak that its percentages allow, 1 at the peak.
    most: f64,
}

/// What the counters prove about the tensor cores.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Proof {
    /// They multiplied.
    Used,
    /// They did not.
    Idle,
    /// The pipe worked, but HFMA2.MMA may be all that it did.
    Perhaps,
    /// Nothing, or the pipe did no more than HFMA2.MMA accounts for.
    Nothing,
}

/// The instructions of one launch.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Pipes {
    counts: [Option<Count>; PIPES],
    activities: [Option<Activity>; PIPES],
}

impl Pipes {
    pub(super) fn take(&mut self, pipe: Pipe, count: Count) {
        self.counts[pipe as usize].get_or_insert(count);
    }

    /// Takes a spelling that is no count. `exact`: 0 is 0. `error`: how far the value may be off.
    pub(super) fn take_activity(
        &mut self,
        pipe: Pipe,
        spelling: Spelling,
        value: f64,
        exact: bool,
        error: f64,
    ) {
        let activity =
            self.activities[pipe as usize].get_or_insert(Activity { worked: None, most: f64::INFINITY });
        if value > 0.0 {
            activity.worked = Some(true);
        } else if exact && spelling != Spelling::Least {
            activity.worked = activity.worked.or(Some(false));
        }
        if spelling == Spelling::Percent {
            activity.most = activity.most.min((value + error) / 100.0);
        }
    }

    fn get(&self, pipe: Pipe) -> Option<u64> {
        self.counts[pipe as usize].map(|count| count.value)
    }

    /// Whether a part of the pipe executed anything.
    fn worked(&self, pipe: Pipe) -> Option<bool> {
        match self.counts[pipe as usize] {
            Some(Count { value: 0, rounded: true }) | None => self.activities[pipe as usize]?.worked,
            Some(count) => Some(count.value > 0),
        }
    }

    /// The largest share of the pipe's peak that the launch can have reached, if it is known.
    pub(super) fn most(&self) -> Option<f64> {
        let most = |pipe: Pipe| Some(self.activities[pipe as usize]?.most).filter(|most| most.is_finite());
        most(Pipe::All).or_else(|| Some(most(Pipe::Hmma)? + most(Pipe::Imma)? + most(Pipe::Dmma)?))
    }

    /// Whether the launch multiplied on the tensor cores, as far as the pipe's counters prove it.
    /// `hfma`: the HFMA thread instructions, if they were counted.
    pub(super) fn prove(&self, capability: Capability, hfma: Option<u64>) -> Proof {
        let is = |pipe, worked| self.worked(pipe) == Some(worked);
        let products = [Pipe::Gmma, Pipe::Imma, Pipe::Dmma, Pipe::Tc, Pipe::Matrix, Pipe::Part];
        if products.into_iter().any(|pipe| is(pipe, true)) {
            return Proof::Used;
        }
        let no_other = is(Pipe::Imma, false) && (is(Pipe::Dmma, false) || !has_dmma(capability));
        if is(Pipe::All, false)
            || (is(Pipe::Hmma, false) && no_other)
            || (is(Pipe::Matrix, false) && is(Pipe::Dmma, false))
        {
            return Proof::Idle;
        }
        if !is(Pipe::All, true) && !is(Pipe::Hmma, true) {
            return Proof::Nothing;
        }
        if !has_half_on_tensor_pipe(capability) || is(Pipe::Hfma2, false) || hfma == Some(0) {
            return Proof::Used;
        }
        match (self.get(Pipe::All).or(self.get(Pipe::Hmma)), self.get(Pipe::Hfma2), hfma) {
            (Some(executed), Some(half), _) if executed > half => Proof::Used,
            (Some(_), Some(_), _) if self.get(Pipe::All).is_some() => Proof::Idle,
            // Each instruction of a warp counts for 1 to 32 threads in the threads' counter.
            (Some(executed), None, Some(threads)) if executed > threads => Proof::Used,
            (Some(executed), None, Some(threads)) if executed <= threads / 32 => Proof::Nothing,
            _ => Proof::Perhaps,
        }
    }

    /// Whether integers are all that the launch multiplied on the tensor cores.
    pub(super) fn only_integers(&self, capability: Capability) -> bool {
        let idle = |pipe| self.worked(pipe) == Some(false);
        self.worked(Pipe::Imma) == Some(true)
            && idle(Pipe::Hmma)
            && (idle(Pipe::Dmma) || !has_dmma(capability))
    }

    /// The operations on the tensor cores, where every instruction does the same known number of
    /// them, and their precision.
    pub(super) fn operations(
        &self,
        arithmetic: &Arithmetic,
        capability: Capability,
        hfma: Option<u64>,
    ) -> Option<(OperationType, Count)> {
        // Volta has one instruction, HMMA.884: 512 operations (NERSC's roofline scripts, and 2MNK
        // of recorded products).
        let (precision, [m, n, k]) = match capability {
            Some((7, 0)) => (OperationType::TensorFp16, [8, 8, 4]),
            _ => (arithmetic.tensor_precision?, arithmetic.instruction?),
        };
        let only = match precision {
            OperationType::TensorInt8 | OperationType::TensorInt4 | OperationType::TensorInt1 => Pipe::Imma,
            OperationType::TensorFp64 => Pipe::Dmma,
            _ => Pipe::Hmma,
        };
        let index = if self.get(only).is_some() { only } else { Pipe::All };
        let count = self.counts[index as usize]?;
        // Only Volta has HMMA.884, and the first reports of ncu do not say the compute capability.
        let is_volta = precision == OperationType::TensorFp16 && [m, n, k] == [8, 8, 4];
        let mixed =
            matches!(index, Pipe::All | Pipe::Hmma) && has_half_on_tensor_pipe(capability) && !is_volta;
        let other = match (self.get(Pipe::Hfma2), hfma) {
            _ if !mixed => 0,
            (Some(hfma2), _) => hfma2,
            (None, Some(0)) => 0,
            _ => return None,
        };
        let value =
            count.value.checked_sub(other)?.checked_mul(2 * u64::from(m) * u64::from(n) * u64::from(k))?;
        Some((precision, Count { value, ..count }))
    }
}

/// Whether the GPU may multiply in FP64 on its tensor pipe: from A100 on.
fn has_dmma(capability: Capability) -> bool {
    capability.is_none_or(|capability| capability >= (8, 0))
}

/// Whether an opcode multiplies matrices: HMMA, IMMA, DMMA, HGMMA, UTCQMMA and so on.
pub(super) fn is_matrix_opcode(opcode: &str) -> bool {
    // HFMA2.MMA is arithmetic of the shader cores.
    opcode.ends_with("MMA") && !opcode.starts_with("HFMA")
}

/// The precision and the operations of a warp's product by its opcode with modifiers:
/// `HMMA.16816.F32.BF16` multiplies 16x16 by 16x8. `None` where the opcode does not spell it all:
/// sparse products, Volta's steps, the instructions of several warps.
pub(super) fn product(opcode: &str) -> Option<(OperationType, u64)> {
    let mut words = opcode.split('.');
    let (family, shape) = (words.next()?, words.next()?);
    let (rows, depth) = match shape.strip_prefix("168") {
        Some(depth) => (16, depth),
        // Eight threads multiply HMMA's 884.
        None if family == "HMMA" => return None,
        None => (8, shape.strip_prefix("88")?),
    };
    let mut precision = match family {
        "HMMA" => Some(OperationType::TensorFp16),
        "DMMA" => Some(OperationType::TensorFp64),
        _ => None,
    };
    for word in words {
        precision = match (family, word) {
            ("HMMA", "F16" | "F32") | ("IMMA", "SAT") => precision,
            ("HMMA", "BF16") => Some(OperationType::TensorBf16),
            ("HMMA", "TF32") => Some(OperationType::TensorTf32),
            ("IMMA", "S8" | "U8") => Some(OperationType::TensorInt8),
            ("IMMA", "S4" | "U4") => Some(OperationType::TensorInt4),
            _ => return None,
        };
    }
    Some((precision?, 2 * rows * 8 * depth.parse::<u64>().ok()?))
}

/// The operations of each precision by the opcodes of all products, each with its [`product`] and
/// the threads that executed it; `None` without products, or where one is not spelled.
pub(super) fn products(
    executed: impl Iterator<Item = (Option<(OperationType, u64)>, u64)>,
) -> Option<[u64; OperationType::ALL.len()]> {
    let mut sums = [0_u64; OperationType::ALL.len()];
    let mut any = false;
    for (product, threads) in executed {
        let (precision, operations) = product.filter(|_| threads % 32 == 0)?;
        let sum = &mut sums[precision.index()];
        *sum = sum.checked_add((threads / 32).checked_mul(operations)?)?;
        any = true;
    }
    any.then_some(sums)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spellings_of_one_counter_are_found() {
        use Spelling::{Count, Least, Multiple, Percent};
        let known = [
            ("sm__inst_executed_pipe_tensor.sum", Pipe::All, Count),
            ("smsp__inst_executed_pipe_tensor_v2.sum", Pipe::All, Count),
            ("sm__inst_executed_pipe_tensor.avg", Pipe::All, Multiple),
            ("smsp__inst_executed_pipe_tensor.sum.per_cycle_elapsed", Pipe::All, Multiple),
            ("sm__inst_executed_pipe_tensor_op_hmma.avg.pct_of_peak_sustained_active", Pipe::Hmma, Percent),
            ("sm__inst_executed_pipe_tensor_op_imma.max.pct_of_peak_sustained_elapsed", Pipe::Imma, Percent),
            ("sm__inst_executed_pipe_tensor_op_gmma.min.pct_of_peak_sustained_active", Pipe::Gmma, Least),
            ("sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active", Pipe::All, Percent),
            ("sm__pipe_tensor_cycles_active_realtime_v2.sum.per_second", Pipe::All, Multiple),
            ("sm__pipe_tensor_op_dmma_cycles_active.sum", Pipe::Dmma, Multiple),
            ("smsp__pipe_tensor_subpipe_hmma_cycles_active.avg", Pipe::Hmma, Multiple),
            ("sm__thread_inst_executed_pipe_tensor_op_hmma_type_hfma2_pred_on.sum", Pipe::Hfma2, Multiple),
            ("smsp__average_inst_executed_pipe_tensor_op_imma_per_warp.ratio", Pipe::Imma, Multiple),
            ("derived__smsp__inst_executed_pipe_tensor_x512", Pipe::All, Multiple),
            ("derived__smsp__inst_executed_pipe_tensor_x512.sum", Pipe::All, Multiple),
            ("Tensor (FP)", Pipe::Hmma, Percent),
        ];
        for (metric, part, spelling) in known {
            assert_eq!(pipe(metric), Some((part, spelling)), "{metric}");
        }
        // Peaks, samples and other pipes say nothing of a kernel's products.
        for metric in [
            "sm__inst_executed_pipe_tensor.sum.peak_sustained",
            "derived__sm__inst_executed_pipe_tensor_x512",
            "derived__smsp__inst_executed_pipe_tensor_x",
            "pmsampling:sm__pipe_tensor_cycles_active_realtime.avg.pct_of_peak_sustained_elapsed",
            "TPC.TriageCompute.sm__pipe_tensor_cycles_active_realtime.avg",
            "breakdown:sm__inst_executed_pipe_tensor.avg.pct_of_peak_sustained_elapsed",
            "sm__pipe_shared_cycles_active.avg.pct_of_peak_sustained_active",
            "sm__inst_executed_pipe_fp16.avg.pct_of_peak_sustained_active",
            "Tensor (Speed)",
        ] {
            assert_eq!(pipe(metric), None, "{metric}");
        }
    }

    /// Shapes and types as `cuobjdump` spells PTX's `mma.m16n8k16` and so on: 2mnk operations.
    #[test]
    fn opcodes_with_modifiers_spell_their_operations() {
        use OperationType::{TensorBf16, TensorFp16, TensorFp64, TensorInt4, TensorInt8, TensorTf32};
        for (opcode, precision, [m, n, k]) in [
            ("HMMA.16816.F32", TensorFp16, [16, 8, 16]),
            ("HMMA.1688.F16", TensorFp16, [16, 8, 8]),
            ("HMMA.16816.F32.BF16", TensorBf16, [16, 8, 16]),
            ("HMMA.1684.F32.TF32", TensorTf32, [16, 8, 4]),
            ("IMMA.16832.S8.S8.SAT", TensorInt8, [16, 8, 32]),
            ("IMMA.8816.U8.S8", TensorInt8, [8, 8, 16]),
            ("IMMA.16864.S4.S4", TensorInt4, [16, 8, 64]),
            ("DMMA.884", TensorFp64, [8, 8, 4]),
        ] {
            assert_eq!(product(opcode), Some((precision, 2 * m * n * k)), "{opcode}");
        }
        for opcode in [
            "HMMA",
            "IMMA.16832",
            "HMMA.884.F32.F32.STEP0",
            "HMMA.16816.F16.SP.TID",
            "HMMA.SP.16832.F32",
            "HGMMA.64x64x16.F32",
            "QMMA.16832.F32.E4M3.E4M3",
            "BMMA.168256.XOR.POPC",
            "FFMA.FTZ",
        ] {
            assert_eq!(product(opcode), None, "{opcode}");
        }
        let of = |executed: &[(&str, u64)]| {
            let sums = products(executed.iter().map(|&(opcode, threads)| (product(opcode), threads)))?;
            Some((sums[TensorFp16.index()], sums[TensorTf32.index()]))
        };
        let all = [("HMMA.16816.F32", 64), ("HMMA.16816.F16", 32), ("HMMA.1688.F32.TF32", 32)];
        assert_eq!(of(&all), Some((3 * 4096, 2048)));
        // One without a size, or not of a whole warp, is in no sum.
        assert_eq!(of(&[("HMMA.16816.F32", 64), ("HGMMA.64x64x16.F32", 32)]), None);
        assert_eq!(of(&[("HMMA.16816.F32", 65)]), None);
        assert_eq!(of(&[]), None);
    }

    #[test]
    fn only_products_of_matrices_are_matrix_opcodes() {
        for opcode in ["HMMA", "IMMA", "BMMA", "DMMA", "QMMA", "OMMA", "HGMMA", "QGMMA", "UTCHMMA", "UTCOMMA"]
        {
            assert!(is_matrix_opcode(opcode), "{opcode}");
        }
        for opcode in ["HFMA2", "HFMA2.MMA", "FFMA", "IMAD", "R2UR", "UTCBAR"] {
            assert!(!is_matrix_opcode(opcode), "{opcode}");
        }
    }
}

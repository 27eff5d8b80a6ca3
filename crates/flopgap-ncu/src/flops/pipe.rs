//! The tensor pipe's instruction counters (`sm__inst_executed_pipe_tensor.sum`): whether a launch
//! used the tensor cores, and its operations where those of an instruction are known.

use super::chip::{Capability, has_half_on_tensor_pipe};
use super::{Arithmetic, Count, Precision};

/// A counter of warp instructions.
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
}

const PIPES: usize = 7;

/// The counter that a metric is, without its unit and its `.sum`.
pub(super) fn pipe(metric: &str) -> Option<Pipe> {
    // `sm__` and `smsp__` are one counter at two levels: equal sums.
    let unit = metric.strip_prefix("sm__").or_else(|| metric.strip_prefix("smsp__"))?;
    let name = unit.strip_prefix("inst_executed_pipe_")?;
    // Ada deprecated its first counters.
    Some(match name.strip_suffix("_v2").unwrap_or(name) {
        "tensor" => Pipe::All,
        "tensor_op_hmma" | "tensor_subpipe_hmma" | "hmma" => Pipe::Hmma,
        "tensor_op_hmma_type_hfma2" => Pipe::Hfma2,
        "tensor_op_imma" | "tensor_subpipe_imma" => Pipe::Imma,
        "tensor_op_dmma" | "tensor_subpipe_dmma" => Pipe::Dmma,
        "tensor_op_gmma" => Pipe::Gmma,
        "tc" => Pipe::Tc,
        _ => return None,
    })
}

/// The instructions of one launch.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Pipes {
    counts: [Option<Count>; PIPES],
}

impl Pipes {
    pub(super) fn take(&mut self, pipe: Pipe, count: Count) {
        self.counts[pipe as usize].get_or_insert(count);
    }

    fn get(&self, pipe: Pipe) -> Option<u64> {
        self.counts[pipe as usize].map(|count| count.value)
    }

    /// Whether the launch multiplied on the tensor cores, as far as the pipe's counters prove it.
    /// `hfma`: the HFMA thread instructions, if they were counted.
    pub(super) fn prove(&self, capability: Capability, hfma: Option<u64>) -> Option<bool> {
        let some = |pipe| self.get(pipe).is_some_and(|count| count > 0);
        if some(Pipe::Gmma) || some(Pipe::Imma) || some(Pipe::Dmma) || some(Pipe::Tc) {
            return Some(true);
        }
        let (all, counted) = match (self.get(Pipe::All), self.get(Pipe::Hmma)) {
            (Some(all), _) => (all, true),
            (None, Some(products)) => (products, false),
            (None, None) => return None,
        };
        if all == 0 {
            // No HMMA at all says nothing of the other kinds.
            return counted.then_some(false);
        }
        if !has_half_on_tensor_pipe(capability) {
            return Some(true);
        }
        match (self.get(Pipe::Hfma2), hfma) {
            (Some(hfma2), _) if all > hfma2 => Some(true),
            (Some(_), _) => counted.then_some(false),
            // Each instruction of a warp counts at least once in the threads' counter.
            (None, Some(hfma)) if all > hfma => Some(true),
            _ => None,
        }
    }

    /// The operations on the tensor cores, where every instruction does the same known number of
    /// them, and their precision.
    pub(super) fn operations(
        &self,
        arithmetic: &Arithmetic,
        capability: Capability,
        hfma: Option<u64>,
    ) -> Option<(Precision, Count)> {
        // Volta has one instruction, HMMA.884: 512 operations (NERSC's roofline scripts, and 2MNK
        // of recorded products).
        let (precision, [m, n, k]) = match capability {
            Some((7, 0)) => (Precision::TensorFp16, [8, 8, 4]),
            _ => (arithmetic.tensor_precision?, arithmetic.instruction?),
        };
        let only = match precision {
            Precision::TensorInt8 | Precision::TensorInt4 | Precision::TensorInt1 => Pipe::Imma,
            Precision::TensorFp64 => Pipe::Dmma,
            _ => Pipe::Hmma,
        };
        let index = if self.get(only).is_some() { only } else { Pipe::All };
        let count = self.counts[index as usize]?;
        // Only Volta has HMMA.884, and the first reports of ncu do not say the compute capability.
        let is_volta = precision == Precision::TensorFp16 && [m, n, k] == [8, 8, 4];
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

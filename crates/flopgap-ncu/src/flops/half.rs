//! Half-precision instructions: arithmetic, constants or conversions.
//!
//! ptxas loads constants with `HFMA2 R, -RZ, RZ, …` and widens 16-bit values with `HADD2.F32 R,
//! -RZ, …`: both are counted as arithmetic. On an H200, every HFMA and HADD of PyTorch's copies,
//! upsampling, split-K reductions, softmax and optimizers is one of these.
//!
//! Neither meaning is believed without a bound. A constant is loaded for arithmetic that uses it
//! more than once: public reports have one HFMA for 16 FFMA (a product on an A100) or for 40 FP32
//! instructions (random numbers on an H100). HMUL has no other meaning than arithmetic, but a few
//! of them prove nothing about a billion HFMA.

use super::{Arithmetic, Count, Measurement, OperationType};

/// FP32 instructions for each HFMA from which on HFMA is taken for constants. Four operations that
/// each HFMA would be are then at most as many as what was counted.
const SINGLE_PER_CONSTANT: u64 = 4;

/// HFMA for each HMUL and HADD up to which HFMA is taken for arithmetic.
const HFMA_PER_OTHER: u64 = 16;

/// Half-precision instructions of a warp by their opcodes, where no counter has their threads.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct HalfOpcodes {
    hadd: u64,
    hmul: u64,
    hfma: u64,
}

impl HalfOpcodes {
    /// Adds instructions if their opcode is one of them; its modifiers do not matter.
    pub(super) fn take(&mut self, opcode: HalfOpcode, count: u64) {
        let sum = match opcode {
            HalfOpcode::Hadd => &mut self.hadd,
            HalfOpcode::Hmul => &mut self.hmul,
            HalfOpcode::Hfma => &mut self.hfma,
        };
        *sum = sum.saturating_add(count);
    }

    /// The most operations that they can be, with all threads of a warp at work; 0 where they are
    /// constants. `single`: FADD, FMUL and FFMA, if they were counted.
    pub(super) fn at_most(self, single: Option<u64>) -> u64 {
        let HalfOpcodes { hadd, hmul, hfma } = self;
        let others = hadd.saturating_add(hmul);
        let threads = |count: u64| count.saturating_mul(32);
        if others == 0 && single.is_some_and(|single| threads(hfma) <= single / SINGLE_PER_CONSTANT) {
            return 0;
        }
        threads(others.saturating_mul(2).saturating_add(hfma.saturating_mul(4)))
    }
}

/// An opcode of half-precision arithmetic.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum HalfOpcode {
    Hadd,
    Hmul,
    Hfma,
}

impl HalfOpcode {
    pub(super) fn new(opcode: &str) -> Option<Self> {
        let known = [("HADD2", HalfOpcode::Hadd), ("HMUL2", HalfOpcode::Hmul), ("HFMA2", HalfOpcode::Hfma)];
        known.into_iter().find(|(name, _)| opcode.starts_with(name)).map(|(_, opcode)| opcode)
    }
}

/// The thread instructions of one launch.
#[derive(Debug, Clone, Copy)]
pub(super) struct Half {
    pub(super) hadd: u64,
    pub(super) hmul: u64,
    pub(super) hfma: u64,
    /// FADD, FMUL and FFMA, if they were counted.
    pub(super) single: Option<u64>,
    /// 2 hadd + 2 hmul + 4 hfma.
    pub(super) operations: Count,
}

impl Half {
    /// The meaning of the instructions.
    pub(super) fn judge(self, arithmetic: &Arithmetic) -> Measurement {
        let Half { hadd, hmul, hfma, single, operations } = self;
        let (work, artifact, undecided) = (
            Measurement::Counted(operations),
            Measurement::Artifact(operations),
            Measurement::Undecided(operations),
        );
        if operations.value == 0 {
            return work;
        }
        if arithmetic.is_composite {
            return undecided;
        }
        match arithmetic.half_arithmetic {
            Some(true) => return work,
            Some(false) => return artifact,
            None => {}
        }
        let is_half = arithmetic.precision == Some(OperationType::Fp16);
        let is_tensor = arithmetic.tensor_cores == Some(true);
        let others = hadd.saturating_add(hmul);
        if others == 0 {
            let is_constant = single.is_some_and(|single| hfma <= single / SINGLE_PER_CONSTANT);
            return match single {
                // Nothing else computes here.
                Some(0) if is_half && !is_tensor => work,
                _ if is_half && !is_tensor => undecided,
                _ if is_constant => artifact,
                _ => undecided,
            };
        }
        if hfma > others.saturating_mul(HFMA_PER_OTHER) {
            return undecided;
        }
        match single {
            // The epilogue of a product on tensor cores: scaling takes HMUL or HADD.
            _ if is_tensor => work,
            Some(0) if is_half => work,
            Some(0) | None if hmul > 0 => work,
            Some(_) if !is_half && hmul > 0 => work,
            // HADD without HMUL may be conversions.
            _ => undecided,
        }
    }
}

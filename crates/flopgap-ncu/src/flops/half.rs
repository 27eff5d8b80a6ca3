//! Half-precision instructions: arithmetic, constants or conversions.
//!
//! ptxas loads constants with `HFMA2 R, -RZ, RZ, …` and widens 16-bit values with `HADD2.F32 R,
//! -RZ, …`: both are counted as arithmetic. On an H200, every HFMA and HADD of PyTorch's copies,
//! upsampling, split-K reductions, softmax and optimizers is one of these.

use super::{Arithmetic, Count, Measurement, Precision};

/// The thread instructions of one launch.
#[derive(Debug, Clone, Copy)]
pub(super) struct Half {
    pub(super) hadd: u64,
    pub(super) hmul: u64,
    /// FADD, FMUL and FFMA, if they were counted.
    pub(super) single: Option<u64>,
    /// 2 hadd + 2 hmul + 4 hfma.
    pub(super) operations: Count,
}

impl Half {
    /// The meaning of the instructions.
    pub(super) fn judge(self, arithmetic: &Arithmetic) -> Measurement {
        let Half { hadd, hmul, single, operations } = self;
        let only_hfma = hadd == 0 && hmul == 0;
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
        // The epilogue of a product on tensor cores: scaling takes HMUL or HADD.
        if arithmetic.tensor_cores == Some(true) {
            return if only_hfma { artifact } else { work };
        }
        let is_half = arithmetic.precision == Some(Precision::Fp16);
        match single {
            // Nothing else computes here.
            Some(0) if is_half => work,
            Some(0) | None if hmul > 0 => work,
            Some(0) => undecided,
            None if hadd == 0 => undecided,
            None => work,
            Some(_) if is_half => undecided,
            Some(_) if only_hfma => artifact,
            Some(_) if hmul > 0 => work,
            Some(_) => undecided,
        }
    }
}

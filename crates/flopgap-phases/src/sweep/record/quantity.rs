//! Quantities measured for a launch.

/// One counter of a launch, or its duration.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Quantity {
    /// Executed FADD instructions of threads.
    Fadd,
    /// Executed FMUL instructions of threads.
    Fmul,
    /// Executed FFMA instructions of threads.
    Ffma,
    /// Executed FADD2 instructions of threads: two additions each (compute capability 10.0 and
    /// 10.3).
    Fadd2,
    /// Executed FMUL2 instructions of threads: two multiplications each.
    Fmul2,
    /// Executed FFMA2 instructions of threads: two fused multiply-adds each.
    Ffma2,
    /// Time on the GPU in nanoseconds.
    DurationNs,
}

impl Quantity {
    /// All of them.
    pub const ALL: [Quantity; 7] = [
        Quantity::Fadd,
        Quantity::Fmul,
        Quantity::Ffma,
        Quantity::Fadd2,
        Quantity::Fmul2,
        Quantity::Ffma2,
        Quantity::DurationNs,
    ];

    /// The counters behind single-precision FLOPs on a GPU without packed instructions. All fit in
    /// one pass.
    pub const FP32: [Quantity; 3] = [Quantity::Fadd, Quantity::Fmul, Quantity::Ffma];

    /// The counters behind single-precision FLOPs on a GPU with packed instructions, which the
    /// other counters omit.
    pub const FP32_PACKED: [Quantity; 6] =
        [Quantity::Fadd, Quantity::Fmul, Quantity::Ffma, Quantity::Fadd2, Quantity::Fmul2, Quantity::Ffma2];

    /// The counters behind single-precision FLOPs on a GPU of this compute capability (major,
    /// minor).
    pub fn fp32(compute_capability: (u32, u32)) -> &'static [Quantity] {
        match compute_capability {
            (10, 0 | 3) => &Quantity::FP32_PACKED,
            _ => &Quantity::FP32,
        }
    }

    /// Its column in a record: `ffma`.
    pub const fn name(self) -> &'static str {
        match self {
            Quantity::Fadd => "fadd",
            Quantity::Fmul => "fmul",
            Quantity::Ffma => "ffma",
            Quantity::Fadd2 => "fadd2",
            Quantity::Fmul2 => "fmul2",
            Quantity::Ffma2 => "ffma2",
            Quantity::DurationNs => "duration_ns",
        }
    }

    /// The metric that Nsight Compute and CUPTI count it with.
    pub const fn metric(self) -> &'static str {
        match self {
            Quantity::Fadd => "smsp__sass_thread_inst_executed_op_fadd_pred_on.sum",
            Quantity::Fmul => "smsp__sass_thread_inst_executed_op_fmul_pred_on.sum",
            Quantity::Ffma => "smsp__sass_thread_inst_executed_op_ffma_pred_on.sum",
            Quantity::Fadd2 => "smsp__sass_thread_inst_executed_op_fadd2_pred_on.sum",
            Quantity::Fmul2 => "smsp__sass_thread_inst_executed_op_fmul2_pred_on.sum",
            Quantity::Ffma2 => "smsp__sass_thread_inst_executed_op_ffma2_pred_on.sum",
            Quantity::DurationNs => "gpu__time_duration.sum",
        }
    }

    /// The floating-point operations of one instruction: a fused multiply-add is two, a packed
    /// instruction twice its plain form.
    pub const fn flops(self) -> u64 {
        match self {
            Quantity::Fadd | Quantity::Fmul => 1,
            Quantity::Ffma | Quantity::Fadd2 | Quantity::Fmul2 => 2,
            Quantity::Ffma2 => 4,
            Quantity::DurationNs => 0,
        }
    }

    /// The quantity with this column name.
    pub fn from_name(name: &str) -> Option<Quantity> {
        Quantity::ALL.into_iter().find(|quantity| quantity.name() == name)
    }
}

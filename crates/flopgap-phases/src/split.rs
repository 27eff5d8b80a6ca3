//! The FLOPs of a phase by the classes of the overhead decomposition.

use flopgap_flops::{ClassFlops, FlopError, Pass};
use flopgap_kernels::{KernelClass, Tile};
use serde::Serialize;

use crate::PhaseLaunches;

/// The class that a kernel counts towards in the overhead decomposition.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Share {
    /// Matrix products.
    Gemm,
    /// Split-K reductions and, in the backward pass, the reduction of the loss.
    SplitK,
    /// Element-wise kernels.
    Activation,
    /// None of the three.
    Other,
}

impl Share {
    /// Where a kernel of this class counts.
    ///
    /// - matmul and gemv: GEMM;
    /// - split-K reduce: split-K; other reductions too, but only in the backward pass, where the
    ///   loss is summed;
    /// - element-wise: activation, and with it copies and fills, which PyTorch runs through the
    ///   same element-wise kernels (they count 0 FLOPs);
    /// - everything else: other.
    pub fn of(class: KernelClass, pass: Pass) -> Share {
        match class {
            KernelClass::Matmul | KernelClass::Gemv => Share::Gemm,
            KernelClass::SplitKReduce => Share::SplitK,
            KernelClass::Reduction if pass == Pass::Backward => Share::SplitK,
            KernelClass::Elementwise | KernelClass::Copy | KernelClass::Layout => Share::Activation,
            _ => Share::Other,
        }
    }
}

/// The part of a kernel in a phase.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct KernelTotal {
    /// The kernel's display name.
    pub kernel: String,
    /// Its class.
    pub class: KernelClass,
    /// The class of the decomposition.
    pub share: Share,
    /// The output tile of one thread block, where the kernel's name has it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tile: Option<Tile>,
    /// How often it was launched.
    pub launches: u64,
    /// The FLOPs of all of these launches.
    pub flops: u64,
}

/// The FLOPs of a phase: by class, and by kernel with the largest first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PhaseFlops {
    /// By class. Adds up to everything that was counted.
    pub classes: ClassFlops,
    /// By kernel.
    pub kernels: Vec<KernelTotal>,
}

impl PhaseFlops {
    /// Adds up a phase.
    ///
    /// # Errors
    /// [`FlopError::Overflow`] when a sum leaves `u64`.
    pub fn new(phase: &PhaseLaunches<'_>, pass: Pass) -> Result<PhaseFlops, FlopError> {
        let mut classes = ClassFlops::default();
        let mut kernels: Vec<KernelTotal> = Vec::new();
        let mut slots = rustc_hash::FxHashMap::default();
        for launch in &phase.launches {
            let kernel = phase.recording.kernel(launch.kernel);
            let share = Share::of(kernel.class, pass);
            let mut one = ClassFlops::default();
            *match share {
                Share::Gemm => &mut one.gemm,
                Share::SplitK => &mut one.split_k,
                Share::Activation => &mut one.activation,
                Share::Other => &mut one.other,
            } = launch.flops;
            classes = classes.checked_add(&one)?;
            let slot = *slots.entry(launch.kernel).or_insert_with(|| {
                kernels.push(KernelTotal {
                    kernel: kernel.short.clone(),
                    class: kernel.class,
                    share,
                    tile: kernel.tile,
                    launches: 0,
                    flops: 0,
                });
                kernels.len() - 1
            });
            kernels[slot].launches += 1;
            kernels[slot].flops += launch.flops; // no larger than the class, whose sum was just checked
        }
        classes.total()?;
        kernels.sort_by(|a, b| b.flops.cmp(&a.flops).then_with(|| a.kernel.cmp(&b.kernel)));
        Ok(PhaseFlops { classes, kernels })
    }
}

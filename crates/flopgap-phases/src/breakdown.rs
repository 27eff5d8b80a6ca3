//! Explains the difference between the closed form of a pass and its counts, kernel by kernel.

use flopgap_flops::{FlopError, Pass, SquareMlp};
use flopgap_kernels::Tile;
use serde::Serialize;

use crate::{KernelTotal, PassAnalysis, Share};

/// Why a pass executed the FLOPs of a [`Step`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Cause {
    /// Matrix products, as the closed form has them.
    Products,
    /// Activations, as the closed form has them.
    Activations,
    /// FLOPs of matrix product kernels beyond that: padding to whole tiles, and the epilogue.
    Padding,
    /// Split-K reductions and, backward, the reduction of the loss.
    SplitK,
    /// FLOPs of element-wise kernels beyond the closed form.
    ActivationExcess,
    /// FLOPs of all other kernels.
    Other,
}

impl Cause {
    /// A description.
    pub const fn name(self) -> &'static str {
        match self {
            Cause::Products => "matrix products in theory",
            Cause::Activations => "activations in theory",
            Cause::Padding => "padding and epilogue",
            Cause::SplitK => "split-K and loss reduction",
            Cause::ActivationExcess => "activations beyond theory",
            Cause::Other => "other kernels",
        }
    }
}

/// A part of the FLOPs of a pass.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Step {
    /// The cause.
    pub cause: Cause,
    /// The kernel that did it; several, joined by commas, where the closed form cannot be divided
    /// among them; `None` for the closed form.
    pub kernel: Option<String>,
    /// The output tile of one thread block, where the kernel's name has it.
    pub tile: Option<Tile>,
    /// Launches of the kernel; 0 for the closed form.
    pub launches: u64,
    /// FLOPs. Negative where less was counted than the closed form has: a `ReLU`, for example,
    /// executes none.
    pub flops: i128,
}

/// What a pass executed: first the closed form, then what was added to it and by which kernel. The
/// steps add up to the counted total, to the FLOP.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use flopgap_flops::SquareMlp;
/// use flopgap_kernels::Classifier;
/// use flopgap_phases::{Analysis, Cause, Phase, Phases, Recording, Strictness};
///
/// let mut recording = Recording::new("made up");
/// let mut push = |phase, name, flops| recording.push(&Classifier::new(), name, None, None, flops, Some(phase));
/// push(Phase::Forward, "ampere_sgemm_128x64_nn", 4_096);
/// push(Phase::Forward, "sigmoid_forward", 512);
/// push(Phase::Backward, "ampere_sgemm_128x64_nt", 1_024);
/// push(Phase::Backward, "sigmoid_backward", 64);
/// let network = SquareMlp::new(1, 8, 8)?;
/// let phases = Phases::by_ranges(&recording)?;
/// let breakdown = Analysis::new(network, &phases, Strictness::Strict)?.forward.breakdown()?;
/// assert_eq!(breakdown.total, 4_608);
/// let padding = &breakdown.steps[2];
/// assert_eq!((padding.cause, padding.flops), (Cause::Padding, 4_096 - 2 * 8 * 8 * 8));
/// assert_eq!(padding.tile.map(|tile| tile.to_string()).as_deref(), Some("128x64"));
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Breakdown {
    /// In the order of the causes, and within one with the most FLOPs first.
    pub steps: Vec<Step>,
    /// All counted FLOPs of the pass.
    pub total: u64,
}

impl PassAnalysis {
    /// The counted FLOPs of the pass by cause and kernel.
    ///
    /// # Errors
    /// [`FlopError::Overflow`] when the counted total leaves `u64`.
    pub fn breakdown(&self) -> Result<Breakdown, FlopError> {
        let theory = &self.decomposition.theory;
        let closed =
            |cause, flops: u64| Step { cause, kernel: None, tile: None, launches: 0, flops: flops.into() };
        let mut steps =
            vec![closed(Cause::Products, theory.gemm), closed(Cause::Activations, theory.activation)];
        steps.extend(self.padding());
        steps.extend(self.of_share(Share::SplitK).map(|kernel| whole(Cause::SplitK, kernel)));
        let elementwise: Vec<&KernelTotal> = self.of_share(Share::Activation).collect();
        steps.extend(beyond(Cause::ActivationExcess, &elementwise, theory.activation));
        steps.extend(self.of_share(Share::Other).map(|kernel| whole(Cause::Other, kernel)));
        Ok(Breakdown { steps, total: self.decomposition.measured.total()? })
    }

    /// The kernels of a share that counted anything, the one with the most FLOPs first.
    fn of_share(&self, share: Share) -> impl Iterator<Item = &KernelTotal> {
        self.kernels.iter().filter(move |kernel| kernel.share == share && kernel.flops > 0)
    }

    /// What each kernel of matrix products executed beyond its products. All products of a pass
    /// have the same size, so that a kernel's part of the closed form follows from its launches,
    /// where each launch is one product.
    fn padding(&self) -> Vec<Step> {
        let theory = self.decomposition.theory.gemm;
        let kernels: Vec<&KernelTotal> = self.of_share(Share::Gemm).collect();
        let launches: u64 = kernels.iter().map(|kernel| kernel.launches).sum();
        if products(self.decomposition.model, self.decomposition.pass) != Some(launches) {
            return beyond(Cause::Padding, &kernels, theory).into_iter().collect();
        }
        let each = theory / launches.max(1);
        let mut steps: Vec<Step> = kernels
            .into_iter()
            .map(|kernel| Step {
                flops: i128::from(kernel.flops) - i128::from(kernel.launches) * i128::from(each),
                ..whole(Cause::Padding, kernel)
            })
            .collect();
        steps.sort_by_key(|step| std::cmp::Reverse(step.flops));
        steps
    }
}

/// The matrix products of a pass: backward, every layer has one for its weights, and every layer
/// but the first one for its input.
fn products(network: SquareMlp, pass: Pass) -> Option<u64> {
    let layers = network.layers();
    match pass {
        Pass::Forward => Some(layers),
        Pass::Backward => layers.checked_add(layers - 1),
    }
}

/// All FLOPs that a kernel counted.
fn whole(cause: Cause, kernel: &KernelTotal) -> Step {
    Step {
        cause,
        kernel: Some(kernel.kernel.clone()),
        tile: kernel.tile,
        launches: kernel.launches,
        flops: kernel.flops.into(),
    }
}

/// What kernels executed together beyond their part of the closed form; `None` where there is
/// neither.
fn beyond(cause: Cause, kernels: &[&KernelTotal], theory: u64) -> Option<Step> {
    let counted: i128 = kernels.iter().map(|kernel| i128::from(kernel.flops)).sum();
    let mut names: Vec<&str> = kernels.iter().map(|kernel| kernel.kernel.as_str()).collect();
    names.dedup();
    let tile = match kernels {
        [only] => only.tile,
        _ => None,
    };
    (!kernels.is_empty() || theory > 0).then(|| Step {
        cause,
        kernel: (!names.is_empty()).then(|| names.join(", ")),
        tile,
        launches: kernels.iter().map(|kernel| kernel.launches).sum(),
        flops: counted - i128::from(theory),
    })
}

//! Chooses the kernels of a network by its shape, where the options leave a choice.

use super::engine::{Engine, Products};
use super::small::Small;
use crate::Shape;

/// The kernels for the chain of a pass from layer to layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Method {
    /// cuBLAS, and a launch of its own for each activation.
    Cublas,
    /// A launch of `fused.cu` for each layer.
    Fused,
    /// A launch of `small.cu` for the whole pass.
    Small,
    /// A launch of `chain.cu` for the whole pass.
    Chain,
}

/// The kernels for the gradients of the weights.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Gradients {
    /// A product of cuBLAS for each layer, as soon as the chain is that far.
    EachLayer,
    /// One batched product of cuBLAS after the chain.
    Together,
    /// The kernel of the chain does, which is a launch of `small.cu`.
    Within,
}

/// The kernels of both passes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Plan {
    pub(super) forward: Method,
    pub(super) backward: Method,
    pub(super) gradients: Gradients,
}

/// Width up to which a launch for each layer is faster than cuBLAS with its launches for reductions
/// and activations: measured on an H200, see docs/measurements/square.md.
const FUSED_WIDTH: usize = 256;

/// Whether a launch for each layer can split the inner sum over clusters of eight blocks, all on
/// the device at a time: each of up to a tenth of the multiprocessors then finishes a tile of 64 x
/// 64, which is faster than a launch for the pass (H200: 40 instead of 46 microseconds for eight
/// layers of D=512 M=64). A device holds fewer clusters than an eighth of its multiprocessors, as
/// those come in groups of different sizes: 15 of 132.
fn few_tiles(engine: &Engine, shape: Shape) -> bool {
    let tiles = shape.width().div_ceil(64) * shape.samples().div_ceil(64);
    tiles <= engine.context().device().multiprocessors as usize / 10
}

impl Plan {
    /// The best choice of kernels, where `Products` leaves one.
    pub(super) fn new(engine: &Engine, shape: Shape) -> Self {
        let fused = Plan { forward: Method::Fused, backward: Method::Fused, gradients: Gradients::Together };
        let cublas =
            Plan { forward: Method::Cublas, backward: Method::Cublas, gradients: Gradients::EachLayer };
        let chain = Plan { forward: Method::Chain, backward: Method::Chain, gradients: Gradients::Together };
        match engine.products {
            Products::Fused => fused,
            Products::Fastest if shape.width() <= FUSED_WIDTH => {
                engine.small.as_ref().map_or(fused, |small| fused.with(small, shape))
            }
            Products::Fastest if engine.whole.as_ref().is_some_and(|whole| whole.takes(shape)) => {
                if few_tiles(engine, shape) { fused } else { chain }
            }
            Products::Cublas | Products::Fastest => cublas,
        }
    }

    /// The same with a launch for a whole pass where that is faster.
    fn with(self, small: &Small, shape: Shape) -> Self {
        let forward = if small.suits_forward(shape) { Method::Small } else { self.forward };
        if !small.suits_backward(shape) {
            return Plan { forward, ..self };
        }
        let gradients = if Small::gives_gradients(shape) { Gradients::Within } else { Gradients::Together };
        Plan { forward, backward: Method::Small, gradients }
    }
}

//! Which kernels compute a network: by its shape, where the choice is free.

use super::engine::Products;
use super::small::Small;
use crate::square::Shape;

/// What computes the chain of a pass from layer to layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Method {
    /// cuBLAS, and a launch of its own for each activation.
    Cublas,
    /// A launch of `fused.cu` for each layer.
    Fused,
    /// A launch of `small.cu` for the whole pass.
    Small,
}

/// What computes the gradients of the weights.
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

/// Width up to which a launch for each layer is faster than cuBLAS with its launches for reductions and activations: measured on an H200, see
/// docs/MEASUREMENTS.md.
const FUSED_WIDTH: usize = 256;

impl Plan {
    /// `small`: the kernels of `small.cu`, where the device can run them.
    pub(super) fn new(products: Products, small: Option<&Small>, shape: Shape) -> Self {
        let fused = Plan { forward: Method::Fused, backward: Method::Fused, gradients: Gradients::Together };
        let cublas =
            Plan { forward: Method::Cublas, backward: Method::Cublas, gradients: Gradients::EachLayer };
        match products {
            Products::Fused => fused,
            Products::Fastest if shape.width() <= FUSED_WIDTH => {
                small.map_or(fused, |small| fused.with(small, shape))
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

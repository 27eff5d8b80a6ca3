//! The padded network that shaders compute, and where its numbers lie.

use std::iter;

use crate::Network;

/// Widths are rounded up to multiples of this: rows begin at multiples of 16 bytes, and a width is
/// a whole number of matrices.
const MULTIPLE: usize = 16;
/// Outputs and inputs of a layer whose gradients a workgroup sums: their arrays have whole blocks.
pub(super) const BLOCK: usize = 64;
/// Rows of a batch are rounded up to multiples of this: the most that a workgroup takes.
pub(super) const ROWS: usize = 128;

/// A layer as shaders see it (`shaders/network.glsl`).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[repr(C)]
pub(super) struct Layer {
    pub(super) inputs: u32,
    pub(super) outputs: u32,
    /// Where its weights and its biases begin.
    pub(super) weights: u32,
    pub(super) biases: u32,
    /// Numbers of a row in the layers before.
    pub(super) before: u32,
    /// Where its gradients begin: weights `outputs x inputs`, then biases, in whole blocks.
    pub(super) gradients: u32,
    /// Where its transposed weights begin, of cooperative vectors.
    pub(super) transposed: u32,
    pub(super) padding: u32,
}

/// The padded network.
#[derive(Debug, Clone)]
pub(super) struct Shape {
    pub(super) network: Network,
    /// From inputs to outputs.
    pub(super) widths: Vec<usize>,
}

impl Shape {
    /// Of a network. `uniform`: all hidden layers have one width, as cooperative vectors need.
    pub(super) fn new(network: &Network, uniform: bool) -> Self {
        let mut widths: Vec<usize> =
            network.widths().iter().map(|width| width.next_multiple_of(MULTIPLE)).collect();
        let last = widths.len() - 1;
        if uniform {
            let widest = widths[1..last].iter().copied().max().unwrap_or(MULTIPLE);
            widths[1..last].fill(widest);
        }
        Shape { network: network.clone(), widths }
    }

    pub(super) fn layers(&self) -> usize {
        self.widths.len() - 1
    }

    pub(super) fn inputs(&self) -> usize {
        self.widths[0]
    }

    pub(super) fn outputs(&self) -> usize {
        self.widths[self.layers()]
    }

    pub(super) fn widest(&self) -> usize {
        self.widths.iter().copied().max().unwrap_or(MULTIPLE)
    }

    /// Numbers of a row in all layers: what gradients by sums take.
    pub(super) fn of_row(&self) -> usize {
        self.widths[1..].iter().sum()
    }

    /// Inputs and outputs of each layer, rounded up to blocks of gradients.
    fn blocks(&self) -> impl Iterator<Item = [usize; 2]> {
        self.widths.windows(2).map(|pair| [pair[0], pair[1]].map(|width| width.next_multiple_of(BLOCK)))
    }

    /// Gradients by weights and biases, in whole blocks.
    pub(super) fn parameters(&self) -> usize {
        self.blocks().map(|[inputs, outputs]| inputs * outputs + outputs).sum()
    }

    /// Layers without the places of their weights, which depend on how these are stored.
    pub(super) fn table(&self) -> Vec<Layer> {
        let number = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
        let (mut before, mut gradients) = (0, 0);
        let mut layers = Vec::with_capacity(self.layers());
        for (pair, [inputs, outputs]) in self.widths.windows(2).zip(self.blocks()) {
            layers.push(Layer {
                inputs: number(pair[0]),
                outputs: number(pair[1]),
                before: number(before),
                gradients: number(gradients),
                ..Layer::default()
            });
            before += pair[1];
            gradients += inputs * outputs + outputs;
        }
        layers
    }

    /// Weights of a layer with the padding, `outputs x inputs`.
    pub(super) fn weights(&self, layer: usize, weights: &[f32]) -> Vec<f32> {
        let (inputs, outputs) = (self.network.widths()[layer], self.network.widths()[layer + 1]);
        let (padded_inputs, padded_outputs) = (self.widths[layer], self.widths[layer + 1]);
        let mut padded = vec![0.0; padded_inputs * padded_outputs];
        for output in 0..outputs {
            padded[output * padded_inputs..][..inputs].copy_from_slice(&weights[output * inputs..][..inputs]);
        }
        padded
    }

    /// Biases of a layer with the padding.
    pub(super) fn biases(&self, layer: usize, biases: &[f32]) -> Vec<f32> {
        biases.iter().copied().chain(iter::repeat(0.0)).take(self.widths[layer + 1]).collect()
    }

    /// Gradients by the parameters of the network, from those in blocks.
    pub(super) fn gradients(&self, padded: &[f32]) -> Vec<f32> {
        let mut gradients = Vec::with_capacity(self.network.parameters());
        let mut start = 0;
        for (layer, [padded_inputs, padded_outputs]) in self.blocks().enumerate() {
            let (inputs, outputs) = (self.network.widths()[layer], self.network.widths()[layer + 1]);
            for output in 0..outputs {
                gradients.extend_from_slice(&padded[start + output * padded_inputs..][..inputs]);
            }
            start += padded_inputs * padded_outputs;
            gradients.extend_from_slice(&padded[start..][..self.network.biases(layer).len()]);
            start += padded_outputs;
        }
        gradients
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Parameters;

    #[test]
    fn what_is_padded_comes_back() {
        let network = Network::new(&[3, 20, 33, 5]).unwrap().with_biases(&[true, false, true]).unwrap();
        let parameters = Parameters::he(&network, 1);
        for uniform in [false, true] {
            let shape = Shape::new(&network, uniform);
            assert_eq!(shape.widths, if uniform { [16, 48, 48, 16] } else { [16, 32, 48, 16] });
            let mut blocks = vec![f32::NAN; shape.parameters()];
            for (layer, place) in shape.table().into_iter().enumerate() {
                let width = shape.widths[layer].next_multiple_of(BLOCK);
                let start = place.gradients as usize;
                let weights = shape.weights(layer, parameters.weights(layer));
                for (row, weights) in weights.chunks(shape.widths[layer]).enumerate() {
                    blocks[start + row * width..][..weights.len()].copy_from_slice(weights);
                }
                let biases = shape.biases(layer, parameters.biases(layer));
                let start = start + shape.widths[layer + 1].next_multiple_of(BLOCK) * width;
                blocks[start..start + biases.len()].copy_from_slice(&biases);
            }
            assert_eq!(shape.gradients(&blocks), parameters.values());
        }
    }
}

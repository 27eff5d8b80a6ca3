//! A block of samples through all layers and back, on one thread, while its numbers are in the
//! cache.

use std::ops::Range;

use crate::numerics::{Matrix, product};
use crate::{Network, Parameters, slope_from_output};

use super::activations::{activate, activate_again, activate_beside, multiply_slopes};

/// The parameters, and the weights as the forward pass reads them fastest.
#[derive(Debug, Clone)]
pub(super) struct Layers {
    pub(super) parameters: Parameters,
    /// As the parameters, but the weights of a layer are `in x out`.
    transposed: Vec<f32>,
    /// The biases of layers that have none.
    zeros: Vec<f32>,
}

/// What a thread works in.
#[derive(Debug, Default)]
pub(super) struct Scratch {
    /// The panel of a layer, and of the next.
    front: Vec<f32>,
    back: Vec<f32>,
    /// A panel of outputs that are computed from kept sums again.
    again: Vec<f32>,
    bias_sums: Vec<f32>,
    /// Gradients of this thread's samples.
    pub(super) gradients: Vec<f32>,
    /// Where passes there and back in one keep things: the tape, the outputs, the gradients by
    /// them.
    training: Training,
}

/// The tape, the outputs, the gradients by them.
type Training = (Vec<f32>, Vec<f32>, Vec<f32>);

/// Some samples on their way back.
pub(super) struct Back<'a> {
    pub(super) x: &'a [f32],
    pub(super) y: &'a [f32],
    pub(super) dy: &'a [f32],
    /// What [`Layers::forward_train`] kept of them.
    pub(super) kept: &'a [f32],
    pub(super) dx: Option<&'a mut [f32]>,
}

/// Makes a buffer at least so long.
pub(super) fn grow(buffer: &mut Vec<f32>, length: usize) -> &mut [f32] {
    if buffer.len() < length {
        buffer.resize(length, 0.0);
    }
    &mut buffer[..length]
}

impl Layers {
    pub(super) fn new(parameters: &Parameters) -> Self {
        let network = parameters.network();
        let mut transposed = parameters.values().to_vec();
        for layer in 0..network.layers() {
            let (inputs, outputs) = (network.widths()[layer], network.widths()[layer + 1]);
            let columns = &mut transposed[network.weights(layer)];
            for (output, row) in parameters.weights(layer).chunks_exact(inputs).enumerate() {
                for (column, &weight) in columns.chunks_exact_mut(outputs).zip(row) {
                    column[output] = weight;
                }
            }
        }
        let without = (0..network.layers()).filter(|&layer| !network.has_bias(layer));
        let widest = without.map(|layer| network.widths()[layer + 1]).max().unwrap_or(0);
        Layers { parameters: parameters.clone(), transposed, zeros: vec![0.0; widest] }
    }

    pub(super) fn network(&self) -> &Network {
        self.parameters.network()
    }

    pub(super) fn bytes(&self) -> usize {
        size_of_val(self.parameters.values()) + size_of_val(&*self.transposed) + size_of_val(&*self.zeros)
    }

    /// The biases of a layer; zeros if there are none.
    fn biases(&self, layer: usize) -> &[f32] {
        let network = self.network();
        if network.has_bias(layer) {
            self.parameters.biases(layer)
        } else {
            &self.zeros[..network.widths()[layer + 1]]
        }
    }

    /// Weighted sums of a layer, without biases: `below` is `samples x in`, `sums` `samples x out`.
    fn sums(&self, layer: usize, below: &[f32], sums: &mut [f32]) {
        let widths = self.network().widths();
        let (inputs, outputs) = (widths[layer], widths[layer + 1]);
        let weights = Matrix::new(&self.transposed[self.network().weights(layer)], inputs, outputs);
        product(sums, &Matrix::new(below, below.len() / inputs, inputs), &weights, false);
    }

    pub(super) fn forward(&self, x: &[f32], y: &mut [f32], scratch: &mut Scratch) {
        let network = self.network();
        let samples = x.len() / network.inputs();
        let (mut front, mut back) = scratch.panels(network, samples);
        for layer in 0..network.layers() {
            let below = if layer == 0 { x } else { &back[..samples * network.widths()[layer]] };
            let above = if layer + 1 == network.layers() {
                &mut *y
            } else {
                &mut front[..samples * network.widths()[layer + 1]]
            };
            self.sums(layer, below, above);
            activate(network.activation(layer), above, self.biases(layer));
            std::mem::swap(&mut front, &mut back);
        }
    }

    /// The same, and keeps what [`Layers::backward`] needs: panel after panel,
    /// [`Network::kept_of_sample`](crate::Network::kept_of_sample) numbers of each sample.
    pub(super) fn forward_train(&self, x: &[f32], y: &mut [f32], kept: &mut [f32], scratch: &mut Scratch) {
        let network = self.network();
        let samples = x.len() / network.inputs();
        let (mut front, mut back) = scratch.panels(network, samples);
        for layer in 0..network.layers() {
            let (activation, last) = (network.activation(layer), layer + 1 == network.layers());
            let panel = panel(network, layer, samples);
            let (done, rest) = kept.split_at_mut(panel.start);
            let below = match layer.checked_sub(1) {
                None => x,
                Some(before) if slope_from_output(network.activation(before)) => {
                    &done[panel_before(network, layer, samples)]
                }
                Some(_) => &back[..samples * network.widths()[layer]],
            };
            let biases = self.biases(layer);
            if slope_from_output(activation) {
                let above = if last { &mut *y } else { &mut rest[..panel.len()] };
                self.sums(layer, below, above);
                activate(activation, above, biases);
            } else {
                let sums = &mut rest[..panel.len()];
                self.sums(layer, below, sums);
                let above = if last { &mut *y } else { &mut front[..panel.len()] };
                activate_beside(activation, sums, biases, above);
            }
            std::mem::swap(&mut front, &mut back);
        }
    }

    /// The gradients of some samples: by the inputs, and by the parameters into `gradients`, to
    /// which they are added if `add` says so.
    pub(super) fn backward(&self, pass: Back<'_>, gradients: &mut [f32], add: bool, scratch: &mut Scratch) {
        let Back { x, y, dy, kept, mut dx } = pass;
        let network = self.network();
        let samples = x.len() / network.inputs();
        let widest = network.widths().iter().copied().max().unwrap_or_default();
        let again = grow(&mut scratch.again, samples * widest);
        let bias_sums = grow(&mut scratch.bias_sums, widest);
        let mut front = grow(&mut scratch.front, samples * widest);
        let mut back = grow(&mut scratch.back, samples * widest);
        front[..dy.len()].copy_from_slice(dy);
        for layer in (0..network.layers()).rev() {
            let (inputs, outputs) = (network.widths()[layer], network.widths()[layer + 1]);
            let activation = network.activation(layer);
            let delta = &mut front[..samples * outputs];
            let slopes_of = if layer + 1 == network.layers() && slope_from_output(activation) {
                y
            } else {
                &kept[panel(network, layer, samples)]
            };
            let bias_sums = &mut bias_sums[..outputs];
            bias_sums.fill(0.0);
            multiply_slopes(activation, delta, slopes_of, bias_sums);
            let bias_gradients = &mut gradients[network.biases(layer)];
            if add {
                bias_gradients.iter_mut().zip(&*bias_sums).for_each(|(gradient, sum)| *gradient += sum);
            } else if network.has_bias(layer) {
                bias_gradients.copy_from_slice(bias_sums);
            }

            let below = match layer.checked_sub(1) {
                None => x,
                Some(before) => {
                    let kept = &kept[panel(network, before, samples)];
                    if slope_from_output(network.activation(before)) {
                        kept
                    } else {
                        activate_again(network.activation(before), kept, &mut again[..kept.len()]);
                        &again[..kept.len()]
                    }
                }
            };
            let by_outputs = || Matrix::new(&front[..samples * outputs], samples, outputs);
            let weight_gradients = &mut gradients[network.weights(layer)];
            product(weight_gradients, &by_outputs().transposed(), &Matrix::new(below, samples, inputs), add);

            let weights = Matrix::new(self.parameters.weights(layer), outputs, inputs);
            if layer > 0 {
                product(&mut back[..samples * inputs], &by_outputs(), &weights, false);
                std::mem::swap(&mut front, &mut back);
            } else if let Some(dx) = &mut dx {
                product(dx, &by_outputs(), &weights, false);
            }
        }
    }
}

/// Where a layer's panel lies among what is kept of a block.
fn panel(network: &Network, layer: usize, samples: usize) -> Range<usize> {
    let start = samples * network.widths()[1..=layer].iter().sum::<usize>();
    start..start + samples * network.widths()[layer + 1]
}

/// The panel below that of `layer`.
fn panel_before(network: &Network, layer: usize, samples: usize) -> Range<usize> {
    panel(network, layer - 1, samples)
}

impl Scratch {
    /// Bytes that are allocated.
    pub(super) fn bytes(&self) -> usize {
        let (kept, y, dy) = &self.training;
        let buffers = [&self.front, &self.back, &self.again, &self.bias_sums, &self.gradients, kept, y, dy];
        buffers.iter().map(|buffer| buffer.capacity() * size_of::<f32>()).sum()
    }

    /// Hands out the buffers of a pass there and back in one, while the others are in use.
    pub(super) fn take_training(&mut self) -> Training {
        std::mem::take(&mut self.training)
    }

    pub(super) fn give_training(&mut self, training: Training) {
        self.training = training;
    }

    fn panels(&mut self, network: &Network, samples: usize) -> (&mut [f32], &mut [f32]) {
        let widest = network.widths().iter().copied().max().unwrap_or_default();
        (grow(&mut self.front, samples * widest), grow(&mut self.back, samples * widest))
    }
}

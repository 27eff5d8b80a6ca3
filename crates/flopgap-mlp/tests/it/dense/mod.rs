//! The fully connected network: every implementation against the 64-bit reference.

mod agreement;
mod cpu;
mod draws;
mod file;
mod kernels;
mod large;
mod refusals;
mod training;

use flopgap_mlp::dense::reference::activate;
use flopgap_mlp::dense::{Activation, Network, Parameters, Size};

/// Networks around the edges of tiles: the four of the benchmark, thin and deep ones, widths that are no power of two, every activation.
fn networks() -> Vec<Network> {
    let of = |widths: &[usize]| Network::new(widths).unwrap();
    let mut networks: Vec<Network> = Size::ALL.into_iter().map(Size::network).collect();
    networks.push(of(&[8, 8, 8]));
    networks.push(of(&[8, 64, 64, 64, 8]).with_activation(Activation::Relu));
    networks.push(of(&[24, 40, 56, 8]));
    networks.push(of(&[72, 136, 24]).with_activation(Activation::Tanh));
    networks.push(of(&[16, 32, 32, 32, 32, 16]).with_output_activation(Activation::Sigmoid));
    networks
        .push(of(&[128, 256, 8]).with_activation(Activation::Gelu).with_output_activation(Activation::Gelu));
    networks.push(of(&[64, 328, 200]).with_activation(Activation::Silu));
    networks.push(
        of(&[40, 64, 32]).with_activation(Activation::Identity).with_output_activation(Activation::Relu),
    );
    // The backward pass in one kernel: inputs in two chunks where the hidden layer is one, and the other way round.
    networks.push(of(&[128, 64, 16]).with_output_activation(Activation::Identity));
    networks.push(of(&[64, 104, 72]));
    // What draws at random found broken once: five layers, inputs of a layer that are no multiple of 32 (no kink, where 16 bits take another
    // side than 64), few inputs before many outputs, many inputs of few sums.
    networks.push(of(&[40, 8, 8, 8, 64, 8]));
    networks.push(of(&[344, 256, 224]).with_activation(Activation::Tanh));
    networks.push(of(&[8, 24, 512]));
    networks.push(of(&[512, 16, 8]));
    networks.push(of(&[8, 16, 16, 8, 152]));
    networks
}

/// Batches around the edges of warps and tiles.
const BATCHES: [usize; 4] = [1, 31, 256, 4097];

/// Whether a sum before an activation with a kink is so near 0 that 32 bits do not tell its sign for sure.
fn at_a_kink(parameters: &Parameters, x: &[f32]) -> bool {
    let network = parameters.network();
    let kinked =
        |&layer: &usize| matches!(network.activation(layer), Activation::Relu | Activation::LeakyRelu);
    let Some(last) = (0..network.layers()).rfind(kinked) else { return false };
    let mut below: Vec<f64> = x.iter().copied().map(f64::from).collect();
    for layer in 0..=last {
        let rows = parameters.weights(layer).chunks_exact(below.len());
        let sums: Vec<f64> = rows
            .zip(parameters.biases(layer))
            .map(|(row, &bias)| {
                f64::from(bias) + row.iter().zip(&below).map(|(&w, a)| f64::from(w) * a).sum::<f64>()
            })
            .collect();
        if kinked(&layer) && sums.iter().any(|sum| sum.abs() < 2e-6) {
            return true;
        }
        below = sums.into_iter().map(|sum| activate(network.activation(layer), sum)).collect();
    }
    false
}

//! The fully connected network: every implementation against the 64-bit reference.

mod activations;
mod agreement;
mod biases;
mod cpu;
mod device;
mod draws;
mod file;
pub(crate) mod kernels;
mod large;
mod machine_code;
mod padding;
mod refusals;
mod tangents;
mod training;

use flopgap_mlp::{Activation, Network, Size};

/// Networks around the edges of tiles: the four of the benchmark, thin and deep ones, widths that
/// are no power of two, every activation.
pub(crate) fn networks() -> Vec<Network> {
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
    // The backward pass in one kernel: inputs in two chunks where the hidden layer is one, and the
    // other way round.
    networks.push(of(&[128, 64, 16]).with_output_activation(Activation::Identity));
    networks.push(of(&[64, 104, 72]));
    // What draws at random found broken once: five layers, inputs of a layer that are no multiple
    // of 32 (no kink, where 16 bits take another side than 64), few inputs before many outputs,
    // many inputs of few sums.
    networks.push(of(&[40, 8, 8, 8, 64, 8]));
    networks.push(of(&[344, 256, 224]).with_activation(Activation::Tanh));
    networks.push(of(&[8, 24, 512]));
    networks.push(of(&[512, 16, 8]));
    networks.push(of(&[8, 16, 16, 8, 152]));
    // Padded: inputs and outputs, hidden layers alone, no biases at all, biases in some layers.
    networks.push(of(&[3, 64, 3]).with_activation(Activation::Relu));
    networks.push(of(&[16, 60, 33, 24]).with_output_activation(Activation::Gelu));
    networks.push(of(&[5, 20, 1]).with_bias(false).with_activation(Activation::Sigmoid));
    networks.push(of(&[64, 64, 16]).with_bias(false).with_activation(Activation::Silu));
    let some = |widths: &[usize], biases: &[bool]| of(widths).with_biases(biases).unwrap();
    networks.push(some(&[24, 40, 56, 8], &[false, true, false]).with_activation(Activation::GeluTanh));
    networks.push(some(&[3, 64, 64, 3], &[true, true, false]).with_activation(Activation::Tanh));
    networks
}

/// Batches around the edges of warps and tiles.
const BATCHES: [usize; 4] = [1, 31, 256, 4097];

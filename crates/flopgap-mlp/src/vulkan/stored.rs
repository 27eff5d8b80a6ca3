//! The parameters of a network on a device.

use std::sync::atomic::{AtomicU64, Ordering};

use half::f16;

use super::coopvec::Functions;
use super::device::Device;
use super::error::VulkanError;
use super::memory::Buffer;
use super::plan::Plan;
use super::shape::Layer;
use crate::cuda::Implementation;
use crate::{Element, MlpError, Parameters, Precision};

/// The parameters of a network on a device, as the shaders of its plan read them.
pub(super) struct Stored {
    pub(super) device: Device,
    pub(super) plan: Plan,
    pub(super) layers: Buffer,
    pub(super) weights: Buffer,
    pub(super) biases: Buffer,
    pub(super) transposed: Buffer,
    /// Which it is of all in the program.
    pub(super) number: u64,
}

impl Stored {
    /// Zeros.
    pub(super) fn new<T: Element>(device: &Device, plan: Plan) -> Result<Self, MlpError> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let network = &plan.shape.network;
        let zero = Parameters::from_values(network, vec![0.0; network.parameters()])?;
        let packed = pack::<T>(&plan, device, &zero)?;
        Ok(Stored {
            layers: Buffer::of(device, &bytes_of_layers(&packed.layers))?,
            weights: Buffer::of(device, &packed.weights)?,
            biases: Buffer::of(device, &packed.biases)?,
            transposed: Buffer::of(device, &packed.transposed)?,
            number: NEXT.fetch_add(1, Ordering::Relaxed),
            device: device.clone(),
            plan,
        })
    }

    pub(super) fn write<T: Element>(&self, parameters: &Parameters) -> Result<(), VulkanError> {
        let packed = pack::<T>(&self.plan, &self.device, parameters)?;
        self.weights.write(&packed.weights)?;
        self.biases.write(&packed.biases)?;
        self.transposed.write(&packed.transposed)
    }
}

/// Weights and biases as shaders read them.
struct Packed {
    layers: Vec<Layer>,
    weights: Vec<u8>,
    biases: Vec<u8>,
    transposed: Vec<u8>,
}

pub(super) fn number(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

/// The table of layers as a shader reads it.
fn bytes_of_layers(layers: &[Layer]) -> Vec<u32> {
    /// Layers of the array in `shaders/network.glsl`.
    const LAYERS: usize = 64;
    let mut numbers: Vec<u32> = layers
        .iter()
        .flat_map(|&Layer { inputs, outputs, weights, biases, before, gradients, transposed, padding }| {
            [inputs, outputs, weights, biases, before, gradients, transposed, padding]
        })
        .collect();
    numbers.resize(LAYERS * 8, 0);
    numbers
}

/// The parameters as the shaders of a plan read them.
fn pack<T: Element>(plan: &Plan, device: &Device, parameters: &Parameters) -> Result<Packed, VulkanError> {
    let shape = &plan.shape;
    let mut layers = shape.table();
    let (mut weights, mut biases, mut transposed) = (Vec::new(), Vec::new(), Vec::new());
    for (index, layer) in layers.iter_mut().enumerate() {
        let of_layer = shape.weights(index, parameters.weights(index));
        let biases_of_layer = shape.biases(index, parameters.biases(index));
        let (inputs, outputs) = (shape.widths[index], shape.widths[index + 1]);
        if let (Implementation::Coopvec, Some(vectors)) = (plan.implementation, &device.0.vectors) {
            layer.weights = number(weights.len());
            push_optimal(&mut weights, vectors, &of_layer, [outputs, inputs])?;
            layer.transposed = number(transposed.len());
            let turned: Vec<f32> = (0..inputs * outputs)
                .map(|place| of_layer[place % outputs * inputs + place / outputs])
                .collect();
            push_optimal(&mut transposed, vectors, &turned, [inputs, outputs])?;
            layer.biases = number(biases.len());
            biases.extend(biases_of_layer.iter().flat_map(|&bias| f16::from_f32(bias).to_ne_bytes()));
            biases.resize(biases.len().next_multiple_of(ALIGNMENT), 0);
            continue;
        }
        layer.weights = number(weights.len() / size_of::<T>());
        let stored: Vec<f32> = match plan.side {
            Some(side) => matrices(&of_layer, [outputs, inputs], side),
            None => of_layer,
        };
        push::<T>(&mut weights, &stored);
        layer.biases = number(biases.len() / 4);
        // Each row of a matrix of sums begins with the biases of its columns.
        let rows = plan.side.unwrap_or(1);
        for columns in biases_of_layer.chunks(plan.side.unwrap_or(outputs)) {
            for _ in 0..rows {
                biases.extend(columns.iter().flat_map(|bias| bias.to_ne_bytes()));
            }
        }
    }
    Ok(Packed { layers, weights, biases, transposed })
}

/// Matrices and vectors of cooperative vectors begin at multiples of so many bytes.
const ALIGNMENT: usize = 64;

fn push_optimal(
    to: &mut Vec<u8>,
    vectors: &Functions,
    matrix: &[f32],
    [rows, columns]: [usize; 2],
) -> Result<(), VulkanError> {
    let half: Vec<u16> = matrix.iter().map(|&number| f16::from_f32(number).to_bits()).collect();
    to.extend(vectors.optimal(&half, number(rows), number(columns))?);
    to.resize(to.len().next_multiple_of(ALIGNMENT), 0);
    Ok(())
}

fn push<T: Element>(to: &mut Vec<u8>, numbers: &[f32]) {
    if T::PRECISION == Precision::F16 {
        to.extend(numbers.iter().flat_map(|&number| f16::from_f32(number).to_ne_bytes()));
    } else {
        to.extend(numbers.iter().flat_map(|number| number.to_ne_bytes()));
    }
}

/// A matrix as square matrices one after the other, row after row of them.
fn matrices(numbers: &[f32], [rows, columns]: [usize; 2], side: usize) -> Vec<f32> {
    let mut all = Vec::with_capacity(numbers.len());
    for row in (0..rows).step_by(side) {
        for column in (0..columns).step_by(side) {
            for inner in row..row + side {
                all.extend_from_slice(&numbers[inner * columns + column..][..side]);
            }
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn matrices_lie_one_after_the_other() {
        let numbers: Vec<f32> = (0..16_u8).map(f32::from).collect();
        let expected = [0, 1, 4, 5, 2, 3, 6, 7, 8, 9, 12, 13, 10, 11, 14, 15];
        assert_eq!(matrices(&numbers, [4, 4], 2), expected.map(f32::from as fn(u8) -> f32));
    }
}

//! Writes graphs as ONNX models with random parameters.

mod layers;
mod model;
mod quantize;
mod random;
mod refused;
mod role;

use flopgap_flops::Precision;

use crate::error::GraphError;
use crate::graph::Graph;
use model::Writer;
use refused::refused;
use role::role;

/// The graph as an ONNX model with parameters from a seed: the families of
/// [`Workload::graph`](crate::Workload::graph).
///
/// - `fp32` and `tf32`: 32-bit floats; which products they are computed with is the runtime's
///   choice.
/// - `fp16`: 16-bit floats, inputs and results included.
/// - `int8`: inputs and results stay 32-bit floats; `QuantizeLinear` and `DequantizeLinear` stand
///   between all layers (the QDQ form), with unsigned 8-bit activations, signed weights, 32-bit
///   biases, one scale for a tensor. The scales follow from the variance that random inputs in
///   -1..1 have behind each layer.
///
/// Operator set 20, readable by ONNX Runtime from 1.17 on. Inputs and outputs carry the names that
/// they have in the graph.
///
/// # Errors
/// [`GraphError::Write`] for `bf16`, which CPU runtimes do not compute in, and for layers that this
/// crate does not write.
pub fn to_onnx(graph: &Graph, precision: Precision, seed: u64) -> Result<Vec<u8>, GraphError> {
    if precision == Precision::Bf16 {
        return Err(refused(&graph.name, "CPU runtimes have no bf16 kernels; use fp16 or fp32"));
    }
    if graph.outputs.is_empty() {
        return Err(refused(&graph.name, "it computes nothing"));
    }
    if let Some(layer) = graph.unknown().next() {
        return Err(refused(&layer.name, "it has no known operation"));
    }
    let mut writer = Writer::new(graph, precision, seed);
    for index in 0..graph.layers.len() {
        layers::write(&mut writer, index)?;
    }
    writer.finish()
}

/// The values that [`to_onnx`] gives a parameter, before they are rounded to another precision, in
/// the order of its shape.
///
/// # Errors
/// [`GraphError::Write`] where the tensor is no parameter that a layer reads.
pub fn initial_values(graph: &Graph, tensor: usize, seed: u64) -> Result<Vec<f32>, GraphError> {
    let role = role(graph, tensor).ok_or_else(|| refused(&graph.name, "the parameter does not exist"))?;
    Ok(role.values(&graph.tensors[tensor], tensor, seed))
}

#[cfg(test)]
mod tests;

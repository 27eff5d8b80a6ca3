//! Fuses layers into steps.

use flopgap_flops::Activation;

use super::Memory;
use crate::error::GraphError;
use crate::graph::Graph;
use crate::op::{Elementwise, ElementwiseFunction, Norm, NormFunction, Op};
use crate::step::PlannedStep;

/// Extends the step of a product or convolution by the layers behind it.
pub(super) fn follow(graph: &Graph, memory: &Memory, step: &mut PlannedStep) -> Result<(), GraphError> {
    let first = step.layers[0];
    let place = || GraphError::count(&graph.layers[first].name);
    let elements = step.step.op.output_elements().map_err(place())?;
    let channels = step.step.op.channels();
    loop {
        let epilogue = step.step.epilogue;
        if let Some(composite) = activation_of(graph, memory, step.output)
            && epilogue.activation == Activation::Identity
        {
            step.step.epilogue.activation = composite.activation;
            step.layers.extend(composite.layers);
            step.output = composite.output;
            break;
        }
        let Some(reader) = memory.only_reader(step.output) else { break };
        let layer = &graph.layers[reader];
        let (Some(op), Some((output, more))) = (&layer.op, layer.outputs.split_first()) else { break };
        // Statistics and masks that an operator gives besides must not be asked for.
        if more.iter().any(|&other| memory.result[other] || !memory.readers[other].is_empty()) {
            break;
        }
        let others: Vec<usize> = layer
            .inputs
            .iter()
            .map(|&tensor| memory.root[tensor])
            .filter(|&root| root != step.output)
            .collect();
        match op {
            Op::Norm(Norm { function: NormFunction::BatchInference, rows, .. })
                if !epilogue.residual && Some(*rows) == channels =>
            {
                // The shift of the norm takes the place of the bias once the norm is folded into
                // the weights.
                step.step.epilogue.bias = true;
                step.bias = others.get(1).copied().or(step.bias);
            }
            Op::Elementwise(Elementwise {
                function: ElementwiseFunction::Add, elements: written, ..
            }) if *written == elements && others.len() == 1 && layer.inputs.len() == 2 => {
                let other = others[0];
                let size = graph.tensors[other].elements().map_err(place())?;
                if memory.constant[other] {
                    if epilogue.bias || epilogue.residual || Some(size) != channels {
                        break;
                    }
                    step.step.epilogue.bias = true;
                    step.bias = Some(other);
                } else {
                    let ready = memory.writer[other].is_none_or(|writer| writer < first);
                    if epilogue.residual || !ready || size != elements {
                        break;
                    }
                    step.step.epilogue.residual = true;
                    step.residual = Some(other);
                }
            }
            // Nothing else is added once it is there; an activation ends the step.
            Op::Elementwise(Elementwise { function, elements: written, .. })
                if *written == elements && others.iter().all(|&other| memory.constant[other]) =>
            {
                let Some(activation) = fused_activation(*function) else { break };
                step.step.epilogue.activation = activation;
                step.layers.push(reader);
                step.output = *output;
                break;
            }
            _ => break,
        }
        step.layers.push(reader);
        step.output = *output;
    }
    step.outputs = vec![step.output];
    Ok(())
}

/// What an engine makes of a function at the end of its kernel: a clamp costs what a `ReLU` does.
fn fused_activation(function: ElementwiseFunction) -> Option<Activation> {
    match function {
        ElementwiseFunction::Activation(activation) => Some(activation),
        ElementwiseFunction::Compare => Some(Activation::Relu),
        _ => None,
    }
}

/// An activation that a model composes from several layers.
struct Composite {
    activation: Activation,
    layers: Vec<usize>,
    output: usize,
}

/// The most layers that a spelled-out activation has; GELU by its tanh has nine.
const LONGEST: usize = 12;

/// The layers that together are an activation of what a root holds, if what reads it is such.
///
/// Grows the set of element-wise layers that depend on the root and on constants of one element
/// alone, in order, until nothing outside reads any result but the last.
fn activation_of(graph: &Graph, memory: &Memory, root: usize) -> Option<Composite> {
    let readers = &memory.readers[root];
    if readers.len() < 2 || memory.result[root] {
        return None;
    }
    let mut layers: Vec<usize> = Vec::new();
    let mut inside = vec![root];
    let mut next = *readers.iter().min()?;
    loop {
        let layer = graph.layers.get(next)?;
        let reads = |tensor: &usize| inside.contains(&memory.root[*tensor]);
        if !memory.vanishes[next] && layer.inputs.iter().any(reads) {
            let scalar = |tensor: &usize| {
                memory.constant[*tensor] && graph.tensors[*tensor].elements().is_ok_and(|count| count == 1)
            };
            let elementwise = matches!(layer.op, Some(Op::Elementwise(_)));
            let own = layer.inputs.iter().all(|tensor| reads(tensor) || scalar(tensor));
            let [output] = layer.outputs.as_slice() else { return None };
            if !elementwise || !own || layers.len() == LONGEST {
                return None;
            }
            layers.push(next);
            let closed = inside.iter().all(|&tensor| {
                !memory.result[tensor] && memory.readers[tensor].iter().all(|reader| layers.contains(reader))
            });
            if closed {
                return name(graph, memory, layers, *output);
            }
            inside.push(*output);
        }
        next += 1;
    }
}

/// The activation that a set of layers computes.
fn name(graph: &Graph, memory: &Memory, mut layers: Vec<usize>, mut output: usize) -> Option<Composite> {
    let function = |layer: usize| match &graph.layers[layer].op {
        Some(Op::Elementwise(elementwise)) => Some(elementwise.function),
        _ => None,
    };
    let scales = |layer: usize| {
        matches!(function(layer), Some(ElementwiseFunction::Mul | ElementwiseFunction::Div))
            && graph.layers[layer].inputs.iter().any(|&tensor| memory.constant[tensor])
    };
    let has = |activation| {
        layers.iter().any(|&layer| function(layer) == Some(ElementwiseFunction::Activation(activation)))
    };
    let error_function =
        layers.iter().any(|&layer| graph.layers[layer].operator.to_ascii_lowercase().contains("erf"));
    let (activation, factors) = if layers.len() == 2 && has(Activation::Sigmoid) {
        (Activation::Silu, 0)
    } else if error_function {
        (Activation::Gelu, 2)
    } else if layers.len() >= 5 && has(Activation::Tanh) {
        (Activation::GeluTanh, 3)
    } else {
        return None;
    };
    // The half may be multiplied last, behind what closed the set.
    if layers.iter().filter(|&&layer| scales(layer)).count() + 1 == factors
        && let Some(reader) = memory.only_reader(output).filter(|&reader| scales(reader))
        && let [last] = graph.layers[reader].outputs.as_slice()
    {
        layers.push(reader);
        output = *last;
    }
    let found = layers.iter().filter(|&&layer| scales(layer)).count();
    (found == factors).then_some(Composite { activation, layers, output })
}

/// Makes an element-wise step that begins a spelled-out activation the step of that activation.
pub(super) fn composite(graph: &Graph, memory: &Memory, step: &mut PlannedStep) -> Result<(), GraphError> {
    let index = step.layers[0];
    if !matches!(step.step.op, Op::Elementwise(_)) || memory.constant[step.input] {
        return Ok(());
    }
    let Some(found) = activation_of(graph, memory, step.input).filter(|found| found.layers[0] == index)
    else {
        return Ok(());
    };
    let elements =
        graph.tensors[step.input].elements().map_err(GraphError::count(&graph.layers[index].name))?;
    let function = ElementwiseFunction::Activation(found.activation);
    step.step.op = Op::Elementwise(Elementwise { function, elements, read: elements });
    step.operands = vec![step.input];
    step.layers = found.layers;
    step.output = found.output;
    step.outputs = vec![found.output];
    Ok(())
}

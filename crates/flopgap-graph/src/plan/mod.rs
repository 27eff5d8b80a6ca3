//! Layers to steps: what engines compute in one kernel.

mod fuse;
mod norms;

use crate::error::GraphError;
use crate::graph::Graph;
use crate::op::{Elementwise, ElementwiseFunction, Op};
use crate::step::{Epilogue, PlannedStep, Step};

/// The steps in which engines run a graph.
///
/// - A product or convolution takes in what follows it, as far as nothing else reads it: a batch
///   norm behind a convolution (folded into its weights), a bias, the sum with a tensor that was
///   computed before (a residual connection), and an activation.
/// - Views move nothing and are no steps; nor is what can be computed once, from parameters alone.
/// - Conversions between 8 bits and floats inside a graph are no steps: they mark what runs in 8
///   bits. Those of a graph's inputs and results are.
/// - `x sigmoid(x)` and the exponents of GELU spelled out are one activation; so is a layer norm or
///   RMS norm one norm.
/// - Everything else is a step of its own.
///
/// Layers without a formula are in no step; [`Graph::unknown`] lists them.
///
/// ```
/// use flopgap_graph::{ResnetSpec, Workload, plan};
///
/// let graph = Workload::Resnet(ResnetSpec { depth: 18, batch: 1, image: 224 }).graph()?;
/// let steps = plan(&graph)?;
/// // 20 convolutions, two pools, the fully connected layer.
/// assert_eq!(steps.len(), 23);
/// assert_eq!(steps[0].step.label(), "conv 1x3x224x224 64 of 7x7 stride 2x2 +bias +relu");
/// # Ok::<(), flopgap_graph::GraphError>(())
/// ```
///
/// # Errors
/// [`GraphError::Count`] where sizes overflow; [`GraphError::Workload`] for a graph whose layers
/// name tensors that it does not have.
pub fn plan(graph: &Graph) -> Result<Vec<PlannedStep>, GraphError> {
    for layer in &graph.layers {
        if let Some(index) =
            layer.inputs.iter().chain(&layer.outputs).find(|&&index| index >= graph.tensors.len())
        {
            return Err(GraphError::Workload {
                what: graph.name.clone(),
                reason: format!("layer `{}` names tensor {index}, of {}", layer.name, graph.tensors.len()),
            });
        }
    }
    let memory = Memory::of(graph);
    let mut taken = vec![false; graph.layers.len()];
    let mut steps = Vec::new();
    for (index, layer) in graph.layers.iter().enumerate() {
        let Some(op) = layer.op.as_ref().filter(|_| !memory.vanishes[index] && !taken[index]) else {
            continue;
        };
        let roots = |tensors: &[usize]| tensors.iter().map(|&tensor| memory.root[tensor]).collect::<Vec<_>>();
        let operands = roots(&layer.inputs);
        let outputs = roots(&layer.outputs);
        let (Some(&input), Some(&output)) = (operands.first(), outputs.first()) else { continue };
        let mut step = PlannedStep {
            step: Step { op: op.clone(), epilogue: Epilogue::default() },
            layers: vec![index],
            input,
            weights: None,
            bias: None,
            residual: None,
            operands,
            output,
            outputs,
        };
        if matches!(op, Op::Gemm(_) | Op::Conv(_)) {
            step.weights = step.operands.get(1).copied();
            if let Some(&third) = step.operands.get(2) {
                // What has an element for each of the result is a sum, as of `torch.addmm`;
                // anything smaller is spread like a bias.
                let size = graph.tensors[third].elements().map_err(GraphError::count(&layer.name))?;
                let whole = op.channels().is_some_and(|channels| size > channels);
                let place = if whole { &mut step.residual } else { &mut step.bias };
                *place = Some(third);
                step.step.epilogue.bias = !whole;
                step.step.epilogue.residual = whole;
            }
            step.operands.truncate(2);
            fuse::follow(graph, &memory, &mut step)?;
        } else if !norms::norm(graph, &memory, &mut step)? {
            fuse::composite(graph, &memory, &mut step)?;
        }
        for &layer in &step.layers {
            taken[layer] = true;
        }
        steps.push(step);
    }
    Ok(steps)
}

/// One step for each layer that computes or moves something: what a framework runs that calls the
/// operators of a model one after the other and fuses nothing.
///
/// ```
/// use flopgap_graph::{ResnetSpec, Workload, each_layer};
///
/// let graph = Workload::Resnet(ResnetSpec { depth: 18, batch: 1, image: 224 }).graph()?;
/// let steps = each_layer(&graph);
/// assert_eq!(steps[0].step.label(), "conv 1x3x224x224 64 of 7x7 stride 2x2 +bias");
/// assert_eq!(steps[1].step.label(), "relu 802816");
/// # Ok::<(), flopgap_graph::GraphError>(())
/// ```
pub fn each_layer(graph: &Graph) -> Vec<PlannedStep> {
    let layers = graph.layers.iter().enumerate();
    let computed = layers.filter_map(|(index, layer)| {
        let op = layer.op.as_ref().filter(|op| !matches!(op, Op::View))?;
        let is_product = matches!(op, Op::Gemm(_) | Op::Conv(_));
        let bias = is_product && layer.inputs.len() > 2;
        Some(PlannedStep {
            step: Step { op: op.clone(), epilogue: Epilogue { bias, ..Epilogue::default() } },
            layers: vec![index],
            // What an operator only writes, such as zeros, has no operand.
            input: layer.inputs.first().or(layer.outputs.first()).copied()?,
            weights: layer.inputs.get(1).copied().filter(|_| is_product),
            bias: layer.inputs.get(2).copied().filter(|_| is_product),
            residual: None,
            operands: layer.inputs.clone(),
            output: *layer.outputs.first()?,
            outputs: layer.outputs.clone(),
        })
    });
    computed.collect()
}

/// Where tensors lie, and who reads them.
struct Memory {
    /// The tensor whose memory each tensor is.
    root: Vec<usize>,
    /// Whether a tensor is the same in every run.
    constant: Vec<bool>,
    /// Whether a layer is no step.
    vanishes: Vec<bool>,
    /// The layers that read the memory of each root, and are or may become steps, each once.
    readers: Vec<Vec<usize>>,
    /// The layer that writes each root.
    writer: Vec<Option<usize>>,
    /// Whether a caller gets this root.
    result: Vec<bool>,
}

impl Memory {
    fn of(graph: &Graph) -> Memory {
        let count = graph.tensors.len();
        let mut memory = Memory {
            root: (0..count).collect(),
            constant: graph.tensors.iter().map(|tensor| tensor.parameter).collect(),
            vanishes: vec![false; graph.layers.len()],
            readers: vec![Vec::new(); count],
            writer: vec![None; count],
            result: vec![false; count],
        };
        for (index, layer) in graph.layers.iter().enumerate() {
            let constant =
                !layer.outputs.is_empty() && layer.inputs.iter().all(|&tensor| memory.constant[tensor]);
            let alias = match &layer.op {
                Some(Op::View) => true,
                Some(Op::Elementwise(Elementwise { function: ElementwiseFunction::Quantize, .. })) => {
                    let reads_input = layer
                        .inputs
                        .first()
                        .is_some_and(|&tensor| graph.inputs.contains(&memory.root[tensor]));
                    let writes_result = layer.outputs.iter().any(|tensor| graph.outputs.contains(tensor));
                    !reads_input && !writes_result
                }
                _ => false,
            };
            if constant || alias {
                memory.vanishes[index] = true;
                let source = layer.inputs.first().map(|&tensor| memory.root[tensor]);
                for &output in &layer.outputs {
                    memory.constant[output] = constant;
                    memory.root[output] = source.unwrap_or(output);
                }
                continue;
            }
            for &output in &layer.outputs {
                memory.writer[output] = Some(index);
            }
            for &tensor in &layer.inputs {
                let readers = &mut memory.readers[memory.root[tensor]];
                if readers.last() != Some(&index) {
                    readers.push(index);
                }
            }
        }
        for &output in &graph.outputs {
            if let Some(&root) = memory.root.get(output) {
                memory.result[root] = true;
            }
        }
        memory
    }

    /// The one layer that reads what a root holds, where nothing else does.
    fn only_reader(&self, root: usize) -> Option<usize> {
        match self.readers[root].as_slice() {
            [reader] if !self.result[root] => Some(*reader),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests;

//! Normalizations that a model spells out: exporters before operator set 17 have no layer norm, and
//! those before 23 no RMS norm.

use super::Memory;
use crate::error::GraphError;
use crate::graph::Graph;
use crate::op::{Elementwise, ElementwiseFunction, Norm, NormFunction, Op};
use crate::step::PlannedStep;

/// The most layers that such a norm has, gain and shift apart.
const LONGEST: usize = 9;
/// How far apart the first and the last may stand.
const FARTHEST: usize = 40;

/// Makes a step that begins a spelled-out norm the step of that norm: means over the last
/// dimensions, differences, squares, and the root that is divided by, which nothing else reads.
pub(super) fn norm(graph: &Graph, memory: &Memory, step: &mut PlannedStep) -> Result<bool, GraphError> {
    let first = step.layers[0];
    let begins = match &step.step.op {
        Op::Reduce { outputs, .. } => *outputs > 0,
        Op::Elementwise(op) => {
            op.function == ElementwiseFunction::Mul || op.function == ElementwiseFunction::Transcendental
        }
        _ => false,
    };
    if !begins || memory.constant[step.input] {
        return Ok(false);
    }
    let elements =
        graph.tensors[step.input].elements().map_err(GraphError::count(&graph.layers[first].name))?;
    let Some(mut found) = spelled(graph, memory, step.input, first, elements) else { return Ok(false) };
    found.scale_and_shift(graph, memory, elements);
    let Found { function, rows, layers, parameters, output } = found;
    step.step.op = Op::Norm(Norm { function, rows, columns: elements / rows, parameters });
    step.operands = vec![step.input];
    step.layers = layers;
    step.output = output;
    step.outputs = vec![output];
    Ok(true)
}

struct Found {
    function: NormFunction,
    rows: u64,
    layers: Vec<usize>,
    parameters: u64,
    output: usize,
}

/// The layers from the first to the division by the root.
fn spelled(graph: &Graph, memory: &Memory, root: usize, first: usize, elements: u64) -> Option<Found> {
    let mut layers: Vec<usize> = Vec::new();
    let mut written: Vec<usize> = Vec::new();
    let mut rows = None;
    for next in first..graph.layers.len().min(first + FARTHEST) {
        let layer = &graph.layers[next];
        let inside = |tensor: &usize| memory.root[*tensor] == root || written.contains(&memory.root[*tensor]);
        if memory.vanishes[next] || !layer.inputs.iter().any(inside) {
            continue;
        }
        let scalar = |tensor: &usize| {
            memory.constant[*tensor] && graph.tensors[*tensor].elements().is_ok_and(|count| count == 1)
        };
        let own = layer.inputs.iter().all(|tensor| inside(tensor) || scalar(tensor));
        match (&layer.op, layer.outputs.as_slice()) {
            (Some(Op::Reduce { inputs, outputs }), [_]) if own && *inputs == elements => {
                // All means are over the same dimensions.
                if rows.is_some_and(|rows| rows != *outputs) {
                    return None;
                }
                rows = Some(*outputs);
            }
            (Some(Op::Elementwise(_)), [_]) if own => {}
            // Something else reads the input, too, such as the sum around a block.
            _ if layer.inputs.iter().all(|tensor| !written.contains(&memory.root[*tensor])) => continue,
            _ => return None,
        }
        if layers.len() == LONGEST {
            return None;
        }
        layers.push(next);
        let output = layer.outputs[0];
        written.push(output);
        let closed = written.iter().all(|&tensor| {
            tensor == output
                || (!memory.result[tensor]
                    && memory.readers[tensor].iter().all(|reader| layers.contains(reader)))
        });
        let whole = graph.tensors[output].elements().is_ok_and(|count| count == elements);
        if let (true, true, Some(rows)) = (closed, whole, rows)
            && layers.len() >= 4
        {
            return name(graph, layers, rows, output, elements);
        }
    }
    None
}

/// The norm that a set of layers computes.
fn name(graph: &Graph, layers: Vec<usize>, rows: u64, output: usize, elements: u64) -> Option<Found> {
    let called = |part: &str| {
        layers
            .iter()
            .filter(|&&layer| graph.layers[layer].operator.to_ascii_lowercase().contains(part))
            .count()
    };
    let means =
        layers.iter().filter(|&&layer| matches!(graph.layers[layer].op, Some(Op::Reduce { .. }))).count();
    let function = match (means, called("sub"), called("sqrt")) {
        (2, 1.., 1) => NormFunction::Layer,
        (1, 0, 1) => NormFunction::Rms,
        _ => return None,
    };
    (rows > 0 && elements.is_multiple_of(rows)).then_some(Found {
        function,
        rows,
        layers,
        parameters: 0,
        output,
    })
}

impl Found {
    /// Takes in the gain and the shift behind it: vectors as long as a row.
    fn scale_and_shift(&mut self, graph: &Graph, memory: &Memory, elements: u64) {
        let columns = elements / self.rows;
        for wanted in [ElementwiseFunction::Mul, ElementwiseFunction::Add] {
            let Some(reader) = memory.only_reader(self.output) else { return };
            let layer = &graph.layers[reader];
            let (Some(Op::Elementwise(Elementwise { function, .. })), [output]) =
                (&layer.op, layer.outputs.as_slice())
            else {
                return;
            };
            let vector = |tensor: &usize| {
                memory.constant[*tensor]
                    && graph.tensors[*tensor].elements().is_ok_and(|count| count == columns)
            };
            if *function != wanted || !layer.inputs.iter().any(vector) {
                return;
            }
            self.layers.push(reader);
            self.parameters += columns;
            self.output = *output;
        }
    }
}

//! Which arrays a workload has and which steps use them, before anything is allocated.

use std::collections::HashMap;

use flopgap_graph::op::Gemm;
use flopgap_graph::{Graph, Op, PlannedStep, Step};

use super::kernel::{Array, Arrays, Kernel, Operand};

/// All operands, in the order of [`DraftStep::values`].
pub(super) const OPERANDS: [Operand; 5] =
    [Operand::Input, Operand::Weights, Operand::Bias, Operand::Residual, Operand::Output];

/// An array that steps share.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Value {
    /// Bytes of the largest use.
    pub(super) bytes: usize,
    /// Whether it belongs to the model.
    pub(super) parameter: bool,
    /// The first and last step that need it.
    pub(super) lifetime: [usize; 2],
    /// What it begins with, where no step writes it.
    pub(super) filling: Option<Array>,
}

/// A step and the values it uses, by their indexes.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct DraftStep {
    pub(super) step: Step,
    pub(super) values: [Option<usize>; 5],
}

/// Arrays and steps.
#[derive(Debug, Default)]
pub(super) struct Draft {
    pub(super) values: Vec<Value>,
    pub(super) steps: Vec<DraftStep>,
    /// Whether values flow as in the model. Where they do not, each step is checked on operands of its own.
    pub(super) flows: bool,
}

impl Draft {
    fn value(&mut self, parameter: bool, lifetime: [usize; 2]) -> usize {
        self.values.push(Value { bytes: 0, parameter, lifetime, filling: None });
        self.values.len() - 1
    }

    /// A step uses a value so.
    fn touch(&mut self, value: usize, array: Array, fill: bool) {
        let value = &mut self.values[value];
        value.bytes = value.bytes.max(array.bytes());
        if fill && value.filling.is_none_or(|filling| filling.bytes() < array.bytes()) {
            value.filling = Some(array);
        }
    }

    /// The steps of a graph: tensors are shared as the graph says, and live from the step that writes them to the last that reads them. What
    /// goes into the graph, and what comes out, lives all the time: it is the caller's.
    pub(super) fn of_graph(graph: &Graph, planned: &[PlannedStep], kernels: &[Box<dyn Kernel>]) -> Self {
        let mut draft = Draft { flows: true, ..Draft::default() };
        let end = planned.len().saturating_sub(1);
        let written: HashMap<usize, usize> =
            planned.iter().enumerate().map(|(index, step)| (step.output, index)).collect();
        let mut values: HashMap<usize, usize> = HashMap::new();
        for (index, (planned, kernel)) in planned.iter().zip(kernels).enumerate() {
            let second = |tensor: Option<usize>, place| tensor.or(planned.operands.get(place).copied());
            let tensors = [
                Some(planned.input),
                second(planned.weights, 1),
                second(planned.bias, 2),
                planned.residual,
                Some(planned.output),
            ];
            let mut step = DraftStep { step: planned.step.clone(), values: [None; 5] };
            for (place, operand) in OPERANDS.into_iter().enumerate() {
                let Some(array) = kernel.arrays().get(operand) else { continue };
                let value = match tensors[place] {
                    Some(tensor) => *values.entry(tensor).or_insert_with(|| {
                        let parameter = graph.tensors.get(tensor).is_some_and(|tensor| tensor.parameter);
                        let begin = written.get(&tensor).copied();
                        // What no step writes is there before the first, and must be there again in the next run.
                        let whole = begin.is_none() || graph.outputs.contains(&tensor);
                        let begin = begin.unwrap_or(0);
                        draft.value(
                            parameter && !written.contains_key(&tensor),
                            if whole { [0, end] } else { [begin; 2] },
                        )
                    }),
                    // An operand that the graph does not name, such as the shift of a norm that has none.
                    None => draft.value(true, [0, end]),
                };
                let is_written = tensors[place].is_some_and(|tensor| written.contains_key(&tensor));
                draft.touch(value, array, !is_written);
                let lifetime = &mut draft.values[value].lifetime;
                lifetime[1] = lifetime[1].max(index);
                step.values[place] = Some(value);
            }
            draft.steps.push(step);
        }
        draft
    }

    /// Steps without what flows between them, as those of a file: each reads what the one before it wrote last, and other activations from an array
    /// that all share. Weights are each step's own.
    pub(super) fn of_steps(steps: &[Step], kernels: &[Box<dyn Kernel>]) -> Self {
        let mut draft = Draft::default();
        let end = steps.len().saturating_sub(1);
        let turns = [draft.value(false, [0, end]), draft.value(false, [0, end])];
        let others = draft.value(false, [0, end]);
        for (index, (step, kernel)) in steps.iter().zip(kernels).enumerate() {
            let arrays = kernel.arrays();
            let mut drafted = DraftStep { step: step.clone(), values: [None; 5] };
            for (place, operand) in OPERANDS.into_iter().enumerate() {
                let Some(array) = arrays.get(operand) else { continue };
                let value = match operand {
                    Operand::Input => turns[index % 2],
                    Operand::Output => turns[(index + 1) % 2],
                    Operand::Residual => others,
                    Operand::Weights if second_is_activation(&step.op, arrays) => others,
                    Operand::Bias | Operand::Weights => draft.value(true, [0, end]),
                };
                draft.touch(value, array, operand != Operand::Output);
                drafted.values[place] = Some(value);
            }
            draft.steps.push(drafted);
        }
        draft
    }

    /// Bytes of all parameters, and where each value begins among the parameters or the activations, and bytes of the activations.
    pub(super) fn place(&self) -> (Vec<usize>, [usize; 2]) {
        use super::arena::{ALIGNMENT, Lifetime, place};
        let lifetimes: Vec<Lifetime> = self
            .values
            .iter()
            .map(|value| Lifetime {
                bytes: if value.parameter { 0 } else { value.bytes },
                first: value.lifetime[0],
                last: value.lifetime[1],
            })
            .collect();
        let (mut starts, activations) = place(&lifetimes);
        let mut parameters = 0;
        for (value, start) in self.values.iter().zip(&mut starts) {
            if value.parameter {
                *start = parameters;
                parameters += value.bytes.next_multiple_of(ALIGNMENT);
            }
        }
        (starts, [parameters, activations])
    }
}

/// Whether the second operand is computed, not stored with the model.
fn second_is_activation(op: &Op, arrays: &Arrays) -> bool {
    match op {
        Op::Gemm(Gemm { batch, .. }) => *batch > 1,
        Op::Attention(_) => true,
        Op::Elementwise(_) => arrays.weights.map(|second| second.elements) == Some(arrays.output.elements),
        _ => false,
    }
}

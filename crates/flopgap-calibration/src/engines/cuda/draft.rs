//! The arrays of a workload and the steps that use them, before allocation.

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
    /// Its initial contents, if no step writes it.
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
    /// Whether values flow as in the model. Where they do not, each step is checked on operands of
    /// its own.
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

    /// The steps of a graph: tensors are shared as the graph says, and live from the step that
    /// writes them to the last that reads them. What goes into the graph, and what comes out, lives
    /// all the time: it is the caller's.
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
                        // What no step writes is there before the first, and must be there again in
                        // the next run.
                        let whole = begin.is_none() || graph.outputs.contains(&tensor);
                        let begin = begin.unwrap_or(0);
                        draft.value(
                            parameter && !written.contains_key(&tensor),
                            if whole { [0, end] } else { [begin; 2] },
                        )
                    }),
                    // An operand that the graph does not name, such as the shift of a norm that has
                    // none.
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

    /// Steps without what flows between them, as those of a file: each reads what the one before it
    /// wrote last, and other activations from an array that all share. Weights are each step's own.
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

    /// Bytes of all parameters, and where each value begins among the parameters or the
    /// activations, and bytes of the activations.
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

#[cfg(test)]
mod tests {
    use flopgap_flops::Activation;
    use flopgap_gpu::Stream;
    use flopgap_graph::{Algorithm, MlpSpec, ResnetSpec, Workload, plan};

    use super::super::kernel::{Addresses, Filling, Memory, Numbers, Sample};
    use super::*;
    use crate::engines::error::EngineError;

    /// Has arrays, and computes nothing.
    struct Sizes(Arrays);

    impl Kernel for Sizes {
        fn arrays(&self) -> &Arrays {
            &self.0
        }

        fn algorithm(&self) -> Algorithm {
            Algorithm::default()
        }

        #[expect(unsafe_code, reason = "the trait's")]
        unsafe fn queue(&self, _: &Stream, _: &Addresses) -> Result<(), EngineError> {
            Ok(())
        }

        fn samples(&self, _: &dyn Memory, _: u64) -> Result<Vec<Sample>, EngineError> {
            Ok(Vec::new())
        }

        fn bound(&self) -> f64 {
            0.0
        }
    }

    fn drafted(workload: &Workload) -> (Graph, Draft) {
        let graph = workload.graph().unwrap();
        let planned = plan(&graph).unwrap();
        let array = |tensor: usize| Array {
            elements: usize::try_from(graph.tensors[tensor].shape.iter().product::<u64>()).unwrap(),
            numbers: Numbers::F16,
            filling: Filling { center: 0.0, width: 1.0 },
        };
        let sizes = |step: &PlannedStep| Arrays {
            input: array(step.input),
            weights: step.weights.map(array),
            bias: step.bias.map(array),
            residual: step.residual.map(array),
            output: array(step.output),
        };
        let kernels: Vec<Box<dyn Kernel>> =
            planned.iter().map(|step| Box::new(Sizes(sizes(step))) as Box<dyn Kernel>).collect();
        let draft = Draft::of_graph(&graph, &planned, &kernels);
        (graph, draft)
    }

    /// The bytes of a value in its allocation.
    fn span(draft: &Draft, starts: &[usize], value: usize) -> (bool, std::ops::Range<usize>) {
        let Value { bytes, parameter, .. } = draft.values[value];
        (parameter, starts[value]..starts[value] + bytes)
    }

    #[test]
    fn no_step_writes_over_what_it_or_a_later_step_reads() {
        for workload in [
            Workload::Resnet(ResnetSpec { depth: 18, batch: 2, image: 64 }),
            Workload::Resnet(ResnetSpec { depth: 50, batch: 1, image: 64 }),
            Workload::Mlp(MlpSpec {
                input: 100,
                hidden: vec![64, 64, 32],
                output: 10,
                batch: 16,
                activation: Activation::Relu,
            }),
        ] {
            let (_, draft) = drafted(&workload);
            let (starts, _) = draft.place();
            // Which value each byte of the activations holds, by spans: what a step reads must be
            // what was written or filled there last.
            let mut held: Vec<(usize, std::ops::Range<usize>)> = Vec::new();
            let write = |held: &mut Vec<(usize, std::ops::Range<usize>)>, value: usize| {
                let (_, span) = span(&draft, &starts, value);
                held.retain(|(_, other)| other.end <= span.start || span.end <= other.start);
                held.push((value, span));
            };
            for (value, filled) in draft.values.iter().enumerate() {
                if filled.filling.is_some() && !filled.parameter {
                    write(&mut held, value);
                }
            }
            // Twice: what goes in must still be there in the second run.
            for _ in 0..2 {
                for step in &draft.steps {
                    for value in step.values[..4].iter().flatten() {
                        let parameter = draft.values[*value].parameter;
                        assert!(parameter || held.iter().any(|(other, _)| other == value), "{step:?}");
                    }
                    write(&mut held, step.values[4].unwrap());
                }
            }
        }
    }

    #[test]
    fn memory_is_parameters_and_what_is_alive_at_a_time() {
        let spec = MlpSpec {
            input: 1024,
            hidden: vec![512, 512, 512],
            output: 256,
            batch: 64,
            activation: Activation::Relu,
        };
        let (graph, draft) = drafted(&Workload::Mlp(spec));
        let (_, [parameters, activations]) = draft.place();
        // Sizes are multiples of 256 bytes: nothing is lost to alignment.
        assert_eq!(parameters as u64, graph.parameters().unwrap() * 2);
        // The input, two hidden layers, and the result, which is the caller's.
        assert_eq!(activations, 64 * (1024 + 512 + 512 + 256) * 2);
        assert!(draft.flows);
    }

    #[test]
    fn steps_of_a_file_read_what_was_written_last() {
        use flopgap_graph::Epilogue;
        let step = |n, k| Step { op: Op::Gemm(Gemm { batch: 1, m: 4, n, k }), epilogue: Epilogue::default() };
        let array = |elements| Array {
            elements,
            numbers: Numbers::F32,
            filling: Filling { center: 0.0, width: 1.0 },
        };
        let sizes = |n: usize, k: usize| {
            Box::new(Sizes(Arrays {
                input: array(4 * k),
                weights: Some(array(n * k)),
                bias: None,
                residual: None,
                output: array(4 * n),
            })) as Box<dyn Kernel>
        };
        let draft = Draft::of_steps(&[step(32, 8), step(16, 32)], &[sizes(32, 8), sizes(16, 32)]);
        let values = |index: usize| draft.steps[index].values;
        assert_eq!(values(0)[4], values(1)[0], "the result of the first is what the second reads");
        assert_ne!(values(0)[1], values(1)[1], "weights are each step's own");
        assert_eq!(draft.values[values(1)[0].unwrap()].bytes, 4 * 32 * 4);
        assert!(!draft.flows);
    }
}

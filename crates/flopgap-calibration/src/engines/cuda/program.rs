//! A workload on the device: its arrays and the kernels of its steps, queued in order.

use crate::Check;
use flopgap_flops::Precision;
use flopgap_gpu::{Buffer, Stream, Submission};
use flopgap_graph::{Algorithm, GraphError, Step, Workload, plan};

use crate::engines::error::EngineError;

use super::choice;
use super::draft::{Draft, OPERANDS};
use super::kernel::{Addresses, Array, Kernel, Memory, Numbers, Operand, Sample};
use super::launched;
use super::tools::{NAME, Tools};

/// The seed of parameters, inputs and samples, the same in every session.
const SEED: u64 = 0x5eed;

/// The byte that unwritten arrays are filled with: NaN as a float.
const POISON: u8 = 0xff;

/// The allocations of a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Region {
    Parameters,
    Activations,
}

/// An array in one of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Location {
    region: Region,
    start: usize,
}

struct Placed {
    kernel: Box<dyn Kernel>,
    places: [Option<Location>; 5],
    addresses: Addresses,
}

/// A workload on the device.
pub(super) struct Program {
    stream: Stream,
    parameters: Buffer<u8>,
    activations: Buffer<u8>,
    workspace: Buffer<u8>,
    placed: Vec<Placed>,
    /// Initial contents of arrays that no step writes.
    fillings: Vec<(Location, Array)>,
    /// Whether values flow as in the model.
    flows: bool,
    label: String,
}

/// The steps that a workload runs in.
///
/// # Errors
/// Sizes that are none.
pub(super) fn steps(workload: &Workload) -> Result<Vec<Step>, EngineError> {
    workload.steps().map_err(|error| refused(workload, &error))
}

fn refused(workload: &Workload, error: &GraphError) -> EngineError {
    EngineError::Unsupported {
        engine: NAME,
        what: workload.label(),
        reason: flopgap_files::chain(error).to_string(),
    }
}

impl Program {
    /// Chooses kernels, allocates and fills.
    ///
    /// # Errors
    /// [`EngineError::Unsupported`] for a step that nothing computes; [`EngineError::Memory`]; the
    /// libraries'.
    pub(super) fn new(tools: &Tools, workload: &Workload, precision: Precision) -> Result<Self, EngineError> {
        let kernel = |step: &Step| choice::kernel(tools, step, precision);
        let (draft, kernels) = match workload {
            Workload::Mlp(_) | Workload::Resnet(_) => {
                let graph = workload.graph().map_err(|error| refused(workload, &error))?;
                let planned = plan(&graph).map_err(|error| refused(workload, &error))?;
                let kernels: Vec<_> =
                    planned.iter().map(|step| kernel(&step.step)).collect::<Result<_, _>>()?;
                (Draft::of_graph(&graph, &planned, &kernels), kernels)
            }
            Workload::Step(_) | Workload::File(_) => {
                let steps = steps(workload)?;
                let kernels: Vec<_> = steps.iter().map(kernel).collect::<Result<_, _>>()?;
                (Draft::of_steps(&steps, &kernels), kernels)
            }
        };
        Self::allocate(tools, &draft, kernels, workload.label(), precision)
    }

    fn allocate(
        tools: &Tools,
        draft: &Draft,
        kernels: Vec<Box<dyn Kernel>>,
        label: String,
        precision: Precision,
    ) -> Result<Self, EngineError> {
        let (starts, [parameter_bytes, activation_bytes]) = draft.place();
        let workspace_bytes = kernels.iter().map(|kernel| kernel.workspace()).max().unwrap_or(0);
        let needed = [parameter_bytes, activation_bytes, workspace_bytes].map(|bytes| bytes as u64);
        let needed = needed.into_iter().fold(0_u64, u64::saturating_add);
        let free = tools.context.memory()?.free;
        if needed > free {
            return Err(EngineError::Memory { what: label, needed, free });
        }
        let stream = tools.stream.clone();
        let mut parameters = stream.zeros::<u8>(parameter_bytes)?;
        let mut activations = stream.zeros::<u8>(activation_bytes)?;
        let mut workspace = stream.zeros::<u8>(workspace_bytes)?;
        let bases = {
            let submission = stream.submission();
            [
                submission.write(&mut parameters)?,
                submission.write(&mut activations)?,
                submission.write(&mut workspace)?,
            ]
        };
        let place = |value: usize| {
            let region = if draft.values[value].parameter { Region::Parameters } else { Region::Activations };
            Location { region, start: starts[value] }
        };
        let address = |value: Option<usize>| {
            value.map_or(0, |value| {
                let place = place(value);
                let base = if place.region == Region::Parameters { bases[0] } else { bases[1] };
                base + place.start as u64
            })
        };
        let placed = draft.steps.iter().zip(kernels).map(|(step, kernel)| {
            let [input, weights, bias, residual, output] = step.values.map(address);
            let workspace = bases[2];
            let addresses = Addresses { input, weights, bias, residual, output, workspace };
            Placed { kernel, places: step.values.map(|value| value.map(place)), addresses }
        });
        let placed: Vec<Placed> = placed.collect();
        let fillings = draft
            .values
            .iter()
            .enumerate()
            .filter_map(|(index, value)| Some((place(index), value.filling?)))
            .collect();
        let flows = draft.flows;
        let mut program =
            Program { stream, parameters, activations, workspace, placed, fillings, flows, label };
        let numbers = Numbers::of(precision);
        for index in 0..program.fillings.len() {
            let (place, array) = program.fillings[index];
            program.fill(tools, numbers, place, array, index as u64)?;
        }
        Ok(program)
    }

    /// Steps.
    pub(super) fn len(&self) -> usize {
        self.placed.len()
    }

    /// Whether values flow as in the model.
    pub(super) fn flows(&self) -> bool {
        self.flows
    }

    /// Bytes that are allocated.
    pub(super) fn bytes(&self) -> u64 {
        (self.parameters.len() + self.activations.len() + self.workspace.len()) as u64
    }

    /// How each step is computed: what the library says of its choice, and the kernels that it
    /// launches.
    pub(super) fn algorithms(&mut self, tools: &Tools) -> Vec<Algorithm> {
        (0..self.placed.len())
            .map(|index| {
                let mut algorithm = self.placed[index].kernel.algorithm();
                // Where the step cannot be captured or the driver does not tell, the library's word
                // is all there is.
                let stream = self.stream.clone();
                if let Ok(graph) = stream.capture(|| self.queue(index..index + 1))
                    && let Ok(kernels) = graph.kernels()
                {
                    launched::add(&mut algorithm, &kernels, tools.context.device().multiprocessors);
                }
                algorithm
            })
            .collect()
    }

    fn fill(
        &mut self,
        tools: &Tools,
        numbers: Numbers,
        place: Location,
        array: Array,
        stream_of_numbers: u64,
    ) -> Result<(), EngineError> {
        let own = tools.own(numbers)?;
        let stream = self.stream.clone();
        let submission = stream.submission();
        let base = match place.region {
            Region::Parameters => submission.write(&mut self.parameters)?,
            Region::Activations => submission.write(&mut self.activations)?,
        };
        let seed = SEED.wrapping_add(stream_of_numbers.wrapping_mul(0x2545_f491_4f6c_dd1d));
        let (address, elements) = (base + place.start as u64, (array.elements, array.numbers));
        // SAFETY: the place was made for an array of at least as many bytes; its memory is entered
        // above.
        #[expect(unsafe_code, reason = "fills memory by address")]
        unsafe {
            own.fill(&stream, address, elements, array.filling, seed)
        }
    }

    /// Says that all memory is used by what is queued until the submission is dropped.
    fn enter<'s>(&mut self, stream: &'s Stream) -> Result<Submission<'s>, EngineError> {
        let submission = stream.submission();
        submission.read(&self.parameters)?;
        submission.write(&mut self.activations)?;
        submission.write(&mut self.workspace)?;
        Ok(submission)
    }

    /// Queues all steps.
    ///
    /// # Errors
    /// The libraries', the driver's.
    pub(super) fn run(&mut self) -> Result<(), EngineError> {
        self.queue(0..self.placed.len())
    }

    fn queue(&mut self, steps: std::ops::Range<usize>) -> Result<(), EngineError> {
        let stream = self.stream.clone();
        let _entered = self.enter(&stream)?;
        for placed in &self.placed[steps] {
            // SAFETY: arrays and workspace were placed for this kernel, values that are needed
            // together apart from each other; their memory is entered above, and owned by a graph
            // that is captured.
            #[expect(unsafe_code, reason = "queues kernels by address")]
            unsafe {
                placed.kernel.queue(&stream, &placed.addresses)?;
            }
        }
        Ok(())
    }

    /// Runs step by step, each compared with 64-bit arithmetic on the operands that it read. The
    /// step that is nearest to its bound, or farthest beyond, stands for all.
    ///
    /// # Errors
    /// The libraries', the driver's.
    pub(super) fn check(&mut self, tools: &Tools, numbers: Numbers) -> Result<Check, EngineError> {
        let stream = self.stream.clone();
        stream.fill(&mut self.activations, POISON)?;
        stream.fill(&mut self.workspace, POISON)?;
        for index in 0..self.fillings.len() {
            let (place, array) = self.fillings[index];
            if place.region == Region::Activations {
                self.fill(tools, numbers, place, array, index as u64)?;
            }
        }
        let mut worst: Option<(f64, f64)> = None;
        let mut compared = 0;
        for index in 0..self.placed.len() {
            if !self.flows {
                self.renew(tools, numbers, index)?;
            }
            self.queue(index..index + 1)?;
            stream.synchronize()?;
            let Placed { kernel, .. } = &self.placed[index];
            let samples = kernel.samples(&Reader { program: self, index }, SEED ^ index as u64)?;
            if samples.is_empty() {
                continue;
            }
            compared += samples.len();
            let (error, bound) = (error_of(&samples), kernel.bound());
            // NaN is the worst error of all.
            let share =
                |(error, bound): (f64, f64)| if error.is_nan() { f64::INFINITY } else { error / bound };
            if worst.is_none_or(|worst| share((error, bound)) > share(worst)) {
                worst = Some((error, bound));
            }
        }
        let (error, bound) = worst.unwrap_or((0.0, 0.0));
        let reference = match (compared, self.placed.len()) {
            (0, _) => "nothing is computed".to_owned(),
            (count, 1) => format!("fp64 of the same operands, {count} outputs"),
            (count, steps) => {
                format!("fp64 of the same operands, step by step, {count} outputs of {steps} steps")
            }
        };
        Ok(Check { reference, error, bound })
    }

    /// New activations for a step whose operands do not come from the steps before it.
    fn renew(&mut self, tools: &Tools, numbers: Numbers, index: usize) -> Result<(), EngineError> {
        for (position, operand) in OPERANDS.into_iter().enumerate() {
            if operand == Operand::Output {
                continue;
            }
            let (array, place) =
                (self.placed[index].kernel.arrays().get(operand), self.placed[index].places[position]);
            if let (Some(array), Some(place @ Location { region: Region::Activations, .. })) = (array, place)
            {
                self.fill(tools, numbers, place, array, (index * OPERANDS.len() + position) as u64)?;
            }
        }
        Ok(())
    }

    /// The workload in a message.
    pub(super) fn label(&self) -> &str {
        &self.label
    }
}

/// Reads the arrays of a step.
struct Reader<'p> {
    program: &'p Program,
    index: usize,
}

impl Memory for Reader<'_> {
    fn read(&self, operand: Operand, start: usize, length: usize) -> Result<Vec<f64>, EngineError> {
        let Placed { kernel, places, .. } = &self.program.placed[self.index];
        let position = OPERANDS.iter().position(|&other| other == operand);
        let place = position.and_then(|position| places[position]);
        let (Some(array), Some(place)) = (kernel.arrays().get(operand), place) else {
            return Err(self.outside(operand, start, length, 0));
        };
        if start.checked_add(length).is_none_or(|end| end > array.elements) {
            return Err(self.outside(operand, start, length, array.elements));
        }
        let buffer = match place.region {
            Region::Parameters => &self.program.parameters,
            Region::Activations => &self.program.activations,
        };
        let begin = place.start + start * array.numbers.bytes();
        let bytes = buffer.slice(begin..begin + length * array.numbers.bytes());
        Ok(array.numbers.decode(&self.program.stream.download(&bytes)?))
    }
}

impl Reader<'_> {
    fn outside(&self, operand: Operand, start: usize, length: usize, elements: usize) -> EngineError {
        EngineError::Failed {
            action: format!("check step {} of {}", self.index, self.program.label()),
            message: format!("{operand:?} {start}..{} of {elements} elements", start.saturating_add(length)),
        }
    }
}

/// The largest difference over the largest magnitude; NaN where a difference is none.
fn error_of(samples: &[Sample]) -> f64 {
    let magnitude =
        samples.iter().map(|sample| sample.expected.abs().max(sample.magnitude)).fold(0.0, f64::max);
    let mut most = 0.0_f64;
    for sample in samples {
        let difference = (sample.found - sample.expected).abs();
        if difference.is_nan() {
            return f64::NAN;
        }
        most = most.max(difference);
    }
    if most == 0.0 { 0.0 } else { most / magnitude }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_relative_to_the_largest_magnitude() {
        let sample = |found, expected, magnitude| Sample { found, expected, magnitude };
        assert!((error_of(&[sample(1.0, 2.0, 0.0), sample(4.0, 4.0, 0.0)]) - 0.25).abs() < 1e-12);
        assert!(
            (error_of(&[sample(0.5, 0.0, 2.0)]) - 0.25).abs() < 1e-12,
            "what cancels is held against its terms"
        );
        assert!(error_of(&[sample(f64::NAN, 1.0, 1.0)]).is_nan());
        assert!(error_of(&[sample(0.0, 0.0, 0.0)]) == 0.0);
        assert!(error_of(&[sample(1.0, 0.0, 0.0)]).is_infinite());
    }
}

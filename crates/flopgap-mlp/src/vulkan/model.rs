//! A network with its parameters on a device.

use std::marker::PhantomData;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use ash::vk;
use flopgap_gpu::timing::{Repetitions, Samples};
use half::f16;

use super::batch::Batch;
use super::coopvec::Functions;
use super::device::Device;
use super::error::VulkanError;
use super::memory::Buffer;
use super::pipeline::{Call, Interface, Pipeline, Shader};
use super::plan::{Chain, KEEP, Plan, SUMMING};
use super::shape::Layer;
use crate::cuda::Implementation;
use crate::{Element, MlpError, Network, Parameters, Precision};

/// What is computed of a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pass {
    /// Outputs.
    Forward,
    /// Outputs, and what a backward pass needs.
    ForwardTrain,
    /// Gradients by inputs, weights and biases.
    Backward,
    /// [`Pass::ForwardTrain`], then [`Pass::Backward`].
    Train,
}

/// A network on a Vulkan device, with numbers stored as `T`: [`f32`] or [`half::f16`].
///
/// Every call waits until the device is done.
pub struct Model<T> {
    pub(super) device: Device,
    pub(super) plan: Arc<Plan>,
    pub(super) layers: Buffer,
    pub(super) weights: Buffer,
    pub(super) biases: Buffer,
    pub(super) transposed: Buffer,
    /// Which it is of all in the program.
    pub(super) number: u64,
    interface: Interface,
    forward: Pipeline,
    forward_train: Pipeline,
    backward: Pipeline,
    gradients: Pipeline,
    reduce: Pipeline,
    numbers: PhantomData<T>,
}

/// Weights and biases as shaders read them.
struct Packed {
    layers: Vec<Layer>,
    weights: Vec<u8>,
    biases: Vec<u8>,
    transposed: Vec<u8>,
}

impl<T: Element> Model<T> {
    /// Makes the pipelines. The parameters are zero until [`Model::upload`].
    ///
    /// # Errors
    /// [`MlpError::Unsupported`] where the device has no such numbers, vectors or matrices, or its
    /// driver does not compile vectors that long, with the alternative; the driver's.
    pub fn new(device: &Device, network: &Network, implementation: Implementation) -> Result<Self, MlpError> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let plan = Plan::new(device, network, T::PRECISION, implementation)?;
        let interface = Interface::new(device)?;
        let cooperative = |shader| {
            matches!(shader, Shader::CoopmatForward | Shader::CoopmatBackward | Shader::GradientsCoopmat)
        };
        let pipeline = |shader: Shader, constants: &[u32]| {
            let made = Pipeline::new(&interface, shader, T::PRECISION, constants, cooperative(shader));
            made.map_err(|error| plan.refused_by_driver(device, T::PRECISION, error))
        };
        let chain = |chain: &Chain| pipeline(chain.shader, &chain.constants);
        let (forward, backward) = (chain(&plan.forward)?, chain(&plan.backward)?);
        let mut keeping = plan.forward.clone();
        keeping.constants[KEEP] = 1;
        let forward_train = chain(&keeping)?;
        let gradients = pipeline(plan.gradients.shader, &plan.gradients.constants)?;
        let reduce = pipeline(Shader::Reduce, &[0, 0, 0, SUMMING, 0])?;
        let zero = Parameters::from_values(network, vec![0.0; network.parameters()])?;
        let packed = pack::<T>(&plan, device, &zero)?;
        Ok(Model {
            layers: Buffer::of(device, &bytes_of_layers(&packed.layers))?,
            weights: Buffer::of(device, &packed.weights)?,
            biases: Buffer::of(device, &packed.biases)?,
            transposed: Buffer::of(device, &packed.transposed)?,
            number: NEXT.fetch_add(1, Ordering::Relaxed),
            device: device.clone(),
            plan: Arc::new(plan),
            interface,
            forward,
            forward_train,
            backward,
            gradients,
            reduce,
            numbers: PhantomData,
        })
    }

    /// The network.
    pub fn network(&self) -> &Network {
        &self.plan.shape.network
    }

    /// How it is computed; instead of [`Implementation::Auto`], what that stands for.
    pub fn implementation(&self) -> Implementation {
        self.plan.implementation
    }

    /// Takes parameters, rounded to `T`.
    ///
    /// # Errors
    /// [`MlpError::Length`] or [`MlpError::OtherNetwork`] when they are of another network;
    /// [`MlpError::NotFinite`] when one is beyond the range of `T`; the driver's.
    pub fn upload(&mut self, parameters: &Parameters) -> Result<(), MlpError> {
        parameters.check_widths(self.network())?;
        let rounded = Parameters::from_values(self.network(), parameters.rounded::<T>().values().to_vec())?;
        let packed = pack::<T>(&self.plan, &self.device, &rounded)?;
        self.weights.write(&packed.weights)?;
        self.biases.write(&packed.biases)?;
        Ok(self.transposed.write(&packed.transposed)?)
    }

    /// Arrays for batches of so many samples, with those of backward passes if they are wanted.
    ///
    /// # Errors
    /// [`MlpError::Batch`] of no samples, or of more than a shader can address; when there is not
    /// enough memory.
    pub fn batch(&self, samples: usize, training: bool) -> Result<Batch<T>, MlpError> {
        Batch::new(self, samples, training)
    }

    /// Computes the outputs.
    ///
    /// # Errors
    /// [`MlpError::Tape`] for a batch of another model; the driver's.
    pub fn forward(&self, batch: &mut Batch<T>) -> Result<(), MlpError> {
        self.run(batch, Pass::Forward)
    }

    /// The same, and keeps what [`Model::backward`] needs.
    ///
    /// # Errors
    /// As [`Model::forward`]; [`MlpError::Order`] for a batch without training passes.
    pub fn forward_train(&self, batch: &mut Batch<T>) -> Result<(), MlpError> {
        self.run(batch, Pass::ForwardTrain)
    }

    /// Computes the gradients by the inputs and the parameters, given those by the outputs.
    ///
    /// # Errors
    /// As [`Model::forward_train`]; [`MlpError::Order`] before a [`Model::forward_train`] of these
    /// inputs.
    pub fn backward(&self, batch: &mut Batch<T>) -> Result<(), MlpError> {
        self.run(batch, Pass::Backward)
    }

    /// Runs a pass.
    ///
    /// # Errors
    /// As [`Model::backward`].
    pub fn run(&self, batch: &mut Batch<T>, pass: Pass) -> Result<(), MlpError> {
        self.check(batch, pass)?;
        self.device.submit(|logical, commands| self.record(logical, commands, batch, pass, 1))?;
        Self::done(batch, pass);
        Ok(())
    }

    /// Times a pass by the device's clock. `repeats` passes are recorded one after the other
    /// between two of its times, and each measurement is their mean.
    ///
    /// # Errors
    /// As [`Model::run`]; when the queue has no clock.
    pub fn time(
        &self,
        batch: &mut Batch<T>,
        pass: Pass,
        repetitions: Repetitions,
        repeats: u32,
    ) -> Result<Samples, MlpError> {
        self.check(batch, pass)?;
        let repeats = repeats.max(1);
        let mut times = Vec::with_capacity(repetitions.measured);
        for index in 0..repetitions.warmup + repetitions.measured.max(1) {
            let record =
                |logical: &ash::Device, commands| self.record(logical, commands, batch, pass, repeats);
            let time = self.device.time(record)? / f64::from(repeats);
            if index >= repetitions.warmup {
                times.push(time);
            }
        }
        Self::done(batch, pass);
        Ok(Samples::new(times))
    }

    /// Times a pass by the host's clock: from before it is recorded until the device is done.
    ///
    /// # Errors
    /// As [`Model::run`].
    pub fn time_calls(
        &self,
        batch: &mut Batch<T>,
        pass: Pass,
        repetitions: Repetitions,
    ) -> Result<Samples, MlpError> {
        let mut times = Vec::with_capacity(repetitions.measured);
        for index in 0..repetitions.warmup + repetitions.measured.max(1) {
            let start = Instant::now();
            self.run(batch, pass)?;
            if index >= repetitions.warmup {
                times.push(start.elapsed().as_nanos() as f64);
            }
        }
        Ok(Samples::new(times))
    }

    pub(super) fn arrays_layout(&self) -> vk::DescriptorSetLayout {
        self.interface.arrays
    }

    fn check(&self, batch: &Batch<T>, pass: Pass) -> Result<(), MlpError> {
        if batch.model != self.number {
            let model = format!("{} {}", self.implementation(), self.network());
            return Err(MlpError::Tape { made_for: "another model".to_owned(), model });
        }
        if pass != Pass::Forward && batch.training.is_none() {
            return Err(MlpError::Order {
                asked: "a training pass",
                missing: "a batch with training passes",
            });
        }
        if pass == Pass::Backward && !batch.kept {
            return Err(MlpError::Order { asked: "a backward pass", missing: "a forward pass that trains" });
        }
        Ok(())
    }

    fn done(batch: &mut Batch<T>, pass: Pass) {
        batch.kept = match pass {
            // The outputs are the same, and the tape is that of the same inputs.
            Pass::Forward | Pass::Backward => batch.kept,
            Pass::ForwardTrain | Pass::Train => true,
        };
    }

    /// Queues a pass, as often as is wanted.
    fn record(
        &self,
        logical: &ash::Device,
        commands: vk::CommandBuffer,
        batch: &Batch<T>,
        pass: Pass,
        repeats: u32,
    ) {
        let plan = &self.plan;
        let shape = &plan.shape;
        let call = Call {
            count: number(shape.layers()),
            samples: number(batch.samples),
            rows: number(batch.rows),
            layer: 0,
            parts: number(batch.parts),
            parameters: number(shape.parameters()),
        };
        // SAFETY: the commands are being recorded; the batch is this model's, so all its arrays
        // are bound; buffers live until the device is done.
        unsafe {
            let sets = [batch.arrays.set];
            let compute = vk::PipelineBindPoint::COMPUTE;
            logical.cmd_bind_descriptor_sets(commands, compute, self.interface.layout, 0, &sets, &[]);
            for _ in 0..repeats {
                if pass != Pass::Backward {
                    let groups = [number(batch.rows / plan.forward.rows), 1];
                    let forward = if pass == Pass::Forward { &self.forward } else { &self.forward_train };
                    self.interface.call(commands, forward, call, groups);
                    wait(logical, commands);
                }
                if matches!(pass, Pass::Backward | Pass::Train) {
                    let groups = [number(batch.rows / plan.backward.rows), 1];
                    self.interface.call(commands, &self.backward, call, groups);
                    wait(logical, commands);
                    for layer in 0..shape.layers() {
                        let of_layer = Call { layer: number(layer), ..call };
                        let groups = [plan.blocks(layer), batch.parts].map(number);
                        self.interface.call(commands, &self.gradients, of_layer, groups);
                    }
                    wait(logical, commands);
                    // 16 threads for each parameter.
                    let groups = [number(shape.parameters().div_ceil(SUMMING as usize / 16)), 1];
                    self.interface.call(commands, &self.reduce, call, groups);
                    wait(logical, commands);
                }
            }
        }
    }
}

/// What is queued afterwards sees what was written before.
///
/// # Safety
/// The commands are being recorded.
unsafe fn wait(logical: &ash::Device, commands: vk::CommandBuffer) {
    let stages = vk::PipelineStageFlags2::COMPUTE_SHADER;
    let access = vk::AccessFlags2::SHADER_STORAGE_READ | vk::AccessFlags2::SHADER_STORAGE_WRITE;
    let barriers = [vk::MemoryBarrier2::default()
        .src_stage_mask(stages)
        .src_access_mask(vk::AccessFlags2::SHADER_STORAGE_WRITE)
        .dst_stage_mask(stages | vk::PipelineStageFlags2::ALL_TRANSFER)
        .dst_access_mask(access | vk::AccessFlags2::TRANSFER_READ | vk::AccessFlags2::TRANSFER_WRITE)];
    let dependency = vk::DependencyInfo::default().memory_barriers(&barriers);
    // SAFETY: the caller's.
    unsafe { logical.cmd_pipeline_barrier2(commands, &dependency) };
}

fn number(number: usize) -> u32 {
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

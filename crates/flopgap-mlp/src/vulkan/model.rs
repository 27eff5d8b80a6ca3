//! A network with its parameters on a device.

use std::marker::PhantomData;
use std::time::Instant;

use ash::vk;
use flopgap_gpu::timing::{Repetitions, Samples};

use super::batch::{Batch, Pass};
use super::device::Device;
use super::pipeline::{Call, Interface, Pipeline, Shader};
use super::plan::{Chain, KEEP, Plan, SUMMING};
use super::stored::{Stored, number};
use crate::cuda::Implementation;
use crate::{Element, MlpError, Network, Parameters};

/// A network on a Vulkan device, with numbers stored as `T`: [`f32`] or [`half::f16`].
///
/// Every call waits until the device is done.
pub struct Model<T> {
    stored: Stored,
    interface: Interface,
    forward: Pipeline,
    forward_train: Pipeline,
    backward: Pipeline,
    gradients: Pipeline,
    reduce: Pipeline,
    numbers: PhantomData<T>,
}

impl<T: Element> Model<T> {
    /// Makes the pipelines. The parameters are zero until [`Model::upload`].
    ///
    /// # Errors
    /// [`MlpError::Unsupported`] where the device has no such numbers, vectors or matrices, or its
    /// driver does not compile vectors that long, with the alternative; the driver's.
    pub fn new(device: &Device, network: &Network, implementation: Implementation) -> Result<Self, MlpError> {
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
        Ok(Model {
            stored: Stored::new::<T>(device, plan)?,
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
        &self.stored.plan.shape.network
    }

    /// How it is computed; instead of [`Implementation::Auto`], what that stands for.
    pub fn implementation(&self) -> Implementation {
        self.stored.plan.implementation
    }

    /// Takes parameters, rounded to `T`.
    ///
    /// # Errors
    /// [`MlpError::Length`] or [`MlpError::OtherNetwork`] when they are of another network;
    /// [`MlpError::NotFinite`] when one is beyond the range of `T`; the driver's.
    pub fn upload(&mut self, parameters: &Parameters) -> Result<(), MlpError> {
        parameters.check_widths(self.network())?;
        let rounded = Parameters::from_values(self.network(), parameters.rounded::<T>().values().to_vec())?;
        Ok(self.stored.write::<T>(&rounded)?)
    }

    /// Arrays for batches of so many samples, with those of backward passes if they are wanted.
    ///
    /// # Errors
    /// [`MlpError::Batch`] of no samples, or of more than a shader can address; when there is not
    /// enough memory.
    pub fn batch(&self, samples: usize, training: bool) -> Result<Batch<T>, MlpError> {
        Batch::new(&self.stored, self.interface.arrays, samples, training)
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
        self.stored.device.submit(|logical, commands| self.record(logical, commands, batch, pass, 1))?;
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
            let time = self.stored.device.time(record)? / f64::from(repeats);
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

    fn check(&self, batch: &Batch<T>, pass: Pass) -> Result<(), MlpError> {
        if batch.model != self.stored.number {
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
        let plan = &self.stored.plan;
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

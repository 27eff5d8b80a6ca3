//! The arrays of a batch on a device.

use std::marker::PhantomData;

use ash::vk;

use super::device::Device;
use super::error::VulkanError;
use super::memory::Buffer;
use super::pipeline::BINDINGS;
use super::plan::Plan;
use super::shape::{ROWS, Shape};
use super::stored::Stored;
use crate::{Element, MlpError};

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

/// The arrays of a batch: inputs and outputs, and for training passes what is kept, and gradients.
///
/// They lie on the device in padded rows; here, they have the widths of the network, row-major, a
/// sample a row.
pub struct Batch<T> {
    pub(super) samples: usize,
    pub(super) rows: usize,
    pub(super) parts: usize,
    pub(super) training: Option<Training>,
    pub(super) arrays: Arrays,
    /// Of the model that it belongs to.
    pub(super) model: u64,
    /// Whether a forward pass has left what a backward pass needs.
    pub(super) kept: bool,
    shape: Shape,
    x: Buffer,
    y: Buffer,
    _nothing: Buffer,
    numbers: PhantomData<T>,
}

/// Arrays of training passes.
pub(super) struct Training {
    dy: Buffer,
    dx: Buffer,
    gradients: Buffer,
    /// What forward passes keep, gradients by sums, and parts of those by parameters: for shaders.
    _of_shaders: [Buffer; 3],
}

/// The arrays as shaders name them.
pub(super) struct Arrays {
    device: Device,
    pool: vk::DescriptorPool,
    pub(super) set: vk::DescriptorSet,
}

/// The most samples of a batch whose largest array a shader can address, and whose workgroups a
/// dispatch can have.
fn most(device: &Device, plan: &Plan, bytes: usize, training: bool) -> usize {
    let abilities = &device.0.abilities;
    let widest = if training { plan.shape.of_row() } else { 0 };
    let of_row = (widest.max(plan.shape.inputs()).max(plan.shape.outputs()) * bytes) as u64;
    // Numbers are indexed in 32 bits.
    let rows = abilities.buffer.min(u64::from(u32::MAX) * bytes as u64) / of_row;
    let groups = u64::from(abilities.workgroups) * plan.forward.rows.min(plan.backward.rows) as u64;
    usize::try_from(rows.min(groups)).unwrap_or(usize::MAX) / ROWS * ROWS
}

impl<T: Element> Batch<T> {
    pub(super) fn new(
        model: &Stored,
        layout: vk::DescriptorSetLayout,
        samples: usize,
        training: bool,
    ) -> Result<Self, MlpError> {
        let (device, plan) = (&model.device, &model.plan);
        let bytes = size_of::<T>();
        let most = most(device, plan, bytes, training);
        if samples == 0 || samples > most {
            return Err(MlpError::Batch { found: samples, most });
        }
        let shape = plan.shape.clone();
        let rows = samples.next_multiple_of(ROWS);
        let parts = plan.parts(rows);
        let of_rows = |width: usize, bytes: usize| Buffer::zeros(device, (rows * width * bytes) as u64);
        let x = of_rows(shape.inputs(), bytes)?;
        let y = of_rows(shape.outputs(), bytes)?;
        let nothing = Buffer::zeros(device, 16)?;
        let of_model = [&model.layers, &model.weights, &model.biases, &x, &y];
        let bind = |of_training: [&Buffer; 6]| {
            let all = [&of_model[..], &of_training, &[&model.transposed]].concat();
            Arrays::new(device, layout, &all)
        };
        let (training, arrays) = if training {
            let (dy, dx) = (of_rows(shape.outputs(), bytes)?, of_rows(shape.inputs(), bytes)?);
            let (tape, deltas) = (of_rows(shape.of_row(), bytes)?, of_rows(shape.of_row(), bytes)?);
            let partials = Buffer::zeros(device, (parts * shape.parameters()) as u64 * 4)?;
            let gradients = Buffer::zeros(device, shape.parameters() as u64 * 4)?;
            let arrays = bind([&tape, &dy, &dx, &deltas, &partials, &gradients])?;
            (Some(Training { dy, dx, gradients, _of_shaders: [tape, deltas, partials] }), arrays)
        } else {
            (None, bind([&nothing; 6])?)
        };
        Ok(Batch {
            samples,
            rows,
            parts,
            training,
            arrays,
            model: model.number,
            kept: false,
            shape,
            x,
            y,
            _nothing: nothing,
            numbers: PhantomData,
        })
    }

    /// Samples.
    pub fn samples(&self) -> usize {
        self.samples
    }

    /// Writes the inputs, `batch x inputs`.
    ///
    /// # Errors
    /// [`MlpError::Length`]; the driver's.
    pub fn write_inputs(&mut self, inputs: &[T]) -> Result<(), MlpError> {
        self.kept = false;
        let widths = [self.shape.network.inputs(), self.shape.inputs()];
        write(&self.x, "inputs", inputs, self.samples, widths)
    }

    /// Writes the gradients by the outputs, `batch x outputs`.
    ///
    /// # Errors
    /// [`MlpError::Length`]; [`MlpError::Order`] for a batch without training passes; the driver's.
    pub fn write_output_gradients(&mut self, gradients: &[T]) -> Result<(), MlpError> {
        let widths = [self.shape.network.outputs(), self.shape.outputs()];
        write(&self.training()?.dy, "gradients by the outputs", gradients, self.samples, widths)
    }

    /// The outputs of the last forward pass, `batch x outputs`.
    ///
    /// # Errors
    /// The driver's.
    pub fn outputs(&self) -> Result<Vec<T>, MlpError> {
        read(&self.y, self.samples, [self.shape.network.outputs(), self.shape.outputs()])
    }

    /// The gradients by the inputs of the last backward pass, `batch x inputs`.
    ///
    /// # Errors
    /// [`MlpError::Order`] for a batch without training passes; the driver's.
    pub fn input_gradients(&self) -> Result<Vec<T>, MlpError> {
        read(&self.training()?.dx, self.samples, [self.shape.network.inputs(), self.shape.inputs()])
    }

    /// The gradients by the parameters of the last backward pass, summed over the batch, in the
    /// order that [`Network`](crate::Network) documents.
    ///
    /// # Errors
    /// [`MlpError::Order`] for a batch without training passes; the driver's.
    pub fn gradients(&self) -> Result<Vec<f32>, MlpError> {
        Ok(self.shape.gradients(&self.training()?.gradients.read(self.shape.parameters())?))
    }

    /// Fills what a pass writes with a byte: for tests of what it writes.
    ///
    /// # Errors
    /// The driver's.
    pub fn fill_results(&mut self, pass: Pass, byte: u8) -> Result<(), MlpError> {
        if pass != Pass::Backward {
            self.y.fill(byte)?;
        }
        if let (Some(training), Pass::Backward | Pass::Train) = (&self.training, pass) {
            training.dx.fill(byte)?;
            training.gradients.fill(byte)?;
        }
        Ok(())
    }

    fn training(&self) -> Result<&Training, MlpError> {
        self.training
            .as_ref()
            .ok_or(MlpError::Order { asked: "a backward pass", missing: "a batch with training passes" })
    }
}

/// Rows of the network's width, into those of the padded one.
fn write<T: Element>(
    buffer: &Buffer,
    what: &'static str,
    numbers: &[T],
    samples: usize,
    [width, padded]: [usize; 2],
) -> Result<(), MlpError> {
    if numbers.len() != samples * width {
        return Err(MlpError::Length { what, expected: samples * width, found: numbers.len() });
    }
    if width == padded {
        return Ok(buffer.write(numbers)?);
    }
    let mut rows = vec![T::default(); samples * padded];
    for (row, numbers) in rows.chunks_exact_mut(padded).zip(numbers.chunks_exact(width)) {
        row[..width].copy_from_slice(numbers);
    }
    Ok(buffer.write(&rows)?)
}

/// The other way.
fn read<T: Element>(
    buffer: &Buffer,
    samples: usize,
    [width, padded]: [usize; 2],
) -> Result<Vec<T>, MlpError> {
    let rows: Vec<T> = buffer.read(samples * padded)?;
    if width == padded {
        return Ok(rows);
    }
    Ok(rows.chunks_exact(padded).flat_map(|row| &row[..width]).copied().collect())
}

impl Arrays {
    /// The buffers in the order of their bindings.
    fn new(
        device: &Device,
        layout: vk::DescriptorSetLayout,
        buffers: &[&Buffer],
    ) -> Result<Self, VulkanError> {
        let size = |kind, count| vk::DescriptorPoolSize { ty: kind, descriptor_count: count };
        let sizes = [
            size(vk::DescriptorType::UNIFORM_BUFFER, 1),
            size(vk::DescriptorType::STORAGE_BUFFER, BINDINGS - 1),
        ];
        let of_pool = vk::DescriptorPoolCreateInfo::default().max_sets(1).pool_sizes(&sizes);
        let logical = &device.0.logical;
        // SAFETY: the structures live until the calls return; the buffers live as long as the
        // batch and its model.
        unsafe {
            let pool = logical
                .create_descriptor_pool(&of_pool, None)
                .map_err(VulkanError::of("vkCreateDescriptorPool"))?;
            let mut arrays = Arrays { device: device.clone(), pool, set: vk::DescriptorSet::null() };
            let layouts = [layout];
            let of_set = vk::DescriptorSetAllocateInfo::default().descriptor_pool(pool).set_layouts(&layouts);
            arrays.set = logical
                .allocate_descriptor_sets(&of_set)
                .map_err(VulkanError::of("vkAllocateDescriptorSets"))?[0];
            let whole = |buffer: &Buffer| {
                [vk::DescriptorBufferInfo { buffer: buffer.handle, offset: 0, range: buffer.bytes }]
            };
            let information: Vec<_> = buffers.iter().map(|buffer| whole(buffer)).collect();
            let writes: Vec<_> = (0..)
                .zip(&information)
                .map(|(binding, information)| {
                    let kind = if binding == 0 { sizes[0].ty } else { sizes[1].ty };
                    vk::WriteDescriptorSet::default()
                        .dst_set(arrays.set)
                        .dst_binding(binding)
                        .descriptor_type(kind)
                        .buffer_info(information)
                })
                .collect();
            logical.update_descriptor_sets(&writes, &[]);
            Ok(arrays)
        }
    }
}

impl Drop for Arrays {
    fn drop(&mut self) {
        // SAFETY: every submission was waited for.
        unsafe { self.device.0.logical.destroy_descriptor_pool(self.pool, None) };
    }
}

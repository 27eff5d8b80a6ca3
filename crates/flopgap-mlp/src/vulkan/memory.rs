//! Buffers, and the way of numbers between host and device.

use ash::vk;
use flopgap_gpu::AnyBits;

use super::device::Device;
use super::error::VulkanError;

/// Bytes that go between host and device at a time.
const STEP: usize = 64 << 20;

/// Memory of a device that shaders read and write.
pub(super) struct Buffer {
    device: Device,
    pub(super) handle: vk::Buffer,
    memory: vk::DeviceMemory,
    pub(super) bytes: u64,
}

/// Where memory lies.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    Device,
    /// Of the host, for copies.
    Host,
}

impl Buffer {
    /// Zeros. A buffer has at least 16 bytes.
    pub(super) fn zeros(device: &Device, bytes: u64) -> Result<Self, VulkanError> {
        let buffer = Self::new(device, bytes, Place::Device)?;
        buffer.fill(0)?;
        Ok(buffer)
    }

    /// These numbers.
    pub(super) fn of<T: AnyBits + Copy>(device: &Device, numbers: &[T]) -> Result<Self, VulkanError> {
        let buffer = Self::new(device, size_of_val(numbers) as u64, Place::Device)?;
        buffer.write(numbers)?;
        Ok(buffer)
    }

    fn new(device: &Device, bytes: u64, place: Place) -> Result<Self, VulkanError> {
        let logical = &device.0.logical;
        let bytes = bytes.next_multiple_of(16).max(16);
        let usage = vk::BufferUsageFlags::STORAGE_BUFFER
            | vk::BufferUsageFlags::UNIFORM_BUFFER
            | vk::BufferUsageFlags::TRANSFER_SRC
            | vk::BufferUsageFlags::TRANSFER_DST;
        let information = vk::BufferCreateInfo::default().size(bytes).usage(usage);
        // SAFETY: the device is open; what is made is destroyed with the buffer, also on failure.
        unsafe {
            let handle =
                logical.create_buffer(&information, None).map_err(VulkanError::of("vkCreateBuffer"))?;
            let mut buffer =
                Buffer { device: device.clone(), handle, memory: vk::DeviceMemory::null(), bytes };
            let needs = logical.get_buffer_memory_requirements(handle);
            let kind = memory_type(&device.0.memory, needs.memory_type_bits, place);
            let information =
                vk::MemoryAllocateInfo::default().allocation_size(needs.size).memory_type_index(kind);
            buffer.memory = logical.allocate_memory(&information, None).map_err(|result| match result {
                vk::Result::ERROR_OUT_OF_DEVICE_MEMORY | vk::Result::ERROR_OUT_OF_HOST_MEMORY => {
                    VulkanError::OutOfMemory { wanted: needs.size }
                }
                _ => VulkanError::of("vkAllocateMemory")(result),
            })?;
            logical
                .bind_buffer_memory(handle, buffer.memory, 0)
                .map_err(VulkanError::of("vkBindBufferMemory"))?;
            Ok(buffer)
        }
    }

    /// Sets every byte.
    pub(super) fn fill(&self, byte: u8) -> Result<(), VulkanError> {
        // SAFETY: the buffer lives until the device is done.
        self.device.submit(|logical, commands| unsafe {
            let pattern = u32::from_ne_bytes([byte; 4]);
            logical.cmd_fill_buffer(commands, self.handle, 0, vk::WHOLE_SIZE, pattern);
            make_visible(logical, commands);
        })
    }

    /// Writes from the beginning on.
    pub(super) fn write<T: AnyBits + Copy>(&self, numbers: &[T]) -> Result<(), VulkanError> {
        let mut numbers = numbers;
        let mut at = 0;
        let step = STEP / size_of::<T>();
        let staging = Self::new(&self.device, STEP.min(size_of_val(numbers)) as u64, Place::Host)?;
        while !numbers.is_empty() {
            let (now, rest) = numbers.split_at(step.min(numbers.len()));
            staging.mapped(|memory: *mut T| {
                // SAFETY: the staging buffer has room for a step.
                unsafe { std::ptr::copy_nonoverlapping(now.as_ptr(), memory, now.len()) };
            })?;
            let bytes = size_of_val(now) as u64;
            self.copy(&staging, self, vk::BufferCopy { src_offset: 0, dst_offset: at, size: bytes })?;
            at += bytes;
            numbers = rest;
        }
        Ok(())
    }

    /// So many numbers from the beginning on.
    pub(super) fn read<T: AnyBits + Copy + Default>(&self, length: usize) -> Result<Vec<T>, VulkanError> {
        let mut numbers = vec![T::default(); length];
        let mut at = 0;
        let step = STEP / size_of::<T>();
        let staging = Self::new(&self.device, STEP.min(length * size_of::<T>()) as u64, Place::Host)?;
        for part in numbers.chunks_mut(step) {
            let bytes = size_of_val(part) as u64;
            self.copy(self, &staging, vk::BufferCopy { src_offset: at, dst_offset: 0, size: bytes })?;
            staging.mapped(|memory: *mut T| {
                // SAFETY: the device wrote as many, and any bits are a number.
                unsafe { std::ptr::copy_nonoverlapping(memory, part.as_mut_ptr(), part.len()) };
            })?;
            at += bytes;
        }
        Ok(numbers)
    }

    fn copy(&self, from: &Buffer, to: &Buffer, region: vk::BufferCopy) -> Result<(), VulkanError> {
        // SAFETY: both live until the device is done, and have room for the region.
        self.device.submit(|logical, commands| unsafe {
            logical.cmd_copy_buffer(commands, from.handle, to.handle, &[region]);
            make_visible(logical, commands);
        })
    }

    /// Calls `work` with the address of memory of the host.
    fn mapped<T>(&self, work: impl FnOnce(*mut T)) -> Result<(), VulkanError> {
        let logical = &self.device.0.logical;
        // SAFETY: the memory is the host's and coherent, and not mapped elsewhere.
        unsafe {
            let address = logical
                .map_memory(self.memory, 0, vk::WHOLE_SIZE, vk::MemoryMapFlags::empty())
                .map_err(VulkanError::of("vkMapMemory"))?;
            work(address.cast());
            logical.unmap_memory(self.memory);
        }
        Ok(())
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        // SAFETY: every submission was waited for.
        unsafe {
            self.device.0.logical.destroy_buffer(self.handle, None);
            self.device.0.logical.free_memory(self.memory, None);
        }
    }
}

/// The host and all later commands see what was copied or filled.
///
/// # Safety
/// The commands are being recorded.
unsafe fn make_visible(logical: &ash::Device, commands: vk::CommandBuffer) {
    let barriers = [vk::MemoryBarrier2::default()
        .src_stage_mask(vk::PipelineStageFlags2::ALL_TRANSFER)
        .src_access_mask(vk::AccessFlags2::TRANSFER_WRITE)
        .dst_stage_mask(vk::PipelineStageFlags2::HOST | vk::PipelineStageFlags2::ALL_COMMANDS)
        .dst_access_mask(
            vk::AccessFlags2::HOST_READ | vk::AccessFlags2::MEMORY_READ | vk::AccessFlags2::MEMORY_WRITE,
        )];
    let dependency = vk::DependencyInfo::default().memory_barriers(&barriers);
    // SAFETY: the caller's.
    unsafe { logical.cmd_pipeline_barrier2(commands, &dependency) };
}

/// The type of memory for a place, among those that a buffer can have: on the device, if there is
/// one; or of the host, coherent, and with a cache if there is one, as it is read.
fn memory_type(all: &vk::PhysicalDeviceMemoryProperties, possible: u32, place: Place) -> u32 {
    let host = vk::MemoryPropertyFlags::HOST_VISIBLE | vk::MemoryPropertyFlags::HOST_COHERENT;
    let wishes = match place {
        Place::Device => [vk::MemoryPropertyFlags::DEVICE_LOCAL, vk::MemoryPropertyFlags::empty()],
        Place::Host => [host | vk::MemoryPropertyFlags::HOST_CACHED, host],
    };
    let suits = |wish: vk::MemoryPropertyFlags| {
        let mut kinds = (0..all.memory_type_count).filter(|kind| possible & (1 << kind) != 0);
        kinds.find(|&kind| all.memory_types[kind as usize].property_flags.contains(wish))
    };
    // Vulkan promises one of each for every buffer.
    wishes.into_iter().find_map(suits).unwrap_or_default()
}

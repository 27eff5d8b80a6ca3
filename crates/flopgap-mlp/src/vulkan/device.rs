//! A device, and what it can do.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use ash::vk;

use super::abilities::Abilities;
use super::coopvec;
use super::error::VulkanError;

/// A device of Vulkan 1.3 with a queue for compute. Clones are the same device.
///
/// ```no_run
/// let device = flopgap_mlp::vulkan::Device::new(0)?;
/// println!("{}", device.name());
/// # Ok::<(), flopgap_mlp::vulkan::VulkanError>(())
/// ```
#[derive(Clone)]
pub struct Device(pub(super) Arc<Open>);

/// The open device.
pub(super) struct Open {
    pub(super) logical: ash::Device,
    pub(super) queue: Mutex<Queue>,
    pub(super) memory: vk::PhysicalDeviceMemoryProperties,
    pub(super) abilities: Abilities,
    pub(super) vectors: Option<coopvec::Functions>,
    name: String,
    instance: ash::Instance,
    // Unloads the library: last.
    _entry: ash::Entry,
}

/// What is used by one thread at a time.
pub(super) struct Queue {
    handle: vk::Queue,
    commands: vk::CommandBuffer,
    fence: vk::Fence,
    times: vk::QueryPool,
    pool: vk::CommandPool,
}

impl fmt::Debug for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Device").field("name", &self.0.name).field("abilities", &self.0.abilities).finish()
    }
}

impl Device {
    /// The device with this number, from 0, among those of Vulkan 1.3 or newer in the order in
    /// which the loader reports them.
    ///
    /// # Errors
    /// [`VulkanError::Loader`] without a loader, [`VulkanError::NoDevice`] without such a device.
    pub fn new(index: usize) -> Result<Self, VulkanError> {
        // SAFETY: the loader is a library made to be loaded.
        let entry = unsafe { ash::Entry::load() }.map_err(|error| VulkanError::Loader(error.to_string()))?;
        let application = vk::ApplicationInfo::default().api_version(vk::API_VERSION_1_3);
        let information = vk::InstanceCreateInfo::default().application_info(&application);
        // SAFETY: the structures live until the call returns.
        let instance = match unsafe { entry.create_instance(&information, None) } {
            Ok(instance) => instance,
            // The loader found no driver.
            Err(vk::Result::ERROR_INCOMPATIBLE_DRIVER) => return Err(VulkanError::NoDevice),
            Err(result) => return Err(VulkanError::of("vkCreateInstance")(result)),
        };
        let opened = open(&entry, &instance, index);
        match opened {
            Ok(Opened { logical, queue, memory, abilities, vectors, name }) => Ok(Device(Arc::new(Open {
                logical,
                queue: Mutex::new(queue),
                memory,
                abilities,
                vectors,
                name,
                instance,
                _entry: entry,
            }))),
            Err(error) => {
                // SAFETY: nothing of the instance is left.
                unsafe { instance.destroy_instance(None) };
                let no_loader_answer =
                    matches!(&error, VulkanError::Call { call: "vkEnumeratePhysicalDevices", .. });
                Err(if no_loader_answer { VulkanError::NoDevice } else { error })
            }
        }
    }

    /// What the driver calls it.
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// Whether it is a processor, such as Mesa's lavapipe, and no GPU.
    pub fn is_processor(&self) -> bool {
        self.0.abilities.processor
    }

    /// Records commands, submits them, and waits until the device is done.
    pub(super) fn submit(
        &self,
        record: impl FnOnce(&ash::Device, vk::CommandBuffer),
    ) -> Result<(), VulkanError> {
        let queue = self.0.queue.lock().unwrap_or_else(PoisonError::into_inner);
        self.submit_on(&queue, record)
    }

    fn submit_on(
        &self,
        queue: &Queue,
        record: impl FnOnce(&ash::Device, vk::CommandBuffer),
    ) -> Result<(), VulkanError> {
        let logical = &self.0.logical;
        let begin = vk::CommandBufferBeginInfo::default().flags(vk::CommandBufferUsageFlags::ONE_TIME_SUBMIT);
        let buffers = [queue.commands];
        let submits = [vk::SubmitInfo::default().command_buffers(&buffers)];
        // SAFETY: the queue is this thread's; the buffer is not in use, as every submission is
        // waited for. What `record` names is kept by its caller.
        unsafe {
            logical
                .begin_command_buffer(queue.commands, &begin)
                .map_err(VulkanError::of("vkBeginCommandBuffer"))?;
            record(logical, queue.commands);
            logical.end_command_buffer(queue.commands).map_err(VulkanError::of("vkEndCommandBuffer"))?;
            logical
                .queue_submit(queue.handle, &submits, queue.fence)
                .map_err(VulkanError::of("vkQueueSubmit"))?;
            logical
                .wait_for_fences(&[queue.fence], true, u64::MAX)
                .map_err(VulkanError::of("vkWaitForFences"))?;
            logical.reset_fences(&[queue.fence]).map_err(VulkanError::of("vkResetFences"))
        }
    }

    /// The same; nanoseconds by the device's clock from before the commands to after them.
    pub(super) fn time(
        &self,
        record: impl FnOnce(&ash::Device, vk::CommandBuffer),
    ) -> Result<f64, VulkanError> {
        let Some(tick) = self.0.abilities.tick else {
            let result = "the queue has no clock".to_owned();
            return Err(VulkanError::Call { call: "vkCmdWriteTimestamp2", result });
        };
        let queue = self.0.queue.lock().unwrap_or_else(PoisonError::into_inner);
        let times = queue.times;
        self.submit_on(&queue, |logical, commands| {
            // SAFETY: the pool has two queries, and is the queue's.
            unsafe {
                logical.cmd_reset_query_pool(commands, times, 0, 2);
                logical.cmd_write_timestamp2(commands, vk::PipelineStageFlags2::ALL_COMMANDS, times, 0);
                record(logical, commands);
                logical.cmd_write_timestamp2(commands, vk::PipelineStageFlags2::ALL_COMMANDS, times, 1);
            }
        })?;
        let mut ticks = [0_u64; 2];
        // SAFETY: both were written by the submission that is done.
        unsafe {
            self.0
                .logical
                .get_query_pool_results(
                    times,
                    0,
                    &mut ticks,
                    vk::QueryResultFlags::TYPE_64 | vk::QueryResultFlags::WAIT,
                )
                .map_err(VulkanError::of("vkGetQueryPoolResults"))?;
        }
        Ok(ticks[1].wrapping_sub(ticks[0]) as f64 * tick)
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        let queue = self.queue.get_mut().unwrap_or_else(PoisonError::into_inner);
        // SAFETY: nothing is in flight, and whatever was made of the device holds the `Device`.
        unsafe {
            self.logical.destroy_query_pool(queue.times, None);
            self.logical.destroy_fence(queue.fence, None);
            self.logical.destroy_command_pool(queue.pool, None);
            self.logical.destroy_device(None);
            self.instance.destroy_instance(None);
        }
    }
}

/// The parts of an open device.
struct Opened {
    logical: ash::Device,
    queue: Queue,
    memory: vk::PhysicalDeviceMemoryProperties,
    abilities: Abilities,
    vectors: Option<coopvec::Functions>,
    name: String,
}

fn open(entry: &ash::Entry, instance: &ash::Instance, index: usize) -> Result<Opened, VulkanError> {
    // SAFETY: the instance is open; structures live until the calls return.
    unsafe {
        let all =
            instance.enumerate_physical_devices().map_err(VulkanError::of("vkEnumeratePhysicalDevices"))?;
        let version =
            |&device: &vk::PhysicalDevice| instance.get_physical_device_properties(device).api_version;
        let new: Vec<_> = all.into_iter().filter(|device| version(device) >= vk::API_VERSION_1_3).collect();
        let physical = match new.get(index) {
            Some(&physical) => physical,
            None if new.is_empty() => return Err(VulkanError::NoDevice),
            None => return Err(VulkanError::NoSuchDevice { asked: index, count: new.len() }),
        };
        let families = instance.get_physical_device_queue_family_properties(physical);
        let computes = |(_, family): &(u32, &vk::QueueFamilyProperties)| {
            family.queue_flags.contains(vk::QueueFlags::COMPUTE)
        };
        let (family, clock) = match (0..).zip(&families).find(computes) {
            Some((family, found)) => (family, found.timestamp_valid_bits > 0),
            None => return Err(VulkanError::NoDevice),
        };
        let (name, mut abilities) = Abilities::of(entry, instance, physical)?;
        abilities.tick = abilities.tick.filter(|_| clock);

        let queues =
            [vk::DeviceQueueCreateInfo::default().queue_family_index(family).queue_priorities(&[1.0])];
        let mut names = Vec::new();
        let mut of_11 =
            vk::PhysicalDeviceVulkan11Features::default().storage_buffer16_bit_access(abilities.half);
        let mut of_12 = vk::PhysicalDeviceVulkan12Features::default()
            .shader_float16(abilities.half)
            .vulkan_memory_model(abilities.memory_model);
        let mut of_13 = vk::PhysicalDeviceVulkan13Features::default()
            .synchronization2(true)
            .maintenance4(true)
            .subgroup_size_control(abilities.fixed_subgroups)
            .compute_full_subgroups(abilities.fixed_subgroups);
        let mut of_matrices =
            vk::PhysicalDeviceCooperativeMatrixFeaturesKHR::default().cooperative_matrix(true);
        let mut of_vectors = coopvec::Features::wanted();
        let mut wanted = vk::DeviceCreateInfo::default()
            .queue_create_infos(&queues)
            .push_next(&mut of_11)
            .push_next(&mut of_12)
            .push_next(&mut of_13);
        if abilities.matrix.is_some() {
            names.push(ash::khr::cooperative_matrix::NAME.as_ptr());
            wanted = wanted.push_next(&mut of_matrices);
        }
        if abilities.vectors > 0 {
            names.push(coopvec::NAME.as_ptr());
            wanted = wanted.push_next(&mut of_vectors);
        }
        let wanted = wanted.enabled_extension_names(&names);
        let logical =
            instance.create_device(physical, &wanted, None).map_err(VulkanError::of("vkCreateDevice"))?;
        let queue = match queue(&logical, family) {
            Ok(queue) => queue,
            Err(error) => {
                logical.destroy_device(None);
                return Err(error);
            }
        };
        let vectors = (abilities.vectors > 0).then(|| coopvec::Functions::load(instance, &logical)).flatten();
        if vectors.is_none() {
            abilities.vectors = 0;
        }
        let memory = instance.get_physical_device_memory_properties(physical);
        Ok(Opened { logical, queue, memory, abilities, vectors, name })
    }
}

/// The queue, and what its submissions need.
///
/// # Safety
/// The device has a queue of this family.
unsafe fn queue(logical: &ash::Device, family: u32) -> Result<Queue, VulkanError> {
    let reset = vk::CommandPoolCreateFlags::RESET_COMMAND_BUFFER;
    let of_pool = vk::CommandPoolCreateInfo::default().queue_family_index(family).flags(reset);
    let of_times = vk::QueryPoolCreateInfo::default().query_type(vk::QueryType::TIMESTAMP).query_count(2);
    // SAFETY: the structures live until the calls return.
    unsafe {
        let pool =
            logical.create_command_pool(&of_pool, None).map_err(VulkanError::of("vkCreateCommandPool"))?;
        let of_commands = vk::CommandBufferAllocateInfo::default().command_pool(pool).command_buffer_count(1);
        let commands = logical
            .allocate_command_buffers(&of_commands)
            .map_err(VulkanError::of("vkAllocateCommandBuffers"))?[0];
        let fence = logical
            .create_fence(&vk::FenceCreateInfo::default(), None)
            .map_err(VulkanError::of("vkCreateFence"))?;
        let times =
            logical.create_query_pool(&of_times, None).map_err(VulkanError::of("vkCreateQueryPool"))?;
        Ok(Queue { handle: logical.get_device_queue(family, 0), commands, fence, times, pool })
    }
}

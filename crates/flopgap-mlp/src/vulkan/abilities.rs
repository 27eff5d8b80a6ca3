//! What a device can do.

use std::ffi::CStr;

use ash::vk;

use super::coopvec;
use super::error::VulkanError;

/// What a device can do, as plans need it.
#[derive(Debug, Clone, Copy, PartialEq)]
#[expect(clippy::struct_excessive_bools, reason = "a device has each of them or not")]
pub(super) struct Abilities {
    /// Whether it is a processor.
    pub(super) processor: bool,
    /// Threads of a subgroup.
    pub(super) subgroup: u32,
    /// Whether pipelines may ask for that size.
    pub(super) fixed_subgroups: bool,
    /// Bytes of shared memory that a workgroup can have.
    pub(super) shared: usize,
    /// Threads that a workgroup can have.
    pub(super) threads: u32,
    /// Workgroups that a dispatch can have.
    pub(super) workgroups: u32,
    /// Bytes that a shader can address of a buffer.
    pub(super) buffer: u64,
    /// Numbers of 16 bits in memory and in sums.
    pub(super) half: bool,
    /// The memory model that matrices need.
    pub(super) memory_model: bool,
    /// The side of the square matrices of 16-bit numbers that it multiplies with sums in 32 bits.
    pub(super) matrix: Option<u32>,
    /// The longest cooperative vector of 16-bit numbers; 0 without cooperative vectors.
    pub(super) vectors: usize,
    /// Nanoseconds of a tick of its clock; none if the queue has no clock.
    pub(super) tick: Option<f64>,
}

impl Abilities {
    /// The name of a device, and what it can do.
    ///
    /// # Safety
    /// The device is one of the instance, which is open.
    pub(super) unsafe fn of(
        entry: &ash::Entry,
        instance: &ash::Instance,
        physical: vk::PhysicalDevice,
    ) -> Result<(String, Self), VulkanError> {
        // SAFETY: the caller's; structures live until the calls return.
        unsafe {
            let extensions = instance
                .enumerate_device_extension_properties(physical)
                .map_err(VulkanError::of("vkEnumerateDeviceExtensionProperties"))?;
            let has =
                |wanted: &CStr| extensions.iter().any(|found| found.extension_name_as_c_str() == Ok(wanted));
            let (with_matrices, with_vectors) = (has(ash::khr::cooperative_matrix::NAME), has(coopvec::NAME));

            let mut eleven = vk::PhysicalDeviceVulkan11Properties::default();
            let mut thirteen = vk::PhysicalDeviceVulkan13Properties::default();
            let mut of_lengths = coopvec::Properties::default();
            let mut properties =
                vk::PhysicalDeviceProperties2::default().push_next(&mut eleven).push_next(&mut thirteen);
            if with_vectors {
                properties = properties.push_next(&mut of_lengths);
            }
            instance.get_physical_device_properties2(physical, &mut properties);
            let vk::PhysicalDeviceProperties { limits, device_type, .. } = properties.properties;
            let name = properties.properties.device_name_as_c_str();
            let name = name.map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();

            let mut of_11 = vk::PhysicalDeviceVulkan11Features::default();
            let mut of_12 = vk::PhysicalDeviceVulkan12Features::default();
            let mut of_13 = vk::PhysicalDeviceVulkan13Features::default();
            let mut of_matrices = vk::PhysicalDeviceCooperativeMatrixFeaturesKHR::default();
            let mut of_vectors = coopvec::Features::default();
            let mut features = vk::PhysicalDeviceFeatures2::default()
                .push_next(&mut of_11)
                .push_next(&mut of_12)
                .push_next(&mut of_13);
            if with_matrices {
                features = features.push_next(&mut of_matrices);
            }
            if with_vectors {
                features = features.push_next(&mut of_vectors);
            }
            instance.get_physical_device_features2(physical, &mut features);

            let half = of_11.storage_buffer16_bit_access == vk::TRUE && of_12.shader_float16 == vk::TRUE;
            let memory_model = of_12.vulkan_memory_model == vk::TRUE;
            let matrices = half && memory_model && of_matrices.cooperative_matrix == vk::TRUE;
            let vectors = half && of_vectors.cooperative_vector == vk::TRUE;
            let fixed_subgroups = of_13.subgroup_size_control == vk::TRUE
                && of_13.compute_full_subgroups == vk::TRUE
                && thirteen.required_subgroup_size_stages.contains(vk::ShaderStageFlags::COMPUTE)
                && (thirteen.min_subgroup_size..=thirteen.max_subgroup_size).contains(&eleven.subgroup_size);
            let abilities = Abilities {
                processor: device_type == vk::PhysicalDeviceType::CPU,
                subgroup: eleven.subgroup_size,
                fixed_subgroups,
                shared: limits.max_compute_shared_memory_size as usize,
                threads: limits.max_compute_work_group_invocations.min(limits.max_compute_work_group_size[0]),
                workgroups: limits.max_compute_work_group_count[0],
                buffer: limits.max_storage_buffer_range.into(),
                half,
                memory_model,
                matrix: if matrices { matrix_side(entry, instance, physical) } else { None },
                vectors: if vectors { of_lengths.longest as usize } else { 0 },
                tick: Some(f64::from(limits.timestamp_period)),
            };
            Ok((name, abilities))
        }
    }
}

/// The side of the square matrices of 16-bit numbers with sums in 32 bits, the largest up to 16,
/// which subgroups multiply.
///
/// # Safety
/// The device has cooperative matrices, and the instance is open.
unsafe fn matrix_side(
    entry: &ash::Entry,
    instance: &ash::Instance,
    physical: vk::PhysicalDevice,
) -> Option<u32> {
    let functions = ash::khr::cooperative_matrix::Instance::new(entry, instance);
    // SAFETY: the caller's.
    let all = unsafe { functions.get_physical_device_cooperative_matrix_properties(physical) }.ok()?;
    let (half, float) = (vk::ComponentTypeKHR::FLOAT16, vk::ComponentTypeKHR::FLOAT32);
    all.iter()
        .filter(|found| {
            found.scope == vk::ScopeKHR::SUBGROUP
                && (found.a_type, found.b_type, found.c_type, found.result_type) == (half, half, float, float)
                && found.m_size == found.n_size
                && found.n_size == found.k_size
                && [8, 16].contains(&found.m_size)
        })
        .map(|found| found.m_size)
        .max()
}

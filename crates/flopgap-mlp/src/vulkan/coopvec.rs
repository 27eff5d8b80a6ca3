//! `VK_NV_cooperative_vector`, as its specification has it: `ash` is older.

use std::ffi::{CStr, c_void};
use std::ptr;

use ash::vk;

use super::error::VulkanError;

pub(super) const NAME: &CStr = c"VK_NV_cooperative_vector";

/// `VkPhysicalDeviceCooperativeVectorFeaturesNV`.
#[repr(C)]
pub(super) struct Features {
    structure: vk::StructureType,
    next: *mut c_void,
    pub(super) cooperative_vector: vk::Bool32,
    cooperative_vector_training: vk::Bool32,
}

// SAFETY: the structure extends these, begins as all do, and is tagged as its own.
unsafe impl vk::ExtendsPhysicalDeviceFeatures2 for Features {}
// SAFETY: as above.
unsafe impl vk::ExtendsDeviceCreateInfo for Features {}

impl Default for Features {
    fn default() -> Self {
        Features {
            structure: vk::StructureType::from_raw(1_000_491_000),
            next: ptr::null_mut(),
            cooperative_vector: vk::FALSE,
            cooperative_vector_training: vk::FALSE,
        }
    }
}

impl Features {
    /// Products with matrices; sums of outer products are not used.
    pub(super) fn wanted() -> Self {
        Features { cooperative_vector: vk::TRUE, ..Self::default() }
    }
}

/// `VkPhysicalDeviceCooperativeVectorPropertiesNV`.
#[repr(C)]
pub(super) struct Properties {
    structure: vk::StructureType,
    next: *mut c_void,
    stages: vk::ShaderStageFlags,
    training_half: vk::Bool32,
    training_float: vk::Bool32,
    /// The longest vector.
    pub(super) longest: u32,
}

// SAFETY: the structure extends these, begins as all do, and is tagged as its own.
unsafe impl vk::ExtendsPhysicalDeviceProperties2 for Properties {}

impl Default for Properties {
    fn default() -> Self {
        Properties {
            structure: vk::StructureType::from_raw(1_000_491_001),
            next: ptr::null_mut(),
            stages: vk::ShaderStageFlags::empty(),
            training_half: vk::FALSE,
            training_float: vk::FALSE,
            longest: 0,
        }
    }
}

/// How a matrix lies in memory: `VkCooperativeVectorMatrixLayoutNV`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(i32)]
pub(super) enum Layout {
    /// Rows without gaps.
    RowMajor = 0,
    /// As the driver multiplies it fastest.
    InferencingOptimal = 2,
}

/// `VkConvertCooperativeVectorMatrixInfoNV`.
#[repr(C)]
struct Conversion {
    structure: vk::StructureType,
    next: *const c_void,
    source_size: usize,
    source: *const c_void,
    target_size: *mut usize,
    target: *mut c_void,
    source_type: vk::ComponentTypeKHR,
    target_type: vk::ComponentTypeKHR,
    rows: u32,
    columns: u32,
    source_layout: Layout,
    source_stride: usize,
    target_layout: Layout,
    target_stride: usize,
}

/// `vkConvertCooperativeVectorMatrixNV`.
type Convert = unsafe extern "system" fn(vk::Device, *const Conversion) -> vk::Result;

/// The extension's function.
pub(super) struct Functions {
    device: vk::Device,
    convert: Convert,
}

impl Functions {
    /// Of a device with the extension.
    pub(super) fn load(instance: &ash::Instance, device: &ash::Device) -> Option<Self> {
        let name = c"vkConvertCooperativeVectorMatrixNV";
        // SAFETY: the device is open, and the function has this type.
        let convert = unsafe {
            let address = (instance.fp_v1_0().get_device_proc_addr)(device.handle(), name.as_ptr())?;
            std::mem::transmute::<unsafe extern "system" fn(), Convert>(address)
        };
        Some(Functions { device: device.handle(), convert })
    }

    /// A matrix of 16-bit numbers, row after row, in the layout that the driver multiplies fastest.
    pub(super) fn optimal(&self, matrix: &[u16], rows: u32, columns: u32) -> Result<Vec<u8>, VulkanError> {
        let mut size = 0;
        let call = |size: &mut usize, target: *mut c_void| {
            let conversion = Conversion {
                structure: vk::StructureType::from_raw(1_000_491_004),
                next: ptr::null(),
                source_size: size_of_val(matrix),
                source: matrix.as_ptr().cast(),
                target_size: size,
                target,
                source_type: vk::ComponentTypeKHR::FLOAT16,
                target_type: vk::ComponentTypeKHR::FLOAT16,
                rows,
                columns,
                source_layout: Layout::RowMajor,
                source_stride: columns as usize * 2,
                target_layout: Layout::InferencingOptimal,
                target_stride: 0,
            };
            // SAFETY: source and target are memory of the host of these sizes.
            unsafe { (self.convert)(self.device, &raw const conversion) }
                .result()
                .map_err(VulkanError::of("vkConvertCooperativeVectorMatrixNV"))
        };
        call(&mut size, ptr::null_mut())?;
        let mut optimal = vec![0_u8; size];
        call(&mut size, optimal.as_mut_ptr().cast())?;
        Ok(optimal)
    }
}

//! Pipelines of the compiled shaders.

use std::ffi::CStr;

use ash::vk;

use super::device::Device;
use super::error::VulkanError;
use crate::Precision;

/// A shader of `shaders/`, compiled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shader {
    ForloopForward,
    ForloopBackward,
    CoopvecForward,
    CoopvecBackward,
    CoopmatForward,
    CoopmatBackward,
    GradientsTile,
    GradientsCoopmat,
    Reduce,
}

/// Arrays that a shader can name: see the `binding`s in `shaders/`.
pub(super) const BINDINGS: u32 = 12;

/// What a shader is called with: `Call` in `shaders/network.glsl`.
#[derive(Debug, Clone, Copy, Default)]
#[repr(C)]
pub(super) struct Call {
    pub(super) count: u32,
    pub(super) samples: u32,
    pub(super) rows: u32,
    pub(super) layer: u32,
    pub(super) parts: u32,
    pub(super) parameters: u32,
}

const BYTES_OF_CALL: u32 = 6 * 4;

impl Call {
    fn bytes(self) -> [u8; BYTES_OF_CALL as usize] {
        let Call { count, samples, rows, layer, parts, parameters } = self;
        let mut bytes = [0; BYTES_OF_CALL as usize];
        let numbers = [count, samples, rows, layer, parts, parameters];
        for (bytes, number) in bytes.chunks_exact_mut(4).zip(numbers) {
            bytes.copy_from_slice(&number.to_ne_bytes());
        }
        bytes
    }
}

impl Shader {
    /// Its code in SPIR-V. Matrices and vectors are of 16-bit numbers, and sums of 32-bit ones,
    /// whatever the precision.
    fn code(self, precision: Precision) -> &'static [u8] {
        macro_rules! spirv {
            ($name:literal) => {
                include_bytes!(concat!("shaders/spirv/", $name, ".spv"))
            };
        }
        let half = precision == Precision::F16;
        match self {
            Shader::ForloopForward if half => spirv!("forloop_forward.fp16"),
            Shader::ForloopForward => spirv!("forloop_forward.fp32"),
            Shader::ForloopBackward if half => spirv!("forloop_backward.fp16"),
            Shader::ForloopBackward => spirv!("forloop_backward.fp32"),
            Shader::GradientsTile if half => spirv!("gradients_tile.fp16"),
            Shader::GradientsTile => spirv!("gradients_tile.fp32"),
            Shader::CoopvecForward => spirv!("coopvec_forward.fp16"),
            Shader::CoopvecBackward => spirv!("coopvec_backward.fp16"),
            Shader::CoopmatForward => spirv!("coopmat_forward.fp16"),
            Shader::CoopmatBackward => spirv!("coopmat_backward.fp16"),
            Shader::GradientsCoopmat => spirv!("gradients_coopmat.fp16"),
            Shader::Reduce => spirv!("reduce.fp32"),
        }
    }
}

/// The arrays and the call that all shaders share.
pub(super) struct Interface {
    device: Device,
    pub(super) arrays: vk::DescriptorSetLayout,
    pub(super) layout: vk::PipelineLayout,
}

impl Interface {
    pub(super) fn new(device: &Device) -> Result<Self, VulkanError> {
        let kind = |binding| {
            if binding == 0 { vk::DescriptorType::UNIFORM_BUFFER } else { vk::DescriptorType::STORAGE_BUFFER }
        };
        let bindings: Vec<_> = (0..BINDINGS)
            .map(|binding| {
                vk::DescriptorSetLayoutBinding::default()
                    .binding(binding)
                    .descriptor_type(kind(binding))
                    .descriptor_count(1)
                    .stage_flags(vk::ShaderStageFlags::COMPUTE)
            })
            .collect();
        let of_arrays = vk::DescriptorSetLayoutCreateInfo::default().bindings(&bindings);
        let logical = &device.0.logical;
        // SAFETY: the structures live until the calls return; what is made is destroyed with the
        // interface, also on failure.
        unsafe {
            let arrays = logical
                .create_descriptor_set_layout(&of_arrays, None)
                .map_err(VulkanError::of("vkCreateDescriptorSetLayout"))?;
            let mut interface =
                Interface { device: device.clone(), arrays, layout: vk::PipelineLayout::null() };
            let sets = [arrays];
            let calls = [vk::PushConstantRange {
                stage_flags: vk::ShaderStageFlags::COMPUTE,
                offset: 0,
                size: BYTES_OF_CALL,
            }];
            let of_layout =
                vk::PipelineLayoutCreateInfo::default().set_layouts(&sets).push_constant_ranges(&calls);
            interface.layout = logical
                .create_pipeline_layout(&of_layout, None)
                .map_err(VulkanError::of("vkCreatePipelineLayout"))?;
            Ok(interface)
        }
    }

    /// Queues a call of a pipeline.
    ///
    /// # Safety
    /// The commands are being recorded; the arrays that the shader names are bound.
    pub(super) unsafe fn call(
        &self,
        commands: vk::CommandBuffer,
        pipeline: &Pipeline,
        call: Call,
        groups: [u32; 2],
    ) {
        let logical = &self.device.0.logical;
        // SAFETY: the caller's.
        unsafe {
            logical.cmd_bind_pipeline(commands, vk::PipelineBindPoint::COMPUTE, pipeline.handle);
            let compute = vk::ShaderStageFlags::COMPUTE;
            logical.cmd_push_constants(commands, self.layout, compute, 0, &call.bytes());
            logical.cmd_dispatch(commands, groups[0], groups[1], 1);
        }
    }
}

impl Drop for Interface {
    fn drop(&mut self) {
        // SAFETY: every submission was waited for.
        unsafe {
            self.device.0.logical.destroy_pipeline_layout(self.layout, None);
            self.device.0.logical.destroy_descriptor_set_layout(self.arrays, None);
        }
    }
}

/// A shader with its constants.
pub(super) struct Pipeline {
    device: Device,
    handle: vk::Pipeline,
}

const MAIN: &CStr = c"main";

impl Pipeline {
    /// `constants`: those with the numbers 0, 1, … in `shaders/`. `full`: its subgroups work
    /// together, and must have all their threads.
    pub(super) fn new(
        interface: &Interface,
        shader: Shader,
        precision: Precision,
        constants: &[u32],
        full: bool,
    ) -> Result<Self, VulkanError> {
        let device = &interface.device;
        let logical = &device.0.logical;
        let code: Vec<u32> = shader
            .code(precision)
            .chunks_exact(4)
            .map(|word| u32::from_le_bytes([word[0], word[1], word[2], word[3]]))
            .collect();
        let entries: Vec<_> = (0..)
            .zip(constants)
            .map(|(id, _)| vk::SpecializationMapEntry { constant_id: id, offset: 4 * id, size: 4 })
            .collect();
        let data: Vec<u8> = constants.iter().flat_map(|constant| constant.to_ne_bytes()).collect();
        let specialization = vk::SpecializationInfo::default().map_entries(&entries).data(&data);
        let of_module = vk::ShaderModuleCreateInfo::default().code(&code);
        // SAFETY: the code is what the shader compiler wrote; the structures live until the calls
        // return; a module is not needed once the pipeline is made.
        unsafe {
            let module = logical
                .create_shader_module(&of_module, None)
                .map_err(VulkanError::of("vkCreateShaderModule"))?;
            let mut size = vk::PipelineShaderStageRequiredSubgroupSizeCreateInfo::default()
                .required_subgroup_size(device.0.abilities.subgroup);
            let mut stage = vk::PipelineShaderStageCreateInfo::default()
                .stage(vk::ShaderStageFlags::COMPUTE)
                .module(module)
                .name(MAIN)
                .specialization_info(&specialization);
            if full && device.0.abilities.fixed_subgroups {
                stage = stage
                    .flags(vk::PipelineShaderStageCreateFlags::REQUIRE_FULL_SUBGROUPS)
                    .push_next(&mut size);
            }
            let pipeline = vk::ComputePipelineCreateInfo::default().stage(stage).layout(interface.layout);
            let made = logical.create_compute_pipelines(vk::PipelineCache::null(), &[pipeline], None);
            logical.destroy_shader_module(module, None);
            let made = made.map_err(|(_, result)| VulkanError::of("vkCreateComputePipelines")(result))?;
            Ok(Pipeline { device: device.clone(), handle: made[0] })
        }
    }
}

impl Drop for Pipeline {
    fn drop(&mut self) {
        // SAFETY: every submission was waited for.
        unsafe { self.device.0.logical.destroy_pipeline(self.handle, None) };
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::fmt::Write as _;
    use std::fs;
    use std::path::Path;

    use sha2::{Digest as _, Sha256};

    /// A shader that changed must be compiled: `shaders/compile`.
    #[test]
    fn the_shaders_are_those_that_were_compiled() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/vulkan/shaders");
        let mut found = BTreeMap::new();
        for entry in fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            if path.extension().is_some_and(|extension| extension == "comp" || extension == "glsl") {
                let mut hash = String::new();
                for byte in Sha256::digest(fs::read(&path).unwrap()) {
                    write!(hash, "{byte:02x}").unwrap();
                }
                found.insert(path.file_name().unwrap().to_str().unwrap().to_owned(), hash);
            }
        }
        let sources = fs::read_to_string(folder.join("sources.sha256")).unwrap();
        let compiled: BTreeMap<String, String> = sources
            .lines()
            .map(|line| line.split_once("  ").unwrap())
            .map(|(hash, name)| (name.to_owned(), hash.to_owned()))
            .collect();
        assert_eq!(found, compiled, "a shader changed: run src/vulkan/shaders/compile");
    }
}

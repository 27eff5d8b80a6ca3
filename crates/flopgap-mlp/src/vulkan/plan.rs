//! Which shaders compute a network, and with which constants.

use crate::cuda::Implementation;
use crate::{MlpError, Network, Precision};

use super::abilities::Abilities;
use super::device::Device;
use super::error::VulkanError;
use super::pipeline::Shader;
use super::shape::{BLOCK, Shape};

/// Threads of a workgroup in which each has a sample.
const THREADS: u32 = 64;
/// The widest layer whose numbers one thread holds.
const WIDEST_OF_A_THREAD: usize = 2048;
/// Threads of [`Shader::GradientsTile`] and [`Shader::Reduce`].
pub(super) const SUMMING: u32 = 256;
/// Subgroups of [`Shader::GradientsCoopmat`].
const SUBGROUPS: u32 = 4;
/// So many workgroups should sum gradients at once: several of each multiprocessor of a large GPU.
const PARALLEL: usize = 1024;
/// Fewer rows are not worth a partial sum.
const ROWS_OF_A_PART: usize = 128;
/// Bytes that partial sums may take.
const PARTIALS: usize = 512 << 20;

/// The constant of forward passes that keep what backward passes need.
pub(super) const KEEP: usize = 4;

/// A pass through the layers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Chain {
    pub(super) shader: Shader,
    pub(super) constants: Vec<u32>,
    /// Rows of a workgroup.
    pub(super) rows: usize,
}

/// The gradients by the parameters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Gradients {
    pub(super) shader: Shader,
    pub(super) constants: Vec<u32>,
}

/// Everything about a network on a device.
#[derive(Debug, Clone)]
pub(super) struct Plan {
    /// Never [`Implementation::Auto`].
    pub(super) implementation: Implementation,
    pub(super) shape: Shape,
    /// Its constant [`KEEP`] is 0; for training passes it is 1.
    pub(super) forward: Chain,
    pub(super) backward: Chain,
    pub(super) gradients: Gradients,
    /// The side of matrices, where weights lie matrix after matrix.
    pub(super) side: Option<usize>,
}

impl Plan {
    /// # Errors
    /// [`MlpError::Unsupported`] with the alternative; [`MlpError::Widths`].
    pub(super) fn new(
        device: &Device,
        network: &Network,
        precision: Precision,
        implementation: Implementation,
    ) -> Result<Self, MlpError> {
        network.check_for_gpu()?;
        let abilities = &device.0.abilities;
        let refuse = |implementation, reason| unsupported(device, implementation, precision, reason);
        if precision == Precision::Bf16 {
            return Err(refuse(implementation, "there are shaders for fp32 and fp16".to_owned()));
        }
        if precision == Precision::F16 && !abilities.half {
            return Err(refuse(implementation, "the device has no 16-bit numbers; use fp32".to_owned()));
        }
        let attempt = |implementation| {
            Self::of(abilities, network, precision, implementation)
                .map_err(|reason| refuse(implementation, reason))
        };
        match implementation {
            Implementation::Auto => [Implementation::Coopmat, Implementation::Coopvec]
                .into_iter()
                .find_map(|faster| attempt(faster).ok())
                .map_or_else(|| attempt(Implementation::Forloop), Ok),
            asked => attempt(asked),
        }
    }

    /// What a pipeline that the driver does not make means: NVIDIA's fails on vectors that are
    /// shorter than the longest that it names (512 with driver 580).
    pub(super) fn refused_by_driver(
        &self,
        device: &Device,
        precision: Precision,
        error: VulkanError,
    ) -> MlpError {
        match error {
            VulkanError::Call { call: "vkCreateComputePipelines", result }
                if self.implementation == Implementation::Coopvec =>
            {
                let widest = self.shape.widest();
                let reason = format!(
                    "the driver does not compile cooperative vectors of {widest} numbers ({result}); use coopmat or forloop"
                );
                unsupported(device, self.implementation, precision, reason)
            }
            error => error.into(),
        }
    }

    /// Or why there is none.
    fn of(
        abilities: &Abilities,
        network: &Network,
        precision: Precision,
        implementation: Implementation,
    ) -> Result<Self, String> {
        let half = precision == Precision::F16;
        let shape = Shape::new(network, implementation != Implementation::Forloop);
        let last = network.layers() - 1;
        let number = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
        let common = |threads: u32| {
            let [hidden, output] = [0, last].map(|layer| number(network.activation(layer).index()));
            vec![hidden, output, number(shape.widest()), threads, 0]
        };
        let chains = |[forward, backward]: [Shader; 2], constants: Vec<u32>, rows: usize| {
            let chain = |shader| Chain { shader, constants: constants.clone(), rows };
            (chain(forward), chain(backward))
        };
        let threads = THREADS as usize;
        let widths = [shape.inputs(), shape.widths[1], shape.outputs()].map(number);
        let (forward, backward) = match implementation {
            Implementation::Forloop if shape.widest() > WIDEST_OF_A_THREAD => {
                return Err(format!("layers wider than {WIDEST_OF_A_THREAD} have no shader on Vulkan"));
            }
            Implementation::Forloop => {
                let shaders = [Shader::ForloopForward, Shader::ForloopBackward];
                chains(shaders, common(THREADS), threads)
            }
            Implementation::Coopvec | Implementation::Coopmat if !half => {
                return Err(
                    "the device's vectors and matrices are of 16 bits; use fp16 or forloop".to_owned()
                );
            }
            Implementation::Coopvec if abilities.vectors == 0 => {
                return Err("the driver has no VK_NV_cooperative_vector; use forloop or coopmat".to_owned());
            }
            Implementation::Coopvec if shape.widest() > abilities.vectors => {
                return Err(format!(
                    "cooperative vectors have up to {} numbers here; use forloop or coopmat",
                    abilities.vectors
                ));
            }
            Implementation::Coopvec => {
                // The driver's own layout of matrices.
                const INFERENCING_OPTIMAL: u32 = 2;
                let constants = [&common(THREADS)[..], &widths, &[INFERENCING_OPTIMAL]].concat();
                chains([Shader::CoopvecForward, Shader::CoopvecBackward], constants, threads)
            }
            Implementation::Coopmat => {
                let Some(side) = abilities.matrix else {
                    return Err(
                        "the driver has no VK_KHR_cooperative_matrix of 16-bit numbers with sums in 32 bits; \
                         use forloop"
                            .to_owned(),
                    );
                };
                let Some(tiling) = Tiling::of(abilities, side as usize, shape.widest()) else {
                    return Err(format!(
                        "layers of {} numbers do not fit shared memory; use forloop",
                        shape.widest()
                    ));
                };
                let Tiling { row_matrices, row_groups, column_groups } = tiling;
                let threads = abilities.subgroup * number(row_groups * column_groups);
                let of_tiles = [row_matrices, row_groups, column_groups].map(number);
                let constants = [&common(threads)[..], &[side], &of_tiles, &widths].concat();
                let rows = side as usize * row_matrices * row_groups;
                chains([Shader::CoopmatForward, Shader::CoopmatBackward], constants, rows)
            }
            _ => return Err("it has no shader for Vulkan; use forloop".to_owned()),
        };
        let matrix = abilities.matrix.filter(|_| half && implementation != Implementation::Forloop);
        let gradients = match matrix {
            Some(side) => {
                let threads = abilities.subgroup * SUBGROUPS;
                let constants = [&common(threads)[..], &[side, threads]].concat();
                Gradients { shader: Shader::GradientsCoopmat, constants }
            }
            None => Gradients { shader: Shader::GradientsTile, constants: common(SUMMING) },
        };
        let side = (implementation == Implementation::Coopmat).then(|| matrix.unwrap_or(16) as usize);
        Ok(Plan { implementation, shape, forward, backward, gradients, side })
    }

    /// Workgroups that sum the gradients of a part of the rows of a layer.
    pub(super) fn blocks(&self, layer: usize) -> usize {
        self.shape.widths[layer].div_ceil(BLOCK) * self.shape.widths[layer + 1].div_ceil(BLOCK)
    }

    /// Parts that the rows of a batch are split into for the gradients.
    pub(super) fn parts(&self, rows: usize) -> usize {
        let blocks = (0..self.shape.layers()).map(|layer| self.blocks(layer)).max().unwrap_or(1);
        let most = (PARTIALS / 4 / self.shape.parameters()).max(1);
        (PARALLEL / blocks).clamp(1, (rows / ROWS_OF_A_PART).max(1)).min(most)
    }
}

fn unsupported(
    device: &Device,
    implementation: Implementation,
    precision: Precision,
    reason: String,
) -> MlpError {
    MlpError::Unsupported {
        implementation: implementation.to_string(),
        precision: precision.to_string(),
        architecture: format!("{} (Vulkan)", device.name()),
        reason,
    }
}

/// How subgroups divide a tile of samples: matrices of each below each other, and subgroups below
/// each other and side by side.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Tiling {
    row_matrices: usize,
    row_groups: usize,
    column_groups: usize,
}

impl Tiling {
    /// The first that fits: the wider the layers, the more subgroups divide the columns, and the
    /// fewer samples share a tile.
    fn of(abilities: &Abilities, side: usize, widest: usize) -> Option<Self> {
        // The first is the fastest of eight for 64-64-16 on an H100, the second for 128-128-32, the
        // third of five for 256-256-64.
        const CANDIDATES: [[usize; 3]; 7] =
            [[2, 2, 2], [4, 1, 4], [4, 1, 8], [2, 1, 8], [1, 1, 8], [2, 1, 4], [1, 1, 4]];
        let fits = |&[row_matrices, row_groups, column_groups]: &[usize; 3]| {
            let column_matrices = (widest / side).div_ceil(column_groups);
            let bytes = side * row_matrices * row_groups * (widest / 8 + 1) * 16;
            let threads = abilities.subgroup as usize * row_groups * column_groups;
            // Registers: sums of a subgroup.
            let sums = row_matrices * column_matrices * side / 16;
            let most = if row_matrices == 1 { 12 } else { 8 };
            (bytes <= abilities.shared && threads <= abilities.threads as usize && sums <= most)
                .then_some(Tiling { row_matrices, row_groups, column_groups })
        };
        CANDIDATES.iter().find_map(fits)
    }
}

#[cfg(test)]
mod tests {
    use super::super::shape::ROWS;
    use super::*;
    use crate::Size;

    /// As an H200 says it.
    const GPU: Abilities = Abilities {
        processor: false,
        subgroup: 32,
        fixed_subgroups: true,
        shared: 48 << 10,
        threads: 1024,
        workgroups: i32::MAX as u32,
        buffer: u32::MAX as u64,
        half: true,
        memory_model: true,
        matrix: Some(16),
        vectors: 1024,
        tick: Some(1.0),
    };

    #[test]
    fn tiles_fit_shared_memory_and_divide_the_rows_of_a_batch() {
        for widest in (16..=1536).step_by(16) {
            for (side, subgroup) in [(16, 32), (8, 8)] {
                let Some(tiling) = Tiling::of(&Abilities { subgroup, ..GPU }, side, widest) else {
                    assert!(widest > 1500 || side == 8, "{widest}");
                    continue;
                };
                let rows = side * tiling.row_matrices * tiling.row_groups;
                assert_eq!(ROWS % rows, 0, "{widest}");
                assert!(rows * (widest + 8) * 2 <= GPU.shared, "{widest}");
            }
        }
        let rows = |size: Size| {
            let plan = Plan::of(&GPU, &size.network(), Precision::F16, Implementation::Coopmat).unwrap();
            plan.forward.rows
        };
        assert_eq!(Size::ALL.map(rows), [64, 64, 64, 32]);
    }

    #[test]
    fn what_a_device_cannot_do_names_what_it_can() {
        let network = Size::Small.network();
        let reason = |abilities: &Abilities, precision, implementation| {
            Plan::of(abilities, &network, precision, implementation).err().unwrap_or_default()
        };
        let (coopvec, coopmat) = (Implementation::Coopvec, Implementation::Coopmat);
        let none = Abilities { matrix: None, vectors: 0, ..GPU };
        assert!(reason(&none, Precision::F16, coopvec).contains("VK_NV_cooperative_vector; use forloop"));
        assert!(reason(&none, Precision::F16, coopmat).contains("VK_KHR_cooperative_matrix"));
        assert!(reason(&GPU, Precision::F32, coopmat).ends_with("use fp16 or forloop"));
        assert!(reason(&GPU, Precision::F16, Implementation::Naive).ends_with("use forloop"));
        let short = Abilities { vectors: 32, ..GPU };
        assert!(reason(&short, Precision::F16, coopvec).starts_with("cooperative vectors have up to 32"));
    }

    #[test]
    fn gradients_are_split_so_that_all_of_a_gpu_works_and_memory_suffices() {
        let plan = |widths: &[usize]| {
            let network = Network::new(widths).unwrap();
            Plan::of(&GPU, &network, Precision::F16, Implementation::Coopmat).unwrap()
        };
        // One block a layer.
        assert_eq!(plan(&[64, 64, 16]).parts(1 << 20), 1024);
        assert_eq!([0, 1].map(|layer| plan(&[64, 128, 16]).blocks(layer)), [2, 2]);
        // 64 blocks of 64 x 64.
        assert_eq!(plan(&[512, 512, 128]).parts(1 << 20), 16);
        assert_eq!(plan(&[64, 64, 16]).parts(256), 2);
        assert_eq!(plan(&[1024, 1024, 1024, 1024]).parts(1 << 20), 4);
    }
}

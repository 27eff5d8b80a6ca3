//! From operations to an execution plan: heuristics ask which engine, on a device or for one that
//! is only described.

use cudarc::cudnn::sys;
use sys::cudnnBackendAttributeName_t as Name;
use sys::cudnnBackendAttributeType_t as Type;
use sys::cudnnBackendDescriptorType_t as Kind;

use super::api::{Api, Object};
use super::choice::{Candidate, Choice, Heuristic};
use super::convolution::Convolution;
use super::descriptor::{Character, Descriptor, HeuristicMode};
use super::operations::{Form, Fusion, Operand, Operations};
use crate::device::Device;
use crate::error::GpuError;

/// Options for choosing an engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Search {
    /// The heuristic that ranks engines. Where it names none that works, [`Heuristic::Fallback`]
    /// does.
    pub heuristic: Heuristic,
    /// Bytes of workspace at most.
    pub workspace: usize,
    /// The number of good engines to skip, in order to time the next ones: 0 takes the best.
    pub skip: usize,
}

impl Default for Search {
    fn default() -> Self {
        Search { heuristic: Heuristic::A, workspace: 1 << 30, skip: 0 }
    }
}

/// Chooses engines, on a device or without one.
#[derive(Debug)]
pub struct Planner {
    api: &'static Api,
    target: Target,
}

#[derive(Debug)]
enum Target {
    /// An open device.
    Handle(Object),
    /// A device that need not be there.
    Described(Descriptor),
}

// SAFETY: the handle is only used while plans are made, by one thread at a time: `Dnn` locks it.
unsafe impl Send for Target {}
// SAFETY: as above.
unsafe impl Sync for Target {}

/// A plan with what it was made of.
#[derive(Debug)]
pub(super) struct Planned {
    pub(super) plan: Descriptor,
    /// What the plan is described by, which must live as long.
    pub(super) _operations: Operations,
    pub(super) _graph: Descriptor,
    pub(super) operands: Vec<Operand>,
    pub(super) choice: Choice,
}

/// Configurations that a heuristic names for a form, best first.
struct Ranked {
    heuristic: Heuristic,
    form: Form,
    operations: Operations,
    graph: Descriptor,
    configurations: Vec<(usize, Descriptor, Candidate)>,
    /// The engines of last resort.
    slow: Vec<i64>,
}

impl Ranked {
    /// Whether the best of them is an engine of last resort, or there is none.
    fn is_last_resort(&self) -> bool {
        self.configurations.first().is_none_or(|(_, _, best)| self.slow.contains(&best.engine))
    }
}

impl Planner {
    /// Chooses engines for a device that this machine need not have. Nothing can be run, and
    /// engines that cuDNN compiles itself are named only where NVIDIA's driver is installed.
    ///
    /// # Errors
    /// When cuDNN is missing, or too old to describe a device (before 9.11).
    pub fn described(device: &Device) -> Result<Self, GpuError> {
        let api = Api::load()?;
        let mut description = Descriptor::new(api, Kind::CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR)?;
        let text: Vec<Character> = describe(device).bytes().map(Character).collect();
        description.set(Name::CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, &text)?;
        Ok(Planner { api, target: Target::Described(description.finalize()?) })
    }

    /// Chooses engines for the device of a handle, which must outlive this.
    pub(super) fn of_handle(api: &'static Api, handle: Object) -> Self {
        Planner { api, target: Target::Handle(handle) }
    }

    /// Which engine computes a convolution with what follows, without running it.
    ///
    /// # Errors
    /// [`GpuError::NoEngine`] when cuDNN has none; [`GpuError::Shape`].
    pub fn choose(
        &self,
        convolution: &Convolution,
        fusion: &Fusion,
        search: Search,
    ) -> Result<Choice, GpuError> {
        Ok(self.plan(convolution, fusion, search)?.choice)
    }

    /// The plan of a convolution: the first form whose best engine is no last resort, else the
    /// first form that has an engine at all.
    pub(super) fn plan(
        &self,
        convolution: &Convolution,
        fusion: &Fusion,
        search: Search,
    ) -> Result<Planned, GpuError> {
        let (mut skip, mut reason, mut later) = (search.skip, None, Vec::new());
        for form in Form::of(convolution, fusion) {
            let ranked = self.rank(convolution, fusion, form, search.heuristic)?;
            if ranked.is_last_resort() {
                later.push(ranked);
            } else if let Some(planned) = self.first(ranked, search.workspace, &mut skip, &mut reason) {
                return Ok(planned);
            }
        }
        for ranked in later {
            if let Some(planned) = self.first(ranked, search.workspace, &mut skip, &mut reason) {
                return Ok(planned);
            }
        }
        for form in Form::of(convolution, fusion) {
            let ranked = self.rank(convolution, fusion, form, Heuristic::Fallback)?;
            if let Some(planned) = self.first(ranked, search.workspace, &mut skip, &mut reason) {
                return Ok(planned);
            }
        }
        Err(GpuError::NoEngine { what: "this convolution", reason })
    }

    /// The best configuration that becomes a plan within the workspace, after `skip` that do. Notes
    /// why the first did not.
    fn first(
        &self,
        ranked: Ranked,
        most: usize,
        skip: &mut usize,
        reason: &mut Option<String>,
    ) -> Option<Planned> {
        let Ranked { heuristic, form, operations, graph, configurations, slow } = ranked;
        for (rank, configuration, candidate) in configurations {
            match self.finish(&configuration) {
                Ok((_, workspace)) if workspace > most => {
                    reason.get_or_insert_with(|| {
                        format!("a workspace of {workspace} bytes, {most} are allowed")
                    });
                }
                Ok(_) if *skip > 0 => *skip -= 1,
                Ok((plan, workspace)) => {
                    let choice = candidate.choice((heuristic, rank), form, workspace, &slow);
                    let operands = operations.operands.clone();
                    return Some(Planned { plan, _operations: operations, _graph: graph, operands, choice });
                }
                Err(error) => {
                    reason.get_or_insert_with(|| error.to_string());
                }
            }
        }
        None
    }

    /// What a heuristic names for a form.
    fn rank(
        &self,
        convolution: &Convolution,
        fusion: &Fusion,
        form: Form,
        heuristic: Heuristic,
    ) -> Result<Ranked, GpuError> {
        let operations = Operations::new(self.api, convolution, fusion, form)?;
        let graph = operations.graph(self.api, |graph| {
            if let Target::Handle(handle) = self.target {
                graph.set_handle(Name::CUDNN_ATTR_OPERATIONGRAPH_HANDLE, handle)?;
            }
            Ok(())
        });
        // A graph of which cuDNN knows no engine at all is refused here.
        let Ok(graph) = graph else {
            let nothing = Descriptor::new(self.api, Kind::CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR)?;
            let configurations = Vec::new();
            return Ok(Ranked {
                heuristic,
                form,
                operations,
                graph: nothing,
                configurations,
                slow: Vec::new(),
            });
        };
        let mut configurations = Vec::new();
        for (rank, configuration) in self.configurations(&graph, heuristic).into_iter().enumerate() {
            let candidate = Candidate::of(&configuration)?;
            if candidate.is_allowed(convolution.arithmetic) {
                configurations.push((rank, configuration, candidate));
            }
        }
        let slow: Result<Vec<i64>, GpuError> = self
            .configurations(&graph, Heuristic::Fallback)
            .iter()
            .map(|configuration| Ok(Candidate::of(configuration)?.engine))
            .collect();
        Ok(Ranked { heuristic, form, operations, graph, configurations, slow: slow? })
    }

    /// The configurations that a heuristic returns, best first; none where it knows none.
    fn configurations(&self, graph: &Descriptor, heuristic: Heuristic) -> Vec<Descriptor> {
        let ask = || -> Result<Vec<Descriptor>, GpuError> {
            let mut query = Descriptor::new(self.api, Kind::CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR)?;
            query.set_descriptors(Name::CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, &[graph])?;
            query.set(Name::CUDNN_ATTR_ENGINEHEUR_MODE, &[HeuristicMode(heuristic.mode() as u32)])?;
            if let Target::Described(device) = &self.target {
                query.set_descriptors(Name::CUDNN_ATTR_ENGINEHEUR_DEVICEPROP, &[device])?;
            }
            let query = query.finalize()?;
            let results = Name::CUDNN_ATTR_ENGINEHEUR_RESULTS;
            let count = query.count(results, Type::CUDNN_TYPE_BACKEND_DESCRIPTOR)?;
            query.descriptors(results, Kind::CUDNN_BACKEND_ENGINECFG_DESCRIPTOR, count)
        };
        ask().unwrap_or_default()
    }

    /// The plan of a configuration and the workspace that it needs.
    fn finish(&self, configuration: &Descriptor) -> Result<(Descriptor, usize), GpuError> {
        let mut plan = Descriptor::new(self.api, Kind::CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR)?;
        match &self.target {
            Target::Handle(handle) => plan.set_handle(Name::CUDNN_ATTR_EXECUTION_PLAN_HANDLE, *handle)?,
            Target::Described(device) => {
                plan.set_descriptors(Name::CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP, &[device])?
            }
        };
        plan.set_descriptors(Name::CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, &[configuration])?;
        let plan = plan.finalize()?;
        let bytes = plan.get::<i64>(Name::CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, 1)?;
        let bytes = bytes.first().and_then(|&bytes| usize::try_from(bytes).ok()).unwrap_or(usize::MAX);
        Ok((plan, bytes))
    }
}

/// A device in the JSON that cuDNN writes and reads.
fn describe(device: &Device) -> String {
    use std::fmt::Write as _;
    let capability = device.compute_capability.major * 100 + device.compute_capability.minor * 10;
    let fields = [
        ("cudaDeviceId", 0),
        ("deviceVer", u64::from(capability)),
        // The newest driver API of which this crate knows; only old ones restrict the engines.
        ("driverVer", 13_000),
        ("isTccDriver", 0),
        ("l2CacheSize", device.l2_bytes),
        ("maxCtasPerSM", 32),
        ("maxRegistersPerSM", u64::from(device.registers_per_multiprocessor)),
        ("maxSharedMemoryPerBlock", 48 << 10),
        ("maxSharedMemoryPerBlockOptin", device.shared_bytes_per_block),
        ("maxThreadsPerBlock", 1024),
        ("maxThreadsPerSM", u64::from(device.threads_per_multiprocessor)),
        ("memClockRateKHz", u64::from(device.memory_clock_khz)),
        ("multiProcessorCount", u64::from(device.multiprocessors)),
        ("pciDeviceId", 0),
        ("regsPerBlock", u64::from(device.registers_per_multiprocessor)),
        ("reservedSharedMemoryPerBlock", 1024),
        ("smClockRateKHz", u64::from(device.clock_khz)),
        ("supportCoopLaunch", 1),
        ("totalGlobalMem", device.memory_bytes),
        ("warpSize", u64::from(device.warp_size)),
    ];
    let mut text = "{".to_owned();
    for (name, value) in fields {
        let _ = write!(text, "\"{name}\":{value},");
    }
    // The name is only shown; a quote or a backslash in it would end the text.
    let name: String = device.name.chars().filter(|c| !matches!(c, '"' | '\\') && !c.is_control()).collect();
    let _ = write!(text, "\"deviceName\":\"{name}\",");
    text.push_str("\"maxGridSize\":[2147483647,65535,65535],\"maxBlockSize\":[1024,1024,64]}");
    text
}

#[cfg(test)]
mod tests {
    use flopgap_files::Hint as _;

    use super::super::{Activation, Arithmetic, Layout, Trait};
    use super::*;
    use crate::capability::ComputeCapability;

    fn h200() -> Device {
        Device {
            index: 0,
            name: "NVIDIA \"H200\"".to_owned(),
            uuid: String::new(),
            compute_capability: ComputeCapability { major: 9, minor: 0 },
            multiprocessors: 132,
            clock_khz: 1_980_000,
            memory_clock_khz: 3_201_000,
            memory_bus_bits: 6144,
            memory_bytes: 150_109_880_320,
            l2_bytes: 62_914_560,
            shared_bytes_per_multiprocessor: 233_472,
            shared_bytes_per_block: 232_448,
            registers_per_multiprocessor: 65_536,
            threads_per_multiprocessor: 2048,
            warp_size: 32,
            constant_bytes: 65_536,
        }
    }

    fn block(arithmetic: Arithmetic, layout: Layout) -> Convolution {
        Convolution {
            arithmetic,
            layout,
            batch: 16,
            inputs: 64,
            outputs: 64,
            groups: 1,
            image: vec![56, 56],
            kernel: vec![3, 3],
            stride: vec![1, 1],
            dilation: vec![1, 1],
            padding: vec![[1, 1]; 2],
            transposed: false,
            output_padding: vec![0, 0],
        }
    }

    const RELU: Fusion = Fusion { bias: true, activation: Activation::Relu, ..Fusion::NONE };

    /// The planner for an H200, or `None` where cuDNN is not on this machine.
    fn planner() -> Option<Planner> {
        match Planner::described(&h200()) {
            Ok(planner) => Some(planner),
            Err(error) if error.is_absence() => flopgap_testing::none("cudnn", error),
            Err(error) => panic!("{error}"),
        }
    }

    #[test]
    fn a_name_cannot_end_the_description_of_a_device() {
        let text = describe(&h200());
        assert!(text.contains("\"deviceName\":\"NVIDIA H200\","), "{text}");
        assert!(text.contains("\"deviceVer\":900,"), "{text}");
    }

    #[test]
    fn blocks_of_a_resnet_are_fused_in_every_arithmetic() {
        let Some(planner) = planner() else { return };
        for arithmetic in Arithmetic::ALL {
            for residual in [false, true] {
                let fusion = Fusion { residual, ..RELU };
                let convolution = block(arithmetic, Layout::ChannelsLast);
                let choice = planner.choose(&convolution, &fusion, Search::default()).unwrap();
                assert_eq!(choice.form, Form::Classic, "{arithmetic:?}: {choice:?}");
                assert_eq!(choice.heuristic, Heuristic::A, "{arithmetic:?}: {choice:?}");
                let cores = !matches!(arithmetic, Arithmetic::Fp32 | Arithmetic::Int8);
                assert_eq!(choice.traits.contains(&Trait::TensorCores), cores, "{arithmetic:?}: {choice:?}");
            }
        }
    }

    #[test]
    fn engines_may_be_passed_over_and_none_left_is_an_error() {
        let Some(planner) = planner() else { return };
        let convolution = block(Arithmetic::Fp32, Layout::ChannelsLast);
        let choose = |skip| planner.choose(&convolution, &RELU, Search { skip, ..Search::default() });
        let (first, second) = (choose(0).unwrap(), choose(1).unwrap());
        assert!(first.rank < second.rank || first.heuristic != second.heuristic, "{first:?} {second:?}");
        let error = choose(1000).unwrap_err();
        assert!(matches!(error, GpuError::NoEngine { .. }), "{error}");
    }

    #[test]
    fn any_sizes_have_an_engine() {
        let Some(planner) = planner() else { return };
        for arithmetic in Arithmetic::ALL {
            let plain = block(arithmetic, Layout::ChannelsLast);
            let sizes = [
                Convolution { inputs: 3, kernel: vec![7, 7], stride: vec![2, 2], ..plain.clone() },
                Convolution { inputs: 31, outputs: 51, ..plain.clone() },
                Convolution { groups: 64, ..plain.clone() },
                Convolution { groups: 4, ..plain.clone() },
                Convolution { dilation: vec![2, 2], ..plain.clone() },
                Convolution { batch: 1, image: vec![1, 1], ..plain.clone() },
            ];
            for convolution in sizes {
                let choice = planner.choose(&convolution, &RELU, Search::default());
                assert!(choice.is_ok(), "{convolution:?}: {choice:?}");
            }
        }
    }
}

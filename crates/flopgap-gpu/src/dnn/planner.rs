//! From operations to an execution plan: heuristics rank the engines.

use cudarc::cudnn::sys;
use sys::cudnnBackendAttributeName_t as Name;
use sys::cudnnBackendAttributeType_t as Type;
use sys::cudnnBackendDescriptorType_t as Kind;

use super::api::{Api, Object};
use super::choice::{Candidate, Choice, Heuristic};
use super::convolution::Convolution;
use super::descriptor::{Descriptor, HeuristicMode};
use super::operations::{Form, Fusion, Operand, Operations};
use crate::error::GpuError;

/// Bytes of workspace that an engine may need.
const MOST_WORKSPACE: usize = 1 << 30;

/// Chooses engines for the device of a handle, which one thread at a time uses: `Dnn` locks it.
#[derive(Debug)]
pub(super) struct Planner {
    pub(super) api: &'static Api,
    pub(super) handle: Object,
}

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
    /// The plan of a convolution: the first form whose best engine is no last resort, else the
    /// first form that has an engine at all.
    pub(super) fn plan(&self, convolution: &Convolution, fusion: &Fusion) -> Result<Planned, GpuError> {
        let (mut reason, mut later) = (None, Vec::new());
        for form in Form::of(convolution, fusion) {
            let ranked = self.rank(convolution, fusion, form, Heuristic::A)?;
            if ranked.is_last_resort() {
                later.push(ranked);
            } else if let Some(planned) = self.first(ranked, &mut reason) {
                return Ok(planned);
            }
        }
        for ranked in later {
            if let Some(planned) = self.first(ranked, &mut reason) {
                return Ok(planned);
            }
        }
        for form in Form::of(convolution, fusion) {
            let ranked = self.rank(convolution, fusion, form, Heuristic::Fallback)?;
            if let Some(planned) = self.first(ranked, &mut reason) {
                return Ok(planned);
            }
        }
        Err(GpuError::NoEngine { what: "this convolution", reason })
    }

    /// The best configuration that becomes a plan within [`MOST_WORKSPACE`]. Notes why the first
    /// did not.
    fn first(&self, ranked: Ranked, reason: &mut Option<String>) -> Option<Planned> {
        let Ranked { heuristic, form, operations, graph, configurations, slow } = ranked;
        for (rank, configuration, candidate) in configurations {
            match self.finish(&configuration) {
                Ok((_, workspace)) if workspace > MOST_WORKSPACE => {
                    reason.get_or_insert_with(|| {
                        format!("a workspace of {workspace} bytes, {MOST_WORKSPACE} are allowed")
                    });
                }
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
        let graph = operations.graph(self.api, self.handle);
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
            let candidate = Candidate::new(&configuration)?;
            if candidate.is_allowed(convolution.arithmetic) {
                configurations.push((rank, configuration, candidate));
            }
        }
        let slow: Result<Vec<i64>, GpuError> = self
            .configurations(&graph, Heuristic::Fallback)
            .iter()
            .map(|configuration| Ok(Candidate::new(configuration)?.engine))
            .collect();
        Ok(Ranked { heuristic, form, operations, graph, configurations, slow: slow? })
    }

    /// The configurations that a heuristic returns, best first; none where it knows none.
    fn configurations(&self, graph: &Descriptor, heuristic: Heuristic) -> Vec<Descriptor> {
        let ask = || -> Result<Vec<Descriptor>, GpuError> {
            let mut query = Descriptor::new(self.api, Kind::CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR)?;
            query.set_descriptors(Name::CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, &[graph])?;
            query.set(Name::CUDNN_ATTR_ENGINEHEUR_MODE, &[HeuristicMode(heuristic.mode() as u32)])?;
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
        plan.set_handle(Name::CUDNN_ATTR_EXECUTION_PLAN_HANDLE, self.handle)?;
        plan.set_descriptors(Name::CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, &[configuration])?;
        let plan = plan.finalize()?;
        let bytes = plan.get::<i64>(Name::CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, 1)?;
        let bytes = bytes.first().and_then(|&bytes| usize::try_from(bytes).ok()).unwrap_or(usize::MAX);
        Ok((plan, bytes))
    }
}

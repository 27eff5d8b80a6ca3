//! ONNX Runtime on the CPU.

mod arena;
mod library;
mod opened;
mod profile;
mod runtime;
mod shapes;
mod values;

use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;

use crate::Origin;
use flopgap_flops::Precision;
use flopgap_graph::{FileSpec, Graph, GraphError, Mode, Op, Workload, plan, to_onnx};

use crate::engines::cpu::{self, CpuSettings, Peak, References, available_memory};
use crate::engines::engine::{Engine, Session};
use crate::engines::error::EngineError;
use crate::engines::reference;
use crate::engines::smallest::smallest;
pub(crate) use opened::ALL_ZERO;
use opened::{Measured, Model, Opened, Optimization, Reference};
use runtime::{NAME, Runtime};
use shapes::Shapes;

/// A model of a user, for [`Ort::with_file`] and
/// [`Torch::with_file`](crate::engines::Torch::with_file).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelFile {
    /// The file. Weights that an ONNX file keeps in others are read from next to it.
    pub path: PathBuf,
    /// Sizes that the model leaves open, by name: of one dimension (`batch`: 8), or of all
    /// dimensions of an input (`input`: 8, 3, 224, 224).
    pub shapes: BTreeMap<String, Vec<u64>>,
}

/// ONNX Runtime on the CPU, from the library that `pip install onnxruntime` brings: all families in
/// fp32 and int8 (QDQ), and users' models.
///
/// Models in fp16 run, and are computed in fp32 between conversions: rows say so.
///
/// ```no_run
/// use flopgap_calibration::engines::cpu::CpuSettings;
/// use flopgap_calibration::engines::{Engine as _, Ort};
/// use flopgap_flops::Precision;
/// use flopgap_graph::{Mode, ResnetSpec, Workload};
///
/// let ort = Ort::new(&CpuSettings::default())?;
/// let resnet = Workload::Resnet(ResnetSpec { depth: 18, batch: 1, image: 224 });
/// let mut session = ort.open(&resnet, Precision::Int8, Mode::Call)?;
/// let check = session.check()?;
/// assert!(check.error <= check.bound);
/// # Ok::<(), flopgap_calibration::engines::EngineError>(())
/// ```
#[derive(Debug)]
pub struct Ort {
    runtime: Runtime,
    origin: Origin,
    /// Users' models by their SHA-256.
    files: HashMap<String, ModelFile>,
    expected: RefCell<ExpectedOutputs>,
}

/// Outputs in 64 bits, whose evaluation takes seconds, by the model of the samples alone and their
/// numbers.
type ExpectedOutputs = HashMap<(Workload, Vec<usize>), Vec<f64>>;

impl Ort {
    /// Finds and loads the library. Takes a second to find the unit of times unless it is given.
    ///
    /// The library is the file of `ORT_DYLIB_PATH`, or else the one of the Python package
    /// `onnxruntime`, as far as the environment and the usual places tell. Telemetry is off.
    ///
    /// # Errors
    /// [`EngineError::Missing`] with what was searched.
    pub fn new(settings: &CpuSettings) -> Result<Self, EngineError> {
        let loaded = library::load()?;
        let mut origin = cpu::origin();
        origin.versions.insert("onnxruntime".to_owned(), loaded.version.clone());
        let references = References::new(settings.references.as_ref());
        Ok(Ort {
            runtime: Runtime { settings: settings.clone(), references, loaded },
            origin,
            files: HashMap::new(),
            expected: RefCell::default(),
        })
    }

    /// Lets workloads of files with this SHA-256 ([`FileSpec::sha256`]) run from this file.
    #[must_use]
    pub fn with_file(mut self, sha256: impl Into<String>, file: ModelFile) -> Self {
        self.files.insert(sha256.into(), file);
        self
    }

    fn file(&self, spec: &FileSpec) -> Result<&ModelFile, EngineError> {
        self.files.get(&spec.sha256).ok_or_else(|| EngineError::Missing {
            what: "the model's file",
            reason: format!("no file of this session has the recorded contents of {}", spec.name),
            hint: "pass the model's file again; it may have changed since",
        })
    }

    /// The graph of a family, or of a call that does as little as there is.
    fn graph(workload: &Workload) -> Result<Graph, GraphError> {
        match workload {
            Workload::Step(step) if step.op == Op::Empty => Workload::Step(smallest()).graph(),
            _ => workload.graph(),
        }
    }

    /// The reference for a session's output.
    fn reference(
        &self,
        workload: &Workload,
        precision: Precision,
        model: &Model,
    ) -> Result<Reference, EngineError> {
        let is_file = matches!(workload, Workload::File(_));
        let of_itself =
            |model: Model, optimization, what: &str, bound: f64| -> Result<Reference, EngineError> {
                let mut plain = Opened::of(&self.runtime, &model, optimization)?;
                Ok(Reference {
                    name: what.to_owned(),
                    samples: None,
                    outputs: plain.outputs()?,
                    bound,
                    zeros: is_file,
                })
            };
        let bound = match (precision, workload) {
            // A step of the last conversion is a larger part of outputs that fill little of its
            // range, as those of a softmax do.
            (Precision::Int8, Workload::Step(step)) if !matches!(step.op, Op::Gemm(_) | Op::Conv(_)) => 0.2,
            (Precision::Int8, _) => 0.1,
            (Precision::Fp16, _) => 5e-3,
            _ => 1e-4,
        };
        if is_file {
            return of_itself(
                model.clone(),
                Optimization::None,
                "the same engine without graph optimizations",
                bound,
            );
        }
        if precision == Precision::Int8 {
            // Node by node, the products between two conversions are computed in fp32.
            let name = "fp32 of the same engine between the same conversions";
            return of_itself(model.clone(), Optimization::None, name, bound);
        }
        let graph = Self::graph(workload).map_err(graph_failed)?;
        if precision != Precision::Fp32 {
            let bytes = to_onnx(&graph, Precision::Fp32, self.runtime.settings.seed).map_err(graph_failed)?;
            return of_itself(
                Model::Bytes(bytes.into()),
                Optimization::All,
                "fp32 of the same engine",
                bound,
            );
        }
        let samples = reference::samples(workload, &graph);
        let reduced = reference::with_samples(workload, samples.as_deref());
        let small = Self::graph(&reduced).map_err(graph_failed)?;
        if !reference::evaluates(&small) {
            return of_itself(
                model.clone(),
                Optimization::None,
                "the same engine without graph optimizations",
                bound,
            );
        }
        let key = (reduced, samples.clone().unwrap_or_default());
        let known = self.expected.borrow().get(&key).cloned();
        let outputs = if let Some(known) = known {
            known
        } else {
            let inputs = reference::inputs(&graph, samples.as_deref(), |place, length| {
                values::numbers(self.runtime.settings.seed, place, length)
            });
            let outputs = reference::evaluate(&small, self.runtime.settings.seed, inputs)
                .map_err(graph_failed)?
                .concat();
            self.expected.borrow_mut().insert(key, outputs.clone());
            outputs
        };
        // The samples are the same in other batches, their number of all is not.
        let batch = graph.tensors[graph.inputs[0]].shape.first().copied().unwrap_or(1);
        let samples = samples.map(|samples| (samples, usize::try_from(batch).unwrap_or(1)));
        Ok(Reference {
            name: "fp64".to_owned(),
            samples,
            outputs,
            bound: reference::fp32_bound(&graph),
            zeros: false,
        })
    }
}

#[expect(clippy::needless_pass_by_value, reason = "handed to map_err")]
fn graph_failed(error: GraphError) -> EngineError {
    EngineError::Failed {
        action: "writing the model".to_owned(),
        message: flopgap_files::chain(&error).to_string(),
    }
}

impl Engine for Ort {
    fn name(&self) -> &'static str {
        NAME
    }

    fn origin(&self) -> &Origin {
        &self.origin
    }

    fn modes(&self) -> &[Mode] {
        &[Mode::Call]
    }

    fn threads(&self) -> u32 {
        u32::try_from(self.runtime.settings.threads.get()).unwrap_or(u32::MAX)
    }

    fn references(&self) -> BTreeMap<String, f64> {
        self.runtime.references.best()
    }

    fn supports(&self, workload: &Workload, precision: Precision) -> Result<(), EngineError> {
        let refuse =
            |reason: String| Err(EngineError::Unsupported { engine: NAME, what: workload.label(), reason });
        if !matches!(precision, Precision::Fp32 | Precision::Fp16 | Precision::Int8) {
            return refuse(format!("it does not support {precision} on a CPU"));
        }
        if let Workload::File(spec) = workload {
            return self.file(spec).map(|_| ());
        }
        match Self::graph(workload) {
            Err(error) => refuse(flopgap_files::chain(&error).to_string()),
            Ok(graph) => match graph.unknown().next() {
                Some(layer) => refuse(format!("{} has no known operation", layer.name)),
                None => Ok(()),
            },
        }
    }

    fn open<'a>(
        &'a self,
        workload: &Workload,
        precision: Precision,
        mode: Mode,
    ) -> Result<Box<dyn Session + 'a>, EngineError> {
        self.supports(workload, precision)?;
        let unsupported =
            |reason: String| EngineError::Unsupported { engine: NAME, what: workload.label(), reason };
        if mode != Mode::Call {
            return Err(unsupported("a CPU only supports calls; streams and graphs need a GPU".to_owned()));
        }
        let mut remarks = Vec::new();
        let (model, steps) = if let Workload::File(spec) = workload {
            let file = self.file(spec)?;
            let shapes = Shapes(file.shapes.clone());
            (Model::File { path: file.path.clone(), shapes }, spec.steps.len())
        } else {
            let graph = Self::graph(workload).map_err(graph_failed)?;
            check_memory(workload, &graph)?;
            let bytes = to_onnx(&graph, precision, self.runtime.settings.seed)
                .map_err(|error| unsupported(error.to_string()))?;
            (Model::Bytes(bytes.into()), plan(&graph).map_or(0, |steps| steps.len()))
        };
        if precision == Precision::Fp16 {
            remarks.push("fp16 is computed as fp32 between conversions".to_owned());
        }
        if matches!(workload, Workload::Step(step) if step.op == Op::Empty) {
            remarks.push("a call is measured by the smallest one: one element".to_owned());
        }
        if self.runtime.settings.threads.get() > 1 {
            remarks.push("threads wait without spinning between runs".to_owned());
        }
        let peak = Peak::begin();
        let mut opened = Opened::of(&self.runtime, &model, Optimization::All)?;
        opened.run()?;
        let growth = peak.growth();
        let profile = opened::profile(&self.runtime, &model)?;
        let workload = workload.clone();
        let compared = Box::new(move || self.reference(&workload, precision, &model));
        opened.measured(Measured { growth, profile, steps, remarks, compared });
        Ok(Box::new(opened))
    }
}

/// Refuses what does not fit before anything is allocated: parameters as the model's bytes, as they
/// are loaded, and as they are packed; activations.
fn check_memory(workload: &Workload, graph: &Graph) -> Result<(), EngineError> {
    let bytes = |parameter: bool| {
        let of = graph.tensors.iter().filter(|tensor| tensor.parameter == parameter);
        of.fold(0_u64, |sum, tensor| {
            let elements = tensor.shape.iter().fold(1_u64, |product, &size| product.saturating_mul(size));
            sum.saturating_add(elements.saturating_mul(4))
        })
    };
    let needed = bytes(true).saturating_mul(3).saturating_add(bytes(false));
    match available_memory().filter(|free| *free < needed) {
        Some(free) => Err(EngineError::Memory { what: workload.label(), needed, free }),
        None => Ok(()),
    }
}

//! A model in a session of ONNX Runtime.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use crate::{Check, Timing};
use flopgap_graph::Algorithm;
use ort::session::builder::{GraphOptimizationLevel, SessionBuilder};
use ort::session::{Session as OrtSession, SessionInputValue};

use super::arena::ExactArena;
use super::profile::Profile;
use super::runtime::Runtime;
use super::shapes::Shapes;
use super::values;
use crate::engines::cpu::{self, Stopwatch};
use crate::engines::engine::{Repetition, Session};
use crate::engines::error::EngineError;
use crate::engines::reference;

/// The weight of a check against zeros.
pub(crate) const ALL_ZERO: &str = "all outputs are 0, so the check shows little";

/// The loaded model.
#[derive(Debug, Clone)]
pub(super) enum Model {
    /// A family's, as it was written.
    Bytes(Arc<[u8]>),
    /// A user's.
    File { path: PathBuf, shapes: Shapes },
}

/// ONNX Runtime's graph optimizations before a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Optimization {
    /// As it does by default: everything.
    All,
    /// Not at all: node by node.
    None,
}

/// The reference for an output.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Reference {
    /// Its name in rows.
    pub(super) name: String,
    /// The samples that are compared, and of how many; `None` for all.
    pub(super) samples: Option<(Vec<usize>, usize)>,
    /// All outputs, one after the other.
    pub(super) outputs: Vec<f64>,
    /// Largest difference over largest magnitude that is allowed.
    pub(super) bound: f64,
    /// Whether the model may compute zeros alone, as users' models do whose parameters were left
    /// out.
    pub(super) zeros: bool,
}

/// A session with its inputs.
pub(super) struct Opened<'a> {
    stopwatch: Stopwatch<'a>,
    session: OrtSession,
    inputs: Vec<SessionInputValue<'static>>,
    measured: Option<Measured<'a>>,
}

/// Reports on a session other than its time.
pub(super) struct Measured<'a> {
    /// Bytes that the process grew by.
    pub(super) growth: Option<u64>,
    pub(super) profile: Profile,
    /// Steps that the model has by its plan.
    pub(super) steps: usize,
    pub(super) remarks: Vec<String>,
    /// Makes what the output is compared with.
    pub(super) compared: Box<dyn Fn() -> Result<Reference, EngineError> + 'a>,
}

/// The error of an action, with what ONNX Runtime says.
fn failed<E: std::fmt::Display>(action: &str) -> impl FnOnce(E) -> EngineError {
    move |error| EngineError::Failed { action: action.to_owned(), message: error.to_string() }
}

fn builder(ort: &Runtime, model: &Model, optimization: Optimization) -> Result<SessionBuilder, EngineError> {
    let level = match optimization {
        Optimization::All => GraphOptimizationLevel::All,
        Optimization::None => GraphOptimizationLevel::Disable,
    };
    let action = "setting up a session of ONNX Runtime";
    let mut builder = OrtSession::builder(&ort.loaded.environment).map_err(failed(action))?;
    builder = builder.with_optimization_level(level).map_err(failed(action))?;
    builder = builder.with_intra_threads(ort.settings.threads.get()).map_err(failed(action))?;
    builder = builder.with_inter_threads(1).map_err(failed(action))?;
    // Threads that spin for the next run take the cores from the reference kernels.
    builder = builder.with_config_entry("session.force_spinning_stop", "1").map_err(failed(action))?;
    match model {
        // Without VNNI, products of unsigned and signed 8-bit integers overflow 16 bits.
        Model::Bytes(_) => builder = builder.with_precise_qmm().map_err(failed(action))?,
        // Users' models run as their users run them.
        Model::File { shapes, .. } => {
            for (name, size) in shapes.dimensions() {
                builder = builder.with_dimension_override(name, size).map_err(failed(action))?;
            }
        }
    }
    Ok(builder)
}

fn load(mut builder: SessionBuilder, model: &Model) -> Result<OrtSession, EngineError> {
    match model {
        Model::Bytes(bytes) => {
            builder.commit_from_memory(bytes).map_err(failed("loading a model into ONNX Runtime"))
        }
        Model::File { path, .. } => {
            let action = format!("loading {} into ONNX Runtime", path.display());
            builder.commit_from_file(path).map_err(failed(&action))
        }
    }
}

fn inputs(
    ort: &Runtime,
    session: &OrtSession,
    model: &Model,
) -> Result<Vec<SessionInputValue<'static>>, EngineError> {
    let none = Shapes::default();
    let shapes = match model {
        Model::Bytes(_) => &none,
        Model::File { shapes, .. } => shapes,
    };
    let each = session.inputs().iter().enumerate();
    each.map(|(place, outlet)| Ok(values::make(outlet, place, shapes, ort.settings.seed)?.into())).collect()
}

/// The nodes and the memory of a model: of a session of its own, since profiling takes time, and
/// since its arena is another: see [`ExactArena`].
pub(super) fn profile(ort: &Runtime, model: &Model) -> Result<Profile, EngineError> {
    let action = "profiling a model with ONNX Runtime";
    let folder = tempfile::tempdir().map_err(failed(action))?;
    let _arena = ExactArena::register(&ort.loaded.environment).map_err(failed(action))?;
    let builder = builder(ort, model, Optimization::All)?;
    let builder = builder.with_env_allocators().map_err(failed(action))?;
    let builder = builder.with_profiling(folder.path().join("profile")).map_err(failed(action))?;
    let mut session = load(builder, model)?;
    let inputs = inputs(ort, &session, model)?;
    // What is allocated in the first run stays: the second has the arena as it is from then on.
    for _ in 0..2 {
        session.run(&inputs[..]).map_err(failed(action))?;
    }
    let file = session.end_profiling().map_err(failed(action))?;
    let text = fs::read_to_string(&file).map_err(failed(action))?;
    Profile::parse(&text).map_err(failed(action))
}

impl<'a> Opened<'a> {
    pub(super) fn of(
        ort: &'a Runtime,
        model: &Model,
        optimization: Optimization,
    ) -> Result<Self, EngineError> {
        let session = load(builder(ort, model, optimization)?, model)?;
        let inputs = inputs(ort, &session, model)?;
        let stopwatch = Stopwatch::new(&ort.references, ort.settings.threads.get());
        Ok(Opened { stopwatch, session, inputs, measured: None })
    }

    pub(super) fn measured(&mut self, measured: Measured<'a>) {
        self.measured = Some(measured);
    }

    pub(super) fn run(&mut self) -> Result<(), EngineError> {
        let outputs =
            self.session.run(&self.inputs[..]).map_err(failed("running a model with ONNX Runtime"))?;
        drop(std::hint::black_box(outputs));
        Ok(())
    }

    /// All outputs of a run.
    pub(super) fn outputs(&mut self) -> Result<Vec<f64>, EngineError> {
        let outputs =
            self.session.run(&self.inputs[..]).map_err(failed("running a model with ONNX Runtime"))?;
        Ok(values::outputs(&outputs))
    }
}

impl Session for Opened<'_> {
    fn check(&mut self) -> Result<Check, EngineError> {
        let mut found = self.outputs()?;
        let Some(measured) = &mut self.measured else {
            return Err(failed("checking a model")("there is no reference"));
        };
        let reference = (measured.compared)()?;
        // Outputs that are not compared must be numbers, too.
        let finite = found.iter().all(|number| number.is_finite());
        if let Some((samples, batch)) = &reference.samples {
            found = reference::rows(&found, *batch, samples);
        }
        let all_zero = found.iter().chain(&reference.outputs).all(|number| *number == 0.0);
        let error = if reference.zeros && all_zero && found.len() == reference.outputs.len() {
            measured.remarks.push(ALL_ZERO.to_owned());
            0.0
        } else if finite {
            difference(&found, &reference.outputs)
        } else {
            f64::NAN
        };
        Ok(Check { reference: reference.name, error, bound: reference.bound })
    }

    fn time(&mut self, limit: &Repetition) -> Result<Timing, EngineError> {
        let stopwatch = self.stopwatch;
        stopwatch.time(limit, || self.run())
    }

    fn run_for(&mut self, duration: Duration) -> Result<u64, EngineError> {
        cpu::run_for(duration, || self.run())
    }

    fn memory_bytes(&self) -> Option<u64> {
        self.measured.as_ref()?.profile.bytes()
    }

    /// `None` where the process grew by less than ONNX Runtime holds: memory that was free in it
    /// served, and nothing was measured.
    fn device_memory_bytes(&self) -> Option<u64> {
        let measured = self.measured.as_ref()?;
        measured.growth.filter(|growth| *growth > 0 && Some(*growth) >= measured.profile.bytes())
    }

    /// The operators that ran, where there are as many as steps; ONNX Runtime does not say which
    /// belongs to which.
    fn algorithms(&self) -> Vec<Algorithm> {
        let Some(measured) = &self.measured else { return Vec::new() };
        let operators = &measured.profile.operators;
        if operators.len() != measured.steps {
            return Vec::new();
        }
        operators.iter().map(|operator| Algorithm { id: operator.clone(), ..Algorithm::default() }).collect()
    }

    fn remarks(&self) -> Vec<String> {
        let Some(measured) = &self.measured else { return Vec::new() };
        let mut remarks = measured.remarks.clone();
        if measured.profile.operators.len() != measured.steps {
            remarks.push(format!("ran {}", measured.profile.summary()));
        }
        remarks
    }
}

/// The largest difference over the largest magnitude of the reference; NaN where there are not as
/// many numbers, or all of the reference is 0.
fn difference(found: &[f64], expected: &[f64]) -> f64 {
    if found.len() != expected.len() {
        return f64::NAN;
    }
    let differences = found.iter().zip(expected).map(|(found, expected)| (found - expected).abs());
    let magnitude = expected.iter().map(|number| number.abs()).fold(0.0, f64::max);
    differences.fold(0.0, f64::max) / magnitude
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outputs_of_other_lengths_are_no_agreement() {
        assert!((difference(&[1.0, 2.0], &[1.0, 4.0]) - 0.5).abs() < 1e-12);
        assert!(difference(&[1.0], &[1.0, 4.0]).is_nan());
        assert!(difference(&[0.0], &[0.0]).is_nan());
    }
}

//! What PyTorch takes for a model on a GPU, as JSON, of which `flopgap/estimates.py` makes objects.

use std::path::PathBuf;

use flopgap_flops::Precision;
use flopgap_graph::{Graph, Layer, Shapes, read, read_training};
use flopgap_roofline::pytorch::{self, Computed, PyTorch, Way};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use serde::Serialize;

use crate::errors::{AbsentError, InputError, of_hint};

#[derive(Serialize)]
struct Estimate<'a> {
    model: &'a str,
    device: &'a str,
    software: &'a str,
    run_as: &'a str,
    precision: &'a str,
    /// `None` where a kind of calls was never measured.
    time_ms: Option<f64>,
    low_ms: Option<f64>,
    high_ms: Option<f64>,
    gpu_ms: Option<f64>,
    host_ms: Option<f64>,
    /// Of the GPU: forward, backward and optimizer of a training step.
    parts_ms: Option<[f64; 3]>,
    flops: u64,
    missing: Vec<String>,
    unknown: Vec<String>,
    calls: Vec<Call<'a>>,
}

#[derive(Serialize)]
struct Call<'a> {
    name: &'a str,
    module: &'a str,
    operator: &'a str,
    time_us: f64,
    low_us: f64,
    high_us: f64,
    flops: u64,
    bytes: u64,
    bottleneck: &'a str,
}

/// Estimates a `.pt2` archive on a machine, run in some way, in a precision or its own; or a
/// training step of it.
#[pyfunction]
pub(crate) fn estimate(
    py: Python<'_>,
    path: PathBuf,
    machine: &str,
    run_as: &str,
    precision: Option<&str>,
    train: bool,
) -> PyResult<String> {
    let way = match run_as {
        "eager" => Way::Eager,
        "graph" => Way::Graph,
        "compile" => Way::Compiled,
        "compile-graph" => Way::CompiledGraph,
        other => {
            let known = "'eager', 'graph', 'compile' or 'compile-graph'";
            return Err(PyValueError::new_err(format!("run_as is {known}, not '{other}'")));
        }
    };
    if train && !matches!(way, Way::Eager | Way::Graph) {
        return Err(PyValueError::new_err("training steps are estimated as 'eager' and 'graph'"));
    }
    let requested = precision.map(str::parse::<Precision>).transpose();
    let requested = requested.map_err(|error| PyValueError::new_err(error.to_string()))?;
    let known = if train { pytorch::training(machine) } else { pytorch::named(machine) };
    let known = known.ok_or_else(|| {
        let hint = format!("machines: {}", pytorch::NAMES.join(", "));
        AbsentError::new_err((format!("PyTorch was not measured on {machine}"), Some(hint)))
    })?;
    py.detach(|| {
        let graph =
            if train { read_training(&path, &Shapes::default()) } else { read(&path, &Shapes::default()) };
        let graph = graph.map_err(|error| of_hint(&error))?;
        if !graph.is_of_pytorch() {
            let message = format!("{}: PyTorch is estimated from what torch.export wrote", path.display());
            return Err(InputError::new_err((message, None::<String>)));
        }
        estimated(&graph, known, (way, run_as), (requested, train))
    })
}

fn estimated(
    graph: &Graph,
    known: &PyTorch,
    (way, run_as): (Way, &str),
    (requested, train): (Option<Precision>, bool),
) -> PyResult<String> {
    let own = graph.arithmetic().map_err(|error| of_hint(&error))?;
    let precision = requested.or_else(|| own.map_or(Some(Precision::Fp32), Precision::of));
    let computed = precision.and_then(|precision| Computed::of(precision, requested));
    let (Some(precision), Some(computed)) = (precision, computed) else {
        let hint = "precision: fp32, tf32, fp16 or bf16";
        let message = "PyTorch was not measured in this precision".to_owned();
        return Err(AbsentError::new_err((message, Some(hint.to_owned()))));
    };
    let graph = graph.with_floats(precision.element()).map_err(|error| of_hint(&error))?;
    let found = if train {
        known.training_step(&graph, computed, way)
    } else {
        known.estimate(&graph, computed, way)
    };
    let missing: Vec<String> = found.iter().flat_map(|found| found.missing.iter().cloned()).collect();
    let whole = found.as_ref().filter(|_| missing.is_empty());
    let ms = |of: fn(&pytorch::Estimate) -> f64| whole.map(|whole| of(whole) / 1e6);
    let calls = found.iter().flat_map(|found| &found.calls).map(|call| {
        // The optimizer is of no layer.
        let layer = graph.layers.get(call.layer);
        let of = |text: fn(&Layer) -> &String| layer.map_or("", |layer| text(layer).as_str());
        Call {
            name: of(|layer| &layer.name),
            module: of(|layer| &layer.module),
            operator: layer.map_or("AdamW", |layer| &layer.operator),
            time_us: call.nanoseconds / 1e3,
            low_us: call.low / 1e3,
            high_us: call.high / 1e3,
            flops: call.flops,
            bytes: call.bytes,
            bottleneck: call.bound.name(),
        }
    });
    let calls: Vec<Call<'_>> = calls.collect();
    let estimate = Estimate {
        model: &graph.name,
        device: &known.about.device,
        software: &known.about.software,
        run_as,
        precision: precision.name(),
        time_ms: ms(|whole| whole.nanoseconds),
        low_ms: ms(|whole| whole.low),
        high_ms: ms(|whole| whole.high),
        gpu_ms: ms(|whole| whole.gpu_ns),
        host_ms: ms(|whole| whole.host_ns).filter(|_| matches!(way, Way::Eager | Way::Compiled)),
        parts_ms: whole.and_then(|whole| whole.parts).map(|parts| {
            [parts.forward, parts.backward, parts.optimizer].map(|nanoseconds| nanoseconds / 1e6)
        }),
        flops: graph.work().map_err(|error| of_hint(&error))?.flops,
        missing,
        unknown: graph.unknown().map(|layer| format!("{} `{}`", layer.operator, layer.name)).collect(),
        calls,
    };
    serde_json::to_string(&estimate).map_err(|error| PyValueError::new_err(error.to_string()))
}

//! A model as PyTorch runs it: the calls of its operators, by those that were measured.

use std::collections::BTreeMap;

use flopgap_calibration::judge::Series;
use flopgap_cli::{Exit, Failure};
use flopgap_flops::Precision;
use flopgap_graph::Mode;
use flopgap_report::numbers;
use flopgap_roofline::machines::Bound;
use flopgap_roofline::predict::{Basis, Bottleneck, Estimate, Regime, StepEstimate};
use flopgap_roofline::pytorch::{Computed, PyTorch, Way};

use super::answer::Answer;
use super::kernels::Kernels;
use super::model::Model;
use super::{Found, RunAs, gpu};
use crate::load::of_graph;

/// Estimates a model whose steps are its layers. Unless a precision is requested, convolutions of
/// 32 bits are computed in TF32: PyTorch's default.
pub(super) fn estimated(
    model: &Model,
    (precision, requested): (Precision, bool),
    pytorch: &PyTorch,
    (way, train): (Way, bool),
) -> Result<Found, Failure> {
    let about = &pytorch.about;
    let computed = Computed::of(precision, requested.then_some(precision)).ok_or_else(|| {
        Failure::new(format!("PyTorch was not measured in {precision}"))
            .exit(Exit::Absent)
            .hint("`--precision` of PyTorch: fp32, tf32, fp16 or bf16; `--as own` has others")
    })?;
    let graph = model.graph().with_floats(precision.element()).map_err(|error| of_graph(&error))?;
    let trained = if train { model.trained_bytes(precision)? } else { 0 };
    if train && trained == 0 {
        return Err(Failure::new(format!("{}: no parameter of it leads to an output", model.name))
            .exit(Exit::Absent)
            .hint("export the model with its parameters to estimate how it trains"));
    }
    let found = if train {
        pytorch.training_step(&graph, computed, way)
    } else {
        pytorch.estimate(&graph, computed, way)
    };
    let mut by_step: Vec<Option<StepEstimate>> = vec![None; model.steps.len()];
    let mut missing = Vec::new();
    if let Some(found) = &found {
        let places: BTreeMap<usize, usize> =
            model.steps.iter().enumerate().map(|(place, step)| (step.layers[0], place)).collect();
        for call in &found.calls {
            let Some(&place) = places.get(&call.layer) else { continue };
            let (bottleneck, regime) = match call.bound {
                Bound::Launch => (Bottleneck::Launch, Regime::Launch),
                Bound::Compute => (Bottleneck::Compute, Regime::Compute),
                Bound::Memory => (Bottleneck::Memory("memory".to_owned()), Regime::Memory),
            };
            let of = StepEstimate {
                nanoseconds: call.nanoseconds,
                low: call.low,
                high: call.high,
                bottleneck,
                regime,
                roofline_ns: call.roofline_ns,
                launch_ns: 0.0,
                flops: call.flops as f64,
                bytes: call.bytes as f64,
                basis: Basis::Table,
            };
            by_step[place] = Some(match by_step[place].take() {
                None => of,
                Some(before) => both(before, of),
            });
        }
        missing.extend(found.missing.iter().map(|what| format!("{what} were never measured")));
    }
    let steps: Vec<StepEstimate> = by_step.iter().flatten().cloned().collect();
    // What has no formula is in no step.
    let has_none = |layer: usize| graph.layers.get(layer).is_some_and(|layer| layer.work.is_none());
    let calls = found.iter().flat_map(|found| &found.calls);
    let beside: Vec<f64> = calls.filter(|call| has_none(call.layer)).map(|call| call.nanoseconds).collect();
    let beside_ns: f64 = beside.iter().sum();
    let sum: f64 = beside_ns + steps.iter().map(|step| step.nanoseconds).sum::<f64>();
    let regime = |of: Regime| -> f64 {
        steps.iter().filter(|step| step.regime == of).map(|step| step.nanoseconds).sum()
    };
    let longest = Regime::ALL.into_iter().max_by(|a, b| regime(*a).total_cmp(&regime(*b)));
    let estimate = found.as_ref().map(|found| Estimate {
        nanoseconds: found.nanoseconds,
        low: found.low,
        high: found.high,
        by_step: steps.clone(),
        correction: found.nanoseconds / sum,
        extrapolated: false,
        from_floor: Vec::new(),
        measured: false,
        regime: if found.host_ns > found.gpu_ns { Regime::Launch } else { longest.unwrap_or(Regime::Launch) },
        memory_bytes: None,
        joules: None,
    });
    if estimate.is_none() {
        missing.push("nothing of it was measured".to_owned());
    }
    let beside = if beside.is_empty() {
        String::new()
    } else {
        let (count, time) = (beside.len(), numbers::duration(beside_ns));
        format!("; {count} calls without a formula take {time} beside the steps")
    };
    let kernels = format!("times of {} are interpolated{beside}", about.software);
    let training = found.as_ref().and_then(|found| found.parts);
    let launched = found.filter(|_| matches!(way, Way::Eager | Way::Compiled));
    Ok(Found {
        answer: Answer { estimate, missing, by_step },
        kernels: Kernels::SizesAlone(kernels),
        origin: gpu(&about.device, about.memory_bytes),
        series: Series { engine: about.software.clone(), threads: 0 },
        precision,
        mode: if launched.is_some() { Mode::Stream } else { Mode::Graph },
        rows: pytorch.rows().map(|(.., rows)| rows).sum(),
        // The moments of a step's optimizer are there all the time.
        least_bytes: model.least_bytes(precision)?.saturating_add(trained.saturating_mul(2)),
        run_as: RunAs::of(way),
        convolutions_in_tf32: computed.cudnn != computed.products && model.has_convolutions(),
        training,
        parts: launched.map(|found| (found.gpu_ns, found.host_ns, about.host.clone())),
    })
}

/// Two calls of a layer, forward and backward; what bounds the longer bounds both.
fn both(a: StepEstimate, b: StepEstimate) -> StepEstimate {
    let (longer, other) = if a.nanoseconds >= b.nanoseconds { (a, b) } else { (b, a) };
    StepEstimate {
        nanoseconds: longer.nanoseconds + other.nanoseconds,
        low: longer.low + other.low,
        high: longer.high + other.high,
        roofline_ns: longer.roofline_ns + other.roofline_ns,
        flops: longer.flops + other.flops,
        bytes: longer.bytes + other.bytes,
        ..longer
    }
}

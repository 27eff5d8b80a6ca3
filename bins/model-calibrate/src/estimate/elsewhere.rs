//! A model on a GPU that others measured: products and attention by their tables, everything else
//! by its time on the reference and the peaks of both.

use flopgap_calibration::judge::Series;
use flopgap_flops::{AttentionMask, Precision};
use flopgap_gap::Peaks as Sheet;
use flopgap_graph::language::{Attend, Format, Kernel};
use flopgap_graph::{Op, PlannedStep, Step};
use flopgap_kernels::NumberType;
use flopgap_roofline::machines::{Basis as Source, Bound, Machine, REFERENCE, named, sum};
use flopgap_roofline::predict::{Basis, Estimate, StepEstimate};

use super::kernels::Kernels;
use super::{Found, gpu};

/// The same model on another machine.
pub(super) fn moved(mut found: Found, steps: &[PlannedStep], machine: &Machine) -> Found {
    let steps = || steps.iter().map(|planned| &planned.step);
    let known = std::mem::take(&mut found.answer.by_step);
    let mut missing = Vec::new();
    for (step, known) in steps().zip(known) {
        let by_step = known.and_then(|known| {
            let moved = by_table(step, found.precision, machine, &known)
                .map_or_else(|| transferred(found.precision, machine, &known), Ok);
            moved.map_err(|why| missing.push(why)).ok()
        });
        found.answer.by_step.push(by_step);
    }
    for why in missing {
        if !found.answer.missing.contains(&why) {
            found.answer.missing.push(why);
        }
    }
    let times = steps().zip(&found.answer.by_step).filter_map(|(step, known)| {
        known.as_ref().map(|known| (step.op.name().to_owned(), [known.nanoseconds, known.low, known.high]))
    });
    let [nanoseconds, low, high] = sum(times);
    let by_step: Vec<StepEstimate> = found.answer.by_step.iter().flatten().cloned().collect();
    found.answer.estimate = found.answer.estimate.take().filter(|_| !by_step.is_empty()).map(|before| {
        Estimate { nanoseconds, low, high, by_step, correction: 1.0, measured: false, joules: None, ..before }
    });
    found.origin = gpu(&machine.device, machine.peaks.memory_bytes);
    let engine = format!("tables of {} and transfers from {REFERENCE}", machine.software.join(", "));
    found.kernels = Kernels::SizesAlone(format!("{} is estimated from tables and transfers", machine.device));
    found.series = Series { engine, threads: 0 };
    found.rows = machine.tables().map(|table| table.rows).sum();
    found
}

/// The kernel of a step, where tables have its kind.
fn kernel(step: &Step, precision: Precision) -> Option<Kernel> {
    if !matches!(precision, Precision::Fp16 | Precision::Bf16) {
        return None;
    }
    match &step.op {
        Op::Gemm(gemm) if gemm.batch == 1 => {
            Some(Kernel::Product { m: gemm.m, n: gemm.n, k: gemm.k, format: Format::Bf16 })
        }
        Op::Attention(attention)
            if attention.mask == AttentionMask::Causal && attention.queries == attention.keys =>
        {
            Some(Kernel::Prefill(Attend {
                batch: attention.batch,
                tokens: attention.queries,
                heads: attention.heads,
                kv_heads: attention.kv_heads,
                head_width: attention.head_width,
                value_width: attention.width_of_values(),
                window: None,
                values_in_keys: false,
                cache: Format::Bf16,
            }))
        }
        _ => None,
    }
}

fn by_table(
    step: &Step,
    precision: Precision,
    machine: &Machine,
    known: &StepEstimate,
) -> Option<StepEstimate> {
    let estimate = machine.estimate(&kernel(step, precision)?)?;
    let is_table = estimate.basis == Source::Table;
    is_table.then(|| StepEstimate {
        nanoseconds: estimate.nanoseconds,
        low: estimate.low,
        high: estimate.high,
        basis: Basis::Table,
        ..known.clone()
    })
}

/// FLOP/s of a precision by the data sheet.
fn peak(device: &str, precision: Precision) -> Option<f64> {
    let number = match precision {
        Precision::Fp32 => NumberType::Fp32,
        Precision::Tf32 => NumberType::Tf32,
        Precision::Fp16 | Precision::Bf16 => NumberType::Bf16,
        Precision::Int8 => NumberType::Int8,
    };
    Sheet::of(device)?.peak(number)
}

/// A step's time on the reference, at the peaks of this machine: the same share of its floor.
fn transferred(
    precision: Precision,
    machine: &Machine,
    known: &StepEstimate,
) -> Result<StepEstimate, String> {
    let Some(reference) = named(REFERENCE) else { return Err(format!("no tables of {REFERENCE}")) };
    let sixteen = matches!(precision, Precision::Fp16 | Precision::Bf16);
    let peaks = [machine, reference]
        .map(|of| if sixteen { Some(of.peaks.bf16) } else { peak(&of.device, precision) });
    let [Some(ours), Some(theirs)] = peaks else {
        return Err(format!("FLOP/s in {precision} of {} are not known", machine.device));
    };
    let floor = |peak: f64, of: &Machine| {
        let compute = known.flops / peak * 1e9;
        (compute, known.bytes / of.peaks.bytes_per_second * 1e9)
    };
    let (compute, bytes) = floor(ours, machine);
    let (compute_there, bytes_there) = floor(theirs, reference);
    let launch = known.launch_ns.max(1.0);
    let ratio = (launch + compute.max(bytes)) / (launch + compute_there.max(bytes_there));
    let Some(transfer) = machine.transfer(Bound::of_times(launch, compute, bytes)) else {
        return Err(format!("it is not known how times are transferred to {}", machine.device));
    };
    let [middle, low, high] = transfer.ratio.map(|measured| measured * ratio);
    Ok(StepEstimate {
        nanoseconds: middle * known.nanoseconds,
        low: low * known.low,
        high: high * known.high,
        basis: Basis::Transferred,
        ..known.clone()
    })
}

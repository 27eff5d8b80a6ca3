//! The framework's FLOPs: from a trace, or from its formula applied to the shapes of the network.

use std::path::Path;

use flopgap_cli::{Console, Failure};
use flopgap_flops::{Pass, SquareMlp};
use flopgap_kineto::formula::{self, Inputs, Kind as Operation};
use flopgap_kineto::{OperatorTotal, Part, Trace};

use crate::validate::compare::{Counts, Kind, Source};

/// The framework's numbers in a recorded trace of one training step.
pub(crate) fn of_trace(path: &Path, console: Console) -> Result<Source, Failure> {
    let what = format!("{}: trace of torch.profiler, read", path.display());
    let trace = console.timed(what, || Trace::open(path))?;
    let warnings = trace.warnings.iter().map(|warning| format!("{}: {warning}", path.display()));
    console.warn_all(warnings);
    let totals = trace.totals()?;
    let device = trace.device.as_deref().map(|device| format!(", {device}")).unwrap_or_default();
    Ok(Source {
        kind: Kind::FrameworkTrace,
        origin: format!("PyTorch's formula over the operators in {}{device}", path.display()),
        forward: counts(&totals, Part::Forward)?,
        backward: counts(&totals, Part::Backward)?,
        uncounted: [Part::Forward, Part::Backward].map(|part| uncounted(&totals, part)),
    })
}

fn counts(totals: &[OperatorTotal], part: Part) -> Result<Counts, Failure> {
    // `None` if no operator of the kind has FLOPs: not counted is not zero.
    let sum = |wanted: &[Option<Operation>]| -> Result<Option<u64>, Failure> {
        let of_kind = totals.iter().filter(|total| total.part == part && wanted.contains(&total.kind));
        let mut sum = None;
        for total in of_kind {
            if let Some(flops) = total.flops {
                let more = sum.unwrap_or(0_u64).checked_add(flops);
                sum = Some(more.ok_or_else(|| Failure::new("the FLOPs of the trace exceed 2^64"))?);
            }
        }
        Ok(sum)
    };
    let gemm = sum(&[Some(Operation::MatMul), Some(Operation::Convolution)])?;
    let mut counts = Counts::of_framework(gemm, sum(&[Some(Operation::Elementwise)])?)?;
    // FLOPs that a trace records for operators of no class here.
    counts.other = sum(&[None])?;
    counts.total = counts
        .total
        .checked_add(counts.other.unwrap_or(0))
        .ok_or_else(|| Failure::new("the FLOPs of the trace exceed 2^64"))?;
    Ok(counts)
}

/// The activations of this network that the trace holds without FLOPs: `10 aten::sigmoid`.
fn uncounted(totals: &[OperatorTotal], part: Part) -> Option<String> {
    const ACTIVATIONS: [&str; 2] = ["aten::sigmoid", "aten::sigmoid_backward"];
    let listed: Vec<String> = totals
        .iter()
        .filter(|total| total.part == part && total.counted == 0 && ACTIVATIONS.contains(&&*total.name))
        .map(|total| format!("{} {}", total.calls, total.name))
        .collect();
    (!listed.is_empty()).then(|| listed.join(", "))
}

/// What the framework's formula gives for the operators that the network consists of: one
/// `aten::mm` a layer forward; backward one for the gradient of each weight and one for the input
/// of every layer but the first. Nothing is run or measured.
pub(crate) fn of_shapes(network: SquareMlp) -> Result<Source, Failure> {
    let pass = |pass| {
        Counts::of_framework(Some(products(network, pass)?), None)
            .map_err(|error| Failure::from_error(&error))
    };
    Ok(Source {
        kind: Kind::FrameworkShapes,
        origin: "PyTorch's formula over the shapes of the network, without a trace".to_owned(),
        forward: pass(Pass::Forward)?,
        backward: pass(Pass::Backward)?,
        uncounted: [None, None],
    })
}

fn products(network: SquareMlp, pass: Pass) -> Result<u64, Failure> {
    let (n, d, m) = (network.layers(), network.width(), network.columns());
    let mm = |left: [u64; 2], right: [u64; 2]| {
        let shapes = [Some(left.to_vec()), Some(right.to_vec())];
        let flops = formula::flops("aten::mm", Inputs { shapes: &shapes, concrete: &[] });
        flops.map(Option::unwrap_or_default).map_err(|_| too_large(network))
    };
    let with_input = mm([d, d], [d, m])?; // W h, and backward Wᵀ dz
    let sum = match pass {
        Pass::Forward => n.checked_mul(with_input),
        Pass::Backward => {
            let weights = n.checked_mul(mm([d, m], [m, d])?); // dz hᵀ
            (n - 1)
                .checked_mul(with_input)
                .zip(weights)
                .and_then(|(inputs, weights)| inputs.checked_add(weights))
        }
    };
    sum.ok_or_else(|| too_large(network))
}

fn too_large(network: SquareMlp) -> Failure {
    let (n, d, m) = (network.layers(), network.width(), network.columns());
    Failure::new(format!(
        "the network n={n} d={d} m={m} needs more than 2^64 FLOPs, more than a counter can hold"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `PyTorch`'s own table of one step for each of 16 widths: the formula without a trace gives
    /// the same sums.
    #[test]
    fn the_formula_over_shapes_is_what_the_profiler_says() {
        let table = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/kineto/key_averages.csv");
        let table = std::fs::read_to_string(table).unwrap();
        let rows: Vec<&str> = table.lines().skip(1).collect();
        assert_eq!(rows.len(), 16);
        for row in rows {
            let (width, rest) = row.split_once(',').unwrap();
            let source = of_shapes(SquareMlp::new(10, width.parse().unwrap(), 128).unwrap()).unwrap();
            assert_eq!(
                rest,
                format!("aten::mm,29,{}", source.forward.total + source.backward.total),
                "{width}"
            );
        }
    }
}

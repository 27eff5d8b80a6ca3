//! Explains the differences between the sources: a sentence for each source and pass.

use flopgap_flops::{FlopError, Pass, SquareMlp};
use flopgap_report::numbers::{float, group_thousands, signed_percent};

use crate::validate::compare::{Comparison, Counts, Source, difference};

/// The sentences of a comparison, forward first.
pub(crate) fn of(comparison: &Comparison) -> Result<Vec<String>, FlopError> {
    let mut sentences = Vec::new();
    for pass in Pass::ALL {
        let theory = comparison.theory(pass)?;
        for source in &comparison.sources {
            sentences.push(if source.kind.is_framework() {
                framework(source, pass, &theory)
            } else {
                counters(source, pass, &theory, comparison)?
            });
        }
    }
    Ok(sentences)
}

fn framework(source: &Source, pass: Pass, theory: &Counts) -> String {
    let found = source.of(pass);
    let products = match (found.gemm, theory.gemm) {
        (Some(found), Some(theory)) if found == theory => {
            "counts the matrix products exactly as theory does".to_owned()
        }
        (Some(found), Some(theory)) => format!(
            "gives the matrix products {} FLOP ({}) against theory, so the trace is not one step of this network",
            signed(difference(found, theory).0),
            relative(difference(found, theory).1),
        ),
        _ => "counts no matrix product, so the trace does not hold this pass".to_owned(),
    };
    let activation = match (found.activation, theory.activation, source.uncounted(pass)) {
        (Some(_), ..) => String::new(),
        (None, Some(theory), Some(operators)) => {
            format!(
                " and the {} FLOP of activations not at all: {operators} have no formula",
                grouped(theory)
            )
        }
        (None, theory, _) => {
            format!(" and the {} FLOP of activations not at all", grouped(theory.unwrap_or(0)))
        }
    };
    format!("{}, {}: it {products}{activation}.", capital(pass), source.kind.heading())
}

fn counters(
    source: &Source,
    pass: Pass,
    theory: &Counts,
    comparison: &Comparison,
) -> Result<String, FlopError> {
    let found = source.of(pass);
    let network = comparison.network;
    let mut parts = vec![products(found, theory)];
    parts.extend(reductions(found, pass));
    parts.extend(activations(found, theory, network, pass)?);
    parts.extend(
        found
            .other
            .filter(|&other| other > 0)
            .map(|other| format!("{} from other kernels", signed(i128::from(other)))),
    );
    let (total, share) = difference(found.total, theory.total);
    let seen = comparison
        .sources
        .iter()
        .find(|source| source.kind.is_framework())
        .map(|framework| framework.of(pass));
    let seen = seen.filter(|_| found.total > 0).map(|framework| {
        let seen = framework.total as f64 / found.total as f64;
        format!("; the framework's number is {}% of what was executed", float(100.0 * seen, 2))
    });
    Ok(format!(
        "{}, {}: {} FLOP ({}) against theory: {}{}.",
        capital(pass),
        source.kind.heading(),
        signed(total),
        relative(share),
        parts.join(", "),
        seen.unwrap_or_default(),
    ))
}

fn products(found: &Counts, theory: &Counts) -> String {
    let (gemm, share) = difference(found.gemm.unwrap_or(0), theory.gemm.unwrap_or(0));
    match gemm {
        0 => "0 from matrix products".to_owned(),
        1.. => format!(
            "{} ({}) from matrix products on padding of tiles or in epilogues",
            signed(gemm),
            relative(share)
        ),
        _ => format!(
            "{} ({}) from the matrix products, which is impossible for a complete count of this network",
            signed(gemm),
            relative(share)
        ),
    }
}

fn reductions(found: &Counts, pass: Pass) -> Option<String> {
    let split_k = found.split_k.filter(|&flops| flops > 0)?;
    let loss = if pass == Pass::Backward { " and of the loss" } else { "" };
    Some(format!("{} from reductions of split-K products{loss}", signed(i128::from(split_k))))
}

fn activations(
    found: &Counts,
    theory: &Counts,
    network: SquareMlp,
    pass: Pass,
) -> Result<Option<String>, FlopError> {
    let (Some(found), Some(theory)) = (found.activation, theory.activation) else { return Ok(None) };
    let difference = difference(found, theory).0;
    if difference == 0 {
        return Ok(None);
    }
    // Elements of an activation, not the FLOPs that theory charges: N D M in either pass.
    let elements = network.activation_elements(Pass::Forward)? as f64;
    let (executed, charged) = (found as f64 / elements, theory as f64 / elements);
    let what = match pass {
        Pass::Forward => "activations",
        Pass::Backward => "derivatives of activations",
    };
    Ok(Some(format!(
        "{} from {what}, which execute {} FLOP an element where theory charges {}",
        signed(difference),
        float(executed, 2),
        float(charged, 2)
    )))
}

fn capital(pass: Pass) -> &'static str {
    match pass {
        Pass::Forward => "Forward",
        Pass::Backward => "Backward",
    }
}

fn grouped(value: u64) -> String {
    group_thousands(value)
}

fn signed(value: i128) -> String {
    let text = group_thousands(value);
    if value > 0 { format!("+{text}") } else { text }
}

fn relative(share: Option<f64>) -> String {
    share.map_or_else(|| "-".to_owned(), |share| signed_percent(share, 2))
}

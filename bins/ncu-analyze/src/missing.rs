//! Reports missing information next to every answer.

use std::path::Path;

use flopgap_cli::Failure;
use flopgap_ncu::Unknown;
use flopgap_phases::{MissingCounters, PhaseError, Profile, Totals};
use flopgap_report::numbers::group_thousands;

use crate::part::Part;
use crate::quantity::Quantity;
use crate::{PROGRAM, failure};

/// Warns of launches whose FLOPs, traffic or time are not known, and of values that are not exact.
pub(crate) fn warn(file: &Path, profile: &Profile) {
    for message in messages(profile) {
        flopgap_cli::warn(PROGRAM, format!("{}: {message}", file.display()));
    }
}

/// The failure of a report that breaks off or is damaged: what was printed of it is of what came
/// before, or around it.
pub(crate) fn not_whole(part: &Part) -> Option<Failure> {
    let position = part.profile.lost_at?;
    Some(failure(&PhaseError::Lossy { path: part.path.clone(), position }))
}

/// Why no launch's FLOPs are known, as a sentence; `None` if some are.
pub(crate) fn no_work(profile: &Profile) -> Option<String> {
    let totals = &profile.totals;
    if Quantity::Flops.is_measured(totals) {
        return None;
    }
    let mut reasons: Vec<(String, u64)> = Vec::new();
    for one in merged(&profile.missing_counters) {
        let reason = one.reason.to_string();
        match reasons.iter_mut().find(|(known, _)| *known == reason) {
            Some((_, launches)) => *launches += one.missing.launches,
            None => reasons.push((reason, one.missing.launches)),
        }
    }
    let why: Vec<String> = match &reasons[..] {
        [(reason, _)] => vec![reason.clone()],
        several => several
            .iter()
            .map(|(reason, launches)| format!("of {}, {reason}", group_thousands(*launches)))
            .collect(),
    };
    let of = match totals.launches {
        1 => "the launch".to_owned(),
        all => format!("all {} launches", group_thousands(all)),
    };
    Some(format!("The FLOPs of {of} are unknown: {}.", why.join("; ")))
}

/// Warns of quantities that only some of several files have.
pub(crate) fn warn_across(parts: &[Part], whole: &Totals) {
    for quantity in [Quantity::Flops, Quantity::DramBytes, Quantity::L2Bytes, Quantity::Time] {
        let without: Vec<String> = parts
            .iter()
            .filter(|part| !quantity.is_measured(&part.profile.totals))
            .map(|part| part.path.display().to_string())
            .collect();
        if quantity.is_measured(whole) && !without.is_empty() {
            let (name, files) = (quantity.name(), without.join(", "));
            flopgap_cli::warn(
                PROGRAM,
                format_args!("{name} was not measured in {files}; sums over it are left empty"),
            );
        }
    }
}

fn messages(profile: &Profile) -> Vec<String> {
    let totals = &profile.totals;
    let all = group_thousands(totals.launches);
    let mut messages = unknown(&profile.missing_counters, &all);
    let sums = [
        ("DRAM traffic", totals.dram_bytes),
        ("L2 traffic", totals.l2_bytes),
        ("GPU time", totals.duration_ns),
    ];
    for ((quantity, sum), missing) in sums.into_iter().zip(&profile.missing) {
        if let (Some(launches), Some(missing)) = (totals.lacking(sum), missing) {
            messages.push(format!(
                "{quantity} was not measured for {} of {all} launches ({}); sums over them are left empty",
                group_thousands(launches),
                missing.describe()
            ));
        }
    }
    let rounded: Vec<&str> =
        quantities(totals).filter(|(_, is_rounded)| *is_rounded).map(|(quantity, _)| quantity).collect();
    if !rounded.is_empty() {
        messages.push(format!(
            "{}: sums are not exact, because the report has rounded values (such as `10.53 Mbyte`) or averages and rates of them; \
             --print-units base prints values whole, and the .ncu-rep holds them exactly",
            rounded.join(", ")
        ));
    }
    if totals.half_artifacts > 0 {
        messages.push(format!(
            "{} half-precision operations are not counted: kernels that compute in another type load constants with HFMA and \
             convert with HADD",
            group_thousands(totals.half_artifacts)
        ));
    }
    if let Some(undecided) = &profile.undecided {
        messages.push(format!(
            "{} half-precision operations are not counted, because they may be arithmetic, constants or \
             conversions: {}",
            group_thousands(totals.half_undecided),
            undecided.describe()
        ));
    }
    messages
}

/// Launches whose FLOPs are not known, with one entry for all types of the tensor cores.
fn merged(missing: &[MissingCounters]) -> Vec<MissingCounters> {
    let mut merged: Vec<MissingCounters> = Vec::new();
    for one in missing {
        let is_tensor = |reason| matches!(reason, Unknown::TensorCores(_));
        match merged.iter_mut().find(|known| is_tensor(known.reason) && is_tensor(one.reason)) {
            Some(known) => {
                known.reason =
                    if known.reason == one.reason { one.reason } else { Unknown::TensorCores(None) };
                known.missing.merge(&one.missing);
                known.counters.extend(one.counters.iter().cloned());
                known.counters.sort();
                known.counters.dedup();
            }
            None => merged.push(one.clone()),
        }
    }
    merged
}

/// Launches whose FLOPs are not known: how many, which, why, and what to record.
fn unknown(missing: &[MissingCounters], all: &str) -> Vec<String> {
    merged(missing)
        .iter()
        .map(|MissingCounters { reason, missing, counters }| {
            let launches = group_thousands(missing.launches);
            let record = if counters.is_empty() {
                String::new()
            } else {
                format!("; to count them, record `ncu --metrics {}`", counters.join(","))
            };
            format!(
                "the FLOPs of {launches} of {all} launches are unknown and in no sum or share ({}): {reason}{record}",
                missing.describe()
            )
        })
        .collect()
}

fn quantities(totals: &Totals) -> impl Iterator<Item = (&'static str, bool)> {
    [
        ("FLOPs", totals.flops),
        ("DRAM traffic", totals.dram_bytes),
        ("L2 traffic", totals.l2_bytes),
        ("GPU time", totals.duration_ns),
    ]
    .into_iter()
    .map(|(quantity, sum)| (quantity, sum.is_rounded()))
}

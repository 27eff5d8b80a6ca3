//! Amounts without noise: equal programs have equal ones.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use std::str::FromStr;

use clap::ValueEnum;
use flopgap_answers::Opened;
use flopgap_cli::{Exit, Failure};
use flopgap_files::{ErrorKind, Hint as _};
use flopgap_gap::{FoundBy, Gap, gap};
use flopgap_phases::{Profile, Totals};
use flopgap_report::table::Cell;
use flopgap_timings::diff::{Counted, Diff, KernelChange, Operation, PlaceDiff, Quantity, Side};
use serde::Serialize;

/// What is compared exactly.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum What {
    /// Launches of all kernels.
    Launches,
    /// Kernels by name, and the launches of each.
    Kernels,
    /// Kernels, copies and sets that CUDA graphs launched.
    GraphNodes,
    /// FLOPs.
    Flops,
    /// Memory copies.
    Copies,
    /// The bytes that they copied.
    CopiedBytes,
    /// Memory sets.
    Sets,
    /// The bytes that they set.
    SetBytes,
    /// The most memory that was in use at any time, in bytes.
    PeakMemory,
    /// Processes on GPUs.
    Places,
    /// Layers by operator.
    Layers,
    /// Bytes that layers read and write.
    Bytes,
    /// Elements of parameters.
    Parameters,
}

impl fmt::Display for What {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            What::Launches => "launches",
            What::Kernels => "kernels",
            What::GraphNodes => "graph nodes",
            What::Flops => "FLOPs",
            What::Copies => "copies",
            What::CopiedBytes => "copied bytes",
            What::Sets => "sets",
            What::SetBytes => "set bytes",
            What::PeakMemory => "peak memory",
            What::Places => "places",
            What::Layers => "layers",
            What::Bytes => "bytes",
            What::Parameters => "parameters",
        })
    }
}

/// `--allow flops=2`: more of it does not fail, up to a percentage where there is one.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Allowed {
    what: What,
    percent: Option<f64>,
}

impl FromStr for Allowed {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, percent) = match text.split_once('=') {
            Some((name, percent)) => (name, Some(flopgap_cli::percentage(percent)?)),
            None => (text, None),
        };
        let what = What::from_str(name, true).map_err(|_| {
            let names = What::value_variants().iter().filter_map(What::to_possible_value);
            let names: Vec<String> = names.map(|value| value.get_name().to_owned()).collect();
            format!("expected one of {}", names.join(", "))
        })?;
        Ok(Allowed { what, percent })
    }
}

/// An amount before and after.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct Row {
    pub(super) what: What,
    /// Of which type, or in which place, where there are several.
    pub(super) of: Option<String>,
    /// Absent where it is not known; of a step where both traces mark steps.
    pub(super) before: Option<f64>,
    pub(super) after: Option<f64>,
    #[serde(serialize_with = "in_words")]
    pub(super) change: Option<Ordering>,
    /// What is new, gone, more or less, by name; why an amount is not known.
    pub(super) details: Vec<String>,
    /// Whether more of it, or not to know it, is allowed.
    pub(super) allowed: bool,
    pub(super) fails: bool,
}

#[expect(clippy::ref_option, clippy::trivially_copy_pass_by_ref, reason = "serde's signature")]
fn in_words<S: serde::Serializer>(change: &Option<Ordering>, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(outcome(*change))
}

/// How an amount changed.
pub(super) fn outcome(change: Option<Ordering>) -> &'static str {
    match change {
        None => "unknown",
        Some(Ordering::Less) => "less",
        Some(Ordering::Equal) => "equal",
        Some(Ordering::Greater) => "more",
    }
}

impl Row {
    fn new(
        what: What,
        of: Option<String>,
        [before, after]: [Option<f64>; 2],
        change: Option<Ordering>,
    ) -> Row {
        Row { what, of, before, after, change, details: Vec::new(), allowed: false, fails: false }
    }

    /// Whole numbers, which may be known on one side only; nothing where neither is known.
    fn counted(what: What, of: Option<&str>, [before, after]: [Option<u128>; 2]) -> Option<Row> {
        let change = before.zip(after).map(|(before, after)| after.cmp(&before));
        let amounts = [before, after].map(|amount| amount.map(|amount| amount as f64));
        (before.is_some() || after.is_some()).then(|| Row::new(what, of.map(str::to_owned), amounts, change))
    }

    pub(super) fn is_undecided(&self) -> bool {
        self.change.is_none() && !self.allowed
    }

    /// By how much it is more, as a fraction of what it was.
    pub(super) fn fraction(&self) -> Option<f64> {
        let (before, after) = self.before.zip(self.after)?;
        (before > 0.0).then(|| (after - before) / before)
    }

    /// Decides whether it fails.
    pub(super) fn judge(&mut self, allowed: &[Allowed], equal: bool) {
        self.allowed = allowed.iter().filter(|allowed| allowed.what == self.what).any(|allowed| {
            // Kernels may change at equal numbers; what was nothing grows by no percentage.
            allowed
                .percent
                .is_none_or(|percent| self.fraction().is_some_and(|fraction| fraction * 100.0 <= percent))
        });
        self.fails = !self.allowed
            && match self.change {
                Some(Ordering::Greater) => true,
                Some(Ordering::Less) => equal,
                _ => false,
            };
    }
}

/// The amounts of two traces.
pub(super) fn of_traces(traces: [&Opened; 2], diff: &Diff) -> Result<Vec<Row>, Failure> {
    let mut rows = Vec::new();
    let counts = diff.unmatched.map(|counts| counts.map(|count| Some(u128::from(count))));
    rows.extend(counts.and_then(|counts| Row::counted(What::Places, None, counts)));
    for (at, place) in diff.places.iter().enumerate() {
        let of = place.shown_place().map(|place| place.to_string());
        for (what, counted, quantity) in [
            (What::Launches, Counted::Launches, place.kernels),
            (What::Copies, Counted::Copies, place.copies),
            (What::CopiedBytes, Counted::CopiedBytes, place.copied_bytes),
            (What::Sets, Counted::Sets, place.sets),
            (What::SetBytes, Counted::SetBytes, place.set_bytes),
        ] {
            rows.extend(quantity_row(what, counted, of.clone(), quantity, place));
        }
        let kernels = diff.kernels.iter().filter(|kernel| kernel.place == at);
        let kernels = kernels.filter(|kernel| kernel.operation == Operation::Kernel);
        rows.push(kernels_of(kernels, of, place.instances));
    }
    let peaks = traces.map(|trace| trace.recording().peak_memory().map(u128::from));
    rows.extend(Row::counted(What::PeakMemory, Some("whole recording"), peaks).map(|mut row| {
        if row.change.is_none() {
            let detail = "not known: one trace was recorded without `profile_memory=True`";
            row.details.push(detail.to_owned());
        }
        row
    }));
    let mut gaps = Vec::new();
    for trace in traces {
        match gap(trace.recording(), &flopgap_gap::Options::default()) {
            Ok(found) => gaps.push(Some(found)),
            // Without GPU work there are no FLOPs.
            Err(error) if error.kind() == ErrorKind::Absent => gaps.push(None),
            Err(error) => return Err(error.into()),
        }
    }
    if let [Some(before), Some(after)] = gaps.as_slice() {
        let nodes = [before, after].map(|gap| gap.graphs.map_or(0, |graphs| u128::from(graphs.operations)));
        let nodes = (nodes != [0, 0]).then(|| nodes.map(Some));
        rows.extend(nodes.and_then(|nodes| Row::counted(What::GraphNodes, Some("whole recording"), nodes)));
        rows.extend(flops([before, after], diff.instances == [None, None]));
    }
    rows.sort_by(|one, other| (one.what, &one.of).cmp(&(other.what, &other.of)));
    Ok(rows)
}

/// A sum of one instance; nothing where neither trace has any of it.
fn quantity_row(
    what: What,
    counted: Counted,
    of: Option<String>,
    quantity: Quantity,
    place: &PlaceDiff,
) -> Option<Row> {
    let amounts = [quantity.before, quantity.after];
    if amounts.iter().all(|amount| amount.is_none_or(|amount| amount == 0.0)) {
        return None;
    }
    // Whether sums are equal is decided on whole numbers, so that no rounding makes equals differ.
    let differs = place.work.iter().any(|work| work.what == counted);
    let change = quantity.before.zip(quantity.after).map(|(before, after)| match after.total_cmp(&before) {
        _ if !differs => Ordering::Equal,
        Ordering::Less => Ordering::Less,
        _ => Ordering::Greater,
    });
    Some(Row::new(what, of, amounts, change))
}

/// Kernels by name: more where one is new, or launched more often.
fn kernels_of<'a>(
    kernels: impl Iterator<Item = &'a KernelChange>,
    of: Option<String>,
    instances: [Option<u64>; 2],
) -> Row {
    let instances = instances.map(|instances| u128::from(instances.unwrap_or(1)));
    let sides = kernels.map(|kernel| {
        let calls = |side: Option<Side>| side.map_or(0, |side| u128::from(side.calls));
        (kernel.short.as_str(), [calls(kernel.time.before), calls(kernel.time.after)])
    });
    by_name(What::Kernels, of, "launches", sides, instances)
}

/// A row of several amounts by name, each the mean of instances.
fn by_name<'a>(
    what: What,
    of: Option<String>,
    unit: &str,
    amounts: impl Iterator<Item = (&'a str, [u128; 2])>,
    instances: [u128; 2],
) -> Row {
    let (mut counts, mut changes) = ([0_u32; 2], Vec::new());
    for (name, [before, after]) in amounts {
        counts[0] += u32::from(before > 0);
        counts[1] += u32::from(after > 0);
        let change = (after * instances[0]).cmp(&(before * instances[1]));
        let each = |sum: u128, at: usize| number(sum as f64 / instances[at] as f64).display();
        let (before_each, after_each) = (each(before, 0), each(after, 1));
        let detail = match (before, after) {
            _ if change == Ordering::Equal => continue,
            (0, _) => format!("new: `{name}`, {after_each} {unit}"),
            (_, 0) => format!("gone: `{name}`, {before_each} {unit}"),
            _ => format!("`{name}`: {before_each} {unit} before, {after_each} after"),
        };
        changes.push((change, detail));
    }
    // What is more first.
    changes.sort_by(|(one, _), (other, _)| other.cmp(one));
    let change = changes.first().map_or(Ordering::Equal, |(change, _)| *change);
    let mut row = Row::new(what, of, counts.map(|count| Some(f64::from(count))), Some(change));
    row.details = changes.into_iter().map(|(_, detail)| detail).collect();
    row
}

/// A number of one step: whole, or with two decimals where it is a mean.
pub(super) fn number(value: f64) -> Cell {
    Cell::float(value, if value.fract() == 0.0 { 0 } else { 2 })
}

/// FLOPs of products of a step, by the type of their factors; only where sizes are recorded.
fn flops(gaps: [&Gap; 2], is_whole: bool) -> Vec<Row> {
    let sums = gaps.map(|gap| {
        let floor = gap.floor.as_ref()?;
        let by_type = floor.flops.iter().map(|flops| {
            let sum = u128::from(flops.model) + u128::from(flops.repeated);
            (flops.number.to_string(), sum)
        });
        Some((by_type.collect::<BTreeMap<String, u128>>(), floor.covered))
    });
    let [before, after] = sums;
    let names = [&before, &after].into_iter().flatten().flat_map(|(by_type, _)| by_type.keys().cloned());
    let names: std::collections::BTreeSet<String> = names.collect();
    let measured = gaps.map(|gap| u128::from(gap.measured.max(1)));
    let row = |name: String| {
        let sum = |side: &Option<(BTreeMap<String, u128>, f64)>| {
            let (by_type, covered) = side.as_ref()?;
            (*covered >= 1.0).then(|| by_type.get(&name).copied().unwrap_or(0))
        };
        let sums = [sum(&before), sum(&after)];
        let each = [0, 1].map(|at| sums[at].map(|sum| sum as f64 / measured[at] as f64));
        let change =
            sums[0].zip(sums[1]).map(|(before, after)| (after * measured[0]).cmp(&(before * measured[1])));
        // Steps that nobody marked are found by what repeats; all else is of everything recorded.
        let found = is_whole && gaps.iter().any(|gap| gap.found_by != FoundBy::None);
        let of = if found { format!("{name}, one step") } else { name };
        let mut row = Row::new(What::Flops, Some(of), each, change);
        if change.is_none() {
            row.details.push("not known: sizes of some operators are not recorded".to_owned());
        }
        row
    };
    names.into_iter().map(row).collect()
}

/// The amounts of two reports of Nsight Compute.
pub(super) fn of_reports(files: [&Path; 2]) -> Result<Vec<Row>, Failure> {
    let [before, after] = files.map(Profile::open);
    let profiles = [before?, after?];
    for (file, profile) in files.iter().zip(&profiles) {
        if profile.lost_at.is_some() {
            let message = format!("{}: the report breaks off, so its sums are too small", file.display());
            return Err(Failure::new(message).exit(Exit::Absent));
        }
        flopgap_cli::warn_all(crate::PROGRAM, &profile.warnings);
    }
    let totals = [&profiles[0].totals, &profiles[1].totals];
    let launches = totals.map(|totals| Some(u128::from(totals.launches)));
    let mut rows: Vec<Row> = Row::counted(What::Launches, None, launches).into_iter().collect();
    let mut kernels: BTreeMap<&str, [u128; 2]> = BTreeMap::new();
    for (at, profile) in profiles.iter().enumerate() {
        for kernel in &profile.kernels {
            kernels.entry(&kernel.info.short).or_default()[at] += u128::from(kernel.totals.launches);
        }
    }
    rows.push(by_name(What::Kernels, None, "launches", kernels.into_iter(), [1, 1]));
    let types: std::collections::BTreeSet<_> =
        totals.iter().flat_map(|totals| totals.by_precision.keys().copied()).collect();
    for operation in types {
        // A type that no launch of a report has is none of its FLOPs, where those are known.
        let of = |totals: &Totals| match totals.by_precision.get(&operation) {
            Some(&sum) => totals.complete(sum).map(u128::from),
            None => totals.work().map(|_| 0),
        };
        let Some(mut row) = Row::counted(What::Flops, Some(operation.as_str()), totals.map(of)) else {
            continue;
        };
        if row.change.is_none() {
            row.details.push("not known: not measured for every launch".to_owned());
        } else if row.before == Some(0.0) && row.after == Some(0.0) {
            continue;
        }
        rows.push(row);
    }
    Ok(rows)
}

/// The amounts of two models.
#[cfg(feature = "calibrate")]
pub(super) fn of_models(files: [&Path; 2]) -> Result<Vec<Row>, Failure> {
    let [before, after] = files.map(|file| flopgap_graph::read(file, &flopgap_graph::Shapes::default()));
    let graphs = [before?, after?];
    let mut layers: BTreeMap<&str, [u128; 2]> = BTreeMap::new();
    for (at, graph) in graphs.iter().enumerate() {
        for layer in &graph.layers {
            layers.entry(&layer.operator).or_default()[at] += 1;
        }
    }
    let mut by_operator = by_name(What::Layers, None, "layers", layers.into_iter(), [1, 1]);
    [by_operator.before, by_operator.after] = [0, 1].map(|at| Some(graphs[at].layers.len() as f64));
    let mut rows = vec![by_operator];
    let work = [graphs[0].work()?, graphs[1].work()?];
    let bytes = [work[0].bytes()?, work[1].bytes()?];
    let parameters = [graphs[0].parameters()?, graphs[1].parameters()?];
    let peaks = [graphs[0].peak_bytes()?, graphs[1].peak_bytes()?];
    for (what, amounts) in [
        (What::Flops, work.map(|work| work.flops)),
        (What::Bytes, bytes),
        (What::PeakMemory, peaks),
        (What::Parameters, parameters),
    ] {
        rows.extend(Row::counted(what, None, amounts.map(|amount| Some(u128::from(amount)))));
    }
    for (graph, side) in graphs.iter().zip(["before", "after"]) {
        let unknown = graph.unknown().count();
        if unknown > 0 {
            rows[1].details.push(format!("{side}: {unknown} layers have no formula and are in no sum"));
        }
    }
    Ok(rows)
}

#[cfg(not(feature = "calibrate"))]
pub(super) fn of_models(_files: [&Path; 2]) -> Result<Vec<Row>, Failure> {
    unreachable!("without the feature no file is recognized as a model")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn means_are_compared_as_fractions_of_whole_numbers() {
        let row = |amounts: [u128; 2], instances| {
            by_name(What::Kernels, None, "launches", [("k", amounts)].into_iter(), instances)
        };
        assert_eq!(row([10, 15], [2, 3]).change, Some(Ordering::Equal));
        // One third has no exact binary form.
        assert_eq!(row([1, 100], [3, 300]).change, Some(Ordering::Equal));
        let more = row([10, 16], [2, 3]);
        assert_eq!(
            (more.change, more.details.as_slice()),
            (Some(Ordering::Greater), ["`k`: 5 launches before, 5.33 after".to_owned()].as_slice())
        );
        assert_eq!(row([10, 14], [2, 3]).change, Some(Ordering::Less));
        assert_eq!(row([0, 1], [2, 3]).details, ["new: `k`, 0.33 launches"]);
    }

    #[test]
    fn more_fails_unless_it_is_allowed() {
        let row =
            |before: u128, after: u128| Row::counted(What::Flops, None, [Some(before), Some(after)]).unwrap();
        let fails = |mut row: Row, allowed: &[&str], equal| {
            let allowed: Vec<Allowed> = allowed.iter().map(|text| text.parse().unwrap()).collect();
            row.judge(&allowed, equal);
            row.fails
        };
        assert!(fails(row(100, 101), &[], false));
        assert!(!fails(row(100, 101), &["flops"], false));
        assert!(!fails(row(100, 101), &["flops=1"], false));
        assert!(fails(row(100, 102), &["flops=1", "launches"], false));
        assert!(fails(row(0, 1), &["flops=50"], false));
        assert!(!fails(row(100, 99), &[], false) && fails(row(100, 99), &[], true));
        assert!(!fails(row(100, 100), &[], true));
        let unknown = Row::counted(What::Flops, None, [None, Some(1)]).unwrap();
        assert!(unknown.is_undecided() && !fails(unknown.clone(), &[], true));
        assert_eq!(Row::counted(What::Flops, None, [None, None]), None);
    }

    #[test]
    fn what_cannot_be_allowed_names_what_can() {
        let error = "speed".parse::<Allowed>().unwrap_err();
        assert!(error.starts_with("expected one of launches, kernels, graph-nodes, flops"), "{error}");
        assert!("flops=x".parse::<Allowed>().is_err());
    }
}

//! `flopgap ncu kernels`: the work of each kernel, or each class of kernels, of a report, a record
//! or a run.

use std::error::Error;
use std::path::PathBuf;

use flopgap_cli::{Console, Failure, OutputArgs};
use flopgap_flops::FlopError;
use flopgap_kernels::{Classifier, simple_kernel};
use flopgap_phases::{Sum, Totals};
use flopgap_report::numbers::group_thousands;
use flopgap_report::table::{Format, TextOptions};
use serde_json::{Map, Value, json};

use crate::groups::{By, Group, groups, share, time_share};
use crate::input::Input;
use crate::selection::{Selected, Selection, fail};
use crate::{columns, missing};

#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  flopgap ncu kernels fixtures/ncu/h200_kernels_graph_nvtx.ncu-rep --by class
  flopgap ncu kernels fixtures/notebook/forward.csv --phase forward --setup fixtures/notebook/setup.csv
  flopgap ncu kernels fixtures/runs/h200-default -n 4 -d 512..2048:512 --top 5")]
pub(crate) struct Arguments {
    /// Reports, added up: any CSV of ncu, or .ncu-rep, also compressed, - for standard input;
    /// directories of such; records and run directories of hyper-profile
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Group rows by this [default: one table by class and one by kernel]
    #[arg(long, value_enum, value_name = "GROUP")]
    by: Option<By>,
    /// Show only the first N rows of each table
    #[arg(long, value_name = "N")]
    top: Option<usize>,
    #[command(flatten)]
    selection: Selection,
    #[command(flatten)]
    input: Input,
    #[command(flatten)]
    output: OutputArgs,
}

pub(crate) fn run(arguments: &Arguments, console: Console) -> Result<(), Failure> {
    let classifier = Classifier::new();
    Input::at_most_one_stdin(arguments.files.iter().map(PathBuf::as_path))?;
    let selected = arguments.selection.load(&arguments.files, &arguments.input, &classifier, console)?;
    selected.warn();
    let result = render(&selected, arguments).map_err(|error| Failure::from_error(error.as_ref()))?;
    arguments.output.write(console, &result)?;
    fail(selected.failures())
}

fn render(selected: &Selected, arguments: &Arguments) -> Result<String, Box<dyn Error>> {
    let profile = &selected.profile;
    let shown = |by: By| Ok::<_, FlopError>(groups(profile, by)?.top(arguments.top));
    match arguments.output.format() {
        Format::Json => Ok(in_json(selected, arguments)?),
        format if format.is_csv() => {
            let by = arguments.by.unwrap_or(By::Kernel);
            Ok(columns::table("", by, &shown(by)?, &profile.totals)?
                .render(format, &TextOptions::default())?)
        }
        format => {
            let options = arguments.output.text();
            let title = |by: By| {
                let networks = match selected.configurations() {
                    Some(1) => ", 1 network".to_owned(),
                    Some(count) => format!(", {} networks", group_thousands(count as u64)),
                    None => String::new(),
                };
                let files = match selected.parts.len() {
                    1 => String::new(),
                    count => format!(", {count} files"),
                };
                let selection = &arguments.selection;
                format!("{}{}{}{networks}{files}", by.title(), selection.title(), selection.extent(selected))
            };
            let mut sections = Vec::new();
            for by in arguments.by.map_or_else(|| vec![By::Class, By::Kernel], |by| vec![by]) {
                let table = columns::table_for_readers(title(by), &shown(by)?, &profile.totals)?;
                sections.push(table.render(format, &options)?);
            }
            let sentence = |why: String| format.sentences(&why, &options);
            sections.extend(missing::no_work(profile).map(sentence));
            Ok(sections.join("\n"))
        }
    }
}

/// `{"files", "phase", "ranges", "launches", "launches_in_files", "launches_undecided",
/// "total": {…}, "classes": […], "kernels": […]}`; what was not measured is null.
fn in_json(selected: &Selected, arguments: &Arguments) -> Result<String, FlopError> {
    let profile = &selected.profile;
    let rows = |by| -> Result<Vec<Value>, FlopError> {
        let groups = groups(profile, by)?.top(arguments.top);
        Ok(groups.rows.iter().map(|group| in_object(&groups.keys, group, &profile.totals)).collect())
    };
    let whole = Group { labels: Vec::new(), name: None, totals: profile.totals.clone() };
    let mut kernels = rows(By::Kernel)?;
    for (row, kernel) in kernels.iter_mut().zip(&profile.kernels) {
        row["simple_kernel"] = json!(simple_kernel(&kernel.name));
        row["precision"] = json!(kernel.info.precision.map(|precision| precision.to_string()));
        row["tile"] = json!(kernel.info.tile.map(|tile| tile.to_string()));
    }
    let mut document = json!({
        "files": selected.parts.iter().map(|part| part.path.display().to_string()).collect::<Vec<_>>(),
        "phase": arguments.selection.phase(),
        "ranges": arguments.selection.ranges(),
        "launches": profile.totals.launches,
        "launches_in_files": Some(profile.whole.launches).filter(|&launches| launches > 0),
        "launches_undecided": profile.whole.undecided.as_ref().map_or(0, |missing| missing.launches),
        "total": in_object(&[], &whole, &profile.totals),
        "classes": rows(By::Class)?,
        "kernels": kernels,
    });
    if let Some(configurations) = selected.configurations() {
        document["configurations"] = json!(configurations);
    }
    Ok(format!("{document:#}"))
}

/// The sums that a report may have.
fn sums(totals: &Totals) -> [Sum; 4] {
    [totals.flops, totals.dram_bytes, totals.l2_bytes, totals.duration_ns]
}

fn in_object(keys: &[&str], group: &Group, whole: &Totals) -> Value {
    let totals = &group.totals;
    let mut object = Map::new();
    for (key, label) in keys.iter().zip(&group.labels) {
        object.insert((*key).to_owned(), json!(label));
    }
    if let Some(name) = &group.name {
        object.insert("name".to_owned(), json!(name));
    }
    let by_precision: Map<String, Value> = totals
        .by_precision
        .iter()
        .map(|(precision, sum)| (precision.as_str().replace(' ', "_"), json!(totals.complete(*sum))))
        .collect();
    let instructions: Map<String, Value> = totals
        .by_instruction
        .iter()
        .map(|(instruction, sum)| (instruction.as_str().to_owned(), json!(totals.complete(*sum))))
        .collect();
    let rounded = sums(totals).iter().any(|sum| sum.is_rounded());
    for (key, value) in [
        ("launches", json!(totals.launches)),
        ("flops", json!(totals.complete(totals.flops))),
        ("launches_of_unknown_flops", json!(totals.launches - totals.measured(totals.flops))),
        ("share", json!(share(totals, whole))),
        ("flops_by_precision", Value::Object(by_precision)),
        ("instructions", Value::Object(instructions)),
        ("dram_bytes", json!(totals.complete(totals.dram_bytes))),
        ("l2_bytes", json!(totals.complete(totals.l2_bytes))),
        ("duration_ns", json!(totals.complete(totals.duration_ns))),
        ("intensity", json!(totals.intensity())),
        ("time_share", json!(time_share(totals, whole))),
        ("tflops", json!(totals.flops_per_second().map(|rate| rate / 1e12))),
        ("gbps", json!(totals.bytes_per_second().map(|rate| rate / 1e9))),
        ("roofline_share", json!(totals.roofline_share())),
        ("occupancy", json!(totals.mean_occupancy())),
        ("rounded", json!(rounded)),
    ] {
        object.insert(key.to_owned(), value);
    }
    Value::Object(object)
}

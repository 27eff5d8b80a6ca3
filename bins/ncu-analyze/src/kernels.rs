//! `ncu-analyze kernels`: what each kernel, or each class of kernels, of a report did.

use std::error::Error;
use std::path::PathBuf;

use clap::ValueEnum;
use flopgap_cli::{Exit, Failure, FormatArg};
use flopgap_flops::FlopError;
use flopgap_kernels::{Classifier, simple_kernel};
use flopgap_ncu::Precision;
use flopgap_phases::{KernelProfile, Profile, Sum, Totals};
use flopgap_report::ReportError;
use flopgap_report::table::{Cell, Column, Table, TextOptions};
use serde_json::{Map, Value, json};

use crate::input::Input;
use crate::{PROGRAM, failure, gaps};

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// The report: any CSV of ncu, or .ncu-rep, also compressed; - for standard input.
    file: PathBuf,
    /// What a row stands for; without it, one table by class and one by kernel.
    #[arg(long, value_enum)]
    by: Option<By>,
    /// Show only the first N rows of each table.
    #[arg(long, value_name = "N")]
    top: Option<usize>,
    #[command(flatten)]
    input: Input,
    /// How to print the result.
    #[arg(long, value_enum, default_value_t)]
    format: FormatArg,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum By {
    /// The kernel's full name.
    Kernel,
    /// The class that the name tells: matmul, split-k-reduce, elementwise, …
    Class,
    /// The "Simple Kernel" column of the MLP notebook, which drops names that its pattern does not match.
    Simple,
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let classifier = Classifier::new();
    let profile = arguments.input.profile(&arguments.file, &classifier).map_err(|error| failure(&error))?;
    flopgap_cli::warn_all(PROGRAM, &profile.warnings);
    if profile.kernels.is_empty() {
        gaps::require_whole(&arguments.file, profile.lost_at)?;
        let message = format!("{}: no launch is in the report", arguments.file.display());
        let hint = "check that no filter of ncu (-k, --nvtx-include) left all kernels out, and record again";
        return Err(Failure::new(message).hint(hint).exit(Exit::Absent));
    }
    gaps::warn(&arguments.file, &profile);
    let result = render(&profile, arguments).map_err(|error| Failure::from_error(error.as_ref()))?;
    flopgap_cli::print(&result)?;
    gaps::require_whole(&arguments.file, profile.lost_at)
}

fn render(profile: &Profile, arguments: &Arguments) -> Result<String, Box<dyn Error>> {
    let table_of = |by: By, title| -> Result<Table, Box<dyn Error>> {
        Ok(table(title, by, &groups(profile, by, arguments.top)?, &profile.totals)?)
    };
    match arguments.format {
        FormatArg::Json => Ok(in_json(profile, arguments)?),
        FormatArg::Csv => Ok(table_of(arguments.by.unwrap_or(By::Kernel), "")?.to_csv()?),
        format => {
            let shown = arguments.by.map_or_else(|| vec![By::Class, By::Kernel], |by| vec![by]);
            let sections: Result<Vec<String>, Box<dyn Error>> = shown
                .into_iter()
                .map(|by| Ok(table_of(by, by.title())?.render(format.into(), &TextOptions::for_stdout())?))
                .collect();
            Ok(sections?.join("\n"))
        }
    }
}

impl By {
    fn title(self) -> &'static str {
        match self {
            By::Kernel => "By kernel",
            By::Class => "By class",
            By::Simple => "By the notebook's simple name",
        }
    }

    /// The keys of the columns that say what a row stands for.
    fn labels(self) -> &'static [&'static str] {
        match self {
            By::Kernel => &["kernel", "class", "library"],
            By::Class => &["class"],
            By::Simple => &["simple_kernel"],
        }
    }
}

/// The sums that a report may hold, by name.
fn quantities(totals: &Totals) -> [(&'static str, Sum); 4] {
    [
        ("FLOPs", totals.flops),
        ("DRAM traffic", totals.dram_bytes),
        ("L2 traffic", totals.l2_bytes),
        ("GPU time", totals.duration_ns),
    ]
}

/// A row of a table: what it stands for, and its totals.
struct Group {
    /// One for each of [`By::labels`].
    labels: Vec<Option<String>>,
    totals: Totals,
}

fn groups(profile: &Profile, by: By, top: Option<usize>) -> Result<Vec<Group>, FlopError> {
    let mut groups: Vec<Group> = match by {
        By::Kernel => profile.kernels.iter().map(kernel_group).collect(),
        By::Class => profile
            .by_class()?
            .into_iter()
            .map(|(class, totals)| Group { labels: vec![Some(class.to_string())], totals })
            .collect(),
        By::Simple => profile
            .group(|kernel| simple_kernel(&kernel.name).map(str::to_owned))?
            .into_iter()
            .map(|(name, totals)| Group { labels: vec![name], totals })
            .collect(),
    };
    groups.truncate(top.unwrap_or(usize::MAX));
    Ok(groups)
}

fn kernel_group(kernel: &KernelProfile) -> Group {
    let info = &kernel.info;
    let labels = vec![Some(info.short.clone()), Some(info.class.to_string()), Some(info.library.to_string())];
    Group { labels, totals: kernel.totals.clone() }
}

fn share(part: &Totals, whole: &Totals) -> Option<f64> {
    // Of what is known: the warning beside it says what is not.
    let known = Some(whole.known(whole.flops)).filter(|&flops| flops > 0)?;
    Some(part.complete(part.flops)? as f64 / known as f64)
}

fn table(title: &str, by: By, groups: &[Group], whole: &Totals) -> Result<Table, ReportError> {
    let precisions: Vec<Precision> = whole.by_precision.keys().copied().collect();
    let measured = |sum: Sum| sum != Sum::default();
    let mut columns: Vec<Column> =
        by.labels().iter().map(|key| Column::text(*key, key.replace('_', " "))).collect();
    columns.push(Column::number("launches", "launches"));
    columns.push(Column::number("flops", "work").unit("FLOP"));
    columns.push(Column::number("share", "share"));
    for precision in &precisions {
        let label = precision.label();
        columns.push(Column::number(label.replace(' ', "_"), label).unit("FLOP"));
    }
    if measured(whole.dram_bytes) {
        columns.push(Column::number("dram_bytes", "DRAM").unit("byte"));
        columns.push(Column::number("intensity", "intensity").unit("FLOP/byte"));
    }
    if measured(whole.l2_bytes) {
        columns.push(Column::number("l2_bytes", "L2").unit("byte"));
    }
    if measured(whole.duration_ns) {
        columns.push(Column::number("duration_ns", "time").unit("ns"));
    }
    let mut table = Table::new(title, columns)?;
    for Group { labels, totals } in groups {
        let count = |sum: Sum| Cell::optional(totals.complete(sum), Cell::from);
        let mut row: Vec<Cell> =
            labels.iter().map(|label| Cell::optional(label.clone(), Cell::text)).collect();
        row.push(Cell::from(totals.launches));
        row.push(count(totals.flops));
        row.push(Cell::optional(share(totals, whole), |share| Cell::percent(share, 2)));
        for precision in &precisions {
            row.push(count(totals.by_precision.get(precision).copied().unwrap_or_default()));
        }
        if measured(whole.dram_bytes) {
            row.push(count(totals.dram_bytes));
            row.push(Cell::optional(totals.intensity(), |intensity| Cell::float(intensity, 2)));
        }
        if measured(whole.l2_bytes) {
            row.push(count(totals.l2_bytes));
        }
        if measured(whole.duration_ns) {
            row.push(count(totals.duration_ns));
        }
        table.push(row)?;
    }
    Ok(table)
}

/// `{"file", "launches", "total": {…}, "classes": […], "kernels": […]}`; what was not measured is null.
fn in_json(profile: &Profile, arguments: &Arguments) -> Result<String, FlopError> {
    let rows = |by| -> Result<Vec<Value>, FlopError> {
        Ok(groups(profile, by, arguments.top)?
            .iter()
            .map(|group| in_object(by, group, &profile.totals))
            .collect())
    };
    let whole = Group { labels: Vec::new(), totals: profile.totals.clone() };
    let mut kernels = rows(By::Kernel)?;
    for (row, kernel) in kernels.iter_mut().zip(&profile.kernels) {
        row["name"] = json!(kernel.name);
        row["simple_kernel"] = json!(simple_kernel(&kernel.name));
        row["precision"] = json!(kernel.info.precision.map(|precision| precision.to_string()));
        row["tile"] = json!(kernel.info.tile.map(|tile| tile.to_string()));
    }
    let document = json!({
        "file": arguments.file.display().to_string(),
        "launches": profile.totals.launches,
        "total": in_object(By::Class, &whole, &profile.totals),
        "classes": rows(By::Class)?,
        "kernels": kernels,
    });
    Ok(format!("{document:#}"))
}

fn in_object(by: By, group: &Group, whole: &Totals) -> Value {
    let totals = &group.totals;
    let mut object = Map::new();
    for (key, label) in by.labels().iter().zip(&group.labels) {
        object.insert((*key).to_owned(), json!(label));
    }
    let by_precision: Map<String, Value> = totals
        .by_precision
        .iter()
        .map(|(precision, sum)| (precision.label().replace(' ', "_"), json!(totals.complete(*sum))))
        .collect();
    let rounded = quantities(totals).iter().any(|(_, sum)| sum.is_rounded());
    for (key, value) in [
        ("launches", json!(totals.launches)),
        ("flops", json!(totals.complete(totals.flops))),
        ("launches_of_unknown_flops", json!(totals.launches - totals.measured(totals.flops))),
        ("share", json!(share(totals, whole))),
        ("flops_by_precision", Value::Object(by_precision)),
        ("dram_bytes", json!(totals.complete(totals.dram_bytes))),
        ("l2_bytes", json!(totals.complete(totals.l2_bytes))),
        ("duration_ns", json!(totals.complete(totals.duration_ns))),
        ("intensity", json!(totals.intensity())),
        ("rounded", json!(rounded)),
    ] {
        object.insert(key.to_owned(), value);
    }
    Value::Object(object)
}

//! `ncu-analyze kernels`: what each kernel, or each class of kernels, of a report, a record or a run did.

use std::error::Error;
use std::path::PathBuf;

use clap::ValueEnum;
use flopgap_cli::{Failure, FormatArg};
use flopgap_flops::FlopError;
use flopgap_kernels::{Classifier, distinct_names, simple_kernel};
use flopgap_phases::{Profile, Sum, Totals};
use flopgap_report::numbers::group_thousands;
use flopgap_report::table::{TextOptions, terminal_width};
use serde_json::{Map, Value, json};

use crate::columns::{self, Reader};
use crate::gaps;
use crate::input::Input;
use crate::selection::{Selected, Selection};

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// The report: any CSV of ncu, or .ncu-rep, also compressed, - for standard input; or a record or run directory of hyper-profile.
    file: PathBuf,
    /// What a row stands for; without it, one table by class and one by kernel.
    #[arg(long, value_enum)]
    by: Option<By>,
    /// Show only the first N rows of each table.
    #[arg(long, value_name = "N")]
    top: Option<usize>,
    #[command(flatten)]
    selection: Selection,
    #[command(flatten)]
    input: Input,
    /// How to print the result.
    #[arg(long, value_enum, default_value_t)]
    format: FormatArg,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum By {
    /// The kernel's full name.
    Kernel,
    /// The class that follows from the name: matmul, split-k-reduce, elementwise, …
    Class,
    /// The "Simple Kernel" column of the MLP notebook, which drops names that its pattern does not match.
    Simple,
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let classifier = Classifier::new();
    let selected = arguments.selection.load(&arguments.file, &arguments.input, &classifier)?;
    let profile = &selected.profile;
    gaps::warn(&arguments.file, profile);
    let result = render(&selected, arguments).map_err(|error| Failure::from_error(error.as_ref()))?;
    flopgap_cli::print(&result)?;
    gaps::require_whole(&arguments.file, profile.lost_at)
}

fn render(selected: &Selected, arguments: &Arguments) -> Result<String, Box<dyn Error>> {
    let profile = &selected.profile;
    let shown = |by: By| Ok::<_, FlopError>(groups(profile, by)?.top(arguments.top));
    match arguments.format {
        FormatArg::Json => Ok(in_json(selected, arguments)?),
        FormatArg::Csv => {
            let by = arguments.by.unwrap_or(By::Kernel);
            Ok(columns::table("", by, &shown(by)?, &profile.totals)?.to_csv()?)
        }
        format => {
            let reader = Reader { width: terminal_width() };
            let title = |by: By| {
                let networks = match selected.configurations {
                    Some(1) => ", 1 network".to_owned(),
                    Some(count) => format!(", {} networks", group_thousands(count as u64)),
                    None => String::new(),
                };
                format!("{}{}{networks}", by.title(), arguments.selection.title())
            };
            let mut sections = Vec::new();
            for by in arguments.by.map_or_else(|| vec![By::Class, By::Kernel], |by| vec![by]) {
                let (table, left_out) = reader.table(title(by), by, &shown(by)?, &profile.totals)?;
                let mut text = table.render(format.into(), &TextOptions::for_stdout())?;
                if !left_out.is_empty() {
                    text += "Omitted to fit the terminal: ";
                    text += &left_out.join(", ");
                    text += "; --format csv has them\n";
                }
                sections.push(text);
            }
            Ok(sections.join("\n"))
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
    pub(crate) fn labels(self) -> &'static [&'static str] {
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
pub(crate) struct Group {
    /// One for each of [`By::labels`].
    pub(crate) labels: Vec<Option<String>>,
    /// The kernel's name as the report has it, of a row that stands for one kernel.
    pub(crate) name: Option<String>,
    pub(crate) totals: Totals,
}

/// The rows of a table, and what those that are not shown add up to.
pub(crate) struct Groups {
    pub(crate) rows: Vec<Group>,
    /// How many are not shown, and their totals.
    pub(crate) more: Option<(usize, Totals)>,
}

impl Groups {
    /// The first rows.
    fn top(mut self, top: Option<usize>) -> Groups {
        let rest = self.rows.split_off(top.unwrap_or(usize::MAX).min(self.rows.len()));
        let mut more = Totals::default();
        // The sum over all rows exists, so this one does.
        let fits = rest.iter().all(|group| more.merge(&group.totals).is_ok());
        self.more = (fits && !rest.is_empty()).then_some((rest.len(), more));
        self
    }
}

fn groups(profile: &Profile, by: By) -> Result<Groups, FlopError> {
    let plain = |labels, totals| Group { labels, name: None, totals };
    let rows = match by {
        By::Kernel => kernel_groups(profile),
        By::Class => profile
            .by_class()?
            .into_iter()
            .map(|(class, totals)| plain(vec![Some(class.to_string())], totals))
            .collect(),
        By::Simple => profile
            .group(|kernel| simple_kernel(&kernel.name).map(str::to_owned))?
            .into_iter()
            .map(|(name, totals)| plain(vec![name], totals))
            .collect(),
    };
    Ok(Groups { rows, more: None })
}

fn kernel_groups(profile: &Profile) -> Vec<Group> {
    let names: Vec<(&str, &str)> =
        profile.kernels.iter().map(|kernel| (kernel.name.as_str(), kernel.info.short.as_str())).collect();
    let labels = distinct_names(&names).into_iter();
    let group = |(label, kernel): (String, &flopgap_phases::KernelProfile)| Group {
        labels: vec![Some(label), Some(kernel.info.class.to_string()), Some(kernel.info.library.to_string())],
        name: Some(kernel.name.clone()),
        totals: kernel.totals.clone(),
    };
    labels.zip(&profile.kernels).map(group).collect()
}

pub(crate) fn share(part: &Totals, whole: &Totals) -> Option<f64> {
    // Of what is known: the warning beside it says what is not.
    let known = Some(whole.known(whole.flops)).filter(|&flops| flops > 0)?;
    Some(part.complete(part.flops)? as f64 / known as f64)
}

/// `{"file", "phase", "ranges", "launches", "total": {…}, "classes": […], "kernels": […]}`; what was not measured is null.
fn in_json(selected: &Selected, arguments: &Arguments) -> Result<String, FlopError> {
    let profile = &selected.profile;
    let rows = |by| -> Result<Vec<Value>, FlopError> {
        let groups = groups(profile, by)?.top(arguments.top);
        Ok(groups.rows.iter().map(|group| in_object(by, group, &profile.totals)).collect())
    };
    let whole = Group { labels: Vec::new(), name: None, totals: profile.totals.clone() };
    let mut kernels = rows(By::Kernel)?;
    for (row, kernel) in kernels.iter_mut().zip(&profile.kernels) {
        row["simple_kernel"] = json!(simple_kernel(&kernel.name));
        row["precision"] = json!(kernel.info.precision.map(|precision| precision.to_string()));
        row["tile"] = json!(kernel.info.tile.map(|tile| tile.to_string()));
    }
    let mut document = json!({
        "file": arguments.file.display().to_string(),
        "phase": arguments.selection.phase(),
        "ranges": arguments.selection.ranges(),
        "launches": profile.totals.launches,
        "total": in_object(By::Class, &whole, &profile.totals),
        "classes": rows(By::Class)?,
        "kernels": kernels,
    });
    if let Some(configurations) = selected.configurations {
        document["configurations"] = json!(configurations);
    }
    Ok(format!("{document:#}"))
}

fn in_object(by: By, group: &Group, whole: &Totals) -> Value {
    let totals = &group.totals;
    let mut object = Map::new();
    for (key, label) in by.labels().iter().zip(&group.labels) {
        object.insert((*key).to_owned(), json!(label));
    }
    if let Some(name) = &group.name {
        object.insert("name".to_owned(), json!(name));
    }
    let by_precision: Map<String, Value> = totals
        .by_precision
        .iter()
        .map(|(precision, sum)| (precision.label().replace(' ', "_"), json!(totals.complete(*sum))))
        .collect();
    let instructions: Map<String, Value> = totals
        .by_instruction
        .iter()
        .map(|(instruction, sum)| (instruction.label().to_owned(), json!(totals.complete(*sum))))
        .collect();
    let rounded = quantities(totals).iter().any(|(_, sum)| sum.is_rounded());
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
        ("rounded", json!(rounded)),
    ] {
        object.insert(key.to_owned(), value);
    }
    Value::Object(object)
}

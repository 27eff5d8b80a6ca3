//! `flopgap table collect INPUTS… -o DIR`: sources of any kind into one data set.

mod find;
mod one;
mod output;
mod runs;

use std::collections::BTreeMap;
use std::num::NonZero;
use std::path::{Path, PathBuf};

use flopgap_cli::{Console, Exit, Failure, FormatArg, Verbosity};
use flopgap_report::table::{Cell, Column, Table, TextOptions};
use rayon::iter::{IntoParallelRefIterator as _, ParallelIterator as _};

use crate::PROGRAM;
use crate::layout::Layout;
use find::{Found, Input};
use one::{Outcome, State};

#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  flopgap table collect fixtures/nsys fixtures/runs/h200-default -o data
  flopgap table collect monday=traces/step.sqlite -o data --table kernels,ranges")]
pub(crate) struct Arguments {
    /// Run directories, reports of Nsight Compute, exports of Nsight Systems, traces of
    /// torch.profiler, calibration files, and directories that are searched for them; NAME=PATH
    /// names the run.
    #[arg(required = true, value_name = "[NAME=]INPUT")]
    inputs: Vec<PathBuf>,
    /// Write to this data set, a directory. What it has of other runs stays.
    #[arg(long, short, value_name = "DIR")]
    output: PathBuf,
    /// Number of sources that are read at once [default: one for each core].
    #[arg(long, short, value_name = "N")]
    jobs: Option<NonZero<usize>>,
    /// Write only these tables [default: all].
    #[arg(long, value_delimiter = ',', value_name = "TABLE")]
    table: Vec<String>,
    /// Collect again what has not changed.
    #[arg(long)]
    again: bool,
    /// Replace a run that was collected from another file.
    #[arg(long)]
    replace: bool,
    /// Output format of the list of what was collected.
    #[arg(long, value_enum, value_name = "FORMAT", default_value_t)]
    format: FormatArg,
}

/// What to do with every source.
struct Options<'a> {
    layout: &'a Layout,
    only: Vec<String>,
    again: bool,
    replace: bool,
    console: Console,
}

pub(crate) fn run(arguments: &Arguments, console: Console) -> Result<(), Failure> {
    let layout = Layout::new(&arguments.output);
    output::check(&arguments.output)?;
    let found = console.timed("inputs: searched", || find::find(&arguments.inputs, &layout))?;
    // Nothing was written so far: not into a directory that is an input.
    flopgap_fs::create_folder(&layout.runs())?;
    for skipped in &found.skipped {
        flopgap_cli::note(PROGRAM, format!("SKIPPED: {skipped}"));
    }
    let mut only = arguments.table.clone();
    only.sort();
    only.dedup();
    let (again, replace) = (arguments.again, arguments.replace);
    let options = Options { layout: &layout, only, again, replace, console };
    let (inputs, mut outcomes) = named(found.inputs, &layout);
    outcomes.extend(each(&inputs, arguments.jobs, |input| one::collect(input, &options))?);
    outcomes.sort_by(|a, b| (&a.run, &a.path).cmp(&(&b.run, &b.path)));
    finish(&outcomes, found.unreadable, arguments.format, console)
}

/// Inputs whose names are theirs alone, and what became of the others.
fn named(found: Vec<Found>, layout: &Layout) -> (Vec<Input>, Vec<Outcome>) {
    let known = one::known_sources(layout);
    let mut inputs: BTreeMap<String, Input> = BTreeMap::new();
    let mut outcomes = Vec::new();
    for Found { name, path, searched } in found {
        // A source that was collected keeps its name, whatever way it is found this time.
        let canonical = path.canonicalize().unwrap_or_else(|_| path.clone());
        let run = name.unwrap_or_else(|| {
            let default = || crate::name::of(searched.as_deref().unwrap_or_else(|| file_name(&path)));
            known.get(&canonical).cloned().unwrap_or_else(default)
        });
        if let Some(other) = inputs.get(&run) {
            if other.path.canonicalize().is_ok_and(|other| other == canonical) {
                continue;
            }
            let failure = Failure::new(format!(
                "{}: the run name `{run}` is also that of {}",
                path.display(),
                other.path.display()
            ))
            .hint(format!("name one of them: `NAME={}`", path.display()));
            outcomes.push(Outcome { run, path, kind: None, state: State::Failed(failure) });
            continue;
        }
        let in_search = searched.is_some();
        inputs.insert(run.clone(), Input { run, path, in_search });
    }
    (inputs.into_values().collect(), outcomes)
}

fn file_name(path: &Path) -> &Path {
    path.file_name().map_or(path, Path::new)
}

/// The results of `work` for all inputs, several at once.
fn each(
    inputs: &[Input],
    jobs: Option<NonZero<usize>>,
    work: impl Fn(&Input) -> Outcome + Send + Sync,
) -> Result<Vec<Outcome>, Failure> {
    let pool = rayon::ThreadPoolBuilder::new().num_threads(jobs.map_or(0, NonZero::get)).build();
    let pool = pool.map_err(|error| Failure::from_error(&error))?;
    Ok(pool.install(|| inputs.par_iter().map(work).collect()))
}

/// How many files that are something else are named unless all are asked for.
const NAMED: usize = 10;

/// Names what was found and is something else.
fn note_others(others: &[String], console: Console) {
    let all = if console.verbosity() == Verbosity::Verbose { others.len() } else { NAMED };
    for other in others.iter().take(all) {
        flopgap_cli::note(PROGRAM, format!("SKIPPED: {other}"));
    }
    let count = others.len();
    if count > 0 {
        let files =
            if count == 1 { "1 other file was".to_owned() } else { format!("{count} other files were") };
        let more =
            if count > all { format!("; {all} are named above, --verbose names all") } else { String::new() };
        flopgap_cli::note(PROGRAM, format!("{files} found: neither report, trace nor run{more}"));
    }
}

/// Prints what became of all inputs.
fn finish(
    outcomes: &[Outcome],
    unreadable: usize,
    format: FormatArg,
    console: Console,
) -> Result<(), Failure> {
    let mut table = Table::new(
        "",
        [
            Column::text("run", "run"),
            Column::text("kind", "kind"),
            Column::text("state", "state"),
            Column::number("tables", "tables"),
            Column::number("rows", "rows"),
            Column::number("parquet_bytes", "Parquet").unit("bytes"),
        ],
    )
    .map_err(|error| Failure::from_error(&error))?;
    let mut others = Vec::new();
    let mut failures = Vec::new();
    for outcome in outcomes {
        let (tables, state) = match &outcome.state {
            State::Collected(tables) => (Some(tables), "collected"),
            State::Unchanged(tables) => (Some(tables), "unchanged"),
            State::Failed(failure) => {
                failures.push(format!("FAILED: {failure}"));
                (None, "failed")
            }
            State::Unrecognized(why) => {
                others.push(format!("{}: {why}", outcome.path.display()));
                continue;
            }
        };
        let cells = [
            Cell::text(&outcome.run),
            outcome.kind.as_deref().into(),
            state.into(),
            Cell::optional(tables, |tables| Cell::from(tables.count)),
            Cell::optional(tables, |tables| Cell::from(tables.rows)),
            Cell::optional(tables, |tables| Cell::from(tables.bytes)),
        ];
        table.push(cells).map_err(|error| Failure::from_error(&error))?;
    }
    note_others(&others, console);
    if table.is_empty() && unreadable == 0 {
        let message = "nothing to collect: neither report, trace nor run was found";
        return Err(Failure::new(message).exit(Exit::Absent));
    }
    let text = table.render(format.into(), &TextOptions::for_stdout());
    flopgap_cli::print(&text.map_err(|error| Failure::from_error(&error))?)?;
    for failure in &failures {
        flopgap_cli::note(PROGRAM, failure);
    }
    match (failures.len(), unreadable) {
        (0, 0) => Ok(()),
        (0, 1) => Err(Failure::new("1 directory could not be searched").hint("the reason is above")),
        (0, some) => {
            Err(Failure::new(format!("{some} directories could not be searched"))
                .hint("the reasons are above"))
        }
        (failed, _) => {
            Err(Failure::new(format!("{failed} of {} inputs could not be collected", table.rows().len()))
                .hint("the reasons are above; all other runs are in the data set"))
        }
    }
}

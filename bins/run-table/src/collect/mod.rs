//! `flopgap table collect INPUTS… -o DIR`: sources of any kind into one data set.

mod commit;
mod find;
mod gap;
mod identity;
mod lock;
mod one;
mod outcome;
mod output;
mod prune;
mod runs;

use std::collections::BTreeSet;
use std::num::NonZero;
use std::path::PathBuf;

use clap::builder::PossibleValuesParser;
use flopgap_cli::{Console, Exit, Failure, OutputArgs, Verbosity};
use flopgap_report::table::{Cell, Column, Format, Table, TextOptions};
use rayon::iter::{IntoParallelRefIterator as _, ParallelIterator as _};

use crate::PROGRAM;
use crate::layout::Layout;
use identity::Named;
use outcome::{Outcome, State};

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
    /// Write only these tables, beside those that a run has and `runs` [default: all].
    #[arg(long, value_delimiter = ',', value_name = "TABLE")]
    #[arg(value_parser = PossibleValuesParser::new(table_names()))]
    table: Vec<String>,
    /// Collect again what has not changed.
    #[arg(long)]
    again: bool,
    /// Replace a run that was collected from another file, or under another name.
    #[arg(long)]
    replace: bool,
    /// Remove runs whose sources are no longer in the directories that are searched.
    #[arg(long)]
    prune: bool,
    /// Output format of the list of what was collected.
    #[arg(long, value_enum, value_name = "FORMAT", default_value_t)]
    format: Format,
}

/// The tables that a data set can have.
fn table_names() -> BTreeSet<&'static str> {
    flopgap_table::table_names().into_iter().chain([gap::NAME, runs::NAME]).collect()
}

/// What to do with every source.
struct Options<'a> {
    layout: &'a Layout,
    only: BTreeSet<String>,
    again: bool,
    replace: bool,
    console: Console,
}

pub(crate) fn run(arguments: &Arguments, console: Console) -> Result<(), Failure> {
    let layout = Layout::new(&arguments.output);
    output::check(&arguments.output)?;
    let found = console.timed("inputs: searched", || find::find(&arguments.inputs, &layout))?;
    // Nothing was written so far: not into a directory that is an input.
    flopgap_files::create_folder(&layout.runs())?;
    commit::complete_all(&layout)?;
    let only = arguments.table.iter().cloned().collect();
    let (again, replace) = (arguments.again, arguments.replace);
    let options = Options { layout: &layout, only, again, replace, console };
    let contents = each(&found.inputs, arguments.jobs, identity::look)?;
    let inputs = found.inputs.into_iter().zip(contents).collect();
    let Named { inputs, refused: mut outcomes, doubles } = identity::named(inputs, &layout, replace);
    for skipped in found.skipped.iter().chain(&doubles) {
        flopgap_cli::note(PROGRAM, format!("SKIPPED: {skipped}"));
    }
    outcomes.extend(each(&inputs, arguments.jobs, |input| one::collect(input, &options))?);
    if arguments.prune {
        outcomes.extend(prune::prune(&arguments.inputs, &layout));
    }
    outcomes.sort_by(|a, b| (&a.run, &a.path).cmp(&(&b.run, &b.path)));
    finish(&outcomes, found.unreadable, arguments.format, console)
}

/// The results of `work` for all inputs, several at once.
fn each<I: Sync, O: Send>(
    inputs: &[I],
    jobs: Option<NonZero<usize>>,
    work: impl Fn(&I) -> O + Send + Sync,
) -> Result<Vec<O>, Failure> {
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
fn finish(outcomes: &[Outcome], unreadable: usize, format: Format, console: Console) -> Result<(), Failure> {
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
    let (mut others, mut lacking) = (Vec::new(), Vec::new());
    let (mut failed, mut incomplete) = (0, 0);
    for outcome in outcomes {
        let tables = match &outcome.state {
            State::Collected(tables) | State::Unchanged(tables) => {
                lacking.extend(tables.skipped.iter().map(|skipped| format!("SKIPPED: {skipped}")));
                incomplete += usize::from(!tables.skipped.is_empty());
                Some(tables)
            }
            State::Removed => None,
            State::Failed(failure) => {
                lacking.push(format!("FAILED: {failure}"));
                failed += 1;
                None
            }
            State::Unrecognized(why) => {
                others.push(format!("{}: {why}", outcome.path.display()));
                continue;
            }
        };
        let cells = [
            Cell::text(&outcome.run),
            outcome.kind.as_deref().into(),
            outcome.state.name().into(),
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
    let text = table.render(format, &TextOptions::for_stdout());
    let text = text.map_err(|error| Failure::from_error(&error))?;
    OutputArgs::new(Some(format), None).write(console, &text)?;
    for line in &lacking {
        flopgap_cli::note(PROGRAM, line);
    }
    let all = table.rows().len();
    match (failed, incomplete, unreadable) {
        (0, 0, 0) => Ok(()),
        (0, 0, 1) => Err(Failure::new("1 directory could not be searched").hint("the reason is above")),
        (0, 0, some) => {
            Err(Failure::new(format!("{some} directories could not be searched"))
                .hint("the reasons are above"))
        }
        (0, some, _) => Err(Failure::new(format!("{some} of {all} runs are incomplete in the data set"))
            .hint("what they lack is above, and in the manifest of each; record or export them again")),
        (failed, ..) => Err(Failure::new(format!("{failed} of {all} inputs could not be collected"))
            .hint("the reasons are above; all other runs are in the data set")),
    }
}

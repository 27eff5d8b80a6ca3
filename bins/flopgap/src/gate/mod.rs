//! `flopgap gate BEFORE AFTER`: whether a change makes a program do more, or take longer.

mod baseline;
mod exact;
mod output;
mod runs;
mod times;

use std::path::{Path, PathBuf};

use clap::ValueEnum;
use flopgap_answers::open;
use flopgap_cli::{Exit, Failure};

use crate::PROGRAM;
use crate::content::{self, Content};
use exact::{Allowed, Row};
use output::Format;
use times::Times;

#[derive(clap::Args)]
#[command(after_help = "\
What has no noise is compared exactly, of a step where both traces mark steps:
  trace           launches by kernel, nodes of CUDA graphs, FLOPs of products by type where sizes
                  are recorded, copies, sets and their bytes, peak memory where torch.profiler
                  recorded it (profile_memory=True)
  report of ncu   launches by kernel, executed FLOPs by type
  model           layers by operator, FLOPs, bytes, parameters, peak memory of its tensors
Times of steps fail with --fail-if-slower alone, and only beyond their scatter.

Exit codes: 0 passed, 1 failed, 3 not in the files, 4 cannot tell.

Examples:
  flopgap gate before.sqlite after.sqlite --fail-if-slower 5
  flopgap gate --save main step.sqlite
  flopgap gate --baseline main step.sqlite --allow kernels --format markdown
  flopgap gate --run './old --steps 100' --run './new --steps 100' --fail-if-slower 3
  flopgap gate fixtures/models/resnet18.pt2 fixtures/models/resnet50.pt2 --allow parameters")]
pub(crate) struct Arguments {
    /// A trace, report of ncu or model before the change, and one after it; with --baseline or
    /// --save only the latter
    #[arg(value_name = "FILE", num_args = 0..=2)]
    files: Vec<PathBuf>,
    /// Compare with the file that was saved under this name
    #[arg(long, value_name = "NAME", conflicts_with_all = ["save", "run"])]
    baseline: Option<String>,
    /// Keep a copy of the file under this name, in place of the one before
    #[arg(long, value_name = "NAME", conflicts_with = "run")]
    save: Option<String>,
    /// The directory of what was saved
    #[arg(long, value_name = "DIR", default_value = ".flopgap/baselines")]
    store: PathBuf,
    /// Run this command and a second one in turns, the one before the change first, and compare
    /// how long they take
    #[arg(long, value_name = "COMMAND", conflicts_with = "files")]
    run: Vec<String>,
    /// Run each command so often, after once without being timed
    #[arg(long, value_name = "N", default_value_t = 10, requires = "run", value_parser = clap::value_parser!(u32).range(2..))]
    repeat: u32,
    /// Fail, too, where something takes longer beyond scatter, by this percentage
    #[arg(long, value_name = "PERCENT", value_parser = flopgap_cli::percentage)]
    fail_if_slower: Option<f64>,
    /// Do not fail because of more of this: `kernels`, or up to a percentage, `flops=2`. Can be
    /// repeated
    #[arg(long, value_name = "WHAT")]
    allow: Vec<Allowed>,
    /// Fail on less, too: everything has to be equal
    #[arg(long)]
    equal: bool,
    /// Print the verdict, and exit with code 0 whatever it is
    #[arg(long)]
    advisory: bool,
    /// Output format [default: by the ending of --output, otherwise table]
    #[arg(long, value_enum, value_name = "FORMAT")]
    format: Option<Format>,
    /// Write to this file instead of standard output, which is `-`
    #[arg(long, short, value_name = "FILE", value_parser = flopgap_cli::file_for(&["txt", "md", "json", "xml"]))]
    output: Option<PathBuf>,
}

/// Kinds of files that are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Kind {
    /// A trace.
    Trace,
    /// A report of Nsight Compute.
    Report,
    /// A model.
    Model,
    /// Commands that were run.
    Command,
}

/// What was compared, and how it came out.
struct Compared {
    kind: Kind,
    /// The file or command, before and after.
    names: [String; 2],
    rows: Vec<Row>,
    times: Times,
}

/// How a gate ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "lowercase")]
enum Verdict {
    Passed,
    Failed,
    Undecided,
}

impl Compared {
    fn verdict(&self) -> Verdict {
        if self.rows.iter().any(|row| row.fails) || self.times.fail() {
            Verdict::Failed
        } else if self.rows.iter().any(Row::is_undecided) || self.times.are_undecided() {
            Verdict::Undecided
        } else {
            Verdict::Passed
        }
    }
}

pub(crate) fn run(arguments: &Arguments) -> Result<Exit, Failure> {
    if let Some(name) = &arguments.save {
        let [file] = arguments.files.as_slice() else {
            return Err(usage("--save takes one file"));
        };
        kind(file)?;
        let kept = baseline::save(&arguments.store, name, file)?;
        flopgap_cli::note(PROGRAM, format_args!("saved {}", kept.display()));
        return Ok(Exit::Done);
    }
    let compared = if arguments.run.is_empty() { files(arguments)? } else { commands(arguments)? };
    output::write(&compared, arguments)?;
    Ok(match compared.verdict() {
        _ if arguments.advisory => Exit::Done,
        Verdict::Passed => Exit::Done,
        Verdict::Failed => Exit::Failed,
        Verdict::Undecided => Exit::Undecided,
    })
}

fn usage(message: &str) -> Failure {
    Failure::new(message).exit(Exit::Usage)
}

fn commands(arguments: &Arguments) -> Result<Compared, Failure> {
    let [before, after] = arguments.run.as_slice() else {
        return Err(usage("--run is given twice: the command before the change, and that after it"));
    };
    Ok(Compared {
        kind: Kind::Command,
        names: [before.clone(), after.clone()],
        rows: Vec::new(),
        times: runs::compare([before, after], arguments.repeat, arguments.fail_if_slower)?,
    })
}

fn files(arguments: &Arguments) -> Result<Compared, Failure> {
    let files = match (&arguments.baseline, arguments.files.as_slice()) {
        (None, [before, after]) => [before.clone(), after.clone()],
        (Some(name), [after]) => [baseline::find(&arguments.store, name)?, after.clone()],
        (Some(_), _) => return Err(usage("--baseline takes one file: the one after the change")),
        (None, _) => return Err(usage("two files are compared: one before the change, and one after it")),
    };
    let [before, after] = [kind(&files[0])?, kind(&files[1])?];
    if before != after {
        let message = format!(
            "{} is a {before}, and {} a {after}: only files of one kind are compared",
            files[0].display(),
            files[1].display()
        );
        return Err(usage(&message));
    }
    let (mut rows, times) = match before {
        Kind::Trace => traces([&files[0], &files[1]], arguments)?,
        Kind::Report => (exact::of_reports([&files[0], &files[1]])?, Times::default()),
        _ => (exact::of_models([&files[0], &files[1]])?, Times::default()),
    };
    if before != Kind::Trace && arguments.fail_if_slower.is_some() {
        return Err(usage("--fail-if-slower is for traces and commands: nothing else has times of steps"));
    }
    for row in &mut rows {
        row.judge(&arguments.allow, arguments.equal);
    }
    Ok(Compared { kind: before, names: files.map(|file| file.display().to_string()), rows, times })
}

impl std::fmt::Display for Kind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(match self {
            Kind::Trace => "trace",
            Kind::Report => "report of ncu",
            Kind::Model => "model",
            Kind::Command => "command",
        })
    }
}

fn kind(path: &Path) -> Result<Kind, Failure> {
    match content::of(path)? {
        Content::Trace => Ok(Kind::Trace),
        Content::Report | Content::Record => Ok(Kind::Report),
        Content::Model => Ok(Kind::Model),
        Content::Recording => {
            Err(Failure::new(format!("{}: a recording that is not exported", path.display()))
                .hint("export it first: `nsys export --type sqlite --output TRACE.sqlite TRACE.nsys-rep`")
                .exit(Exit::Absent))
        }
        _ => Err(Failure::new(format!("{}: no trace, report of ncu or model", path.display()))
            .hint("`flopgap profile compare`, `flopgap bench diff` and `flopgap calibrate compare` compare others")
            .exit(Exit::Absent)),
    }
}

fn traces(files: [&Path; 2], arguments: &Arguments) -> Result<(Vec<Row>, Times), Failure> {
    let mut opened = Vec::new();
    for file in files {
        let trace = open::open(file)?;
        flopgap_cli::warn_all(PROGRAM, trace.warnings());
        opened.push(trace);
    }
    let diff = times::diff([&opened[0], &opened[1]])?;
    let rows = exact::of_traces([&opened[0], &opened[1]], &diff)?;
    Ok((rows, Times::of_traces(&diff, arguments.fail_if_slower)))
}

//! `flopgap doctor`: what is installed, what each part makes possible, and what to do where it is
//! missing.

mod counters;
#[cfg(feature = "gpu")]
mod libraries;
mod programs;

use std::env;
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use flopgap_cli::{Console, Failure, OutputArgs};
use flopgap_report::table::{Cell, Column, Format, Table, TextOptions};

use crate::PROGRAM;

#[derive(clap::Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    output: OutputArgs,
}

/// What a part of the machine is.
#[derive(Debug, PartialEq, Eq)]
struct Finding {
    item: String,
    state: State,
    /// What it makes possible.
    enables: &'static str,
}

#[derive(Debug, PartialEq, Eq)]
enum State {
    /// Its version and its place.
    Found(String),
    /// Why it cannot be used, and what to do.
    Missing { why: String, remedy: String },
}

impl State {
    fn missing(why: impl Into<String>, remedy: impl Into<String>) -> State {
        State::Missing { why: why.into(), remedy: remedy.into() }
    }
}

/// The machine that is examined.
struct Machine {
    /// The root of the file system.
    root: PathBuf,
    /// Lists of directories, as in the variable `PATH`.
    path: Option<OsString>,
    /// The Python that runs PyTorch.
    python: PathBuf,
    /// How long a program may take to say its version.
    limit: Duration,
}

impl Machine {
    fn this() -> Machine {
        // As `flopgap calibrate sweep` chooses it.
        let named = |name: &str| env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        let python = named("FLOPGAP_PYTHON")
            .or_else(|| Some(named("VIRTUAL_ENV")?.join("bin/python3")))
            .unwrap_or_else(|| "python3".into());
        Machine { root: "/".into(), path: env::var_os("PATH"), python, limit: Duration::from_mins(1) }
    }

    fn examine(&self) -> Vec<Finding> {
        // Programs may take long to start.
        let (libraries, programs) = std::thread::scope(|scope| {
            let programs = scope.spawn(|| programs::findings(self));
            (libraries(self), programs.join().unwrap_or_default())
        });
        libraries.into_iter().chain(programs).collect()
    }
}

#[cfg(feature = "gpu")]
fn libraries(machine: &Machine) -> Vec<Finding> {
    libraries::findings(machine)
}

#[cfg(not(feature = "gpu"))]
fn libraries(machine: &Machine) -> Vec<Finding> {
    let state = State::missing(
        "this flopgap was built without what loads them",
        "install flopgap with its default features",
    );
    let enables = "measuring on GPUs: flopgap profile, validate, bench and calibrate";
    vec![
        Finding { item: "NVIDIA driver and CUDA".to_owned(), state, enables },
        counters::finding(counters::by_setting(&machine.root)),
    ]
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let findings = Machine::this().examine();
    let output = &arguments.output;
    let text = match output.format() {
        Format::Table => text(&findings, &output.text()),
        format => table(&findings)?.render(format, &output.text())?,
    };
    output.write(Console::from(PROGRAM).within("doctor"), &text)
}

/// What needs nothing of what is examined.
const WITHOUT: &str = "Traces, reports, runs and models are read without any of these; only recordings that nsys must \
    export (.nsys-rep) need nsys.";

/// A paragraph for each finding.
fn text(findings: &[Finding], options: &TextOptions) -> String {
    const INDENT: u16 = 9;
    let options = TextOptions { width: options.width.map(|width| width.saturating_sub(INDENT)), ..*options };
    let mut lines = Vec::new();
    for Finding { item, state, enables } in findings {
        let (mark, what, remedy) = match state {
            State::Found(what) => ("found", what, None),
            State::Missing { why, remedy } => ("missing", why, Some(remedy)),
        };
        let mut paragraph = vec![format!("{item}: {what}"), format!("for: {enables}")];
        paragraph.extend(remedy.map(|remedy| format!("to do: {remedy}")));
        let wrapped = paragraph.iter().map(|text| Format::Table.sentences(text, &options));
        let text = wrapped.collect::<Vec<_>>().join("\n");
        for (at, line) in text.lines().enumerate() {
            let mark = if at == 0 { mark } else { "" };
            lines.push(format!("{mark:<width$}{line}", width = INDENT.into()));
        }
    }
    lines.push(String::new());
    lines.push(Format::Table.sentences(WITHOUT, &options));
    lines.join("\n")
}

fn table(findings: &[Finding]) -> Result<Table, Failure> {
    let columns = vec![
        Column::text("item", "item"),
        Column::text("state", "state"),
        Column::prose("what", "what"),
        Column::prose("enables", "makes possible"),
        Column::prose("remedy", "what to do"),
    ];
    let mut table = Table::new("", columns)?;
    for Finding { item, state, enables } in findings {
        let (mark, what, remedy) = match state {
            State::Found(what) => ("found", what, Cell::Absent),
            State::Missing { why, remedy } => ("missing", why, Cell::text(remedy)),
        };
        table.push([Cell::text(item), Cell::text(mark), Cell::text(what), Cell::text(*enables), remedy])?;
    }
    Ok(table)
}

//! `flopgap nsys export`: the trace for other tools.

#[cfg(feature = "tables")]
mod tables;

use std::io::{self, BufWriter, Write};
use std::path::PathBuf;

use clap::ValueEnum;
use flopgap_cli::{Exit, Failure};
use flopgap_files::{WriteError, write_atomic_with};
use flopgap_nsys::Error;
use flopgap_nsys::export::{left_out, perfetto};

use crate::opening::{Opener, is_kineto, warn_all};
use crate::{PROGRAM, of_nsys};

#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  flopgap nsys export fixtures/nsys/small_forward.sqlite.zst --format perfetto -o timeline.json
  flopgap nsys export fixtures/nsys/small_forward.sqlite.zst --format csv --table kernels
  flopgap nsys export fixtures/nsys/small_forward.sqlite.zst --format parquet -o tables")]
pub(crate) struct Arguments {
    /// The trace: an sqlite export of nsys.
    trace: PathBuf,
    /// Output format.
    #[arg(long, value_enum, value_name = "FORMAT")]
    format: To,
    /// Write to this path: a file for perfetto, a directory that gets a file for each table for csv
    /// and parquet [default: standard output, except for parquet].
    #[arg(long, short, value_name = "PATH")]
    output: Option<PathBuf>,
    /// Write only this table: `kernels`, `copies`, `memsets`, `graphs`, `ranges`, `api_calls`,
    /// `os_calls`, `profiler_overheads`, `cpu_faults`, `gpu_faults`, `synchronizations`, ...
    #[arg(long, value_name = "TABLE")]
    table: Option<String>,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum To {
    /// A timeline in the trace event format, for Perfetto and the tracing page of Chrome.
    Perfetto,
    /// Plain tables.
    Csv,
    /// As csv, for spreadsheet programs: an apostrophe before text that they would take for a
    /// formula.
    CsvEscaped,
    /// Tables with types, small and fast to read: for Polars, pandas, SQL and flopgap itself.
    #[cfg(feature = "parquet")]
    Parquet,
}

/// What a timeline does not show and the tables have.
const ONLY_IN_TABLES: &str = "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION";

/// Either side of a copy from a trace to a file can fail.
enum Either {
    Read(Error),
    Write(WriteError),
}

impl From<WriteError> for Either {
    fn from(error: WriteError) -> Self {
        Either::Write(error)
    }
}

impl From<Either> for Failure {
    fn from(error: Either) -> Self {
        match error {
            Either::Read(error) => of_nsys(&error),
            Either::Write(error) => error.into(),
        }
    }
}

#[cfg(feature = "tables")]
impl To {
    /// How the names of files end.
    fn ending(self) -> &'static str {
        match self {
            To::Perfetto => "json",
            To::Csv | To::CsvEscaped => "csv",
            #[cfg(feature = "parquet")]
            To::Parquet => "parquet",
        }
    }
}

pub(crate) fn run(arguments: &Arguments, opener: &Opener) -> Result<(), Failure> {
    #[cfg(not(feature = "tables"))]
    if arguments.format != To::Perfetto {
        return Err(flopgap_cli::built_without("tables", "tables"));
    }
    let usage = |message: &str| Err(Failure::new(message).exit(Exit::Usage));
    if let (To::Perfetto, Some(path)) = (arguments.format, &arguments.output) {
        flopgap_cli::check_ending(path, &["json"])
            .map_err(|why| Failure::new(format!("{}: {why}", path.display())).exit(Exit::Usage))?;
    }
    match (arguments.format, &arguments.table, &arguments.output) {
        (To::Perfetto, Some(_), _) => {
            return usage("--table is for tables: a timeline has everything in it");
        }
        (To::Csv | To::CsvEscaped, None, None) => return usage("csv needs --table or --output"),
        #[cfg(feature = "parquet")]
        (To::Parquet, _, None) => return usage("parquet needs --output: a directory"),
        _ => {}
    }
    if is_kineto(&arguments.trace) || arguments.trace.is_dir() {
        return kineto(arguments, opener);
    }
    let (trace, file) = opener.open_nsys(&arguments.trace, "these tables")?;
    match (arguments.format, &arguments.output) {
        (To::Perfetto, Some(path)) => {
            write_atomic_with(path, |file| {
                perfetto(&trace, file).map(drop).map_err(|error| match error {
                    Error::Output { source } => Either::Write(WriteError::new(path, source)),
                    error => Either::Read(error),
                })
            })?;
            opener.console().note(format_args!("wrote {}", path.display()));
        }
        (To::Perfetto, None) => to_stdout(|out| match perfetto(&trace, out) {
            Err(Error::Output { source }) => Err(Failure::output(source)),
            other => other.map(drop).map_err(|error| of_nsys(&error)),
        })?,
        #[cfg(not(feature = "tables"))]
        _ => {}
        #[cfg(feature = "tables")]
        _ => {
            let source = file.source().map_or_else(|| tables::open(trace.path()), Ok)?;
            tables::export(&source, arguments, opener.console())?;
        }
    }
    if arguments.table.is_none() {
        for (table, rows) in left_out(&trace).map_err(|error| of_nsys(&error))? {
            if arguments.format == To::Perfetto || table != ONLY_IN_TABLES {
                let rows = counted(rows);
                flopgap_cli::note(
                    PROGRAM,
                    format!("not exported: {rows} of {table}, which this program does not read"),
                );
            }
        }
    }
    warn_all(&file);
    Ok(())
}

/// What of a trace of `torch.profiler` is exported.
#[cfg_attr(not(feature = "tables"), expect(unused_variables, reason = "without tables, nothing is written"))]
fn kineto(arguments: &Arguments, opener: &Opener) -> Result<(), Failure> {
    let path = arguments.trace.display();
    let (message, hint) = match arguments.format {
        To::Perfetto => ("is a timeline for Perfetto as it is", "open the file at ui.perfetto.dev"),
        #[cfg(feature = "tables")]
        _ if arguments.trace.is_file() => {
            return tables::export(&tables::open(&arguments.trace)?, arguments, opener.console());
        }
        _ => ("is a directory", "export each trace in it, into a directory of its own"),
    };
    Err(Failure::new(format!("{path} {message}")).hint(hint).exit(Exit::Absent))
}

/// A number of rows.
fn counted(rows: u64) -> String {
    if rows == 1 { "1 row".to_owned() } else { format!("{rows} rows") }
}

fn to_stdout(
    write: impl FnOnce(&mut BufWriter<io::StdoutLock<'static>>) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let mut out = BufWriter::new(io::stdout().lock());
    write(&mut out)?;
    out.flush().map_err(Failure::output)
}

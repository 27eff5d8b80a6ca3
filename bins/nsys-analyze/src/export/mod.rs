//! `flopgap nsys export`: the trace for other tools.

#[cfg(feature = "parquet")]
mod parquet;

use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use clap::ValueEnum;
use flopgap_cli::{Console, Exit, Failure};
use flopgap_fs::{WriteError, create_folder, write_atomic_with};
use flopgap_hint::Hint as _;
use flopgap_nsys::export::{CsvTable, csv, left_out, perfetto};
use flopgap_nsys::{Error, Trace};
use flopgap_report::table::WithoutFormulas;

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
    /// Write only this table. Of csv, to standard output: `kernels`, `copies`, `sets`, `graphs`,
    /// `api`, `nvtx`, `os`, `cpu_faults`, `gpu_faults` or `overhead`. Of parquet, into the
    /// directory: `kernels`, `copies`, `memsets`, `graphs`, `ranges`, `api_calls`, `os_calls`, ...
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

/// Which side failed when `path` was written.
fn either(path: &Path, error: Error) -> Either {
    match error {
        Error::Output { source } => Either::Write(WriteError::new(path, source)),
        error => Either::Read(error),
    }
}

pub(crate) fn run(arguments: &Arguments, opener: &Opener) -> Result<(), Failure> {
    let usage = |message: &str| Err(Failure::new(message).exit(Exit::Usage));
    if let (To::Perfetto, Some(path)) = (arguments.format, &arguments.output) {
        flopgap_cli::check_ending(path, &["json"])
            .map_err(|why| Failure::new(format!("{}: {why}", path.display())).exit(Exit::Usage))?;
    }
    let table = match (arguments.format, &arguments.table, &arguments.output) {
        (To::Perfetto, Some(_), _) => {
            return usage("--table is for tables: a timeline has everything in it");
        }
        (To::Csv | To::CsvEscaped, None, None) => return usage("csv needs --table or --output"),
        (To::Csv | To::CsvEscaped, Some(_), Some(_)) => {
            return usage("--table of csv goes to standard output: leave out --output");
        }
        (To::Csv | To::CsvEscaped, Some(name), None) => {
            Some(name.parse::<CsvTable>().map_err(|error| Failure::of(&error).exit(Exit::Usage))?)
        }
        #[cfg(feature = "parquet")]
        (To::Parquet, _, None) => return usage("parquet needs --output: a directory"),
        _ => None,
    };
    if is_kineto(&arguments.trace) || arguments.trace.is_dir() {
        return kineto(arguments, opener.console());
    }
    let (trace, file) = opener.open_nsys(&arguments.trace, "these tables")?;
    match (arguments.format, &arguments.output) {
        #[cfg(feature = "parquet")]
        (To::Parquet, Some(folder)) => {
            let source = file.source().cloned().map_or_else(|| parquet::open(trace.path()), Ok)?;
            parquet::export(&source, arguments.table.as_deref(), folder, opener.console())?;
            if arguments.table.is_none() {
                parquet::only_in_csv(&trace);
            }
        }
        (To::Perfetto, Some(path)) => {
            write_atomic_with(path, |file| {
                perfetto(&trace, file).map(drop).map_err(|error| either(path, error))
            })?;
            opener.console().note(format_args!("wrote {}", path.display()));
        }
        (to, Some(folder)) => all_tables(&trace, folder, to, opener.console())?,
        (to, None) => match table {
            Some(table) => to_stdout(|out| write_table(&trace, table, to, out).map(drop))?,
            None => to_stdout(|out| perfetto(&trace, out).map(drop))?,
        },
    }
    if arguments.table.is_none() {
        for (table, rows) in left_out(&trace).map_err(|error| of_nsys(&error))? {
            let rows = counted(rows);
            flopgap_cli::note(
                PROGRAM,
                format!("not exported: {rows} of {table}, which this program does not read"),
            );
        }
    }
    warn_all(&file);
    Ok(())
}

/// What of a trace of `torch.profiler` is exported.
#[cfg_attr(not(feature = "parquet"), expect(unused_variables, reason = "nothing is written"))]
fn kineto(arguments: &Arguments, console: Console) -> Result<(), Failure> {
    let path = arguments.trace.display();
    let (message, hint) = match arguments.format {
        #[cfg(feature = "parquet")]
        To::Parquet => match &arguments.output {
            Some(folder) if arguments.trace.is_file() => {
                let source = parquet::open(&arguments.trace)?;
                return parquet::export(&source, arguments.table.as_deref(), folder, console);
            }
            _ => ("is a directory", "export each trace in it, into a directory of its own"),
        },
        To::Perfetto => ("is a timeline for Perfetto as it is", "open the file at ui.perfetto.dev"),
        To::Csv | To::CsvEscaped => (
            "is a trace of torch.profiler, and these CSV tables are of exports of nsys",
            "`kernels` and `passes` print CSV with --format csv; `flopgap.read` in Python gives every table",
        ),
    };
    Err(Failure::new(format!("{path} {message}")).hint(hint).exit(Exit::Absent))
}

/// A number of rows.
fn counted(rows: u64) -> String {
    if rows == 1 { "1 row".to_owned() } else { format!("{rows} rows") }
}

/// Writes a table in either kind of CSV; how many rows it has.
fn write_table(trace: &Trace, table: CsvTable, to: To, out: &mut impl Write) -> Result<u64, Error> {
    if to != To::CsvEscaped {
        return csv(trace, table, out);
    }
    let mut escaped = WithoutFormulas::new(BufWriter::new(out));
    let rows = csv(trace, table, &mut escaped)?;
    let flushed = escaped.finish().and_then(|mut out| out.flush());
    flushed.map_err(|source| Error::Output { source }).map(|()| rows)
}

/// One file for each table that the trace has.
fn all_tables(trace: &Trace, folder: &Path, to: To, console: Console) -> Result<(), Failure> {
    create_folder(folder).map_err(Either::Write)?;
    let mut written = 0;
    for table in CsvTable::ALL {
        let path = folder.join(format!("{}.csv", table.name()));
        let rows = write_atomic_with(&path, |file| {
            write_table(trace, table, to, file).map_err(|error| either(&path, error))
        });
        match rows {
            Ok(rows) => {
                console.note(format_args!("{} in {}", counted(rows), path.display()));
                written += 1;
            }
            Err(Either::Read(error)) if error.is_absence() => {
                flopgap_cli::note(PROGRAM, format!("SKIPPED {}: {error}", table.name()));
            }
            Err(error) => return Err(error.into()),
        }
    }
    if written == 0 {
        let message = format!("{}: none of the tables is in the trace", trace.path().display());
        return Err(Failure::new(message).exit(Exit::Absent));
    }
    Ok(())
}

fn to_stdout(
    write: impl FnOnce(&mut BufWriter<io::StdoutLock<'static>>) -> Result<(), Error>,
) -> Result<(), Failure> {
    let mut out = BufWriter::new(io::stdout().lock());
    match write(&mut out) {
        Ok(()) => out.flush().map_err(Failure::output),
        // A reader that closes the pipe early is not an error.
        Err(Error::Output { source }) => Err(Failure::output(source)),
        Err(error) => Err(of_nsys(&error)),
    }
}

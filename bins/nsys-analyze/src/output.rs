//! Where reports go: standard output or a folder, in one of four formats.

use std::io::{self, Write};
use std::path::PathBuf;

use clap::ValueEnum;
use flopgap_answers::open::name_of;
use flopgap_answers::tables;
use flopgap_cli::{Console, Exit, Failure};
use flopgap_files::Hint as _;
use flopgap_nsys::{Column, CsvSink, Error, ReportTable, Sink, TimeUnit, Trace, Units, Value};
use flopgap_report::ReportError;
use flopgap_report::table::{Format, Table, TextOptions, WithoutFormulas};

use crate::{PROGRAM, of_nsys};

/// The options of every command that prints reports.
#[derive(clap::Args)]
pub(crate) struct OutputArguments {
    /// Output format.
    #[arg(long, value_enum, value_name = "FORMAT", default_value_t)]
    format: Format,
    /// Write each report to `DIR/TRACE_REPORT.csv` (.txt, .json, .md) instead of standard output.
    #[arg(long, short, value_name = "DIR")]
    output: Option<PathBuf>,
    /// The unit of times.
    #[arg(long, value_enum, value_name = "UNIT", default_value_t)]
    timeunit: TimeUnitArg,
}

/// A unit of time, as nsys names them.
#[derive(Clone, Copy, Default, ValueEnum)]
enum TimeUnitArg {
    /// Nanoseconds.
    #[default]
    Nsec,
    /// Microseconds.
    Usec,
    /// Milliseconds.
    Msec,
    /// Seconds.
    Sec,
}

impl From<TimeUnitArg> for TimeUnit {
    fn from(unit: TimeUnitArg) -> TimeUnit {
        match unit {
            TimeUnitArg::Nsec => TimeUnit::Nanoseconds,
            TimeUnitArg::Usec => TimeUnit::Microseconds,
            TimeUnitArg::Msec => TimeUnit::Milliseconds,
            TimeUnitArg::Sec => TimeUnit::Seconds,
        }
    }
}

/// The meaning of a report without rows.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Nothing {
    /// The trace did not record it.
    IsAbsence,
    /// No problem was found.
    IsAnswer,
}

/// Forwards rows, and the header before the first one: a report without rows prints nothing.
struct NonEmpty<'a> {
    inner: &'a mut dyn Sink,
    columns: &'static [Column],
    rows: u64,
}

impl Sink for NonEmpty<'_> {
    fn columns(&mut self, columns: &'static [Column]) -> io::Result<()> {
        self.columns = columns;
        Ok(())
    }

    fn row(&mut self, row: &[Value]) -> io::Result<()> {
        if self.rows == 0 {
            self.inner.columns(self.columns)?;
        }
        self.rows += 1;
        self.inner.row(row)
    }
}

/// One of several reports in a JSON document.
#[derive(serde::Serialize)]
struct Reported {
    trace: String,
    report: String,
    rows: Table,
}

/// A running output: what was printed so far decides blank lines and the exit code.
pub(crate) struct Output<'a> {
    arguments: &'a OutputArguments,
    console: Console,
    units: Units,
    /// The number of requested reports.
    asked: usize,
    printed: usize,
    /// Whether a rule found nothing, which is an answer, too.
    answered: bool,
    /// The parts of the JSON document.
    json: Vec<Reported>,
    written: Vec<PathBuf>,
}

impl<'a> Output<'a> {
    pub(crate) fn new(
        arguments: &'a OutputArguments,
        asked: usize,
        console: Console,
    ) -> Result<Output<'a>, Failure> {
        if let Some(folder) = &arguments.output {
            flopgap_files::create_folder(folder)?;
        }
        let units = Units { time: arguments.timeunit.into() };
        Ok(Output {
            arguments,
            console,
            units,
            asked,
            printed: 0,
            answered: false,
            json: Vec::new(),
            written: Vec::new(),
        })
    }

    /// Prints one report of one trace and returns whether it has rows. A report whose data the
    /// trace lacks is named as skipped on standard error.
    pub(crate) fn report(
        &mut self,
        trace: &Trace,
        name: &str,
        nothing: Nothing,
        make: impl FnOnce(&mut dyn Sink) -> Result<(), Error>,
    ) -> Result<bool, Failure> {
        let skip = |reason: &str| flopgap_cli::note(PROGRAM, format!("SKIPPED: {name}: {reason}"));
        let rows = if self.arguments.format.is_csv() && self.arguments.output.is_none() {
            // Row by row: a trace of millions of rows is never held as text.
            let mut out = io::BufWriter::new(io::stdout().lock());
            let separator: &[u8] = if self.printed > 0 { b"\n" } else { b"" };
            let prefixed = Prefixed { out: &mut out, prefix: separator };
            let rows = if self.arguments.format == Format::CsvEscaped {
                let mut csv = CsvSink::new(WithoutFormulas::new(prefixed), self.units);
                let rows = rows_of(&mut csv, make);
                csv.into_inner().finish().map_err(Failure::output)?;
                rows
            } else {
                rows_of(&mut CsvSink::new(prefixed, self.units), make)
            };
            let rows = rows.map_err(|error| error.or_skip(skip));
            out.flush().map_err(Failure::output)?;
            rows
        } else {
            let mut table = ReportTable::default();
            let rows = rows_of(&mut table, make).map_err(|error| error.or_skip(skip));
            if matches!(rows, Ok(1..)) {
                self.finished(trace, name, &table)?;
            }
            rows
        };
        let mut has_rows = false;
        match rows {
            Ok(0) => {
                // A rule that finds nothing has answered; a report without rows has not.
                match nothing {
                    Nothing::IsAbsence => {
                        skip(&format!("{}: recorded nothing of the kind", trace.path().display()));
                    }
                    Nothing::IsAnswer => {
                        flopgap_cli::note(
                            PROGRAM,
                            format!("{name}: {}: nothing found", trace.path().display()),
                        );
                        self.answered = true;
                    }
                }
            }
            Ok(_) => {
                self.printed += 1;
                has_rows = true;
            }
            Err(Some(failure)) => return Err(failure),
            Err(None) => {}
        }
        Ok(has_rows)
    }

    /// Prints or writes a whole report.
    fn finished(&mut self, trace: &Trace, name: &str, report: &ReportTable) -> Result<(), Failure> {
        let error = |error: ReportError| Failure::from_error(&error);
        let table = tables::report(name, report, self.units).map_err(error)?;
        let format = self.arguments.format;
        if let Some(folder) = &self.arguments.output {
            let (extension, text) = match format {
                Format::Csv => ("csv", csv(report, self.units)?),
                Format::CsvEscaped => {
                    let mut escaped = WithoutFormulas::new(Vec::new());
                    escaped.write_all(csv(report, self.units)?.as_bytes()).map_err(Failure::output)?;
                    let bytes = escaped.finish().map_err(Failure::output)?;
                    ("csv", String::from_utf8_lossy(&bytes).into_owned())
                }
                Format::Json => ("json", table.to_json().map_err(error)?),
                Format::Markdown => ("md", table.to_markdown()),
                Format::Table => ("txt", table.to_text(&TextOptions::default())),
            };
            let path = folder.join(format!("{}_{}.{extension}", stem(trace), in_a_file_name(name)));
            if self.written.contains(&path) {
                let message = format!("{}: two reports would be written to one file", path.display());
                let hint =
                    "ask for each report once; analyze traces of one name one by one, with an --output each";
                return Err(Failure::new(message).hint(hint));
            }
            flopgap_files::write_atomic(&path, text.as_bytes())?;
            self.console.note(format_args!("wrote {}", path.display()));
            self.written.push(path);
            return Ok(());
        }
        if format == Format::Json && self.asked > 1 {
            let trace = trace.path().display().to_string();
            self.json.push(Reported { trace, report: name.to_owned(), rows: table });
            return Ok(());
        }
        if self.printed > 0 {
            flopgap_cli::print("")?;
        }
        let text = table.render(format, &TextOptions::for_stdout()).map_err(error)?;
        flopgap_cli::print(&text)
    }

    /// Ends the output.
    ///
    /// # Errors
    /// Exit code 3 when nothing could be reported.
    pub(crate) fn end(self) -> Result<(), Failure> {
        if self.printed == 0 && !self.answered {
            return Err(Failure::new("the trace has none of the requested data").exit(Exit::Absent));
        }
        if !self.json.is_empty() {
            let text =
                serde_json::to_string_pretty(&self.json).map_err(|error| Failure::from_error(&error))?;
            flopgap_cli::print(&text)?;
        }
        Ok(())
    }
}

/// A failure, or nothing if the report was skipped.
trait OrSkip {
    fn or_skip(self, skip: impl FnOnce(&str)) -> Option<Failure>;
}

impl OrSkip for Error {
    fn or_skip(self, skip: impl FnOnce(&str)) -> Option<Failure> {
        if self.is_absence() {
            skip(&self.to_string());
            return None;
        }
        match self {
            // Standard output that was closed is no error of the trace.
            Error::Output { source } => Some(Failure::output(source)),
            error => Some(of_nsys(&error)),
        }
    }
}

/// Runs a report and counts its rows.
fn rows_of(
    inner: &mut dyn Sink,
    make: impl FnOnce(&mut dyn Sink) -> Result<(), Error>,
) -> Result<u64, Error> {
    let mut sink = NonEmpty { inner, columns: &[], rows: 0 };
    make(&mut sink)?;
    Ok(sink.rows)
}

/// Writes a separator before the first byte; without output, nothing.
struct Prefixed<'a, W> {
    out: &'a mut W,
    prefix: &'static [u8],
}

impl<W: Write> Write for Prefixed<'_, W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.out.write_all(std::mem::take(&mut self.prefix))?;
        self.out.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

pub(crate) fn csv(report: &ReportTable, units: Units) -> Result<String, Failure> {
    let mut csv = CsvSink::new(Vec::new(), units);
    csv.columns(report.columns).map_err(Failure::output)?;
    for row in &report.rows {
        csv.row(row).map_err(Failure::output)?;
    }
    String::from_utf8(csv.into_inner()).map_err(|error| Failure::from_error(&error))
}

/// The name of a report or rule with its arguments, as a part of a file's name.
pub(crate) fn in_a_file_name(name: &str) -> String {
    name.replace([':', '=', '@', '/'], "_")
}

fn stem(trace: &Trace) -> String {
    name_of(trace.path())
}

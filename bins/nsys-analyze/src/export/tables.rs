//! `--format csv` and `parquet`: the tables of `flopgap-table`.

use std::io::{BufWriter, Write};
use std::path::Path;

use flopgap_cli::{Console, Exit, Failure};
use flopgap_files::{Hint as _, WriteError, create_folder, write_atomic_with};
use flopgap_report::table::WithoutFormulas;
#[cfg(feature = "parquet")]
use flopgap_table::parquet;
use flopgap_table::{Error, Source, Table, csv};

use super::{Arguments, To, counted, to_stdout};
use crate::PROGRAM;

/// The tables of a trace.
pub(super) fn open(trace: &Path) -> Result<Source, Failure> {
    Source::open(trace).map_err(|error| Failure::of(&error))
}

/// Writes one table, or all that the trace has, into a directory or to standard output.
pub(super) fn export(source: &Source, arguments: &Arguments, console: Console) -> Result<(), Failure> {
    match (&arguments.output, &arguments.table) {
        (Some(folder), name) => files(source, arguments.format, name.as_deref(), folder, console)?,
        // Both are absent where `run` has refused.
        (None, None) => {}
        (None, Some(name)) => {
            let table = source.table(name).map_err(|error| Failure::of(&error))?;
            to_stdout(|out| match text(&table, arguments.format, out) {
                Err(Error::Output { source }) => Err(Failure::output(source)),
                other => other.map(drop).map_err(|error| Failure::of(&error)),
            })?;
        }
    }
    flopgap_cli::warn_all(PROGRAM, source.warnings());
    Ok(())
}

/// A file for one table, or for each that the trace has.
fn files(
    source: &Source,
    to: To,
    table: Option<&str>,
    folder: &Path,
    console: Console,
) -> Result<(), Failure> {
    let names: Vec<String> = match table {
        Some(name) => vec![name.to_owned()],
        None => source.tables().into_iter().map(|table| table.name.into_owned()).collect(),
    };
    create_folder(folder).map_err(|error| Failure::of(&error))?;
    let mut written = 0;
    for name in names {
        let found = match source.table(&name) {
            Err(error) if table.is_none() && error.is_absence() => {
                flopgap_cli::note(PROGRAM, format!("SKIPPED {name}: {error}"));
                continue;
            }
            found => found.map_err(|error| Failure::of(&error))?,
        };
        let path = folder.join(format!("{name}.{}", to.ending()));
        let rows = file(source, &found, to, &path).map_err(|error| Failure::of(&error))?;
        console.note(format_args!("{} in {}", counted(rows), path.display()));
        written += 1;
    }
    if written == 0 {
        let message = format!("{}: none of the tables is in the trace", source.path().display());
        return Err(Failure::new(message).exit(Exit::Absent));
    }
    Ok(())
}

/// Writes a table into a file; how many rows it has.
#[cfg_attr(not(feature = "parquet"), expect(unused_variables, reason = "CSV has no metadata"))]
fn file(source: &Source, table: &Table, to: To, path: &Path) -> Result<u64, Error> {
    #[cfg(feature = "parquet")]
    if to == To::Parquet {
        let provenance = parquet::Provenance {
            tool: PROGRAM.to_owned(),
            tool_version: env!("CARGO_PKG_VERSION").to_owned(),
            ..source.provenance()?
        };
        return parquet::write(table, path, &provenance).map(|written| written.rows);
    }
    write_atomic_with(path, |file| {
        text(table, to, file).map_err(|error| match error {
            Error::Output { source } => WriteError::new(path, source).into(),
            error => error,
        })
    })
}

/// Writes a table in either kind of CSV; how many rows it has.
fn text(table: &Table, to: To, out: &mut impl Write) -> Result<u64, Error> {
    if to != To::CsvEscaped {
        return csv::write(table, out);
    }
    let mut escaped = WithoutFormulas::new(BufWriter::new(out));
    let rows = csv::write(table, &mut escaped)?;
    let flushed = escaped.finish().and_then(|mut out| out.flush());
    flushed.map_err(|source| Error::Output { source }).map(|()| rows)
}

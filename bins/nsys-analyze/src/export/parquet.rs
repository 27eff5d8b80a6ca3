//! `--format parquet`: the tables of `flopgap-table`, each in a file of its own.

use std::io;
use std::path::Path;

use flopgap_cli::{Console, Exit, Failure};
use flopgap_fs::create_folder;
use flopgap_hint::Hint as _;
use flopgap_nsys::Trace;
use flopgap_nsys::export::{CsvTable, csv};
use flopgap_table::{Source, parquet};

use super::counted;
use crate::PROGRAM;

/// The tables of a trace.
pub(super) fn open(trace: &Path) -> Result<Source, Failure> {
    Source::open(trace).map_err(|error| Failure::of(&error))
}

/// Writes one table, or all that the trace has, into a directory.
pub(super) fn export(
    source: &Source,
    table: Option<&str>,
    folder: &Path,
    console: Console,
) -> Result<(), Failure> {
    let names: Vec<String> = match table {
        Some(name) => vec![name.to_owned()],
        None => source.tables().into_iter().map(|table| table.name.into_owned()).collect(),
    };
    let provenance = source.provenance().map_err(|error| Failure::of(&error))?;
    let provenance = parquet::Provenance {
        tool: PROGRAM.to_owned(),
        tool_version: env!("CARGO_PKG_VERSION").to_owned(),
        ..provenance
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
        let path = folder.join(format!("{name}.parquet"));
        let file = parquet::write(&found, &path, &provenance).map_err(|error| Failure::of(&error))?;
        console.note(format_args!("{} in {}", counted(file.rows), path.display()));
        written += 1;
    }
    if written == 0 {
        let message = format!("{}: none of the tables is in the trace", source.path().display());
        return Err(Failure::new(message).exit(Exit::Absent));
    }
    Ok(())
}

/// Names what `flopgap-table` has no table of.
pub(super) fn only_in_csv(trace: &Trace) {
    for table in [CsvTable::CpuFaults, CsvTable::GpuFaults, CsvTable::Overhead] {
        if let Ok(rows @ 1..) = csv(trace, table, &mut io::sink()) {
            let (rows, name) = (counted(rows), table.name());
            flopgap_cli::note(PROGRAM, format!("not exported: {rows} of {name}, which --format csv has"));
        }
    }
}

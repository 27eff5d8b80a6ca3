//! Recorded traces, unpacked.

use std::fs;
use std::path::{Path, PathBuf};

use flopgap_nsys::{Error, Report, ReportTable, Rule, Trace, Units};
use tempfile::TempDir;

pub(crate) const TRACES: [&str; 6] = [
    "graph_nodes",
    "nvtx_only",
    "small_forward",
    "small_forward_backward",
    "small_training_step",
    "streams_domains",
];

pub(crate) fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/nsys")
}

pub(crate) fn unzstd(path: &Path) -> Vec<u8> {
    let bytes = fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    zstd::decode_all(bytes.as_slice()).unwrap()
}

/// A recorded trace in a folder of its own, which lives as long as this does.
pub(crate) struct Unpacked {
    folder: TempDir,
    name: &'static str,
}

impl Unpacked {
    pub(crate) fn new(name: &'static str) -> Unpacked {
        let folder = tempfile::tempdir().unwrap();
        let database = unzstd(&fixtures().join(format!("{name}.sqlite.zst")));
        fs::write(folder.path().join(format!("{name}.sqlite")), database).unwrap();
        Unpacked { folder, name }
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.folder.path().join(format!("{}.sqlite", self.name))
    }

    pub(crate) fn open(&self) -> Trace {
        Trace::open(&self.path()).unwrap()
    }
}

/// A report as printed cells, its header first; nothing when the trace does not hold it.
pub(crate) fn printed(trace: &Trace, report: &str) -> Option<Vec<Vec<String>>> {
    let report: Report = report.parse().unwrap();
    cells_of(|table| trace.report(report, table))
}

/// The findings of a rule as printed cells, the header first; nothing when the trace does not hold what it looks at.
pub(crate) fn found(trace: &Trace, rule: Rule) -> Option<Vec<Vec<String>>> {
    cells_of(|table| trace.rule(rule, table))
}

fn cells_of(make: impl FnOnce(&mut ReportTable) -> Result<(), Error>) -> Option<Vec<Vec<String>>> {
    let mut table = ReportTable::default();
    match make(&mut table) {
        Ok(()) => {}
        Err(error) if error.is_absence() => return None,
        Err(error) => panic!("{error}"),
    }
    let units = Units::default();
    let header = table.columns.iter().map(|column| column.heading(units)).collect();
    let rows = table.rows.iter().map(|row| {
        let cells = table.columns.iter().zip(row);
        cells.map(|(column, value)| units.print(column.unit, value)).collect()
    });
    Some(std::iter::once(header).chain(rows).collect())
}

/// What nsys printed, as cells; nothing when it printed nothing.
pub(crate) fn golden(trace: &str, report: &str) -> Option<Vec<Vec<String>>> {
    let plain = fixtures().join("golden").join(trace).join(format!("{report}.csv"));
    let packed = plain.with_extension("csv.zst");
    let bytes = if packed.exists() {
        unzstd(&packed)
    } else if plain.exists() {
        fs::read(&plain).unwrap()
    } else {
        return None;
    };
    let text = String::from_utf8(bytes).unwrap();
    Some(text.lines().filter(|line| !line.is_empty()).map(cells).collect())
}

/// The cells of a line of nsys's CSV. It does not double quotes within a field, so a quote ends a field only before a
/// comma or at the end of the line.
fn cells(line: &str) -> Vec<String> {
    let mut cells = Vec::new();
    let mut rest = line;
    loop {
        let (cell, after) = match rest.strip_prefix('"') {
            Some(quoted) => match quoted.find("\",") {
                Some(end) => (&quoted[..end], Some(&quoted[end + 2..])),
                None => (quoted.strip_suffix('"').unwrap(), None),
            },
            None => match rest.split_once(',') {
                Some((cell, after)) => (cell, Some(after)),
                None => (rest, None),
            },
        };
        cells.push(cell.to_owned());
        match after {
            Some(after) => rest = after,
            None => return cells,
        }
    }
}

//! Recorded traces, unpacked.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use flopgap_files::Hint as _;
use flopgap_nsys::{Attribution, Error, GpuWork, Report, ReportTable, Rule, Summary, Trace, Units};
use tempfile::TempDir;

pub(crate) const TRACES: [&str; 16] = [
    "contexts",
    "graph_by_node",
    "graph_nodes",
    "graph_whole",
    "host_threads",
    "nvtx_only",
    "small_forward",
    "small_forward_backward",
    "small_training_step",
    "streams_domains",
    "three_processes",
    "torch_compiled",
    "two_gpus",
    "two_ranks",
    "two_ranks_nccl",
    "unified_memory",
];

pub(crate) fn fixtures() -> PathBuf {
    flopgap_testing::fixture("nsys")
}

/// A recorded trace in a directory of its own, which lives as long as this does.
pub(crate) struct Unpacked {
    folder: TempDir,
    name: &'static str,
}

impl Unpacked {
    pub(crate) fn new(name: &'static str) -> Unpacked {
        let folder = tempfile::tempdir().unwrap();
        let unpacked = Unpacked { folder, name };
        flopgap_testing::unpack(format!("nsys/{name}.sqlite.zst"), unpacked.path());
        unpacked
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.folder.path().join(format!("{}.sqlite", self.name))
    }

    /// Changes the export by an SQL script.
    pub(crate) fn change(&self, script: &str) {
        rusqlite::Connection::open(self.path()).unwrap().execute_batch(script).unwrap();
    }

    pub(crate) fn open(&self) -> Trace {
        Trace::open(self.path()).unwrap()
    }
}

/// The work of each range that launched some, by the id of the range.
pub(crate) fn work_by_range(trace: &Trace, attribution: Attribution) -> BTreeMap<i64, GpuWork> {
    let launched = trace.launched(attribution).unwrap();
    let ranges = &launched.nvtx().ranges;
    let all: Vec<usize> = (0..ranges.len()).collect();
    let work = ranges.iter().zip(launched.work_of(&all));
    work.filter_map(|(range, work)| Some((range.id.0, work?))).collect()
}

/// The kernels that the ranges of a name launched.
pub(crate) fn kernels_within(
    trace: &Trace,
    range: &str,
    attribution: Attribution,
) -> Vec<(Arc<str>, Summary)> {
    let nvtx = trace.nvtx_ranges().unwrap();
    let is_it = |&at: &usize| nvtx.names.get(nvtx.ranges[at].name).is(range);
    let instances: Vec<usize> = (0..nvtx.ranges.len()).filter(is_it).collect();
    trace.operation_times(Some(&instances), attribution).unwrap().kernels
}

/// A report as printed cells, its header first; `None` when the trace does not hold it.
pub(crate) fn printed(trace: &Trace, report: &str) -> Option<Vec<Vec<String>>> {
    let report: Report = report.parse().unwrap();
    cells_of(|table| trace.report(report, table))
}

/// The findings of a rule as printed cells, the header first; `None` when the trace does not hold
/// what it looks at.
pub(crate) fn found(trace: &Trace, rule: Rule) -> Option<Vec<Vec<String>>> {
    cells_of(|table| trace.rule(rule, table))
}

pub(crate) fn cells_of(make: impl FnOnce(&mut ReportTable) -> Result<(), Error>) -> Option<Vec<Vec<String>>> {
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

/// What nsys printed, as cells; `None` when it printed nothing.
pub(crate) fn golden(trace: &str, report: &str) -> Option<Vec<Vec<String>>> {
    let folder = fixtures().join("golden").join(trace);
    let name = report.replace(':', ".");
    let (plain, packed) = (folder.join(format!("{name}.csv")), folder.join(format!("{name}.csv.zst")));
    let bytes = if packed.exists() {
        flopgap_testing::unpacked(&packed)
    } else if plain.exists() {
        fs::read(&plain).unwrap()
    } else {
        return None;
    };
    Some(csv_of_nsys(bytes))
}

/// The cells of nsys's CSV.
pub(crate) fn csv_of_nsys(bytes: Vec<u8>) -> Vec<Vec<String>> {
    let text = String::from_utf8(bytes).unwrap();
    text.lines().filter(|line| !line.is_empty()).map(cells).collect()
}

/// Of which reports there is a golden, with `:base` and `:mangled`, and rules as `rule_NAME`.
pub(crate) fn goldens(trace: &str) -> BTreeSet<String> {
    let files = fs::read_dir(fixtures().join("golden").join(trace)).unwrap();
    let names = files.filter_map(|file| {
        let name = file.unwrap().file_name().into_string().unwrap();
        let report = name.strip_suffix(".csv").or_else(|| name.strip_suffix(".csv.zst"))?;
        Some(report.replace('.', ":"))
    });
    names.collect()
}

/// The cells of a line of nsys's CSV. It does not double quotes within a field, so a quote ends a
/// field only before a comma or at the end of the line.
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

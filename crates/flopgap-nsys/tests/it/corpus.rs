//! Public exports of other versions and GPUs, found through `FLOPGAP_CORPUS` (a directory with an
//! `nsys` directory in it).

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use flopgap_files::Hint as _;
use flopgap_nsys::export::perfetto;
use flopgap_nsys::{Error, Report, ReportKind, ReportTable, Rule, Trace, Units};

#[expect(clippy::print_stderr, reason = "what was skipped and what was read is said")]
fn say(text: &str) {
    eprintln!("{text}");
}

fn files() -> Option<Vec<PathBuf>> {
    let Some(corpus) = std::env::var_os("FLOPGAP_CORPUS") else {
        return flopgap_testing::none("corpus", "FLOPGAP_CORPUS is not set");
    };
    let folder = PathBuf::from(corpus).join("nsys");
    let entries = fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    files.retain(|path| path.extension().is_some_and(|extension| extension == "sqlite"));
    files.sort();
    assert!(!files.is_empty(), "no .sqlite in {}", folder.display());
    Some(files)
}

/// How many rows; `None` when the file does not hold what is needed.
fn rows(path: &Path, name: &str, make: impl FnOnce(&mut ReportTable) -> Result<(), Error>) -> Option<usize> {
    let mut table = ReportTable::default();
    match make(&mut table) {
        Ok(()) => {}
        Err(error) if error.is_absence() => {
            assert!(table.rows.is_empty(), "{} {name}", path.display());
            return None;
        }
        Err(error) => panic!("{} {name}: {error}", path.display()),
    }
    for row in &table.rows {
        assert_eq!(row.len(), table.columns.len(), "{} {name}", path.display());
        for (column, value) in table.columns.iter().zip(row) {
            Units::default().print(column.unit, value);
        }
    }
    Some(table.rows.len())
}

#[test]
fn every_file_is_read_by_every_report() {
    for path in files().into_iter().flatten() {
        let before = fs::read(&path).unwrap();
        let trace = Trace::open(&path).unwrap();
        let mut made = 0;
        for &kind in ReportKind::ALL {
            made += usize::from(
                rows(&path, kind.name(), |table| trace.report(Report::new(kind), table)).is_some(),
            );
        }
        for rule in Rule::ALL {
            rows(&path, rule.name(), |table| trace.rule(rule, table));
        }
        assert!(made > 0, "{}: no report at all", path.display());
        // What is in the file comes out of it: one row for each kernel, in the list as in the sums.
        let mut kernels = 0;
        match trace.kernels() {
            Ok(rows) => kernels += rows.map(|row| row.map(drop).unwrap()).count() as u64,
            Err(error) => assert!(error.is_absence(), "{error}"),
        }
        let mut sums = ReportTable::default();
        if trace.report(Report::new(ReportKind::CudaGpuKernSum), &mut sums).is_ok() {
            let instances = sums.rows.iter().map(|row| Units::default().print(sums.columns[2].unit, &row[2]));
            assert_eq!(instances.map(|text| text.parse::<u64>().unwrap()).sum::<u64>(), kernels);
        }
        if let Err(error) = perfetto(&trace, &mut io::sink()) {
            assert!(error.is_absence() && kernels == 0, "{error}");
        }
        assert_eq!(fs::read(&path).unwrap(), before, "{} was changed", path.display());
        say(&format!("{}: {made} reports, {kernels} kernels", path.display()));
    }
}

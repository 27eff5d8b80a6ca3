#![no_main]
//! Any bytes as an export of Nsight Systems: every report, rule and export of it ends, with rows or
//! with an error.

use std::fs;
use std::io;

use flopgap_nsys::export::perfetto;
use flopgap_nsys::{Report, ReportKind, ReportTable, Rule, Trace, Units};
use libfuzzer_sys::fuzz_target;

/// Prints all cells, as a command would.
fn print(table: &ReportTable) {
    let units = Units::default();
    for row in &table.rows {
        assert_eq!(row.len(), table.columns.len());
        for (column, value) in table.columns.iter().zip(row) {
            std::hint::black_box(units.print(column.unit, value));
        }
    }
}

fuzz_target!(|bytes: &[u8]| {
    let path = &flopgap_fuzz::file("export.sqlite", bytes);
    if let Ok(trace) = Trace::open(path) {
        for kind in ReportKind::ALL {
            let mut table = ReportTable::default();
            let _ = trace.report(Report::new(*kind), &mut table);
            print(&table);
        }
        for names in ["base", "mangled"] {
            let mut table = ReportTable::default();
            let report: Report = format!("cuda_gpu_trace:{names}").parse().expect("a report");
            let _ = trace.report(report, &mut table);
            print(&table);
        }
        for rule in Rule::ALL {
            let mut table = ReportTable::default();
            let _ = trace.rule(rule, &mut table);
            print(&table);
        }
        let _ = trace.launched(flopgap_nsys::Attribution::default());
        let ranges = trace.nvtx_ranges().map_or(0, |nvtx| nvtx.ranges.len());
        let first = Vec::from_iter((0..ranges).take(1));
        let _ = trace.operation_times(Some(&first), flopgap_nsys::Attribution::default());
        let _ = perfetto(&trace, &mut io::sink());
        for warning in trace.warnings() {
            std::hint::black_box(warning.to_string());
        }
    }
    assert_eq!(fs::read(path).expect("still there"), bytes, "the file was changed");
});

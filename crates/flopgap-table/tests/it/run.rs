//! Run directories.

use std::collections::BTreeMap;

use flopgap_files::Hint as _;
use flopgap_table::Kind;

use crate::{Cell, column, counts, fixtures, open, texts};

/// The table that `flopgap profile analyze` wrote of the same run.
#[test]
fn metrics_are_those_of_the_recorded_table() {
    for run in ["h200-pytorch", "h200-default"] {
        let source = open(&format!("runs/{run}"));
        assert_eq!(source.kind(), Kind::Run);
        let table = source.table("metrics").unwrap();
        let written = flopgap_phases::sweep::read_metrics(
            &fixtures().join(format!("runs/{run}/processed/metrics.csv")),
        )
        .unwrap();
        let is = |column: &str, get: &dyn Fn(&flopgap_phases::sweep::MetricsRow) -> u64| {
            assert_eq!(
                counts(&table, column),
                written.iter().map(|row| Some(get(row))).collect::<Vec<_>>(),
                "{run} {column}"
            );
        };
        is("n", &|row| row.n);
        is("m", &|row| row.m);
        is("gemm_flops", &|row| row.gemm);
        is("total_flops", &|row| row.total);
        is("theory_gemm_flops", &|row| row.theory_gemm);
        let omegas: Vec<_> = written.iter().map(|row| Cell::Float(row.omega)).collect();
        assert_eq!(column(&table, "omega"), omegas, "{run}");
        assert!(!written.is_empty());
    }
}

/// The parts of each pass add up to what was counted.
#[test]
fn overheads_add_up_to_the_metrics() {
    let source = open("runs/h200-pytorch");
    let key = |table: &flopgap_table::Table| {
        let sizes = ["n", "d", "m"].map(|name| counts(table, name));
        let passes = texts(table, "pass");
        (0..passes.len())
            .map(|row| (sizes[0][row], sizes[1][row], sizes[2][row], passes[row].clone()))
            .collect::<Vec<_>>()
    };
    let overheads = source.table("overheads").unwrap();
    let mut sums: BTreeMap<_, i64> = BTreeMap::new();
    for (key, flops) in key(&overheads).into_iter().zip(column(&overheads, "flops")) {
        let Cell::Int(flops) = flops else { panic!("{flops:?}") };
        *sums.entry(key).or_default() += flops;
    }
    let metrics = source.table("metrics").unwrap();
    let totals =
        counts(&metrics, "total_flops").into_iter().map(|total| i64::try_from(total.unwrap()).unwrap());
    let totals: BTreeMap<_, i64> = key(&metrics).into_iter().zip(totals).collect();
    assert_eq!(sums, totals);
}

#[test]
fn launches_of_records_add_up() {
    let source = open("runs/h200-small");
    let launches = source.table("launches").unwrap();
    let mut sum = 0;
    let mut expected = 0;
    for flops in counts(&launches, "flops") {
        sum += flops.unwrap();
    }
    for file in std::fs::read_dir(fixtures().join("runs/h200-small/raw")).unwrap() {
        let record = flopgap_phases::sweep::Record::read(&file.unwrap().path()).unwrap();
        expected += record.launches().map(|launch| launch.flops().unwrap()).sum::<u64>();
    }
    assert_eq!(sum, expected);
    assert!(source.tables().iter().any(|table| table.name == "launches"));
}

#[test]
fn a_run_of_reports_says_where_its_launches_are() {
    let error = open("runs/h200-pytorch").table("launches").unwrap_err();
    assert!(error.is_absence());
    assert!(
        error.to_string().ends_with("its launches are in reports of Nsight Compute, not in records"),
        "{error}"
    );
}

//! Nsight Compute reports.

use std::collections::BTreeMap;

use flopgap_kernels::Classifier;
use flopgap_ncu::{FlopCounter, Report, Value};
use flopgap_table::{Kind, Table};

use crate::{Cell, batches, cells, counts, fixtures, open, texts};

const REPORTS: [&str; 12] = [
    "ncu/n4_d512_m64_forward.csv",
    "ncu/full_details.csv.zst",
    "ncu/full_raw.csv.zst",
    "ncu/lm_details.csv.zst",
    "ncu/lm_raw.csv.zst",
    "ncu/lm_summary.csv.zst",
    "ncu/h200_pytorch_raw.csv.zst",
    "ncu/h200_kernels_graph_nvtx.ncu-rep",
    "ncu/h200_range.ncu-rep",
    "ncu/phases_nvtx.ncu-rep.zst",
    "ncu/nvtx_names/summary_per_nvtx.csv",
    "notebook/forward_backward.csv",
];

fn read(name: &str) -> Report {
    flopgap_ncu::read(fixtures().join(name)).unwrap()
}

/// The columns of metrics, by what ncu calls them, with their unit.
fn metric_columns(table: &Table) -> BTreeMap<(String, String), String> {
    let schema = table.schema();
    let fields = schema.fields().iter().filter_map(|field| {
        let note = |key: &str| field.metadata().get(key).cloned();
        Some(((note("metric")?, note("unit")?), field.name().clone()))
    });
    fields.collect()
}

#[test]
fn launches_are_those_of_the_reader() {
    let classifier = Classifier::new();
    for name in REPORTS {
        let report = read(name);
        let source = open(name);
        assert_eq!(source.kind(), Kind::Ncu);
        let table = source.table("launches").unwrap();
        let is = |column: &str, expected: Vec<Option<u64>>| {
            assert_eq!(counts(&table, column), expected, "{name} {column}");
        };
        is("id", report.iter().map(|launch| launch.id).collect());
        is("stream", report.iter().map(|launch| launch.stream).collect());
        is("invocations", report.iter().map(|launch| Some(launch.invocations)).collect());
        is("grid_x", report.iter().map(|launch| Some(launch.grid?[0])).collect());
        is("block_z", report.iter().map(|launch| Some(launch.block?[2])).collect());
        let names: Vec<_> = report.iter().map(|launch| Some(launch.kernel_name().to_owned())).collect();
        assert_eq!(texts(&table, "name"), names, "{name}");
        let mut counter = FlopCounter::new();
        let flops: Vec<_> = report
            .iter()
            .map(|launch| {
                let info = classifier.get(launch.kernel_name());
                Some(counter.count_as(launch, &flopgap_phases::arithmetic(&info)).work().ok()?.value)
            })
            .collect();
        is("flops", flops);
    }
}

/// Each metric of each launch is in its column, and no column has more.
#[test]
fn every_metric_has_its_column() {
    for name in REPORTS {
        let report = read(name);
        let table = open(name).table("launches").unwrap();
        let columns = metric_columns(&table);
        let mut read: BTreeMap<String, Vec<Cell>> = BTreeMap::new();
        for batch in batches(&table) {
            for (field, array) in batch.schema().fields().iter().zip(batch.columns()) {
                if field.metadata().contains_key("metric") {
                    read.entry(field.name().clone()).or_default().extend(cells(array));
                }
            }
        }
        let mut seen = 0;
        for (row, launch) in report.iter().enumerate() {
            let mut of_launch = BTreeMap::new();
            for metric in &launch.metrics {
                let base = metric.in_base_units(launch.strings);
                let unit = base.as_ref().map_or(launch.strings.get(metric.unit), |base| &base.unit);
                let key = (launch.strings.get(metric.name).to_owned(), unit.to_owned());
                of_launch.entry(columns[&key].as_str()).or_insert((metric, base));
            }
            for (column, (metric, base)) in of_launch {
                let found = &read[column][row];
                match (metric.value, base) {
                    (_, Some(base)) if matches!(found, Cell::Float(_)) => {
                        assert_eq!(*found, Cell::Float(base.value), "{name} {column}");
                    }
                    (Value::Text(text), _) => {
                        assert_eq!(*found, Cell::from(launch.strings.get(text)), "{name} {column}");
                    }
                    (_, Some(base)) => {
                        assert_eq!(*found, Cell::Count(base.count.unwrap()), "{name} {column}");
                    }
                    other => panic!("{name} {column}: {other:?}"),
                }
                seen += 1;
            }
        }
        let filled = read.values().flatten().filter(|cell| **cell != Cell::Absent).count();
        assert_eq!(filled, seen, "{name}");
        assert!(seen > 0);
    }
}

#[test]
fn counters_are_the_metrics_of_the_reader_one_a_row() {
    for name in REPORTS {
        // As they stand in the file: launches whose rows stand apart come more than once.
        let mut reader = flopgap_ncu::Reader::open(fixtures().join(name)).unwrap();
        let mut expected = Vec::new();
        while let Some(launch) = reader.next_launch().unwrap() {
            for metric in &launch.metrics {
                let value =
                    metric.in_base_units(launch.strings).map_or(Cell::Absent, |base| Cell::Float(base.value));
                expected.push((launch.id, launch.strings.get(metric.name).to_owned(), value));
            }
        }
        let table = open(name).table("counters").unwrap().select(&["id", "metric", "value"]).unwrap();
        let mut found = Vec::new();
        for batch in batches(&table) {
            let columns: Vec<Vec<Cell>> = batch.columns().iter().map(|array| cells(array)).collect();
            let [ids, metrics, values] = &columns[..] else { panic!("three columns") };
            for ((id, metric), value) in ids.iter().zip(metrics).zip(values) {
                let id = match id {
                    Cell::Count(id) => Some(*id),
                    _ => None,
                };
                let Cell::Text(metric) = metric else { panic!("a metric has a name") };
                found.push((id, metric.clone(), value.clone()));
            }
        }
        assert_eq!(found, expected, "{name}");
    }
}

/// The README of flopgap-ncu has these sums.
#[test]
fn sums_by_kernel_are_exact() {
    let table = open("ncu/n4_d512_m64_forward.csv").table("launches").unwrap();
    let mut sums: BTreeMap<String, (u64, u64)> = BTreeMap::new();
    for (name, flops) in texts(&table, "class").into_iter().zip(counts(&table, "flops")) {
        let (launches, sum) = sums.entry(name.unwrap()).or_default();
        *launches += 1;
        *sum += flops.unwrap();
    }
    let expected = [
        ("elementwise", (4, 2_097_152)),
        ("matmul", (4, 270_532_608)),
        ("random", (5, 84_344_832)),
        ("split-k-reduce", (4, 1_179_648)),
    ];
    assert_eq!(sums, expected.map(|(class, sums)| (class.to_owned(), sums)).into());
}

/// A metric is one column whatever prefix its unit has in each row, and whole where all of its
/// values are.
#[test]
fn units_are_in_the_names() {
    let table = open("ncu/lm_details.csv.zst").table("launches").unwrap();
    let schema = table.schema();
    let field = schema.field_with_name("dram__bytes_read_sum_bytes").unwrap();
    assert_eq!(field.metadata()["metric"], "dram__bytes_read.sum");
    assert_eq!(field.metadata()["description"], "ncu's `dram__bytes_read.sum`, in byte.");
    assert_eq!(field.data_type().to_string(), "Float64"); // `11.26 Kbyte` is rounded
}

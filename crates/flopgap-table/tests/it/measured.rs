//! Calibrations and results of `mlp-bench`.

use std::fs;
use std::io::Write as _;

use flopgap_calibration::Calibration;
use flopgap_files::Hint as _;
use flopgap_table::{Error, Kind, Source};

use crate::{Cell, column, counts, fixtures, open, texts};

/// The values of the file, as its own crate reads it.
#[test]
fn a_calibration_is_its_rows() {
    for name in ["h200", "h200-models", "xeon-native", "xeon-ort"] {
        let file = format!("calibration/{name}.jsonl.zst");
        let source = open(&file);
        assert_eq!(source.kind(), Kind::Calibration);
        let table = source.table("calibration").unwrap();
        let read = Calibration::read(&fixtures().join(&file)).unwrap();
        let times: Vec<_> = read.rows.iter().map(|row| Cell::Float(row.measurement.time.median_ns)).collect();
        assert_eq!(column(&table, "median_ns"), times, "{name}");
        let flops: Vec<_> = read.rows.iter().map(|row| row.measurement.counted_flops).collect();
        assert_eq!(counts(&table, "counted_flops"), flops, "{name}");
        let engines: Vec<_> = read.rows.iter().map(|row| Some(row.engine.clone())).collect();
        assert_eq!(texts(&table, "engine"), engines, "{name}");
        let joules = read.rows.iter().map(|row| match &row.measurement.energy {
            Some(energy) => Cell::Float(energy.joules),
            None => Cell::Absent,
        });
        assert_eq!(column(&table, "energy_j"), joules.collect::<Vec<_>>(), "{name}");
        // All of a workload is in `spec`: it gives the workload back.
        for (spec, row) in texts(&table, "spec").into_iter().zip(&read.rows) {
            let spec: serde_json::Value = serde_json::from_str(&spec.unwrap()).unwrap();
            assert_eq!(spec, serde_json::to_value(&row.workload).unwrap(), "{name}");
        }
    }
}

#[test]
fn sizes_of_a_workload_have_columns() {
    let table = open("calibration/h200.jsonl.zst").table("calibration").unwrap();
    let place = |op: &str| texts(&table, "op").iter().position(|found| found.as_deref() == Some(op)).unwrap();
    let conv = place("conv");
    assert_eq!(counts(&table, "inputs")[conv], Some(64));
    assert_eq!(texts(&table, "image")[conv].as_deref(), Some("28x28"));
    assert_eq!(counts(&table, "m")[conv], None);
    let mlp = texts(&table, "workload").iter().position(|found| found.as_deref() == Some("mlp")).unwrap();
    assert!(texts(&table, "hidden")[mlp].is_some() && counts(&table, "input")[mlp].is_some());
    let provenance = open("calibration/h200.jsonl.zst").provenance().unwrap();
    assert_eq!(provenance.gpu.as_deref(), Some("NVIDIA H200"));
    assert_eq!(provenance.driver.as_deref(), Some("580.159.04"));
    assert_eq!(provenance.profiler.as_deref(), Some("model-calibrate"));
    assert_eq!(open("calibration/xeon-ort.jsonl.zst").provenance().unwrap().gpu, None);
}

const RESULTS: &str = r#"{
  "device": "NVIDIA H200",
  "peaks": { "fp32_tflops": 60.0, "fp16_tflops": 790.0, "memory_gbps": 4300.0, "origin": "measured on an H200" },
  "results": [
    { "impl": "coopmat", "size": "small", "precision": "fp16", "pass": "forward", "batch": 256, "timing": "gpu-graph",
      "median_us": 2.5, "p10_us": 2.25, "p90_us": 3.0, "tflops": 13.5, "gbps": 21.0, "floor_fraction": 0.125, "max_rel_error": 0.001 },
    { "impl": "pytorch", "size": "32-64-64-8", "precision": "fp16", "pass": "train", "batch": 1, "timing": "gpu-graph",
      "median_us": 8.0, "p10_us": null, "p90_us": null, "tflops": 4.0, "gbps": 6.0, "floor_fraction": null, "max_rel_error": null }
  ]
}"#;

#[test]
fn results_of_mlp_bench_are_a_table() {
    let (folder, [plain]) = flopgap_testing::paths(["results.json"]);
    fs::write(&plain, RESULTS).unwrap();
    let packed = folder.path().join("results.json.zst");
    let mut encoder = zstd::Encoder::new(fs::File::create(&packed).unwrap(), 3).unwrap();
    encoder.write_all(RESULTS.as_bytes()).unwrap();
    encoder.finish().unwrap();
    for path in [plain, packed] {
        let source = Source::open(&path).unwrap();
        assert_eq!(source.kind(), Kind::Bench);
        let table = source.table("bench_results").unwrap();
        assert_eq!(column(&table, "median_us"), [Cell::Float(2.5), Cell::Float(8.0)]);
        assert_eq!(column(&table, "p10_us"), [Cell::Float(2.25), Cell::Absent]);
        assert_eq!(column(&table, "implementation"), [Cell::from("coopmat"), Cell::from("pytorch")]);
        assert_eq!(counts(&table, "batch"), [Some(256), Some(1)]);
        assert_eq!(source.provenance().unwrap().gpu.as_deref(), Some("NVIDIA H200"));
    }
}

#[test]
fn documents_that_are_cut_off_or_incomplete_are_refused() {
    let (folder, [path]) = flopgap_testing::paths(["results.json"]);
    for text in [&RESULTS[..RESULTS.len() / 2], "{\"device\": 1}", "{\"device\": \"a\"}"] {
        fs::write(&path, text).unwrap();
        let error = Source::open(&path).unwrap_err();
        assert!(matches!(error, Error::Bench { .. }), "{error:?}");
        assert!(error.hint().unwrap().contains("--format json"));
    }
    let path = folder.path().join("calibration.jsonl");
    fs::write(&path, "{\"format\":\"flopgap-calibration\",\"version\":9}\n").unwrap();
    let error = Source::open(&path).unwrap_err();
    assert!(error.to_string().contains("version 9"), "{error}");
    assert!(error.hint().unwrap().contains("update flopgap"));
}

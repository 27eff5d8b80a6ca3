//! `flopgap calibrate report` and `fit`.

use std::fs;
use std::path::Path;

use crate::support::{calibration, done, fails, jetson, run};

const HEADER: &str = "model,input_dim,hidden_dims,output_dim,batch_size,device,precision,empirical_time_ms";

fn write(folder: &Path, name: &str, text: &str) {
    fs::write(folder.join(name), text).unwrap();
}

#[test]
fn a_table_of_another_estimator_is_judged_as_it_is() {
    let dir = tempfile::tempdir().unwrap();
    let table = jetson();
    let ended = done(dir.path(), &["report", "--empirical", table.to_str().unwrap()]);
    for part in [
        "- Total configs tested: 84.",
        "## Bottleneck analysis",
        "`Precision.FP16: efficiency_factor=",
        "## Batch size effects",
        "## Precision effects",
        "## Worst 10",
    ] {
        assert!(ended.stdout.contains(part), "{part} is not in {}", ended.stdout);
    }
    ended.says(&["is traffic, not memory in use"]);
}

#[test]
fn a_report_is_written_in_the_kind_of_its_name() {
    let dir = tempfile::tempdir().unwrap();
    let table = jetson();
    let report = |name: &str| {
        done(dir.path(), &["report", "--empirical", table.to_str().unwrap(), "--output", name]);
        fs::read_to_string(dir.path().join(name)).unwrap()
    };
    let markdown = report("a.md");
    for chart in ["a-estimated.svg", "a-errors.svg"] {
        assert!(markdown.contains(&format!("({chart})")), "{markdown}");
        assert!(fs::read_to_string(dir.path().join(chart)).unwrap().starts_with("<svg "));
    }
    assert!(report("a.html").starts_with("<!doctype html>"));
    let json: serde_json::Value = serde_json::from_str(&report("a.json")).unwrap();
    let errors = &json["sections"].as_array().unwrap()[1]["tables"][0]["rows"][0];
    assert!((errors["mape"].as_f64().unwrap() - 0.6).abs() < 0.1, "{errors}");
    let csv = report("a.csv");
    assert_eq!(csv.lines().count(), 85);
    // What was written is judged as what it was made from.
    done(dir.path(), &["report", "--empirical", "a.csv"]).prints(&["- Total configs tested: 84."]);
    let message = "a.pdf: unknown kind of report\n  hint: end the name with .md, .html, .json, or .csv, or name \
                   a format with --format";
    fails(dir.path(), &["report", "--empirical", "a.csv", "--output", "a.pdf"], 2, message);
}

#[test]
fn a_calibration_is_judged_on_rows_that_were_not_fitted() {
    let dir = tempfile::tempdir().unwrap();
    calibration(1.0).write(&dir.path().join("h200.jsonl.zst")).unwrap();
    let ended = done(dir.path(), &["report", "--empirical", "h200.jsonl.zst", "--output", "r.md"]);
    let report = fs::read_to_string(dir.path().join("r.md")).unwrap();
    for part in [
        "# Calibration report: NVIDIA H200",
        "The predictor beats its baselines.",
        "- MAPE†: latency ",
        "**Coverage of the 90% intervals**",
        "Repeatability of cuda: not known, as no row was measured twice.",
    ] {
        assert!(report.contains(part), "{part} is not in {report}");
    }
    ended.says(&["the file has no measured ceilings"]);
    let csv = done(dir.path(), &["report", "--empirical", "h200.jsonl.zst", "--output", "r.csv"]);
    assert!(csv.stderr.ends_with("wrote r.csv\n"), "{}", csv.stderr);
    let table = fs::read_to_string(dir.path().join("r.csv")).unwrap();
    // 115 rows and a header; the launch that does nothing is not judged.
    assert_eq!(table.lines().count(), 116);

    done(dir.path(), &["fit", "h200.jsonl.zst"]).prints(&["cuda     115", "yes"]);
}

#[test]
fn estimates_of_another_estimator_are_judged() {
    let dir = tempfile::tempdir().unwrap();
    calibration(1.0).write(&dir.path().join("h200.jsonl")).unwrap();
    let estimates = "model,input_dim,hidden_dims,output_dim,batch_size,analytical_time_ms\n\
                     mlp_2layer,784,\"[512, 512]\",10,1,0.0015\nmlp_2layer,784,\"[512, 512]\",10,8,0.003\n";
    write(dir.path(), "theirs.csv", estimates);
    let arguments = ["report", "--empirical", "h200.jsonl", "--analytical", "theirs.csv"];
    done(dir.path(), &arguments)
        .says(&["114 of 116 measured rows have no estimate"])
        .prints(&["- Total configs tested: 2. Estimates: those of theirs.csv."]);
}

#[test]
fn noise_is_not_recommended() {
    let dir = tempfile::tempdir().unwrap();
    let mut noise = calibration(1.0);
    noise.rows.retain(|row| matches!(&row.workload, flopgap_graph::Workload::Step(_)));
    for (index, row) in noise.rows.iter_mut().enumerate() {
        // Times that have nothing to do with the work.
        row.measurement.time.median_ns = 1000.0 * (1.0 + (index * 7919 % 97) as f64);
    }
    noise.write(&dir.path().join("noise.jsonl")).unwrap();
    let ended = done(dir.path(), &["fit", "noise.jsonl"]);
    let verdict = "the predictor does not beat its baselines; this calibration is not recommended";
    assert_eq!(
        ended.stderr.contains(verdict),
        ended.stdout.contains("no: not recommended"),
        "{}",
        ended.stderr
    );
}

#[test]
fn bad_tables_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let good = "mlp_1layer,256,[128],64,1,cpu,fp32,1";
    let cases = [
        (
            "",
            1,
            "t.csv: the file is empty\n  hint: pass a table with a header and at least one row".to_owned(),
        ),
        (
            "model,empirical_time_ms\na,1\n",
            1,
            "t.csv: missing columns: batch_size, device, precision, analytical_time_ms; the file has: model, \
             empirical_time_ms\n  hint: pass the estimates as a second table, or a table that has both\n  \
             hint: `--analytical FILE` adds a table of estimates"
                .to_owned(),
        ),
    ];
    for (text, code, message) in cases {
        write(dir.path(), "t.csv", text);
        fails(dir.path(), &["report", "--empirical", "t.csv"], code, &message);
    }
    for (time, cell) in [("0", "0"), ("-3", "-3"), ("nan", "nan"), ("", "")] {
        write(dir.path(), "t.csv", &format!("{HEADER}\n{good}\nmlp_1layer,256,[128],64,2,cpu,fp32,{time}\n"));
        let message = format!(
            "t.csv:3: empirical_time_ms is `{cell}`; a time is a number above 0\n  \
             hint: correct the cell, or remove rows that were not measured"
        );
        fails(dir.path(), &["fit", "t.csv"], 1, &message);
    }
    write(dir.path(), "t.csv", &format!("{HEADER}\n{good}\n{}\n", good.replace("cpu", "cuda")));
    let message = "t.csv: rows from 2 devices: cpu (1 rows), cuda (1 rows)\n  \
                   hint: `--machine NAME` chooses a device";
    fails(dir.path(), &["fit", "t.csv"], 1, message);
    let message = "t.csv: no rows from device `tpu`; the file has cpu (1 rows), cuda (1 rows)\n  \
                   hint: `--machine NAME` chooses a device";
    fails(dir.path(), &["fit", "t.csv", "--machine", "tpu"], 3, message);
    let message = "t.csv: table: a fit needs at least 20 rows; found 1\n  \
                   hint: measure more rows with `flopgap calibrate sweep`; `--quick` measures 150";
    fails(dir.path(), &["fit", "t.csv", "--machine", "cpu"], 1, message);
}

#[test]
fn bad_calibrations_are_refused() {
    let (dir, [whole]) = flopgap_testing::paths(["whole.jsonl"]);
    calibration(1.0).write(&whole).unwrap();
    let text = fs::read_to_string(&whole).unwrap();
    write(dir.path(), "twice.jsonl", &format!("{text}{text}"));
    let message = "twice.jsonl:118: second header: the file holds two calibrations\n  \
                   hint: pass one file for each sweep";
    fails(dir.path(), &["report", "--empirical", "twice.jsonl"], 1, message);
    let (cut, _) = text.split_at(text.len() - 100);
    write(dir.path(), "cut.jsonl", cut);
    run(dir.path(), &["fit", "cut.jsonl"]).says(&[
        "warning: cut.jsonl: the last row is incomplete and ignored; `sweep --resume` measures it again",
    ]);
    write(dir.path(), "newer.jsonl", &text.replacen("\"version\":1", "\"version\":9", 1));
    let message = "newer.jsonl: unsupported format `flopgap-calibration` version 9; supported: \
                   flopgap-calibration version 1\n  hint: update flopgap, or measure again with \
                   `flopgap calibrate sweep`";
    fails(dir.path(), &["fit", "newer.jsonl"], 1, message);
    run(dir.path(), &["fit", "missing.jsonl"])
        .expect(3, &["hint: `flopgap calibrate sweep` writes calibration files"]);
}

#[test]
fn a_fit_of_a_calibration_is_of_its_machine() {
    let dir = tempfile::tempdir().unwrap();
    calibration(1.0).write(&dir.path().join("h200.jsonl")).unwrap();
    let message = "h200.jsonl: a calibration of NVIDIA H200, not of `foo`\n  \
                   hint: omit `--machine`, or pass another file";
    fails(dir.path(), &["fit", "h200.jsonl", "--machine", "foo"], 3, message);
    done(dir.path(), &["fit", "h200.jsonl", "--machine", "h200"]);
}

#[test]
fn what_was_measured_is_said_without_judging_it() {
    let file = std::path::Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../fixtures/calibration/xeon-ort.jsonl.zst");
    let dir = tempfile::tempdir().unwrap();
    let ended =
        done(dir.path(), &["report", "--no-fits", "--format", "json", "--empirical", file.to_str().unwrap()]);
    let json = ended.json();
    let table = json["sections"].as_array().unwrap().iter().flat_map(|own| own["tables"].as_array().unwrap());
    let rows: Vec<&serde_json::Value> = table.flat_map(|table| table["rows"].as_array().unwrap()).collect();
    let calibration = flopgap_calibration::Calibration::read(&file).unwrap();
    let all: u64 = rows.iter().map(|row| row["rows"].as_u64().unwrap()).sum();
    assert_eq!(all, calibration.rows.len() as u64);
    for row in rows {
        let is_own = |own: &&flopgap_calibration::Row| {
            row["engine"] == own.engine
                && row["threads"] == own.threads
                && row["precision"] == own.precision.to_string()
                && row["mode"] == flopgap_calibration::mode_name(own.mode)
                && row["family"] == own.workload.family()
        };
        let times = calibration.rows.iter().filter(is_own).map(|own| own.measurement.time.median_ns / 1e6);
        let (fastest, slowest) =
            times.fold((f64::INFINITY, 0.0_f64), |(low, high), ms| (low.min(ms), high.max(ms)));
        let at = |name: &str| row[name].as_f64().unwrap();
        assert!(
            (at("fastest_ms") - fastest).abs() < 1e-12 && (at("slowest_ms") - slowest).abs() < 1e-12,
            "{row}"
        );
        assert!(fastest <= at("median_ms") && at("median_ms") <= slowest, "{row}");
    }
}

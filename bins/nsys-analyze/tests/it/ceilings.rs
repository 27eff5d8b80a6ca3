//! `flopgap gap --ceilings`: steps beside what was measured on their GPU.

use rusqlite::Connection;
use serde_json::{Value, json};
use tempfile::TempDir;

use flopgap_testing::{Ended, fixture, unpack, unpacked_text};

use crate::run;

/// The ceilings that a recorded calibration of an H200 has, in a file of their own, and as they
/// are.
fn ceilings() -> (TempDir, String, Value) {
    let text = unpacked_text("calibration/h200.jsonl.zst");
    let head: Value = serde_json::from_str(text.lines().next().unwrap()).unwrap();
    let mut ceilings = head["ceilings"].clone();
    ceilings["format"] = json!("flopgap-ceilings");
    ceilings["version"] = json!(1);
    let (folder, [path]) = flopgap_testing::paths(["ceilings.json"]);
    std::fs::write(&path, ceilings.to_string()).unwrap();
    let path = path.to_str().unwrap().to_owned();
    (folder, path, ceilings)
}

fn gap(trace: &str, more: &[&str]) -> Ended {
    let trace = fixture(trace);
    run(&[&["gap", trace.to_str().unwrap()], more].concat())
}

fn found(trace: &str, more: &[&str]) -> Value {
    let answer = gap(trace, &[more, &["--format", "json"]].concat());
    assert_eq!(answer.code, 0, "{}", answer.stderr);
    answer.json()
}

fn near(one: f64, other: f64) {
    assert!((one / other - 1.0).abs() < 1e-9, "{one} {other}");
}

#[test]
fn the_floor_is_what_was_measured() {
    let (_folder, path, ceilings) = ceilings();
    let trace = "kineto/layer.json.gz";
    let (sheet, own) = (found(trace, &[]), found(trace, &["--ceilings", &path]));
    assert_eq!(sheet["floor"]["peaks"]["bytes_by"], "data-sheet");
    assert!(sheet["launches"].is_null() && sheet["floor"]["peaks"]["launch_ns"].is_null());

    let (floor, peaks) = (&own["floor"], &own["floor"]["peaks"]);
    let memory = ceilings["levels"].as_array().unwrap().last().unwrap();
    let fastest = memory["read"].as_f64().unwrap().max(memory["copy"].as_f64().unwrap());
    near(peaks["bytes"].as_f64().unwrap(), fastest);
    assert_eq!(peaks["bytes_by"], "measured");
    near(peaks["launch_ns"].as_f64().unwrap(), ceilings["launch_ns"]["value"].as_f64().unwrap());
    // The fastest instruction of each precision; the data sheet's of what was not measured.
    let peak = |number: &str| {
        let own = peaks["flops"].as_array().unwrap().iter().find(|own| own["number"] == number);
        let own = own.unwrap_or_else(|| panic!("{number}: {peaks}"));
        (own["flops"].as_f64().unwrap(), own["by"].as_str().unwrap().to_owned())
    };
    for number in ["fp32", "tf32", "fp16", "bf16", "int8"] {
        let all = ceilings["peaks"].as_array().unwrap().iter().filter(|own| own["precision"] == number);
        let most = all.map(|own| own["ops_per_second"]["value"].as_f64().unwrap()).fold(0.0, f64::max);
        let (flops, by) = peak(number);
        near(flops, most);
        assert_eq!(by, "measured", "{number}");
    }
    assert_eq!(peak("fp8"), (1978.9e12, "data-sheet".to_owned()));

    // The partition is the same; utilization is of the measured peaks.
    assert_eq!((&sheet["parts"], &sheet["advice"]), (&own["parts"], &own["advice"]));
    let total: f64 = own["parts"].as_array().unwrap().iter().map(|part| part["ns"].as_f64().unwrap()).sum();
    let types = floor["flops"].as_array().unwrap();
    let seconds: f64 = types
        .iter()
        .map(|own| own["model"].as_f64().unwrap() / peak(own["number"].as_str().unwrap()).0)
        .sum();
    near(floor["mfu"].as_f64().unwrap(), seconds / (total / 1e9));
    let screen = gap(trace, &["--ceilings", &path]).stdout;
    let flat = screen.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(flat.contains(" TB/s, measured, take "), "{screen}");
    assert!(!gap(trace, &[]).stdout.contains(", measured"));
}

/// By SQL: how many calls launched the kernels that begin in measured steps and between them.
#[test]
fn launches_are_beside_as_many_empty_ones() {
    let (folder, path, ceilings) = ceilings();
    let trace = "nsys/small_training_step.sqlite.zst";
    let own = found(trace, &["--ceilings", &path]);
    let unpacked = folder.path().join("trace.sqlite");
    unpack(trace, &unpacked);
    let db = Connection::open(&unpacked).unwrap();
    let mut expected = 0;
    let windows = ["steps", "between"].map(|key| own[key].as_array().unwrap());
    for window in windows.into_iter().flatten().filter(|window| window["warm_up"] == false) {
        let (start, wall) = (window["start_ns"].as_i64().unwrap(), window["wall_ns"].as_i64().unwrap());
        let sql = "SELECT count(DISTINCT correlationId) FROM CUPTI_ACTIVITY_KIND_KERNEL WHERE start >= ?1 AND start < ?2";
        expected += db.query_row(sql, [start, start + wall], |row| row.get::<_, i64>(0)).unwrap();
    }
    let launches = &own["launches"];
    assert!(expected > 100);
    assert_eq!(launches["count"], expected);
    let each = ceilings["launch_ns"]["value"].as_f64().unwrap();
    near(launches["ns"].as_f64().unwrap(), each * expected as f64);
    let screen = gap(trace, &["--ceilings", &path]).stdout;
    assert!(screen.contains("A step launches kernels by "), "{screen}");
}

#[test]
fn ceilings_of_another_gpu_are_refused() {
    let (folder, path, mut ceilings) = ceilings();
    let other = gap("advice/fp32-products.before.json.zst", &["--ceilings", &path]);
    other.refuses(1, &[]);
    let said =
        "ceilings are from another machine: the device is NVIDIA H200 there and NVIDIA H100 80GB HBM3 here";
    other.says(&[said, "hint: measure the ceilings of that GPU"]);

    ceilings["kind"] = json!("cpu");
    let cpu = folder.path().join("cpu.json");
    std::fs::write(&cpu, ceilings.to_string()).unwrap();
    gap("kineto/layer.json.gz", &["--ceilings", cpu.to_str().unwrap()])
        .says(&["the kind of device is cpu there and cuda here"]);
    gap("kineto/layer.json.gz", &["--ceilings", "no-such.json"]).expect(3, &[]);
}

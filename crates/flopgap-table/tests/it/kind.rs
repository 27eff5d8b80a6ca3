//! What files and directories are recognized as.

use std::fs;

use flopgap_table::{Error, Kind, Source};

use crate::fixtures;

#[test]
fn recorded_files_are_recognized() {
    for (name, kind) in [
        ("ncu/n4_d512_m64_forward.csv", Kind::Ncu),
        ("ncu/n10_d1024_m128_forward.csv.zst", Kind::Ncu),
        ("ncu/h200_range.ncu-rep", Kind::Ncu),
        ("ncu/phases_nvtx.ncu-rep.zst", Kind::Ncu),
        ("nsys/two_gpus.sqlite.zst", Kind::Nsys),
        ("kineto/plain.json.gz", Kind::Kineto),
        ("runs/h200-default", Kind::Run),
        ("runs/h200-small/raw/n2_d256_m1.counts.json.zst", Kind::Record),
        ("calibration/h200.jsonl.zst", Kind::Calibration),
    ] {
        assert_eq!(Kind::of(fixtures().join(name)).unwrap(), kind, "{name}");
    }
}

#[test]
fn what_is_written_by_programs_of_flopgap_is_recognized() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| {
        let path = folder.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        path
    };
    assert_eq!(
        Kind::of(write("bench.json", "{\n  \"device\": \"a\", \"results\": []}")).unwrap(),
        Kind::Bench
    );
    assert_eq!(Kind::of(write("kernels.parquet", "PAR1")).unwrap(), Kind::Parquet);
    assert_eq!(Kind::of(write("step.nsys-rep", "NVIDIA Tegra")).unwrap(), Kind::Recording);
    let rows = write("sweep/calibration.jsonl", "{\"format\":\"flopgap-calibration\",\"version\":3}\n");
    assert_eq!(Kind::of(&rows).unwrap(), Kind::Calibration);
    assert_eq!(Kind::of(folder.path().join("sweep")).unwrap(), Kind::Calibration);
    write("data/_runs/a.json", "{}");
    assert_eq!(Kind::of(folder.path().join("data")).unwrap(), Kind::DataSet);
}

/// ncu writes into the output of the program that it runs.
#[test]
fn reports_after_the_output_of_a_program() {
    let folder = tempfile::tempdir().unwrap();
    let report = fs::read(fixtures().join("ncu/n4_d512_m64_forward.csv")).unwrap();
    let path = folder.path().join("report.csv");
    for line in ["[INFO] epoch 1", "[0.25, 0.5]", "{'loss': 0.25}", "{\"loss\": 0.25}", "[rank0]: begins"] {
        fs::write(&path, [format!("{line}\n").as_bytes(), &report].concat()).unwrap();
        assert_eq!(Kind::of(&path).unwrap(), Kind::Ncu, "{line}");
        assert_eq!(Source::open(&path).unwrap().kind(), Kind::Ncu, "{line}");
    }
}

#[test]
fn other_files_are_not() {
    let folder = tempfile::tempdir().unwrap();
    let what = |name: &str, text: &str| {
        let path = folder.path().join(name);
        fs::write(&path, text).unwrap();
        match Kind::of(&path).unwrap_err() {
            Error::Unrecognized { path: named, what } if named == path => what,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(what("package.json", "{\"name\": \"x\"}"), "JSON");
    assert_eq!(
        what("ceilings.json", "{ \"format\" : \"flopgap-ceilings\"}"),
        "JSON of the format flopgap-ceilings"
    );
    assert_eq!(what("format.json", "{\"format\": 3}"), "JSON");
    assert_eq!(what("Cargo.toml", "[package]\nname = \"x\"\n"), "first line is \"[package]\"");
    assert_eq!(what("numbers.json", "[1, 2]"), "JSON");
    assert!(!what("notes.txt", "buy milk\n").is_empty());
    assert!(!what("empty", "").is_empty());
    let nothing = Kind::of(folder.path()).unwrap_err();
    assert!(matches!(nothing, Error::Unrecognized { .. }), "{nothing:?}");
    let missing = Kind::of(folder.path().join("missing")).unwrap_err();
    assert!(matches!(missing, Error::Io { .. }), "{missing:?}");
}

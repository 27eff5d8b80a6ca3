#![no_main]
//! The files of a run directory: records, manifests, the table. What can be read is written
//! and read back equal. The first byte chooses the file.

use std::fs;
use std::path::Path;

use flopgap_phases::sweep::{Manifest, Record, read_metrics, write_metrics};
use libfuzzer_sys::fuzz_target;

fn record(bytes: &[u8]) {
    let path = flopgap_fuzz::file("record.counts.json", bytes);
    let Ok(record) = Record::read(&path) else { return };
    let again = Record::from_json(record.to_json().as_bytes(), Path::new("again"));
    assert_eq!(again.expect("what was written can be read"), record);
}

fn manifest(bytes: &[u8]) {
    let run = flopgap_fuzz::folder();
    fs::write(run.join("manifest.json"), bytes).expect("the file can be written");
    let Ok(Some(manifest)) = Manifest::read(&run) else { return };
    let plan = manifest.plan();
    assert!(plan.len() <= 4 * flopgap_phases::sweep::MAX_CONFIGS, "{} configurations", plan.len());
    manifest.write(&run).expect("the file can be written");
    assert_eq!(Manifest::read(&run).expect("what was written can be read"), Some(manifest));
}

fn metrics(bytes: &[u8]) {
    let Ok(rows) = read_metrics(&flopgap_fuzz::file("metrics.csv", bytes)) else { return };
    let again = flopgap_fuzz::folder().join("again.csv");
    write_metrics(&again, &rows).expect("what was read can be written");
    let again = read_metrics(&again).expect("what was written can be read");
    assert_eq!(format!("{again:?}"), format!("{rows:?}"));
}

fuzz_target!(|bytes: &[u8]| {
    match bytes.split_first() {
        Some((b'r', rest)) => record(rest),
        Some((b'm', rest)) => manifest(rest),
        Some((b't', rest)) => metrics(rest),
        _ => {}
    }
});

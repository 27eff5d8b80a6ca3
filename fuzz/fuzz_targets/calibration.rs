#![no_main]
//! Files of calibrations, of ceilings, and plans of sweeps: what can be read is written and read
//! back equal. The first byte chooses the file.

use std::fs;
use std::path::Path;

use flopgap_calibration::Calibration;
use flopgap_calibration::run::RunPlan;
use flopgap_roofline::Ceilings;
use libfuzzer_sys::fuzz_target;

fn calibration(bytes: &[u8]) {
    let Ok(calibration) = Calibration::parse(bytes, Path::new("calibration.jsonl")) else { return };
    let path = flopgap_fuzz::folder().join("again.jsonl");
    calibration.write(&path).expect("what was read can be written");
    let again = Calibration::read(&path).expect("what was written can be read");
    assert_eq!((again.header, again.rows), (calibration.header, calibration.rows));
}

fn ceilings(bytes: &[u8]) {
    let Ok(ceilings) = Ceilings::read(&flopgap_fuzz::file("ceilings.json", bytes)) else { return };
    let path = flopgap_fuzz::folder().join("again.json");
    ceilings.write(&path).expect("what was read can be written");
    assert_eq!(Ceilings::read(&path).expect("what was written can be read"), ceilings);
}

fn plan(bytes: &[u8]) {
    let run = flopgap_fuzz::folder();
    fs::write(run.join("plan.json"), bytes).expect("the file can be written");
    let Ok(plan) = RunPlan::read(&run) else { return };
    let outstanding = plan.outstanding(&[]);
    assert_eq!(outstanding.len(), plan.rows.len(), "rows are done before any was measured");
    assert!(plan.engines().len() <= plan.rows.len());
}

fuzz_target!(|bytes: &[u8]| {
    match bytes.split_first() {
        Some((b'c', rest)) => calibration(rest),
        Some((b'p', rest)) => plan(rest),
        Some((b'r', rest)) => ceilings(rest),
        _ => {}
    }
});

#![no_main]
//! Tables of measurements and estimates: rows, or an error with a line.

use std::path::Path;

use flopgap_calibration::sheet::{Role, parse};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let (device, rest) = flopgap_fuzz::first_line(bytes);
    let device = (!device.is_empty()).then_some(device);
    for role in [Role::Empirical, Role::Analytical] {
        for device in [None, device] {
            let Ok(sheet) = parse(rest, Path::new("sheet.csv"), role, device) else { continue };
            assert!(!sheet.records.is_empty() && sheet.records.len() <= rest.len());
            for record in &sheet.records {
                assert_eq!(record.identity.len(), sheet.identity.len());
                for time in [record.measured.time_ms, record.estimated.time_ms].into_iter().flatten() {
                    assert!(time.is_finite() && time > 0.0, "{time}");
                }
            }
        }
    }
});

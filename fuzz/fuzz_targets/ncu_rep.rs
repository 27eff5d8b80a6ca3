#![no_main]
//! As `ncu_csv`, with the magic of `.ncu-rep` before the bytes, so that the fuzzer does not have to
//! find it.

use std::io::Cursor;

use flopgap_ncu::{FlopCounter, Reader};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let mut report = b"NVR\0".to_vec();
    report.extend_from_slice(bytes);
    let Ok(mut reader) = Reader::from_reader(Cursor::new(report), "fuzz") else { return };
    let mut counter = FlopCounter::new();
    let mut launches = 0_usize;
    while let Ok(Some(launch)) = reader.next_launch() {
        let _ = counter.count(launch).total();
        launches += 1;
        assert!(launches <= bytes.len(), "more launches than bytes");
    }
});

#![no_main]
//! Any bytes as a recording of `flopgap record`: its export is written, and has the rows that it is
//! said to have.

use std::fs;

use flopgap_nsys::Trace;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let folder = flopgap_fuzz::folder().join("recording");
    fs::create_dir_all(&folder).expect("the folder can be made");
    fs::write(folder.join("1-1.fgr"), bytes).expect("the file can be written");
    let file = flopgap_fuzz::folder().join("recording.sqlite");
    let Ok(exported) = flopgap_record::export(&folder, &file) else { return };
    let trace = Trace::open(&file).expect("an export can be read");
    let kernels = trace.kernels().map_or(0, |kernels| kernels.count() as u64);
    assert!(kernels <= exported.kernels, "{kernels} {exported:?}");
    assert!(exported.counted + exported.uncounted <= exported.kernels, "{exported:?}");
});

#![no_main]
//! ONNX models and `.pt2` archives: no bytes make the readers or the plan panic.

use std::io::Write as _;

use flopgap_graph::{Shapes, plan, read};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let mut file = tempfile::NamedTempFile::new().expect("a temporary file");
    file.write_all(bytes).expect("the file is written");
    if let Ok(graph) = read(file.path(), &Shapes::default()) {
        let _ = (plan(&graph), graph.work(), graph.multiply_adds(), graph.peak_bytes(), graph.eager().work());
    }
});

//! Models against what ONNX Runtime computes, kernel by kernel, where it is installed.

use std::path::Path;
use std::process::Command;

use flopgap_graph::{Shapes, read};

/// Functions, loops, scans, branches, recurrent layers, channels side by side, nodes out of order,
/// stale shapes and sparse parameters: `execute.py` writes and runs them.
#[test]
fn multiply_adds_and_shapes_are_those_of_the_kernels_that_run() {
    let python = std::env::var_os("FLOPGAP_PYTHON").unwrap_or_else(|| "python3".into());
    let there = Command::new(&python).args(["-c", "import numpy, onnx, onnxruntime"]).output();
    if !there.is_ok_and(|there| there.status.success()) {
        return flopgap_testing::skip("onnxruntime", "Python has no onnx or onnxruntime");
    }
    let folder = tempfile::tempdir().unwrap();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/execute.py");
    let output = Command::new(python).arg(script).arg(folder.path()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let mut models = 0;
    for line in String::from_utf8(output.stdout).unwrap().lines() {
        let [name, total, shapes] = line.splitn(3, ' ').collect::<Vec<_>>()[..] else { panic!("{line}") };
        let graph = read(&folder.path().join(format!("{name}.onnx")), &Shapes::default())
            .unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(graph.multiply_adds().unwrap().to_string(), total, "{name}");
        let found: Vec<&[u64]> = graph.outputs.iter().map(|&at| graph.tensors[at].shape.as_slice()).collect();
        assert_eq!(found, serde_json::from_str::<Vec<Vec<u64>>>(shapes).unwrap(), "{name}");
        // Transforms of signals are named and not counted.
        let unknown: Vec<&str> = graph.unknown().map(|layer| layer.operator.as_str()).collect();
        let expected: &[&str] = if name == "signals" { &["STFT", "DFT"] } else { &[] };
        assert_eq!(unknown, expected, "{name}");
        models += 1;
    }
    assert_eq!(models, 11);
}

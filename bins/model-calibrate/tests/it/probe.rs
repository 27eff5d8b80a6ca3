//! `flopgap calibrate probe`.

use assert_cmd::Command;

fn probe(arguments: &[&str]) -> std::process::Output {
    let mut command = Command::cargo_bin("model-calibrate").expect("the program");
    command.arg("probe").args(arguments).output().expect("it runs")
}

/// What standard error says, and the exit code.
fn refusal(arguments: &[&str]) -> (String, Option<i32>) {
    let output = probe(arguments);
    assert!(output.stdout.is_empty(), "{}", String::from_utf8_lossy(&output.stdout));
    (String::from_utf8_lossy(&output.stderr).into_owned(), output.status.code())
}

#[test]
fn what_cannot_be_probed_is_refused() {
    let (message, code) = refusal(&["--device", "gpu"]);
    assert!(message.contains("expected cpu, cuda, or a GPU"), "{message}");
    assert_eq!(code, Some(2));
    let (message, code) = refusal(&["--device", "cuda:0", "--threads", "2"]);
    assert_eq!(message, "model-calibrate: error: --threads is for the CPU\n  hint: add --device cpu\n");
    assert_eq!(code, Some(2));
    let (message, code) = refusal(&["--device", "cpu", "--threads", "1000000"]);
    assert!(message.contains("1000000 threads were requested, but this machine has "), "{message}");
    assert_eq!(code, Some(2));
}

#[test]
fn a_gpu_that_is_not_there_is_absent() {
    // No machine has so many.
    let (message, code) = refusal(&["--device", "cuda:4000"]);
    assert!(message.contains("NVIDIA driver") || message.contains("no GPU 4000"), "{message}");
    assert!(message.contains("hint: "), "{message}");
    assert_eq!(code, Some(3));
}

/// Ceilings as a probe wrote them, with little in them.
const RECORDED: &str = r#"{"format":"flopgap-ceilings","version":1,"device":"a CPU","kind":"cpu","units":2,
    "peaks":[{"precision":"fp32","tensor":false,"ops_per_second":{"value":5e11,"spread":0.01},"instruction":"avx512"}],
    "bandwidth":[
        {"bytes":1048576,"read":{"value":2e11,"spread":0.0},"write":{"value":1e11,"spread":0.0},"copy":{"value":1e11,"spread":0.0}},
        {"bytes":268435456,"read":{"value":4e10,"spread":0.0},"write":{"value":2e10,"spread":0.0},"copy":{"value":3e10,"spread":0.0}}],
    "levels":[{"name":"DRAM","bytes":null,"read":4e10,"copy":3e10}],
    "launch_ns":{"value":950.0,"spread":0.1}}"#;

#[test]
fn recorded_ceilings_are_shown_in_every_format_and_drawn() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("ceilings.json");
    std::fs::write(&file, RECORDED).unwrap();
    let file = file.to_str().unwrap();
    let plots = folder.path().join("plots");
    let shown = |arguments: &[&str]| {
        let output = probe(&[&["--ceilings", file], arguments].concat());
        assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    let table = shown(&["--plots", plots.to_str().unwrap()]);
    assert!(table.contains("Peaks of a CPU, 2 threads"), "{table}");
    assert!(table.contains("AVX-512 FMA           0.500    1.0%            12.5"), "{table}");
    assert!(table.contains("a parallel region        950"), "{table}");
    for name in ["bandwidth.svg", "roofline.svg"] {
        assert!(std::fs::read_to_string(plots.join(name)).unwrap().starts_with("<svg "), "{name}");
    }
    let csv = shown(&["--format", "csv"]);
    assert!(csv.contains("\npeak,fp32 AVX-512 FMA,,500000000000,op/s,0.01\n"), "{csv}");
    assert!(csv.contains("\nbandwidth,read,1048576,200000000000,B/s,0\n"), "{csv}");
    let json: serde_json::Value = serde_json::from_str(&shown(&["--format", "json"])).unwrap();
    assert_eq!((json["format"].as_str(), json["units"].as_u64()), (Some("flopgap-ceilings"), Some(2)));
    assert!(shown(&["--format", "markdown"]).contains("| fp32 |"));
}

#[test]
fn a_file_that_holds_no_ceilings_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("ceilings.json");
    std::fs::write(&file, RECORDED.replace("950.0", "-1.0")).unwrap();
    let (message, code) = refusal(&["--ceilings", file.to_str().unwrap()]);
    assert!(message.contains("ceilings.json: launch_ns is -1; expected a positive number"), "{message}");
    assert!(message.contains("hint: measure the ceilings again"), "{message}");
    assert_eq!(code, Some(1));
    let (message, code) = refusal(&["--ceilings", folder.path().join("none.json").to_str().unwrap()]);
    assert!(message.contains("none.json: cannot be read"), "{message}");
    assert_eq!(code, Some(3));
    let (_, code) = refusal(&["--ceilings", file.to_str().unwrap(), "--device", "cpu"]);
    assert_eq!(code, Some(2), "a file or a device");
}

#[test]
fn ceilings_of_another_machine_do_not_come_into_a_sweep() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("ceilings.json");
    std::fs::write(&file, RECORDED).unwrap();
    let run = folder.path().join("run");
    let mut command = Command::cargo_bin("model-calibrate").expect("the program");
    command.args(["sweep", "--device", "cpu", "--quick", "--engine", "native", "--ceilings"]);
    let output = command.arg(&file).arg("--output").arg(&run).output().expect("it runs");
    let message = String::from_utf8_lossy(&output.stderr);
    assert!(message.contains("ceilings are from another machine: the device is a CPU there"), "{message}");
    assert!(message.contains("hint: measure them with"), "{message}");
    assert_eq!(output.status.code(), Some(1));
}

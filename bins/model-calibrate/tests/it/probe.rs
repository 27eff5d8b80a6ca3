//! `flopgap calibrate probe`.

use std::process::Command;

use flopgap_testing::Ended;

fn probe(arguments: &[&str]) -> Ended {
    Ended::of(Command::new(env!("CARGO_BIN_EXE_model-calibrate")).arg("probe").args(arguments))
}

#[test]
fn what_cannot_be_probed_is_refused() {
    probe(&["--device", "gpu"]).refuses(2, &["expected cpu, cuda, or a GPU"]);
    let refused = probe(&["--device", "cuda:0", "--threads", "2"]);
    assert_eq!(
        refused.stderr,
        "model-calibrate: error: --threads is for the CPU\n  hint: add --device cpu\n"
    );
    refused.refuses(2, &[]);
    probe(&["--device", "cpu", "--threads", "1000000"])
        .refuses(2, &["1000000 threads were requested, but this machine has "]);
}

#[test]
fn a_gpu_that_is_not_there_is_absent() {
    // No machine has so many.
    let refused = probe(&["--device", "cuda:4000"]);
    let message = &refused.stderr;
    assert!(message.contains("NVIDIA driver") || message.contains("no GPU 4000"), "{message}");
    refused.refuses(3, &["hint: "]);
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
    let (folder, [file]) = flopgap_testing::paths(["ceilings.json"]);
    std::fs::write(&file, RECORDED).unwrap();
    let file = file.to_str().unwrap();
    let plots = folder.path().join("plots");
    let shown = |arguments: &[&str]| {
        let output = probe(&[&["--ceilings", file], arguments].concat());
        output.expect(0, &[]);
        output
    };
    shown(&["--plots", plots.to_str().unwrap()]).prints(&[
        "Peaks of a CPU, 2 threads",
        "AVX-512 FMA           0.500    1.0%            12.5",
        "a parallel region        950",
    ]);
    for name in ["bandwidth.svg", "roofline.svg"] {
        assert!(std::fs::read_to_string(plots.join(name)).unwrap().starts_with("<svg "), "{name}");
    }
    shown(&["--format", "csv"]).prints(&[
        "\npeak,fp32 AVX-512 FMA,,500000000000,op/s,0.01\n",
        "\nbandwidth,read,1048576,200000000000,B/s,0\n",
    ]);
    let json = shown(&["--format", "json"]).json();
    assert_eq!((json["format"].as_str(), json["units"].as_u64()), (Some("flopgap-ceilings"), Some(2)));
    shown(&["--format", "markdown"]).prints(&["| fp32 |"]);
}

#[test]
fn a_file_that_holds_no_ceilings_is_refused() {
    let (folder, [file]) = flopgap_testing::paths(["ceilings.json"]);
    std::fs::write(&file, RECORDED.replace("950.0", "-1.0")).unwrap();
    probe(&["--ceilings", file.to_str().unwrap()]).refuses(
        1,
        &["ceilings.json: launch_ns is -1; expected a positive number", "hint: measure the ceilings again"],
    );
    probe(&["--ceilings", folder.path().join("none.json").to_str().unwrap()])
        .refuses(3, &["none.json: cannot be read"]);
    // A file or a device.
    probe(&["--ceilings", file.to_str().unwrap(), "--device", "cpu"]).refuses(2, &[]);
}

#[test]
fn ceilings_of_another_machine_do_not_come_into_a_sweep() {
    let (folder, [file]) = flopgap_testing::paths(["ceilings.json"]);
    std::fs::write(&file, RECORDED).unwrap();
    let run = folder.path().join("run");
    let mut command = Command::new(env!("CARGO_BIN_EXE_model-calibrate"));
    command.args(["sweep", "--device", "cpu", "--quick", "--engine", "native", "--ceilings"]);
    Ended::of(command.arg(&file).arg("--output").arg(&run)).expect(
        1,
        &["ceilings are from another machine: the device is a CPU there", "hint: measure them with"],
    );
}

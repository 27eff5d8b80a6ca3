//! `model-calibrate probe`.

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
    assert!(message.contains("expected cpu, cuda or cuda:N"), "{message}");
    assert_eq!(code, Some(2));
    let (message, code) = refusal(&["--device", "cuda:0", "--threads", "2"]);
    assert_eq!(message, "model-calibrate: error: --threads is for the CPU\n  hint: add --device cpu\n");
    assert_eq!(code, Some(2));
    let (message, code) = refusal(&["--device", "cpu", "--threads", "1000000"]);
    assert!(message.contains("1000000 threads: this machine has "), "{message}");
    assert_eq!(code, Some(2));
}

#[test]
fn a_gpu_that_is_not_there_is_absent() {
    // No machine has so many.
    let (message, code) = refusal(&["--device", "cuda:4000"]);
    assert!(message.contains("NVIDIA driver") || message.contains("no GPU number 4000"), "{message}");
    assert!(message.contains("hint: "), "{message}");
    assert_eq!(code, Some(3));
}

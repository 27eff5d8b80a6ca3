//! The step of `action.yml` that judges, run as a runner runs it.

use std::fs;
use std::path::Path;
use std::process::Command;

const TRACES: [&str; 2] =
    ["fixtures/nsys/small_forward_backward.sqlite.zst", "fixtures/nsys/small_training_step.sqlite.zst"];

/// The script of the action's last step.
fn script() -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../action.yml");
    let action = fs::read_to_string(path).unwrap();
    let (_, block) = action.rsplit_once("      run: |\n").unwrap();
    let lines: Vec<&str> = block.lines().map(|line| line.strip_prefix("        ").unwrap()).collect();
    lines.join("\n")
}

/// The exit code, standard output, the page of the run, and the file of `JUnit`.
fn gate([before, after]: [&str; 2], inputs: &[(&str, &str)]) -> (i32, String, String, Option<String>) {
    let (temporary, [programs]) = flopgap_testing::paths(["flopgap/bin"]);
    fs::create_dir_all(&programs).unwrap();
    std::os::unix::fs::symlink(assert_cmd::cargo::cargo_bin("flopgap"), programs.join("flopgap")).unwrap();
    let (page, junit) = (temporary.path().join("summary.md"), temporary.path().join("gate.xml"));
    let mut command = Command::new("bash");
    command
        // What a runner adds for `shell: bash`.
        .args(["--noprofile", "--norc", "-eo", "pipefail", "-c", &script()])
        .current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("../.."))
        .env("RUNNER_TEMP", temporary.path())
        .env("GITHUB_STEP_SUMMARY", &page)
        .env("JUNIT", &junit)
        .envs([("BEFORE", before), ("AFTER", after)]);
    for (name, value) in [
        ("RUN", "false"),
        ("REPEAT", "3"),
        ("FAIL_IF_SLOWER", ""),
        ("ALLOW", ""),
        ("EQUAL", "false"),
        ("ADVISORY", "false"),
        ("FAIL_IF_UNDECIDED", "true"),
        ("COMMENT", "false"),
        ("PULL_REQUEST", ""),
        ("PROGRAM", ""),
    ] {
        command.env(name, value);
    }
    let output = command.envs(inputs.iter().copied()).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    (output.status.code().unwrap(), text, fs::read_to_string(page).unwrap(), fs::read_to_string(junit).ok())
}

#[test]
fn the_action_ends_as_the_gate_does() {
    let [before, after] = TRACES;
    let (code, printed, page, junit) = gate(TRACES, &[]);
    assert_eq!((code, &printed), (1, &page));
    assert!(page.contains("### flopgap gate: FAILED") && page.contains("| kernels |"), "{page}");
    assert!(junit.unwrap().contains("<testcase name=\"kernels\" classname=\"flopgap gate\"><failure "));
    assert_eq!(gate(TRACES, &[("ALLOW", "kernels launches=5")]).0, 0);
    assert_eq!(gate(TRACES, &[("ALLOW", "kernels"), ("FAIL_IF_SLOWER", "4")]).0, 1);
    assert_eq!(gate(TRACES, &[("ADVISORY", "true")]).0, 0);
    assert_eq!(gate([after, before], &[("ALLOW", "kernels launches"), ("EQUAL", "true")]).0, 0);
    assert_eq!(gate([before, before], &[("EQUAL", "true"), ("FAIL_IF_SLOWER", "3")]).0, 0);
}

#[test]
fn the_action_runs_commands() {
    let (code, page, _, junit) =
        gate(["sleep 0.01", "sleep 0.2"], &[("RUN", "true"), ("FAIL_IF_SLOWER", "400")]);
    assert_eq!((code, junit), (1, None), "{page}");
    // Two runs of each tell nothing.
    let few = [("RUN", "true"), ("REPEAT", "2"), ("FAIL_IF_SLOWER", "400"), ("FAIL_IF_UNDECIDED", "false")];
    assert_eq!(gate(["sleep 0.01", "sleep 0.01"], &few).0, 0);
}

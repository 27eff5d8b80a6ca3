//! `flopgap doctor`, on a machine whose programs are scripts.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use flopgap_testing::Ended;

use crate::command;

#[test]
fn what_is_found_and_missing_is_said_in_every_format() {
    let place = tempfile::tempdir().unwrap();
    let bin = place.path();
    let script = |name: &str, text: &str| {
        let path = bin.join(name);
        fs::write(&path, format!("#!/bin/sh\n{text}\n")).unwrap();
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
    };
    script("nsys", "echo NVIDIA Nsight Systems version 2025.3.2.474-253236389321v0");
    script("ncu", "echo cannot open shared object >&2; exit 127");
    let doctor = |words: &[&str]| {
        let mut command = command(&[&["doctor"], words].concat());
        // No Python and no GPU, whatever this machine has.
        Ended::of(
            command.env("PATH", bin).env("FLOPGAP_PYTHON", bin.join("none")).env("CUDA_VISIBLE_DEVICES", ""),
        )
    };
    let text = doctor(&[]);
    let (nsys, ncu) = (bin.join("nsys"), bin.join("ncu"));
    text.expect(0, &[]).prints(&[
        &format!(
            "found    nsys: 2025.3.2.474-253236389321v0 ({})\n         for: recording and ",
            nsys.display()
        ),
        &format!(
            "missing  ncu: {}: ended with exit status: 127, after printing: cannot open shared object\n",
            ncu.display()
        ),
        "\n         to do: check the installation, or remove it from PATH\n",
        "missing  python3: ",
        "permission for counters: ",
        "Traces, reports, runs and models are read without any of these",
    ]);
    // What others need comes first.
    assert!(
        text.stdout.lines().next().is_some_and(|line| line.contains("  NVIDIA driver")),
        "{}",
        text.stdout
    );
    let json = doctor(&["--format", "json"]);
    json.expect(0, &[]).prints(&["\"item\": \"nsys\"", "\"state\": \"found\"", "\"remedy\": null"]);
    let rows = json.json();
    let states =
        text.stdout.lines().filter(|line| line.starts_with("found ") || line.starts_with("missing "));
    assert_eq!(states.count(), json.stdout.matches("\"item\"").count(), "{rows}");
    doctor(&["--format", "csv"])
        .expect(0, &[])
        .prints(&["item,state,what,enables,remedy\n", "\nnsys,found,"]);
    doctor(&["--format", "markdown"]).expect(0, &[]).prints(&["| item"]);

    // Lines of a terminal.
    let mut narrow = command(&["doctor"]);
    let narrow = Ended::of(narrow.env("PATH", bin).env("FLOPGAP_PYTHON", "/none").env("COLUMNS", "60"));
    narrow.expect(0, &[]);
    let long = narrow.stdout.lines().filter(|line| line.chars().count() > 60 && !line.contains('/')).count();
    assert_eq!(long, 0, "{}", narrow.stdout);
}

/// PyTorch brings CUPTI to machines without a GPU, too.
#[test]
fn without_a_driver_cupti_is_found_and_not_asked() {
    let place = tempfile::tempdir().unwrap();
    let paths = std::env::var_os("PYTHONPATH").unwrap_or_default();
    let libraries = std::env::split_paths(&paths).map(|tools| tools.join("nvidia/cu13/lib"));
    let Some(libraries) = libraries.into_iter().find(|it| it.join("libcupti.so.13").exists()) else {
        return flopgap_testing::skip("cupti", "no libcupti.so.13 in PYTHONPATH");
    };
    std::os::unix::fs::symlink(libraries, place.path().join("lib64")).unwrap();
    let mut command = command(&["doctor"]);
    let found = Ended::of(command.env("PATH", "/none").env("CUDA_HOME", place.path()));
    found.expect(0, &[]).prints(&["found    CUPTI: "]);
    let has_driver = found.stdout.contains("found    NVIDIA driver");
    let is_unknown = found.stdout.contains("CUPTI: its version is not known without a driver");
    assert_ne!(has_driver, is_unknown, "{}", found.stdout);
}

//! The step of `.github/actions/diff` that compares, run as a runner runs it.

use std::fs;
use std::path::Path;
use std::process::Command;

use super::fixtures;

/// The script of the action's last step.
fn script() -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.github/actions/diff/action.yml");
    let action = fs::read_to_string(path).unwrap();
    let (_, block) = action.rsplit_once("      run: |\n").unwrap();
    let lines: Vec<&str> = block.lines().map(|line| line.strip_prefix("        ").unwrap()).collect();
    lines.join("\n")
}

/// The exit code, standard output, and what the page of the run shows.
fn compare(before: &str, after: &str, percent: &str, same_work: bool) -> (i32, String, String) {
    let temporary = tempfile::tempdir().unwrap();
    let programs = temporary.path().join("flopgap/bin");
    fs::create_dir_all(&programs).unwrap();
    let built = assert_cmd::cargo::cargo_bin("nsys-analyze");
    std::os::unix::fs::symlink(built, programs.join("nsys-analyze")).unwrap();
    let page = temporary.path().join("summary.md");
    let trace = |name: &str| fixtures().join(format!("{name}.sqlite.zst"));
    let output = Command::new("bash")
        // What a runner adds for `shell: bash`.
        .args(["--noprofile", "--norc", "-eo", "pipefail", "-c", &script()])
        .env("RUNNER_TEMP", temporary.path())
        .env("GITHUB_STEP_SUMMARY", &page)
        .env("BEFORE", trace(before))
        .env("AFTER", trace(after))
        .env("FAIL_IF_SLOWER", percent)
        .env("JUDGE_BY", "any")
        .env("FAIL_IF_WORK_DIFFERS", same_work.to_string())
        .env("FAIL_IF_UNDECIDED", "true")
        .env("TOP", "3")
        .output()
        .unwrap();
    let page = fs::read_to_string(page).unwrap();
    (output.status.code().unwrap(), String::from_utf8(output.stdout).unwrap(), page)
}

#[test]
fn the_action_fails_when_a_step_is_slower() {
    let (before, after) = ("small_forward_backward", "small_training_step");
    let (code, printed, page) = compare(before, after, "3", false);
    assert_eq!(code, 1);
    assert_eq!(printed, page);
    assert!(page.contains("| wall time (µs)"), "{page}");

    assert_eq!(compare(before, before, "3", true).0, 0);
    assert_eq!(compare(before, after, "900", false).0, 0);
    assert_eq!(compare(before, after, "900", true).0, 1);
}

//! `--quiet` and `--verbose`.

use std::fs;
use std::path::Path;

use crate::support::{calibration, done, jetson, run};

/// Runs a command three times: the answer and the files are the same. Returns its messages.
fn messages(folder: &Path, command: &[&str], file: Option<&str>) -> [String; 3] {
    let results = [None, Some("-q"), Some("--verbose")].map(|option| {
        let arguments: Vec<&str> = command.iter().copied().chain(option).collect();
        let ended = done(folder, &arguments);
        let written = file.map(|file| fs::read(folder.join(file)).unwrap());
        ((ended.stdout, written), ended.stderr)
    });
    assert!(results.iter().all(|(answer, _)| *answer == results[0].0), "{command:?}");
    results.map(|(_, messages)| messages)
}

/// The warnings of these messages, without notes.
fn warnings(messages: &str) -> Vec<&str> {
    messages.lines().filter(|line| line.contains(" warning: ")).collect()
}

#[test]
fn a_quiet_program_says_nothing_of_its_success_and_a_verbose_one_what_it_read() {
    let dir = tempfile::tempdir().unwrap();
    calibration(1.0).write(&dir.path().join("a.jsonl")).unwrap();
    calibration(1.04).write(&dir.path().join("b.jsonl")).unwrap();
    let [normal, quiet, verbose] = messages(dir.path(), &["compare", "a.jsonl", "b.jsonl"], None);
    assert!(normal.contains("116 points: median change +4.0%"), "{normal}");
    assert_eq!(quiet, "");
    for line in ["a.jsonl: calibration, 116 rows, read: ", "116 points: ", "model-calibrate: total: "] {
        assert!(verbose.contains(line), "{verbose}");
    }

    let table = jetson();
    let fit = ["fit", table.to_str().unwrap(), "-o", "fit.md", "--format", "csv"];
    let [normal, quiet, verbose] = messages(dir.path(), &fit, Some("fit.md"));
    assert!(normal.contains(" rows fitted in ") && normal.contains("wrote fit.md"), "{normal}");
    assert!(!warnings(&normal).is_empty(), "{normal}");
    assert_eq!(quiet.lines().collect::<Vec<_>>(), warnings(&normal));
    assert_eq!(warnings(&verbose), warnings(&normal));
    for line in [".csv: table of measurements, ", " rows judged: ", " rows fitted in "] {
        assert!(verbose.contains(line), "{verbose}");
    }

    let report = ["report", "--empirical", table.to_str().unwrap(), "-o", "report.md"];
    let [normal, quiet, _] = messages(dir.path(), &report, Some("report.md"));
    assert!(normal.contains("wrote report.md"), "{normal}");
    assert_eq!(quiet.lines().collect::<Vec<_>>(), warnings(&normal));
    run(dir.path(), &["-q", "compare", "a.jsonl", "absent.jsonl"])
        .says(&["error: absent.jsonl: cannot be read"]);
    assert_eq!(run(dir.path(), &["compare", "a.jsonl", "b.jsonl", "-q", "-v"]).code, 2);
}

#[test]
fn a_quiet_sweep_still_says_what_it_lacks() {
    let dir = tempfile::tempdir().unwrap();
    let sweep = |more: &[&str]| {
        let short = ["sweep", "--device", "cpu", "--quick", "--rows", "12", "--row-limit", "5ms"];
        done(dir.path(), &[&short[..], more].concat()).stderr
    };
    let verbose = sweep(&["--output", "a", "-v"]);
    for line in ["run directory a", "engines: opened: ", "native on ", ": measured: ", "12 rows in "] {
        assert!(verbose.contains(line), "{verbose}");
    }
    assert_eq!(verbose.matches(": measured: ").count(), 12, "{verbose}");
    let notes = ["run directory", "rows in", "next: "];
    let quiet = sweep(&["--output", "b", "-q"]);
    assert!(notes.iter().all(|note| !quiet.contains(note)), "{quiet}");
    // A sweep that has no time says what is left.
    let limited = sweep(&["--output", "c", "-q", "--limit", "0s"]);
    assert!(limited.contains("the limit was reached with 12 rows left"), "{limited}");
    assert!(notes.iter().all(|note| !limited.contains(note)), "{limited}");
    // Its shards, and joining them.
    let shard = sweep(&["--output", "d", "-q", "--shard", "1/1"]);
    assert!(notes.iter().all(|note| !shard.contains(note)), "{shard}");
    assert_eq!(done(dir.path(), &["sweep", "--resume", "--output", "d", "--quiet"]).stderr, "");
    assert!(dir.path().join("d/calibration.jsonl").exists());
}

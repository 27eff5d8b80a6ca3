//! `--quiet` and `--verbose`.

use std::fs;

use flopgap_testing::Ended;

use crate::support::{contents, fake, run, text};
use crate::{COMPLETE, analyze, some_of_the_run};

#[test]
fn a_quiet_analysis_keeps_its_warnings_and_a_verbose_one_adds_what_it_read() {
    let folder = some_of_the_run(&[&COMPLETE[..], &["n4_d512_m64_setup"]].concat(), true);
    let messages = |more: &str| {
        let target = tempfile::tempdir().unwrap();
        let output = analyze(
            folder.path(),
            &["--no-plots", "-o", target.path().to_str().unwrap(), "--format", "csv", more],
        );
        assert_eq!(output.code, 0, "{}", output.stderr);
        let stderr = output.stderr.replace(target.path().to_str().unwrap(), "TARGET");
        (output.stdout, stderr, fs::read(target.path().join("processed/metrics.csv")).unwrap())
    };
    let (loud, quiet, verbose) = (messages("--force"), messages("--quiet"), messages("-v"));
    assert!(loud.0 == quiet.0 && loud.0 == verbose.0, "the answer is the same");
    assert!(loud.2 == quiet.2 && loud.2 == verbose.2, "the file is the same");
    let (note, warnings): (Vec<&str>, Vec<&str>) =
        loud.1.lines().partition(|line| line.contains(" in TARGET"));
    assert_eq!(note, ["hyper-profile: 1 configuration in TARGET/processed/metrics.csv"]);
    assert!(warnings.iter().any(|line| line.contains("warning: n4_d512_m64")), "{}", loud.1);
    assert_eq!(quiet.1.lines().collect::<Vec<_>>(), warnings);
    for line in loud.1.lines() {
        assert!(verbose.1.lines().any(|other| other == line), "`{line}` is not in\n{}", verbose.1);
    }
    let path = folder.path().display();
    for detail in
        [format!("{path}: analyzed: "), format!("{path}: run directory, 1 configuration; NVIDIA H200")]
    {
        assert!(verbose.1.contains(&detail) && !loud.1.contains(&detail), "`{detail}`:\n{}", verbose.1);
    }
    assert!(verbose.1.contains("hyper-profile: total: "), "{}", verbose.1);
}

#[test]
fn a_run_has_the_messages_that_were_asked_for_in_one_process_and_in_several() {
    let dir = tempfile::tempdir().unwrap();
    let sizes = ["new", "-n", "1", "2", "-d", "64", "2048", "-m", "16", "--no-plots"];
    let new = |name: &str, more: &[&str]| -> Ended {
        let path = dir.path().join(name);
        let mut command = fake(&[&sizes[..], more, &["--output", text(&path)]].concat());
        let ended = run(command.env("FAKE_MEMORY", "1000000"));
        ended.expect(0, &["warning: n1_d2048_m16: "]);
        ended
    };
    let (loud, quiet, verbose) = (new("loud", &[]), new("quiet", &["-q"]), new("verbose", &["-v"]));
    loud.says(&["run directory ", "2 configurations in "]);
    assert!(
        quiet.stderr.lines().all(|line| line.contains("warning: ") || line.starts_with("  ")),
        "{quiet:?}"
    );
    for detail in
        ["4 configurations to measure on FAKE device of a test by ", "n1_d64_m16: measured", "measurement: "]
    {
        assert!(verbose.stderr.contains(detail) && !loud.stderr.contains(detail), "`{detail}`: {verbose:?}");
    }
    // What the processes of several devices print does not depend on it.
    let several = new("several", &["-q", "--device", "0,1"]);
    assert_eq!(several.stderr.matches("warning: ").count(), quiet.stderr.matches("warning: ").count());
    assert!(!several.stderr.contains("run directory "), "{several:?}");
    let stdout = [&loud, &quiet, &verbose, &several].map(|ended| ended.stdout.as_str());
    assert!(stdout.iter().all(|text| *text == stdout[0]), "{stdout:?}");
    let files = ["loud", "quiet", "verbose"].map(|name| contents(&dir.path().join(name)));
    assert!(files[0] == files[1] && files[0] == files[2], "the files are the same");
}

#[test]
fn what_is_not_compared_is_said_in_any_case() {
    let dir = tempfile::tempdir().unwrap();
    let [a, b] = ["a", "b"].map(|name| dir.path().join(name));
    for (path, sizes) in [(&a, &["1", "2"][..]), (&b, &["1"])] {
        let words =
            [&["new", "-q", "-d", "64", "-m", "16", "--no-plots", "--output", text(path), "-n"], sizes];
        run(&mut fake(&words.concat())).expect(0, &[]);
    }
    let compare = |more: &str| run(&mut fake(&["compare", text(&a), text(&b), more]));
    let (quiet, verbose) = (compare("-q"), compare("-v"));
    quiet.expect(0, &["fake_counters: not compared: 1 configuration that only "]);
    assert_eq!(quiet.stderr.lines().count(), 1, "{quiet:?}");
    verbose.expect(0, &["a: run directory, records of 2 configurations", "not compared: "]);
    assert_eq!(quiet.stdout, verbose.stdout);
    assert_eq!(run(&mut fake(&["compare", text(&a), text(&b), "-q", "-v"])).code, 2);
}

//! `--quiet` and `--verbose`.

use std::fs;

use super::{folder, run, run_directory, run_in, trace};

#[test]
fn a_quiet_program_keeps_its_warnings_and_a_verbose_one_adds_what_it_read() {
    let (_guard, folder) = folder();
    fs::create_dir(folder.join("traces")).unwrap();
    fs::copy(trace(), folder.join("traces/n10_d1024_m128.json.gz")).unwrap();
    let directory = run_directory();
    let said = |more: &[&str]| {
        let sizes = ["-n", "3,4,10", "-d", "1024", "-m", "64", "128"];
        let sweep = ["sweep", &directory, "--kineto-dir", "traces"];
        let output = run_in(&folder, &[&sweep[..], &sizes, &["--format", "csv"], more].concat());
        assert_eq!(output.code, 0, "{}", output.stderr);
        output
    };
    let (loud, quiet, verbose) = (said(&[]), said(&["-q"]), said(&["--verbose"]));
    assert!(loud.stdout == quiet.stdout && loud.stdout == verbose.stdout, "the answer is the same");
    loud.says(&[" rows in ", " plots in "]);
    assert_eq!(quiet.stderr, "mlp-validate: warning: no network with n=3 is recorded\n");
    for line in loud.stderr.lines() {
        assert!(verbose.stderr.lines().any(|other| other == line), "`{line}` is not in\n{}", verbose.stderr);
    }
    for detail in [
        &format!("{directory}: run directory, analyzed: "),
        "traces/n10_d1024_m128.json.gz: trace of torch.profiler, read: ",
        "plots: drawn: ",
        "mlp-validate: total: ",
    ] {
        assert!(verbose.stderr.contains(detail), "`{detail}` is not in\n{}", verbose.stderr);
        assert!(!loud.stderr.contains(detail), "{}", loud.stderr);
    }
}

#[test]
fn counters_that_are_missing_are_said_in_any_case() {
    let (loud, quiet) = (run(&["single", "--no-ncu"]), run(&["-q", "single", "--no-ncu"]));
    assert!(quiet.stderr.starts_with("mlp-validate: no counters: "), "{}", quiet.stderr);
    assert_eq!((quiet.code, quiet.stdout, quiet.stderr), (0, loud.stdout, loud.stderr));
    assert_eq!(run(&["single", "-q", "-v"]).code, 2);
}

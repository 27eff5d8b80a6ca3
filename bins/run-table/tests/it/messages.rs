//! `--quiet` and `--verbose`.

use std::fs;

use crate::{done, run, trace};

#[test]
fn a_quiet_program_says_nothing_of_its_success_and_a_verbose_one_what_it_read() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (input, data) = (path("a.sqlite"), path("data"));
    trace("small_forward", input.as_ref());
    let collect = ["collect", &input, "-o", &data, "--again"];
    let collected = |more: &[&str]| done(&[&collect[..], more].concat());
    let (normal, quiet, verbose) = (collected(&[]), collected(&["-q"]), collected(&["-v"]));
    assert_eq!((&quiet.stdout, &quiet.stderr), (&normal.stdout, &normal.stderr));
    assert_eq!(verbose.stdout, normal.stdout);
    for line in ["a.sqlite: nsys, collected: ", "run-table: total: "] {
        assert!(verbose.stderr.contains(line) && !normal.stderr.contains(line), "{verbose:?}");
    }

    let (csv, svg) = (path("answer.csv"), path("trend.svg"));
    let trend = ["query", &data, "--trend", "forward", "--plot", &svg, "-o", &csv];
    let asked = |more: &[&str]| {
        let said = done(&[&trend[..], more].concat());
        (said.stderr, fs::read(&csv).unwrap(), fs::read(&svg).unwrap())
    };
    let (normal, quiet, verbose) = (asked(&[]), asked(&["--quiet"]), asked(&["--verbose"]));
    assert!(normal.0.contains("answer.csv") && normal.0.contains("trend.svg"), "{}", normal.0);
    assert_eq!(quiet, (String::new(), normal.1.clone(), normal.2.clone()));
    assert_eq!((&verbose.1, &verbose.2), (&normal.1, &normal.2));
    assert!(verbose.0.contains("query: answered: ") && verbose.0.contains("wrote "), "{}", verbose.0);

    // SQL writes its answer as rows come.
    let sql = ["query", &data, "--sql", "select run from runs", "-o", &csv];
    assert!(done(&sql).stderr.contains("wrote "));
    assert_eq!(done(&[&sql[..], &["-q"]].concat()).stderr, "");
    // Before the command, too; what was asked for is no note.
    done(&["-q", "query", &data, "--top-kernels", "--show-sql"]).says(&["run-table: SQL:\n"]);
    assert_eq!(run(&["query", &data, "-q", "-v"]).code, 2);
}

#[test]
fn a_quiet_program_still_says_what_is_missing() {
    let (_folder, [input, data]) = flopgap_testing::paths(["in", "data"]);
    trace("small_forward", &input.join("a.sqlite"));
    fs::write(input.join("notes.txt"), "not a report").unwrap();
    fs::write(input.join("later.nsys-rep"), "a recording").unwrap();
    fs::write(input.join("cut.json"), "{\"traceEvents\":[{\"ph\":\"X\"").unwrap();
    let collect = ["collect", input.to_str().unwrap(), "-o", data.to_str().unwrap(), "--again"];
    let (normal, quiet) = (run(&collect), run(&[&collect[..], &["-q"]].concat()));
    assert_eq!((quiet.code, &quiet.stdout, &quiet.stderr), (1, &normal.stdout, &normal.stderr));
    for line in ["1 other file was found", "SKIPPED: ", "FAILED: ", "run-table: error: "] {
        quiet.says(&[line]);
    }
    run(&[&collect[..], &["-v"]].concat()).says(&["notes.txt: not recognized, left out: "]);
}

//! `flopgap gap`: a step taken apart.

use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::run;

/// The recorded traces of some folders of `fixtures/`.
pub(crate) fn traces(folders: &[&str]) -> Vec<PathBuf> {
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures");
    let all = folders.iter().flat_map(|folder| std::fs::read_dir(fixtures.join(folder)).unwrap());
    let is_trace = |path: &PathBuf| {
        let name = path.to_string_lossy();
        name.ends_with("json.gz") || name.ends_with("sqlite.zst")
    };
    let mut all: Vec<PathBuf> = all.map(|entry| entry.unwrap().path()).filter(is_trace).collect();
    all.sort();
    all
}

#[test]
fn a_trace_fits_a_terminal_and_a_pipe_gets_no_colors() {
    let mut shown = 0;
    for path in traces(&["advice", "kineto", "nsys"]) {
        let answer = run(&["gap", path.to_str().unwrap()]);
        if answer.code == 3 {
            continue;
        }
        assert_eq!(answer.code, 0, "{}: {}", path.display(), answer.stderr);
        let lines: Vec<&str> = answer.stdout.lines().collect();
        assert!(lines.len() <= 40, "{}: {} lines", path.display(), lines.len());
        let wide = lines.iter().find(|line| line.chars().count() > 100);
        assert_eq!(wide, None, "{}", path.display());
        assert!(!answer.stdout.contains('\u{1b}'), "{}", path.display());
        assert!(lines.last().unwrap().starts_with("More: flopgap "), "{}", answer.stdout);
        shown += 1;
    }
    assert!(shown >= 30, "{shown}");
}

/// What a command says in JSON; nothing where the trace does not hold it.
fn json(arguments: &[&str]) -> Option<Value> {
    let answer = run(&[arguments, &["--format", "json"]].concat());
    assert!([0, 3].contains(&answer.code), "{arguments:?}: {}", answer.stderr);
    (answer.code == 0).then(|| serde_json::from_str(&answer.stdout).unwrap())
}

fn ns(value: &Value, key: &str) -> i64 {
    value[key].as_i64().unwrap_or_else(|| panic!("{key} of {value}"))
}

fn sum(list: &Value, key: &str) -> i64 {
    list.as_array().unwrap().iter().map(|row| ns(row, key)).sum()
}

/// A time as sentences have it, with its sign.
fn signed(ns: i64) -> String {
    let own = ns as f64;
    let text = match ns.abs() {
        1_000_000_000.. => format!("{:.3} s", own / 1e9),
        1_000_000.. => format!("{:.3} ms", own / 1e6),
        1_000.. => format!("{:.1} µs", own / 1e3),
        _ => format!("{ns} ns"),
    };
    if ns > 0 { format!("+{text}") } else { text }
}

/// Every trace beside the next: the causes add up to the difference of the steps as `gap` says
/// them, and the sentence has the numbers of the JSON.
#[test]
fn a_difference_of_traces_is_one_of_causes() {
    let all = traces(&["advice", "kineto", "nsys"]);
    let mut explained = 0;
    for pair in all.windows(2) {
        let [before, after] = [0, 1].map(|at| pair[at].to_str().unwrap());
        let Some(diff) = json(&["diff", before, after]) else { continue };
        let gaps = [before, after].map(|path| json(&["gap", path]));
        let partition = &diff["partition"];
        let [Some(one), Some(other)] = &gaps else {
            assert!(partition.is_null(), "{before}, {after}");
            continue;
        };
        if partition.is_null() {
            assert!(one["found_by"] == "none" || other["found_by"] == "none", "{before}, {after}");
            continue;
        }
        let difference = ns(other, "step_ns") - ns(one, "step_ns");
        assert_eq!(ns(partition, "difference_ns"), difference, "{before}, {after}");
        assert_eq!(sum(&partition["causes"], "difference_ns"), difference, "{before}, {after}");
        for cause in partition["causes"].as_array().unwrap() {
            assert_eq!(sum(&cause["details"], "difference_ns"), ns(cause, "difference_ns"));
        }
        let sentence = diff["sentences"].as_array().unwrap().last().unwrap().as_str().unwrap();
        let longer = signed(difference);
        let longer = longer.trim_start_matches(['+', '-']);
        let (_, parts) = sentence.split_once(": ").unwrap();
        assert!(difference == 0 || sentence.contains(&format!(" takes {longer} ")), "{sentence}");
        let mut causes: Vec<i64> =
            partition["causes"].as_array().unwrap().iter().map(|cause| ns(cause, "difference_ns")).collect();
        causes.retain(|ns| *ns != 0);
        causes.sort_by_key(|ns| -ns.abs());
        for cause in causes.iter().take(3) {
            assert!(parts.contains(&format!("{} ", signed(*cause))), "{cause}: {sentence}");
        }
        if causes.len() > 4 {
            let rest: i64 = causes[3..].iter().sum();
            let said = format!("; {} in {} other causes.", signed(rest), causes.len() - 3);
            assert!(parts.ends_with(&said), "{said} {sentence}");
        }
        explained += 1;
    }
    assert!(explained >= 20, "{explained}");
}

/// In CSV the rows add up, too; with `--all` nothing is about steps.
#[test]
fn causes_are_a_table_and_not_of_everything() {
    let paths = traces(&["advice"]);
    let [before, after] = ["layer-timers", "item-per-layer"].map(|name| {
        paths.iter().find(|path| path.to_string_lossy().contains(name)).unwrap().to_str().unwrap()
    });
    let csv = run(&["diff", before, after, "--format", "csv"]).stdout;
    let table = csv.split("\n\n").last().unwrap();
    let mut lines = table.lines();
    assert_eq!(lines.next().unwrap(), "part,cause,before_ms,after_ms,difference_ms,detail_ms,detail");
    let ns: Vec<f64> =
        lines.map(|line| (line.split(',').nth(4).unwrap().parse::<f64>().unwrap() * 1e6).round()).collect();
    assert!((ns[0] - ns[1..].iter().sum::<f64>()).abs() < 0.5, "{table}");
    assert!(ns.len() > 10, "{table}");
    let all = json(&["diff", before, after, "--all"]).unwrap();
    assert!(all.get("partition").is_none(), "{}", all["partition"]);
}

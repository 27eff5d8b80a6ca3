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
        ["json.gz", "json.zst", "sqlite.zst"].iter().any(|end| name.ends_with(end))
    };
    let mut all: Vec<PathBuf> = all.map(|entry| entry.unwrap().path()).filter(is_trace).collect();
    all.sort();
    all
}

#[test]
fn a_trace_fits_a_terminal_and_a_pipe_gets_no_colors() {
    let mut shown = 0;
    for path in traces(&["advice", "kineto", "nsys", "record"]) {
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
    (answer.code == 0).then(|| answer.json())
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

/// A time as sentences have it.
fn time(ns: i64) -> String {
    signed(ns).trim_start_matches('+').to_owned()
}

fn fixture(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures").join(name);
    path.to_str().unwrap().to_owned()
}

/// Fails where a text has more than one screen.
fn check_screen(text: &str) {
    let lines: Vec<&str> = text.lines().collect();
    assert!(lines.len() <= 40, "{} lines:\n{text}", lines.len());
    assert!(lines.iter().all(|line| line.chars().count() <= 100), "{text}");
}

/// The ranks of a job are one screen, whose parts are sums over the steps of all.
#[test]
fn ranks_are_one_screen() {
    let ranks = [0, 1].map(|rank| fixture(&format!("kineto/ddp_rank{rank}.json.gz")));
    let screen = run(&["gap", &ranks[0], &ranks[1]]).stdout;
    check_screen(&screen);
    assert!(screen.starts_with("ddp_rank0 (2 ranks) on NVIDIA H200\n"), "{screen}");
    let found = json(&["gap", &ranks[0], &ranks[1]]).unwrap();
    let both = || found["steps"].as_array().unwrap().iter().chain(found["between"].as_array().unwrap());
    let measured = both().filter(|step| step["warm_up"] == false);
    let parts: Vec<&Value> = measured.flat_map(|step| step["parts"].as_array().unwrap()).collect();
    for part in ["busy", "exposed", "idle"] {
        let own: i64 = parts.iter().filter(|own| own["part"] == part).map(|own| ns(own, "ns")).sum();
        let measured = ns(&found, "measured");
        let each = (own + measured / 2) / measured;
        let row = screen.lines().find(|line| line.starts_with(&format!("{part}  "))).unwrap();
        assert!(row.contains(&format!(" {} ", time(each))), "{each}: {row}");
    }
    let verify =
        "\nVerify with a new recording, the ranks of each in a directory: flopgap nsys diff BEFORE AFTER\n";
    assert!(screen.contains(verify), "{screen}");
    // A directory is one path, which commands take as it is.
    let folder = tempfile::tempdir().unwrap();
    for rank in &ranks {
        std::fs::copy(rank, folder.path().join(Path::new(rank).file_name().unwrap())).unwrap();
    }
    let path = folder.path().to_str().unwrap();
    let screen = run(&["gap", path]).stdout;
    check_screen(&screen);
    assert!(screen.contains(&format!("flopgap nsys diff {path} AFTER\n")), "{screen}");
}

/// Every trace and the next on one screen: each row has the times of `diff` and of `gap`. Those
/// that do not compare have a screen each.
#[test]
fn two_traces_are_one_screen_of_their_difference() {
    let all = traces(&["advice", "kineto", "nsys"]);
    let mut compared = 0;
    for pair in all.windows(2) {
        let [before, after] = [0, 1].map(|at| pair[at].to_str().unwrap());
        let answer = run(&["gap", before, after]);
        if before.contains("rank0.json") || answer.code == 3 {
            continue;
        }
        assert_eq!(answer.code, 0, "{before}, {after}: {}", answer.stderr);
        let gaps = [before, after].map(|path| json(&["gap", path]).unwrap());
        let screen = answer.stdout;
        if !screen.starts_with("A: ") {
            assert!((gaps[0]["found_by"] == "none") != (gaps[1]["found_by"] == "none"), "{screen}");
            assert_eq!(screen, [before, after].map(|path| run(&["gap", path]).stdout).join("\n"));
            continue;
        }
        check_screen(&screen);
        let found = json(&["gap", before, after]).unwrap();
        let row = |name: &str, ns: [i64; 2]| {
            let times = format!("{:>12}{:>12}{:>13}", time(ns[0]), time(ns[1]), signed(ns[1] - ns[0]));
            let row = format!("{name:<38}{times}");
            assert!(
                screen.lines().any(|line| line.trim_end_matches(['█', '░', ' ']) == row),
                "{row}\n{screen}"
            );
        };
        let steps = [0, 1].map(|at| ns(&gaps[at], "step_ns"));
        row(if found["whole"] == true { "the recording" } else { "a step" }, steps);
        let causes = found["causes"].as_array().unwrap();
        for part in ["busy", "exposed", "idle"] {
            let own: Vec<&Value> = causes.iter().filter(|own| own["part"] == part).collect();
            let sum = |key: &str| own.iter().map(|own| ns(own, key)).sum::<i64>();
            if !own.is_empty() {
                row(part, [sum("before_ns"), sum("after_ns")]);
            }
        }
        // The rows of causes add up to those of their part, as the JSON is that of `diff`.
        let diff = json(&["diff", before, after]);
        if let Some(diff) = diff.filter(|diff| !diff["partition"].is_null()) {
            assert_eq!(found["causes"], diff["partition"]["causes"], "{before}, {after}");
        }
        assert!(screen.contains("\nB: "), "{screen}");
        assert!(screen.lines().last().unwrap().starts_with("More: flopgap "), "{screen}");
        compared += 1;
    }
    assert!(compared >= 20, "{compared}");
}

/// What has as many places in a page as there are figures of a kind.
fn figures(page: &str, class: &str) -> Vec<String> {
    // Attributes may follow, but no other class.
    let begins = format!("<figure class=\"chart {class}\"");
    let parts = page.split(&begins).skip(1);
    parts.map(|part| part.split("</figure>").next().unwrap().to_owned()).collect()
}

/// `gap` writes the page that `summary` begins with, of one trace and of two.
#[test]
fn a_page_begins_as_that_of_the_summary() {
    let folder = tempfile::tempdir().unwrap();
    let to = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (one, other) = (fixture("advice/layer-timers.before.json.zst"), fixture("kineto/layer.json.gz"));
    for (traces, falls) in [(vec![one.as_str()], 1), (vec![&one, &other], 3)] {
        let [gap, summary] = ["gap", "summary"].map(|command| {
            let page = to(&format!("{command}.html"));
            run(&[&[command][..], &traces, &["-o", &page]].concat()).expect(0, &[]);
            std::fs::read_to_string(page).unwrap()
        });
        assert_eq!(figures(&gap, "waterfall").len(), falls);
        for class in ["waterfall", "timeline"] {
            assert_eq!(figures(&gap, class), figures(&summary, class), "{class}");
        }
        // Prose, up to what only the summary says.
        let prose = |page: &str| -> Vec<String> {
            page.lines().filter(|line| line.starts_with("<p class=\"prose\">")).map(str::to_owned).collect()
        };
        let (gap, summary) = (prose(&gap), prose(&summary));
        assert!(gap.iter().all(|line| summary.contains(line)), "{gap:?}");
        assert!(gap.len() >= 3 && gap.len() < summary.len());
    }
    // The format decides, then the ending.
    let page = run(&["gap", &one, "--format", "html"]);
    assert!(page.stdout.starts_with("<!doctype html>"), "{}", page.stdout);
    run(&["gap", &one, "--format", "json", "-o", &to("gap.html")]).expect(0, &[]);
    let written: Value = serde_json::from_str(&std::fs::read_to_string(to("gap.html")).unwrap()).unwrap();
    assert_eq!(written["version"], 1);
    let (_folder, path) = crate::trace("nvtx_only");
    run(&["gap", &path, "--format", "html"]).refuses(3, &[]);
}

/// Three traces have a screen each; as numbers, they are asked for one by one.
#[test]
fn more_traces_have_a_screen_each() {
    let names = ["layer-timers.before", "item-per-layer.before", "generate.before"];
    let paths = names.map(|name| fixture(&format!("advice/{name}.json.zst")));
    let all = [&["gap"][..], &paths.each_ref().map(String::as_str)].concat();
    let screens = run(&all).stdout;
    assert_eq!(screens, paths.each_ref().map(|path| run(&["gap", path]).stdout).join("\n"));
    let refused = run(&[&all[..], &["--format", "json"]].concat());
    refused.refuses(2, &[]);
    let said = "error: 3 traces, which are not the ranks of one job and do not compare";
    refused.says(&[said, "hint: ask for each alone"]);
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

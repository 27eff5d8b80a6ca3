//! A source is what it contains, whatever it is called; a run has a date.

use std::fs::{self, File};
use std::os::unix::fs::symlink;
use std::path::Path;
use std::time::{Duration, UNIX_EPOCH};

use crate::{done, fixtures, rows, run, trace};

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

fn runs(output: &Path) -> Vec<String> {
    rows(output, "select run, source from runs order by run")
}

#[test]
fn links_and_copies_are_one_run() {
    let (_folder, [input, output]) = flopgap_testing::paths(["in", "out"]);
    let first = input.join("a.sqlite");
    trace("small_forward", &first);
    fs::hard_link(&first, input.join("b.sqlite")).unwrap();
    symlink(&first, input.join("c.sqlite")).unwrap();
    fs::copy(&first, input.join("d.sqlite")).unwrap();
    for state in ["collected", "unchanged"] {
        let found = done(&["collect", text(&input), "-o", text(&output), "--format", "csv"]);
        assert_eq!(found.stdout.lines().count(), 2, "{found:?}");
        found.prints(&[&format!("a,nsys,{state},")]);
        for name in ["b", "c", "d"] {
            let said = format!("{name}.sqlite: the content of {}", text(&first));
            found.says(&[&said]);
        }
    }
    // Each alone, too.
    for name in ["b", "c", "d"] {
        let path = input.join(format!("{name}.sqlite"));
        done(&["collect", text(&path), "-o", text(&output), "--format", "csv"])
            .prints(&["a,nsys,unchanged,"]);
    }
    assert_eq!(runs(&output), [format!("a,{}", text(&first.canonicalize().unwrap()))]);
    assert_eq!(rows(&output, "select count(*) as n from kernels"), ["838"]);
}

#[test]
fn a_renamed_source_keeps_its_run_and_a_run_can_be_renamed() {
    let (_folder, [input, output]) = flopgap_testing::paths(["in", "out"]);
    let (old, new) = (input.join("a.sqlite"), input.join("b.sqlite"));
    trace("small_forward", &old);
    done(&["collect", text(&input), "-o", text(&output)]);
    fs::rename(&old, &new).unwrap();
    for state in ["collected", "unchanged"] {
        done(&["collect", text(&input), "-o", text(&output), "--format", "csv"])
            .prints(&[&format!("a,nsys,{state},")]);
        assert_eq!(runs(&output), [format!("a,{}", text(&new.canonicalize().unwrap()))]);
    }
    let named = format!("b={}", text(&new));
    run(&["collect", &named, "-o", text(&output)])
        .expect(1, &["the data set has its content as the run `a`"]);
    done(&["collect", &named, "-o", text(&output), "--replace"]);
    assert_eq!(rows(&output, "select distinct run from kernels"), ["b"]);
    // A name that the user gives comes first, wherever the file is found beside.
    run(&["collect", text(&input), &named, &format!("c={}", text(&new)), "-o", text(&output)])
        .expect(1, &["its content is collected as the run `b`"]);
    assert_eq!(rows(&output, "select distinct run from kernels"), ["b"]);
}

#[test]
fn another_recording_in_an_old_place_is_another_content() {
    let (_folder, [input, output]) = flopgap_testing::paths(["in", "out"]);
    let path = input.join("build.sqlite");
    trace("small_forward", &path);
    done(&["collect", text(&input), "-o", text(&output)]);
    fs::rename(&path, input.join("old-build.sqlite")).unwrap();
    trace("two_gpus", &path);
    // The name belongs to the content that has it: nothing is overwritten, and a name is asked for.
    run(&["collect", text(&input), "-o", text(&output)]).expect(1, &["the run name `build` is also that of"]);
    assert_eq!(rows(&output, "select count(*) as n from kernels"), ["838"]);
    let named = format!("build2={}", text(&path));
    done(&["collect", text(&input), &named, "-o", text(&output)]);
    assert_eq!(rows(&output, "select distinct run from runs order by run"), ["build", "build2"]);
    // From now on without the name.
    done(&["collect", text(&input), "-o", text(&output)]);
}

#[test]
fn removed_sources_are_dropped_when_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    let [input, elsewhere, output] = ["in", "elsewhere", "out"].map(|name| folder.path().join(name));
    trace("small_forward", &input.join("a.sqlite"));
    trace("two_gpus", &input.join("b.sqlite"));
    trace("graph_whole", &elsewhere.join("c.sqlite"));
    done(&["collect", text(&input), text(&elsewhere), "-o", text(&output)]);
    fs::remove_file(input.join("b.sqlite")).unwrap();
    fs::remove_dir_all(&elsewhere).unwrap();
    let all = ["a", "b", "c"];
    done(&["collect", text(&input), "-o", text(&output)]);
    assert_eq!(rows(&output, "select distinct run from runs order by run"), all);
    // What lay in no directory of this call may be another machine's.
    done(&["collect", text(&input), "-o", text(&output), "--prune", "--format", "csv"])
        .prints(&["b,nsys,removed,"]);
    assert_eq!(rows(&output, "select distinct run from runs order by run"), ["a", "c"]);
    assert_eq!(rows(&output, "select distinct run from kernels order by run"), ["a", "c"]);
    assert!(!crate::files(&output).iter().any(|name| name.contains("run=b/") || name.ends_with("/b.json")));
    // The last one, too.
    fs::remove_file(input.join("a.sqlite")).unwrap();
    done(&["collect", text(&input), "-o", text(&output), "--prune", "--format", "csv"])
        .prints(&["a,nsys,removed,"]);
    assert_eq!(run(&["collect", text(&input), "-o", text(&output), "--prune"]).code, 3);
}

#[test]
fn a_run_has_the_date_of_its_recording_or_of_its_file() {
    let (_folder, [input, output]) = flopgap_testing::paths(["in", "out"]);
    trace("small_forward", &input.join("nsys.sqlite"));
    let report = input.join("ncu.csv");
    fs::copy(fixtures().join("ncu/n4_d512_m64_forward.csv"), &report).unwrap();
    let time = UNIX_EPOCH + Duration::from_millis(1_700_000_000_250);
    File::options().append(true).open(&report).unwrap().set_modified(time).unwrap();
    let event =
        r#"{"ph":"X","cat":"kernel","name":"gemm","pid":0,"tid":7,"ts":5,"dur":2,"args":{"stream":7}}"#;
    let trace = format!("{{\"baseTimeNanoseconds\":1790000000000000000,\"traceEvents\":[{event}]}}");
    fs::write(input.join("torch.json"), trace).unwrap();
    fs::copy(fixtures().join("calibration/xeon-native.jsonl.zst"), input.join("calibration.jsonl")).unwrap();
    let [small, torch] = ["h200-small", "h200-pytorch"].map(|name| fixtures().join("runs").join(name));
    done(&["collect", text(&input), text(&small), text(&torch), "-o", text(&output)]);
    let dates = rows(&output, "select run, recorded, recorded_by from runs order by recorded");
    for wanted in [
        "ncu,2023-11-14T22:13:20.250Z,file",
        "torch,2026-09-21T14:13:20.000Z,recording",
        "nsys,2026-11-21T01:46:26.417Z,recording",
    ] {
        assert!(dates.iter().any(|date| date == wanted), "{wanted}: {dates:?}");
    }
    // A run without a manifest has the time of its files.
    for (name, by) in [("calibration", "recording"), ("h200-pytorch", "recording"), ("h200-small", "file")] {
        let is_it = |date: &String| date.starts_with(&format!("{name},2026-")) && date.ends_with(by);
        assert!(dates.iter().any(is_it), "{name}: {dates:?}");
    }
}

#[test]
fn a_trend_is_in_the_order_of_dates() {
    let (folder, [input, output]) = flopgap_testing::paths(["in", "out"]);
    // In the order of texts, build10 comes before build2.
    let order = ["build1", "build2", "build10", "a_rebuild"];
    for (at, name) in order.iter().enumerate() {
        let path = input.join(format!("{name}.sqlite"));
        trace("small_forward", &path);
        let began = 1_795_225_586_000_000_000 + 60_000_000_000 * at as u64;
        rusqlite::Connection::open(&path)
            .unwrap()
            .execute(&format!("update TARGET_INFO_SESSION_START_TIME set utcEpochNs = {began}"), [])
            .unwrap();
    }
    done(&["collect", text(&input), "-o", text(&output), "--table", "kernels"]);
    let svg = folder.path().join("trend.svg");
    let csv = ["query", text(&output), "--trend", "matmul", "--format", "csv", "--plot", text(&svg)];
    let trend = done(&csv).stdout;
    let lines: Vec<Vec<&str>> = trend.lines().map(|line| line.split(',').collect()).collect();
    assert_eq!(lines[0][..3], ["recorded", "recorded_by", "run"]);
    assert_eq!(lines[1..].iter().map(|line| line[2]).collect::<Vec<_>>(), order);
    assert_eq!(lines[3][..2], ["2026-11-21T01:48:26.000Z", "recording"]);
    // All three lines of the chart have their points.
    let svg = fs::read_to_string(svg).unwrap();
    assert!(svg.contains("shortest") && svg.contains("longest"), "{svg}");
}

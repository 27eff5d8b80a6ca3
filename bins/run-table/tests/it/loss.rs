//! Sources that are cut or lack something, options that are mistyped, processes that are killed:
//! nothing is lost without a word.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::{done, files, fixtures, rows, run, trace};

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

fn manifest(output: &Path, run: &str) -> serde_json::Value {
    serde_json::from_slice(&fs::read(output.join(format!("_runs/{run}.json"))).unwrap()).unwrap()
}

/// Collects a source that lacks something, twice: both times it is said, and the manifest has it.
fn is_incomplete(input: &Path, output: &Path, run_name: &str, what: &str) {
    let mut written = None;
    for _ in 0..2 {
        let found = run(&["collect", text(input), "-o", text(output), "--format", "csv"]);
        found.expect(1, &[]).prints(&[&format!("{run_name},"), ",incomplete,"]);
        let said = found.stderr.lines().any(|line| line.contains("SKIPPED: ") && line.contains(what));
        assert!(said && found.stderr.contains("1 of 1 runs are incomplete"), "{found:?}");
        let manifest = manifest(output, run_name);
        let skipped = manifest["skipped"].as_array().unwrap();
        assert!(skipped.iter().any(|skipped| skipped.as_str().unwrap().contains(what)), "{manifest}");
        // The second time nothing is read or written again.
        let time = fs::metadata(output.join(format!("_runs/{run_name}.json"))).unwrap().modified().unwrap();
        assert_eq!(*written.get_or_insert(time), time);
    }
}

#[test]
fn an_export_without_a_column_lacks_that_table_and_says_so() {
    let (_folder, [input, output]) = flopgap_testing::paths(["a.sqlite", "out"]);
    trace("small_forward", &input);
    rusqlite::Connection::open(&input)
        .unwrap()
        .execute_batch("alter table CUPTI_ACTIVITY_KIND_KERNEL drop column contextId")
        .unwrap();
    is_incomplete(&input, &output, "a", "the table `kernels`: ");
    assert!(manifest(&output, "a")["skipped"][0].as_str().unwrap().contains("contextId"));
    assert!(!output.join("kernels").exists() && output.join("ranges/run=a/part-0.parquet").exists());
}

#[test]
fn a_report_that_is_cut_in_a_row_is_incomplete() {
    let (_folder, [input, output]) = flopgap_testing::paths(["a.csv", "out"]);
    let whole = flopgap_testing::unpacked("ncu/h200_gemms_raw.csv.zst");
    let last_line = whole[..whole.len() - 1].iter().rposition(|&byte| byte == b'\n').unwrap();
    fs::write(&input, &whole[..usize::midpoint(last_line, whole.len())]).unwrap();
    is_incomplete(&input, &output, "a", "row is cut off");
    // Repaired, it is complete.
    fs::write(&input, &whole).unwrap();
    done(&["collect", text(&input), "-o", text(&output), "--format", "csv"]).prints(&["a,ncu,collected,"]);
    assert_eq!(manifest(&output, "a")["skipped"], serde_json::json!([]));
}

#[test]
fn a_calibration_whose_last_line_is_cut_is_incomplete() {
    let (_folder, [input, output]) = flopgap_testing::paths(["a.jsonl", "out"]);
    let whole = flopgap_testing::unpacked("calibration/xeon-native.jsonl.zst");
    fs::write(&input, &whole[..whole.len() - 20]).unwrap();
    is_incomplete(&input, &output, "a", "the last line was cut off");
}

/// A source that can no longer be read leaves the run as it was.
#[test]
fn a_source_that_became_worse_replaces_nothing() {
    let (_folder, [input, output]) = flopgap_testing::paths(["a.sqlite", "out"]);
    trace("small_forward", &input);
    done(&["collect", text(&input), "-o", text(&output)]);
    let before = contents(&output);
    let whole = fs::read(&input).unwrap();
    for bytes in [&whole[..whole.len() / 2], &whole[..100], b""] {
        fs::write(&input, bytes).unwrap();
        run(&["collect", text(&input), "-o", text(&output), "--format", "csv"])
            .expect(1, &[])
            .prints(&[",failed,"]);
        assert_eq!(contents(&output), before);
    }
}

#[test]
fn a_table_that_no_source_has_is_refused_before_anything_is_touched() {
    let (_folder, [input, output]) = flopgap_testing::paths(["a.sqlite", "out"]);
    trace("small_forward", &input);
    done(&["collect", text(&input), "-o", text(&output)]);
    let before = contents(&output);
    for (asked, tip) in [("kernel", "'kernels'"), ("kernels,range", "'ranges'"), ("", "possible values")] {
        let again = ["collect", text(&input), "-o", text(&output), "--again", "--table", asked];
        run(&again).expect(2, &[tip, "calibration", "runs"]);
        assert_eq!(contents(&output), before);
    }
}

/// All files with their bytes.
fn contents(folder: &Path) -> Vec<(String, Vec<u8>)> {
    files(folder).into_iter().map(|name| (name.clone(), fs::read(folder.join(name)).unwrap())).collect()
}

/// Two recordings take turns under one name, with different tables. After every kill the run is
/// wholly one of them as soon as anything is collected.
#[test]
fn fifty_kills_leave_no_half_run() {
    let (folder, [input, output]) = flopgap_testing::paths(["a.sqlite", "out"]);
    let [one, two] = ["small_forward", "graph_whole"].map(|name| {
        let path = folder.path().join(format!("{name}.sqlite"));
        trace(name, &path);
        path
    });
    let beside = fixtures().join("ncu/n4_d512_m64_forward.csv");
    let of_run = |output: &Path| -> Vec<(String, Vec<u8>)> {
        contents(output)
            .into_iter()
            .filter(|(name, _)| name.contains("run=a/") && !name.starts_with("runs/"))
            .collect()
    };
    // What the run is after each.
    let whole = [&one, &two].map(|source| {
        fs::copy(source, &input).unwrap();
        done(&["collect", text(&input), text(&beside), "-o", text(&output)]);
        of_run(&output)
    });
    let names = |files: &[(String, Vec<u8>)]| files.iter().map(|(name, _)| name.clone()).collect::<Vec<_>>();
    assert_ne!(names(&whole[0]), names(&whole[1]));

    let mut seen = [0, 0];
    for kill in 0..50_u64 {
        fs::copy([&one, &two][(kill % 2) as usize], &input).unwrap();
        let mut child = Command::new(assert_cmd::cargo::cargo_bin("run-table"))
            .args(["collect", text(&input), "-o", text(&output), "--again"])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        std::thread::sleep(Duration::from_millis(kill * 7 % 120));
        child.kill().unwrap();
        child.wait().unwrap();
        // Whatever it is now, it can be asked.
        if kill % 10 == 0 {
            rows(&output, "select run, kind from runs order by run");
        }
        done(&["collect", text(&beside), "-o", text(&output)]);
        let now = of_run(&output);
        let which = whole.iter().position(|whole| *whole == now);
        let which = which.unwrap_or_else(|| panic!("kill {kill}: {:?}", names(&now)));
        seen[which] += 1;
        let manifest = manifest(&output, "a");
        let tables = manifest["tables"].as_object().unwrap();
        assert_eq!(tables.len(), now.len() + 1, "kill {kill}: {manifest}");
    }
    assert_eq!(seen.iter().sum::<u64>(), 50);
    done(&["collect", text(&input), "-o", text(&output)]);
    let left: Vec<String> = files(&output).into_iter().filter(|name| name.starts_with("_runs/")).collect();
    assert_eq!(left, ["_runs/a.json", "_runs/n4_d512_m64_forward.json"]);
    assert!(!output.join("_runs/a.ready").exists() && !output.join("_runs/a.staging").exists());
}

/// A process that is killed between two of the steps in which files take their places.
#[test]
fn a_run_that_is_ready_is_completed_from_every_step() {
    let (_folder, [input, output]) = flopgap_testing::paths(["a.sqlite", "out"]);
    let beside = fixtures().join("ncu/n4_d512_m64_forward.csv");
    trace("graph_whole", &input);
    done(&["collect", text(&input), text(&beside), "-o", text(&output)]);
    let after = contents(&output);
    let new: Vec<(String, Vec<u8>)> =
        after.iter().filter(|(name, _)| name.contains("run=a/")).cloned().collect();
    let manifest = fs::read(output.join("_runs/a.json")).unwrap();
    for moved in 0..=new.len() {
        fs::remove_dir_all(&output).unwrap();
        trace("small_forward", &input);
        done(&["collect", text(&input), text(&beside), "-o", text(&output)]);
        let ready = output.join("_runs/a.ready");
        fs::create_dir(&ready).unwrap();
        fs::write(ready.join("manifest.json"), &manifest).unwrap();
        for (at, (name, bytes)) in new.iter().enumerate() {
            let table = name.split('/').next().unwrap();
            let path = if at < moved { output.join(name) } else { ready.join(format!("{table}.parquet")) };
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, bytes).unwrap();
        }
        done(&["query", text(&output), "--sql", "select run from runs"])
            .says(&["run `a`: not completely collected"]);
        // Its source need not be there.
        fs::remove_file(&input).unwrap();
        done(&["collect", text(&beside), "-o", text(&output)]);
        assert_eq!(contents(&output), after, "{moved} moved");
    }
}

//! `diff`: what became of the time, the work and the bytes.

use std::fmt::Write as _;
use std::path::Path;

use crate::{fixture, run};

/// Launches of kernels with a time in ns and thread instructions of FADD; no FLOPs without.
fn report(folder: &Path, name: &str, launches: &[(&str, u64, Option<u64>)]) -> String {
    let mut text =
        "\"ID\",\"Process ID\",\"Kernel Name\",\"Metric Name\",\"Metric Unit\",\"Metric Value\"\n".to_owned();
    for (id, (kernel, time, fadd)) in launches.iter().enumerate() {
        let mut row = |metric: &str, unit: &str, value: u64| {
            let _ = writeln!(text, "\"{id}\",\"1\",\"{kernel}\",\"{metric}\",\"{unit}\",\"{value}\"");
        };
        row("gpu__time_duration.sum", "ns", *time);
        if let Some(fadd) = fadd {
            for (op, count) in [("fadd", *fadd), ("fmul", 0), ("ffma", 0)] {
                row(&format!("smsp__sass_thread_inst_executed_op_{op}_pred_on.sum"), "inst", count);
            }
        }
    }
    let path = folder.join(name);
    std::fs::write(&path, text).unwrap();
    path.to_str().unwrap().to_owned()
}

fn words(text: &str, first: &str) -> Vec<String> {
    let line = text.lines().find(|line| line.starts_with(first)).unwrap_or_else(|| panic!("{first}: {text}"));
    line.split_whitespace().map(str::to_owned).collect()
}

/// Every kernel ten times slower, with the same work: the times differ, and a condition sees it.
#[test]
fn slower_kernels_are_seen() {
    let folder = tempfile::tempdir().unwrap();
    let kernels = [("k1", 100, Some(9)), ("k2", 200, Some(90)), ("k1", 100, Some(9))];
    let a = report(folder.path(), "a.csv", &kernels);
    let b = report(folder.path(), "b.csv", &kernels.map(|(name, time, fadd)| (name, time * 10, fadd)));
    let diff = run(&["diff", &a, &b]);
    diff.succeeds_quietly();
    assert_eq!(words(&diff.stdout, "time (ns)"), ["time", "(ns)", "400", "4,000", "3,600", "+900.00%"]);
    assert_eq!(words(&diff.stdout, "work (FLOP)"), ["work", "(FLOP)", "108", "108", "0", "0.00%"]);
    assert_eq!(words(&diff.stdout, "k2")[2..5], ["200", "2,000", "+900.00%"]);
    let changed = run(&["diff", &a, &b, "--changed"]).stdout;
    assert!(changed.contains("\nk1 ") && changed.contains("\nk2 "), "{changed}");
    assert!(!run(&["diff", &a, &a, "--changed"]).stdout.contains("\nk1 "));

    let failed = run(&["diff", &a, &b, "--fail-if", "time>5%"]);
    assert_eq!((failed.code, failed.stdout.as_str()), (1, diff.stdout.as_str()));
    let message = "`time>5%`: time is 400 ns in A and 4,000 ns in B, most of it in `k1`, `k2`";
    failed.says(&[message]);
    for passed in ["time>900%", "flops>0", "launches>0", "time<0"] {
        assert_eq!(run(&["diff", &a, &b, "--fail-if", passed]).code, 0, "{passed}");
    }
    assert_eq!(run(&["diff", &b, &a, "--fail-if", "time<-89%"]).code, 1);
    // A quantity that cannot be compared does not fail the comparison.
    run(&["diff", &a, &b, "--fail-if", "bytes>0"])
        .expect(4, &["`bytes>0` cannot be judged: not known of all launches of A and B"]);
    assert_eq!(run(&["diff", &a, &b, "--fail-if", "speed>0"]).code, 2);
}

#[test]
fn kernels_of_one_side_are_new_or_gone_and_rows_can_be_classes() {
    let folder = tempfile::tempdir().unwrap();
    let a = report(folder.path(), "a.csv", &[("gemm", 100, None), ("softmax", 50, None)]);
    let b =
        report(folder.path(), "b.csv", &[("gemm", 90, None), ("layer_norm", 5, None), ("gemm", 90, None)]);
    let diff = run(&["diff", &a, &b]).stdout;
    assert_eq!(words(&diff, "gemm")[2..], ["100", "180", "+80.00%", "1", "2"]);
    assert_eq!(words(&diff, "softmax")[2..], ["50", "0", "gone", "1", "0"]);
    assert_eq!(words(&diff, "layer_norm")[2..], ["0", "5", "new", "0", "1"]);
    assert!(!diff.contains("work"), "no counter of work was recorded: {diff}");
    let classes = run(&["diff", &a, &b, "--by", "class"]).stdout;
    assert_eq!(words(&classes, "matmul"), ["matmul", "100", "180", "+80.00%", "1", "2"]);
    let json = run(&["diff", &a, &b, "--format", "json", "--top", "1"]).stdout;
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(
        json["total"]["duration_ns"],
        serde_json::json!({ "a": 150, "b": 185, "change": 35.0 / 150.0 })
    );
    assert_eq!(
        (&json["rows"][0]["kernel"], json["rows"].as_array().map(Vec::len)),
        (&"gemm".into(), Some(1))
    );
}

/// The forward and the backward pass of two prints of one recording.
#[test]
fn phases_are_compared() {
    let [a, b] = ["ncu/lm_raw_base.csv.zst", "ncu/lm_raw.csv.zst"]
        .map(|name| fixture(name).to_str().unwrap().to_owned());
    let diff = run(&["diff", &a, &b, "--phase", "backward", "--by", "class"]).stdout;
    assert!(diff.starts_with("Total of A and B, backward\n"), "{diff}");
    assert_eq!(words(&diff, "launches"), ["launches", "61", "61", "0", "0.00%"]);
    assert_eq!(words(&diff, "time (ns)")[2..], ["300,000", "300,000", "0", "0.00%"]);
    assert_eq!(words(&diff, "work (FLOP)")[2..4], ["7,232,496,448", "7,232,496,448"]);
    assert_eq!(words(&diff, "DRAM (byte)")[2..4], ["112,410,880", "112,410,880"]);
    assert_eq!(words(&diff, "TFLOP/s")[1..3], ["24.108", "24.108"]);
    assert_eq!(words(&diff, "roofline")[1..3], ["7.91%", "7.91%"]);
}

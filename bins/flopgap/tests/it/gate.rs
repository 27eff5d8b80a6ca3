//! `flopgap gate`: planted changes of each kind are found, and equal recordings pass.

use std::fs;
use std::path::{Path, PathBuf};

use flate2::read::GzDecoder;
use flopgap_testing::Ended;
use serde_json::{Value, json};

use crate::flopgap;

const TRACE: &str = "fixtures/kineto/layer.json.gz";

fn gate(arguments: &[&str]) -> Ended {
    flopgap(&[&["gate"], arguments].concat())
}

/// The exit code, and what is said as JSON.
#[track_caller]
fn judged(arguments: &[&str]) -> (i32, Value) {
    let ended = gate(&[arguments, &["--format", "json"]].concat());
    let json = ended.json();
    (ended.code, json)
}

#[track_caller]
fn row<'a>(found: &'a Value, what: &str) -> &'a Value {
    let rows = found["amounts"].as_array().unwrap();
    rows.iter().find(|row| row["what"] == what).unwrap_or_else(|| panic!("no {what} in {rows:#?}"))
}

/// The amounts that fail.
fn failing(found: &Value) -> Vec<&str> {
    let rows = found["amounts"].as_array().unwrap().iter().filter(|row| row["fails"] == true);
    rows.map(|row| row["what"].as_str().unwrap()).collect()
}

/// The trace with its events changed.
fn changed(directory: &Path, change: impl FnOnce(&mut Vec<Value>)) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(TRACE);
    let mut trace: Value = serde_json::from_reader(GzDecoder::new(fs::File::open(path).unwrap())).unwrap();
    change(trace["traceEvents"].as_array_mut().unwrap());
    let path = directory.join("changed.json");
    fs::write(&path, trace.to_string()).unwrap();
    path.to_str().unwrap().to_owned()
}

/// The events of a category, within the recorded steps.
fn of<'a>(events: &'a mut [Value], category: &'a str) -> impl Iterator<Item = &'a mut Value> {
    events.iter_mut().filter(move |event| event["cat"] == category)
}

#[test]
fn an_equal_trace_passes() {
    let (code, found) = judged(&[TRACE, TRACE, "--equal", "--fail-if-slower", "5"]);
    assert_eq!((code, found["verdict"].as_str()), (0, Some("passed")), "{found:#}");
    assert_eq!((found["format"].as_str(), found["version"].as_u64()), (Some("flopgap-gate"), Some(1)));
    assert!(row(&found, "flops")["before"].as_f64().unwrap() > 1e9, "{found:#}");
    assert!(row(&found, "launches")["before"].as_f64().unwrap() > 10.0);
}

/// Each planted change fails by its own amount, and is named; as one that is allowed it passes.
#[test]
fn planted_changes_fail() {
    let directory = tempfile::tempdir().unwrap();
    let check = |change: fn(&mut Vec<Value>), failed: &[&str], allow: &[&str], detail: &str| {
        let after = changed(directory.path(), change);
        let (code, found) = judged(&[TRACE, &after]);
        assert_eq!((code, found["verdict"].as_str()), (1, Some("failed")), "{found:#}");
        assert_eq!(failing(&found), failed);
        let details = row(&found, failed.last().unwrap())["details"].to_string();
        assert!(details.contains(detail), "`{detail}` is not in {details}");
        let allowed: Vec<&str> = allow.iter().flat_map(|what| ["--allow", what]).collect();
        let (code, found) = judged(&[&[TRACE, &after], allowed.as_slice()].concat());
        assert_eq!((code, failing(&found).as_slice()), (0, [].as_slice()), "{found:#}");
        let (code, found) = judged(&[TRACE, &after, "--advisory"]);
        assert_eq!((code, found["verdict"].as_str()), (0, Some("failed")));
        // Less is not a regression.
        let (code, found) = judged(&[&after, TRACE]);
        assert_eq!((code, failing(&found).as_slice()), (0, [].as_slice()), "{found:#}");
        assert_eq!(judged(&[&after, TRACE, "--equal"]).0, 1);
    };
    check(
        |events| {
            let again: Vec<Value> = of(events, "kernel").map(|kernel| kernel.clone()).collect();
            events.extend(again);
        },
        &["launches", "kernels"],
        &["launches=100", "kernels"],
        "launches before, ",
    );
    check(
        |events| {
            for copy in of(events, "gpu_memcpy") {
                copy["args"]["bytes"] = json!(copy["args"]["bytes"].as_u64().unwrap() + 1);
            }
        },
        &["copied-bytes"],
        &["copied-bytes=1"],
        "",
    );
    check(
        |events| {
            for product in events.iter_mut().filter(|event| event["name"] == "aten::mm") {
                let sizes = &mut product["args"]["Input Dims"][0][0];
                *sizes = json!(sizes.as_u64().unwrap() + 8);
            }
        },
        &["flops"],
        &["flops"],
        "",
    );
}

/// A change of a GPU's memory as `PyTorch` writes it.
fn memory(kind: u64, total: u64, bytes: i64) -> Value {
    json!({
        "ph": "i", "cat": "cpu_instant_event", "s": "t", "name": "[memory]", "pid": 1, "tid": 1, "ts": 4.0e15,
        "args": {
            "Total Reserved": 1 << 30, "Total Allocated": total, "Bytes": bytes, "Addr": 137_877_174_353_920_u64,
            "Device Id": 0, "Device Type": kind, "Ev Idx": 1,
        },
    })
}

#[test]
fn more_memory_fails() {
    let directories = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let [before, after] = [900, 901].map(|most| {
        let directory = &directories[usize::from(most == 901)];
        changed(directory.path(), |events| {
            // The host's memory is another one, and what is given back was there before.
            events.extend([memory(0, 5000, 5000), memory(1, 600, 100), memory(1, most - 300, -300)]);
        })
    });
    let (code, found) = judged(&[&before, &after]);
    assert_eq!((code, failing(&found).as_slice()), (1, ["peak-memory"].as_slice()), "{found:#}");
    let peak = row(&found, "peak-memory");
    assert_eq!((peak["before"].as_f64(), peak["after"].as_f64()), (Some(900.0), Some(901.0)));
    assert_eq!(judged(&[&before, &after, "--allow", "peak-memory=1"]).0, 0);
    // Where only one says it, nothing is known.
    let (code, found) = judged(&[TRACE, &after]);
    assert_eq!((code, failing(&found).len()), (4, 0), "{found:#}");
    assert!(row(&found, "peak-memory")["details"].to_string().contains("profile_memory=True"));
}

#[test]
fn another_kernel_is_named_both_ways() {
    let directory = tempfile::tempdir().unwrap();
    let after = changed(directory.path(), |events| {
        let first = of(events, "kernel").next().unwrap()["name"].clone();
        for kernel in of(events, "kernel").filter(|kernel| kernel["name"] == first) {
            kernel["name"] = json!("another_kernel");
        }
    });
    let (code, found) = judged(&[TRACE, &after]);
    assert_eq!((code, failing(&found).as_slice()), (1, ["kernels"].as_slice()));
    let details = row(&found, "kernels")["details"].as_array().unwrap();
    assert!(details[0].as_str().unwrap().starts_with("new: `another_kernel`, "), "{details:?}");
    assert!(details[1].as_str().unwrap().starts_with("gone: `"), "{details:?}");
}

/// Three steps do not show how times scatter by so little.
#[test]
fn times_fail_only_beyond_scatter() {
    let directory = tempfile::tempdir().unwrap();
    let after = changed(directory.path(), |events| {
        for event in events.iter_mut().filter(|event| event["dur"].is_number()) {
            let first = 4.0e15;
            for key in ["ts", "dur"] {
                let value = event[key].as_f64().unwrap();
                let base = if key == "ts" { first } else { 0.0 };
                event[key] = json!(base + (value - base) * 3.0);
            }
        }
    });
    let (code, found) = judged(&[TRACE, &after, "--fail-if-slower", "5"]);
    assert_eq!(code, 1, "{found:#}");
    assert_eq!(failing(&found), [""; 0]);
    let slower: Vec<&str> =
        found["findings"].as_array().unwrap().iter().map(|text| text.as_str().unwrap()).collect();
    assert!(
        slower.iter().any(|text| text.contains("ProfilerStep") && text.contains(": slower, +")),
        "{slower:?}"
    );
    // Without a percentage they are shown, and not judged.
    let (code, found) = judged(&[TRACE, &after]);
    assert_eq!((code, found["times"][0]["outcome"].as_str()), (0, Some("not-judged")));
}

#[test]
fn reports_and_models_are_compared_by_what_they_hold() {
    let base = "fixtures/ncu/lm_raw_base.csv.zst";
    let (code, found) = judged(&["fixtures/ncu/lm_raw.csv.zst", "fixtures/ncu/lm_raw.csv.zst"]);
    assert_eq!((code, found["kind"].as_str()), (0, Some("report")), "{found:#}");
    let sum = flopgap(&["ncu", "kernels", "fixtures/ncu/lm_raw.csv.zst", "--format", "json"]);
    let sum = sum.json();
    let rows = found["amounts"].as_array().unwrap().iter().filter(|row| row["what"] == "flops");
    let flops: f64 = rows.map(|row| row["after"].as_f64().unwrap()).sum();
    assert_eq!(Some(flops), sum["total"]["flops"].as_f64());
    assert_eq!(judged(&[base, "fixtures/ncu/lm_raw.csv.zst", "--equal"]).0, 0);

    let models = ["fixtures/models/resnet18.pt2", "fixtures/models/resnet50.pt2"];
    let (code, found) = judged(&models);
    assert_eq!(code, 1);
    assert_eq!(failing(&found), ["layers", "flops", "bytes", "peak-memory", "parameters"]);
    assert_eq!(row(&found, "parameters")["after"].as_f64(), Some(25_610_152.0));
    assert!(row(&found, "layers")["details"][0].as_str().unwrap().contains(" layers before, "), "{found:#}");
    gate(&[models[0], base]).expect(2, &["only files of one kind are compared"]);
    gate(&[models[0], models[0], "--fail-if-slower", "1"]).expect(2, &["nothing else has times"]);
}

#[test]
fn a_baseline_is_saved_and_found() {
    let (directory, [store]) = flopgap_testing::paths(["kept"]);
    let store = ["--store", store.to_str().unwrap()];
    let with = |arguments: &[&str]| gate(&[arguments, &store].concat());
    with(&["--baseline", "main", TRACE]).expect(3, &["no baseline `main`", "--save main"]);
    with(&["--save", "main", TRACE]).expect(0, &["saved "]);
    with(&["--baseline", "main", TRACE]).expect(0, &[]).prints(&["PASSED"]);
    // Another file replaces it.
    with(&["--save", "main", "fixtures/models/resnet18.pt2"]).expect(0, &["saved "]);
    let files: Vec<PathBuf> = fs::read_dir(directory.path().join("kept/main"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    assert_eq!(files.len(), 1, "{files:?}");
    for name in ["../main", "", ".hidden", "a/b"] {
        with(&["--save", name, TRACE]).expect(2, &["invalid name"]);
    }
}

#[test]
fn commands_are_run_in_turns() {
    let (_directory, [log]) = flopgap_testing::paths(["log"]);
    let log = log.to_str().unwrap();
    let command = |name: &str, seconds: &str| format!("printf {name} >> '{log}'; sleep {seconds}");
    let (before, after) = (command("b", "0.02"), command("a", "0.2"));
    let run =
        |after: &str| judged(&["--run", &before, "--run", after, "--repeat", "6", "--fail-if-slower", "400"]);
    let (code, found) = run(&after);
    assert_eq!((code, found["verdict"].as_str()), (1, Some("failed")), "{found:#}");
    assert_eq!(fs::read_to_string(log).unwrap(), "babaabbaabbaab");
    assert_ne!(run(&before).1["verdict"], "failed");
    gate(&["--run", "true"]).expect(2, &["--run is given twice"]);
    gate(&["--run", "true", "--run", "echo no such thing >&2; exit 3"])
        .expect(1, &["exit status: 3", "no such thing"]);
}

#[test]
fn a_comment_and_a_test_suite_say_the_same() {
    let directory = tempfile::tempdir().unwrap();
    let after = changed(directory.path(), |events| {
        let again: Vec<Value> = of(events, "kernel").map(|kernel| kernel.clone()).collect();
        events.extend(again);
    });
    let comment = gate(&[TRACE, &after, "--format", "markdown"]);
    comment.expect(1, &[]).prints(&[
        "### flopgap gate: FAILED: ",
        "- launches: 48 before, 96 after",
        "| launches ",
    ]);
    let suite = gate(&[TRACE, &after, "--format", "junit"]);
    suite.expect(1, &[]).prints(&[
        "failures=\"2\"",
        "<testcase name=\"launches\"",
        "<failure message=\"launches: 48 before, 96 after\">",
    ]);
    let file = directory.path().join("gate.xml");
    gate(&[TRACE, &after, "-o", file.to_str().unwrap()]).expect(1, &["wrote "]);
    assert_eq!(fs::read_to_string(file).unwrap(), suite.stdout);
    gate(&[TRACE]).expect(2, &["two files are compared"]);
}

#[test]
fn what_is_not_known_is_undecided_unless_it_is_allowed() {
    let directory = tempfile::tempdir().unwrap();
    let after = changed(directory.path(), |events| {
        for product in events.iter_mut().filter(|event| event["name"] == "aten::mm") {
            product["args"].as_object_mut().unwrap().remove("Input Dims");
        }
    });
    let (code, found) = judged(&[TRACE, &after]);
    assert_eq!((code, found["verdict"].as_str()), (4, Some("undecided")), "{found:#}");
    assert_eq!(row(&found, "flops")["change"], "unknown");
    assert!(row(&found, "flops")["details"].to_string().contains("sizes of some operators"));
    assert_eq!(judged(&[TRACE, &after, "--allow", "flops"]).0, 0);
}

//! `flopgap FILE…`: the answer is that of the program that the note names.

use std::fs;

use flopgap_testing::Ended;

use crate::{command, flopgap};

const BENCH: &str = r#"{"device": "NVIDIA H200", "results": [{"impl": "coopmat", "size": "small", "precision": "fp16",
    "pass": "forward", "batch": 256, "timing": "gpu-graph", "median_us": 1.5, "p10_us": 1.25, "p90_us": 1.75,
    "tflops": 2.0, "gbps": 3.0, "floor_fraction": 0.125, "max_rel_error": 0.0001}]}"#;

/// The answer about files is that of a command, which is named.
#[track_caller]
fn is(files: &[&str], within: &[&str]) -> Ended {
    let answer = flopgap(files);
    let other = flopgap(within);
    assert_eq!(answer.code, 0, "{}", answer.stderr);
    assert_eq!(answer.stdout, other.stdout);
    assert!(!answer.stdout.is_empty());
    let note = format!("the same as `flopgap {}`", within.join(" "));
    assert!(answer.stderr.contains(&note), "{note} is not in\n{}", answer.stderr);
    let quiet = flopgap(&[&["-q"], files].concat());
    assert_eq!((quiet.code, &quiet.stdout), (0, &answer.stdout), "{}", quiet.stderr);
    assert!(!quiet.stderr.contains("the same as"), "{}", quiet.stderr);
    answer
}

#[test]
fn traces_are_taken_apart_or_summarized() {
    let file = "fixtures/nsys/two_gpus.sqlite.zst";
    let answer = is(&[file], &["nsys", "gap", file]);
    assert!(answer.stdout.starts_with("two_gpus on NVIDIA H200\n\n"), "{}", answer.stdout);
    assert_eq!(flopgap(&["gap", file]).stdout, answer.stdout);
    // One screen of a terminal.
    let lines: Vec<&str> = answer.stdout.lines().collect();
    assert!(lines.len() <= 40 && lines.iter().all(|line| line.chars().count() <= 100), "{}", answer.stdout);
    let answer = is(&["--all", file], &["nsys", "summary", file]);
    assert!(answer.stdout.starts_with("two_gpus\n════════\n"), "{}", answer.stdout);
    let ranks = ["fixtures/kineto/ddp_rank0.json.gz", "fixtures/kineto/ddp_rank1.json.gz"];
    let answer = is(&ranks, &["nsys", "gap", ranks[0], ranks[1]]);
    assert!(answer.stdout.starts_with("ddp_rank0 (2 ranks) on NVIDIA H200\n\n"), "{}", answer.stdout);
    assert!(answer.stdout.lines().count() <= 40, "{}", answer.stdout);
    let answer = is(&["--all", ranks[0], ranks[1]], &["nsys", "summary", ranks[0], ranks[1]]);
    assert!(answer.stdout.starts_with("ddp_rank0 (2 ranks)\n"), "{}", answer.stdout);
    let two = ["fixtures/nsys/small_forward.sqlite.zst", "fixtures/nsys/small_training_step.sqlite.zst"];
    let answer = is(&two, &["nsys", "gap", two[0], two[1]]);
    assert!(answer.stdout.starts_with("A: small_forward on NVIDIA H200\nB: small_training_step on "));
    assert!(answer.stdout.lines().count() <= 40, "{}", answer.stdout);
}

#[test]
fn a_language_model_is_estimated() {
    let file = "fixtures/language/llama-3-8b.json";
    is(&[file], &["calibrate", "estimate", "--machine", "h200", file])
        .prints(&["\nprefill  1 sequence of 1,024 tokens: "]);
}

#[test]
fn reports_are_shown_by_kernel_and_two_are_compared() {
    let files = ["fixtures/ncu/n10_d1024_m128_setup.csv.zst", "fixtures/ncu/n10_d1024_m128_forward.csv.zst"];
    is(&files[..1], &["ncu", "kernels", files[0]]);
    is(&files, &["ncu", "diff", files[0], files[1]]);
    let recorded = "fixtures/ncu/h200_range.ncu-rep";
    is(&[recorded], &["ncu", "kernels", recorded]);
}

#[test]
fn a_directory_of_reports_is_one_answer_and_two_are_compared() {
    let folder = tempfile::tempdir().unwrap();
    let directory = |name: &str, files: &[&str]| {
        let path = folder.path().join(name);
        fs::create_dir(&path).unwrap();
        for file in files {
            fs::copy(format!("../../fixtures/ncu/{file}"), path.join(file)).unwrap();
        }
        path.to_str().unwrap().to_owned()
    };
    let one = directory("one", &["n10_d1024_m128_setup.csv.zst", "h200_range.ncu-rep", "ORIGIN.md"]);
    let answer = is(&[&one], &["ncu", "kernels", &one]);
    answer.expect(0, &["left out 1 entry, not reports of ncu: ORIGIN.md"]).prints(&["2 files"]);
    let other = directory("other", &["n10_d1024_m128_forward.csv.zst"]);
    is(&[&one, &other], &["ncu", "diff", &one, &other]);
    // Another kind of file beside them is another question.
    fs::write(folder.path().join("one/bench.json"), BENCH).unwrap();
    flopgap(&[&one]).expect(3, &["a directory of several files", "name the files, such as "]);
}

#[test]
fn a_run_is_analyzed_and_left_as_it_is() {
    let run = "fixtures/runs/h200-small";
    let before = fs::read_dir(format!("../../{run}")).unwrap().count();
    is(&[run], &["profile", "analyze", "--no-files", run]).prints(&["epsilon"]);
    assert_eq!(fs::read_dir(format!("../../{run}")).unwrap().count(), before);
    let record = "fixtures/runs/h200-small/raw/n2_d256_m1.counts.json.zst";
    is(&[record], &["ncu", "kernels", record]);
}

#[test]
fn a_model_is_counted_and_estimated() {
    // One cache for all: the predictor of the machine is fitted once.
    let cache = tempfile::tempdir().unwrap();
    let flopgap = |arguments: &[&str]| Ended::of(command(arguments).env("XDG_CACHE_HOME", cache.path()));
    for model in ["fixtures/models/mlp.onnx", "fixtures/models/mlp.pt2"] {
        let (answer, counted) = (flopgap(&[model]), flopgap(&["calibrate", "flops", model]));
        let estimated = flopgap(&["calibrate", "estimate", "--machine", "h200", model]);
        assert_eq!(answer.stdout, format!("{}\n{}", counted.stdout, estimated.stdout));
        answer
            .expect(0, &["`flopgap calibrate flops ", "`flopgap calibrate estimate --machine h200 "])
            .prints(&["NVIDIA H200"]);
    }
    let answer = flopgap(&["fixtures/models/no-such.onnx"]);
    answer.expect(1, &["flopgap: error: fixtures/models/no-such.onnx: cannot be read"]);
}

#[test]
fn measurements_are_judged() {
    let table = "bins/model-calibrate/tests/it/data/branes_jetson_mlp.csv";
    is(&[table], &["calibrate", "report", "--no-fits", "--empirical", table]);
    // Sixteen thousand rows are not judged unless that is asked for.
    let recorded = "fixtures/calibration/h200.jsonl.zst";
    is(&[recorded], &["calibrate", "report", "--no-fits", "--empirical", recorded]);
    // A calibration without rows is one, and its own program says what is wrong.
    let (folder, [file]) = flopgap_testing::paths(["calibration.jsonl"]);
    fs::write(&file, "{\"format\":\"flopgap-calibration\",\"version\":9}\n").unwrap();
    let answer = flopgap(&[folder.path().to_str().unwrap()]);
    assert_ne!(answer.code, 0);
    answer.says(&["`flopgap calibrate report --no-fits --empirical ", "flopgap calibrate: error: "]);
}

#[test]
fn results_of_mlp_bench_are_shown_and_compared() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| {
        let path = folder.path().join(name);
        fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let (a, b) = (write("a.json", BENCH), write("b.json", &BENCH.replace("1.5,", "3.5,")));
    let answer = is(&[&a], &["bench", "show", &a]);
    answer.expect(0, &[]).prints(&["NVIDIA H200", "small (64-64-16), fp16", "coopmat"]);
    is(&[&a, &b], &["bench", "diff", &a, &b]);
}

#[test]
fn several_kinds_are_answered_under_headings_in_their_order() {
    let (model, report) = ("fixtures/models/mlp.onnx", "fixtures/ncu/n4_d512_m64_forward.csv");
    let answer = flopgap(&["--quiet", report, model]);
    answer.expect(0, &[]).prints(&[
        &format!("==> {report} <==\n"),
        &format!("\n==> {model} <==\n"),
        "split-k-reduce",
    ]);
    assert!(answer.stdout.find(report) < answer.stdout.find(model));
    assert!(!answer.stderr.contains("the same as"), "{}", answer.stderr);
}

#[test]
fn a_directory_of_traces_of_torch_profiler_is_one_job() {
    let folder = tempfile::tempdir().unwrap();
    for rank in 0..2 {
        let name = format!("ddp_rank{rank}.json.gz");
        fs::copy(format!("../../fixtures/kineto/{name}"), folder.path().join(name)).unwrap();
    }
    fs::write(folder.path().join("notes.txt"), "two ranks").unwrap();
    let answer = flopgap(&[folder.path().to_str().unwrap()]);
    answer.expect(0, &["`flopgap nsys gap "]).prints(&["2 steps are measured on each of 2 GPUs"]);
}

/// Whatever stands before the events: nothing looks at the first bytes alone.
#[test]
fn a_trace_is_recognized_behind_a_first_key_of_any_length() {
    let (_folder, [path]) = flopgap_testing::paths(["trace.json"]);
    let events = r#"[{"ph":"X","cat":"kernel","name":"gemm","pid":0,"tid":7,"ts":1,"dur":2,"args":{}}]"#;
    let text = format!("{{\"note\": \"{}\", \"traceEvents\": {events}}}", "]".repeat(100_000));
    fs::write(&path, text).unwrap();
    let answer = flopgap(&[path.to_str().unwrap()]);
    answer.expect(0, &["`flopgap nsys gap "]).prints(&["matrix"]);
}

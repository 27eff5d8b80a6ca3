//! Tables fit the terminal, in every command, without losing a number.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use flopgap_testing::Ended;

use crate::command;

/// Commands that print tables, over recorded files, and the headings of what they answer, which no
/// width takes away.
const COMMANDS: [(&str, &[&str]); 26] = [
    ("nsys kernels fixtures/nsys/small_training_step.sqlite.zst", &["kernel", "total (ns)", "share"]),
    (
        "nsys kernels fixtures/nsys/small_forward.sqlite.zst fixtures/nsys/small_training_step.sqlite.zst",
        &["kernel", "share A", "share B"],
    ),
    (
        "nsys kernels fixtures/kineto/ddp_rank0.json.gz fixtures/kineto/ddp_rank1.json.gz",
        &["kernel", "share A", "share B"],
    ),
    (
        "nsys passes fixtures/nsys/small_training_step.sqlite.zst",
        &["pass", "time", "median (ms)", "host (ms)", "projected (ms)", "GPU idle (ms)"],
    ),
    (
        "nsys stats fixtures/nsys/small_forward.sqlite.zst --report cuda_gpu_kern_sum",
        &["Time (%)", "Total Time (ns)", "Name"],
    ),
    ("nsys stats fixtures/nsys/small_forward.sqlite.zst --report nvtx_gpu_proj_trace", &["Name"]),
    ("nsys rules fixtures/nsys/small_forward.sqlite.zst", &["Duration (ns)"]),
    (
        "nsys compare fixtures/nsys/small_forward.sqlite.zst fixtures/nsys/small_training_step.sqlite.zst",
        &["work", "change (points)", "share A", "share B"],
    ),
    (
        "nsys diff fixtures/nsys/small_forward_backward.sqlite.zst fixtures/nsys/small_training_step.sqlite.zst",
        &["range", "kernel", "time", "change", "from", "to"],
    ),
    (
        "nsys attention fixtures/nsys/small_forward.sqlite.zst --batch 4 --heads 12 --seq 512 --head-dim 64",
        &["part", "own kernels (µs)", "achieved (TFLOP/s)", "ratio", "share"],
    ),
    (
        "nsys summary fixtures/nsys/small_training_step.sqlite.zst",
        &["kernel", "share", "host, all (ms)", "busy", "for (ms)", "range"],
    ),
    (
        "nsys summary fixtures/kineto/ddp_rank0.json.gz fixtures/kineto/ddp_rank1.json.gz",
        &["of", "exposed (ms)", "hidden", "slowest"],
    ),
    (
        "ncu overhead --layers 10 --width 1024 --columns 128 --setup fixtures/ncu/n10_d1024_m128_setup.csv.zst \
         --forward fixtures/ncu/n10_d1024_m128_forward.csv.zst \
         --forward-backward fixtures/ncu/n10_d1024_m128_forward_backward.csv.zst",
        &["class", "measured (FLOP)", "difference", "forward", "backward"],
    ),
    (
        "ncu diff fixtures/ncu/n10_d1024_m128_setup.csv.zst fixtures/ncu/n10_d1024_m128_forward.csv.zst",
        &["what", "change", "kernel"],
    ),
    ("ncu kernels fixtures/ncu/n10_d1024_m128_forward.csv.zst --by kernel", &["kernel", "work (FLOP)"]),
    (
        "profile analyze fixtures/runs/h200-pytorch --no-files",
        &["n", "d", "m", "pass", "epsilon", "rho", "kappa", "omega", "metric", "median"],
    ),
    ("validate single -n 10 -d 1024 -m 128 --no-ncu", &["class", "framework formula (FLOP)", "relative"]),
    (
        "validate single -n 10 -d 1024 -m 128 --counters fixtures/ncu/n10_d1024_m128_setup.csv.zst \
         fixtures/ncu/n10_d1024_m128_forward.csv.zst fixtures/ncu/n10_d1024_m128_forward_backward.csv.zst",
        &["class", "counters (FLOP)", "relative"],
    ),
    (
        "validate sweep fixtures/runs/h200-pytorch --no-plots -o OUT",
        &["n", "d", "m", "pass", "framework", "counted"],
    ),
    ("bench show OUT/before.json", &["pass", "batch", "implementation", "graph", "x forloop"]),
    (
        "bench diff OUT/before.json OUT/after.json",
        &["network", "batch", "implementation", "change", "verdict"],
    ),
    ("calibrate flops fixtures/models/resnet50.pt2", &["layer", "FLOPs"]),
    ("calibrate flops fixtures/models/resnet50.pt2 --by module", &["module", "FLOPs"]),
    ("calibrate estimate fixtures/models/resnet50.pt2 --machine h200", &["layer", "time (µs)", "share"]),
    (
        "calibrate fit bins/model-calibrate/tests/it/data/branes_jetson_mlp.csv",
        &["series", "MAPE", "beats baselines", "update to"],
    ),
    (
        "calibrate compare fixtures/calibration/xeon-native.jsonl.zst fixtures/calibration/xeon-native.jsonl.zst",
        &["config", "change", "intervals"],
    ),
];

fn printed(line: &str, width: Option<u16>, folder: &Path) -> Ended {
    let line = line.replace("OUT", folder.to_str().unwrap());
    let words: Vec<&str> = line.split_whitespace().collect();
    let mut command = command(&words);
    command.env("XDG_CACHE_HOME", folder).env("CUDA_VISIBLE_DEVICES", "").env_remove("COLUMNS");
    Ended::of(command.envs(width.map(|width| ("COLUMNS", width.to_string()))))
}

/// Results of `bench` with every column of its tables.
fn results(folder: &Path) {
    let measured = |name: &str, clock: &str, us: f64| {
        format!(
            r#"{{"impl": "{name}", "size": "small", "precision": "fp16", "pass": "forward", "batch": 1048576,
            "timing": "{clock}", "median_us": {us}, "p10_us": {us}, "p90_us": {us}, "tflops": 123.0,
            "gbps": 4321.0, "floor_fraction": 0.125, "max_rel_error": 0.0001}}"#
        )
    };
    for (name, us) in [("before", 1234.5), ("after", 1334.5)] {
        let all: Vec<String> = ["forloop", "coopmat", "pytorch-compiled"]
            .iter()
            .flat_map(|name| ["gpu-graph", "gpu-graph-cold", "cpu"].map(|clock| measured(name, clock, us)))
            .collect();
        let text = format!(r#"{{"device": "NVIDIA H200", "results": [{}]}}"#, all.join(","));
        fs::write(folder.join(format!("{name}.json")), text).unwrap();
    }
}

/// The headings, which stand above a rule with two spaces or more between them.
fn headings(text: &str) -> BTreeSet<&str> {
    let lines: Vec<&str> = text.lines().collect();
    let rules = lines.windows(2).filter(|pair| !pair[1].is_empty() && pair[1].chars().all(|c| c == '─'));
    rules.flat_map(|pair| pair[0].split("  ")).map(str::trim).filter(|heading| !heading.is_empty()).collect()
}

/// Which of the headings the notes below tables name; some have commas.
fn left_out<'a>(text: &str, headings: &BTreeSet<&'a str>) -> BTreeSet<&'a str> {
    let text = text.replace('\n', " ");
    let notes = text.split("Not shown in ").skip(1).filter_map(|rest| rest.split(". COLUMNS=").next());
    let mut found = BTreeSet::new();
    for (_, mut names) in notes.filter_map(|note| note.split_once(" columns: ")) {
        while !names.is_empty() {
            let ends = |rest: &str| rest.is_empty() || rest.starts_with(", ");
            let is_next = |heading: &&&str| names.strip_prefix(**heading).is_some_and(ends);
            let heading = headings.iter().filter(is_next).max_by_key(|heading| heading.len());
            let heading = *heading.unwrap_or_else(|| panic!("no heading begins `{names}`"));
            found.insert(heading);
            names = names[heading.len()..].trim_start_matches(", ");
        }
    }
    found
}

#[test]
fn no_line_is_longer_than_columns_says_and_the_answer_stays() {
    let folder = tempfile::tempdir().unwrap();
    results(folder.path());
    let mut wrong = Vec::new();
    for (line, answers) in COMMANDS {
        let wide = printed(line, None, folder.path());
        if wide.code != 0 {
            wrong.push(format!("{line}: {}", wide.stderr));
            continue;
        }
        // What programs read is never fitted.
        assert!(!wide.stdout.contains("Not shown in "), "{line}");
        let headings = headings(&wide.stdout);
        for answer in answers {
            assert!(headings.contains(answer), "{line}: {answer} is not in {headings:?}");
        }
        for width in [60_u16, 80] {
            let found = printed(line, Some(width), folder.path());
            // A name that is longer has a line of its own in a sentence, so that it can be copied.
            let is_long =
                |text: &&str| text.chars().count() > usize::from(width) && text.trim().contains(' ');
            for text in found.stdout.lines().filter(is_long) {
                wrong.push(format!("{line}: at {width}: {text}"));
            }
            // No letters one below the other: a few lines more for headings, notes and sentences.
            let (few, many) = (wide.stdout.lines().count(), found.stdout.lines().count());
            if many > few * 2 + 20 {
                wrong.push(format!("{line}: {many} lines at {width}, {few} otherwise"));
            }
            let text = found.stdout.replace('\n', " ");
            if text.matches("Not shown in ").count() != text.matches(" shows all.").count() {
                wrong.push(format!("{line}: no way to see all"));
            }
            let left_out = left_out(&found.stdout, &headings);
            for answer in answers.iter().filter(|answer| left_out.contains(*answer)) {
                wrong.push(format!("{line}: at {width}: without {answer}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn a_terminal_gets_no_markdown() {
    for line in [
        "nsys summary fixtures/nsys/small_training_step.sqlite.zst",
        "nsys passes fixtures/kineto/plain.json.gz",
    ] {
        let folder = tempfile::tempdir().unwrap();
        let found = printed(line, Some(80), folder.path()).stdout;
        for markup in ["\\_", "\\*", "\\<", "](", "**", "| ---"] {
            assert!(!found.contains(markup), "{line}: {markup}\n{found}");
        }
        assert!(!found.lines().any(|text| text.starts_with('#') || text.starts_with('|')), "{line}\n{found}");
    }
}

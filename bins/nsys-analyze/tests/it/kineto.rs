//! Traces of `torch.profiler` through the answers of exports of nsys. `fixtures/kineto/ORIGIN.md`
//! says what was recorded.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use serde_json::Value;

use flopgap_testing::Ended;

use crate::run;

fn fixture(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/kineto").join(name);
    path.to_str().unwrap().to_owned()
}

fn traces(command: &str, names: &[&str], options: &[&str]) -> Ended {
    let names: Vec<String> = names.iter().map(|name| fixture(name)).collect();
    let names = names.iter().map(String::as_str);
    run(&std::iter::once(command).chain(names).chain(options.iter().copied()).collect::<Vec<_>>())
}

fn json(command: &str, names: &[&str], options: &[&str]) -> Value {
    let output = traces(command, names, &[options, &["--format", "json"]].concat());
    output.succeeds_quietly();
    output.json()
}

/// Calls and nanoseconds of each kernel.
fn kernels(found: &Value) -> BTreeMap<String, (i64, i64)> {
    let rows = found["kernels"].as_array().unwrap().iter().map(|kernel| {
        let times = &kernel["times"];
        let whole = |key: &str| times[key].as_i64().unwrap();
        (kernel["name"].as_str().unwrap().to_owned(), (whole("count"), whole("total_ns")))
    });
    rows.collect()
}

#[test]
fn kernels_are_those_of_nsys_and_of_key_averages() {
    let of_profiler = json("kernels", &["layer.json.gz"], &[]);
    let found = kernels(&of_profiler);
    assert_eq!(found.values().map(|times| times.0).sum::<i64>(), 144);
    let table = flate2::read::GzDecoder::new(fs::File::open(fixture("layer.key_averages.csv.gz")).unwrap());
    let mut compared = 0;
    for row in csv::Reader::from_reader(table).records() {
        let row = row.unwrap();
        if let Some((calls, total)) = found.get(&row[0]) {
            let microseconds: f64 = row[4].parse().unwrap();
            assert_eq!(
                (row[3].parse(), (microseconds * 1e3).round()),
                (Ok(*calls), *total as f64),
                "{}",
                &row[0]
            );
            compared += 1;
        }
    }
    assert_eq!(compared, found.len());

    let (_folder, [export]) = flopgap_testing::paths(["layer.sqlite"]);
    flopgap_testing::unpack("kineto/layer_nsys.sqlite.zst", &export);
    let output = run(&["kernels", export.to_str().unwrap(), "--format", "json"]);
    let of_nsys = output.json();
    // The two spell names differently: `(anonymous namespace)` is `<unnamed>` to nsys.
    let by_class = |found: &Value| -> BTreeMap<(String, String), i64> {
        let mut calls = BTreeMap::new();
        for kernel in found["kernels"].as_array().unwrap() {
            let text = |key: &str| kernel[key].as_str().unwrap().to_owned();
            *calls.entry((text("short"), text("class"))).or_default() +=
                kernel["times"]["count"].as_i64().unwrap();
        }
        calls
    };
    assert_eq!(by_class(&of_profiler), by_class(&of_nsys));
    let of_nsys = kernels(&of_nsys);
    // Recorded in another run of the same program.
    let total =
        |found: &BTreeMap<String, (i64, i64)>| found.values().map(|times| times.1 as f64).sum::<f64>();
    let ratio = total(&found) / total(&of_nsys);
    assert!((0.95..1.05).contains(&ratio), "{ratio}");
}

#[test]
fn passes_are_those_that_were_marked() {
    let found = json("passes", &["layer.json.gz"], &[]);
    let passes = found["traces"][0]["passes"].as_array().unwrap();
    let names: Vec<&str> = passes.iter().map(|pass| pass["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["ProfilerStep#*", "forward_and_loss", "backward_pass", "Optimizer.step#AdamW.step"]);
    // From the file: ProfilerStep#3 lasts 4,134,737 ns and ProfilerStep#4 4,523,778 ns.
    assert_eq!(passes[0]["host"]["total_ns"], 4_134_737 + 4_523_778);
    let kernels: Vec<f64> = passes.iter().map(|pass| pass["gpu"]["kernels_mean"].as_f64().unwrap()).collect();
    assert_eq!(kernels, [48.0, 13.0, 27.0, 8.0]);
}

#[test]
fn passes_that_nobody_marked_are_derived() {
    let found = json("passes", &["plain.json.gz"], &["--with-warmup"]);
    let passes = found["traces"][0]["passes"].as_array().unwrap();
    let of = |pass: &Value| {
        (pass["name"].as_str().unwrap().to_owned(), pass["gpu"]["kernels_mean"].as_f64().unwrap())
    };
    let found: Vec<(String, f64)> = passes.iter().map(of).collect();
    let expected = [("forward", 14.0), ("backward", 26.0), ("Optimizer.step#AdamW.step", 8.0)];
    assert_eq!(found, expected.map(|(name, kernels)| (name.to_owned(), kernels)));
}

#[test]
fn the_ranks_of_a_job_are_answered_together() {
    let output = traces("summary", &["ddp_rank1.json.gz", "ddp_rank0.json.gz"], &[]);
    output.succeeds_quietly();
    for line in [
        "- ranks: 0, 1 of 2, by nccl",
        "- kernels: 384",
        "- `ProfilerStep#*`, mean time on the host: none of 2 stands out: 8.074 ms to 8.077 ms (median 8.075 ms).",
        "- Of the time of kernels that compute, rank 1, GPU 1 takes longest of 2: 1.850 ms (median 1.506 ms, least 1.162 ms).",
        "Communication and the time of each rank",
    ] {
        assert!(output.stdout.lines().any(|found| found == line), "{line}\n{}", output.stdout);
    }
    let folder = tempfile::tempdir().unwrap();
    for name in ["ddp_rank0.json.gz", "ddp_rank1.json.gz"] {
        fs::copy(fixture(name), folder.path().join(name)).unwrap();
    }
    fs::write(folder.path().join("notes.json"), "{\"a\": 1}").unwrap();
    let path = folder.path().to_str().unwrap();
    let kernels = run(&["kernels", path, "--format", "json"]);
    let kernels = kernels.json();
    let places = kernels["places"].as_array().unwrap();
    let of = |place: &Value| (place["place"]["rank"].as_i64(), place["place"]["gpu"].as_i64());
    assert_eq!(places.iter().map(of).collect::<Vec<_>>(), [(Some(0), Some(0)), (Some(1), Some(1))]);
    fs::copy(fixture("ddp_rank1.json.gz"), folder.path().join("again.json.gz")).unwrap();
    run(&["kernels", path]).expect(2, &["of rank 1, as "]);
}

#[test]
fn two_traces_are_compared() {
    traces("compare", &["plain.json.gz", "compile.json.gz"], &["--all"]).succeeds_quietly();
    let found = json("diff", &["plain.json.gz", "layer.json.gz"], &["--all"]);
    assert_eq!(found["same_work"], false);
    let both = json("kernels", &["layer.json.gz", "layer.json.gz"], &[]);
    assert!(both["kernels"].as_array().unwrap().iter().all(|pair| pair["a"] == pair["b"]));
    let same = json("diff", &["layer.json.gz", "layer.json.gz"], &[]);
    assert_eq!(same["same_work"], true);
}

#[test]
fn what_only_an_export_holds_is_said() {
    for (command, options, said) in [
        ("stats", &[][..], "a trace of torch.profiler, and reports of `nsys stats` are of exports of nsys"),
        ("rules", &[], "expert rules"),
        ("export", &["--format", "perfetto"], "is a timeline for Perfetto as it is"),
        (
            "attention",
            &["--batch", "8", "--heads", "8", "--seq", "256", "--head-dim", "64"],
            "no range is called",
        ),
    ] {
        let output = traces(command, &["layer.json.gz"], options);
        output.expect(3, &[said, "hint: "]);
        assert_eq!(output.stdout, "");
    }
    let (_folder, [path]) = flopgap_testing::paths(["cpu.json"]);
    let of_another = r#"[{"ph":"X","cat":"cpu_op","name":"aten::mm","pid":1,"tid":1,"ts":1,"dur":1,"args":{}},
        {"ph":"X","cat":"mtia_ccp_events","name":"wait","pid":1,"tid":1,"ts":1,"dur":1}]"#;
    fs::write(&path, of_another).unwrap();
    let output = run(&["kernels", path.to_str().unwrap()]);
    assert_eq!(output.code, 3, "{}", output.stderr);
    let said = "no kernel, copy or memset of a GPU; events of the category `mtia_ccp_events`, of another accelerator or tool, are not read";
    output.says(&[said]);
    fs::write(&path, &of_another[..150]).unwrap();
    run(&["kernels", path.to_str().unwrap()]).expect(1, &["cpu.json:2:63: the trace is cut off here"]);
}

#[test]
fn a_directory_of_both_is_a_batch() {
    let folder = tempfile::tempdir().unwrap();
    fs::copy(fixture("plain.json.gz"), folder.path().join("plain.pt.trace.json.gz")).unwrap();
    flopgap_testing::unpack("kineto/layer_nsys.sqlite.zst", folder.path().join("layer.sqlite"));
    let output = folder.path().join("out");
    run(&[
        "batch",
        folder.path().to_str().unwrap(),
        "--output",
        output.to_str().unwrap(),
        "--format",
        "markdown",
    ])
    .expect(0, &[]);
    let page = fs::read_to_string(output.join("plain_summary.md")).unwrap();
    assert!(page.contains("recorded by torch.profiler"), "{page}");
    assert!(output.join("layer_cuda_gpu_kern_sum.csv").exists());
}

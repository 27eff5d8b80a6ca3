//! `flopgap nsys summary` on recorded traces, against figures that nsys itself printed for them.

use std::fs;

use serde_json::Value;

use crate::{golden, run, trace};

pub(crate) fn json(arguments: &[&str]) -> Value {
    let mut all = vec!["summary"];
    all.extend(arguments);
    all.extend(["--format", "json"]);
    let output = run(&all);
    assert_eq!(output.code, 0, "{}", output.stderr);
    output.json()
}

pub(crate) fn section<'a>(page: &'a Value, heading: &str) -> &'a Value {
    let sections = page["sections"].as_array().unwrap();
    let found = sections.iter().find(|section| section["heading"] == heading);
    found.unwrap_or_else(|| panic!("no section `{heading}`: {page}"))
}

/// The rows of the table of a section whose title begins like this.
pub(crate) fn rows<'a>(section: &'a Value, title: &str) -> &'a Vec<Value> {
    let tables = section["tables"].as_array().unwrap();
    let found = tables.iter().find(|table| table["title"].as_str().unwrap().starts_with(title));
    found.unwrap_or_else(|| panic!("no table `{title}`: {section}"))["rows"].as_array().unwrap()
}

/// A column of one of nsys's CSV reports, for the rows whose last or first field is `name`. Names
/// with commas are not looked for.
fn nsys(report: &str, name: &str, column: &str) -> f64 {
    let text = golden(report);
    let header: Vec<&str> = text.lines().next().unwrap().split(',').collect();
    let at = header.iter().position(|title| *title == column).unwrap();
    let mut named = text
        .lines()
        .filter(|line| line.starts_with(&format!("{name},")) || line.ends_with(&format!(",{name}")));
    named.next().unwrap_or_else(|| panic!("{name}")).split(',').nth(at).unwrap().parse().unwrap()
}

#[test]
fn every_answer_agrees_with_nsys() {
    let (_folder, path) = trace("small_forward");
    let page = json(&[&path, "--timeit", "14.02,13.93"]);

    // (a) The passes: two steps after the warm-up.
    let projected = |step: &str| nsys("small_forward/nvtx_gpu_proj_sum.csv", step, "Total Proj Time (ns)");
    let host = |step: &str| nsys("small_forward/nvtx_gpu_proj_sum.csv", step, "Total Range Time (ns)");
    let passes = rows(section(&page, "Steps and passes"), "Passes of ");
    let row = |time: &str| passes.iter().find(|row| row["pass"] == "step_*" && row["time"] == time).unwrap();
    let close = |found: &Value, expected: f64| {
        let found = found.as_f64().unwrap();
        assert!((found - expected).abs() < 1e-9, "{found} {expected}");
    };
    close(&row("host")["mean_ms"], (host(":step_0") + host(":step_1")) / 2e6);
    close(&row("GPU projected")["mean_ms"], (projected(":step_0") + projected(":step_1")) / 2e6);
    let answers: Vec<&str> =
        page["sections"][0]["text"].as_array().unwrap().iter().map(|text| text.as_str().unwrap()).collect();
    // What limits a step comes before what else there is to say.
    let gap = run(&["gap", &path, "--format", "json"]).json();
    assert_eq!(gap["sentences"][0], answers[0]);
    let rest = answers.iter().position(|text| *text == "What else the trace says:").unwrap();
    let first = answers[rest + 1];
    assert!(
        first.contains("0.04% more than the 13.975 ms measured outside") && first.contains("agree"),
        "{answers:?}"
    );

    // (b, c) The kernels of the forward pass: those of nsys but for the warm-up, which ran the same
    // pass once more.
    let kernels = section(&page, "Kernels");
    let top = &rows(kernels, "Kernels launched within `forward`")[0];
    let name = golden("small_forward/cuda_gpu_kern_sum.csv")
        .lines()
        .nth(1)
        .unwrap()
        .rsplit(',')
        .next()
        .unwrap()
        .to_owned();
    let all = nsys("small_forward/cuda_gpu_kern_sum.csv", &name, "Instances");
    close(&top["calls"], all * 2.0 / 3.0);
    let others = rows(kernels, "Kernels of `forward` other than matrix products");
    assert!(others.iter().all(|row| row["class"] != "matmul") && !others.is_empty());

    // (d) The shares of a step add up to everything that ran in it.
    let work = rows(section(&page, "GPU time by kind of work"), "Sums");
    let sum: f64 = work.iter().map(|row| row["share"].as_f64().unwrap()).sum();
    assert!((sum - 1.0).abs() < 1e-12, "{sum}");

    // Memory and API are nsys's reports.
    let memory = &rows(section(&page, "Memory operations"), "Time")[0];
    assert_eq!((&memory["Total Time (ns)"], &memory["Count"]), (&34_994_468.into(), &124.into()));
    let api = &rows(section(&page, "CUDA API calls"), "Host")[0];
    let call = api["Name"].as_str().unwrap();
    close(&api["Total Time (ns)"], nsys("small_forward/cuda_api_sum.csv", call, "Total Time (ns)"));

    // Busy: the union of all that ran, at most the sum of it; the longest rest is the one that
    // nsys's rule finds.
    let idle = section(&page, "GPU busy and idle");
    let gpu = &rows(idle, "From")[0];
    let ms = |key: &str| gpu[key].as_f64().unwrap();
    assert!(ms("busy_ms") <= ms("kernels_ms") + ms("copies_ms") + ms("sets_ms") + 1e-9);
    close(&gpu["idle_ms"], ms("extent_ms") - ms("busy_ms"));
    let rule = golden("small_forward/rule_gpu_gaps.csv");
    let gap: f64 = rule.lines().nth(1).unwrap().split(',').nth(1).unwrap().parse().unwrap();
    close(&rows(idle, "The longest")[0]["length_ms"], gap / 1e6);

    let facts = &section(&page, "What was recorded")["facts"];
    assert_eq!(
        (&facts["GPU"], &facts["exported by nsys"]),
        (&"NVIDIA H200 (0)".into(), &"2025.3.2.0".into())
    );
    assert_eq!((&facts["ranges"], &facts["recorded for"]), (&"150".into(), &"9.578 s".into()));
    assert_eq!(facts["program"], "python3 lm.py --mode forward --steps 2 --warmup 1");
}

#[test]
fn attention_has_flops_when_sizes_are_given() {
    let (_folder, path) = trace("small_forward");
    let sizes = ["--batch", "4", "--heads", "12", "--seq", "512", "--head-dim", "64"];
    let mut arguments = vec![path.as_str()];
    arguments.extend(sizes);
    let page = json(&arguments);
    let parts = rows(section(&page, "Attention"), "Attention, one layer");
    // 2 B H S^2 D, and 5 B H S^2.
    let flops: Vec<u64> = parts.iter().map(|row| row["flops"].as_u64().unwrap()).collect();
    assert_eq!(flops, [1_610_612_736, 62_914_560, 1_610_612_736]);
    // Some of the sizes are none.
    assert_eq!(run(&["summary", &path, "--batch", "4"]).code, 2);
    assert_eq!(run(&["summary", &path, "--seq", "4"]).code, 2);

    let without = json(&[&path]);
    let ranges = rows(section(&without, "Attention"), "GPU time");
    assert_eq!(ranges.len(), 3);
    assert_eq!(ranges[1]["instances"], 24);
}

#[test]
fn inference_and_training_are_compared() {
    let (_a, forward) = trace("small_forward");
    let (_b, training) = trace("small_training_step");
    let page = json(&[&forward, &training]);
    let work = rows(section(&page, "A against B"), "GPU time by kind of work");
    let matmul = work.iter().find(|row| row["work"] == "matmul").unwrap();
    let [a, b] = ["share_a", "share_b"].map(|key| matmul[key].as_f64().unwrap());
    assert!(a > b && b > 0.5, "{a} {b}");
    let optimizer = work.iter().find(|row| row["work"] == "optimizer").unwrap();
    assert!(optimizer["share_a"] == 0.0 && optimizer["share_b"].as_f64() > Some(0.01));
    for heading in ["small_forward: Kernels", "small_training_step: Kernels", "small_training_step: Timeline"]
    {
        section(&page, heading);
    }
    let kernels = section(&page, "small_training_step: Kernels");
    assert!(!rows(kernels, "Kernels launched within `step_*`").is_empty());
}

#[test]
fn what_is_missing_is_skipped_with_the_reason() {
    let (_folder, path) = trace("nvtx_only");
    let page = run(&["summary", &path]);
    page.expect(0, &[]).prints(&["SKIPPED: kernels, their shares, attention", "WSL2"]);
    assert!(page.stdout.contains("\nSteps and passes\n─") && !page.stdout.contains("\nKernels\n─"));
    assert!(!page.stdout.contains("GPU busy"), "nothing is said about what was not recorded");

    // Neither ranges nor kernels.
    let (_folder, path) = trace("graph_nodes");
    run(&["summary", &path]).expect(0, &[]).prints(&["SKIPPED: ", "\nKernels\n─"]);
}

/// The recorded inference under the names of a program for language models; `--range` measures what
/// its names do not say.
#[test]
fn programs_of_language_models_and_ranges_by_name() {
    let (_folder, path) = trace("small_forward");
    rusqlite::Connection::open(&path)
        .unwrap()
        .execute_batch(
            "UPDATE NVTX_EVENTS SET text = 'execute_model' WHERE text LIKE 'step%';
             UPDATE NVTX_EVENTS SET text = 'decode_step_' || rowid WHERE text = 'forward';
             UPDATE NVTX_EVENTS SET text = 'blocks.' || (rowid % 12) WHERE text = 'scaled_dot_product_attention';",
        )
        .unwrap();
    let found = json(&[&path]);
    let passes = rows(section(&found, "Steps and passes"), "Passes");
    let names: Vec<&str> = passes.iter().map(|row| row["pass"].as_str().unwrap()).collect();
    assert!(names.contains(&"execute_model") && names.contains(&"decode_step_*"), "{names:?}");
    let kernels = rows(section(&found, "Kernels"), "Kernels launched within `decode_step_*` (2 instances)");
    assert_eq!(kernels[0]["calls"], 122);
    let ranges = rows(section(&found, "Ranges"), "Ranges by time");
    let row = |name: &str| ranges.iter().find(|row| row["range"] == name).unwrap();
    assert_eq!((&row("execute_model")["kind"], &row("execute_model")["n"]), (&"step".into(), &2.into()));
    assert_eq!((&row("blocks.*")["n"], &row("blocks.*")["n_gpu"]), (&24.into(), &24.into()));

    let found = json(&[&path, "--range", "blocks.*", "--range", "computing_softmax"]);
    let passes = rows(section(&found, "The requested ranges"), "Passes");
    let names: Vec<&str> = passes.iter().map(|row| row["pass"].as_str().unwrap()).collect();
    assert_eq!((names[0], names[names.len() - 1]), ("blocks.*", "computing_softmax"));
    // Softmax lies within attention: its kernels count once.
    let kernels = rows(
        section(&found, "Kernels"),
        "Kernels launched within `blocks.*, computing_softmax` (24 instances)",
    );
    assert!(kernels.iter().any(|row| row["class"] == "softmax" && row["calls"] == 24), "{kernels:?}");
    // Two traces are compared by the same ranges.
    let two = run(&["summary", &path, &path, "--range", "blocks.*"]).stdout;
    assert!(two.contains("A: one `blocks.*` (mean of 24); B: one `blocks.*` (mean of 24)."), "{two}");
    run(&["summary", &path, "--range", "block"]).refuses(3, &["no range is called `block`"]);
}

#[test]
fn the_html_page_is_whole_and_loads_nothing() {
    let (folder, path) = trace("small_training_step");
    let output = folder.path().join("page.html");
    run(&["summary", &path, "--output", output.to_str().unwrap()]).refuses(0, &[]);
    let html = fs::read_to_string(&output).unwrap();
    assert!(html.contains("content=\"default-src 'none'") && html.len() < 2_000_000, "{}", html.len());
    assert_eq!(html.matches("role=\"img\"").count(), 1, "the bar");
    assert_eq!(html.matches("<figure class=\"chart timeline\"").count(), 1);
    for wanted in ["Host: ranges", "GPU 0: what ran", "<code>backward</code>", "multi_tensor_apply_kernel"] {
        assert!(html.contains(wanted), "{wanted}");
    }
    let html = html
        .replace("xmlns=\"http://www.w3.org/2000/svg\"", "")
        .replace("/*! https://github.com/leeoniya/uPlot", "")
        // Patterns of the page itself.
        .replace("url(#", "");
    for loads in ["http:", "https:", "src=", "<link", "@import", "url("] {
        assert!(!html.contains(loads), "{loads}");
    }
}

#[test]
fn every_trace_has_its_answers_however_many_there_are() {
    let (_folder, path) = trace("two_gpus");
    let one = run(&["summary", &path]).stdout;
    let answer = one.lines().find(|line| line.starts_with("- Over the whole recording")).unwrap();
    let many = run(&[&["summary"][..], &[path.as_str(); 30]].concat()).stdout;
    assert_eq!(many.lines().filter(|line| *line == answer).count(), 30);
}

#[test]
fn bad_input_is_named() {
    assert_eq!(run(&["summary"]).code, 2);
    assert_eq!(run(&["summary", "no-such.sqlite"]).code, 1);
    let (_folder, path) = trace("small_forward");
    run(&["summary", &path, "--timeit", "no-such-file"]).expect(1, &["no-such-file"]);
}

/// The sums of 24 matched kernels, computed from the events of both ranks in Python.
#[test]
fn collectives_have_their_bandwidths() {
    let ranks = [0, 1].map(|rank| {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/advice");
        format!("{folder}/late-reduction.before.rank{rank}.json.zst")
    });
    let page = json(&[&ranks[0], &ranks[1]]);
    let answers = page["sections"][0]["text"].as_array().unwrap();
    let sentence = "24 allreduce of 33.6 MB between 2 ranks take 3.261 ms after the last rank arrived: 247 GB/s of the \
        message, 247 GB/s on the bus, 54.9% of the 450 GB/s that NVLink 4 allows at most, by its data sheet.";
    assert!(answers.iter().any(|answer| answer == sentence), "{answers:?}");
    let rows = rows(section(&page, "Communication and the time of each rank"), "Collectives by size");
    let row = |bytes: u64| rows.iter().find(|row| row["bytes"] == bytes).unwrap();
    for (bytes, calls, microseconds) in [(33_554_432, 24, 3261.329), (524_288, 3, 30.722)] {
        let row = row(bytes);
        assert_eq!((&row["collective"], &row["ranks"]), (&Value::from("allreduce"), &Value::from(2)));
        assert_eq!(row["collectives"], calls);
        let transfer = row["transfer_ms"].as_f64().unwrap() * 1e3;
        assert!((transfer - microseconds).abs() < 0.1, "{transfer}");
        // Two ranks send the message once each.
        assert_eq!(row["algorithm_bandwidth"], row["bus_bandwidth"]);
        let bandwidth = bytes as f64 * f64::from(calls) / microseconds / 1e3;
        assert!((row["bus_bandwidth"].as_f64().unwrap() - bandwidth).abs() < 0.1, "{row}");
    }
}

//! The commands that answer a question: exact output, formats, exit codes.

use std::fs;

use rusqlite::{Connection, OpenFlags};
use serde_json::Value;

use crate::{run, trace};

fn json(arguments: &[&str]) -> Value {
    let output = run(&[arguments, &["--format", "json"]].concat());
    assert_eq!(output.code, 0, "{}", output.stderr);
    output.json()
}

/// One whole number, asked for in SQL.
fn number(path: &str, query: &str) -> i64 {
    let sql = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_ONLY).unwrap();
    sql.query_row(query, [], |row| row.get(0)).unwrap()
}

/// From the rows of the recording: `step_0` lasts 14,024,068 ns and `step_1` 13,936,154 ns, their
/// work begins 126,518 and 94,667 ns after them and ends 411,646 and 398,303 ns before them.
#[test]
fn passes_against_timeit() {
    let (folder, path) = trace("small_forward");
    let output = run(&["passes", &path, "--timeit", "14.02,13.93"]);
    output.succeeds_quietly();
    for line in [
        "step_*     host           2     13.980       13.980    13.936    14.024        0.062",
        "forward    host           2      7.425        7.425     7.371     7.479        0.077",
        "(outside)  measured       2     13.975       13.975    13.930    14.020        0.064",
        "`step_*` takes 13.980 ms on the host (mean of 2), 0.04% more than the 13.975 ms measured outside (mean of 2): they agree.",
        "Left out as warming up: what lies in `warmup`.",
    ] {
        assert!(output.stdout.lines().any(|found| found == line), "{line}\n{}", output.stdout);
    }

    let file = folder.path().join("timeit.csv");
    fs::write(&file, "step,time_ms,other\n0,14.02,x\n1,13.93,y\n").unwrap();
    let file = file.to_str().unwrap();
    let found = json(&["passes", &path, "--timeit", file, "--timeit-column", "time_ms"]);
    let found = &found["traces"][0];
    assert_eq!(found["measured"]["mean_ns"], 13_975_000.0);
    let step = &found["passes"][0];
    assert_eq!((&step["name"], &step["kind"]), (&"step_*".into(), &"step".into()));
    assert_eq!(step["gpu"]["lead"]["total_ns"], 126_518 + 94_667);
    assert_eq!(step["gpu"]["tail"]["total_ns"], -411_646 - 398_303);
    assert_eq!(step["against"]["host_difference_ns"], 5_111.0);

    run(&["passes", &path, "--timeit", file]).expect(1, &["several columns hold numbers (step, time_ms)"]);
    run(&["passes", &path, "--timeit", "no-such-file.csv"])
        .expect(1, &["no-such-file.csv: ", "hint: --timeit takes milliseconds"]);
    assert_eq!(run(&["passes", &path, "--timeit", "1", "--timeit", "2"]).code, 2);
}

#[test]
fn passes_of_what_the_trace_has() {
    let (_one, training) = trace("small_training_step");
    let (_other, annotated) = trace("nvtx_only");
    let csv = run(&["passes", &training, "--range", "backward", "--range", "optimizer", "--format", "csv"]);
    let tables: Vec<&str> = csv.stdout.split("\n\n").collect();
    assert_eq!(tables.len(), 2);
    assert_eq!(tables[0].lines().next(), Some("pass,time,n,mean_ms,median_ms,min_ms,max_ms,stddev_ms"));
    assert!(tables[1].lines().nth(2).unwrap().starts_with("optimizer,2.4048695,"), "{}", tables[1]);

    run(&["passes", &training, &annotated, "--timeit", "40.79,40.91", "--timeit", "14.02,13.93"])
        .expect(0, &["no GPU times: ", "does not contain CUDA API data"])
        .prints(&["Passes of small_training_step\n", "Passes of nvtx_only\n"]);

    let (_third, streams) = trace("streams_domains");
    run(&["passes", &streams]).refuses(3, &["no range marks a step, forward, backward or optimizer pass"]);
    assert_eq!(run(&["passes", &training, "--warmup", "2"]).code, 3);
    run(&["passes", &streams, "--range", "model:registered_step"])
        .expect(0, &[])
        .prints(&["Nothing is left out as warming up."]);
}

#[test]
fn two_traces_side_by_side() {
    let (_a, forward) = trace("small_forward");
    let (_b, both) = trace("small_forward_backward");
    run(&["kernels", &forward, &both, "--range", "step_*", "--top", "2"])
        .expect(0, &[])
        .prints(&["\nIt is the same kernel in both: sm80_xmma_gemm fp32 tn 128x128x8.\n"]);
    let found = json(&["kernels", &forward, &both, "--range", "step_*", "--exclude", "matmul", "--top", "1"]);
    let pair = &found["kernels"][0];
    assert_eq!((&pair["a"]["times"]["count"], &pair["b"]["times"]["count"]), (&24.into(), &48.into()));
    let text = run(&["kernels", &forward, "--range", "forward", "--exclude", "matmul,gemv"]).stdout;
    assert!(text.contains("These kernels take "), "{text}");
    run(&["kernels", &forward, "--exclude", "matmul,copy,softmax,norm,elementwise,index,random"])
        .expect(3, &[]);
}

/// The optimizer is known by its range, and everything else by name; shares add up.
#[test]
fn inference_and_training_compared() {
    let (_a, forward) = trace("small_forward");
    let (_b, training) = trace("small_training_step");
    let found = json(&["compare", &forward, &training]);
    let rows = found["rows"].as_array().unwrap();
    let row = |work: &str| rows.iter().find(|row| row["work"] == work).unwrap();
    let optimizer = number(
        &training,
        "SELECT sum(k.end - k.start) FROM NVTX_EVENTS n
         JOIN CUPTI_ACTIVITY_KIND_RUNTIME r ON r.globalTid = n.globalTid AND r.start >= n.start AND r.end <= n.end
         JOIN CUPTI_ACTIVITY_KIND_KERNEL k ON k.correlationId = r.correlationId
         WHERE n.text = 'optimizer' AND n.start > 7443140244",
    );
    assert_eq!(row("optimizer")["total_ns"][1], optimizer as f64 / 2.0);
    assert_eq!(row("matmul")["calls"], serde_json::json!([97.0, 291.0]));
    for side in 0..2 {
        let sum: f64 = rows.iter().map(|row| row["share"][side].as_f64().unwrap()).sum();
        assert!((sum - 1.0).abs() < 1e-12);
    }
    let text = run(&["compare", &forward, &training]).stdout;
    assert!(
        text.contains("Matrix products take 81.4% of the GPU's work in A and 78.5% in B (-2.9 points)."),
        "{text}"
    );
    assert!(text.contains("Kernels launched within `optimizer` count as optimizer"), "{text}");

    let whole = json(&["compare", &forward, &training, "--all"]);
    let copies = number(&forward, "SELECT sum(end - start) FROM CUPTI_ACTIVITY_KIND_MEMCPY");
    let row = whole["rows"].as_array().unwrap().iter().find(|row| row["work"] == "memcpy").unwrap();
    assert_eq!(row["total_ns"][0], copies as f64);

    run(&["compare", &forward, &training, "--range-a", "forward", "--range-b", "step_*"])
        .prints(&["A is one `forward` (mean of 2)"]);
    assert_eq!(run(&["compare", &forward, &training, "--range-a", "forward"]).code, 2);
    assert_eq!(run(&["compare", &forward, &training, "--range", "backward"]).code, 3);
    let (_c, annotated) = trace("nvtx_only");
    assert_eq!(run(&["compare", &forward, &annotated]).code, 3);
}

const SIZES: [&str; 8] = ["--batch", "4", "--heads", "12", "--seq", "512", "--head-dim", "64"];

#[test]
fn attention_of_the_recorded_model() {
    let (_folder, path) = trace("small_forward");
    let found = json(&[&["attention", path.as_str()][..], &SIZES].concat());
    // 2 * 4 * 12 * 512^2 * 64 and 5 * 4 * 12 * 512^2.
    assert_eq!(found["scores"]["flops"], 1_610_612_736_u64);
    assert_eq!(found["softmax"]["flops"], 62_914_560);
    let softmax = number(
        &path,
        "SELECT sum(k.end - k.start) FROM NVTX_EVENTS n
         JOIN CUPTI_ACTIVITY_KIND_RUNTIME r ON r.globalTid = n.globalTid AND r.start >= n.start AND r.end <= n.end
         JOIN CUPTI_ACTIVITY_KIND_KERNEL k ON k.correlationId = r.correlationId
         WHERE n.text = 'computing_softmax' AND n.start > 8636928813",
    );
    assert_eq!(found["softmax"]["own_ns"], softmax as f64 / 24.0);
    let text = run(&[&["attention", path.as_str()][..], &SIZES].concat()).stdout;
    assert!(
        text.contains(
            "The two matrix products need 51.2 times the FLOPs of softmax and take 2.92 times its time"
        ),
        "{text}"
    );
    assert!(text.contains("The range `computing_attention_scores` holds more than QK^T: 68.6%"), "{text}");

    run(&[&["attention", path.as_str(), "--softmax", "soft"][..], &SIZES].concat())
        .expect(3, &["no range is called `soft`"]);
    assert_eq!(run(&["attention", &path]).code, 2);
    let (_other, annotated) = trace("nvtx_only");
    assert_eq!(run(&[&["attention", annotated.as_str()][..], &SIZES].concat()).code, 3);
}

#[test]
fn a_gate_for_ci() {
    let (_a, before) = trace("small_forward_backward");
    let (_b, after) = trace("small_training_step");
    let same = run(&["diff", &before, &before, "--fail-if-slower", "0", "--min-total-us", "0"]);
    same.succeeds_quietly();
    let slower = run(&["diff", &before, &after, "--fail-if-slower", "3"]);
    assert_eq!(slower.code, 1);
    // (36,830,706 + 36,844,594 ns) / 2 before, (38,500,310 + 38,493,747 ns) / 2 after, copies and
    // sets included. On the host two steps scatter too much.
    for line in [
        "nsys-analyze: error: slower, and by 3% or more is not excluded:",
        "  one `step_*`, GPU busy time: 36.838 ms before, 38.497 ms after (+4.5%, from +4.3% to +4.7%)",
        "nsys-analyze: warning: scatter may hide that it is slower by 3%:",
        "  one `step_*`, period (too few to tell)",
    ] {
        assert!(slower.stderr.lines().any(|found| found == line), "{line}\n{}", slower.stderr);
    }
    // The optimizer is new: that is said, and fails when asked.
    let warned = "nsys-analyze: warning: The traces do not hold the same work in one `step_*`: ";
    assert!(slower.stderr.lines().any(|line| line.starts_with(warned)), "{}", slower.stderr);
    assert!(
        slower.stdout.contains("\nOne `step_*`\n") || slower.stdout.starts_with("One `step_*`\n"),
        "{}",
        slower.stdout
    );
    run(&["diff", &before, &after, "--fail-if-work-differs"])
        .expect(1, &["error: The traces do not hold the same work"]);
    assert_eq!(run(&["diff", &before, &before, "--fail-if-work-differs"]).code, 0);
    // Nor does a reader that went away let it pass.
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let gate = std::process::Command::new(assert_cmd::cargo::cargo_bin("nsys-analyze"))
        .args(["diff", &before, &after, "--fail-if-slower", "3"])
        .stdout(writer)
        .output();
    assert_eq!(gate.unwrap().status.code(), Some(1));
    // One period each, and a whole trace, show no scatter: that is no verdict.
    for (by, percent, code) in [("wall", "4", 0), ("busy", "4", 1), ("busy", "5%", 0), ("period", "4", 4)] {
        let gate = ["diff", &before, &after, "--fail-if-slower", percent, "--judge-by", by];
        assert_eq!(run(&gate).code, code, "{by}");
    }
    run(&["diff", &before, &after, "--all", "--fail-if-slower", "4"])
        .expect(4, &["error: cannot tell whether it is slower"]);
    let other = ["diff", &before, &after, "--all", "--fail-if-slower", "4", "--fail-if-work-differs"];
    assert_eq!(run(&other).code, 1);
    assert_eq!(run(&["diff", &before, &after, "--judge-by", "busy"]).code, 2);
    assert_eq!(run(&["diff", &before, &after, "--fail-if-slower", "much"]).code, 2);

    let found = json(&["diff", &before, &after]);
    assert_eq!(found["instances"], serde_json::json!([2, 2]));
    assert_eq!((&found["slower"], &found["undecided"]), (&serde_json::json!([]), &serde_json::Value::Null));
    assert_eq!(found["judged"][1]["samples"][0]["count"], 2);
    let new = found["kernels"].as_array().unwrap().iter().filter(|kernel| kernel["time"]["before"].is_null());
    assert!(new.count() > 0);
    let markdown = run(&["diff", &before, &after, "--format", "markdown", "--top", "2"]).stdout;
    assert!(markdown.contains("| kernel |"), "{markdown}");
    let (_c, annotated) = trace("nvtx_only");
    assert_eq!(run(&["diff", &before, &annotated]).code, 3);
}

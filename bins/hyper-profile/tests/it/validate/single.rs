//! `flopgap validate single`.

use serde_json::json;

use super::{PRODUCT, fixture, rows, run, run_directory, trace};

fn reports() -> [String; 3] {
    ["setup", "forward", "forward_backward"]
        .map(|stage| fixture(&format!("ncu/n10_d1024_m128_{stage}.csv.zst")))
}

#[test]
fn trace_counters_and_theory_side_by_side() {
    let [setup, forward, whole] = reports();
    let output =
        run(&["single", "--kineto", &trace(), "--ncu", &setup, &forward, &whole, "--format", "json"]);
    output.succeeds_quietly();
    let json = output.json();
    assert_eq!(json["config"], json!({ "layers": 10, "width": 1024, "columns": 128 }));
    let elements = 1024 * 128;
    // Theory: ten products and ten activations; backward nineteen products and 2·10−1 activations.
    assert_eq!(json["forward"]["theory"]["gemm"], 10 * PRODUCT);
    assert_eq!(json["forward"]["theory"]["activation"], 10 * elements);
    assert_eq!(json["backward"]["theory"]["gemm"], 19 * PRODUCT);
    assert_eq!(json["backward"]["theory"]["activation"], 19 * elements);
    // The framework: the products, and of nothing else does it say anything.
    let only_products = |count: u64| json!({ "gemm": count * PRODUCT, "split_k": null, "activation": null, "other": null, "total": count * PRODUCT });
    assert_eq!(json["forward"]["framework"], only_products(10));
    assert_eq!(json["backward"]["framework"], only_products(19));
    // The counters: fadd + fmul + 2 ffma of the reports, added up outside of this program.
    assert_eq!(
        json["forward"]["counters"],
        json!({ "gemm": 2_684_354_560_u64, "split_k": 13_107_200, "activation": 20_969_629, "other": 0, "total": 2_718_431_389_u64 })
    );
    assert_eq!(
        json["backward"]["counters"],
        json!({ "gemm": 5_130_682_368_u64, "split_k": 10_824_176, "activation": 3_932_160, "other": 0, "total": 5_145_438_704_u64 })
    );
    assert_eq!(json["sources"]["framework"]["kind"], "framework_trace");
    assert_eq!(json["findings"].as_array().unwrap().len(), 4);
}

#[test]
fn sentences_say_what_differs_and_why() {
    let [setup, forward, whole] = reports();
    let output = run(&["single", "--kineto", &trace(), "--counters", &setup, &forward, &whole]);
    assert_eq!(output.code, 0);
    for sentence in [
        "Forward, framework: it counts the matrix products exactly as theory does and the 1,310,720 FLOP of activations not at \
         all: 10 aten::sigmoid have no formula.",
        "Forward, counters: +32,766,109 FLOP (+1.22%) against theory: 0 from matrix products, +13,107,200 from reductions of \
         split-K products, +19,658,909 from activations, which execute 16.00 FLOP an element where theory charges 1.00; the \
         framework's number is 98.75% of what was executed.",
        "all: 10 aten::sigmoid_backward have no formula.",
        "+30,408,704 (+0.60%) from matrix products on padding of tiles or in epilogues, +10,824,176 from reductions of split-K \
         products and of the loss",
    ] {
        assert!(output.stdout.contains(sentence), "`{sentence}` is not in\n{}", output.stdout);
    }
    output.prints(&["NVIDIA H200"]);
}

#[test]
fn a_run_directory_and_the_formula_without_a_trace() {
    let run_directory = run_directory();
    let sizes = ["single", "-n", "4", "-d", "512", "-m", "64", "--format", "csv", "--counters"];
    let output = run(&[&sizes[..], &[&run_directory]].concat());
    output.succeeds_quietly();
    let rows = rows(&output.stdout);
    assert_eq!(rows.len(), 10);
    let product = 2 * 512 * 512 * 64;
    let gemm = &rows[0];
    assert_eq!((gemm["pass"].as_str(), gemm["class"].as_str()), ("forward", "GEMM"));
    assert_eq!(gemm["theory"], (4 * product).to_string());
    // The heading says that this was computed and not taken from a trace.
    assert_eq!(gemm["framework_formula"], (4 * product).to_string());
    assert_eq!(rows[5]["framework_formula"], (7 * product).to_string());
    assert_eq!(rows[2]["framework_formula"], "");
    // The same network, recorded on another day and read through another path.
    let file = fixture("ncu/phases_nvtx.ncu-rep.zst");
    let other = run(&[&sizes[..], &[&file]].concat());
    assert_eq!(other.code, 0, "{}", other.stderr);
    assert_eq!(super::rows(&other.stdout)[0]["counters"], gemm["counters"]);
}

#[test]
fn without_any_source_the_formula_is_compared_and_live_counters_are_missed_in_a_note() {
    let output = run(&["single"]);
    assert_eq!(output.code, 0);
    assert!(output.stderr.starts_with("mlp-validate: no counters: "), "{}", output.stderr);
    output.prints(&["N=10 D=1024 M=128", "framework formula"]);
    run(&["single", "--live"]).refuses(3, &["error: no live counters", "hint:"]);
}

#[test]
fn a_trace_of_another_network_is_reported() {
    let output = run(&["single", "-n", "5", "--kineto", &trace()]);
    assert_eq!(output.code, 0);
    let more = 5 * PRODUCT;
    assert_eq!(more, 1_342_177_280);
    let sentence = "gives the matrix products +1,342,177,280 FLOP (+100.00%) against theory, so the trace is not one step of this network";
    output.prints(&[sentence]);
}

/// The check of every program that analyzes recordings.
#[test]
fn counters_of_other_sizes_are_refused_with_those_that_ran() {
    let [setup, forward, whole] = reports();
    let counters = ["--counters", &setup, &forward, &whole];
    let output = run(&[&["single", "-n", "10", "-d", "894", "-m", "146"][..], &counters].concat());
    output.refuses(1, &[]);
    let reason = "3.0126 for each of 130524 elements, which is not a whole number";
    output.says(&[reason, "they fit width 1024 and 128 columns"]);
}

#[test]
fn what_is_not_there_ends_with_3_and_what_is_damaged_with_1() {
    run(&["single", "-n", "3", "--counters", &run_directory()]).expect(
        3,
        &[
            "the run does not contain n3_d1024_m128",
            "its sizes are n 2 4 8, d 256 512 1024 2048, m 16 64 256",
        ],
    );

    let (_guard, folder) = super::folder();
    let write = |name: &str, text: &str| {
        let path = folder.join(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let no_shapes = write("a.json", r#"[{"ph":"X","cat":"cpu_op","name":"aten::mm","ts":1,"dur":1}]"#);
    run(&["single", "--kineto", &no_shapes]).expect(3, &["record_shapes=True"]);
    let cut = write("b.json", r#"{"traceEvents":[{"ph":"X""#);
    run(&["single", "--kineto", &cut]).expect(1, &["b.json:1:25: the trace is cut off here"]);

    let [setup, forward, _] = reports();
    assert_eq!(run(&["single", "--counters", &setup, &forward]).code, 2);
    assert_eq!(run(&["single", "-d", "0"]).code, 2);
    assert_eq!(run(&["single", "--counters", &reports()[2]]).code, 3);
}

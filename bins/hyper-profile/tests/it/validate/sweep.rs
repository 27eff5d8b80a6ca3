//! `flopgap validate sweep`.

use std::fs;

use super::{PRODUCT, folder, rows, run, run_directory, run_in, trace};

const FILE: &str = "analytical_vs_framework_comparison.csv";

#[test]
fn a_recorded_run_becomes_a_table_and_plots() {
    let (_guard, folder) = folder();
    run_in(&folder, &["sweep", &run_directory()]).expect(0, &[]);
    let rows = rows(&fs::read_to_string(folder.join("results").join(FILE)).unwrap());
    // 3 × 4 × 3 networks, two passes each.
    assert_eq!(rows.len(), 72);
    for row in &rows {
        let number = |key: &str| row[key].parse::<i128>().unwrap();
        let [n, d, m] = ["n", "d", "m"].map(number);
        let (products, activations) = if row["pass"] == "forward" { (n, n) } else { (2 * n - 1, 2 * n - 1) };
        assert_eq!(number("analytical_gemm"), products * 2 * d * d * m);
        assert_eq!(number("analytical_activation"), activations * d * m);
        // Without traces nothing pretends to be measured.
        assert_eq!(row["framework_source"], "shapes");
        assert_eq!(number("framework_flops"), products * 2 * d * d * m);
        assert_eq!(number("framework_difference"), -activations * d * m);
        let classes = ["counted_gemm", "counted_split_k", "counted_activation", "counted_other"];
        assert_eq!(classes.map(number).iter().sum::<i128>(), number("counted_flops"));
        assert_eq!(number("counted_difference"), number("counted_flops") - number("analytical_flops"));
        assert!(number("counted_gemm") >= number("analytical_gemm"));
    }
    // The counters are those that the run's own table has.
    let metrics = fs::read_to_string(format!("{}/processed/metrics.csv", run_directory())).unwrap();
    let metrics = super::rows(&metrics);
    assert_eq!(metrics.len(), rows.len());
    for (row, expected) in rows.iter().zip(&metrics) {
        for (ours, theirs) in [
            ("n", "n"),
            ("d", "d"),
            ("m", "m"),
            ("pass", "pass"),
            ("counted_gemm", "gemm"),
            ("counted_split_k", "split_k"),
            ("counted_activation", "activation"),
            ("counted_flops", "total"),
        ] {
            assert_eq!(row[ours], expected[theirs], "{ours} of {row:?}");
        }
    }
    let mut plots: Vec<_> =
        fs::read_dir(folder.join("results/plots")).unwrap().map(|entry| entry.unwrap().path()).collect();
    plots.sort();
    assert_eq!(plots.len(), 6);
    let plot = fs::read_to_string(&plots[5]).unwrap();
    assert!(plots[5].ends_with("over_theory_forward_n8.svg") && plot.contains("NVIDIA H200"));
    // A plot for each m, with four widths on two lines.
    assert_eq!(plot.matches("<circle ").count(), 3 * 2 * 4);
    for name in ["m = 16", "m = 64", "m = 256"] {
        assert_eq!(plot.matches(&format!(">{name}</text>")).count(), 1, "{name}");
    }
}

#[test]
fn a_full_run_has_a_plot_for_each_m_and_what_is_missing_keeps_its_place() {
    let (_guard, folder) = folder();
    let whole = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/runs/h200-default");
    std::fs::create_dir(folder.join("raw")).unwrap();
    for entry in fs::read_dir(whole.join("raw")).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        if name.starts_with("n2_") && !name.contains("_d1024_") {
            fs::copy(&path, folder.join("raw").join(name)).unwrap();
        }
    }
    fs::copy(whole.join("manifest.json"), folder.join("manifest.json")).unwrap();
    let output = run_in(&folder, &["sweep", ".", "-n", "2", "--format", "csv"]);
    assert_eq!(output.code, 0, "{}", output.stderr);
    // The width that was not counted has rows without counts.
    let rows = rows(&output.stdout);
    assert_eq!(rows.len(), 2 * 256);
    let missing: Vec<_> = rows.iter().filter(|row| row["counted_flops"].is_empty()).collect();
    assert!(
        missing.len() == 2 * 16
            && missing.iter().all(|row| row["d"] == "1024" && !row["analytical_flops"].is_empty())
    );

    let plot = fs::read_to_string(folder.join("results/plots/over_theory_forward_n2.svg")).unwrap();
    assert!(plot.contains("16 of 512 values missing (×)"), "{}", &plot[..600]);
    for m in 1..=16 {
        assert_eq!(plot.matches(&format!(">m = {}</text>", m * 16)).count(), 1);
    }
}

#[test]
fn sizes_choose_and_a_trace_replaces_the_formula() {
    let (_guard, folder) = folder();
    fs::copy(trace(), folder.join("kineto_n10_d1024_m128.json.gz")).unwrap();
    fs::write(folder.join("notes.txt"), "").unwrap();
    let directory = run_directory();
    let arguments =
        ["sweep", &directory, "--kineto-dir", ".", "-n", "3,4,10", "-d", "512..1024:512", "-m", "64", "128"];
    let output = run_in(&folder, &[&arguments[..], &["--no-plots", "--format", "csv"]].concat());
    assert_eq!(output.code, 0, "{}", output.stderr);
    let warned: Vec<&str> = output.stderr.lines().filter(|line| line.contains("warning")).collect();
    assert_eq!(warned, ["mlp-validate: warning: no network with n=3 is recorded"]);
    let rows = rows(&output.stdout);
    let name = |row: &std::collections::BTreeMap<String, String>| {
        ["n", "d", "m", "pass", "framework_source"].map(|key| row[key].clone()).join(" ")
    };
    assert_eq!(
        rows.iter().map(name).collect::<Vec<_>>(),
        [
            "4 512 64 forward shapes",
            "4 512 64 backward shapes",
            "4 1024 64 forward shapes",
            "4 1024 64 backward shapes",
            "10 1024 128 forward trace",
            "10 1024 128 backward trace",
        ]
    );
    assert_eq!(rows[5]["framework_flops"], (19 * PRODUCT).to_string());
    // The run has no such network: what was not counted is absent.
    assert_eq!((rows[5]["counted_flops"].as_str(), rows[5]["counted_relative"].as_str()), ("", ""));
    assert!(!folder.join("results/plots").exists());
    assert_eq!(fs::read_to_string(folder.join("results").join(FILE)).unwrap(), output.stdout);
}

#[test]
fn traces_alone_are_a_comparison() {
    let (_guard, folder) = folder();
    fs::copy(trace(), folder.join("n10_d1024_m128.json.gz")).unwrap();
    let output = run_in(&folder, &["sweep", "--kineto-dir", ".", "--format", "csv", "--output", "out"]);
    output.expect(0, &["no counters: "]);
    assert_eq!(rows(&output.stdout).len(), 2);
    assert!(folder.join("out/plots/over_theory_backward_n10.svg").exists());
}

#[test]
fn a_trace_under_another_name_is_recognized_by_its_products() {
    let (_guard, folder) = folder();
    fs::copy(trace(), folder.join("n10_d512_m128.json.gz")).unwrap();
    fs::copy(trace(), folder.join("n10_d1024_m128.json.gz")).unwrap();
    let output = run_in(&folder, &["sweep", "--kineto-dir", ".", "--no-plots"]);
    assert_eq!(output.code, 0, "{}", output.stderr);
    let warned: Vec<&str> = output.stderr.lines().filter(|line| line.contains("warning")).collect();
    assert!(
        warned.len() == 1 && warned[0].contains("n10_d512_m128.json.gz: its matrix products are not those"),
        "{}",
        output.stderr
    );
}

/// A run of two networks, one of which is named after sizes that did not run: it is in no number,
/// and the others are in the table.
#[test]
fn refused_networks_end_with_1() {
    let (_guard, folder) = folder();
    let raw = folder.join("run/raw");
    fs::create_dir_all(&raw).unwrap();
    for stage in ["setup", "forward", "forward_backward"] {
        let source =
            |name: &str| std::path::Path::new(&run_directory()).join(format!("raw/{name}_{stage}.csv.zst"));
        let copy = |from: &str, to: &str| {
            fs::copy(source(from), raw.join(format!("{to}_{stage}.csv.zst"))).unwrap();
        };
        copy("n2_d256_m64", "n2_d256_m64");
        copy("n2_d512_m64", "n2_d512_m32");
    }
    let output = run_in(&folder, &["sweep", "run", "--no-plots", "--format", "csv"]);
    assert_eq!(output.code, 1, "{}", output.stderr);
    let fits = "they fit width 512 and 64 columns";
    output.says(&["n2_d512_m32: ", fits]);
    let counted: Vec<String> = rows(&output.stdout).iter().map(|row| row["counted_flops"].clone()).collect();
    assert_eq!(counted.iter().filter(|flops| flops.is_empty()).count(), 2, "{}", output.stdout);
    assert_eq!(counted.len(), 4);
    let single = ["single", "-n", "2", "-d", "512", "-m", "32", "--counters", "run"];
    assert_eq!(run_in(&folder, &single).code, 1);
}

#[test]
fn what_is_not_there_ends_with_3_and_writes_nothing() {
    let (_guard, folder) = folder();
    run_in(&folder, &["sweep"]).expect(3, &["no live counters"]);
    run_in(&folder, &["sweep", &run_directory(), "-n", "3"])
        .expect(3, &["none of the requested networks", "hint: its sizes are n 2 4 8, d 256 512"]);
    assert_eq!(run_in(&folder, &["sweep", "."]).code, 3);
    assert_eq!(run(&["sweep", &run_directory(), "-d", "512..256"]).code, 2);
    assert_eq!(fs::read_dir(&folder).unwrap().count(), 0);
}

//! The built `mlp-bench`: refusals, and what works without a GPU. On a GPU it is checked there,
//! too.

use std::process::Command;

use assert_cmd::cargo::cargo_bin;
use flopgap_testing::Ended;

/// Runs the program, as on a machine without a GPU unless `with_gpu`.
fn run_on(with_gpu: bool, arguments: &[&str]) -> Ended {
    let mut command = Command::new(cargo_bin("mlp-bench"));
    if !with_gpu {
        command.env("CUDA_VISIBLE_DEVICES", "");
    }
    Ended::of(command.args(arguments))
}

fn run(arguments: &[&str]) -> Ended {
    run_on(false, arguments)
}

/// People have the options of `benchmark_neural_mlp.py` in scripts.
#[test]
fn command_lines_of_the_script_are_accepted() {
    let shared = ["--device", "cpu", "--size", "small", "--batch-size", "16", "--iterations", "2"];
    let output = run(&[&shared[..], &["--warmup", "1", "--forloop-only", "--json"]].concat());
    assert_eq!(output.code, 0, "{}", output.stderr);
    let results = output.json();
    assert_eq!(results["results"][0]["batch"], 16);
    run(&[&shared[..], &["--json", "--format", "csv"]].concat()).expect(2, &[]);
}

#[test]
fn what_cannot_be_meant_is_a_usage_error() {
    for (arguments, message) in [
        (&["--size", "huge"][..], "small, medium, large, xlarge"),
        (&["--widths", "64,0,16"], "number 2 is 0: from 1 to 16384"),
        (&["--widths", "64,16"], "at least three are needed"),
        (&["--widths", "64,0,16"], "number 2 is 0"),
        (&["--batch", "0"], "0 is not in 1.."),
        (&["--impl", "tensor"], "naive, forloop, coopvec, coopmat"),
        (&["--precision", "fp8"], "fp32, fp16, bf16"),
        (&["--activation", "softmax"], "softmax"),
        (&["--device", "metal"], "expected cpu, cuda, vulkan, or one of several"),
        (&["--device", "cuda:x"], "1, cuda:1 or vulkan:1"),
        (&["--sweep", "--size", "small"], "cannot be used with"),
        (&["--forloop-only", "--coopvec-only"], "cannot be used with"),
        (&["--impl", "coopvec", "--forloop-only"], "cannot be used with"),
        (&["--device", "vulkan:x"], "1, cuda:1 or vulkan:1"),
        (&["--peaks", "60,790"], "three positive numbers"),
        (&["--peaks", "60,x,790,4.3"], "three positive numbers"),
        (&["--iterations", "0"], "0 is not in 1.."),
        (&["kernels", "--arch", "foo"], "foo"),
        (&["diff", "one.json"], "<AFTER>"),
        (&["diff", "a", "b", "--fail-if-slower=-1"], "0 or more"),
    ] {
        let output = run(arguments);
        output.expect(2, &[message]);
        assert!(output.stdout.is_empty());
    }
}

#[test]
fn without_a_gpu_it_names_the_alternative() {
    let output = run(&["--sweep"]);
    output.expect(3, &["flopgap bench --device cpu"]);
    assert!(output.stdout.is_empty());
}

/// Runs on Mesa's lavapipe if no GPU is present.
#[test]
fn a_network_on_vulkan_is_checked_and_timed() {
    let device = match flopgap_mlp::vulkan::Device::new(0) {
        Ok(device) => device,
        Err(error) => {
            assert!(error.is_absence(), "{error}");
            let output = run(&["--device", "vulkan"]);
            assert_eq!(output.code, 3, "{}", output.stderr);
            return flopgap_testing::skip("vulkan", error);
        }
    };
    let network = ["--widths", "16,32,8", "--precision", "fp32", "--impl", "forloop,coopmat"];
    let times = ["--timing", "both", "--iterations", "2", "--warmup", "0", "--atomic", "--json"];
    let batches = ["--device", "vulkan", "--batch", "8,700", "--pass", "forward,backward,train"];
    let output = run(&[&network[..], &times, &batches].concat());
    output.expect(0, &["--atomic has no effect on Vulkan", "16-32-8 is left out: coopmat in fp32 on"]);
    let results = output.json();
    assert_eq!(results["device"], format!("{} (Vulkan)", device.name()));
    let rows = results["results"].as_array().unwrap();
    let of = |batch: u64, pass: &str, timing: &str| {
        let row =
            rows.iter().find(|row| row["batch"] == batch && row["pass"] == pass && row["timing"] == timing);
        let row = row.unwrap_or_else(|| panic!("{batch} {pass} {timing}: {}", output.stdout));
        assert!(row["max_rel_error"].as_f64().unwrap() < 1e-5, "{row}");
        row["median_us"].as_f64().unwrap()
    };
    for batch in [8, 700] {
        for pass in ["forward", "backward", "train"] {
            assert!(["gpu-graph", "gpu-launch", "cpu"].iter().all(|timing| of(batch, pass, timing) > 0.0));
        }
    }
    assert_eq!(rows.len(), 2 * 3 * 3);
    run(&["--device", "vulkan:999"]).expect(3, &["no Vulkan device 999: this machine has"]);
}

#[test]
fn what_does_not_fit_the_memory_is_left_out_and_what_was_measured_is_shown() {
    let cpu = ["--device", "cpu", "--iterations", "1", "--warmup", "0"];
    run(&[&cpu[..], &["--batch", "4294967295"]].concat()).expect(3, &["small on 4294967295 samples takes"]);
    run(&[&cpu[..], &["--widths", &["16384"; 65].join(",")]].concat())
        .expect(3, &["GiB of this machine's memory"]);

    // A plot that cannot be written loses no measurement.
    let file = tempfile::NamedTempFile::new().unwrap();
    let folder = file.path().join("plots");
    let options = ["--batch", "8", "--format", "csv", "--atomic", "--plots", folder.to_str().unwrap()];
    let output = run(&[&cpu[..], &options].concat());
    assert_eq!((output.code, output.stdout.lines().count()), (1, 2), "{}", output.stderr);
    output.says(&["plots", "--atomic has no effect on the CPU"]);
}

#[test]
fn peers_that_cannot_be_read_are_named_with_their_line() {
    let (_folder, [file]) = flopgap_testing::paths(["peers.jsonl"]);
    let file = file.to_str().unwrap();
    run(&["--peers", file]).expect(1, &["peers.jsonl: cannot be read"]);
    std::fs::write(file, "a note\n{\"impl\": \"pytorch-graph\", \"size\": \"small\"}\n").unwrap();
    run(&["--peers", file]).says(&["peers.jsonl, line 2: missing field `median_us`", "median_us"]);
    let peer = |size: &str, median: f64| {
        serde_json::json!({"impl": "other", "size": size, "precision": "fp32", "pass": "forward", "batch": 8, "median_us": median})
            .to_string()
    };
    std::fs::write(file, peer("small", 0.0)).unwrap();
    run(&["--peers", file]).expect(1, &["peers.jsonl, line 1: the median is 0 us"]);
    let timed_by = |clock: &str| peer("small", 1.0).replace('{', &format!("  {{\"timing\": \"{clock}\", "));
    std::fs::write(file, timed_by("wall")).unwrap();
    run(&["--peers", file]).says(&["line 1: invalid timing \"wall\""]);
    std::fs::write(file, timed_by("cpu").replace("other", "coopmat")).unwrap();
    run(&["--peers", file]).says(&["line 1: the name \"coopmat\" belongs to an implementation"]);
    std::fs::write(file, format!("{}\n{}", timed_by("cpu"), timed_by("cpu").replace("1.0", "\"1\"")))
        .unwrap();
    let output = run(&["--peers", file]);
    let message = "line 2: invalid type: string \"1\", expected f64 (column ";
    output.says(&[message]);
    std::fs::write(file, peer("large", 1.0)).unwrap();
    let cpu = ["--device", "cpu", "--batch", "8", "--iterations", "1", "--peaks", "1,1,1", "--format", "csv"];
    let output = run(&[&cpu[..], &["--peers", file]].concat());
    assert_eq!((output.code, output.stdout.lines().count()), (0, 2), "{}", output.stderr);
    output.says(&["--peers: none of them"]);
}

/// The kernels of Ampere for Hopper: `mma.sync` where Hopper's own are `wgmma`.
#[test]
fn kernels_of_an_older_architecture_are_compiled_for_a_newer_one() {
    let kernels =
        ["kernels", "--arch", "sm_90", "--size", "small", "--impl", "coopmat", "--precision", "fp16"];
    let planned = |plan: &str| run(&[&kernels[..], &["--format", "csv", "--arch-plan", plan]].concat());
    let output = planned("sm_80");
    if output.code == 3 && output.stderr.contains("NVRTC") {
        return flopgap_testing::skip("nvrtc", &output.stderr);
    }
    output.expect(0, &[]).prints(&["coopmat_mlp_forward_mma,"]);
    assert!(!output.stdout.contains("wgmma"), "{}", output.stdout);
    for (plan, reason) in [("sm_100", "it is newer than the GPU"), ("sm_60", "from sm_75 on")] {
        planned(plan).expect(3, &[&format!("kernels planned for {plan} cannot run on sm_90"), reason]);
    }
    assert_eq!(planned("ampere").code, 2);
}

#[test]
fn registers_are_reported_without_a_gpu() {
    let output =
        run(&["kernels", "--arch", "sm_80", "--size", "small", "--impl", "naive", "--format", "csv"]);
    if output.code == 3 {
        return flopgap_testing::skip("nvrtc", &output.stderr);
    }
    assert_eq!(output.code, 0, "{}", output.stderr);
    let mut rows = csv::Reader::from_reader(output.stdout.as_bytes());
    let rows: Vec<std::collections::BTreeMap<String, String>> =
        rows.deserialize().map(Result::unwrap).collect();
    assert_eq!(rows.len(), 4, "two kernels in two precisions: {}", output.stdout);
    for row in rows {
        assert_eq!((row["arch"].as_str(), row["spill_stores"].as_str()), ("sm_80", "0"));
        let registers: u32 = row["registers"].parse().unwrap();
        assert!((16..=255).contains(&registers), "{row:?}");
        assert!(row["kernel"].starts_with("naive_mlp_"), "{row:?}");
    }
    assert_eq!(run(&["kernels", "--arch", "gfx90a"]).code, 2);
    let naive = ["kernels", "--size", "small", "--impl", "naive", "--precision", "fp32", "--format", "csv"];
    let output = run(&[&naive[..], &["--arch", "sm_9990,sm_80"]].concat());
    assert_eq!((output.code, output.stdout.lines().count()), (0, 3), "{}", output.stderr);
    output.says(&["sm_9990 is skipped: NVRTC"]);
    run(&[&naive[..], &["--arch", "sm_9990"]].concat())
        .expect(3, &["does not compile for sm_9990: it knows"]);
    run(&["kernels", "--widths", "8,0,8"]).expect(2, &[]);
    let turing = ["kernels", "--arch", "sm_75", "--impl", "coopvec", "--precision", "bf16"];
    run(&[&turing[..], &["--widths", "8,16,24,8"]].concat())
        .expect(3, &["8-16-24-8: coopvec in bf16 on sm_75", "no kernel matches the request"]);
}

#[test]
fn cores_are_checked_and_timed() {
    let arguments = [
        "--device",
        "cpu",
        "--size",
        "small,medium",
        "--pass",
        "forward,backward,train",
        "--batch",
        "1,700",
        "--iterations",
        "3",
        "--warmup",
        "0",
        "--format",
        "json",
        "--peaks",
        "0.2,0.2,0.02",
    ];
    let (folder, [plots]) = flopgap_testing::paths(["made"]);
    let plots = plots.to_str().unwrap();
    let peers = folder.path().join("peers.jsonl");
    let peer = r#"{"impl": "other", "size": "small", "precision": "fp32", "pass": "train", "batch": 700, "median_us": 1000}"#;
    std::fs::write(&peers, peer).unwrap();
    let output = run(&[&arguments[..], &["--plots", plots, "--peers", peers.to_str().unwrap()]].concat());
    assert_eq!(output.code, 0, "{}", output.stderr);
    let results = output.json();
    let results = results["results"].as_array().unwrap();
    assert_eq!(results.len(), 2 * 3 * 2 + 1);
    for result in &results[..12] {
        assert!(result["median_us"].as_f64().unwrap() > 0.0, "{result}");
        assert!(result["floor_fraction"].as_f64().unwrap() > 0.0, "{result}");
        let error = result["max_rel_error"].as_f64().unwrap();
        assert!(error > 0.0 && error < 1e-5, "{result}");
    }
    // 6 FLOP for each of 5,120 weights and 700 samples in a millisecond.
    let other = &results[12];
    assert!(
        (other["tflops"].as_f64().unwrap() - 6.0 * 5120.0 * 700.0 / 1e-3 / 1e12).abs() < 1e-12,
        "{other}"
    );
    assert_eq!((other["timing"].as_str(), other["max_rel_error"].is_null()), (Some("cpu"), true));
    let files = [
        "small_fp32_forward",
        "small_fp32_backward",
        "small_fp32_train",
        "medium_fp32_forward",
        "medium_fp32_backward",
        "medium_fp32_train",
    ];
    for file in files {
        let svg = std::fs::read_to_string(folder.path().join(format!("made/{file}.svg"))).unwrap();
        assert!(svg.starts_with("<svg ") && svg.contains("cpu (host"), "{file}");
    }

    run(&["--device", "cpu", "--precision", "bf16"]).expect(3, &["the CPU computes in fp32"]);
}

#[test]
fn without_peaks_those_of_the_cores_are_measured() {
    let output = run(&[
        "--device",
        "cpu",
        "--batch",
        "700",
        "--iterations",
        "3",
        "--format",
        "json",
        "--cold",
        "--impl",
        "coopmat",
    ]);
    assert_eq!(output.code, 0, "{}", output.stderr);
    let document = output.json();
    assert!(document["peaks"]["origin"].as_str().unwrap().starts_with("measured"), "{document}");
    for peak in ["fp32_tflops", "memory_gbps"] {
        assert!(document["peaks"][peak].as_f64().unwrap() > 0.0, "{document}");
    }
    assert!(document["results"][0]["floor_fraction"].as_f64().unwrap() > 0.0, "{document}");
    for ignored in ["--cold has no effect", "--impl has no effect"] {
        output.says(&[ignored]);
    }
}

#[test]
fn a_table_for_readers_has_a_row_for_each_pass_and_batch() {
    let output = run(&[
        "--device",
        "cpu",
        "--widths",
        "16,24,8",
        "--pass",
        "forward,train",
        "--batch",
        "1,300",
        "--iterations",
        "2",
        "--peaks",
        "0.1,0.1,0.02",
    ]);
    output.expect(0, &[]).prints(&["Floor: 0.100 TFLOP/s fp32, 20.0 GB/s (as given)"]);
    let rows: Vec<&str> = output.stdout.lines().filter(|line| line.contains("  cpu  ")).collect();
    let firsts: Vec<&str> = rows.iter().filter_map(|row| row.split_whitespace().next()).collect();
    assert_eq!(firsts, ["forward", "300", "train", "300"], "{}", output.stdout);
    output.prints(&["host: what a program waits"]);
}

#[test]
fn two_results_are_compared() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: String| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let document = |median: f64, batch: u32| {
        let result = serde_json::json!({
            "impl": "coopmat", "size": "small", "precision": "fp16", "pass": "forward", "batch": batch,
            "timing": "gpu-graph", "median_us": median, "p10_us": median * 0.99, "p90_us": median * 1.01,
        });
        serde_json::json!({"device": "a device", "results": [result]}).to_string()
    };
    let (before, after) = (write("a.json", document(2.0, 256)), write("b.json", document(2.5, 256)));
    let output = run(&["diff", &before, &after, "--format", "csv"]);
    assert_eq!(output.code, 0, "{}", output.stderr);
    let rows: Vec<std::collections::BTreeMap<String, String>> =
        csv::Reader::from_reader(output.stdout.as_bytes()).deserialize().map(Result::unwrap).collect();
    assert_eq!((rows.len(), rows[0]["change"].as_str(), rows[0]["verdict"].as_str()), (1, "0.25", "slower"));

    run(&["diff", &before, &after, "--fail-if-slower", "20"])
        .expect(1, &["2.00 us before, 2.50 us after (+25.0%)"])
        .prints(&["1 compared: 0 faster, 1 slower"]);
    assert_eq!(run(&["diff", &before, &after, "--fail-if-slower", "30"]).code, 0);
    run(&["diff", &before, &after, "--noise", "30"]).prints(&["0 faster, 0 slower, 1 within scatter"]);

    let other = write("c.json", document(2.0, 512));
    assert_eq!(run(&["diff", &before, &other]).code, 3, "nothing is the same");
    let wrong = write("d.json", document(0.0, 256));
    run(&["diff", &before, &wrong])
        .expect(1, &["d.json: coopmat small fp16 forward, batch 256 (gpu-graph): the median is 0 us"]);
    run(&["diff", &write("e.json", "{}".to_owned()), &after]).says(&["e.json: missing field `device`"]);
}

#[test]
fn results_are_shown_again_as_they_were() {
    let (_folder, [file]) = flopgap_testing::paths(["results.json"]);
    let cpu = ["--device", "cpu", "--iterations", "1", "--warmup", "0", "--batch", "8"];
    run(&[&cpu[..], &["--output", file.to_str().unwrap()]].concat()).expect(0, &[]);
    run(&["show", file.to_str().unwrap()]).expect(0, &[]).prints(&["small (64-64-16), fp32"]);
    let again = run(&["show", file.to_str().unwrap(), "--format", "json"]);
    // The peaks are scaled on the way, which may change their last digit.
    let written = std::fs::read_to_string(&file).unwrap();
    let measured = |text: &str| text[text.find("\"results\"").unwrap()..].to_owned();
    assert_eq!(measured(&again.stdout), measured(&written));
    std::fs::write(&file, "{}").unwrap();
    run(&["show", file.to_str().unwrap()]).expect(1, &["missing field `device`"]);
}

#[test]
fn a_gpu_is_checked_and_timed() {
    let arguments = [
        "--size",
        "small",
        "--impl",
        "naive,forloop",
        "--pass",
        "forward,backward,train",
        "--precision",
        "fp32,fp16",
        "--batch",
        "1,300",
        "--timing",
        "both",
        "--cold",
        "--iterations",
        "5",
        "--warmup",
        "1",
        "--format",
        "json",
    ];
    let output = run_on(true, &arguments);
    if output.code == 3 {
        return flopgap_testing::skip("gpu", &output.stderr);
    }
    assert_eq!(output.code, 0, "{}", output.stderr);
    let results = output.json();
    assert!(!results["device"].as_str().unwrap().is_empty());
    let results = results["results"].as_array().unwrap();
    let naive = results.iter().filter(|result| result["impl"] == "naive");
    assert_eq!(naive.count(), 3 * 2 * 2 * 4, "passes, precisions, batches, clocks");
    for result in results {
        assert!(result["median_us"].as_f64().unwrap() > 0.0, "{result}");
        assert!(result["p10_us"].as_f64().unwrap() <= result["p90_us"].as_f64().unwrap(), "{result}");
        let error = result["max_rel_error"].as_f64().unwrap();
        let most = if result["precision"] == "fp32" { 1e-5 } else { 1e-2 };
        assert!(error > 0.0 && error < most, "{result}");
    }
}

/// Notes and progress are as much as the user wants; warnings and answers stay.
#[test]
fn a_quiet_program_says_nothing_of_its_success_and_a_verbose_one_what_it_did() {
    let (_folder, [file]) = flopgap_testing::paths(["results.json"]);
    let file = file.to_str().unwrap();
    let measure = ["--device", "cpu", "--iterations", "1", "--warmup", "0", "--batch", "8", "-o", file];
    let said = |more: &[&str]| {
        let output = run(&[&measure[..], more].concat());
        assert_eq!((output.code, output.stdout.as_str()), (0, ""), "{}", output.stderr);
        output.stderr
    };
    let lines = [" us (cpu)\n", "mlp-bench: wrote "];
    let normal = said(&[]);
    assert!(lines.iter().all(|line| normal.contains(line)), "{normal}");
    assert!(!normal.contains("total: "), "{normal}");
    assert_eq!(said(&["--quiet"]), "");
    let warned = said(&["-q", "--cold"]);
    assert!(warned.contains("warning: --cold has no effect on the CPU"), "{warned}");
    assert_eq!(warned.lines().count(), 1, "{warned}");
    let verbose = said(&["-v"]);
    let details = ["peaks of the cores: measured: ", "in 64 bits for the check: ", "mlp-bench: total: "];
    assert!(lines.iter().chain(&details).all(|line| verbose.contains(line)), "{verbose}");

    // An answer is the same, and where nothing was done there is nothing to say.
    let (show, diff) = (["show", file], ["diff", file, file]);
    for command in [&show[..], &diff] {
        let ask = |option: &str| run(&[command, &[option]].concat());
        let (normal, quiet, verbose) = (run(command), ask("-q"), ask("--verbose"));
        assert_eq!((&quiet.stdout, quiet.stderr.as_str()), (&normal.stdout, ""));
        assert_eq!(verbose.stdout, normal.stdout);
        verbose.says(&["results.json: results of flopgap bench, read: "]);
    }
    assert!(run(&["show", "absent.json", "-q"]).stderr.contains("error: absent.json"));
    assert_eq!(run(&["show", file, "-q", "-v"]).code, 2);
}

#[test]
fn a_quiet_program_still_says_what_was_skipped() {
    let kernels = ["kernels", "--size", "small", "--impl", "naive", "--precision", "fp32", "--format", "csv"];
    let ask = |more: &[&str]| run(&[&kernels[..], &["--arch", "sm_9990,sm_80"], more].concat());
    let (normal, quiet) = (ask(&[]), ask(&["-q"]));
    if normal.code == 3 {
        return flopgap_testing::skip("nvrtc", &normal.stderr);
    }
    assert_eq!(normal.code, 0, "{}", normal.stderr);
    quiet.says(&["sm_9990 is skipped: NVRTC"]);
    assert_eq!((&quiet.stdout, &quiet.stderr), (&normal.stdout, &normal.stderr));
    let verbose = ask(&["-v"]);
    assert_eq!(verbose.stdout, normal.stdout);
    verbose.says(&["naive fp32 small for sm_80: compiled: "]);
}

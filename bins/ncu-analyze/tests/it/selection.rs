//! Parts of reports, and several reports at once.

use crate::{fixture, rows, run};

/// Launches of the step in `lm_raw`, of which autograd's thread launches most of the backward pass
/// without a range of its own.
#[test]
fn a_phase_says_how_much_of_the_report_it_is_and_what_is_in_it_by_process() {
    let report = fixture("ncu/lm_raw.csv.zst");
    let path = report.to_str().unwrap();
    let backward = run(&["kernels", path, "--phase", "backward", "--by", "class"]);
    assert_eq!(backward.code, 0, "{}", backward.stderr);
    assert!(backward.stdout.starts_with("By class, backward, 61 of 141 launches\n"), "{}", backward.stdout);
    let matmul = backward.stdout.lines().find(|line| line.starts_with("matmul ")).unwrap();
    assert_eq!(matmul.split_whitespace().nth(1), Some("18"), "{matmul}");
    let note = "60 of the launches within `backward` have no such range on their own thread";
    assert!(backward.stderr.contains(note), "{}", backward.stderr);
    let json = run(&["kernels", path, "--range", "step_0", "--format", "json", "-q"]);
    let json: serde_json::Value = serde_json::from_str(&json.stdout).unwrap();
    assert_eq!((&json["launches"], &json["launches_in_files"]), (&140.into(), &141.into()));
    assert_eq!(json["launches_undecided"], 0);
}

/// The same without a range around the passes: `backward` may have ended before autograd's
/// launches.
#[test]
fn launches_that_may_lie_in_a_range_are_named() {
    let packed = std::fs::read(fixture("ncu/lm_raw_base.csv.zst")).unwrap();
    let text = String::from_utf8(zstd::decode_all(&packed[..]).unwrap()).unwrap();
    let item = "\"\"<default domain>:step_0:none:none:none:none:none:none\"\"  ";
    assert!(text.contains(item));
    let folder = tempfile::tempdir().unwrap();
    let report = folder.path().join("passes.csv");
    std::fs::write(&report, text.replace(item, "")).unwrap();
    let backward = run(&["kernels", report.to_str().unwrap(), "--phase", "backward", "--by", "class"]);
    assert!(backward.stdout.starts_with("By class, backward, 1 of 141 launches\n"), "{}", backward.stdout);
    let warning = "warning: ";
    let named =
        "60 of 141 launches, 18 of them matrix products, may lie within `backward` or not and are in no sum";
    assert!(backward.stderr.contains(warning) && backward.stderr.contains(named), "{}", backward.stderr);
}

/// The whole recording of a network is not its forward pass.
#[test]
fn a_forward_pass_with_what_follows_it_is_refused() {
    let [setup, forward, both] = ["setup", "forward", "forward_backward"]
        .map(|name| fixture(&format!("notebook/{name}.csv")).to_str().unwrap().to_owned());
    let refused = run(&["kernels", &both, "--phase", "forward", "--setup", &setup]);
    assert_eq!((refused.code, refused.stdout.as_str()), (1, ""));
    let reason = "goes on after the forward pass, with `vectorized_elementwise_kernel [sigmoid_backward]`";
    assert!(refused.stderr.contains(reason), "{}", refused.stderr);
    assert!(refused.stderr.contains("with --forward"), "{}", refused.stderr);
    let alone = run(&["kernels", &forward, "--phase", "forward", "--setup", &setup, "--by", "class"]);
    let title = "By class, forward (all after setup.csv), 30 of 31 launches\n";
    assert!(alone.stdout.starts_with(title), "{}", alone.stdout);
}

/// Three launches on two GPUs and two processes.
fn two_gpus(folder: &std::path::Path) -> String {
    let row = |id: u64, process: u64, device: u64, stream: u64, kernel: &str| {
        format!(
            "\"{id}\",\"{process}\",\"h\",\"{kernel}\",\"1\",\"{stream}\",\"{device}\",\"9.0\",\
             \"gpu__time_duration.sum\",\"ns\",\"{}\"\n",
            10_u64.pow(u32::try_from(id).unwrap() + 1)
        )
    };
    let header = "\"ID\",\"Process ID\",\"Host Name\",\"Kernel Name\",\"Context\",\"Stream\",\"Device\",\"CC\",\
                  \"Metric Name\",\"Metric Unit\",\"Metric Value\"\n";
    let text = [
        header,
        &row(0, 100, 0, 7, "nvjet_sm90_tst_64x8_64x16_1x2_h_bz_TNT"),
        &row(1, 101, 1, 7, "nvjet_sm90_tst_64x8_64x16_1x2_h_bz_TNT"),
        &row(2, 100, 0, 13, "softmax_warp_forward"),
    ];
    let path = folder.join("gpus.csv");
    std::fs::write(&path, text.concat()).unwrap();
    path.to_str().unwrap().to_owned()
}

#[test]
fn filters_choose_by_kernel_device_process_and_stream_and_two_gpus_have_rows_of_their_own() {
    let folder = tempfile::tempdir().unwrap();
    let path = two_gpus(folder.path());
    let time = |more: &[&str]| {
        let output = run(&[&["kernels", path.as_str(), "--format", "json"], more].concat());
        let json: serde_json::Value = serde_json::from_str(&output.stdout).unwrap();
        (json["total"]["duration_ns"].as_u64().unwrap(), json["launches_in_files"].as_u64().unwrap())
    };
    for (more, expected) in [
        (&["--device", "1"][..], 100),
        (&["--process", "100"], 1010),
        (&["--stream", "13"], 1000),
        (&["--kernel", "NVJET"], 110),
        (&["--kernel", "nvjet", "--device", "0"], 10),
        (&["--kernel", "nvjet", "--kernel", "softmax"], 1110),
    ] {
        assert_eq!(time(more), (expected, 3), "{more:?}");
    }
    let both = run(&["kernels", &path, "--by", "class"]);
    let row = |line: &&str| line.starts_with("matmul ");
    let cells = |line: &str| line.split_whitespace().take(4).map(str::to_owned).collect::<Vec<_>>();
    let matmul: Vec<_> = both.stdout.lines().filter(row).map(cells).collect();
    assert_eq!(matmul, [["matmul", "1", "1", "100"], ["matmul", "0", "1", "10"]], "{}", both.stdout);
    assert!(both.stderr.contains("launches of 2 processes (100, 101) are added up"), "{}", both.stderr);
    let none = run(&["kernels", &path, "--device", "2"]);
    assert_eq!((none.code, none.stdout.as_str()), (3, ""));
    assert!(none.stderr.contains("the launches name GPU 0, 1"), "{}", none.stderr);
    let title = run(&["kernels", &path, "--device", "1", "--by", "class"]).stdout;
    assert!(title.starts_with("By class, GPU 1, 1 of 3 launches\n"), "{title}");
}

/// A report of traffic and time alone has no columns of dashes.
#[test]
fn what_was_not_recorded_has_no_column() {
    let report = fixture("ncu/h200_kernels_graph_nvtx.ncu-rep");
    let table = run(&["kernels", report.to_str().unwrap(), "--by", "class"]).stdout;
    let heading = table.lines().nth(1).unwrap();
    assert_eq!(
        heading.split_whitespace().collect::<Vec<_>>().join(" "),
        "class launches DRAM (byte) time (ns) of time GB/s"
    );
    assert!(!table.contains(" - "), "{table}");
}

#[test]
fn several_files_and_directories_are_added_up_each_recording_once() {
    let folder = tempfile::tempdir().unwrap();
    let copy = |from: &str, to: &str| {
        std::fs::copy(fixture(from), folder.path().join(to)).unwrap();
    };
    // Two prints of one recording, another recording, and what is none.
    copy("ncu/lm_raw.csv.zst", "a_raw.csv.zst");
    copy("ncu/lm_details.csv.zst", "b_details.csv.zst");
    copy("ncu/renamed_raw.csv.zst", "c.csv.zst");
    std::fs::write(folder.path().join("notes.md"), "# notes\n").unwrap();
    let of = |paths: &[&str]| {
        let output = run(&[&["kernels", "--by", "class", "--format", "csv"], paths].concat());
        assert_eq!(output.code, 0, "{}", output.stderr);
        let launches = rows(&output.stdout).values().map(|row| row["launches"].parse::<u64>().unwrap()).sum();
        (launches, output.stderr)
    };
    let [one, other] = ["ncu/lm_raw.csv.zst", "ncu/renamed_raw.csv.zst"]
        .map(|name| fixture(name).to_str().unwrap().to_owned());
    let (expected, _): (u64, _) = of(&[&one, &other]);
    assert_eq!(expected, of(&[&one]).0 + of(&[&other]).0);
    let (found, stderr) = of(&[folder.path().to_str().unwrap()]);
    assert_eq!(found, expected, "{stderr}");
    assert!(stderr.contains("b_details.csv.zst: left out, because "), "{stderr}");
    assert!(stderr.contains("left out 1 entry, not reports of ncu: notes.md"), "{stderr}");
    let none = tempfile::tempdir().unwrap();
    let none = run(&["kernels", none.path().to_str().unwrap()]);
    assert_eq!((none.code, none.stdout.as_str()), (3, ""));
}

/// Two runs in containers have the same process ids, and other times.
#[test]
fn another_run_of_the_same_process_id_is_another_recording() {
    let folder = tempfile::tempdir().unwrap();
    let text = |time: u64| {
        format!(
            "\"ID\",\"Process ID\",\"Kernel Name\",\"Metric Name\",\"Metric Unit\",\"Metric Value\"\n\
             \"0\",\"1\",\"f\",\"gpu__time_duration.sum\",\"ns\",\"{time}\"\n"
        )
    };
    for (name, time) in [("a.csv", 1000), ("b.csv", 1100), ("c.csv", 1000)] {
        std::fs::write(folder.path().join(name), text(time)).unwrap();
    }
    let output = run(&["kernels", folder.path().to_str().unwrap(), "--format", "json"]);
    let json: serde_json::Value = serde_json::from_str(&output.stdout).unwrap();
    assert_eq!(json["total"]["duration_ns"], 2100, "{}", output.stderr);
    assert!(output.stderr.contains("c.csv: left out, because "), "{}", output.stderr);
}

/// A phase is the same launches whether three reports, one with ranges, or a range of that name
/// selects it.
#[test]
fn phases_and_ranges_of_one_network_agree() {
    let fixture = |name: &str| fixture(name).to_str().unwrap().to_owned();
    let [setup, forward, both] = ["setup", "forward", "forward_backward"]
        .map(|stage| fixture(&format!("runs/h200-pytorch/raw/n4_d512_m64_{stage}.csv.zst")));
    let ranges = ["ncu/phases_nvtx_details.csv.zst", "ncu/phases_nvtx.ncu-rep.zst"].map(&fixture);
    let run_directory = fixture("runs/h200-pytorch");
    let of = |arguments: &[&str]| {
        let output = run(&[&["kernels", "--by", "class", "--format", "csv"], arguments].concat());
        assert_eq!((output.code, output.stderr.as_str()), (0, ""), "{arguments:?}");
        output.stdout
    };
    let expected = [
        of(&[&forward, "--phase", "forward", "--setup", &setup]),
        of(&[&both, "--phase", "backward", "--forward", &forward]),
    ];
    for (phase, expected) in ["forward", "backward"].into_iter().zip(&expected) {
        for report in &ranges {
            assert_eq!(of(&[report, "--phase", phase]), *expected, "{report}");
            assert_eq!(of(&[report, "--range", phase]), *expected, "{report}");
        }
        let sizes = ["-n", "4", "-d", "512", "-m", "64"];
        assert_eq!(of(&[&[run_directory.as_str(), "--phase", phase][..], &sizes].concat()), *expected);
    }
    let layers = rows(&of(&[&ranges[0], "--range", "layer:*"]));
    assert_eq!(layers["matmul"]["launches"], "4");
    let one = rows(&of(&[&ranges[0], "--range", "layer:0", "--phase", "forward"]));
    assert_eq!(one["matmul"]["launches"], "1");
    let none = run(&["kernels", &ranges[0], "--range", "layer"]);
    assert_eq!((none.code, none.stdout.as_str()), (3, ""));
    assert!(none.stderr.contains("no launch lies within a range `layer`"), "{}", none.stderr);
}

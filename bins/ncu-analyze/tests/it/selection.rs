//! Parts of reports, and several reports at once.

use crate::{changed_step, fixture, rows, run};

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
    backward.says(&[note]);
    let json = run(&["kernels", path, "--range", "step_0", "--format", "json", "-q"]);
    let json = json.json();
    assert_eq!((&json["launches"], &json["launches_in_files"]), (&140.into(), &141.into()));
    assert_eq!(json["launches_undecided"], 0);
}

/// The same without a range around the passes: `backward` may have ended before autograd's
/// launches.
#[test]
fn launches_that_may_lie_in_a_range_are_named() {
    let item = "\"\"<default domain>:step_0:none:none:none:none:none:none\"\"  ";
    let (_folder, report) = changed_step(|text| {
        assert!(text.contains(item));
        text.replace(item, "")
    });
    let backward = run(&["kernels", report.to_str().unwrap(), "--phase", "backward", "--by", "class"]);
    assert!(backward.stdout.starts_with("By class, backward, 1 of 141 launches\n"), "{}", backward.stdout);
    let warning = "warning: ";
    let named =
        "60 of 141 launches, 18 of them matrix products, may lie within `backward` or not and are in no sum";
    backward.says(&[warning, named]);
}

/// The whole recording of a network is not its forward pass.
#[test]
fn a_forward_pass_with_what_follows_it_is_refused() {
    let [setup, forward, both] = ["setup", "forward", "forward_backward"]
        .map(|name| fixture(format!("notebook/{name}.csv")).to_str().unwrap().to_owned());
    let refused = run(&["kernels", &both, "--phase", "forward", "--setup", &setup]);
    refused.refuses(1, &[]);
    let reason = "goes on after the forward pass, with `vectorized_elementwise_kernel [sigmoid_backward]`";
    refused.says(&[reason, "with --forward"]);
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
        let json = output.json();
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
    let cells = |line: &str| line.split_whitespace().take(5).map(str::to_owned).collect::<Vec<_>>();
    let matmul: Vec<_> = both.stdout.lines().filter(row).map(cells).collect();
    let rows = [["matmul", "1", "1", "unknown", "100"], ["matmul", "0", "1", "unknown", "10"]];
    assert_eq!(matmul, rows, "{}", both.stdout);
    both.says(&["launches of 2 processes (100, 101) are added up"]);
    run(&["kernels", &path, "--device", "2"]).refuses(3, &["the launches name GPU 0, 1"]);
    let title = run(&["kernels", &path, "--device", "1", "--by", "class"]).stdout;
    assert!(title.starts_with("By class, GPU 1, 1 of 3 launches\n"), "{title}");
}

/// A report of traffic and time alone has no columns of dashes. The work is what the command is
/// asked for: it is said to be unknown.
#[test]
fn what_was_not_recorded_has_no_column_but_the_work_is_unknown() {
    let report = fixture("ncu/h200_kernels_graph_nvtx.ncu-rep");
    for by in ["class", "kernel"] {
        let table = run(&["kernels", report.to_str().unwrap(), "--by", by]).stdout;
        let heading = table.lines().nth(1).unwrap().split_whitespace().collect::<Vec<_>>().join(" ");
        let columns = "launches work (FLOP) DRAM (byte) time (ns) of time GB/s";
        assert!(heading.ends_with(columns), "{heading}");
        assert!(!table.contains(" - "), "{table}");
        let rows: Vec<&str> = table.lines().skip(3).take_while(|line| !line.is_empty()).collect();
        assert!(rows.len() > 2 && rows.iter().all(|row| row.contains(" unknown ")), "{table}");
        let why =
            "The FLOPs of all 9 launches are unknown: no counter of floating-point operations was recorded.";
        assert_eq!(table.lines().last(), Some(why), "{table}");
    }
    // A file has an empty cell, which no reader of numbers takes for one.
    let csv = run(&["kernels", report.to_str().unwrap(), "--by", "class", "--format", "csv"]).stdout;
    assert!(rows(&csv).values().all(|row| row["flops"].is_empty()), "{csv}");
}

/// The reasons of a BF16 step in which only FADD, FMUL and FFMA were counted.
#[test]
fn products_of_which_none_is_known_have_their_reasons_below_the_table() {
    let mut products = 0;
    let (_folder, report) = changed_step(|text| {
        products = text.lines().filter(|line| line.contains("\"nvjet_sm90")).count();
        text.replace("sm__ops_path_tensor", "not__recorded")
    });
    let shown = run(&["kernels", report.to_str().unwrap(), "--by", "kernel", "--kernel", "nvjet"]);
    let why = format!(
        "The FLOPs of all {products} launches are unknown: the bf16 operations of the tensor cores were not counted."
    );
    assert_eq!(shown.stdout.lines().last(), Some(&*why), "{}", shown.stdout);
    // With five launches of another report without counters.
    let graph = fixture("ncu/h200_kernels_graph_nvtx.ncu-rep");
    let paths = [report.to_str().unwrap(), graph.to_str().unwrap()];
    let both = run(&["kernels", paths[0], paths[1], "--kernel", "nvjet", "--kernel", "axpy"]);
    let why = format!(
        "The FLOPs of all {} launches are unknown: of {products}, the bf16 operations of the tensor cores were \
         not counted; of 5, no counter of floating-point operations was recorded.",
        products + 5
    );
    assert_eq!(both.stdout.lines().last(), Some(&*why), "{}", both.stdout);
    // With a launch whose FLOPs are known, the warning alone names the others.
    let whole = run(&["kernels", report.to_str().unwrap(), "--by", "class"]).stdout;
    assert!(whole.lines().any(|line| line.starts_with("matmul ") && line.contains(" unknown ")), "{whole}");
    assert!(whole.lines().last().unwrap().starts_with("total "), "{whole}");
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
    run(&["kernels", none.path().to_str().unwrap()]).refuses(3, &[]);
}

/// Of a directory, the whole reports are answered; the others are named with the place.
#[test]
fn a_damaged_report_of_a_directory_does_not_stop_the_others() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().to_str().unwrap();
    let whole = fixture("ncu/renamed_raw.csv.zst");
    std::fs::copy(&whole, folder.path().join("b.csv.zst")).unwrap();
    let expected = run(&["kernels", whole.to_str().unwrap(), "--by", "class", "--format", "csv"]).stdout;
    let report = std::fs::read(fixture("ncu/h200_range.ncu-rep")).unwrap();
    // Behind its header there is nothing: it has no launch.
    std::fs::write(folder.path().join("a.ncu-rep"), &report[..10]).unwrap();
    // Two readings of one file, which is refused in its fourth row.
    let rows = ["1.234,5", "2", "3", "1,234.5"]
        .iter()
        .enumerate()
        .map(|(id, value)| format!("\"{id}\",\"9\",\"f\",\"gpu__time_duration.sum\",\"ns\",\"{value}\"\n"));
    let header = "\"ID\",\"Process ID\",\"Kernel Name\",\"Metric Name\",\"Metric Unit\",\"Metric Value\"\n";
    let text = header.to_owned() + &rows.collect::<String>();
    std::fs::write(folder.path().join("c.csv"), text).unwrap();
    let answer = run(&["kernels", path, "--by", "class", "--format", "csv"]);
    assert_eq!((answer.code, &answer.stdout), (1, &expected), "{}", answer.stderr);
    for (name, place) in [("a.ncu-rep", " at byte "), ("c.csv", ":5: ")] {
        let named = answer.stderr.lines().filter(|line| line.contains(&format!("error: {path}/{name}")));
        let named: Vec<&str> = named.collect();
        assert!(named.len() == 1 && named[0].contains(place), "{name}: {}", answer.stderr);
    }
    // What ncu could not record is not damage.
    for name in ["a.ncu-rep", "c.csv"] {
        std::fs::remove_file(folder.path().join(name)).unwrap();
    }
    std::fs::write(folder.path().join("d.log"), "==WARNING== No kernels were profiled.\n").unwrap();
    let answer = run(&["kernels", path, "--by", "class", "--format", "csv"]);
    assert_eq!((answer.code, &answer.stdout), (0, &expected), "{}", answer.stderr);
    answer.says(&["skipped: ", "d.log:1: "]);
    // Named by itself, a damaged report is all that was asked for.
    let damaged = folder.path().join("e.ncu-rep");
    std::fs::write(&damaged, &report[..10]).unwrap();
    run(&["kernels", damaged.to_str().unwrap(), whole.to_str().unwrap()]).refuses(1, &[]);
}

/// The step of `lm_raw` after its forward pass: nothing shows where the backward pass ends, and the
/// title says so. The 36 launches of its optimizer have names that any addition has.
#[test]
fn a_backward_pass_without_ranges_is_all_that_follows() {
    let text = flopgap_testing::unpacked_text("ncu/lm_raw.csv.zst");
    let lines: Vec<&str> = text.lines().collect();
    let last = lines.iter().rposition(|line| line.contains("<default domain>:forward:")).unwrap();
    assert_eq!(lines.iter().filter(|line| line.contains("<default domain>:optimizer:")).count(), 36);
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, lines: &[&str]| {
        let path = folder.path().join(name);
        std::fs::write(&path, lines.join("\n") + "\n").unwrap();
        path.to_str().unwrap().to_owned()
    };
    let (forward, step) = (write("forward.csv", &lines[..=last]), write("step.csv", &lines));
    let backward = run(&["kernels", &step, "--phase", "backward", "--forward", &forward, "--by", "class"]);
    assert_eq!(backward.code, 0, "{}", backward.stderr);
    // Two lines of headings.
    let title = format!(
        "By class, backward (all after forward.csv), {} of {} launches",
        lines.len() - last - 1,
        lines.len() - 2
    );
    assert_eq!(backward.stdout.lines().next(), Some(&*title));
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
    let json = output.json();
    assert_eq!(json["total"]["duration_ns"], 2100, "{}", output.stderr);
    output.says(&["c.csv: left out, because "]);
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
    run(&["kernels", &ranges[0], "--range", "layer"]).refuses(3, &["no launch lies within a range `layer`"]);
}

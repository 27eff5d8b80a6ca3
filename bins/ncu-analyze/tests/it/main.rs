//! The built `ncu-analyze` on recorded reports.

mod comparison;
mod selection;

use std::path::{Path, PathBuf};
use std::process::Command;

use assert_cmd::cargo::cargo_bin;
use flopgap_testing::{Ended, fixture, unpacked_text};
use tempfile::TempDir;

/// The report of a recorded BF16 step with its text changed, in a folder of its own.
fn changed_step(change: impl FnOnce(&str) -> String) -> (TempDir, PathBuf) {
    let text = unpacked_text("ncu/lm_raw_base.csv.zst");
    let (folder, [report]) = flopgap_testing::paths(["three.csv"]);
    std::fs::write(&report, change(&text)).unwrap();
    (folder, report)
}

fn run(arguments: &[&str]) -> Ended {
    Ended::of(Command::new(cargo_bin("ncu-analyze")).args(arguments))
}

fn overhead(sizes: [&str; 3], stages: [&Path; 3], more: &[&str]) -> Ended {
    let [setup, forward, both] = stages.map(|path| path.to_str().unwrap());
    let arguments = [
        "overhead",
        "--layers",
        sizes[0],
        "--width",
        sizes[1],
        "--columns",
        sizes[2],
        "--setup",
        setup,
        "--forward",
        forward,
    ]
    .into_iter()
    .chain(["--forward-backward", both])
    .chain(more.iter().copied());
    run(&arguments.collect::<Vec<_>>())
}

fn notebook() -> [PathBuf; 3] {
    ["notebook/setup.csv", "notebook/forward.csv", "notebook/forward_backward.csv"].map(fixture)
}

#[test]
fn overhead_prints_the_sections_of_the_notebook() {
    let files = notebook();
    let output = overhead(["10", "1024", "128"], files.each_ref().map(PathBuf::as_path), &[]);
    output.succeeds_quietly();
    for line in [
        "GEMM        2,702,704,640   2,684,354,560",
        "split-K         3,932,160               0",
        "total       5,134,952,944   5,102,764,032",
        "epsilon               0.0068         0.0039",
        "rho                   3.0000         4.3464",
        "kappa                14.9987         0.5789",
        "reconstructed  2,727,606,586  5,134,952,944",
    ] {
        let words: Vec<&str> = line.split_whitespace().collect();
        let found = output.stdout.lines().any(|printed| {
            let printed: Vec<&str> = printed.split_whitespace().collect();
            printed.windows(words.len()).any(|window| window == words)
        });
        assert!(found, "`{line}` is not in\n{}", output.stdout);
    }
}

#[test]
fn overhead_in_json_and_csv() {
    let files = notebook();
    let paths = files.each_ref().map(PathBuf::as_path);
    let json = overhead(["10", "1024", "128"], paths, &["--format", "json"]);
    let json = json.json();
    assert_eq!(json["forward"]["measured"]["total"], 2_727_606_586_u64);
    assert_eq!(json["backward"]["measured"]["split_k"], 10_824_176);
    let csv = overhead(["10", "1024", "128"], paths, &["--format", "csv"]).stdout;
    let lines: Vec<&str> = csv.lines().collect();
    assert_eq!(
        lines[0],
        "n,d,m,pass,gemm,split_k,activation,other,total,theory_gemm,theory_activation,epsilon,rho,kappa,omega,reconstructed"
    );
    assert!(lines[1].starts_with(
        "10,1024,128,forward,2702704640,3932160,20969786,0,2727606586,2684354560,1310720,0.0068"
    ));
    assert_eq!(lines.len(), 3);
}

#[test]
fn one_report_with_ranges_is_enough() {
    let file = fixture("ncu/phases_nvtx_details.csv.zst");
    run(&[
        "overhead",
        "-n",
        "4",
        "-d",
        "512",
        "-m",
        "64",
        "--forward-backward",
        file.to_str().unwrap(),
        "--format",
        "csv",
    ])
    .succeeds_quietly()
    .prints(&["4,512,64,backward,"]);
}

#[test]
fn files_in_the_wrong_order_are_refused_with_the_difference() {
    let [setup, forward, both] = notebook();
    let output = overhead(["10", "1024", "128"], [&forward, &setup, &both], &[]);
    output.expect(1, &["has only 1 launches, but", "\n  hint: the files must come from the same program"]);
    assert_eq!(output.stdout, "");
}

/// A recording that cannot be one of the stated network gives no number, and with `--force` one
/// with the reason next to it.
#[test]
fn impossible_results_are_refused_and_can_be_forced() {
    let files = notebook();
    let paths = files.each_ref().map(PathBuf::as_path);
    for (sizes, reason) in [
        (["17", "1024", "128"], "which are those of 10 layers, not of 17"),
        (["10", "2048", "128"], "GEMM FLOPs were counted, but the stated network needs 10737418240"),
        (["10", "1024", "130"], "GEMM FLOPs were counted, but the stated network needs 2726297600"),
    ] {
        let refused = overhead(sizes, paths, &[]);
        assert_eq!((refused.code, refused.stdout.as_str()), (1, ""), "{sizes:?}");
        refused.says(&[reason, "--force shows the numbers anyway"]);
        let forced = overhead(sizes, paths, &["--force", "--format", "json"]);
        assert_eq!(forced.code, 0, "{}", forced.stderr);
        assert!(forced.stderr.starts_with("ncu-analyze: warning: "), "{}", forced.stderr);
        let json = forced.json();
        let said = json["contradictions"].as_array().unwrap();
        assert!(said.iter().any(|one| one.as_str().unwrap().contains(reason)), "{json}");
    }
}

/// Sizes whose products padding explains: the activations are against them, and the sizes that ran
/// are named.
#[test]
fn sizes_that_did_not_run_are_refused_with_those_that_did() {
    let files = notebook();
    let paths = files.each_ref().map(PathBuf::as_path);
    let fits = "they fit width 1024 and 128 columns\n  hint: pass width 1024 and 128 columns";
    for (width, columns, reason) in [
        ("894", "146", "3.0126 for each of 130524 elements, which is not a whole number"),
        ("1024", "64", "6.0000 for each of 65536 elements, and the gradient of a sigmoid takes 3"),
        ("1024", "4", "32.2 times the 83886080 that these sizes need"),
    ] {
        overhead(["10", width, columns], paths, &[]).refuses(1, &[reason, fits]);
    }
}

#[test]
fn a_recording_without_its_last_launch_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let [setup, forward, both] = notebook();
    let text = std::fs::read_to_string(both).unwrap();
    let cut = folder.path().join("cut.csv");
    std::fs::write(&cut, &text[..text.find("\"69\",").unwrap()]).unwrap();
    let refused = overhead(["10", "1024", "128"], [&setup, &forward, &cut], &[]);
    refused.refuses(1, &[]);
    let reason = "cut.csv: the backward phase has 18 of 19 matrix products; a product of layer 1 is missing;";
    refused.says(&[reason]);
}

#[test]
fn a_report_that_is_appended_to_itself_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let text = std::fs::read_to_string(fixture("ncu/n4_d512_m64_forward.csv")).unwrap();
    let twice = folder.path().join("twice.csv");
    std::fs::write(&twice, text.repeat(2)).unwrap();
    let path = twice.to_str().unwrap();
    for arguments in [&["kernels", path][..], &["diff", path, path]] {
        run(arguments).refuses(1, &[": launch 0 of process ", " is already at "]);
    }
}

#[test]
fn exit_codes() {
    assert_eq!(run(&["overhead"]).code, 2);
    assert_eq!(run(&["overhead", "-n", "0", "-d", "1", "-m", "1", "--forward-backward", "x"]).code, 2);
    run(&["kernels", "no-such-file.csv"]).expect(1, &["no-such-file.csv"]);

    let (_folder, [report]) = flopgap_testing::paths(["empty.csv"]);
    std::fs::write(&report, "==WARNING== No kernels were profiled.\n").unwrap();
    run(&["kernels", report.to_str().unwrap()]).expect(3, &["empty.csv:1: ncu profiled no kernel\n  hint: "]);
    run(&["diff", "-", "-"]).expect(2, &["standard input can be read once"]);
}

/// What ncu never writes and editors of tables do: no number comes out of it, and the error says
/// what is wrong.
#[test]
fn tables_that_were_edited_are_refused_by_name() {
    let (_folder, [report]) = flopgap_testing::paths(["edited.csv"]);
    let path = report.to_str().unwrap();
    let kernels = |table: &str| {
        std::fs::write(&report, table).unwrap();
        run(&["kernels", path, "--by", "kernel", "--format", "csv"])
    };
    let header = "\"ID\",\"Kernel Name\",\"Metric Name\",\"Metric Unit\",\"Metric Value\"\n";
    let row = |value: &str| {
        format!(
            "\"0\",\"saxpy\",\"smsp__sass_thread_inst_executed_op_ffma_pred_on.sum\",\"inst\",\"{value}\"\n"
        )
    };
    for (table, what) in [
        (header.replace(',', ";"), "fields are not separated by commas"),
        (header.replace("\"ID\",", "\"Process ID\","), "no column `ID`"),
        (header.replace("\"Kernel Name\",", ""), "no column `Kernel Name`"),
        (header.replace("\"Metric Name\",", ""), "no column `Metric Name`"),
        (header.replace(",\"Metric Value\"", ""), "no column `Metric Value`"),
    ] {
        let refused = kernels(&table);
        assert_eq!((refused.code, refused.stdout.as_str()), (3, ""), "{table}");
        assert!(refused.stderr.contains(what), "{what}: {}", refused.stderr);
    }
    kernels(header).refuses(3, &["edited.csv: table has no rows\n"]);
    // More digits than 64 bits hold, twice: the second is read on the fast path.
    let huge = "9".repeat(24);
    kernels(&format!("{header}{}{}", row(&huge), row(&huge))).expect(0, &["count exceeds 64 bits"]);
}

#[test]
fn kernels_by_kernel_and_by_class() {
    let file = fixture("ncu/n10_d1024_m128_forward_backward.csv.zst");
    let output = run(&["kernels", file.to_str().unwrap(), "--by", "class", "--format", "csv"]);
    output.succeeds_quietly();
    let header = output.stdout.lines().next().unwrap();
    assert!(header.starts_with("class,launches,flops,share"), "{header}");
    let matmul = output.stdout.lines().find(|line| line.starts_with("matmul,")).unwrap();
    assert!(matmul.starts_with("matmul,29,"), "10 forward and 19 backward products: {matmul}");

    let json = run(&["kernels", file.to_str().unwrap(), "--format", "json"]).stdout;
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    let kernels = json["kernels"].as_array().unwrap();
    let launches: u64 = kernels.iter().map(|kernel| kernel["launches"].as_u64().unwrap()).sum();
    assert_eq!(launches, 81);
    assert_eq!(json["launches"], 81);
}

#[test]
fn a_report_does_not_differ_from_itself() {
    let file = fixture("ncu/n10_d1024_m128_forward_backward.csv.zst");
    let path = file.to_str().unwrap();
    let same = run(&["diff", path, path, "--format", "csv"]);
    same.succeeds_quietly();
    for (name, row) in rows(&same.stdout) {
        assert_eq!(
            (row["launches_difference"].as_str(), row["flops_difference"].as_str()),
            ("0", "0"),
            "{name}"
        );
    }
    let other = fixture("ncu/n10_d1024_m128_forward.csv.zst");
    let differs = run(&["diff", other.to_str().unwrap(), path]);
    assert_eq!(differs.code, 0);
    assert!(differs.stdout.contains("reduce_kernel"), "the loss is only in the second: {}", differs.stdout);
}

/// Nothing in the report decides whether `117.344` is about a hundred or about a hundred thousand.
#[test]
fn an_undecidable_number_is_refused_until_it_is_decided() {
    let (_folder, [report]) = flopgap_testing::paths(["cycles.csv"]);
    let csv = "\"ID\",\"Kernel Name\",\"Metric Name\",\"Metric Unit\",\"Metric Value\"\n\
               \"0\",\"saxpy\",\"sm__cycles_active.avg\",\"cycle\",\"117.344\"\n";
    std::fs::write(&report, csv).unwrap();
    let path = report.to_str().unwrap();
    run(&["kernels", path]).expect(1, &["cycles.csv:2: `117.344` may be a whole number", "with --decimal"]);
    assert_eq!(run(&["kernels", path, "--decimal", "comma"]).code, 0);
}

#[test]
fn standard_input_is_a_report_too() {
    let report = std::fs::File::open(fixture("notebook/forward.csv")).unwrap();
    let mut command = Command::new(cargo_bin("ncu-analyze"));
    Ended::of(command.args(["kernels", "-", "--by", "class", "--format", "csv"]).stdin(report))
        .prints(&["matmul,10,2702704640,"]);
}

/// One step of a BF16 network under ranges named `step/0`, `blocks.0/mlp a/b` and `loss (a, b)`.
#[test]
fn ranges_before_the_kernels_names_are_not_kernels() {
    for page in ["details", "raw"] {
        let file = fixture(format!("ncu/renamed_{page}.csv.zst"));
        let output = run(&["kernels", file.to_str().unwrap(), "--by", "kernel", "--format", "csv"]);
        assert_eq!(output.code, 0, "{}", output.stderr);
        for line in output.stdout.lines() {
            assert!(!line.contains('/') && !line.contains(",other,"), "{line}");
        }
        output.prints(&["nvjet_sm90_tst_64x8_64x16_1x2_h_bz_bias_TNT,matmul,"]);
    }
}

/// The three counters that a 32-bit network needs, of a BF16 step: nothing shows its products as 0.
#[test]
fn unknown_work_is_never_printed_as_zero() {
    let (_folder, report) = changed_step(|text| {
        text.replace("sm__ops_path_tensor", "not__recorded").replace("_pipe_tensor", "_not_recorded")
    });
    let path = report.to_str().unwrap();
    let kernels = |format: &str| run(&["kernels", path, "--by", "class", "--format", format]);

    let table = kernels("table");
    let matmul = table.stdout.lines().find(|line| line.starts_with("matmul ")).unwrap();
    let cells: Vec<&str> = matmul.split_whitespace().take(4).collect();
    assert_eq!(cells, ["matmul", "27", "unknown", "-"], "{matmul}");
    let message = "the FLOPs of 27 of 141 launches are unknown and in no sum or share (`nvjet_sm90_tst_";
    table.says(&[message, "record `ncu --metrics sm__ops_path_tensor_src_bf16_dst_fp32.sum`\n"]);
    let csv = kernels("csv").stdout;
    assert!(csv.lines().any(|line| line.starts_with("matmul,27,,,")), "{csv}");
    let shares = csv.lines().skip(1).filter_map(|line| line.split(',').nth(3)?.parse::<f64>().ok());
    assert!((shares.sum::<f64>() - 1.0).abs() < 1e-3, "shares are of what is known: {csv}");
    let json = kernels("json").json();
    let class =
        |name: &str| json["classes"].as_array().unwrap().iter().find(|row| row["class"] == name).unwrap();
    assert_eq!(class("matmul")["flops"], serde_json::Value::Null);
    assert_eq!(class("matmul")["share"], serde_json::Value::Null);
    assert_eq!(class("matmul")["launches_of_unknown_flops"], 27);
    assert_eq!(class("copy")["flops"], 0);
    assert_eq!(json["total"]["flops"], serde_json::Value::Null);

    let diff = run(&["diff", path, path, "--format", "csv"]);
    assert!(
        rows(&diff.stdout).iter().any(|(name, row)| {
            name.starts_with("nvjet")
                && ["flops_a", "flops_b", "flops_change"].iter().all(|key| row[*key].is_empty())
        }),
        "{}",
        diff.stdout
    );
    diff.says(&[message]);
}

/// A report that was cut off ends with 1, whatever it is packed in; what could be read of it is
/// printed.
#[test]
fn reports_that_break_off_end_with_one() {
    let folder = tempfile::tempdir().unwrap();
    let text = std::fs::read(fixture("ncu/n4_d512_m64_forward.csv")).unwrap();
    let mut gz = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    std::io::Write::write_all(&mut gz, &text).unwrap();
    let zst = zstd::encode_all(&text[..], 1).unwrap();
    let packed = [("csv", text), ("csv.gz", gz.finish().unwrap()), ("csv.zst", zst)];
    for (ending, bytes) in &packed {
        for kept in [bytes.len() * 3 / 4, bytes.len() - 5] {
            let path = folder.path().join(format!("cut.{ending}"));
            std::fs::write(&path, &bytes[..kept]).unwrap();
            let cut = run(&["kernels", path.to_str().unwrap()]);
            assert_eq!(cut.code, 1, "{ending} {kept}: {}", cut.stderr);
            assert!(cut.stderr.contains("error: "), "{ending}: {}", cut.stderr);
            assert!(!cut.stderr.contains("filter"), "{ending}: {}", cut.stderr);
        }
    }
    // A binary report that ends behind its header, as ncu leaves it when it is killed.
    let whole = std::fs::read(fixture("ncu/h200_range.ncu-rep")).unwrap();
    let report = folder.path().join("killed.ncu-rep");
    for kept in [2, 6, 10, 11, 100, 20_000] {
        std::fs::write(&report, &whole[..kept]).unwrap();
        let killed = run(&["kernels", report.to_str().unwrap()]);
        assert_ne!(killed.code, 0, "{kept}: {}", killed.stdout);
        assert!(!killed.stderr.contains("filter"), "{kept}: {}", killed.stderr);
    }
    std::fs::write(&report, &whole[..10]).unwrap();
    run(&["kernels", report.to_str().unwrap()]).expect(1, &["file ends after its header"]);
}

/// What a report lacks is named with the launch, the line and what to record.
#[test]
fn what_is_not_known_is_named_with_its_place() {
    let (_folder, [path]) = flopgap_testing::paths(["partial.csv"]);
    let text = std::fs::read_to_string(fixture("notebook/forward.csv")).unwrap();
    std::fs::write(&path, text.replace("\"917,436\"", "\"n/a\"")).unwrap();
    let partial = run(&["kernels", path.to_str().unwrap(), "--by", "class"]);
    assert_eq!(partial.code, 0);
    let message = "the FLOPs of 8 of 31 launches are unknown and in no sum or share (`vectorized_elementwise_kernel [sigmoid]` (8 launches), \
                   the first in line ";
    partial.says(&[message, "_op_ffma_pred_on.sum"]);

    // Nothing but traffic and time was recorded.
    let bytes =
        run(&["kernels", fixture("ncu/h200_kernels_graph_nvtx.ncu-rep").to_str().unwrap(), "--by", "class"]);
    assert_eq!(bytes.code, 0);
    let message = "no counter of floating-point operations was recorded; to count them, record `ncu --metrics \
                   smsp__sass_thread_inst_executed_op_fadd_pred_on.sum,";
    bytes.says(&[message]);
    assert!(bytes.stderr.contains(",sm__ops_path_tensor_src_fp16.sum,"), "for this GPU: {}", bytes.stderr);
}

/// The overheads of a network whose products were not counted would be made up.
#[test]
fn overhead_refuses_products_that_were_not_counted() {
    let (_folder, report) = changed_step(|text| text.replace("sm__ops_path_tensor", "not__recorded"));
    let path = report.to_str().unwrap();
    let refused = run(&["overhead", "-n", "4", "-d", "512", "-m", "64", "--forward-backward", path]);
    refused.refuses(3, &[]);
    let message = "are unknown: the bf16 operations of the tensor cores were not counted\n  \
                   hint: profile again with `ncu --metrics sm__ops_path_tensor_src_bf16_dst_fp32.sum`";
    refused.says(&["three.csv:8: the FLOPs of `nvjet_", message]);
}

/// The rows of a table in CSV, by the value of their first column.
fn rows(csv: &str) -> std::collections::BTreeMap<String, std::collections::BTreeMap<String, String>> {
    let mut lines = csv.lines();
    let header: Vec<&str> = lines.next().unwrap().split(',').collect();
    let row = |line: &str| {
        let cells: Vec<String> = line.split(',').map(str::to_owned).collect();
        let by_name = header.iter().map(|name| (*name).to_owned()).zip(cells.clone());
        (cells[0].clone(), by_name.collect())
    };
    lines.map(row).collect()
}

/// The notebook's tables of instructions: forward with setup's launches taken off, backward with
/// those of forward.
#[test]
fn the_notebook_by_phase_class_and_instruction() {
    let [setup, forward, both] = notebook().map(|path| path.to_str().unwrap().to_owned());
    let of = |arguments: &[&str]| {
        let more = ["--by", "class", "--format", "csv"];
        let output = run(&[&["kernels"], arguments, &more].concat());
        assert_eq!((output.code, output.stderr.as_str()), (0, ""), "{arguments:?}");
        rows(&output.stdout)
    };
    let forward_of = [
        of(&[&forward, "--phase", "forward", "--setup", &setup]),
        of(&[&both, "--phase", "forward", "--setup", &setup, "--forward", &forward]),
    ];
    for forward in forward_of {
        assert_eq!(forward.keys().collect::<Vec<_>>(), ["elementwise", "matmul", "split-k-reduce"]);
        for (class, counts) in [
            ("matmul", ["2702704640", "7864320", "10485760", "1342177280"]),
            ("split-k-reduce", ["3932160", "2621440", "1310720", "0"]),
            ("elementwise", ["20969786", "2621070", "0", "9174358"]),
        ] {
            assert_eq!(["flops", "fadd", "fmul", "ffma"].map(|key| forward[class][key].as_str()), counts);
        }
    }
    let backward = of(&[&both, "--phase", "backward", "--forward", &forward]);
    assert_eq!(backward["matmul"]["launches"], "19");
    assert_eq!(backward["matmul"]["ffma"], "2550136832");
    assert_eq!(of(&[&both, "--phase", "setup", "--setup", &setup])["random"]["launches"], "1");

    // What does not begin with the other report is refused, and so is a phase that nothing marks.
    run(&["kernels", &setup, "--phase", "backward", "--forward", &forward])
        .refuses(1, &["has only 1 launches, but"]);
    run(&["kernels", &both, "--phase", "backward"]).refuses(3, &["no launch belongs to the backward phase"]);
}

/// A record is a report of its phases, and a run directory the sum over its networks.
#[test]
fn records_and_run_directories_have_kernels_too() {
    let run_directory = fixture("runs/h200-default");
    let path = run_directory.to_str().unwrap();
    let json = |arguments: &[&str]| -> serde_json::Value {
        let output = run(&[&["kernels", "--format", "json"], arguments].concat());
        assert_eq!((output.code, output.stderr.as_str()), (0, ""), "{arguments:?}");
        output.json()
    };
    let record = run_directory.join("raw/n2_d128_m16.counts.json.zst");
    let one = json(&[record.to_str().unwrap(), "--phase", "forward"]);
    // As the run's table has it: `2,128,16,forward,8519680,20480,65536,0,8605696`.
    assert_eq!(one["total"]["flops"], 8_605_696);
    // Two reductions of 8,192 and two sigmoids of 4,096.
    assert_eq!((&one["total"]["instructions"]["fadd"], &one["launches"]), (&24_576.into(), &6.into()));
    assert_eq!(json(&[record.to_str().unwrap(), "--range", "forward"])["total"], one["total"]);

    let table = std::fs::read_to_string(run_directory.join("processed/metrics.csv")).unwrap();
    let wanted = table.lines().filter(|line| line.contains(",backward,") && line.starts_with("2,"));
    let total = |line: &str| line.split(',').nth(8).unwrap().parse::<u64>().unwrap();
    let of_run = json(&[path, "--phase", "backward", "-n", "2"]);
    assert_eq!(of_run["configurations"], 256);
    assert_eq!(of_run["total"]["flops"], wanted.map(total).sum::<u64>());
    run(&["kernels", path, "-n", "3"]).refuses(3, &[]);
}

#[test]
fn tables_have_a_total_and_a_row_for_what_is_not_shown_and_no_two_names_alike() {
    let report = fixture("ncu/lm_raw.csv.zst");
    let path = report.to_str().unwrap();
    let text = run(&["kernels", path, "--by", "kernel", "--top", "3"]).stdout;
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 3 + 3 + 2, "{text}");
    assert!(lines[6].contains(" more ") && lines[7].starts_with("total "), "{text}");

    let csv = run(&["kernels", path, "--format", "csv"]).stdout;
    assert!(csv.lines().next().unwrap().ends_with(",name"), "{csv}");
    let json = run(&["kernels", path, "--format", "json"]).json();
    let of = |key: &str| -> Vec<String> {
        let kernels = json["kernels"].as_array().unwrap().iter();
        let mut values: Vec<String> =
            kernels.map(|kernel| kernel[key].as_str().unwrap().to_owned()).collect();
        values.sort();
        values.dedup();
        values
    };
    assert_eq!(of("kernel").len(), of("name").len());
    assert!(
        of("kernel").iter().any(|label| label.ends_with('>') || label.ends_with(')')),
        "{:?}",
        of("kernel")
    );
}

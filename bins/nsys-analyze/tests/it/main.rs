//! The built `nsys-analyze` on recorded traces.

mod answers;
mod batch;
mod browser;
mod capture;
#[cfg(feature = "ceilings")]
mod ceilings;
mod compressed;
mod export;
mod exports;
mod gap;
mod hostile;
mod kineto;
mod messages;
mod recognized;
mod sentences;
mod summary;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use assert_cmd::cargo::cargo_bin;
use flopgap_testing::Ended;
use tempfile::TempDir;

fn fixtures() -> PathBuf {
    flopgap_testing::fixture("nsys")
}

/// A folder with a recorded trace in it, and the trace's path.
fn trace(name: &str) -> (TempDir, String) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(format!("{name}.sqlite"));
    flopgap_testing::unpack(format!("nsys/{name}.sqlite.zst"), &path);
    let path = path.to_str().unwrap().to_owned();
    (folder, path)
}

fn golden(name: &str) -> String {
    fs::read_to_string(fixtures().join("golden").join(name)).unwrap()
}

fn run(arguments: &[&str]) -> Ended {
    Ended::of(Command::new(cargo_bin("nsys-analyze")).args(arguments))
}

#[test]
fn csv_is_what_nsys_prints() {
    let (_folder, path) = trace("small_forward");
    for report in ["cuda_gpu_kern_sum", "nvtx_sum", "nvtx_gpu_proj_sum", "osrt_sum"] {
        let output = run(&["stats", &path, "--report", report, "--format", "csv"]);
        output.succeeds_quietly();
        // nsys ends with an empty line.
        assert_eq!(
            output.stdout.trim_end(),
            golden(&format!("small_forward/{report}.csv")).trim_end(),
            "{report}"
        );
    }
}

#[test]
fn several_reports_are_apart() {
    let (_folder, path) = trace("small_forward");
    let both = run(&["stats", &path, "-r", "cuda_gpu_mem_time_sum,nvtx_sum", "--format", "csv"]).stdout;
    let parts: Vec<&str> = both.split("\n\n").collect();
    assert_eq!(parts.len(), 2);
    assert_eq!(parts[0], golden("small_forward/cuda_gpu_mem_time_sum.csv").trim_end());
    assert_eq!(parts[1].trim_end(), golden("small_forward/nvtx_sum.csv").trim_end());

    let json = run(&["stats", &path, "-r", "cuda_gpu_mem_time_sum,nvtx_sum", "--format", "json"]);
    let json = json.json();
    assert_eq!(json[0]["report"], "cuda_gpu_mem_time_sum");
    assert_eq!(json[0]["trace"], path);
    assert_eq!(json[1]["rows"][0]["Range"], ":forward");
    assert_eq!(json[1]["rows"][0]["Total Time (ns)"], 390_224_299);
}

#[test]
fn units_and_formats() {
    let (_folder, path) = trace("small_forward");
    let csv = run(&["stats", &path, "-r", "cuda_gpu_mem_time_sum", "--format", "csv", "--timeunit", "msec"]);
    let lines: Vec<&str> = csv.stdout.lines().collect();
    assert_eq!(
        lines[..2],
        [
            "Time (%),Total Time (ms),Count,Avg (ms),Med (ms),Min (ms),Max (ms),StdDev (ms),Operation",
            "97.3,34.9945,124,0.2822,0.1411,0.0008,3.2430,0.4964,[CUDA memcpy Host-to-Device]"
        ]
    );
    let table = run(&["stats", &path, "-r", "nvtx_sum"]).stdout;
    assert!(table.starts_with("nvtx_sum\nTime (%)  Total Time (ns)"), "{table}");
    assert!(table.contains("390,224,299"), "{table}");
    let markdown = run(&["stats", &path, "-r", "nvtx_sum", "--format", "markdown"]).stdout;
    assert!(markdown.contains("| :forward |"), "{markdown}");
    let json = run(&["stats", &path, "-r", "nvtx_sum", "--format", "json"]).stdout;
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json[0]["Instances"], 3);
}

#[test]
fn fields_with_quotes_are_valid_csv() {
    let (_folder, path) = trace("streams_domains");
    let csv = run(&["stats", &path, "-r", "nvtx_pushpop_sum", "--format", "csv"]).stdout;
    assert!(csv.contains("\":compute, with \"\"quotes\"\"\""), "{csv}");
}

#[test]
fn files_are_written_for_each_trace_and_report() {
    let (folder, path) = trace("nvtx_only");
    let output = folder.path().join("reports/csv");
    let result = run(&["stats", &path, "--output", output.to_str().unwrap(), "--format", "csv"]);
    result.refuses(0, &[]);
    let mut files: Vec<String> =
        fs::read_dir(&output).unwrap().map(|file| file.unwrap().file_name().into_string().unwrap()).collect();
    files.sort();
    assert_eq!(files, ["nvtx_only_nvtx_sum.csv", "nvtx_only_osrt_sum.csv"]);
    let written = fs::read_to_string(output.join("nvtx_only_osrt_sum.csv")).unwrap();
    assert_eq!(written.trim_end(), golden("nvtx_only/osrt_sum.csv").trim_end());
    result.says(&["SKIPPED: cuda_gpu_kern_sum: "]);

    run(&["stats", &path, &path, "-r", "nvtx_sum", "--output", output.to_str().unwrap()])
        .expect(1, &["would be written to one file"]);
}

#[test]
fn what_is_not_there_is_skipped_and_nothing_at_all_is_exit_3() {
    let (_folder, path) = trace("nvtx_only");
    let some = run(&["stats", &path, "-r", "cuda_gpu_kern_sum,nvtx_sum", "--format", "csv"]);
    some.expect(
        0,
        &[
            "SKIPPED: cuda_gpu_kern_sum: ",
            "does not contain CUDA kernel data (no table CUPTI_ACTIVITY_KIND_KERNEL)",
        ],
    );
    assert_eq!(some.stdout.trim_end(), golden("nvtx_only/nvtx_sum.csv").trim_end());

    let none = run(&["stats", &path, "-r", "cuda_gpu_kern_sum,nvtx_startend_sum"]);
    none.refuses(3, &["nvtx_startend_sum: ", "recorded nothing of the kind"]);
    assert!(none.stderr.ends_with("error: the trace has none of the requested data\n"), "{}", none.stderr);
}

#[test]
fn exit_codes_of_bad_input() {
    assert_eq!(run(&["stats"]).code, 2);
    let (folder, path) = trace("nvtx_only");
    run(&["stats", &path, "-r", "kernels"]).expect(2, &["unknown report `kernels`; there are"]);
    let recording = folder.path().join("a.nsys-rep");
    fs::write(&recording, b"a recording").unwrap();
    run(&["stats", recording.to_str().unwrap()]).expect(
        1,
        &["hint: add --export where nsys is installed, or export it first: `nsys export --type sqlite"],
    );
    assert_eq!(run(&["stats", "no-such.sqlite"]).code, 1);
    let report = fixtures().join("../ncu/h200_range.ncu-rep");
    run(&["stats", report.to_str().unwrap()])
        .says(&["a report of Nsight Compute)\n  hint: read it with `flopgap ncu`"]);
    // A recording alone, which is not exported.
    fs::remove_file(&path).unwrap();
    run(&["summary", folder.path().to_str().unwrap()])
        .expect(3, &["hint: `flopgap nsys batch` takes a directory"]);
    for usage in [
        &["kernels", "--top", "0"][..],
        &["attention", "--batch", "0", "--heads", "1", "--seq", "1", "--head-dim", "1"],
        &["export", "--format", "perfetto", "--table", "kernels"],
    ] {
        assert_eq!(run(&[usage, &[&path]].concat()).code, 2, "{usage:?}");
    }
}

/// What nobody can read on standard error takes neither the result nor the exit code with it.
#[cfg(target_os = "linux")]
#[test]
fn standard_error_that_is_full_does_no_harm() {
    let (_folder, path) = trace("nvtx_only");
    let full = || fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let program = cargo_bin("nsys-analyze");
    let stats = |format: &str| {
        let mut command = Command::new(&program);
        command.args(["stats", &path, "-r", "cuda_gpu_kern_sum,nvtx_sum", "--format", format]).stderr(full());
        command.output().unwrap()
    };
    let done = stats("csv");
    assert_eq!(done.status.code(), Some(0));
    assert_eq!(
        String::from_utf8(done.stdout).unwrap().trim_end(),
        golden("nvtx_only/nvtx_sum.csv").trim_end()
    );
    let failed = Command::new(&program).args(["stats", "no-such.sqlite"]).stderr(full()).output();
    assert_eq!(failed.unwrap().status.code(), Some(1));
}

#[test]
fn rules_print_what_nsys_analyze_prints() {
    let (_folder, path) = trace("streams_domains");
    let util = run(&["rules", &path, "--rule", "gpu_time_util", "--format", "csv"]);
    assert_eq!(util.code, 0);
    assert_eq!(util.stdout.trim_end(), golden("streams_domains/rule_gpu_time_util.csv").trim_end());
    util.says(&["gpu_time_util: The GPU was busy for little of this time"]);

    // Finding nothing is an answer, not having looked is none.
    run(&["rules", &path, "--rule", "gpu_gaps"]).refuses(0, &["gpu_gaps: ", "nothing found"]);
    let (_folder, path) = trace("nvtx_only");
    let all = run(&["rules", &path]);
    assert_eq!(all.code, 3, "{}", all.stderr);
    assert_eq!(all.stderr.matches("SKIPPED").count(), 6, "{}", all.stderr);
    assert_eq!(run(&["rules", &path, "--rule", "speed"]).code, 2);
}

#[test]
fn kernels_of_a_range_with_class_and_share() {
    let (_folder, path) = trace("small_forward");
    let all = run(&["kernels", &path, "--format", "csv"]);
    all.succeeds_quietly();
    // The same kernels as in nsys's summary, in the same order.
    let nsys = golden("small_forward/cuda_gpu_kern_sum.csv");
    let totals: Vec<&str> =
        nsys.trim_end().lines().skip(1).map(|line| line.split(',').nth(1).unwrap()).collect();
    let ours: Vec<&str> = all.stdout.lines().skip(1).map(|line| line.rsplit(',').nth(3).unwrap()).collect();
    assert_eq!(ours, totals);
    // CSV has the names as recorded.
    let nsys_name = nsys.lines().nth(1).unwrap().splitn(9, ',').nth(8).unwrap();
    assert!(all.stdout.lines().nth(1).unwrap().starts_with(nsys_name), "{nsys_name}");

    let json = run(&[
        "kernels",
        &path,
        "--range",
        "forward",
        "--exclude",
        "matmul",
        "--top",
        "3",
        "--format",
        "json",
    ]);
    let found = json.json();
    let kernels = found["kernels"].as_array().unwrap();
    assert_eq!(kernels.len(), 3);
    assert!(kernels.iter().all(|kernel| kernel["class"] != "matmul"));
    let softmax = run(&["kernels", &path, "--range", "computing_softmax", "--format", "json"]);
    let found = softmax.json();
    let kernel = &found["kernels"][0];
    // Twelve layers, two steps.
    assert_eq!((&kernel["class"], &kernel["times"]["count"]), (&"softmax".into(), &24.into()));
    assert_eq!(kernel["share"], 1.0);

    assert_eq!(run(&["kernels", &path, "--exclude", "gemms"]).code, 2);
    run(&["kernels", &path, "--range", "backward"]).expect(3, &["no range is called `backward`"]);
    let (_folder, path) = trace("nvtx_only");
    assert_eq!(run(&["kernels", &path]).code, 3);
}

/// The timeline has a slice for every kernel, and the CSV a row.
#[test]
fn export_writes_whole_files_or_standard_output() {
    let (folder, trace) = trace("streams_domains");
    let timeline = folder.path().join("timeline.json");
    run(&["export", &trace, "--format", "perfetto", "--output", timeline.to_str().unwrap()]).expect(0, &[]);
    let json: serde_json::Value = serde_json::from_str(&fs::read_to_string(&timeline).unwrap()).unwrap();
    let events = json["traceEvents"].as_array().or(json.as_array()).unwrap();
    assert!(events.len() > 300, "{}", events.len());

    let kernels = run(&["export", &trace, "--format", "csv", "--table", "kernels"]);
    assert_eq!((kernels.code, kernels.stdout.lines().count()), (0, 52), "a header and 51 kernels");

    let tables = folder.path().join("tables");
    run(&["export", &trace, "--format", "csv", "--output", tables.to_str().unwrap()]).expect(0, &[]);
    assert_eq!(fs::read_to_string(tables.join("kernels.csv")).unwrap(), kernels.stdout);
    assert_eq!(run(&["export", &trace, "--format", "csv"]).code, 2);
}

/// The names of domains stay, and so does all that nsys 2024.2 prints but for them.
#[test]
fn parts_of_a_trace() {
    let (_folder, path) = trace("graph_nodes");
    let time = run(&[
        "stats",
        &path,
        "-r",
        "cuda_gpu_mem_time_sum",
        "--filter-time",
        "395ms/397ms",
        "--format",
        "csv",
    ]);
    assert_eq!(
        (time.code, time.stdout.trim_end()),
        (0, golden("filtered/time.cuda_gpu_mem_time_sum.csv").trim_end())
    );
    let range = ["--filter-nvtx", "registered_step@io/2", "--format", "csv"];
    let kernels = run(&[&["stats", &path, "-r", "cuda_gpu_kern_sum"], &range[..]].concat());
    assert_eq!(kernels.stdout.trim_end(), golden("filtered/range.cuda_gpu_kern_sum.csv").trim_end());
    run(&[&["stats", &path, "-r", "nvtx_sum"], &range[..]].concat()).prints(&["io:registered_step"]);

    run(&["stats", &path, "--filter-nvtx", "registered_step"])
        .expect(3, &["no NVTX range is called `registered_step`"]);
    run(&["stats", &path, "--filter-nvtx", "registered_step@io/99"])
        .expect(3, &["`registered_step@io` has 5 instances, counted from 0, but no instance 99"]);
    for usage in [
        &["--filter-time", "2s/1s"][..],
        &["--filter-time", "soon/"],
        &["--filter-time", "1/2", "--filter-nvtx", "a"],
    ] {
        assert_eq!(run(&[&["stats", &path], usage].concat()).code, 2, "{usage:?}");
    }
}

#[test]
fn rules_take_the_arguments_of_nsys() {
    let (_folder, path) = trace("small_training_step");
    let gaps = run(&["rules", &path, "--rule", "gpu_gaps:gap=1:rows=5", "--format", "csv"]);
    assert_eq!(gaps.stdout.trim_end(), golden("filtered/rule.gpu_gaps_gap-1_rows-5.csv").trim_end());
    run(&["rules", &path, "--rule", "gpu_gaps:chunks=5"])
        .expect(2, &["unknown argument `chunks=5`; it takes rows=N"]);
}

#[test]
fn attribution_by_process_is_asked_for_and_labeled() {
    let (_folder, path) = trace("small_forward_backward");
    let calls = |arguments: &[&str]| {
        let output =
            run(&[&["kernels", &path, "--range", "backward", "--format", "json"], arguments].concat());
        let found = output.json();
        let kernels = found["kernels"].as_array().unwrap().iter();
        kernels.map(|kernel| kernel["times"]["count"].as_u64().unwrap()).sum::<u64>()
    };
    // The autograd thread launches nearly all of the backward pass.
    assert_eq!(calls(&["--attribute", "thread", "--with-warmup"]), 3);
    assert_eq!(calls(&["--with-warmup"]), 1610);
    let text = run(&["kernels", &path, "--range", "backward"]).stdout;
    assert!(text.starts_with("Kernels launched within `backward`, by process (2 instances)\n"), "{text}");

    let options = ["--attribute", "process", "--fold-names"];
    let report = ["stats", &path, "-r", "nvtx_gpu_proj_sum,cuda_api_sum"];
    let output = run(&[&report[..], &options].concat());
    assert_eq!(
        output.stderr,
        "nsys-analyze: differs from `nsys stats` by request: nvtx_gpu_proj_sum+process+folded\n"
    );
    assert!(
        output.stdout.starts_with("nvtx_gpu_proj_sum+process+folded\n") && output.stdout.contains(":step_*")
    );
    output.prints(&["\ncuda_api_sum\n"]);
    run(&["stats", &path, "-r", "cuda_api_sum", "--whole-graphs"])
        .says(&["change none of the requested reports"]);
}

/// The bytes of the trace and the folder that it lies in stay what they are, whatever is asked.
#[test]
fn the_input_stays_as_it_is() {
    let (folder, path) = trace("small_forward");
    let before = fs::read(&path).unwrap();
    let commands: [&[&str]; 8] = [
        &["stats", &path],
        &[
            "stats",
            &path,
            "-r",
            "cuda_gpu_trace,nvtx_gpu_proj_trace",
            "--filter-nvtx",
            "step_1",
            "--format",
            "csv",
        ],
        &["rules", &path],
        &["kernels", &path, "--range", "forward"],
        &["passes", &path],
        &["compare", &path, &path],
        &["diff", &path, &path],
        &["export", &path, "--format", "perfetto"],
    ];
    for command in commands {
        run(command).expect(0, &[]);
        assert!(fs::read(&path).unwrap() == before, "{command:?} changed it");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "{command:?} left a file beside it");
    }
}

/// What cannot be written is named, and not the trace.
#[test]
fn an_output_that_cannot_be_written_is_named() {
    let (folder, path) = trace("streams_domains");
    let file = folder.path().join("a file");
    fs::write(&file, "in the way").unwrap();
    let below = file.join("timeline.json");
    for arguments in [
        &["export", &path, "--format", "perfetto"][..],
        &["stats", &path],
        &["export", &path, "--format", "csv"],
    ] {
        let refused = run(&[arguments, &["--output", below.to_str().unwrap()]].concat());
        assert_eq!(refused.code, 1, "{arguments:?}");
        assert!(
            refused.stderr.contains("a file") && !refused.stderr.contains("sqlite"),
            "{}",
            refused.stderr
        );
    }
}

/// The locks of another process are seen, those of readers do no harm, and nothing is left behind.
#[test]
fn what_another_process_writes_is_refused() {
    let (folder, path) = trace("small_forward");
    let before = fs::read(&path).unwrap();
    let arguments = ["stats", &path, "--report", "nvtx_sum", "--format", "csv"];
    let writer = rusqlite::Connection::open(&path).unwrap();
    for lock in ["IMMEDIATE", "EXCLUSIVE"] {
        writer.execute_batch(&format!("BEGIN {lock}")).unwrap();
        let refused = run(&arguments);
        assert_eq!((refused.code, refused.stdout.as_str()), (1, ""), "{lock}");
        let reported = format!("{path}: another process is writing it");
        assert!(refused.stderr.contains(&reported), "{lock}: {}", refused.stderr);
        assert!(refused.stderr.contains("wait for the program that writes it"), "{lock}: {}", refused.stderr);
        writer.execute_batch("ROLLBACK").unwrap();
    }
    writer.execute_batch("BEGIN").unwrap();
    let _: i64 = writer.query_row("SELECT count(*) FROM StringIds", [], |row| row.get(0)).unwrap();
    assert_eq!(run(&arguments).code, 0, "a reader");
    drop(writer);
    assert_eq!(fs::read(&path).unwrap(), before);
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
}

/// A stand-in for nsys that exports by copying.
#[cfg(unix)]
fn with_nsys(folder: &Path, exported: &str) -> std::ffi::OsString {
    use std::os::unix::fs::PermissionsExt as _;
    let bin = folder.join("bin");
    fs::create_dir(&bin).unwrap();
    let script = format!(
        "#!/bin/sh\necho progress\ntest \"$1 $2 $3\" = 'export --type=sqlite --output' && cp '{exported}' \"$4\"\n"
    );
    fs::write(bin.join("nsys"), script).unwrap();
    fs::set_permissions(bin.join("nsys"), fs::Permissions::from_mode(0o755)).unwrap();
    let mut path = bin.into_os_string();
    path.push(":/usr/bin:/bin");
    path
}

#[cfg(unix)]
#[test]
fn a_recording_is_exported_when_asked() {
    let (folder, exported) = trace("small_forward");
    let (recordings, [recording]) = flopgap_testing::paths(["run.nsys-rep"]);
    fs::write(&recording, "a recording").unwrap();
    let recording = recording.to_str().unwrap();
    let temporary = tempfile::tempdir().unwrap();
    let path = with_nsys(folder.path(), &exported);
    let run = |arguments: &[&str], path: &std::ffi::OsStr| {
        let mut command = Command::new(cargo_bin("nsys-analyze"));
        Ended::of(command.args(arguments).env("PATH", path).env("TMPDIR", temporary.path()))
    };
    let report = ["stats", recording, "-r", "nvtx_sum", "--format", "csv"];

    run(&report, &path).expect(1, &["add --export where nsys is installed"]);

    let done = run(&[&report[..], &["--export"]].concat(), &path);
    assert_eq!(
        (done.code, done.stdout.trim_end()),
        (0, golden("small_forward/nvtx_sum.csv").trim_end()),
        "{}",
        done.stderr
    );
    done.says(&["progress", "exporting"]);
    assert_eq!(fs::read_dir(temporary.path()).unwrap().count(), 0, "the temporary folder was left");
    assert_eq!(fs::read_dir(recordings.path()).unwrap().count(), 1, "the export was left");

    let beside = run(&[&report[..], &["--export=beside"]].concat(), &path);
    assert_eq!((beside.code, beside.stdout), (0, done.stdout));
    assert!(recordings.path().join("run.sqlite").exists());
    run(&[&report[..], &["--export=beside"]].concat(), &path).expect(1, &["run.sqlite exists already"]);

    fs::remove_file(&exported).unwrap();
    run(&[&report[..], &["--export"]].concat(), &path)
        .expect(1, &["nsys did not export it (exit status: 1)"]);
}

/// What nsys reported about a recording stands before every answer and every guess.
#[test]
fn problems_that_nsys_reported_come_first() {
    let (_folder, path) = trace("small_forward");
    assert_eq!(run(&["kernels", &path]).stderr, "", "messages that report no problem are not shown");
    let lost = "Not all CUDA events might have been collected.";
    rusqlite::Connection::open(&path)
        .unwrap()
        .execute_batch(&format!(
            "INSERT INTO DIAGNOSTIC_EVENT(timestamp, timestampType, source, severity, text, globalPid)
             VALUES (9, 1, 1, 2, '{lost}', 1), (9, 1, 1, 2, '{lost}', 2), (9, 1, 1, 3, 'CUDA injection initialization failed.', 1)"
        ))
        .unwrap();
    let failed = "nsys reported (error): CUDA injection initialization failed.";
    let lost = format!("nsys reported (warning): {lost} (2 times)");
    for command in [&["kernels"][..], &["passes"], &["stats", "-r", "nvtx_sum"], &["rules"], &["summary"]] {
        let output = run(&[command, &[path.as_str()]].concat());
        let lines: Vec<&str> = output.stderr.lines().collect();
        assert!(lines.len() >= 2, "{command:?}: {}", output.stderr);
        assert!(lines[0].ends_with(failed) && lines[1].ends_with(&lost), "{command:?}: {}", output.stderr);
    }
    let page = run(&["summary", &path]).stdout;
    let first = page.find("Problems that nsys reported").unwrap();
    assert!(first < page.find("The kernel with the most").unwrap(), "{page}");
    assert!(page.contains(failed) && page.contains(&lost));
    let page = run(&["summary", &path, "--format", "json"]).json();
    assert!(page.to_string().contains(failed));

    // Where nothing was collected, the reason that nsys gave comes before our guess.
    let (_folder, path) = trace("nvtx_only");
    let reason = "CUDA profiling might have not been started correctly.";
    rusqlite::Connection::open(&path)
        .unwrap()
        .execute_batch(&format!(
            "INSERT INTO DIAGNOSTIC_EVENT(timestamp, timestampType, source, severity, text, globalPid)
             VALUES (9, 2, 3, 2, '{reason}', 1)"
        ))
        .unwrap();
    let output = run(&["kernels", &path]);
    let lines: Vec<&str> = output.stderr.lines().collect();
    assert_eq!(output.code, 3);
    assert!(lines[0].ends_with(&format!("nsys reported (warning): {reason}")), "{}", output.stderr);
    assert!(lines[1].contains("does not contain CUDA kernel data"), "{}", output.stderr);
}

/// Kernels that share a short name have rows that can be distinguished, in the table of one trace
/// and of two.
#[test]
fn kernels_of_one_short_name_are_distinguished() {
    let (_folder, path) = trace("small_training_step");
    for traces in [&[path.as_str()][..], &[path.as_str(), path.as_str()]] {
        let text = run(&[&["kernels"], traces].concat()).stdout;
        let names: Vec<&str> = text
            .lines()
            .skip(3)
            .take_while(|line| !line.is_empty())
            .map(|line| line.split("   ").next().unwrap())
            .collect();
        let different: std::collections::BTreeSet<&&str> = names.iter().collect();
        assert_eq!(different.len(), names.len(), "{names:#?}");
        assert!(text.contains("vectorized_elementwise_kernel [mul] (BinaryFunctor<"), "{text}");
    }
}

//! What `collect` writes, and what it does with inputs that are odd.

use std::fs::{self, File};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::Command;

use flopgap_table::Source;
use flopgap_table::arrow_array::cast::AsArray as _;
use flopgap_table::arrow_array::types::Int64Type;

use crate::{done, files, fixtures, rows, run, trace};

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// Rows of a table of a source, counted by its reader.
fn counted(source: &Path, table: &str) -> usize {
    let table = Source::open(source).unwrap().table(table).unwrap();
    table.read().unwrap().map(|batch| batch.unwrap().num_rows()).sum()
}

#[test]
fn a_directory_becomes_a_data_set_and_stays_as_it_is() {
    let (_folder, [input, output]) = flopgap_testing::paths(["in", "out"]);
    trace("small_forward", &input.join("job/rank0.sqlite"));
    trace("two_gpus", &input.join("001.any name"));
    fs::copy(fixtures().join("ncu/full_raw.csv.zst"), input.join("gemm.csv.zst")).unwrap();
    fs::write(input.join("notes.txt"), "not a report").unwrap();
    fs::write(input.join("package.json"), "{\"name\": \"x\"}").unwrap();
    let first =
        done(&["collect", text(&input), text(&fixtures().join("runs/h200-small")), "-o", text(&output)]);
    first.says(&["2 other files were found"]);

    let found = files(&output);
    for file in [
        "_runs/job%2Frank0.json",
        "counters/run=gemm/part-0.parquet",
        "kernels/run=001.any name/part-0.parquet",
        "kernels/run=job%2Frank0/part-0.parquet",
        "launches/run=gemm/part-0.parquet",
        "launches/run=h200-small/part-0.parquet",
        "overheads/run=h200-small/part-0.parquet",
        "runs/run=h200-small/part-0.parquet",
    ] {
        assert!(found.iter().any(|found| found == file), "{file} is not in {found:?}");
    }
    assert!(!found.iter().any(|file| file.contains("staging") || file.contains(".lock")), "{found:?}");
    let kernels = rows(&output, "select run, count(*) as rows from kernels group by run order by run");
    assert_eq!(
        kernels,
        [
            format!("001.any name,{}", counted(&input.join("001.any name"), "kernels")),
            format!("job/rank0,{}", counted(&input.join("job/rank0.sqlite"), "kernels")),
        ]
    );
    let runs = rows(&output, "select run, kind, job, rank from runs order by run");
    assert_eq!(
        runs,
        [
            "001.any name,nsys,001.any name,",
            "gemm,ncu,gemm,",
            "h200-small,run,h200-small,",
            "job/rank0,nsys,job,0"
        ]
    );

    // Nothing changed: nothing is written. By force, the same bytes are.
    let bytes = |name: &str| fs::read(output.join(name)).unwrap();
    let before: Vec<Vec<u8>> = found.iter().map(|name| bytes(name)).collect();
    let written = fs::metadata(output.join(&found[0])).unwrap().modified().unwrap();
    let again = done(&["collect", text(&input), "-o", text(&output), "--format", "csv"]);
    assert_eq!(again.stdout.matches(",unchanged,").count(), 3, "{again:?}");
    assert_eq!(fs::metadata(output.join(&found[0])).unwrap().modified().unwrap(), written);
    let forced =
        done(&["collect", text(&input), "-o", text(&output), "--format", "csv", "--again", "--jobs", "1"]);
    assert_eq!(forced.stdout.matches(",collected,").count(), 3, "{forced:?}");
    assert_eq!(files(&output), found);
    assert_eq!(found.iter().map(|name| bytes(name)).collect::<Vec<_>>(), before);
}

#[test]
fn a_run_that_changed_is_replaced_with_the_tables_that_it_no_longer_has() {
    let (folder, [input, output]) = flopgap_testing::paths(["a.sqlite", "out"]);
    trace("small_forward", &input);
    done(&["collect", text(&input), "-o", text(&output)]);
    assert!(output.join("os_calls/run=a/part-0.parquet").exists());
    trace("graph_whole", &input);
    done(&["collect", text(&input), "-o", text(&output)]);
    assert!(!output.join("os_calls").exists() && output.join("graphs/run=a/part-0.parquet").exists());
    assert_eq!(rows(&output, "select count(*) as rows from graphs"), [counted(&input, "graphs").to_string()]);
    // Asking for some tables takes none away.
    let whole = files(&output);
    let some = ["collect", text(&input), "-o", text(&output), "--table", "graphs", "--format", "csv"];
    assert!(done(&some).stdout.contains("a,nsys,unchanged,"));
    done(&[&some[..], &["--again"]].concat());
    assert_eq!(files(&output), whole);
    // Some of its tables only, then others beside them.
    let other = folder.path().join("other");
    done(&["collect", text(&input), "-o", text(&other), "--table", "graphs"]);
    let few = ["_runs/a.json", "graphs/run=a/part-0.parquet", "runs/run=a/part-0.parquet"];
    assert_eq!(files(&other), few);
    done(&["collect", text(&input), "-o", text(&other), "--table", "api_calls"]);
    assert_eq!(files(&other), [&few[..1], &["api_calls/run=a/part-0.parquet"], &few[1..]].concat());
    done(&["collect", text(&input), "-o", text(&other)]);
    assert_eq!(files(&other), whole);
}

#[test]
fn a_bad_input_is_listed_and_stops_nothing() {
    let (_folder, [input, output]) = flopgap_testing::paths(["in", "out"]);
    trace("small_forward", &input.join("whole.sqlite"));
    let whole = fs::read(input.join("whole.sqlite")).unwrap();
    fs::write(input.join("cut.sqlite"), &whole[..whole.len() / 2]).unwrap();
    fs::write(input.join("trace.json"), "{\"traceEvents\":[{\"ph\":\"X\"").unwrap();
    fs::write(input.join("later.nsys-rep"), "a recording").unwrap();
    fs::write(input.join("whole.nsys-rep"), "one that was exported").unwrap();
    let output_of = run(&["collect", text(&input), "-o", text(&output), "--format", "csv"]);
    assert_eq!(output_of.code, 1, "{output_of:?}");
    for wanted in [
        "cut.sqlite: truncated",
        "trace.json:1:",
        "later.nsys-rep: not exported yet",
        "error: 2 of 3 inputs could not",
    ] {
        assert!(output_of.stderr.contains(wanted), "{wanted}: {output_of:?}");
    }
    assert!(!output_of.stderr.contains("whole.nsys-rep"), "{output_of:?}");
    output_of.prints(&["whole,nsys,collected,"]);
    assert_eq!(rows(&output, "select distinct run from kernels"), ["whole"]);
    // The inputs are as they were.
    assert_eq!(fs::read(input.join("whole.sqlite")).unwrap(), whole);
}

#[test]
fn a_file_that_is_not_a_source_takes_no_name() {
    let (folder, [input, output]) = flopgap_testing::paths(["in", "out"]);
    trace("small_forward", &input.join("trace.sqlite"));
    let other = folder.path().join("other");
    fs::create_dir(&other).unwrap();
    for folder in [&input, &other] {
        fs::write(folder.join("README.md"), "not a report").unwrap();
        fs::write(folder.join("trace.json"), "{\"name\": \"x\"}").unwrap();
    }
    done(&["collect", text(&input), text(&other), "-o", text(&output), "--format", "csv"])
        .says(&["4 other files were found"])
        .prints(&["trace,nsys,collected,"]);
}

#[test]
fn an_input_that_is_nothing_is_an_error() {
    let (folder, [output, notes]) = flopgap_testing::paths(["out", "notes.txt"]);
    fs::write(&notes, "not a report").unwrap();
    assert_eq!(run(&["collect", text(&notes), "-o", text(&output)]).code, 1);
    fs::create_dir(folder.path().join("empty")).unwrap();
    assert_eq!(run(&["collect", text(&folder.path().join("empty")), "-o", text(&output)]).code, 3);
    run(&["collect", text(&folder.path().join("missing")), "-o", text(&output)])
        .expect(1, &["missing: No such file"]);
    run(&["collect", text(&output), "-o", text(&output)])
        .expect(1, &["this is the data set that is written"]);
}

#[test]
fn two_inputs_of_one_name_are_refused_or_named() {
    let (folder, [output]) = flopgap_testing::paths(["out"]);
    let paths = ["x/trace.sqlite", "y/trace.sqlite"].map(|name| folder.path().join(name));
    trace("small_forward", &paths[0]);
    trace("two_gpus", &paths[1]);
    run(&["collect", text(&paths[0]), text(&paths[1]), "-o", text(&output)])
        .expect(1, &["the run name `trace` is also that of"]);
    // Neither may a later call replace the one that is there.
    run(&["collect", text(&paths[1]), "-o", text(&output)]).expect(1, &["has a run `trace` of another file"]);
    let other = format!("other={}", text(&paths[1]));
    done(&["collect", &other, "-o", text(&output)]);
    assert_eq!(rows(&output, "select distinct run from kernels order by run"), ["other", "trace"]);
    // It keeps that name, also without it and from the directory above.
    done(&["collect", text(&folder.path().join("y")), "-o", text(&output), "--format", "csv"])
        .prints(&["other,nsys,unchanged,"]);
    // By request it is replaced.
    fs::remove_dir_all(output.join("_runs")).unwrap();
    done(&["collect", text(&paths[0]), "-o", text(&output)]);
    done(&["collect", text(&paths[1]), "-o", text(&output), "--replace"]);
    assert_eq!(
        rows(&output, "select count(*) as rows from kernels where run = 'trace'"),
        [counted(&paths[1], "kernels").to_string()]
    );
}

#[test]
fn names_stay_within_the_data_set() {
    let (folder, [input, output]) = flopgap_testing::paths(["a.sqlite", "deep/out"]);
    trace("small_forward", &input);
    for name in ["../../../climbs", "..", "it's 50% <b>", "a\nb"] {
        done(&[
            "collect",
            &format!("{name}={}", text(&input)),
            "-o",
            text(&output),
            "--table",
            "kernels",
            "--replace",
        ]);
        // Its content had another name before: it is one run.
        assert_eq!(files(folder.path()).len(), 1 + 3, "{name}");
        let sql = format!("select count(*) as rows from kernels where run = '{}'", name.replace('\'', "''"));
        assert_eq!(rows(&output, &sql), ["838"], "{name}");
    }
    assert_eq!(files(folder.path()).iter().filter(|file| !file.starts_with("deep/out/")).count(), 1);
    for name in ["", "__HIVE_DEFAULT_PARTITION__", &"x".repeat(300)] {
        let named = format!("{name}={}", text(&input));
        run(&["collect", &named, "-o", text(&output), "--replace"]).expect(1, &["the run name"]);
    }
}

#[test]
fn links_are_followed_once() {
    let (_folder, [input, output]) = flopgap_testing::paths(["in", "in/out"]);
    trace("small_forward", &input.join("a/trace.sqlite"));
    symlink(&input, input.join("a/loop")).unwrap();
    symlink(input.join("nowhere"), input.join("broken")).unwrap();
    // The data set may lie in the directory that is collected.
    for state in ["collected", "unchanged"] {
        done(&["collect", text(&input), "-o", text(&output), "--format", "csv"])
            .says(&["a link to a directory that is searched already", "broken: No such file"])
            .prints(&[&format!("a/trace,nsys,{state},")]);
    }
}

/// A path through links that end nowhere, in each other, or too deep.
#[test]
fn what_cannot_be_read_is_listed_and_skipped() {
    let (folder, [input, output]) = flopgap_testing::paths(["in", "out"]);
    trace("small_forward", &input.join("trace.sqlite"));
    for (link, target) in [("a", "b"), ("b", "a"), ("self", "self"), ("gone.sqlite", "nowhere/gone.sqlite")] {
        symlink(input.join(target), input.join(link)).unwrap();
    }
    // Links are followed 40 deep.
    let chain = folder.path().join("chain");
    fs::create_dir(&chain).unwrap();
    symlink(input.join("trace.sqlite"), chain.join("0")).unwrap();
    for at in 1..45 {
        symlink(chain.join((at - 1).to_string()), chain.join(at.to_string())).unwrap();
    }
    symlink(chain.join("44"), input.join("deep")).unwrap();
    let found = done(&[
        "collect",
        text(&input.join("trace.sqlite")),
        text(&input),
        "-o",
        text(&output),
        "--format",
        "csv",
    ]);
    for name in
        ["a: Too many levels", "b: Too many", "self: Too many", "deep: Too many", "gone.sqlite: No such file"]
    {
        found.says(&[&format!("SKIPPED: {}/{name}", text(&input))]);
    }
    assert_eq!(rows(&output, "select distinct run from kernels"), ["trace"]);
}

/// The program as a user who may not read everything; none where that user cannot be one.
fn as_nobody(folder: &Path, arguments: &[&str]) -> Option<std::process::Output> {
    let program = folder.join("run-table");
    let built = assert_cmd::cargo::cargo_bin("run-table");
    // Its own directory may be closed to others.
    fs::hard_link(&built, &program).or_else(|_| fs::copy(&built, &program).map(drop)).unwrap();
    let mut command = Command::new(&program);
    command.args(arguments).current_dir("/");
    if fs::metadata("/proc/self").ok()?.uid() == 0 {
        command.uid(65_534).gid(65_534);
    }
    command.output().ok()
}

#[test]
fn a_directory_that_may_not_be_read_is_listed_and_skipped() {
    let (folder, [input, output]) = flopgap_testing::paths(["in", "out"]);
    trace("small_forward", &input.join("open/trace.sqlite"));
    trace("two_gpus", &input.join("closed/trace.sqlite"));
    trace("two_gpus", &input.join("listed/trace.sqlite"));
    trace("two_gpus", &input.join("file.sqlite"));
    fs::create_dir(&output).unwrap();
    let mode = |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    mode(folder.path(), 0o755);
    mode(&output, 0o777);
    // Not read at all; names without what they are; a file.
    for (name, bits) in [("closed", 0o000), ("listed", 0o744), ("file.sqlite", 0o000)] {
        mode(&input.join(name), bits);
    }
    let found = as_nobody(folder.path(), &["collect", text(&input), "-o", text(&output), "--format", "csv"]);
    mode(&input.join("closed"), 0o755);
    let Some(found) = found else {
        flopgap_testing::skip("another user", "this process may not become one");
        return;
    };
    let (stdout, stderr) = (String::from_utf8_lossy(&found.stdout), String::from_utf8_lossy(&found.stderr));
    assert_eq!(found.status.code(), Some(1), "{stderr}");
    assert!(stdout.contains("open/trace,nsys,collected,"), "{stdout}");
    for name in
        ["closed: Permission denied", "listed/trace.sqlite: Permission denied", "file.sqlite: cannot be"]
    {
        assert!(stderr.contains(name), "{name}: {stderr}");
    }
    assert!(stderr.contains("1 of 2 inputs could not be collected"), "{stderr}");
}

#[test]
fn a_data_set_is_not_written_where_others_read_or_nothing_can_be() {
    let (folder, [input, output]) = flopgap_testing::paths(["in", "out"]);
    trace("small_forward", &input.join("trace.sqlite"));
    done(&["collect", text(&input), "-o", text(&output)]);
    let run_of = folder.path().join("run");
    fs::create_dir_all(run_of.join("raw")).unwrap();
    fs::write(run_of.join("manifest.json"), "{}").unwrap();
    fs::write(folder.path().join("file"), "").unwrap();
    for (link, target) in
        [("gone", "nowhere"), ("circle", "circle"), ("to_input", "in"), ("to_run", "run"), ("to_set", "out")]
    {
        symlink(folder.path().join(target), folder.path().join(link)).unwrap();
    }
    let before = files(folder.path());
    for (output, why) in [
        ("file", "file: not a directory"),
        ("file/below", "file/below"),
        ("gone", "gone: a link that leads nowhere"),
        ("circle", "circle: a link that leads nowhere: Too many levels"),
        ("in", "in: the data set would lie among its own inputs"),
        ("to_input", "in: the data set would lie among its own inputs"),
        ("run", "run: this is the run"),
        ("to_run", "to_run: this is the run"),
        ("run/raw/new/set", "it lies within the run"),
        ("out/kernels", "it lies within the data set"),
        ("to_set/kernels/new", "it lies within the data set"),
    ] {
        run(&["collect", text(&input), "-o", text(&folder.path().join(output))]).expect(1, &[why]);
        assert_eq!(files(folder.path()), before, "{output}");
        assert!(!folder.path().join("in/_runs").exists(), "{output}");
    }
    // A link to a data set is one.
    let again =
        done(&["collect", text(&input), "-o", text(&folder.path().join("to_set")), "--format", "csv"]);
    again.prints(&["trace,nsys,unchanged,"]);
}

#[test]
fn the_end_of_an_event_is_a_column() {
    let (folder, [output]) = flopgap_testing::paths(["out"]);
    let sources = [("small_forward", "a"), ("small_training_step", "b")].map(|(name, file)| {
        let path = folder.path().join(format!("in/{file}.sqlite"));
        trace(name, &path);
        path
    });
    done(&["collect", text(&folder.path().join("in")), "-o", text(&output)]);
    let columns =
        done(&["query", text(&output), "--sql", "select * from kernels limit 1", "--format", "csv"]);
    assert!(columns.stdout.starts_with("start_ns,end_ns,duration_ns,name,"), "{columns:?}");
    let sums = "select run, sum(end_ns - start_ns - duration_ns) as none, sum(end_ns) as s from kernels group by run order by run";
    let found = rows(&output, sums);
    assert_eq!(found.len(), sources.len());
    for (source, row) in sources.iter().zip(&found) {
        let table = Source::open(source).unwrap().table("kernels").unwrap().select(&["end_ns"]).unwrap();
        let batches = table.read().unwrap().map(Result::unwrap);
        let end: i64 = batches
            .map(|batch| batch.column(0).as_primitive::<Int64Type>().values().iter().sum::<i64>())
            .sum();
        assert!(row.ends_with(&format!(",0,{end}")), "{row}: {end}");
    }
}

#[test]
fn a_run_of_another_version_is_refused() {
    let (_folder, [input, output]) = flopgap_testing::paths(["a.sqlite", "out"]);
    trace("small_forward", &input);
    done(&["collect", text(&input), "-o", text(&output)]);
    let whole = files(&output);
    let manifest = output.join("_runs/a.json");
    let written = fs::read_to_string(&manifest).unwrap();
    fs::write(&manifest, written.replace("\"version\": 1", "\"version\": 2")).unwrap();
    let why = "a.json: unsupported format `flopgap-dataset` version 2; supported: flopgap-dataset version 1";
    done(&["query", text(&output), "--sql", "select count(*) as rows from kernels"]).says(&[why]);
    let again = run(&["collect", text(&input), "-o", text(&output)]);
    again.expect(1, &[why]);
    // A damaged one is none, and the run is collected again.
    fs::write(&manifest, &written[..written.len() / 2]).unwrap();
    done(&["collect", text(&input), "-o", text(&output), "--format", "csv"]).prints(&["a,nsys,collected,"]);
    assert_eq!((files(&output), fs::read_to_string(&manifest).unwrap()), (whole, written));
}

#[test]
fn a_run_that_another_process_collects_is_left_alone() {
    let (_folder, [input, output]) = flopgap_testing::paths(["a.sqlite", "out"]);
    trace("small_forward", &input);
    fs::create_dir_all(output.join("_runs")).unwrap();
    let lock = File::create(output.join("_runs/a.lock")).unwrap();
    lock.try_lock().unwrap();
    run(&["collect", text(&input), "-o", text(&output)])
        .expect(1, &["another process is collecting the run `a`"]);
    drop(lock);
    done(&["collect", text(&input), "-o", text(&output)]);
}

#[test]
fn what_a_killed_process_left_is_reported_and_cleaned_up() {
    let (_folder, [input, output]) = flopgap_testing::paths(["a.sqlite", "out"]);
    trace("small_forward", &input);
    done(&["collect", text(&input), "-o", text(&output)]);
    let whole = files(&output);
    // Killed between two renames.
    fs::remove_file(output.join("_runs/a.json")).unwrap();
    fs::create_dir(output.join("_runs/a.staging")).unwrap();
    fs::write(output.join("_runs/a.staging/kernels.parquet"), "half of it").unwrap();
    fs::write(output.join("_runs/a.lock"), "").unwrap();
    done(&["query", text(&output), "--sql", "select count(*) as rows from kernels"])
        .says(&["run `a`: not completely collected"]);
    done(&["collect", text(&input), "-o", text(&output)]);
    assert_eq!(files(&output), whole);
}

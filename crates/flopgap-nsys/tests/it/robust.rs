//! Bad input: exact messages, no panic, and the file as it was.

use std::fs;
use std::path::{Path, PathBuf};

use flopgap_files::Hint as _;
use flopgap_nsys::{
    Attribution, Error, Oddity, Report, ReportKind, ReportOptions, ReportTable, StringId, Trace, Unlaunched,
};
use rusqlite::Connection;

use crate::support::{TRACES, Unpacked, printed, work_by_range};

/// The message of a file that cannot be opened with its causes, without the path, and the hint.
fn message(path: &Path) -> (String, Option<String>) {
    let error = Trace::open(path).unwrap_err();
    let text = flopgap_files::chain(&error).to_string();
    assert!(text.starts_with(&path.display().to_string()), "{text}");
    (text[path.display().to_string().len()..].to_owned(), error.hint().map(Into::into))
}

#[test]
fn what_is_not_an_export_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, bytes: &[u8]| {
        let path = folder.path().join(name);
        fs::write(&path, bytes).unwrap();
        path
    };
    assert_eq!(message(&write("a.sqlite", b"")).0, ": not an SQLite database (the file is empty)");
    assert_eq!(
        message(&write("b.sqlite", &[0; 4096])).0,
        ": not an SQLite database (its header is all zeros: the export was interrupted)"
    );
    assert_eq!(message(&write("c.sqlite", b"{}")).0, ": not an SQLite database (no SQLite header)");
    let (text, hint) = message(&write("d.nsys-rep", b"QDSTRM"));
    assert_eq!(text, ": a recording of Nsight Systems, not its SQLite export");
    assert!(hint.unwrap().contains("nsys export --type sqlite"));
    assert!(message(&folder.path().join("missing.sqlite")).0.contains("No such file"));
    assert!(matches!(Trace::open(folder.path()), Err(Error::Io { .. })));
    assert!(matches!(
        Trace::open(write("e.sqlite", b"SQLite format 3\0...")),
        Err(Error::Truncated { expected: 100, found: 19, .. })
    ));

    let other = folder.path().join("other.sqlite");
    Connection::open(&other).unwrap().execute_batch("CREATE TABLE t(a); INSERT INTO t VALUES (1)").unwrap();
    assert!(message(&other).0.contains("not an export of Nsight Systems"));
}

#[test]
fn a_truncated_export_is_refused() {
    let unpacked = Unpacked::new("streams_domains");
    let bytes = fs::read(unpacked.path()).unwrap();
    fs::write(unpacked.path(), &bytes[..bytes.len() / 2]).unwrap();
    let (text, _) = message(&unpacked.path());
    assert_eq!(text, format!(": truncated: it has {} of at least {} bytes", bytes.len() / 2, bytes.len()));
}

#[test]
fn a_journal_beside_it_is_refused() {
    let unpacked = Unpacked::new("streams_domains");
    for suffix in ["-wal", "-journal"] {
        let mut journal = unpacked.path().into_os_string();
        journal.push(suffix);
        fs::write(&journal, b"half a page").unwrap();
        assert!(message(&unpacked.path()).0.contains("the export is being written, or was interrupted: "));
        fs::remove_file(&journal).unwrap();
    }
    unpacked.open();
}

#[test]
fn one_that_is_written_to_while_it_is_read_is_refused() {
    let unpacked = Unpacked::new("streams_domains");
    let trace = unpacked.open();
    assert!(printed(&trace, "cuda_gpu_kern_sum").is_some());
    let mut bytes = fs::read(unpacked.path()).unwrap();
    bytes.extend([0; 4096]);
    fs::write(unpacked.path(), &bytes).unwrap();
    let error = trace.report("cuda_gpu_kern_sum".parse().unwrap(), &mut ReportTable::default()).unwrap_err();
    assert!(matches!(error, Error::Changed { .. }), "{error}");
    assert!(error.hint().unwrap().starts_with("wait for the program"));
    // Half of it is gone, and what is left looks damaged.
    fs::write(unpacked.path(), &bytes[..bytes.len() / 2]).unwrap();
    let error = trace.report("cuda_gpu_kern_sum".parse().unwrap(), &mut ReportTable::default()).unwrap_err();
    assert!(matches!(error, Error::Changed { .. }), "{error}");
}

#[test]
fn an_output_that_fails_is_not_blamed_on_the_trace() {
    struct Full;
    impl std::io::Write for Full {
        fn write(&mut self, _: &[u8]) -> std::io::Result<usize> {
            Err(std::io::ErrorKind::StorageFull.into())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let unpacked = Unpacked::new("streams_domains");
    let trace = unpacked.open();
    let mut sink = flopgap_nsys::CsvSink::new(Full, flopgap_nsys::Units::default());
    let errors = [
        trace.report("nvtx_sum".parse().unwrap(), &mut sink).unwrap_err(),
        trace.rule(flopgap_nsys::Rule::CudaApiSync, &mut sink).unwrap_err(),
        flopgap_nsys::export::perfetto(&trace, &mut Full).unwrap_err(),
    ];
    for error in errors {
        assert!(matches!(error, Error::Output { .. }), "{error}");
        assert!(!error.to_string().contains("streams_domains"), "{error}");
    }
}

#[test]
fn reading_changes_nothing_and_leaves_nothing() {
    let unpacked = Unpacked::new("small_forward");
    // Every character that a URI would take for something else.
    let odd = unpacked.path().with_file_name("a b?c#d%20&é'.sqlite");
    fs::rename(unpacked.path(), &odd).unwrap();
    let before = fs::read(&odd).unwrap();
    let trace = Trace::open(&odd).unwrap();
    for kind in ReportKind::ALL {
        printed(&trace, kind.name());
    }
    assert_eq!(trace.warnings(), []);
    drop(trace);
    assert_eq!(fs::read(&odd).unwrap(), before);
    let files = fs::read_dir(odd.parent().unwrap()).unwrap().count();
    assert_eq!(files, 1, "side files were left");
}

#[test]
fn tables_are_found_under_their_later_names_and_columns_may_be_missing() {
    let unpacked = Unpacked::new("streams_domains");
    let before = printed(&unpacked.open(), "cuda_gpu_trace").unwrap();
    let summary = printed(&unpacked.open(), "nvtx_kern_sum").unwrap();
    unpacked.change(
        "ALTER TABLE CUPTI_ACTIVITY_KIND_KERNEL RENAME TO CUPTI_ACTIVITY_KIND_KERNEL_V2;
             ALTER TABLE CUPTI_ACTIVITY_KIND_KERNEL_V2 DROP COLUMN globalPid;
             ALTER TABLE CUPTI_ACTIVITY_KIND_KERNEL_V2 DROP COLUMN greenContextId;
             DROP TABLE ENUM_CUDA_MEMCPY_OPER;
             DROP TABLE TARGET_INFO_CUDA_DEVICE;",
    );
    let trace = unpacked.open();
    assert_eq!(trace.schema().table("CUPTI_ACTIVITY_KIND_KERNEL"), Some("CUPTI_ACTIVITY_KIND_KERNEL_V2"));
    assert_eq!(printed(&trace, "cuda_gpu_trace").unwrap(), before);
    // One process made all calls: kernels that do not say whose they are, are its.
    assert_eq!(printed(&trace, "nvtx_kern_sum").unwrap(), summary);
}

#[test]
fn an_absent_table_or_column_is_reported() {
    let unpacked = Unpacked::new("nvtx_only");
    let trace = unpacked.open();
    let mut table = ReportTable::default();
    let error = trace.report(Report::new(ReportKind::CudaGpuKernSum), &mut table).unwrap_err();
    assert!(error.is_absence());
    assert!(error.to_string().ends_with(
        "nvtx_only.sqlite: does not contain CUDA kernel data (no table CUPTI_ACTIVITY_KIND_KERNEL)"
    ));
    assert_eq!(
        table,
        ReportTable::default(),
        "nothing is written before it is known that there is something"
    );

    let unpacked = Unpacked::new("streams_domains");
    unpacked.change("ALTER TABLE CUPTI_ACTIVITY_KIND_KERNEL DROP COLUMN gridX");
    let trace = unpacked.open();
    let error = trace.report(Report::new(ReportKind::CudaGpuTrace), &mut table).unwrap_err();
    assert!(
        error
            .to_string()
            .ends_with("the table CUPTI_ACTIVITY_KIND_KERNEL of this export has no column gridX")
    );
    assert!(printed(&trace, "cuda_gpu_kern_sum").is_some(), "others do not need it");
}

#[test]
fn strange_rows_are_counted_and_named() {
    let unpacked = Unpacked::new("streams_domains");
    unpacked.change(
        "UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET start = 'soon' WHERE rowid = 7;
             UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET demangledName = 999999 WHERE rowid = 8;
             UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET registersPerThread = 'many' WHERE rowid = 9;
             UPDATE NVTX_EVENTS SET end = NULL WHERE rowid = 8;
             UPDATE NVTX_EVENTS SET end = start - 5 WHERE rowid = 9;
             UPDATE NVTX_EVENTS SET start = -100, end = -40 WHERE rowid = 10;",
    );
    let trace = unpacked.open();
    for kind in ReportKind::ALL {
        printed(&trace, kind.name());
    }
    let warnings: Vec<String> = trace.warnings().iter().map(ToString::to_string).collect();
    assert!(warnings.contains(
        &"CUPTI_ACTIVITY_KIND_KERNEL: 1 row (first: row 7) without a required number: left out".to_owned()
    ));
    assert!(
        warnings
            .iter()
            .any(|warning| warning.contains("row 9) with text or a fraction instead of a whole number")),
        "{warnings:?}"
    );
    assert!(
        warnings.iter().any(|warning| warning.starts_with("NVTX_EVENTS: 1 row (first: row 9) ending before"))
    );
    assert_eq!(warnings.len(), 3, "each is reported once, whatever reads the table: {warnings:?}");
    let kernels = printed(&trace, "cuda_gpu_kern_sum").unwrap();
    assert!(kernels.iter().any(|row| row[8] == "[unknown string 999999]"));
    let total: u64 = kernels[1..].iter().map(|row| row[2].parse::<u64>().unwrap()).sum();
    assert_eq!(total, 50);
}

/// Ranges of equal span on one thread: nsys makes them each other's parent, and loses both with all
/// below them.
#[test]
fn equal_spans_keep_their_place_in_the_tree() {
    let unpacked = Unpacked::new("streams_domains");
    unpacked.change(
        "UPDATE NVTX_EVENTS SET start = (SELECT start FROM NVTX_EVENTS WHERE rowid = 8),
                               end = (SELECT end FROM NVTX_EVENTS WHERE rowid = 8) WHERE rowid = 9",
    );
    let tree = printed(&unpacked.open(), "nvtx_pushpop_trace").unwrap();
    let stack = |id: &str| tree.iter().find(|row| row[10] == id).map(|row| row[12].clone());
    assert_eq!(stack("8").as_deref(), Some(":8"));
    assert_eq!(stack("9").as_deref(), Some(":8:9"));
    assert_eq!(stack("10").as_deref(), Some(":8:9:10"));
}

/// A call that was recorded a second time with its backtrace launches its kernels once.
#[test]
fn calls_with_backtraces_count_once() {
    let unpacked = Unpacked::new("streams_domains");
    let reports = ["cuda_kern_exec_sum", "nvtx_kern_sum", "nvtx_gpu_proj_sum"];
    let before = reports.map(|report| printed(&unpacked.open(), report).unwrap());
    unpacked.change("INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME(start, end, eventClass, globalTid, correlationId, nameId, returnValue)
             SELECT start, end, 67, globalTid, correlationId, nameId, returnValue FROM CUPTI_ACTIVITY_KIND_RUNTIME");
    assert_eq!(reports.map(|report| printed(&unpacked.open(), report).unwrap()), before);
}

/// The API reports list such a call twice, as nsys does, and warn of it; on request, and in
/// answers, it is one.
#[test]
fn api_reports_say_that_calls_with_backtraces_count_twice() {
    let unpacked = Unpacked::new("streams_domains");
    let reports: [Report; 3] =
        ["cuda_api_sum", "cuda_api_trace", "cuda_api_gpu_sum"].map(|report| report.parse().unwrap());
    let made = |trace: &Trace, options: ReportOptions| {
        reports.map(|report| {
            let mut table = ReportTable::default();
            trace.report_with(report, options, &mut table).unwrap();
            table.rows
        })
    };
    let once = ReportOptions { calls_once: true, ..ReportOptions::default() };
    let before = unpacked.open();
    let recorded = made(&before, ReportOptions::default());
    assert_eq!(made(&before, once), recorded, "nothing was recorded twice");
    assert_eq!(before.warnings(), []);
    drop(before);
    unpacked.change("INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME(start, end, eventClass, globalTid, correlationId, nameId, returnValue)
             SELECT start, end, 67, globalTid, correlationId, nameId, returnValue FROM CUPTI_ACTIVITY_KIND_RUNTIME");
    let after = unpacked.open();
    assert_eq!(made(&after, once), recorded);
    assert_eq!(after.warnings(), []);
    let twice = made(&after, ReportOptions::default());
    assert_eq!(twice[1].len(), 2 * recorded[1].len());
    let warnings = after.warnings();
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    assert_eq!((warnings[0].rows, warnings[0].first), (215, 216));
    assert!(warnings[0].to_string().contains("as `nsys stats` does"), "{}", warnings[0]);
}

/// Work whose launch is not in the recording belongs to no range: how much of it there is can be
/// asked.
#[test]
fn work_without_a_recorded_launch_is_counted() {
    let unpacked = Unpacked::new("streams_domains");
    let sound = unpacked.open().launched(Attribution::default()).unwrap().unlaunched();
    assert_eq!(sound, Unlaunched::default());
    let database = Connection::open(unpacked.path()).unwrap();
    let of_kernels = "FROM CUPTI_ACTIVITY_KIND_KERNEL WHERE rowid % 7 = 0";
    let (kernels, kernel_time): (u32, i64) = database
        .query_row(&format!("SELECT count(*), sum(end - start) {of_kernels}"), [], |row| {
            Ok((row.get(0)?, row.get(1)?))
        })
        .unwrap();
    let copy_time: i64 = database
        .query_row("SELECT end - start FROM CUPTI_ACTIVITY_KIND_MEMCPY WHERE rowid = 1", [], |row| row.get(0))
        .unwrap();
    database
        .execute_batch(&format!(
            "DELETE FROM CUPTI_ACTIVITY_KIND_RUNTIME WHERE correlationId IN
                 (SELECT correlationId {of_kernels}
                  UNION SELECT correlationId FROM CUPTI_ACTIVITY_KIND_MEMCPY WHERE rowid = 1)"
        ))
        .unwrap();
    drop(database);
    let found = unpacked.open().launched(Attribution::default()).unwrap().unlaunched();
    let expected = Unlaunched {
        kernels: kernels.into(),
        kernel_ns: kernel_time.into(),
        operations: u64::from(kernels) + 1,
        total_ns: (kernel_time + copy_time).into(),
    };
    assert!(kernels > 3);
    assert_eq!(found, expected);
}

/// Work that ends before it starts: nsys subtracts it from its sums. The reports do as nsys does,
/// answers leave it out, and both warn.
#[test]
fn work_that_ends_before_it_starts_is_counted() {
    let unpacked = Unpacked::new("streams_domains");
    let total = |trace: &Trace| -> i128 {
        let times = trace.operation_times(None, Attribution::default()).unwrap();
        times.kernels.iter().map(|(_, times)| times.total).sum()
    };
    let reported = |trace: &Trace| -> i64 {
        let rows = printed(trace, "cuda_gpu_trace:base").unwrap();
        let kernels = rows[1..].iter().filter(|row| !row[19].starts_with('['));
        kernels.map(|row| row[1].parse::<i64>().unwrap()).sum()
    };
    let before = unpacked.open();
    let (sound, in_reports) = (total(&before), reported(&before));
    drop(before);
    let database = Connection::open(unpacked.path()).unwrap();
    let length: i64 = database
        .query_row("SELECT end - start FROM CUPTI_ACTIVITY_KIND_KERNEL WHERE rowid = 7", [], |row| row.get(0))
        .unwrap();
    database
        .execute("UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET end = start - 5000000 WHERE rowid = 7", [])
        .unwrap();
    drop(database);
    let after = unpacked.open();
    assert_eq!(total(&after), sound - i128::from(length));
    let warnings = after.warnings();
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    assert_eq!((warnings[0].rows, warnings[0].first), (1, 7));
    assert_eq!(warnings[0].what, Oddity::EndsBeforeStart);
    let activity = after.gpu_activity(Attribution::default()).unwrap();
    assert_eq!(activity.iter().map(|gpu| gpu.kernels).sum::<u64>(), 50);
    let work = work_by_range(&after, Attribution::default());
    assert!(work.values().all(|work| work.busy >= 0 && work.total >= 0));
    assert_eq!(reported(&unpacked.open()), in_reports - length - 5_000_000);
}

/// A pipe cannot be read at random. One that nobody writes must not be waited for.
#[cfg(unix)]
#[test]
fn pipes_and_devices_are_refused() {
    let (_folder, [pipe]) = flopgap_testing::paths(["pipe.sqlite"]);
    let made = std::process::Command::new("mkfifo").arg(&pipe).status().unwrap();
    assert!(made.success());
    for path in [pipe.as_path(), Path::new("/dev/null")] {
        let (text, hint) = message(path);
        assert_eq!(text, ": not a regular file");
        assert!(hint.unwrap().contains("write the trace to a file"));
    }
}

/// nsys writes tables as plain b-trees of UTF-8 rows. Others, which another program made of them,
/// are refused by name.
#[test]
fn tables_that_nsys_does_not_write_are_refused() {
    let columns = "start INTEGER, end INTEGER, demangledName INTEGER, shortName INTEGER";
    for create in [
        format!("{columns}, PRIMARY KEY(start, end)) WITHOUT ROWID"),
        format!("{columns}, graphNodeId DEFAULT 0)"),
        format!("span INTEGER GENERATED ALWAYS AS (end - start) VIRTUAL, {columns})"),
    ] {
        let (_folder, path) = made(&format!("CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL({create}"));
        let trace = Trace::open(&path).unwrap();
        let report = Report::new(ReportKind::CudaGpuKernSum);
        let error = trace.report(report, &mut ReportTable::default()).unwrap_err();
        let expected = "the table CUPTI_ACTIVITY_KIND_KERNEL is not stored as nsys stores it";
        assert!(error.to_string().ends_with(expected), "{create}: {error}");
        assert_eq!(error.hint().unwrap(), "export the trace again");
    }
    let (_folder, path) =
        made("PRAGMA encoding = 'UTF-16le'; CREATE TABLE StringIds(id INTEGER PRIMARY KEY, value)");
    let error = Trace::open(&path).unwrap_err();
    assert!(error.to_string().ends_with("its texts are not UTF-8"), "{error}");
    // Ids of strings that are not those of rows.
    let (_folder, path) = made("CREATE TABLE StringIds(id, value)");
    let error = Trace::open(&path).unwrap().string(StringId(1)).unwrap_err();
    assert!(error.to_string().ends_with("the table StringIds is not stored as nsys stores it"), "{error}");
}

/// A database of these statements, in a directory of its own.
fn made(statements: &str) -> (tempfile::TempDir, PathBuf) {
    let (folder, [path]) = flopgap_testing::paths(["made.sqlite"]);
    Connection::open(&path).unwrap().execute_batch(statements).unwrap();
    (folder, path)
}

/// A page that is not what the format allows is reported with its number and the table that was
/// read.
#[test]
fn a_damaged_page_is_named() {
    let unpacked = Unpacked::new("streams_domains");
    let connection = Connection::open(unpacked.path()).unwrap();
    let root: usize = connection
        .query_row("SELECT rootpage FROM sqlite_master WHERE name = 'NVTX_EVENTS'", [], |row| {
            row.get::<_, u32>(0)
        })
        .unwrap()
        .try_into()
        .unwrap();
    drop(connection);
    let mut bytes = fs::read(unpacked.path()).unwrap();
    bytes[(root - 1) * 4096] = 0;
    fs::write(unpacked.path(), bytes).unwrap();
    let trace = unpacked.open();
    let error = trace.nvtx_ranges().unwrap_err();
    let expected = format!("damaged: page {root} of the table NVTX_EVENTS is not a table page");
    assert!(error.to_string().ends_with(&expected), "{error}");
    assert!(error.hint().unwrap().contains("export the trace again"));
    assert!(printed(&trace, "cuda_gpu_kern_sum").is_some(), "other tables are sound");
}

/// Damage anywhere gives an error or a report, never a panic.
#[test]
fn damaged_pages_do_not_panic() {
    let unpacked = Unpacked::new("streams_domains");
    let bytes = fs::read(unpacked.path()).unwrap();
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut random = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        usize::try_from(state >> 1).unwrap_or(usize::MAX)
    };
    for _ in 0..40 {
        let mut damaged = bytes.clone();
        for _ in 0..30 {
            let at = 100 + random() % (damaged.len() - 100);
            damaged[at] = u8::try_from(random() % 256).unwrap();
        }
        fs::write(unpacked.path(), &damaged).unwrap();
        let Ok(trace) = Trace::open(unpacked.path()) else { continue };
        for kind in ReportKind::ALL {
            let mut table = ReportTable::default();
            let _ = trace.report(Report::new(*kind), &mut table);
        }
    }
}

#[test]
fn every_trace_says_which_nsys_wrote_it() {
    for name in TRACES {
        let unpacked = Unpacked::new(name);
        let trace = unpacked.open();
        assert_eq!(trace.schema().version.as_deref(), Some("3.20.3"));
        assert_eq!(trace.schema().product.as_deref(), Some("2025.3.2.0"));
    }
}

/// Reports that are made together, on several threads and from shared parts, are those that are
/// made alone.
#[test]
fn reports_made_together_are_those_made_alone() {
    for name in TRACES {
        let unpacked = Unpacked::new(name);
        let trace = unpacked.open();
        let alone = ReportKind::ALL.iter().map(|kind| {
            let mut table = ReportTable::default();
            let ended = trace.report(Report::new(*kind), &mut table);
            (table, ended.map_err(|error| error.to_string()))
        });
        let asked = ReportKind::ALL.iter().map(|kind| (Report::new(*kind), ReportTable::default()));
        let together = unpacked.open().reports(asked, ReportOptions::default());
        let together: Vec<_> = together
            .into_iter()
            .map(|(table, ended)| (table, ended.map_err(|error| error.to_string())))
            .collect();
        assert_eq!(together, alone.collect::<Vec<_>>(), "{name}");
    }
}

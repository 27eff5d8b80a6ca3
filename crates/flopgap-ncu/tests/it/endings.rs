//! Runs that ended badly, and everything that is no table.

use flopgap_files::Hint as _;
use flopgap_ncu::{Error, Fault, Report};

use crate::support::{parse, path, read, text};

fn error(name: &str) -> Error {
    flopgap_ncu::read(path(name))
        .map(|report: Report| panic!("{name}: {} launches", report.launches.len()))
        .unwrap_err()
}

#[test]
fn files_without_a_table_say_why() {
    let no_kernels = error("nvtx_names/no_kernels.txt");
    assert!(matches!(no_kernels, Error { line: Some(1), what: Fault::NoKernels, .. }), "{no_kernels}");
    // Followed by a list of the kernels that there are.
    assert!(matches!(
        error("nvtx_names/no_kernel_matches.txt"),
        Error { line: Some(4), what: Fault::NoKernels, .. }
    ));
    let failed = error("nvtx_names/unsupported_metric.txt");
    let Error { line: Some(1), what: Fault::ProfilerFailed { message }, .. } = &failed else {
        panic!("{failed}")
    };
    assert!(
        message.ends_with("is not supported in range replay."),
        "the cause, not what follows it: {message}"
    );
    assert!(matches!(
        error("nvtx_names/no_executable.txt"),
        Error { line: Some(1), what: Fault::ProfilerFailed { .. }, .. }
    ));
    let cases = [
        ("nvtx_names/text_page.txt", "ncu's text output", "`ncu --csv`"),
        ("nvtx_names/export_only.txt", "to an .ncu-rep instead", "read that .ncu-rep"),
        ("nvtx_names/source_page.csv.zst", "no launches", "`ncu --page raw`"),
        ("ORIGIN.md", "first line is \"# Where these reports come from\"", "LC_ALL=C ncu"),
    ];
    for (name, expected, hint) in cases {
        let error = error(name);
        assert!(matches!(error.what, Fault::NotAReport { .. }), "{error}");
        assert!(error.to_string().contains(expected), "{error}");
        assert!(error.hint().unwrap().contains(hint), "{error}");
    }
    assert!(matches!(error("nonexistent.csv").what, Fault::Io { .. }));
    assert!(parse("").unwrap_err().to_string().contains("file is empty"));
}

#[test]
fn messages_known_from_other_machines_are_distinguished() {
    let failed = |text: &str| parse(text).unwrap_err();
    let permission = failed(
        "==PROF== Connected to process 1 (/usr/bin/app)\n\
         ==ERROR== ERR_NVGPUCTRPERM - The user does not have permission to access NVIDIA GPU Performance Counters\n\
         ==PROF== Disconnected from process 1\n==WARNING== No kernels were profiled.\n",
    );
    assert!(
        matches!(permission, Error { line: Some(2), what: Fault::CounterPermission, .. }),
        "{permission}"
    );
    assert!(permission.hint().unwrap().contains("NVreg_RestrictProfilingToAdminUsers"));
    let failing = failed(
        "==PROF== Connected to process 1 (app)\n==ERROR== Failed to profile \"k\" in process 1\n\
         ==PROF== Trying to shutdown target application\n==ERROR== The application returned an error code (9).\n\
         ==ERROR== An error occurred while trying to profile.\n==WARNING== No kernels were profiled.\n",
    );
    assert!(
        matches!(&failing, Error { line: Some(2), what: Fault::ProfilerFailed { message }, .. } if message.starts_with("Failed to profile"))
    );
    for text in [
        "==ERROR== Failed to initialize the profiler: LibraryNotLoaded\n",
        "Nsight Compute failed to connect to the CUDA driver (stub libcuda.so was loaded)\n",
    ] {
        assert!(
            matches!(failed(text), Error { line: Some(1), what: Fault::ProfilerFailed { .. }, .. }),
            "{text}"
        );
    }
}

#[test]
fn a_failed_run_with_a_table_is_data_and_a_warning() {
    for (name, code) in [("exit_code_9", "(9)"), ("exit_code_11", "(11)")] {
        let report = read(&format!("nvtx_names/{name}.csv"));
        assert_eq!(report.launches.len(), 5);
        assert_eq!(report.warnings.len(), 1);
        assert!(report.warnings[0].to_string().contains(code), "{:?}", report.warnings);
    }
    // The program's last line had no line feed.
    assert!(text("nvtx_names/exit_code_11.csv").contains("no newline here==ERROR=="));
}

#[test]
fn messages_and_output_are_notes_with_their_lines() {
    let report = read("nvtx_names/stdout.csv");
    let notes: Vec<_> = report.notes.iter().map(|note| (note.line, note.text.as_str())).collect();
    assert_eq!(
        notes,
        [
            (1, "==PROF== Connected to process 2128 (/opt/colon)"),
            (2, "hello from the program"),
            (3, "no newline here==PROF== Disconnected from process 2128"),
        ]
    );
    assert!(report.warnings.is_empty());
}

#[test]
fn noise_between_rows_costs_nothing() {
    let clean = text("n4_d512_m64_forward.csv");
    let expected: Vec<_> =
        parse(clean.clone()).unwrap().launches.into_iter().map(|l| (l.id, l.metrics)).collect();
    let noises = [
        "epoch 1 loss=0.23\n",
        "==PROF== Profiling \"axpy\" - 3: 0%....50%....100% - 3 passes\n",
        "Available Kernels:\n1. void at::native::f<float, 4>(int, float)\n",
        "a,b,c\n",
        "\"quoted, but no row\"\n",
        "don\"t\n",
        "\n\n",
        "\u{7}\u{0}\u{1b}[31mred\u{1b}[0m\r\n",
        // Output without a line feed: the row follows on the same line.
        "progress 50% ",
        "\"",
    ];
    let lines: Vec<&str> = clean.lines().collect();
    for noise in noises {
        let mut text = String::new();
        for (index, line) in lines.iter().enumerate() {
            if index % 5 == 2 {
                text += noise;
            }
            text += line;
            text += "\n";
        }
        let report = parse(text).unwrap_or_else(|error| panic!("{noise:?}: {error}"));
        assert_eq!(report.lost_at, None, "{noise:?}: {:?}", report.warnings);
        let found: Vec<_> = report.launches.into_iter().map(|l| (l.id, l.metrics)).collect();
        assert_eq!(found.len(), expected.len(), "{noise:?}");
        for (found, expected) in found.iter().zip(&expected) {
            assert_eq!((found.0, found.1.len()), (expected.0, expected.1.len()), "{noise:?}");
        }
    }
}

#[test]
fn a_row_that_is_cut_by_the_next_one_is_reported() {
    let clean = text("n4_d512_m64_forward.csv");
    let lines: Vec<&str> = clean.lines().collect();
    // Cut inside the kernel's name: the quote never closes.
    let cut = &lines[10][..100];
    let text = [&lines[..10], &[cut], &lines[11..], &[""]].concat().join("\n");
    let report = parse(text).unwrap();
    assert_eq!(report.launches.len(), 17);
    assert_eq!(report.lost_at, Some(11));
    let metrics: usize = report.launches.iter().map(|launch| launch.metrics.len()).sum();
    assert_eq!(metrics, 50);
}

#[test]
fn a_quote_that_never_closes_does_not_swallow_the_file() {
    let clean = text("n4_d512_m64_forward.csv");
    let text = clean.replacen("==PROF== Disconnected", "\"==PROF== Disconnected", 1);
    assert_eq!(parse(text).unwrap().launches.len(), 17);
    let mut lines: Vec<String> = clean.lines().map(str::to_owned).collect();
    lines.insert(20, "\"and so it goes".to_owned());
    let report = parse(lines.join("\n") + "\n").unwrap();
    assert_eq!(report.launches.iter().map(|launch| launch.metrics.len()).sum::<usize>(), 51);
}

#[test]
fn a_table_without_rows_is_a_warning() {
    let header = text("n4_d512_m64_forward.csv").lines().nth(3).unwrap().to_owned();
    let report = parse(header + "\n==WARNING== No kernels were profiled.\n").unwrap();
    assert!(report.launches.is_empty());
    assert_eq!(report.warnings.len(), 2, "{:?}", report.warnings);
}

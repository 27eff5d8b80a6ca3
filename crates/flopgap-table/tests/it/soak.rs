//! Thousands of recordings opened and read in one process: memory stays flat, and neither
//! descriptors nor temporary files remain.

use std::fs;
use std::path::Path;
use std::process::Command;

use flopgap_nsys::{Report, ReportKind, ReportTable};
use flopgap_table::{Source, Trace};

use crate::fixtures;

/// A recording of each kind, as it is and compressed.
const RECORDINGS: [&str; 5] = [
    "ncu/n4_d512_m64_forward.csv",
    "ncu/h200_range.ncu-rep",
    "nsys/small_forward.sqlite.zst",
    "kineto/mlp_n10_d1024_m128.json.gz",
    "models/mlp.onnx",
];

/// What this process holds.
#[derive(Clone, Copy, Debug)]
struct Held {
    resident_kib: u64,
    descriptors: usize,
    temporary: usize,
}

impl Held {
    fn now() -> Held {
        let status = fs::read_to_string("/proc/self/status").unwrap();
        let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
        let count = |folder: &Path| fs::read_dir(folder).unwrap().count();
        Held {
            resident_kib: resident.split_whitespace().next().unwrap().parse().unwrap(),
            descriptors: count(Path::new("/proc/self/fd")),
            temporary: count(&std::env::temp_dir()),
        }
    }
}

/// Opens a recording, reads every table of it, and makes every report; how many rows that were.
fn read(path: &Path) -> usize {
    // Other files are refused, which must leave nothing either.
    let Ok(source) = Source::open(path) else { return 0 };
    let mut rows = 0;
    for info in source.tables() {
        let Ok(table) = source.table(&info.name) else { continue };
        rows += table.read().unwrap().map(|batch| batch.unwrap().num_rows()).sum::<usize>();
    }
    if let Some(Trace::Nsys(trace)) = source.trace() {
        for kind in ReportKind::ALL {
            let mut table = ReportTable::default();
            let _ = trace.report(Report::new(*kind), &mut table);
            rows += table.rows.len();
        }
    }
    rows
}

/// `FLOPGAP_SOAK` cycles, 10,000 without it. Run by the test below with few cycles, in a process
/// and a folder for temporary files of its own.
#[test]
#[ignore = "minutes: cargo test --release -p flopgap-table --test it soak::cycles -- --ignored --nocapture"]
#[expect(clippy::print_stdout, reason = "the figures are what it is run for")]
fn cycles() {
    let cycles: usize = std::env::var("FLOPGAP_SOAK").map_or(10_000, |cycles| cycles.parse().unwrap());
    let mut rows = None;
    let mut warm = None;
    for cycle in 1..=cycles {
        let read: usize = RECORDINGS.iter().map(|name| read(&fixtures().join(name))).sum();
        assert_eq!(*rows.get_or_insert(read), read, "cycle {cycle} read other rows");
        let is_shown = cycle.to_string().trim_start_matches('1').bytes().all(|digit| digit == b'0');
        if is_shown || cycle == cycles {
            println!("{cycle} cycles: {:?}", Held::now());
        }
        if cycle == cycles.div_ceil(5) {
            warm = Some(Held::now());
        }
    }
    let (warm, end) = (warm.unwrap(), Held::now());
    assert!(rows > Some(100), "{rows:?}");
    assert_eq!((end.descriptors, end.temporary), (warm.descriptors, warm.temporary));
    let grown = end.resident_kib.saturating_sub(warm.resident_kib);
    assert!(grown <= 4096, "grown by {grown} KiB: {warm:?}, {end:?}");
}

#[test]
fn some_cycles_leave_nothing_behind() {
    if !Path::new("/proc/self/fd").is_dir() {
        return flopgap_testing::skip("procfs", "descriptors cannot be counted");
    }
    let temporary = tempfile::tempdir().unwrap();
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["soak::cycles", "--exact", "--ignored", "--nocapture"])
        .env("FLOPGAP_SOAK", "20")
        .env("TMPDIR", temporary.path())
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    assert!(text.contains("20 cycles") && text.contains("temporary: 0"), "{text}");
    assert_eq!(fs::read_dir(temporary.path()).unwrap().count(), 0);
}

//! A run that was killed while it wrote.

use crate::support::{Plain, bytes, parse, plains};

/// Reads `bytes` up to every length in turn: the result must be a beginning of the whole, and a
/// loss must be reported.
fn cut_everywhere(bytes: &[u8], step: usize) {
    // Rows of a table with rules end in a comma.
    let ragged = bytes.windows(3).any(|end| end == b"\",\n");
    let whole = plains(&parse(bytes).unwrap());
    for length in (0..bytes.len()).step_by(step) {
        let Ok(report) = parse(&bytes[..length]) else { continue };
        let found = plains(&report);
        assert!(found.len() <= whole.len(), "{length}");
        for (index, (found, whole)) in found.iter().zip(&whole).enumerate() {
            let is_last = index + 1 == report.launches.len();
            let identity = |launch: &Plain| Plain { metrics: Vec::new(), ..launch.clone() };
            assert_eq!(identity(found), identity(whole), "cut at {length}");
            assert!(whole.metrics.starts_with(&found.metrics), "cut at {length}: {:?}", found.metrics);
            assert!(is_last || found.metrics == whole.metrics, "cut at {length}");
        }
        // At the end of a row nothing shows that more was to come; anywhere else something does.
        let cut = &bytes[..length];
        let at_row_end = cut.ends_with(b"\n") || cut.ends_with(b"\"") || (ragged && cut.ends_with(b"\","));
        if !at_row_end && !found.is_empty() {
            assert!(report.lost_at.is_some(), "cut at {length}: {:?}", report.warnings);
        }
    }
}

#[test]
fn long_files_cut_at_every_byte() {
    let file = bytes("n4_d512_m64_forward.csv");
    cut_everywhere(&file[..9000], 1);
    cut_everywhere(&bytes("nvtx_names/stdout.csv"), 1);
    cut_everywhere(&bytes("nvtx_names/exit_code_11.csv"), 1);
}

#[test]
fn summaries_cut_at_every_byte() {
    cut_everywhere(&bytes("nvtx_names/summary_per_kernel.csv"), 1);
}

#[test]
fn wide_files_cut_at_many_bytes() {
    cut_everywhere(&bytes("nvtx_names/raw_C.csv.zst"), 331);
    cut_everywhere(&bytes("full_raw.csv.zst"), 7919);
}

#[test]
fn ragged_files_cut_at_many_bytes() {
    cut_everywhere(&bytes("full_details.csv.zst")[..60_000], 41);
}

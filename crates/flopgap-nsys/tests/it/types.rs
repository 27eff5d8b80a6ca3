//! Ids, codes and extents of rows.

use flopgap_nsys::{Attribution, CopyKind, MemoryKind, Oddity};
use rusqlite::Connection;

use crate::support::{Unpacked, printed};

#[test]
fn an_extent_that_no_grid_has_is_named_and_its_time_counts() {
    let unpacked = Unpacked::new("streams_domains");
    let total = |trace: &flopgap_nsys::Trace| -> i128 {
        let times = trace.operation_times(None, Attribution::default()).unwrap();
        times.kernels.iter().map(|(_, summary)| summary.total).sum()
    };
    let sound = total(&unpacked.open());
    for extent in [-1_i64, 1 << 32, i64::MAX] {
        let database = Connection::open(unpacked.path()).unwrap();
        let change = "UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET gridY = ?1 WHERE rowid = 7";
        database.execute(change, [extent]).unwrap();
        drop(database);
        let trace = unpacked.open();
        let kernels = trace.kernels().unwrap().map(Result::unwrap);
        assert_eq!(kernels.count(), 50, "of 51, no wrapped grid");
        let warnings = trace.warnings();
        assert_eq!(warnings.len(), 1, "{warnings:?}");
        assert_eq!((warnings[0].rows, warnings[0].first, warnings[0].what), (1, 7, Oddity::OutOfRange));
        assert_eq!(
            warnings[0].to_string(),
            "CUPTI_ACTIVITY_KIND_KERNEL: 1 row (first: row 7) with a grid or block below 0 or above 2^32 - 1: \
             left out"
        );
        // What does not show the grid does not need it.
        assert_eq!(total(&unpacked.open()), sound);
        assert_eq!(printed(&unpacked.open(), "cuda_gpu_trace").unwrap().len(), printed_rows(&trace) + 1);
    }
}

/// How many kernels, copies and memsets can be read.
fn printed_rows(trace: &flopgap_nsys::Trace) -> usize {
    trace.kernels().unwrap().count() + trace.copies().unwrap().count() + trace.memsets().unwrap().count()
}

#[test]
fn copies_name_their_memory() {
    let trace = Unpacked::new("streams_domains");
    let kinds =
        trace.open().copies().unwrap().map(Result::unwrap).filter(|copy| {
            copy.kind == CopyKind::HostToDevice && copy.destination == Some(MemoryKind::Device)
        });
    assert!(kinds.count() > 0);
}

//! Rows for this crate's tests.

use flopgap_flops::Precision;
use flopgap_graph::op::Gemm;
use flopgap_graph::{Epilogue, Mode, Op, Step, Workload};

use crate::file::Header;
use crate::row::{Measurement, Origin, Row, Timing};

/// The header of a file from an H200.
pub(crate) fn header() -> Header {
    let origin = Origin { device: "NVIDIA H200".to_owned(), kind: "cuda".to_owned(), ..Origin::default() };
    let created = "2026-11-22T09:30:00Z".to_owned();
    Header { created, ..Header::new(origin, None) }
}

/// A time with an interval of 1 % on either side.
pub(crate) fn timing(median_ns: f64) -> Timing {
    Timing {
        median_ns,
        low_ns: 0.99 * median_ns,
        high_ns: 1.01 * median_ns,
        minimum_ns: 0.98 * median_ns,
        runs: 10,
        capped: false,
        wall_ns: None,
    }
}

/// A measurement that has only a time.
pub(crate) fn measurement(median_ns: f64) -> Measurement {
    Measurement::of_time(timing(median_ns))
}

/// Matrix products of different sizes; the first takes 1,000 ns, the second 1,001.
pub(crate) fn rows(count: usize) -> Vec<Row> {
    let row = |index: usize| {
        let op = Op::Gemm(Gemm { batch: 1, m: 1 + index as u64, n: 512, k: 1024 });
        Row {
            workload: Workload::Step(Step { op, epilogue: Epilogue::default() }),
            engine: "cuda".to_owned(),
            mode: Mode::Graph,
            precision: Precision::Fp16,
            threads: 0,
            measurement: measurement(1000.0 + index as f64),
        }
    };
    (0..count).map(row).collect()
}

//! A calibration with as many rows as wanted, whose times follow a rule with noise: what loading,
//! fitting and estimating cost does not depend on how true they are.

use std::collections::BTreeMap;

use flopgap_calibration::{Calibration, Header, Measurement, Origin, Row, Timing};
use flopgap_flops::{Activation, Precision};
use flopgap_graph::op::{Conv, Gemm};
use flopgap_graph::{Epilogue, Mode, Op, Step, Workload};

/// Rows of fully connected layers and convolutions in 16 bits, alternately, on a GPU of 132
/// multiprocessors.
pub fn calibration(rows: u64) -> Calibration {
    let origin = Origin {
        device: "generated".to_owned(),
        kind: "cuda".to_owned(),
        properties: BTreeMap::from([("multiprocessors".to_owned(), "132".to_owned())]),
        versions: BTreeMap::new(),
    };
    let rows = (0..rows).map(row).collect();
    Calibration { header: Header::new(origin, None), rows, torn: false }
}

/// Different for each number and place, and the same at each call (`SplitMix64`).
fn random(number: u64, place: u64) -> u64 {
    let mut x = (number * 8 + place + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

fn row(number: u64) -> Row {
    let between = |place, low: u64, high: u64| low + random(number, place) % (high - low);
    let power = |place, low, high| 1_u64 << between(place, low, high);
    let op = if number % 4 == 3 {
        Op::Conv(Conv {
            padding: vec![[1, 1]; 2],
            ..Conv::new(
                power(0, 0, 6),
                [power(1, 4, 10), power(2, 4, 10)],
                &[7 * power(3, 0, 4); 2],
                1 + 2 * between(4, 0, 2),
                1,
            )
        })
    } else {
        Op::Gemm(Gemm {
            batch: 1,
            m: power(0, 0, 12) + between(1, 0, 16),
            n: power(2, 4, 13),
            k: power(3, 4, 13) + 8 * between(4, 0, 8),
        })
    };
    let epilogue = Epilogue { bias: true, residual: false, activation: Activation::Relu };
    let step = Step { op, epilogue };
    let work = step.work(Precision::Fp16).expect("sizes far from overflowing");
    let (flops, bytes) = (work.flops as f64, work.bytes().expect("as above") as f64);
    let noise = 0.95 + 0.1 * (random(number, 7) % 1000) as f64 / 1000.0;
    let median_ns = (2000.0 + (flops / 600e3).max(bytes / 3.5e3)) * noise;
    let time = Timing {
        median_ns,
        low_ns: median_ns * 0.99,
        high_ns: median_ns * 1.01,
        minimum_ns: median_ns * 0.97,
        runs: 50,
        capped: false,
        wall_ns: None,
    };
    Row {
        workload: Workload::Step(step),
        engine: "cuda".to_owned(),
        mode: Mode::Graph,
        precision: Precision::Fp16,
        threads: 0,
        measurement: Measurement::of_time(time),
    }
}

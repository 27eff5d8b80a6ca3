//! Samples of public measurements that lie in the repository: `fixtures/public`.

use std::path::Path;

use flopgap_flops::Precision;
use flopgap_graph::op::Gemm;
use flopgap_graph::{Algorithm, Epilogue, Mode, Op, Step};
use flopgap_roofline::predict::{Baseline, FitSettings, Observation, Predictor};
use serde::Deserialize;
use serde::de::DeserializeOwned;

fn read<T: DeserializeOwned>(name: &str) -> Vec<T> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/public").join(name);
    csv::Reader::from_path(path).unwrap().deserialize().map(Result::unwrap).collect()
}

fn observation(m: u64, n: u64, k: u64, precision: Precision, milliseconds: f64) -> Observation {
    let step = Step { op: Op::Gemm(Gemm { batch: 1, m, n, k }), epilogue: Epilogue::default() };
    Observation::of_time(vec![step], precision, Mode::Stream, milliseconds * 1e6)
}

#[derive(Deserialize)]
struct H200 {
    m: u64,
    n: u64,
    k: u64,
    latency: f64,
    power: f64,
}

#[derive(Deserialize)]
struct H100 {
    #[serde(rename = "M")]
    m: u64,
    /// Inputs.
    #[serde(rename = "N")]
    k: u64,
    /// Outputs.
    #[serde(rename = "K")]
    n: u64,
    #[serde(rename = "Latency")]
    latency: f64,
    #[serde(rename = "Kernel Name")]
    kernel: String,
    #[serde(rename = "Blocks per SM")]
    waves: f64,
}

/// Mean relative errors of time, of the best baseline, and of energy, and the share within
/// intervals.
fn judge(rows: &[Observation], fitted: usize) -> [f64; 4] {
    let (fit, left) = rows.split_at(fitted);
    let predictor = Predictor::fit(None, fit, &FitSettings::default().with_units(132)).unwrap();
    let mut sums = [0.0; 4];
    for row in left {
        let algorithms = (!row.algorithms.is_empty()).then_some(&*row.algorithms);
        let said = predictor.estimate(&row.steps, row.precision, row.mode, algorithms).unwrap();
        let baseline = predictor.baseline(Baseline::LaunchEfficiency, &row.steps, row.precision, row.mode);
        let inside = said.low <= row.nanoseconds && row.nanoseconds <= said.high;
        let energy = said.joules.zip(row.joules).map_or(0.0, |(said, joules)| (said / joules - 1.0).abs());
        let errors = [
            (said.nanoseconds / row.nanoseconds - 1.0).abs(),
            (baseline / row.nanoseconds - 1.0).abs(),
            energy,
            f64::from(u8::from(inside)),
        ];
        for (sum, error) in sums.iter_mut().zip(errors) {
            *sum += error / left.len() as f64;
        }
    }
    sums
}

#[test]
fn products_on_an_h200() {
    let rows: Vec<Observation> = read::<H200>("h200-gemm-bf16.csv")
        .into_iter()
        .map(|row| {
            let mut seen = observation(row.m, row.n, row.k, Precision::Bf16, row.latency);
            seen.joules = Some(row.power * row.latency * 1e-3);
            seen
        })
        .collect();
    let [time, baseline, energy, covered] = judge(&rows, 300);
    assert!(time < 0.065, "{time}");
    assert!(baseline > 0.1, "{baseline}");
    assert!(energy < 0.25, "{energy}");
    assert!((0.84..=0.96).contains(&covered), "{covered}");
}

#[test]
fn linear_layers_on_an_h100_whose_kernels_are_known() {
    let rows: Vec<Observation> = read::<H100>("h100-linear-fp32.csv")
        .into_iter()
        .map(|row| {
            let mut seen = observation(row.m, row.n, row.k, Precision::Fp32, row.latency);
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a positive number")]
            let waves = (row.waves * 1000.0).round() as u64;
            let id = row.kernel;
            seen.algorithms = vec![Algorithm { id, waves_thousandths: Some(waves), ..Algorithm::default() }];
            seen
        })
        .collect();
    let [time, baseline, _, covered] = judge(&rows, 270);
    assert!(time < 0.05, "{time}");
    assert!(baseline > 0.06, "{baseline}");
    assert!((0.82..=0.97).contains(&covered), "{covered}");
}

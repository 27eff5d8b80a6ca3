//! What a user of a calibration waits for: reading its rows, fitting the predictor to them, and an
//! estimate of a model afterwards.
//!
//! The rows are those that were recorded on an H200 and a Xeon, and generated ones, whose number
//! can be chosen; or those of the calibration file that `FLOPGAP_CALIBRATION` names.

use std::hint::black_box;
use std::path::Path;

use criterion::{BatchSize, Criterion, criterion_group, criterion_main};
use flopgap_benches::calibration::calibration;
use flopgap_calibration::Calibration;
use flopgap_calibration::judge::{observation, series};
use flopgap_flops::{Activation, Precision};
use flopgap_graph::{MlpSpec, Mode, ResnetSpec, Step, Workload};
use flopgap_roofline::predict::{FitSettings, Observation, Predictor};

/// Rows of a small sweep, and of a large one.
const ROWS: [u64; 2] = [800, 3000];

/// Sweeps that were recorded.
const RECORDED: [(&str, &[u8]); 2] = [
    ("h200", include_bytes!("../../fixtures/calibration/h200.jsonl.zst")),
    ("xeon-ort", include_bytes!("../../fixtures/calibration/xeon-ort.jsonl.zst")),
];

/// The rows, with where they come from.
fn calibrations() -> Vec<(&'static str, Calibration)> {
    if let Some(path) = std::env::var_os("FLOPGAP_CALIBRATION") {
        return vec![("file", Calibration::read(Path::new(&path)).expect("a calibration file"))];
    }
    let recorded = RECORDED.map(|(name, bytes)| {
        (name, Calibration::parse(bytes, Path::new(name)).expect("a calibration that was recorded"))
    });
    recorded.into_iter().chain(ROWS.map(|rows| ("generated", calibration(rows)))).collect()
}

/// Of the series with most rows.
fn observations(calibration: &Calibration) -> Vec<Observation> {
    let all = series(&calibration.rows);
    let (_, rows) = all.first().expect("a calibration has rows");
    rows.iter().map(|row| observation(row).expect("rows with steps")).collect()
}

fn load(criterion: &mut Criterion) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let mut group = criterion.benchmark_group("load");
    for (from, calibration) in calibrations() {
        for name in ["calibration.jsonl", "calibration.jsonl.zst"] {
            let path = folder.path().join(name);
            calibration.write(&path).expect("the folder can be written to");
            let bytes = std::fs::read(&path).expect("as it was written");
            let kind = if name.ends_with("zst") { "zstd" } else { "plain" };
            group.bench_function(format!("{from}, {} rows, {kind}", calibration.rows.len()), |bencher| {
                bencher.iter(|| Calibration::parse(black_box(&bytes), &path).expect("rows"));
            });
        }
    }
    group.finish();
}

fn fit(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("fit");
    group.sample_size(10);
    for (from, calibration) in calibrations() {
        let observations = observations(&calibration);
        let ceilings = calibration.header.ceilings.as_ref();
        for (how, settings) in [("with kernels", settings()), ("sizes alone", settings().sizes_alone())] {
            group.bench_function(format!("{from}, {} rows, {how}", observations.len()), |bencher| {
                bencher.iter_batched(
                    || observations.clone(),
                    |observations| Predictor::fit(ceilings, &observations, &settings).expect("enough rows"),
                    BatchSize::LargeInput,
                );
            });
        }
    }
    group.finish();
}

/// What reading a fit from the cache costs in the place of the fit.
fn stored(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("stored fit");
    for (from, calibration) in calibrations() {
        let observations = observations(&calibration);
        let settings = settings().sizes_alone();
        let ceilings = calibration.header.ceilings.as_ref();
        let predictor = Predictor::fit(ceilings, &observations, &settings).expect("enough rows");
        let bytes = predictor.to_bytes().expect("a predictor that can be stored");
        group.bench_function(format!("{from}, {} rows", observations.len()), |bencher| {
            bencher.iter(|| Predictor::from_bytes(black_box(&bytes)).expect("what was stored"));
        });
    }
    group.finish();
}

fn settings() -> FitSettings {
    FitSettings::default().with_units(132)
}

fn models() -> [(&'static str, Vec<Step>); 3] {
    let resnet = |depth| Workload::Resnet(ResnetSpec { depth, batch: 1, image: 224 });
    let mlp = Workload::Mlp(MlpSpec {
        input: 784,
        hidden: vec![1000, 500, 300],
        output: 10,
        batch: 24,
        activation: Activation::Relu,
    });
    [("ResNet-50", resnet(50)), ("ResNet-152", resnet(152)), ("an MLP of four layers", mlp)]
        .map(|(name, workload)| (name, workload.steps().expect("a network of a family")))
}

fn estimate(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("estimate");
    for (from, calibration) in calibrations() {
        let observations = observations(&calibration);
        let (precision, mode) = (observations[0].precision, observations[0].mode);
        let (ceilings, settings) = (calibration.header.ceilings.as_ref(), settings().sizes_alone());
        let predictor = Predictor::fit(ceilings, &observations, &settings).expect("enough rows");
        for (name, steps) in models() {
            group.bench_function(format!("{from}, {} rows, {name}", observations.len()), |bencher| {
                bencher.iter(|| run(&predictor, black_box(&steps), precision, mode));
            });
        }
    }
    group.finish();
}

fn run(predictor: &Predictor, steps: &[Step], precision: Precision, mode: Mode) -> f64 {
    predictor.estimate(steps, precision, mode, None).expect("steps").nanoseconds
}

criterion_group!(benches, load, fit, stored, estimate);
criterion_main!(benches);

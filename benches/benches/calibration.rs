//! What a user of a calibration waits for: reading its rows, fitting the predictor to them, and an
//! estimate of a model afterwards.
//!
//! The rows are generated, or those of the calibration file that `FLOPGAP_CALIBRATION` names.

use std::hint::black_box;
use std::path::Path;

use criterion::{BatchSize, Criterion, criterion_group, criterion_main};
use flopgap_benches::calibration::calibration;
use flopgap_calibration::Calibration;
use flopgap_calibration::judge::observation;
use flopgap_flops::{Activation, Precision};
use flopgap_graph::{MlpSpec, Mode, ResnetSpec, Step, Workload};
use flopgap_roofline::predict::{FitSettings, Observation, Predictor};

/// Rows of a recommended sweep, and of a large one.
const ROWS: [u64; 2] = [800, 3000];

/// The rows, by their number, as one engine, mode and precision has them.
fn calibrations() -> Vec<Calibration> {
    match std::env::var_os("FLOPGAP_CALIBRATION") {
        Some(path) => vec![Calibration::read(Path::new(&path)).expect("a calibration file")],
        None => ROWS.map(calibration).into(),
    }
}

/// Of the rows of one engine and mode, whichever are the first.
fn observations(calibration: &Calibration) -> Vec<Observation> {
    let first = &calibration.rows[0];
    let alike = calibration.rows.iter().filter(|row| row.engine == first.engine && row.mode == first.mode);
    alike.map(|row| observation(row).expect("rows with steps")).collect()
}

fn load(criterion: &mut Criterion) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let mut group = criterion.benchmark_group("load");
    for calibration in calibrations() {
        for name in ["calibration.jsonl", "calibration.jsonl.zst"] {
            let path = folder.path().join(name);
            calibration.write(&path).expect("the folder can be written to");
            let bytes = std::fs::read(&path).expect("as it was written");
            let kind = if name.ends_with("zst") { "zstd" } else { "plain" };
            group.bench_function(format!("{} rows, {kind}", calibration.rows.len()), |bencher| {
                bencher.iter(|| Calibration::parse(black_box(&bytes), &path).expect("rows"));
            });
        }
    }
    group.finish();
}

fn fit(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("fit");
    group.sample_size(10);
    for calibration in calibrations() {
        let observations = observations(&calibration);
        let settings = settings();
        group.bench_function(format!("{} observations", observations.len()), |bencher| {
            bencher.iter_batched(
                || observations.clone(),
                |observations| Predictor::fit(None, &observations, &settings).expect("enough rows"),
                BatchSize::LargeInput,
            );
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
    for calibration in calibrations() {
        let observations = observations(&calibration);
        let (precision, mode) = (observations[0].precision, observations[0].mode);
        let predictor = Predictor::fit(None, &observations, &settings()).expect("enough rows");
        for (name, steps) in models() {
            group.bench_function(format!("{name}, {} observations", observations.len()), |bencher| {
                bencher.iter(|| run(&predictor, black_box(&steps), precision, mode));
            });
        }
    }
    group.finish();
}

fn run(predictor: &Predictor, steps: &[Step], precision: Precision, mode: Mode) -> f64 {
    predictor.estimate(steps, precision, mode, None).expect("steps").nanoseconds
}

criterion_group!(benches, load, fit, estimate);
criterion_main!(benches);

//! A machine whose times follow a formula that predictors do not know.

use flopgap_calibration::{Measurement, Row, Timing};
use flopgap_flops::{Activation, Precision};
use flopgap_graph::op::Gemm;
use flopgap_graph::{Epilogue, MlpSpec, Mode, Op, Step, Workload};

/// Numbers that look random and are the same everywhere.
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    /// From 0 to 1.
    pub(crate) fn next(&mut self) -> f64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as f64 / (1u64 << 53) as f64
    }

    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "within the range")]
    fn size(&mut self, low: f64, high: f64) -> u64 {
        (low * (high / low).powf(self.next())).round() as u64
    }
}

/// A launch, then the larger of arithmetic with an efficiency that grows with the size, and memory.
fn nanoseconds(step: &Step, precision: Precision, mode: Mode) -> f64 {
    let launch = if mode == Mode::Graph { 1500.0 } else { 4000.0 };
    let work = step.work(precision).unwrap();
    let peak = match precision {
        Precision::Fp32 => 40.0,
        Precision::Fp16 => 600.0,
        _ => 1100.0,
    };
    let flops = work.flops as f64;
    let arithmetic = flops / (1000.0 * peak * (flops / (flops + 3e8)).max(0.05));
    let memory = (work.bytes_read + work.bytes_written) as f64 / 3500.0;
    launch + arithmetic.max(memory)
}

fn row(workload: Workload, precision: Precision, mode: Mode, noise: f64) -> Row {
    let steps = workload.steps().unwrap();
    let median_ns = noise * steps.iter().map(|step| nanoseconds(step, precision, mode)).sum::<f64>();
    let bytes: u64 = steps.iter().map(|step| step.work(precision).unwrap().bytes_read).sum();
    let counted = steps.iter().map(|step| step.work(precision).unwrap().flops).sum();
    let time = Timing {
        median_ns,
        low_ns: 0.99 * median_ns,
        high_ns: 1.01 * median_ns,
        minimum_ns: 0.98 * median_ns,
        runs: 50,
        capped: false,
        wall_ns: None,
    };
    let measurement = Measurement {
        memory_bytes: Some(bytes + 4096),
        counted_flops: Some(counted),
        ..Measurement::of_time(time)
    };
    Row { workload, engine: "cuda".to_owned(), mode, precision, threads: 0, measurement }
}

/// Products in three precisions, empty kernels, and MLPs, measured with `noise` (a fraction).
pub(crate) fn rows(products: usize, mlps: usize, noise: f64) -> Vec<Row> {
    let mut random = Random::new(14);
    let mut rows = Vec::new();
    let mut errors = Random::new(15);
    let mut factor = move || 1.0 + noise * (2.0 * errors.next() - 1.0);
    for index in 0..products {
        let precision = [Precision::Fp32, Precision::Fp16, Precision::Int8][index % 3];
        let [m, n, k] = [random.size(1.0, 8192.0), random.size(16.0, 8192.0), random.size(16.0, 8192.0)];
        let op = Op::Gemm(Gemm { batch: 1, m, n, k });
        let epilogue = Epilogue { bias: index % 2 == 0, ..Epilogue::default() };
        let workload = Workload::Step(Step { op, epilogue });
        rows.push(row(workload, precision, Mode::Graph, factor()));
    }
    for mode in [Mode::Graph, Mode::Stream] {
        let empty = Workload::Step(Step { op: Op::Empty, epilogue: Epilogue::default() });
        rows.push(row(empty, Precision::Fp32, mode, 1.0));
    }
    for index in 0..mlps {
        let spec = MlpSpec {
            input: random.size(128.0, 4096.0),
            hidden: vec![random.size(64.0, 2048.0); 1 + index % 4],
            output: random.size(8.0, 256.0),
            batch: 1 << (index % 8),
            activation: Activation::Relu,
        };
        for (mode, precision) in [(Mode::Graph, Precision::Fp16), (Mode::Stream, Precision::Fp32)] {
            rows.push(row(Workload::Mlp(spec.clone()), precision, mode, factor()));
        }
    }
    rows
}

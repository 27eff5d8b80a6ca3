//! Checks and times products, networks and small kernels on a GPU, in every precision:
//! `cargo run --release --example cuda [-- --count]`.
//!
//! A row that fails is printed with its reason, and the exit code is 1 then. `--count` also counts
//! FLOPs by hardware counters, which takes longer.
#![expect(clippy::print_stdout, reason = "an example")]

use std::process::ExitCode;
use std::time::{Duration, Instant};

use flopgap_calibration::engines::cuda::{Cuda, Fused};
use flopgap_calibration::engines::{
    Engine, EngineError, Measure, MeasureError, Repetition, Unwatched, measure,
};
use flopgap_flops::{Activation, Attention, AttentionMask, Precision};
use flopgap_graph::op::{Elementwise, ElementwiseFunction, Gemm, Norm, NormFunction};
use flopgap_graph::{Epilogue, MlpSpec, Mode, Op, ResnetSpec, Step, Workload};

fn step(op: Op, epilogue: Epilogue) -> Workload {
    Workload::Step(Step { op, epilogue })
}

fn gemm(batch: u64, [m, n, k]: [u64; 3], epilogue: Epilogue) -> Workload {
    step(Op::Gemm(Gemm { batch, m, n, k }), epilogue)
}

fn mlp(input: u64, hidden: &[u64], output: u64, batch: u64, activation: Activation) -> Workload {
    Workload::Mlp(MlpSpec { input, hidden: hidden.to_vec(), output, batch, activation })
}

fn norm(function: NormFunction, [rows, columns]: [u64; 2]) -> Op {
    Op::Norm(Norm { function, rows, columns, parameters: 2 * columns })
}

fn workloads() -> Vec<Workload> {
    let none = Epilogue::default();
    let of = |bias, residual, activation| Epilogue { bias, residual, activation };
    let mut workloads = Vec::new();
    for sizes in [[1, 1, 1], [1, 10, 64], [7, 10, 13], [16, 256, 784], [128, 1024, 1024], [129, 1000, 1027]] {
        workloads.push(gemm(1, sizes, of(true, false, Activation::Relu)));
    }
    for sizes in
        [[1, 4096, 4096], [512, 4096, 1024], [4096, 4096, 4096], [8192, 8192, 8192], [16384, 16, 16384]]
    {
        workloads.push(gemm(1, sizes, none));
    }
    for activation in Activation::ALL {
        workloads.push(gemm(1, [256, 512, 512], of(true, true, activation)));
    }
    workloads.push(gemm(12, [128, 128, 64], none));
    for (hidden, output) in
        [(&[128_u64][..], 10), (&[256, 128], 64), (&[512, 256, 128], 128), (&[1024, 512], 256)]
    {
        for batch in [1, 128] {
            workloads.push(mlp(256, hidden, output, batch, Activation::Relu));
        }
    }
    workloads.push(mlp(1000, &[777, 333], 10, 33, Activation::Gelu));
    workloads.push(step(Op::Empty, none));
    let functions = [
        (ElementwiseFunction::Activation(Activation::Silu), 1),
        (ElementwiseFunction::Add, 2),
        (ElementwiseFunction::Mul, 2),
        (ElementwiseFunction::Div, 2),
        (ElementwiseFunction::Compare, 2),
        (ElementwiseFunction::Simple, 1),
        (ElementwiseFunction::Transcendental, 1),
        (ElementwiseFunction::Quantize, 1),
    ];
    for (function, operands) in functions {
        let elements = 1_000_003;
        workloads
            .push(step(Op::Elementwise(Elementwise { function, elements, read: operands * elements }), none));
    }
    let add = ElementwiseFunction::Add;
    workloads
        .push(step(Op::Elementwise(Elementwise { function: add, elements: 1 << 26, read: 1 << 27 }), none));
    workloads
        .push(step(Op::Elementwise(Elementwise { function: add, elements: 4096, read: 4096 + 64 }), none));
    workloads.push(step(Op::Copy { elements: 1 << 24 }, none));
    workloads.push(step(Op::Softmax { rows: 1000, columns: 777 }, none));
    for function in
        [NormFunction::Layer, NormFunction::Rms, NormFunction::Group, NormFunction::BatchInference]
    {
        workloads.push(step(norm(function, [512, 768]), none));
    }
    workloads.push(step(Op::Reduce { inputs: 64 * 2048 * 49, outputs: 64 * 2048 }, none));
    workloads.push(step(Op::Gather { rows: 512, width: 768 }, none));
    let attention = Attention::self_attention(2, 12, 256, 64);
    workloads.push(step(Op::Attention(attention), none));
    let causal = Attention { kv_heads: 4, queries: 100, mask: AttentionMask::Causal, ..attention };
    workloads.push(step(Op::Attention(causal), none));
    for depth in [18, 50] {
        workloads.push(Workload::Resnet(ResnetSpec { depth, batch: 4, image: 224 }));
    }
    workloads
}

fn main() -> ExitCode {
    let count = std::env::args().any(|argument| argument == "--count");
    let (cuda, fused) = match (Cuda::new(0), Fused::new(0)) {
        (Ok(cuda), Ok(fused)) => (cuda, fused),
        (Err(error), _) | (_, Err(error)) => {
            println!("{error}");
            return ExitCode::from(3);
        }
    };
    println!("{:?}\n{:?}", cuda.origin(), fused.origin());
    let what = Measure {
        repetition: Repetition { limit: Duration::from_millis(200), ..Repetition::default() },
        energy: None,
        count,
    };
    let mut failed = 0;
    for workload in workloads() {
        failed += all(&cuda, &workload, &what);
    }
    for (widths, batch) in [([64, 64, 16], 8192), ([256, 256, 64], 128), ([1024, 512, 256], 128)] {
        let workload = mlp(widths[0], &widths[1..2], widths[2], batch, Activation::Relu);
        failed += all(&fused, &workload, &what);
    }
    println!("{failed} failed");
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// A workload in every precision and mode; says how many failed.
fn all(engine: &dyn Engine, workload: &Workload, what: &Measure) -> usize {
    let mut failed = 0;
    for precision in Precision::ALL {
        for &mode in engine.modes() {
            let start = Instant::now();
            match measure(engine, workload, precision, mode, what, &mut Unwatched) {
                Ok(row) => print_row(&row, start.elapsed()),
                Err(MeasureError::Engine(EngineError::Unsupported { reason, .. })) => {
                    println!("{} {} {precision}: unsupported: {reason}", engine.name(), workload.label());
                }
                Err(error) => {
                    failed += 1;
                    println!("{} {} {precision} {mode:?}: FAILED: {error}", engine.name(), workload.label());
                }
            }
        }
    }
    failed
}

fn print_row(row: &flopgap_calibration::Row, all: Duration) {
    let measurement = &row.measurement;
    let time = &measurement.time;
    let steps = row.workload.steps().unwrap_or_default();
    let flops: u64 = steps.iter().filter_map(|step| Some(step.work(row.precision).ok()?.flops)).sum();
    let check = measurement.check.as_ref().map_or((f64::NAN, f64::NAN), |check| (check.error, check.bound));
    println!(
        "{:5} {:40} {:5} {:6} {:10.2} us ±{:4.1}% n={:<4}{} {:8.2} TFLOP/s error {:.1e} of {:.1e} memory {} device {:?} counted {} in {:.0} ms",
        row.engine,
        row.workload.label(),
        row.precision,
        format!("{:?}", row.mode),
        time.median_ns / 1e3,
        (time.high_ns - time.low_ns) / 2.0 / time.median_ns * 100.0,
        time.runs,
        if time.capped { "*" } else { " " },
        flops as f64 / time.median_ns / 1e3,
        check.0,
        check.1,
        measurement.memory_bytes.unwrap_or_default(),
        measurement.device_memory_bytes,
        measurement.counted_flops.map_or("-".to_owned(), |counted| format!("{counted} of {flops}")),
        all.as_secs_f64() * 1e3,
    );
    if row.mode == Mode::Graph {
        for algorithm in measurement.algorithms.iter().take(4) {
            println!("    {algorithm:?}");
        }
    }
}

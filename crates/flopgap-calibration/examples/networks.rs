//! Checks and times convolutions, poolings and residual networks on a GPU, in every precision,
//! launched and in a graph:
//! `cargo run --release -p flopgap-calibration --example networks [-- NAME]` runs those whose name
//! contains `NAME`.
//!
//! Each line is tab-separated; a workload that fails is printed with its reason, and the exit code
//! is 1 then.
#![expect(clippy::print_stdout, reason = "an example shows its result")]

use std::process::ExitCode;
use std::time::Duration;

use flopgap_calibration::engines::cuda::Cuda;
use flopgap_calibration::engines::{
    Engine, EngineError, Measure, MeasureError, Repetition, Unwatched, measure,
};
use flopgap_flops::{Activation, Precision};
use flopgap_graph::op::{Conv, Pool, PoolFunction};
use flopgap_graph::{Epilogue, Mode, Op, ResnetSpec, Step, Workload};

/// Of two spatial dimensions: batch, channels in and out, image, kernel, stride, padding.
fn conv(sizes: [u64; 7], groups: u64) -> Conv {
    let [batch, inputs, outputs, image, kernel, stride, padding] = sizes;
    Conv {
        batch,
        inputs,
        outputs,
        groups,
        image: vec![image; 2],
        kernel: vec![kernel; 2],
        stride: vec![stride; 2],
        dilation: vec![1; 2],
        padding: vec![[padding; 2]; 2],
        transposed: false,
        output_padding: vec![0; 2],
    }
}

fn pool(function: PoolFunction, planes: u64, sizes: [u64; 4], padding: u64) -> Pool {
    let [image, output, kernel, stride] = sizes;
    Pool {
        function,
        planes,
        image: vec![image; 2],
        output: vec![output; 2],
        kernel: vec![kernel; 2],
        stride: vec![stride; 2],
        padding: vec![[padding; 2]; 2],
    }
}

fn workloads() -> Vec<Workload> {
    let step = |op, epilogue| Workload::Step(Step { op, epilogue });
    let of = |bias, residual, activation| Epilogue { bias, residual, activation };
    let (none, relu) = (Epilogue::default(), of(true, false, Activation::Relu));
    let mut list = Vec::new();
    for sizes in [
        [32, 3, 64, 224, 7, 2, 3],
        [32, 64, 64, 56, 3, 1, 1],
        [32, 512, 2048, 7, 1, 1, 0],
        [1, 256, 256, 14, 3, 1, 1],
        [16, 31, 51, 28, 3, 1, 1],
        [1, 1, 1, 1, 1, 1, 0],
    ] {
        list.push(step(Op::Conv(conv(sizes, 1)), relu));
        list.push(step(Op::Conv(conv(sizes, 1)), none));
    }
    for activation in Activation::ALL {
        list.push(step(Op::Conv(conv([8, 64, 64, 28, 3, 1, 1], 1)), of(true, true, activation)));
    }
    for (sizes, groups) in [([32, 144, 144, 56, 3, 1, 1], 144), ([16, 128, 128, 28, 3, 1, 1], 32)] {
        list.push(step(Op::Conv(conv(sizes, groups)), relu));
    }
    let back = Conv { transposed: true, ..conv([8, 128, 64, 28, 2, 2, 0], 1) };
    list.push(step(Op::Conv(back), relu));
    list.push(step(Op::Pool(pool(PoolFunction::Max, 32 * 64, [112, 56, 3, 2], 1)), none));
    list.push(step(Op::Pool(pool(PoolFunction::Average, 32 * 2048, [7, 1, 7, 7], 0)), none));
    list.push(step(Op::Pool(pool(PoolFunction::Average, 35, [9, 4, 2, 2], 0)), none));
    for depth in [18, 34, 50, 101, 152] {
        for batch in [1, 8, 32] {
            list.push(Workload::Resnet(ResnetSpec { depth, batch, image: 224 }));
        }
    }
    list
}

fn main() -> ExitCode {
    let wanted = std::env::args().nth(1).unwrap_or_default();
    let cuda = match Cuda::new(0) {
        Ok(cuda) => cuda,
        Err(error) => {
            println!("{error}");
            return ExitCode::from(3);
        }
    };
    println!("{:?}", cuda.origin());
    println!(
        "workload\tprecision\tmode\tus\t±%\truns\tTFLOP/s\terror\tbound\tmemory\tdevice memory\talgorithms"
    );
    let repetition = Repetition { limit: Duration::from_millis(100), ..Repetition::default() };
    let what = Measure { repetition, energy: None, count: false };
    let mut failed = 0;
    for workload in workloads().iter().filter(|workload| workload.label().contains(&wanted)) {
        for precision in Precision::ALL {
            for &mode in cuda.modes() {
                failed += usize::from(!one(&cuda, workload, precision, mode, &what));
            }
        }
    }
    println!("{failed} failed");
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Measures and prints; whether it did not fail.
fn one(cuda: &Cuda, workload: &Workload, precision: Precision, mode: Mode, what: &Measure) -> bool {
    let label = workload.label();
    let row = match measure(cuda, workload, precision, mode, what, &mut Unwatched) {
        Ok(row) => row,
        Err(MeasureError::Engine(EngineError::Unsupported { reason, .. })) => {
            println!("{label}\t{precision}\t{mode:?}\tunsupported: {reason}");
            return true;
        }
        Err(error) => {
            println!("{label}\t{precision}\t{mode:?}\tFAILED: {error}");
            return false;
        }
    };
    let (measurement, time) = (&row.measurement, &row.measurement.time);
    let steps = workload.steps().unwrap_or_default();
    let flops: u64 = steps.iter().filter_map(|step| Some(step.work(precision).ok()?.flops)).sum();
    let (error, bound) =
        measurement.check.as_ref().map_or((f64::NAN, f64::NAN), |check| (check.error, check.bound));
    let algorithms: Vec<String> = measurement
        .algorithms
        .iter()
        .map(|one| {
            format!(
                "{} {:?} {:?} {:?} {:?}",
                one.id, one.tile, one.waves_thousandths, one.kernels, one.attributes
            )
        })
        .collect();
    println!(
        "{label}\t{precision}\t{mode:?}\t{:.2}\t{:.1}\t{}{}\t{:.2}\t{error:.1e}\t{bound:.1e}\t{}\t{:?}\t{}",
        time.median_ns / 1e3,
        (time.high_ns - time.low_ns) / 2.0 / time.median_ns * 100.0,
        time.runs,
        if time.capped { "*" } else { "" },
        flops as f64 / time.median_ns / 1e3,
        measurement.memory_bytes.unwrap_or_default(),
        measurement.device_memory_bytes,
        if mode == Mode::Graph { algorithms.join("; ") } else { String::new() },
    );
    true
}

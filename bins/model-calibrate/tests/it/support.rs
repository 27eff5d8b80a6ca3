//! Runs of the program, and calibrations whose times follow a formula.

use std::path::{Path, PathBuf};
use std::process::Command;

use flopgap_calibration::{Calibration, Energy, EnergySource, Header, Measurement, Origin, Row, Timing};
use flopgap_flops::{Activation, Precision};
use flopgap_graph::op::Gemm;
use flopgap_graph::{Epilogue, MlpSpec, Mode, Op, Step, Workload};
use flopgap_testing::Ended;

/// A sweep of another estimator, a quarter of it.
pub(crate) fn jetson() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/data/branes_jetson_mlp.csv")
}

/// Runs the program in a directory.
pub(crate) fn run(folder: &Path, arguments: &[&str]) -> Ended {
    Ended::of(
        Command::new(env!("CARGO_BIN_EXE_model-calibrate"))
            .args(arguments)
            .current_dir(folder)
            // Nothing of tests in the user's cache.
            .env("XDG_CACHE_HOME", folder.join(".cache")),
    )
}

/// So few rows, and each so shortly, that a test can wait for them.
pub(crate) const SHORT: [&str; 9] =
    ["--device", "cpu", "--quick", "--rows", "12", "--row-limit", "5ms", "--repeats", "2"];

/// A sweep into a run directory.
pub(crate) fn sweep(run: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_model-calibrate"));
    command.arg("sweep").args(arguments).arg("--output").arg(run);
    command
}

/// Sweeps to the end.
pub(crate) fn swept(run: &Path, arguments: &[&str]) -> Ended {
    Ended::of(&mut sweep(run, arguments))
}

/// The lines of a file, which need not be there.
pub(crate) fn lines(path: &Path) -> usize {
    std::fs::read_to_string(path).map_or(0, |text| text.lines().count())
}

/// Runs the program, which must do what is asked.
pub(crate) fn done(folder: &Path, arguments: &[&str]) -> Ended {
    let ended = run(folder, arguments);
    ended.expect(0, &[]);
    ended
}

/// Runs the program, which must fail with this code and say this, with nothing before it but
/// warnings.
pub(crate) fn fails(folder: &Path, arguments: &[&str], code: i32, message: &str) {
    let ended = run(folder, arguments);
    assert_eq!(ended.code, code, "{arguments:?}: {}{}", ended.stdout, ended.stderr);
    let errors: Vec<&str> = ended.stderr.lines().skip_while(|line| !line.contains(": error: ")).collect();
    assert_eq!(errors.join("\n"), format!("model-calibrate: error: {message}"), "{arguments:?}");
}

/// A GPU with half a microsecond for a launch in a graph, 400 TFLOP/s and 3 TB/s; times `slower`
/// than that.
pub(crate) fn calibration(slower: f64) -> Calibration {
    let mut rows = vec![row(step(Op::Empty), Precision::Fp16, slower)];
    let sizes = [16_u64, 128, 1024, 3072];
    for (index, m) in [1_u64, 7, 32, 100, 256, 1000, 4096].into_iter().enumerate() {
        for (other, n) in sizes.into_iter().enumerate() {
            for (third, k) in sizes.into_iter().enumerate() {
                let precision =
                    if (index + other + third) % 2 == 0 { Precision::Fp16 } else { Precision::Fp32 };
                rows.push(row(step(Op::Gemm(Gemm { batch: 1, m, n, k })), precision, slower));
            }
        }
    }
    for batch in [1, 8, 64] {
        let spec =
            MlpSpec { input: 784, hidden: vec![512, 512], output: 10, batch, activation: Activation::Relu };
        rows.push(row(Workload::Mlp(spec), Precision::Fp16, slower));
    }
    let origin = Origin { device: "NVIDIA H200".to_owned(), kind: "cuda".to_owned(), ..Origin::default() };
    let created = "2026-11-22T09:30:00Z".to_owned();
    Calibration { header: Header { created, ..Header::new(origin, None) }, rows, torn: false }
}

fn step(op: Op) -> Workload {
    Workload::Step(Step { op, epilogue: Epilogue::default() })
}

fn row(workload: Workload, precision: Precision, slower: f64) -> Row {
    let steps = workload.steps().expect("a network");
    let peak = if precision == Precision::Fp16 { 400e3 } else { 50e3 };
    let (mut median_ns, mut bytes, mut flops) = (0.0, 0, 0);
    for step in &steps {
        let work = step.work(precision).expect("countable work");
        let moved = work.bytes_read + work.bytes_written;
        median_ns += slower * (500.0 + (work.flops as f64 / peak).max(moved as f64 / 3e3));
        bytes += work.bytes_read;
        flops += work.flops;
    }
    let time = Timing {
        median_ns,
        low_ns: 0.99 * median_ns,
        high_ns: 1.01 * median_ns,
        minimum_ns: 0.98 * median_ns,
        runs: 50,
        capped: false,
        wall_ns: None,
    };
    let joules = 400e-9 * median_ns;
    let energy = Energy { joules, window_s: 2.0, watts: 400.0, source: EnergySource::Nvml };
    let measurement = Measurement {
        memory_bytes: Some(bytes + 1024),
        energy: Some(energy),
        counted_flops: Some(flops),
        ..Measurement::of_time(time)
    };
    Row { workload, engine: "cuda".to_owned(), mode: Mode::Graph, precision, threads: 0, measurement }
}

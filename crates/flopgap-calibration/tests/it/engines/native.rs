//! The engine that is always there.

use std::collections::BTreeMap;
use std::num::NonZero;
use std::time::Duration;

use flopgap_calibration::engines::cpu::CpuSettings;
use flopgap_calibration::engines::{Engine as _, EngineError, Native, Repetition};
use flopgap_flops::{Activation, Precision};
use flopgap_graph::op::Gemm;
use flopgap_graph::{Epilogue, MlpSpec, Mode, Op, ResnetSpec, Step, Workload};

fn native(threads: usize) -> Native {
    // Any unit does: what is tested is no time.
    let best = BTreeMap::from([("compute_ns".to_owned(), 1e5), ("memory_ns".to_owned(), 1e6)]);
    let threads = NonZero::new(threads).unwrap();
    Native::new(&CpuSettings { threads, seed: 7, references: Some(best) })
}

fn gemm(batch: u64, m: u64, n: u64, k: u64, epilogue: Epilogue) -> Workload {
    Workload::Step(Step { op: Op::Gemm(Gemm { batch, m, n, k }), epilogue })
}

fn mlp(input: u64, hidden: &[u64], output: u64, batch: u64, activation: Activation) -> Workload {
    Workload::Mlp(MlpSpec { input, hidden: hidden.to_vec(), output, batch, activation })
}

#[test]
fn outputs_are_those_of_64_bits() {
    let biased = |activation| Epilogue { bias: true, residual: false, activation };
    let mut workloads = vec![
        gemm(1, 1, 1, 1, Epilogue::default()),
        gemm(1, 33, 17, 129, biased(Activation::Relu)),
        gemm(3, 5, 10, 64, biased(Activation::GeluTanh)),
        gemm(1, 2, 512, 2048, Epilogue::default()),
        mlp(256, &[128], 64, 4, Activation::Relu),
        mlp(100, &[50, 30, 20], 10, 65, Activation::Silu),
        mlp(64, &[], 10, 3, Activation::Relu),
        Workload::Step(Step { op: Op::Empty, epilogue: Epilogue::default() }),
    ];
    workloads.extend(Activation::ALL.map(|activation| mlp(16, &[40, 24], 8, 100, activation)));
    for threads in [1, 3] {
        let native = native(threads);
        assert_eq!(native.threads() as usize, threads);
        for workload in &workloads {
            native.supports(workload, Precision::Fp32).unwrap();
            let check = native.open(workload, Precision::Fp32, Mode::Call).unwrap().check().unwrap();
            assert!(check.error <= check.bound && check.bound < 1e-4, "{workload:?}: {check:?}");
            assert_eq!(check.reference, "fp64");
        }
    }
}

#[test]
fn the_seed_decides_the_numbers() {
    let error = |seed| {
        let native = Native::new(&CpuSettings { seed, ..native(1).settings().clone() });
        let workload = mlp(64, &[96], 32, 40, Activation::Tanh);
        native.open(&workload, Precision::Fp32, Mode::Call).unwrap().check().unwrap().error
    };
    assert_eq!(error(1).to_bits(), error(1).to_bits());
    assert_ne!(error(1).to_bits(), error(2).to_bits());
}

#[test]
fn a_session_is_measured() {
    let native = native(2);
    let workload = mlp(64, &[128], 16, 32, Activation::Relu);
    let mut session = native.open(&workload, Precision::Fp32, Mode::Call).unwrap();
    let limit = Repetition { warmup: 1, interval: 1.0, least: 3, limit: Duration::from_secs(5) };
    let timing = session.time(&limit).unwrap();
    assert!(timing.median_ns > 0.0 && timing.runs >= 3 && !timing.capped, "{timing:?}");
    assert!(timing.wall_ns.unwrap() >= timing.minimum_ns, "{timing:?}");
    assert!(session.run_for(Duration::from_millis(1)).unwrap() > 0);
    // Weights twice, one of them with biases, and input and output at least.
    let parameters = 64 * 128 + 128 + 128 * 16 + 16;
    let least = 4 * (2 * parameters + 32 * (64 + 16));
    let memory = session.memory_bytes().unwrap();
    assert!((least..least + 4 * 2 * 2 * 32 * 128 + 1).contains(&memory), "{memory}, at least {least}");
    assert_eq!(session.counted_flops().unwrap(), None);
    assert!(session.algorithms().is_empty() && session.remarks().is_empty());
}

#[test]
fn references_are_handed_on() {
    let best = native(1).references();
    assert_eq!(best["compute_ns"].to_bits(), 1e5_f64.to_bits());
    assert_eq!(best["memory_ns"].to_bits(), 1e6_f64.to_bits());
}

#[test]
fn what_it_cannot_run_is_refused_with_the_reason() {
    let native = native(1);
    let reason = |workload: &Workload, precision| match native.supports(workload, precision).unwrap_err() {
        EngineError::Unsupported { engine: "native", reason, .. } => reason,
        other => panic!("{other}"),
    };
    let small = mlp(8, &[8], 8, 1, Activation::Relu);
    assert_eq!(reason(&small, Precision::Fp16), "it only supports fp32");
    let resnet = Workload::Resnet(ResnetSpec { depth: 18, batch: 1, image: 224 });
    assert!(reason(&resnet, Precision::Fp32).contains("engine `ort`"));
    assert_eq!(reason(&mlp(8, &[8], 8, 0, Activation::Relu), Precision::Fp32), "the batch is empty");
    let zero = reason(&mlp(8, &[0], 8, 1, Activation::Relu), Precision::Fp32);
    assert!(zero.contains("number 2 is 0"), "{zero}");
    let residual = Epilogue { residual: true, ..Epilogue::default() };
    assert!(reason(&gemm(1, 2, 2, 2, residual), Precision::Fp32).contains("residual"));
    let stream = native.open(&small, Precision::Fp32, Mode::Stream).err().unwrap().to_string();
    assert!(stream.ends_with("streams and graphs need a GPU"), "{stream}");
}

#[test]
fn what_does_not_fit_into_memory_is_refused_before_it_is_allocated() {
    let native = native(1);
    let large = gemm(1, 1, 1 << 20, 1 << 20, Epilogue::default());
    let error = native.open(&large, Precision::Fp32, Mode::Call).err().unwrap();
    let EngineError::Memory { needed, free, .. } = error else { panic!("{error}") };
    assert!(needed > free && needed > 8 << 40, "{needed}");
}

//! ONNX Runtime, where it is installed.

use std::collections::BTreeMap;
use std::num::NonZero;
use std::time::Duration;

use flopgap_calibration::engines::cpu::CpuSettings;
use flopgap_calibration::engines::{Engine as _, EngineError, ModelFile, Ort, Repetition};
use flopgap_flops::{Activation, Precision};
use flopgap_graph::op::{Conv, Gemm, Pool, PoolFunction};
use flopgap_graph::{Epilogue, FileSpec, MlpSpec, Mode, Op, ResnetSpec, Step, Workload, to_onnx};

fn ort(threads: usize) -> Option<Ort> {
    // Any unit does: what is tested is no time.
    let best = BTreeMap::from([("compute_ns".to_owned(), 1e5), ("memory_ns".to_owned(), 1e6)]);
    let threads = NonZero::new(threads).unwrap();
    match Ort::new(&CpuSettings { threads, seed: 7, references: Some(best) }) {
        Ok(ort) => Some(ort),
        Err(error @ EngineError::Missing { hint, .. }) => {
            assert!(hint.contains("pip install onnxruntime"));
            flopgap_testing::skip("onnxruntime", error);
            None
        }
        Err(error) => panic!("{error}"),
    }
}

fn mlp(batch: u64, activation: Activation) -> Workload {
    Workload::Mlp(MlpSpec { input: 100, hidden: vec![256, 64], output: 10, batch, activation })
}

fn conv(groups: u64, stride: u64) -> Workload {
    let conv = Conv { groups, ..Conv::new(3, [16, 32], &[14, 15], 3, stride) };
    let epilogue = Epilogue { bias: true, residual: stride == 1, activation: Activation::Relu };
    Workload::Step(Step { op: Op::Conv(conv), epilogue })
}

fn step(op: Op) -> Workload {
    Workload::Step(Step { op, epilogue: Epilogue::default() })
}

fn workloads() -> Vec<Workload> {
    let biased = Epilogue { bias: true, residual: false, activation: Activation::Gelu };
    let pool = |function| {
        step(Op::Pool(Pool {
            function,
            planes: 12,
            image: vec![15, 15],
            output: vec![8, 8],
            kernel: vec![3, 3],
            stride: vec![2, 2],
            padding: vec![[1, 1]; 2],
        }))
    };
    vec![
        mlp(1, Activation::Relu),
        mlp(33, Activation::Silu),
        Workload::Step(Step { op: Op::Gemm(Gemm { batch: 1, m: 17, n: 30, k: 400 }), epilogue: biased }),
        step(Op::Gemm(Gemm { batch: 3, m: 5, n: 6, k: 7 })),
        conv(1, 1),
        conv(4, 2),
        pool(PoolFunction::Max),
        pool(PoolFunction::Average),
        step(Op::Softmax { rows: 4, columns: 100 }),
        step(Op::Reduce { inputs: 1000, outputs: 10 }),
        step(Op::Empty),
        Workload::Resnet(ResnetSpec { depth: 18, batch: 2, image: 32 }),
    ]
}

#[test]
fn outputs_are_those_of_the_references() {
    let Some(ort) = ort(2) else { return };
    for workload in workloads() {
        for precision in [Precision::Fp32, Precision::Fp16, Precision::Int8] {
            let what = format!("{} {precision}", workload.label());
            ort.supports(&workload, precision).unwrap();
            let mut session = match ort.open(&workload, precision, Mode::Call) {
                Ok(session) => session,
                Err(error) => panic!("{what}: {error}"),
            };
            let check = session.check().unwrap();
            let reference = if precision == Precision::Fp32 { "fp64" } else { "fp32 of the same engine" };
            let known = !matches!(workload, Workload::Step(Step { op: Op::Reduce { .. }, .. }));
            assert!(!known || check.reference.starts_with(reference), "{what}: {check:?}");
            assert!(check.error <= check.bound, "{what}: {check:?}");
        }
    }
}

#[test]
fn a_session_is_measured() {
    let Some(ort) = ort(1) else { return };
    assert_eq!((ort.name(), ort.threads()), ("ort", 1));
    let version = &ort.origin().versions["onnxruntime"];
    assert!(version.starts_with("1."), "{version}");
    let mut session = ort.open(&mlp(16, Activation::Relu), Precision::Fp32, Mode::Call).unwrap();
    let limit = Repetition { warmup: 1, interval: 1.0, least: 3, limit: Duration::from_secs(20) };
    let timing = session.time(&limit).unwrap();
    assert!(timing.median_ns > 0.0 && timing.runs >= 3 && !timing.capped, "{timing:?}");
    assert!(session.run_for(Duration::from_millis(1)).unwrap() > 0);
    assert_eq!(session.counted_flops().unwrap(), None);
    // Parameters, and the output of every layer; allocations are rounded up.
    let least = 4 * (100 * 256 + 256 + 256 * 64 + 64 + 64 * 10 + 10 + 16 * (256 + 64 + 10));
    let memory = session.memory_bytes().unwrap();
    assert!((least..least + least / 5).contains(&memory), "{memory}, at least {least}");
    let kernels: Vec<String> = session.algorithms().into_iter().map(|algorithm| algorithm.id).collect();
    assert_eq!(kernels, ["FusedGemm", "FusedGemm", "Gemm"]);
    assert!(session.remarks().is_empty(), "{:?}", session.remarks());
}

#[test]
fn memory_is_what_a_model_asks_for() {
    let Some(ort) = ort(1) else { return };
    // The output takes 1.2 MB, for which the default arena would count 2 MiB.
    let mlp =
        MlpSpec { input: 64, hidden: Vec::new(), output: 1024, batch: 300, activation: Activation::Relu };
    let of = || ort.open(&Workload::Mlp(mlp.clone()), Precision::Fp32, Mode::Call).unwrap().memory_bytes();
    let memory = of().unwrap();
    let expected = 4 * (64 * 1024 + 1024 + 300 * 1024);
    assert!((expected..expected + expected / 50).contains(&memory), "{memory}, expected {expected}");
    // Each session is counted by itself.
    assert_eq!(of(), Some(memory));
}

#[test]
fn what_a_reader_must_know_is_remarked() {
    let Some(ort) = ort(2) else { return };
    let session = ort.open(&mlp(2, Activation::Relu), Precision::Fp16, Mode::Call).unwrap();
    let remarks = session.remarks();
    assert!(remarks.iter().any(|remark| remark.starts_with("fp16 is computed as fp32")), "{remarks:?}");
    assert!(remarks.iter().any(|remark| remark.starts_with("ran Cast x 2, ")), "{remarks:?}");
    assert!(session.algorithms().is_empty(), "more nodes than steps");
}

/// A workload of a file: what a sweep makes of a user's model.
fn file(workload: &Workload, name: &str) -> Workload {
    Workload::File(FileSpec {
        name: name.to_owned(),
        sha256: "ab".repeat(32),
        batch: 4,
        steps: workload.steps().unwrap(),
    })
}

#[test]
fn a_file_is_run_and_its_open_dimensions_are_asked_for() {
    let Some(engine) = ort(1) else { return };
    let (_folder, [path]) = flopgap_testing::paths(["model.onnx"]);
    let workload = mlp(4, Activation::Tanh);
    std::fs::write(&path, to_onnx(&workload.graph().unwrap(), Precision::Fp32, 3).unwrap()).unwrap();
    let file = file(&workload, "model");
    let unknown = engine.supports(&file, Precision::Fp32).unwrap_err().to_string();
    assert!(unknown.contains("the recorded contents of model"), "{unknown}");

    let model = ModelFile { path: path.clone(), shapes: BTreeMap::new() };
    let engine = engine.with_file("ab".repeat(32), model);
    let mut session = engine.open(&file, Precision::Fp32, Mode::Call).unwrap();
    let check = session.check().unwrap();
    assert_eq!(check.reference, "the same engine without graph optimizations");
    assert!(check.error <= check.bound, "{check:?}");
    drop(session);

    std::fs::write(&path, "no model").unwrap();
    let error = engine.open(&file, Precision::Fp32, Mode::Call).err().unwrap().to_string();
    assert!(error.starts_with("loading ") && error.contains("model.onnx"), "{error}");
}

#[test]
fn what_it_cannot_run_is_refused_with_the_reason() {
    let Some(ort) = ort(1) else { return };
    let small = mlp(1, Activation::Relu);
    let bf16 = ort.supports(&small, Precision::Bf16).unwrap_err().to_string();
    assert!(bf16.contains("it does not support bf16 on a CPU"), "{bf16}");
    let graph = ort.open(&small, Precision::Fp32, Mode::Graph).err().unwrap().to_string();
    assert!(graph.ends_with("streams and graphs need a GPU"), "{graph}");
    let none = ort.supports(&mlp(0, Activation::Relu), Precision::Fp32).unwrap_err().to_string();
    assert!(none.contains("at least 1"), "{none}");
    let large = step(Op::Gemm(Gemm { batch: 1, m: 1, n: 1 << 20, k: 1 << 20 }));
    let error = ort.open(&large, Precision::Fp32, Mode::Call).err().unwrap();
    assert!(matches!(error, EngineError::Memory { .. }), "{error}");
}

/// Of large networks one sample is compared, whose reference serves all batches.
#[test]
fn a_reference_serves_other_batches() {
    let Some(ort) = ort(1) else { return };
    for batch in [3, 1, 2] {
        let conv = Conv::new(batch, [80, 80], &[32, 32], 3, 1);
        let check = ort.open(&step(Op::Conv(conv)), Precision::Fp32, Mode::Call).unwrap().check().unwrap();
        assert!(check.error <= check.bound, "batch {batch}: {check:?}");
    }
}

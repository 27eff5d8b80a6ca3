//! PyTorch: the protocol with a worker that only pretends, the rest where PyTorch is installed.

use std::collections::BTreeMap;
use std::num::NonZero;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use flopgap_calibration::engines::cpu::CpuSettings;
use flopgap_calibration::engines::{
    Engine as _, EngineError, ModelFile, Repetition, Torch, TorchMode, TorchSettings,
};
use flopgap_flops::{Activation, Precision};
use flopgap_graph::op::{Conv, Gemm, Pool, PoolFunction};
use flopgap_graph::{Epilogue, FileSpec, MlpSpec, Mode, Op, ResnetSpec, Step, Workload};

fn settings(mode: TorchMode, python: Option<PathBuf>) -> TorchSettings {
    // Any unit does: what is tested is no time.
    let best = BTreeMap::from([("compute_ns".to_owned(), 1e5), ("memory_ns".to_owned(), 1e6)]);
    let cpu = CpuSettings { threads: NonZero::<usize>::MIN, seed: 7, references: Some(best) };
    TorchSettings { mode, gpu: None, cpu, python }
}

fn mlp(batch: u64) -> Workload {
    Workload::Mlp(MlpSpec {
        input: 40,
        hidden: vec![64, 32],
        output: 10,
        batch,
        activation: Activation::Gelu,
    })
}

fn step(op: Op) -> Workload {
    Workload::Step(Step { op, epilogue: Epilogue::default() })
}

const LIMIT: Repetition = Repetition { warmup: 1, interval: 10.0, least: 3, limit: Duration::from_secs(20) };

/// A program that is started as Python is, and answers as the worker does. `open` is what it does
/// when a network is opened.
fn fake(folder: &Path, hello: &str, open: &str) -> PathBuf {
    let path = folder.join("python3");
    let script = format!(
        r#"#!/bin/sh
while read -r line; do
    id=$(expr "$line" : '.*"id":\([0-9]*\)')
    case "$line" in
        *'"do":"hello"'*) {hello} ;;
        *'"do":"open"'*) {open} ;;
        *'"do":"run"'*)
            runs=$(expr "$line" : '.*"runs":\([0-9]*\)')
            echo "{{\"id\":$id,\"answer\":{{\"wall_ns\":${{runs}}000000,\"thread_ns\":${{runs}}000000}}}}" ;;
        *'"do":"check"'*) echo "{{\"id\":$id,\"answer\":{{\"reference\":\"fp64\",\"error\":null,\"bound\":0.5}}}}" ;;
        *'"do":"run_for"'*) echo "Fatal Python error: made up" >&2; kill -9 $$ ;;
        *) echo "{{\"id\":$id,\"answer\":{{}}}}" ;;
    esac
done
"#
    );
    std::fs::write(&path, script).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    path
}

const HELLO: &str = r#"echo "{\"id\":$id,\"answer\":{\"protocol\":1,\"python\":\"3.1\",\"torch\":\"0.0\",\"cuda\":null,\"cudnn\":null,\"device\":null}}""#;
const OPEN: &str = r#"echo "{\"id\":$id,\"answer\":{\"memory\":null,\"device_memory\":4096}}""#;

#[test]
fn a_session_asks_the_worker() {
    let folder = tempfile::tempdir().unwrap();
    let torch = Torch::new(&settings(TorchMode::Eager, Some(fake(folder.path(), HELLO, OPEN)))).unwrap();
    assert_eq!((torch.name(), torch.threads(), torch.modes()), ("torch-eager", 1, &[Mode::Call][..]));
    assert_eq!(torch.origin().versions["torch"], "0.0");
    let mut session = torch.open(&mlp(3), Precision::Fp32, Mode::Call).unwrap();
    let check = session.check().unwrap();
    assert!(check.error.is_nan() && check.reference == "fp64", "no number is no agreement: {check:?}");
    let timing = session.time(&LIMIT).unwrap();
    // A millisecond each, by the worker's clock.
    assert_eq!((timing.minimum_ns.to_bits(), timing.wall_ns), (1e6_f64.to_bits(), Some(1e6)));
    assert_eq!((session.memory_bytes(), session.device_memory_bytes()), (None, Some(4096)));

    // It dies, says why, and the next workload gets another.
    let error = session.run_for(Duration::ZERO).unwrap_err().to_string();
    assert!(
        error.contains("signal: 9") && error.ends_with("its last output: Fatal Python error: made up"),
        "{error}"
    );
    let gone = session.check().unwrap_err().to_string();
    assert!(gone.ends_with("the process that held the network has ended"), "{gone}");
    let mut next = torch.open(&mlp(3), Precision::Fp32, Mode::Call).unwrap();
    assert!(next.check().is_ok());
    assert!(session.check().is_err(), "it is not taken for a session of the new worker");
}

#[test]
fn refusals_of_the_worker_are_reported() {
    let folder = tempfile::tempdir().unwrap();
    let refuse = |kind: &str| {
        let line =
            format!(r#"echo "{{\"id\":$id,\"error\":{{\"kind\":\"{kind}\",\"message\":\"made up\"}}}}""#);
        let torch = Torch::new(&settings(TorchMode::Eager, Some(fake(folder.path(), HELLO, &line)))).unwrap();
        torch.open(&mlp(1), Precision::Fp32, Mode::Call).err().unwrap()
    };
    assert!(matches!(refuse("unsupported"), EngineError::Unsupported { reason, .. } if reason == "made up"));
    let memory = refuse("memory").to_string();
    assert_eq!(memory, "opening a network with PyTorch: not enough memory: made up");

    let answer = |hello: &str| {
        Torch::new(&settings(TorchMode::Eager, Some(fake(folder.path(), hello, OPEN)))).unwrap_err()
    };
    let missing =
        r#"echo "{\"id\":$id,\"error\":{\"kind\":\"missing\",\"message\":\"No module named torch\"}}""#;
    let EngineError::Missing { reason, hint, .. } = answer(missing) else { panic!("missing") };
    assert!(reason == "No module named torch" && hint.contains("pip install torch"), "{reason}");
    let old = HELLO.replace(r#"\"protocol\":1"#, r#"\"protocol\":9"#);
    assert!(answer(&old).to_string().ends_with("protocol 9, not 1"));
    let nonsense = answer("echo hello").to_string();
    assert!(nonsense.contains(r#"the worker answered "hello""#), "{nonsense}");
    let other = answer(&HELLO.replace("$id", "77")).to_string();
    assert!(other.contains("the answer to request 1, found 77"), "{other}");
    let ended = answer("echo oops >&2; exit 3").to_string();
    assert!(ended.contains("exit status: 3; its last output: oops"), "{ended}");
}

#[test]
fn what_is_not_there_or_not_run_is_refused() {
    let none = Torch::new(&settings(TorchMode::Eager, Some("/nowhere/python3".into()))).unwrap_err();
    let EngineError::Missing { what: "Python", reason, .. } = none else { panic!("{none}") };
    assert!(reason.starts_with("/nowhere/python3: "), "{reason}");

    let folder = tempfile::tempdir().unwrap();
    let python = fake(folder.path(), HELLO, OPEN);
    let torch = Torch::new(&settings(TorchMode::Graph, Some(python.clone()))).unwrap();
    assert!(torch.modes().is_empty());
    let graph = torch.open(&mlp(1), Precision::Fp32, Mode::Graph).err().unwrap().to_string();
    assert!(graph.ends_with("it does not support graph there"), "{graph}");
    let int8 = torch.supports(&mlp(1), Precision::Int8).unwrap_err().to_string();
    assert!(int8.contains("does not support int8"), "{int8}");
    let spec = FileSpec { name: "m".to_owned(), sha256: "00".to_owned(), batch: 1, steps: Vec::new() };
    let file = Workload::File(spec);
    assert!(
        torch.supports(&file, Precision::Fp32).unwrap_err().to_string().contains("the recorded contents of ")
    );
    let onnx = ModelFile { path: "m.onnx".into(), shapes: BTreeMap::new() };
    let torch = torch.with_file("00", onnx);
    let error = torch.supports(&file, Precision::Fp32).unwrap_err().to_string();
    assert!(error.contains("PyTorch does not run ONNX"), "{error}");
}

/// PyTorch where it is, else a skip.
fn torch(mode: TorchMode) -> Option<Torch> {
    match Torch::new(&settings(mode, None)) {
        Ok(torch) => Some(torch),
        Err(error @ EngineError::Missing { .. }) => {
            flopgap_testing::skip("torch", error);
            None
        }
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn outputs_are_those_of_64_bits() {
    let Some(torch) = torch(TorchMode::Eager) else { return };
    let conv = |padding: [u64; 2], groups, transposed| Conv {
        groups,
        padding: vec![padding; 2],
        transposed,
        ..Conv::new(2, [8, 16], &[9, 10], 3, 2)
    };
    let pool = |function| Pool {
        function,
        planes: 6,
        image: vec![15, 15],
        output: vec![8, 8],
        kernel: vec![3, 3],
        stride: vec![2, 2],
        padding: vec![[1, 1]; 2],
    };
    let residual = Epilogue { bias: true, residual: true, activation: Activation::Silu };
    let mut workloads = vec![
        mlp(5),
        Workload::Step(Step { op: Op::Gemm(Gemm { batch: 1, m: 7, n: 9, k: 30 }), epilogue: residual }),
        step(Op::Gemm(Gemm { batch: 3, m: 2, n: 4, k: 5 })),
        step(Op::Conv(conv([1, 1], 1, false))),
        step(Op::Conv(conv([0, 1], 2, false))),
        step(Op::Conv(conv([1, 1], 2, true))),
        step(Op::Pool(pool(PoolFunction::Max))),
        step(Op::Pool(pool(PoolFunction::Average))),
        step(Op::Softmax { rows: 3, columns: 50 }),
        step(Op::Reduce { inputs: 100, outputs: 10 }),
        step(Op::Copy { elements: 24 }),
        step(Op::Gather { rows: 5, width: 8 }),
        step(Op::Empty),
        Workload::Resnet(ResnetSpec { depth: 18, batch: 2, image: 32 }),
    ];
    workloads.extend(["layer", "rms", "group"].map(|function| {
        let json =
            format!(r#"{{"op":"norm","function":"{function}","rows":4,"columns":32,"parameters":32}}"#);
        step(serde_json::from_str(&json).unwrap())
    }));
    workloads.push(step(
        serde_json::from_str(
            r#"{"op":"norm","function":"batch_inference","rows":4,"columns":32,"parameters":16}"#,
        )
        .unwrap(),
    ));
    workloads.push(step(
        serde_json::from_str(
            r#"{"op":"attention","batch":2,"heads":4,"kv_heads":4,"queries":6,"keys":6,"head_width":8,"mask":"causal"}"#,
        )
        .unwrap(),
    ));
    for workload in workloads {
        for precision in [Precision::Fp32, Precision::Bf16] {
            let what = format!("{} {precision}", workload.label());
            let mut session = match torch.open(&workload, precision, Mode::Call) {
                Ok(session) => session,
                Err(error) => panic!("{what}: {error}"),
            };
            let check = session.check().unwrap();
            assert!(check.error <= check.bound, "{what}: {check:?}");
            assert_eq!(check.reference, "fp64", "{what}");
        }
    }
}

#[test]
fn networks_are_timed_and_compiled() {
    for mode in [TorchMode::Eager, TorchMode::Compile] {
        let Some(torch) = torch(mode) else { return };
        assert!(torch.origin().versions["torch"].starts_with(|c: char| c.is_ascii_digit()));
        let mut session = match torch.open(&mlp(8), Precision::Fp32, Mode::Call) {
            Ok(session) => session,
            // Without a compiler of C++ there is nothing to compile with.
            Err(error @ EngineError::Failed { .. }) if mode == TorchMode::Compile => {
                return flopgap_testing::skip("torch.compile", error);
            }
            Err(error) => panic!("{error}"),
        };
        let check = session.check().unwrap();
        assert!(check.error <= check.bound, "{check:?}");
        let timing = session.time(&LIMIT).unwrap();
        assert!(timing.median_ns > 0.0 && timing.runs >= 3, "{timing:?}");
        assert!(session.run_for(Duration::from_millis(5)).unwrap() > 0);
    }
}

#[test]
fn an_exported_model_is_run() {
    let Some(torch) = torch(TorchMode::Eager) else { return };
    let (_folder, [path]) = flopgap_testing::paths(["model.pt2"]);
    let source = format!(
        "import torch\nmodel = torch.nn.Sequential(torch.nn.Linear(12, 8), torch.nn.ReLU(), torch.nn.Linear(8, 4))\n\
         torch.export.save(torch.export.export(model.eval(), (torch.zeros(3, 12),)), {:?})\n",
        path.display().to_string()
    );
    let python = std::env::var_os("FLOPGAP_PYTHON").unwrap_or_else(|| "python3".into());
    assert!(Command::new(python).arg("-c").arg(source).status().unwrap().success());
    let spec = FileSpec { name: "model".to_owned(), sha256: "00".to_owned(), batch: 3, steps: Vec::new() };
    let file = Workload::File(spec);
    let torch = torch.with_file("00", ModelFile { path: path.clone(), shapes: BTreeMap::new() });
    let check = torch.open(&file, Precision::Fp32, Mode::Call).unwrap().check().unwrap();
    assert!(check.error <= check.bound && check.reference == "fp64", "{check:?}");
    std::fs::write(&path, "no model").unwrap();
    let error = torch.open(&file, Precision::Fp32, Mode::Call).err().unwrap();
    assert!(error.to_string().starts_with("opening a network with PyTorch: "), "{error}");
}

use flopgap_flops::Activation;
use rten_onnx::onnx::{DataType, ModelProto};

use super::*;
use crate::family::spec::{MlpSpec, ResnetSpec};
use crate::op::Op;
use crate::step::{Epilogue, Step};
use crate::workload::Workload;

fn mlp() -> Graph {
    let spec = MlpSpec { input: 20, hidden: vec![16], output: 4, batch: 3, activation: Activation::Relu };
    Workload::Mlp(spec).graph().unwrap()
}

fn read_back(graph: &Graph, precision: Precision) -> rten_onnx::onnx::GraphProto {
    let bytes = to_onnx(graph, precision, 7).unwrap();
    ModelProto::parse_buf(&bytes).unwrap().graph.unwrap()
}

fn operators(graph: &rten_onnx::onnx::GraphProto) -> Vec<&str> {
    graph.node.iter().map(|node| node.op_type.as_deref().unwrap()).collect()
}

#[test]
fn floats_are_written_node_by_node() {
    for (precision, data_type, width) in
        [(Precision::Fp32, DataType::FLOAT, 4), (Precision::Fp16, DataType::FLOAT16, 2)]
    {
        let graph = read_back(&mlp(), precision);
        assert_eq!(operators(&graph), ["Gemm", "Relu", "Gemm"]);
        let weights = &graph.initializer[0];
        assert_eq!((weights.name.as_deref(), weights.data_type), (Some("0.weight"), Some(data_type)));
        assert_eq!(weights.dims, [16, 20]);
        assert_eq!(weights.raw_data.as_ref().unwrap().borrow().len(), 16 * 20 * width);
        assert_eq!(graph.input[0].name.as_deref(), Some("input"));
    }
}

#[test]
fn integers_stand_between_conversions() {
    let graph = read_back(&mlp(), Precision::Int8);
    assert_eq!(
        operators(&graph),
        [
            "QuantizeLinear",
            "DequantizeLinear",
            "DequantizeLinear",
            "DequantizeLinear",
            "Gemm",
            "Relu",
            "QuantizeLinear",
            "DequantizeLinear",
            "DequantizeLinear",
            "DequantizeLinear",
            "Gemm",
            "QuantizeLinear",
            "DequantizeLinear",
        ]
    );
    let result = graph.output[0].name.clone();
    assert_eq!(graph.node.last().unwrap().output, [result.unwrap()], "the result is a float under its name");
}

#[test]
fn parameters_come_from_the_seed_alone() {
    let graph = mlp();
    assert_eq!(to_onnx(&graph, Precision::Fp32, 7).unwrap(), to_onnx(&graph, Precision::Fp32, 7).unwrap());
    assert_ne!(to_onnx(&graph, Precision::Fp32, 7).unwrap(), to_onnx(&graph, Precision::Fp32, 8).unwrap());
    let weights = graph.tensors.iter().position(|tensor| tensor.name == "0.weight").unwrap();
    let values = initial_values(&graph, weights, 7).unwrap();
    let written = read_back(&graph, Precision::Fp32);
    let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
    assert_eq!(*written.initializer[0].raw_data.as_ref().unwrap().borrow(), bytes);
    // Uniform between plus and minus the root of 2/20, with a variance of a third of that squared.
    let bound = (2.0_f32 / 20.0).sqrt();
    assert!(values.iter().all(|value| value.abs() <= bound));
    let variance = values.iter().map(|value| value * value).sum::<f32>() / values.len() as f32;
    assert!((variance / (bound * bound / 3.0) - 1.0).abs() < 0.15, "{variance}");
    assert!(initial_values(&graph, graph.inputs[0], 7).is_err());
}

#[test]
fn what_cannot_be_written_is_refused() {
    let error = to_onnx(&mlp(), Precision::Bf16, 1).unwrap_err().to_string();
    assert!(error.contains("no bf16 kernels"), "{error}");
    let empty = Workload::Step(Step { op: Op::Empty, epilogue: Epilogue::default() }).graph().unwrap();
    assert!(to_onnx(&empty, Precision::Fp32, 1).unwrap_err().to_string().ends_with("it computes nothing"));
}

#[test]
fn residual_networks_have_a_node_a_layer() {
    let graph = Workload::Resnet(ResnetSpec { depth: 18, batch: 1, image: 64 }).graph().unwrap();
    let written = read_back(&graph, Precision::Fp16);
    assert_eq!(written.node.len(), graph.layers.len());
    let names: std::collections::BTreeSet<_> =
        written.initializer.iter().map(|tensor| tensor.name.clone()).collect();
    assert_eq!(names.len(), written.initializer.len(), "no parameter is written twice");
}

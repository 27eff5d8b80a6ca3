//! What is written is read back as the same network.

use flopgap_flops::{Activation, ElementType, Precision};
use flopgap_graph::op::{Conv, Elementwise, ElementwiseFunction, Gemm, Pool, PoolFunction};
use flopgap_graph::{Epilogue, MlpSpec, Op, ResnetSpec, Step, Workload, plan, to_onnx};

use crate::support::read_bytes;

fn conv(transposed: bool) -> Op {
    Op::Conv(Conv {
        batch: 2,
        inputs: 8,
        outputs: 16,
        groups: 2,
        image: vec![9, 11],
        kernel: vec![3, 2],
        stride: vec![2, 1],
        dilation: vec![1, 2],
        padding: vec![[1, 0], [0, 1]],
        transposed,
        output_padding: if transposed { vec![1, 0] } else { Vec::new() },
    })
}

fn workloads() -> Vec<Workload> {
    let fused = Epilogue { bias: true, residual: true, activation: Activation::Relu };
    let gemm = Op::Gemm(Gemm { batch: 1, m: 3, n: 4, k: 5 });
    let function =
        |function, elements, read| Step::plain(Op::Elementwise(Elementwise { function, elements, read }));
    let pool = Op::Pool(Pool {
        function: PoolFunction::Max,
        planes: 6,
        image: vec![9, 9],
        output: vec![5, 5],
        kernel: vec![3, 3],
        stride: vec![2, 2],
        padding: vec![[1, 1], [1, 1]],
    });
    let steps = [
        Step { op: gemm.clone(), epilogue: fused },
        Step { op: gemm.clone(), epilogue: Epilogue { activation: Activation::Silu, ..Epilogue::default() } },
        Step { op: gemm, epilogue: Epilogue { activation: Activation::GeluTanh, ..Epilogue::default() } },
        Step::plain(Op::Gemm(Gemm { batch: 7, m: 3, n: 4, k: 5 })),
        Step { op: conv(false), epilogue: fused },
        Step::plain(conv(true)),
        Step::plain(pool),
        Step::plain(Op::Softmax { rows: 3, columns: 7 }),
        Step::plain(Op::Gather { rows: 3, width: 5 }),
        Step::plain(Op::Reduce { inputs: 24, outputs: 4 }),
        Step::plain(Op::Copy { elements: 24 }),
        function(ElementwiseFunction::Add, 24, 48),
        function(ElementwiseFunction::Mul, 24, 30),
        function(ElementwiseFunction::Activation(Activation::Tanh), 24, 24),
    ];
    let mlp = MlpSpec { input: 20, hidden: vec![16, 8], output: 4, batch: 3, activation: Activation::Relu };
    let resnets = [18, 50].map(|depth| Workload::Resnet(ResnetSpec { depth, batch: 2, image: 64 }));
    steps.map(Workload::Step).into_iter().chain([Workload::Mlp(mlp)]).chain(resnets).collect()
}

/// One by one, so that a difference is reported in one line.
fn same(found: &[Step], workload: &Workload) {
    let steps = workload.steps().unwrap();
    for (found, step) in found.iter().zip(&steps) {
        assert_eq!(found, step, "{}", workload.label());
    }
    assert_eq!(found.len(), steps.len(), "{}", workload.label());
}

#[test]
fn models_come_back_step_by_step() {
    for workload in workloads() {
        let graph = workload.graph().unwrap();
        for precision in [Precision::Fp32, Precision::Fp16] {
            let bytes = to_onnx(&graph, precision, 3).unwrap();
            let read = read_bytes("model.onnx", &bytes, &[]).unwrap();
            let found: Vec<Step> = plan(&read).unwrap().into_iter().map(|planned| planned.step).collect();
            same(&found, &workload);
            assert_eq!(read.multiply_adds().unwrap(), graph.multiply_adds().unwrap());
            let element = precision.element();
            assert!(
                read.inputs
                    .iter()
                    .all(|&input| read.tensors[input].element.is_none_or(|found| found == element))
            );
        }
    }
}

/// Conversions to 8 bits and back are steps at the ends of the model alone.
#[test]
fn quantized_models_have_the_steps_of_the_network() {
    let mlp = MlpSpec { input: 20, hidden: vec![16, 8], output: 4, batch: 3, activation: Activation::Relu };
    for workload in [Workload::Mlp(mlp), Workload::Resnet(ResnetSpec { depth: 18, batch: 1, image: 64 })] {
        let graph = workload.graph().unwrap();
        let bytes = to_onnx(&graph, Precision::Int8, 3).unwrap();
        let read = read_bytes("model.onnx", &bytes, &[]).unwrap();
        let found: Vec<Step> = plan(&read).unwrap().into_iter().map(|planned| planned.step).collect();
        let conversion = |step: &Step| matches!(&step.op, Op::Elementwise(op) if op.function == ElementwiseFunction::Quantize);
        assert!(conversion(&found[0]) && conversion(found.last().unwrap()));
        same(&found[1..found.len() - 1], &workload);
        assert_eq!(read.multiply_adds().unwrap(), graph.multiply_adds().unwrap());
        // Weights are bytes.
        let parameters = read.parameters().unwrap();
        assert!(read.parameter_bytes().unwrap() < 2 * parameters, "{parameters}");
    }
}

/// The type of the products, in 8 bits behind `QuantizeLinear` and `DequantizeLinear`; of what
/// multiplies nothing, that of its floats.
#[test]
fn the_arithmetic_is_that_of_the_products() {
    for workload in workloads() {
        let graph = workload.graph().unwrap();
        for precision in [Precision::Fp32, Precision::Fp16, Precision::Bf16, Precision::Int8] {
            let Ok(bytes) = to_onnx(&graph, precision, 1) else { continue };
            let read = read_bytes("model.onnx", &bytes, &[]).unwrap();
            let multiplies = read.multiply_adds().unwrap() > 0;
            let floats = if precision == Precision::Int8 { ElementType::Fp32 } else { precision.element() };
            let expected = if multiplies { precision.element() } else { floats };
            assert_eq!(read.arithmetic().unwrap(), Some(expected), "{} {precision}", workload.label());
            if precision == Precision::Int8 {
                continue;
            }
            // Asked for in another type, all floats are of it.
            let other = read.with_floats(ElementType::Bf16).unwrap();
            assert_eq!(other.arithmetic().unwrap(), Some(ElementType::Bf16), "{}", workload.label());
        }
    }
}

#![expect(clippy::many_single_char_names, reason = "tensors are called what formulas call them")]

use flopgap_flops::{Activation, ElementType, Precision};

use super::*;
use crate::build::Builder;
use crate::family::spec::{MlpSpec, ResnetSpec};
use crate::op::{Conv, Gemm, Norm, NormFunction};
use crate::workload::Workload;

fn elementwise(function: ElementwiseFunction, elements: u64, read: u64) -> Op {
    Op::Elementwise(Elementwise { function, elements, read })
}

fn labels(graph: &Graph) -> Vec<String> {
    plan(graph).unwrap().iter().map(|planned| planned.step.label()).collect()
}

#[test]
fn a_network_of_layers_is_one_step_a_layer() {
    let spec = MlpSpec { input: 100, hidden: vec![64], output: 10, batch: 8, activation: Activation::Relu };
    let graph = Workload::Mlp(spec).graph().unwrap();
    assert_eq!(labels(&graph), ["gemm 8x64x100 +bias +relu", "gemm 8x10x64 +bias"]);
    let steps = plan(&graph).unwrap();
    assert_eq!(steps[0].layers, [0, 1]);
    assert_eq!(steps[1].input, steps[0].output, "the second reads what the first writes");
    assert_eq!(graph.tensors[steps[1].weights.unwrap()].name, "2.weight");
    assert_eq!(graph.tensors[steps[1].bias.unwrap()].name, "2.bias");
    assert_eq!(graph.outputs, [steps[1].output]);
}

#[test]
fn residual_networks_fuse_sums_and_nothing_is_left_over() {
    for (depth, count) in [(18, 23), (34, 39), (50, 56), (101, 107), (152, 158)] {
        let graph = Workload::Resnet(ResnetSpec { depth, batch: 2, image: 224 }).graph().unwrap();
        let steps = plan(&graph).unwrap();
        assert_eq!(steps.len(), count, "{depth}");
        let residuals = steps.iter().filter(|planned| planned.step.epilogue.residual).count();
        assert_eq!(residuals, graph.layers.iter().filter(|layer| layer.operator == "Add").count());
        // Every operand was written before: an executor needs no other order.
        let mut written = graph.inputs.clone();
        for planned in &steps {
            for operand in [Some(planned.input), planned.residual].into_iter().flatten() {
                assert!(written.contains(&operand), "{}", planned.step.label());
            }
            written.push(planned.output);
        }
        // The FLOPs of the layers, all of them.
        let sum: u64 = steps.iter().map(|planned| planned.step.work(Precision::Fp32).unwrap().flops).sum();
        assert_eq!(sum, graph.work().unwrap().flops);
    }
}

#[test]
fn steps_come_back_from_graphs_of_their_own() {
    let conv = Conv { groups: 2, ..Conv::new(2, [8, 16], &[9, 9], 3, 2) };
    let transposed =
        Conv { transposed: true, output_padding: vec![1, 1], stride: vec![2, 2], ..conv.clone() };
    let all = Epilogue { bias: true, residual: true, activation: Activation::Gelu };
    let gemm = Op::Gemm(Gemm { batch: 1, m: 3, n: 4, k: 5 });
    let norm = |function, parameters| Op::Norm(Norm { function, rows: 6, columns: 8, parameters });
    for step in [
        Step { op: gemm.clone(), epilogue: all },
        Step::plain(gemm),
        Step::plain(Op::Gemm(Gemm { batch: 7, m: 3, n: 4, k: 5 })),
        Step { op: Op::Conv(conv), epilogue: all },
        Step::plain(Op::Conv(transposed)),
        Step::plain(elementwise(ElementwiseFunction::Add, 24, 48)),
        Step::plain(elementwise(ElementwiseFunction::Mul, 24, 30)),
        Step::plain(elementwise(ElementwiseFunction::Activation(Activation::Silu), 24, 24)),
        Step::plain(Op::Softmax { rows: 3, columns: 7 }),
        Step::plain(norm(NormFunction::Layer, 16)),
        Step::plain(norm(NormFunction::BatchInference, 24)),
        Step::plain(norm(NormFunction::Rms, 8)),
        Step::plain(Op::Gather { rows: 3, width: 5 }),
        Step::plain(Op::Reduce { inputs: 24, outputs: 4 }),
        Step::plain(Op::Copy { elements: 24 }),
    ] {
        let graph = Workload::Step(step.clone()).graph().unwrap();
        let planned = plan(&graph).unwrap();
        assert_eq!(planned.len(), 1, "{}", step.label());
        assert_eq!(planned[0].step, step);
        let flops = step.work(Precision::Fp32).unwrap().flops;
        assert_eq!(graph.work().unwrap().flops, flops, "{}", step.label());
    }
    let empty = Workload::Step(Step::plain(Op::Empty));
    assert_eq!(plan(&empty.graph().unwrap()).unwrap(), []);
    assert_eq!(empty.steps().unwrap().len(), 1);
}

/// `conv -> batch norm -> relu`, as training frameworks export it.
#[test]
fn batch_norms_are_folded_into_convolutions() {
    let mut b = Builder::new("bn", ElementType::Fp32);
    let x = b.input("x", &[1, 4, 5, 5]);
    let w = b.parameter("w".to_owned(), &[6, 4, 1, 1]);
    let conv = Conv::new(1, [4, 6], &[5, 5], 1, 1);
    let shape = [1, 6, 5, 5];
    let y = b.layer("conv", "Conv", Op::Conv(conv), vec![x, w], &shape).unwrap();
    let vectors: Vec<usize> = (0..4).map(|index| b.parameter(format!("bn.{index}"), &[6])).collect();
    let norm = Norm { function: NormFunction::BatchInference, rows: 6, columns: 25, parameters: 24 };
    let inputs = [vec![y], vectors.clone()].concat();
    let z = b.layer("bn", "BatchNormalization", Op::Norm(norm), inputs, &shape).unwrap();
    let relu = elementwise(ElementwiseFunction::Activation(Activation::Relu), 150, 150);
    let r = b.layer("relu", "Relu", relu, vec![z], &shape).unwrap();
    let graph = b.finish(r);
    assert_eq!(labels(&graph), ["conv 1x4x5x5 6 of 1x1 +bias +relu"]);
    assert_eq!(plan(&graph).unwrap()[0].bias, Some(vectors[1]), "the shift");
}

/// A tensor that something else reads, too, must be written before its activation.
#[test]
fn what_is_read_twice_is_not_fused_away() {
    let mut b = Builder::new("twice", ElementType::Fp32);
    let x = b.input("x", &[2, 3]);
    let w = b.parameter("w".to_owned(), &[4, 3]);
    let y =
        b.layer("fc", "Gemm", Op::Gemm(Gemm { batch: 1, m: 2, n: 4, k: 3 }), vec![x, w], &[2, 4]).unwrap();
    let relu = elementwise(ElementwiseFunction::Activation(Activation::Relu), 8, 8);
    let r = b.layer("relu", "Relu", relu, vec![y], &[2, 4]).unwrap();
    let sum =
        b.layer("add", "Add", elementwise(ElementwiseFunction::Add, 8, 16), vec![y, r], &[2, 4]).unwrap();
    let graph = b.finish(sum);
    assert_eq!(labels(&graph), ["gemm 2x4x3", "relu 8", "add 8"]);
}

/// `x sigmoid(x)` and both GELUs as exporters spell them out, behind a product with a bias of its
/// own.
#[test]
fn spelled_out_activations_are_one() {
    use ElementwiseFunction::{Add, Div, Mul, Transcendental};
    let spell = |last_half: bool, kind: Activation| {
        let mut b = Builder::new("spelled", ElementType::Fp32);
        let x = b.input("x", &[2, 3]);
        let w = b.parameter("w".to_owned(), &[4, 3]);
        let bias = b.parameter("b".to_owned(), &[4]);
        let c = b.parameter("c".to_owned(), &[]);
        let shape = [2, 4];
        let y = b
            .layer("fc", "MatMul", Op::Gemm(Gemm { batch: 1, m: 2, n: 4, k: 3 }), vec![x, w], &shape)
            .unwrap();
        let y = b.layer("bias", "Add", elementwise(Add, 8, 12), vec![bias, y], &shape).unwrap();
        let mut one = |name: &str, operator: &str, function, inputs: Vec<usize>| {
            b.layer(name, operator, elementwise(function, 8, 8), inputs, &shape).unwrap()
        };
        let activation = ElementwiseFunction::Activation;
        let end = match kind {
            Activation::Silu => {
                let s = one("s", "Sigmoid", activation(Activation::Sigmoid), vec![y]);
                one("m", "Mul", Mul, vec![y, s])
            }
            kind => {
                let inner = if kind == Activation::Gelu {
                    let d = one("d", "Div", Div, vec![y, c]);
                    one("erf", "Erf", Transcendental, vec![d])
                } else {
                    let cube = one("p", "Pow", Transcendental, vec![y, c]);
                    let small = one("k", "Mul", Mul, vec![cube, c]);
                    let sum = one("a", "Add", Add, vec![y, small]);
                    let scaled = one("n", "Mul", Mul, vec![sum, c]);
                    one("t", "Tanh", activation(Activation::Tanh), vec![scaled])
                };
                let plus = one("one", "Add", Add, vec![inner, c]);
                if last_half {
                    let whole = one("m", "Mul", Mul, vec![y, plus]);
                    one("h", "Mul", Mul, vec![whole, c])
                } else {
                    let half = one("h", "Mul", Mul, vec![y, c]);
                    one("m", "Mul", Mul, vec![half, plus])
                }
            }
        };
        b.finish(end)
    };
    for (kind, halves) in [
        (Activation::Silu, [false, false]),
        (Activation::Gelu, [false, true]),
        (Activation::GeluTanh, [false, true]),
    ] {
        for last_half in halves {
            let graph = spell(last_half, kind);
            assert_eq!(labels(&graph), [format!("gemm 2x4x3 +bias +{kind}")]);
            assert_eq!(plan(&graph).unwrap()[0].output, graph.outputs[0]);
        }
    }
}

/// Layer norm before operator set 17 and RMS norm before 23, whose input a residual sum reads, too.
#[test]
fn spelled_out_norms_are_one() {
    use ElementwiseFunction::{Add, Div, Mul, Simple};
    for (layer, label) in [(true, "norm layer 6x8"), (false, "norm rms 6x8")] {
        let mut b = Builder::new("norm", ElementType::Fp32);
        let x = b.input("x", &[2, 3, 8]);
        let [c, gain, shift] = [("c", &[][..]), ("gain", &[8]), ("shift", &[8])]
            .map(|(name, shape)| b.parameter(name.to_owned(), shape));
        let mean = |b: &mut Builder, name: &str, of: usize| {
            b.layer(name, "ReduceMean", Op::Reduce { inputs: 48, outputs: 6 }, vec![of], &[2, 3, 1]).unwrap()
        };
        let one = |b: &mut Builder, name: &str, operator: &str, function, inputs: Vec<usize>, wide: bool| {
            let (shape, elements) = if wide { ([2, 3, 8], 48) } else { ([2, 3, 1], 6) };
            b.layer(name, operator, elementwise(function, elements, elements), inputs, &shape).unwrap()
        };
        let centered = if layer {
            let m = mean(&mut b, "mean", x);
            one(&mut b, "sub", "Sub", Add, vec![x, m], true)
        } else {
            x
        };
        let square = one(&mut b, "square", "Pow", Mul, vec![centered], true);
        let variance = mean(&mut b, "variance", square);
        let safe = one(&mut b, "safe", "Add", Add, vec![variance, c], false);
        let root = one(&mut b, "root", "Sqrt", Simple, vec![safe], false);
        let normal = one(&mut b, "div", "Div", Div, vec![centered, root], true);
        let scaled = one(&mut b, "gain", "Mul", Mul, vec![normal, gain], true);
        let shifted =
            if layer { one(&mut b, "shift", "Add", Add, vec![scaled, shift], true) } else { scaled };
        let sum = one(&mut b, "residual", "Add", Add, vec![shifted, x], true);
        let graph = b.finish(sum);
        assert_eq!(labels(&graph), [label, "add 48"]);
        let steps = plan(&graph).unwrap();
        let Op::Norm(norm) = &steps[0].step.op else { panic!() };
        assert_eq!(norm.parameters, if layer { 16 } else { 8 });
        assert_eq!((steps[0].input, steps[0].output), (x, steps[1].input));
    }
}

/// The third operand of `torch.addmm` may be as large as the result.
#[test]
fn a_third_operand_of_the_size_of_the_result_is_a_sum() {
    for (shape, label) in
        [(vec![2, 4], "gemm 2x4x3 +residual"), (vec![4], "gemm 2x4x3 +bias"), (vec![1], "gemm 2x4x3 +bias")]
    {
        let mut b = Builder::new("addmm", ElementType::Fp32);
        let x = b.input("x", &[2, 3]);
        let w = b.parameter("w".to_owned(), &[4, 3]);
        let c = b.input("c", &shape);
        let y = b
            .layer("mm", "addmm", Op::Gemm(Gemm { batch: 1, m: 2, n: 4, k: 3 }), vec![x, w, c], &[2, 4])
            .unwrap();
        assert_eq!(labels(&b.finish(y)), [label]);
    }
}

#[test]
fn tensors_that_are_not_there_are_an_error() {
    let mut graph = Workload::Step(Step::plain(Op::Copy { elements: 4 })).graph().unwrap();
    graph.layers[0].inputs = vec![17];
    assert!(plan(&graph).unwrap_err().to_string().contains("layer `copy` names tensor 17, of 2"));
}

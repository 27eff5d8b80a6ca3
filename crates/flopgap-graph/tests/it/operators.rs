//! ONNX operators one by one: shapes that are inferred, and what is counted.

use flopgap_graph::{Graph, GraphError, Op};
use rten_onnx::onnx::{AttributeProto, DataType, GraphProto, NodeProto, TensorProto, ValueInfoProto};

use crate::support::{
    integer, integers, list, model, node, products, read_bytes, read_nodes, text, typed, value, weights,
};

/// A graph of one node with inputs `x`, `y` … of these shapes, its first result's shape, and its
/// FLOPs.
fn one(
    inputs: &[&str],
    constants: Vec<TensorProto>,
    call: &str,
    attributes: Vec<rten_onnx::onnx::AttributeProto>,
) -> (Vec<u64>, Option<u64>) {
    let names = ["x", "y", "z"];
    let inputs = inputs.iter().zip(names).map(|(dims, name)| value(name, dims)).collect();
    let graph = read_nodes(inputs, constants, vec![node(call, attributes)], &["r"], &[])
        .unwrap_or_else(|error| panic!("{call}: {error}"));
    let layer = graph.layers.last().unwrap();
    (graph.tensors[layer.outputs[0]].shape.clone(), layer.work.map(|work| work.flops))
}

#[test]
fn shapes_and_counts_of_single_operators() {
    let none = Vec::new;
    for (inputs, call, attributes, shape, flops) in [
        (vec!["2 x 3", "3 x 4"], "MatMul x y -> r", none(), vec![2, 4], 2 * 24),
        (vec!["5 x 2 x 3", "3 x 4"], "MatMul x y -> r", none(), vec![5, 2, 4], 2 * 120),
        (
            vec!["3 x 2", "4 x 3", "4"],
            "Gemm x y z -> r",
            vec![integer("transA", 1), integer("transB", 1)],
            vec![2, 4],
            2 * 24 + 8,
        ),
        (vec!["2 x 3", "3 x 4"], "Einsum x y -> r", vec![text("equation", "ij,jk->ik")], vec![2, 4], 48),
        (
            vec!["2 x 3 x 8 x 8", "6 x 3 x 3 x 3"],
            "Conv x y -> r",
            vec![list("pads", &[1, 1, 1, 1]), list("strides", &[2, 2])],
            vec![2, 6, 4, 4],
            2 * 2 * 6 * 16 * 27,
        ),
        (
            vec!["2 x 3 x 7 x 7", "6 x 3 x 3 x 3"],
            "Conv x y -> r",
            vec![text("auto_pad", "SAME_UPPER"), list("strides", &[2, 2])],
            vec![2, 6, 4, 4],
            2 * 2 * 6 * 16 * 27,
        ),
        (
            vec!["1 x 4 x 9", "4 x 1 x 3"],
            "Conv x y -> r",
            vec![integer("group", 4)],
            vec![1, 4, 7],
            2 * 4 * 7 * 3,
        ),
        (
            vec!["1 x 4 x 5 x 5", "4 x 2 x 2 x 2"],
            "ConvTranspose x y -> r",
            vec![list("strides", &[2, 2])],
            vec![1, 2, 10, 10],
            2 * 4 * 25 * 2 * 4,
        ),
        (
            vec!["1 x 2 x 9 x 9"],
            "MaxPool x -> r",
            vec![list("kernel_shape", &[3, 3]), list("strides", &[2, 2])],
            vec![1, 2, 4, 4],
            2 * 16 * 9,
        ),
        (
            vec!["1 x 2 x 8 x 8"],
            "AveragePool x -> r",
            vec![list("kernel_shape", &[3, 3]), list("strides", &[2, 2]), integer("ceil_mode", 1)],
            vec![1, 2, 4, 4],
            2 * 16 * 9,
        ),
        (vec!["1 x 2 x 8 x 8"], "GlobalAveragePool x -> r", none(), vec![1, 2, 1, 1], 128),
        (vec!["2 x 3 x 4"], "Softmax x -> r", vec![integer("axis", 1)], vec![2, 3, 4], 5 * 24),
        (vec!["2 x 3 x 4", "4", "4"], "LayerNormalization x y z -> r", none(), vec![2, 3, 4], 7 * 24),
        (vec!["2 x 3 x 4", "4"], "RMSNormalization x y -> r", none(), vec![2, 3, 4], 4 * 24),
        (
            vec!["2 x 6 x 4", "6", "6"],
            "GroupNormalization x y z -> r",
            vec![integer("num_groups", 2)],
            vec![2, 6, 4],
            7 * 48,
        ),
        (vec!["2 x 6 x 4", "6", "6"], "InstanceNormalization x y z -> r", none(), vec![2, 6, 4], 7 * 48),
        (vec!["2 x 3", "3"], "Add x y -> r", none(), vec![2, 3], 6),
        (vec!["2 x 1", "1 x 3"], "Mul x y -> r", none(), vec![2, 3], 6),
        (vec!["4", "4", "4"], "Sum x y z -> r", none(), vec![4], 8),
        (vec!["4"], "HardSwish x -> r", none(), vec![4], 20),
        (vec!["4"], "Gelu x -> r", vec![text("approximate", "tanh")], vec![4], 13 * 4),
        (vec!["4"], "Clip x -> r", none(), vec![4], 4),
        (vec!["2 x 3 x 4"], "ReduceMean x -> r", vec![integer("keepdims", 0)], vec![], 24),
        (vec!["2 x 3 x 4"], "ReduceL2 x -> r", none(), vec![1, 1, 1], 48),
        (vec!["2 x 3 x 4"], "ArgMax x -> r", vec![integer("axis", -1)], vec![2, 3, 1], 24),
        (vec!["2 x 3 x 4"], "Transpose x -> r", vec![list("perm", &[2, 0, 1])], vec![4, 2, 3], 0),
        (vec!["2 x 3 x 4"], "Flatten x -> r", vec![integer("axis", 2)], vec![6, 4], 0),
        (vec!["2 x 3", "2 x 5"], "Concat x y -> r", vec![integer("axis", 1)], vec![2, 8], 0),
        (vec!["1 x 8 x 2 x 2"], "DepthToSpace x -> r", vec![integer("blocksize", 2)], vec![1, 2, 4, 4], 0),
        (
            vec!["5 x 2 x 3", "1 x 16 x 3", "1 x 16 x 4"],
            "LSTM x y z -> r",
            vec![integer("hidden_size", 4)],
            vec![5, 1, 2, 4],
            10 * (2 * 16 * 7 + 30 * 4),
        ),
    ] {
        let flops: u64 = flops;
        assert_eq!(one(&inputs, Vec::new(), call, attributes), (shape, Some(flops)), "{call} of {inputs:?}");
    }
}

/// Versions of the operator differ in whether a window may begin in the padding; what the file says
/// goes.
#[test]
fn rounding_at_the_edge_is_the_files() {
    let attributes = || {
        vec![
            list("kernel_shape", &[2]),
            list("strides", &[2]),
            list("pads", &[0, 1]),
            integer("ceil_mode", 1),
        ]
    };
    let pool = |size: &str| {
        let graph = GraphProto {
            node: vec![node("MaxPool x -> r", attributes())],
            input: vec![value("x", "1 x 4 x 5")],
            output: vec![value("r", &format!("1 x 4 x {size}"))],
            ..GraphProto::default()
        };
        let graph = read_bytes("model.onnx", &model(graph).write_buf().unwrap(), &[]).unwrap();
        graph.layers[0].work.map(|work| work.flops)
    };
    assert_eq!((pool("3"), pool("4")), (Some(24), Some(32)));
    // That is more than rounding: a shape of other inputs.
    assert_eq!(pool("9"), Some(24));
}

#[test]
fn attention_goes_on_from_the_keys_that_are_kept() {
    let inputs = vec![
        value("q", "2 x 3 x 4 x 8"),
        value("k", "2 x 3 x 6 x 8"),
        value("v", "2 x 3 x 6 x 8"),
        value("pk", "2 x 3 x 12 x 8"),
        value("pv", "2 x 3 x 12 x 8"),
    ];
    let of = |call: &str, attributes| {
        let graph = read_nodes(inputs.clone(), vec![], vec![node(call, attributes)], &["y"], &[]).unwrap();
        graph.multiply_adds().unwrap()
    };
    assert_eq!(of("Attention q k v _ pk pv -> y", vec![]), 2 * 2 * 3 * 4 * 18 * 8);
    // The first query sees what is kept and one key more; without what is kept, one key.
    let causal = || vec![integer("is_causal", 1)];
    assert_eq!(of("Attention q k v _ pk pv -> y", causal()), 2 * 2 * 3 * (13 + 14 + 15 + 16) * 8);
    assert_eq!(of("Attention q k v -> y", causal()), 2 * 2 * 3 * (1 + 2 + 3 + 4) * 8);
}

/// What ONNX Runtime fuses, and saves when it is asked to.
#[test]
fn fused_operators_count_all_that_they_do() {
    let (image, kernel) = (value("x", "1 x 3 x 8 x 8"), weights("w", &[4, 3, 3, 3]));
    for (call, inputs, constants, attributes, flops) in [
        (
            "FusedConv x w b r -> y",
            vec![image, value("r", "1 x 4 x 6 x 6")],
            vec![kernel, weights("b", &[4])],
            vec![text("activation", "Relu")],
            4 * 36 * (2 * 27 + 1 + 1 + 1),
        ),
        (
            "SkipLayerNormalization x s g c b -> y",
            vec![value("x", "2 x 3 x 8"), value("s", "2 x 3 x 8")],
            vec![weights("g", &[8]), weights("c", &[8]), weights("b", &[8])],
            vec![],
            48 * (7 + 2),
        ),
        ("BiasGelu x b -> y", vec![value("x", "3 x 8")], vec![weights("b", &[8])], vec![], 24 * 6),
    ] {
        let mut fused = node(call, attributes);
        fused.domain = Some("com.microsoft".to_owned());
        let graph = read_nodes(inputs, constants, vec![fused], &["y"], &[]).unwrap();
        assert_eq!(graph.work().unwrap().flops, flops, "{call}");
    }
}

#[test]
fn operands_that_say_where_are_read() {
    for (dims, constants, call, attributes, shape) in [
        ("2 x 3 x 4", vec![integers("c", &[0, -1])], "Reshape x c -> r", vec![], vec![2, 12]),
        ("2 x 1 x 4", vec![integers("c", &[1])], "Squeeze x c -> r", vec![], vec![2, 4]),
        ("2 x 4", vec![integers("c", &[0, -1])], "Unsqueeze x c -> r", vec![], vec![1, 2, 4, 1]),
        ("2 x 1", vec![integers("c", &[3, 1, 5])], "Expand x c -> r", vec![], vec![3, 2, 5]),
        ("2 x 3", vec![integers("c", &[2, 1])], "Tile x c -> r", vec![], vec![4, 3]),
        ("2 x 3", vec![integers("c", &[0, 1, 0, 2])], "Pad x c -> r", vec![], vec![2, 6]),
        (
            "2 x 9",
            vec![integers("s", &[-3]), integers("e", &[i64::MAX]), integers("a", &[1])],
            "Slice x s e a -> r",
            vec![],
            vec![2, 3],
        ),
        (
            "9",
            vec![integers("s", &[8]), integers("e", &[i64::MIN]), integers("a", &[0]), integers("t", &[-2])],
            "Slice x s e a t -> r",
            vec![],
            vec![5],
        ),
        ("5 x 7", vec![integers("c", &[2, 3])], "Gather x c -> r", vec![integer("axis", 1)], vec![5, 2]),
        ("5 x 7", vec![integers("c", &[3])], "TopK x c -> r i", vec![], vec![5, 3]),
        ("2 x 3 x 4", vec![integers("c", &[1])], "ReduceSum x c -> r", vec![], vec![2, 1, 4]),
        (
            "1 x 2 x 4 x 4",
            vec![integers("c", &[1, 2, 8, 8])],
            "Resize x _ _ c -> r",
            vec![text("mode", "linear")],
            vec![1, 2, 8, 8],
        ),
    ] {
        let found = one(&[dims], constants, call, attributes);
        assert_eq!(found.0, shape, "{call}");
    }
}

/// The shape of an input, cut, multiplied and put together again: what exporters write for
/// `x.view(x.size(0), -1)`.
#[test]
fn arithmetic_on_shapes_is_done() {
    let nodes = vec![
        node("Shape x -> shape", vec![]),
        node("Gather shape zero -> rows", vec![integer("axis", 0)]),
        node("Mul rows two -> more", vec![]),
        node("Concat more minus -> target", vec![integer("axis", 0)]),
        node("Reshape x target -> r", vec![]),
        node("Cast r -> out", vec![integer("to", i64::from(DataType::FLOAT16.0))]),
    ];
    let constants = vec![integers("zero", &[0]), integers("two", &[2]), integers("minus", &[-1])];
    let graph = read_nodes(vec![value("x", "4 x 3 x 6")], constants, nodes, &["out"], &[]).unwrap();
    let out = &graph.tensors[graph.outputs[0]];
    assert_eq!((out.shape.as_slice(), out.element_bytes), (&[8, 9][..], 2));
    assert!(graph.layers[..5].iter().all(|layer| layer.op == Some(Op::View)));
    let work = graph.layers[5].work.unwrap();
    assert_eq!((work.flops, work.bytes_read, work.bytes_written), (0, 4 * 72, 2 * 72));
}

#[test]
fn arithmetic_on_indexes_is_no_floating_point_operation() {
    let inputs = vec![typed("a", "3 x 4", DataType::INT64), typed("b", "3 x 4", DataType::INT64)];
    let graph = read_nodes(inputs, vec![], vec![node("Add a b -> r", vec![])], &["r"], &[]).unwrap();
    let work = graph.layers[0].work.unwrap();
    assert_eq!((work.flops, work.bytes_read), (0, 2 * 12 * 8));
}

fn gather() -> Graph {
    let inputs = vec![typed("i", "2 x 3", DataType::INT64)];
    let nodes = vec![node("Gather table i -> r", vec![])];
    read_nodes(inputs, vec![weights("table", &[50_000, 8])], nodes, &["r"], &[]).unwrap()
}

#[test]
fn an_embedding_reads_the_rows_that_it_picks() {
    let graph = gather();
    let work = graph.layers[0].work.unwrap();
    assert_eq!(work.bytes_read, 6 * 8 * 4 + 6 * 8);
    assert_eq!(work.bytes_written, 6 * 8 * 4);
    assert_eq!(graph.layers[0].op, Some(Op::Gather { rows: 6, width: 8 }));
}

#[test]
fn what_has_no_formula_is_listed_and_in_no_total() {
    let mut branch = node("If condition -> r", vec![]);
    branch.attribute = ["then_branch", "else_branch"]
        .map(|name| rten_onnx::onnx::AttributeProto {
            name: Some(name.to_owned()),
            g: Some(GraphProto { node: vec![node("Add x x -> s", vec![])], ..GraphProto::default() }),
            ..rten_onnx::onnx::AttributeProto::default()
        })
        .to_vec();
    let mut other = node("Strange r -> s", vec![]);
    other.domain = Some("example.com".to_owned());
    let nodes = vec![branch, other, node("Relu s -> t", vec![])];
    let inputs = vec![typed("condition", "", DataType::BOOL), value("x", "2 x 3")];
    let output = vec![value("t", "2 x 3")];
    let value_info = vec![value("r", "2 x 3"), value("s", "2 x 3")];
    let graph = GraphProto { node: nodes, input: inputs, output, value_info, initializer: vec![] };
    let graph = read_bytes("model.onnx", &model(graph).write_buf().unwrap(), &[]).unwrap();
    let unknown: Vec<&str> = graph.unknown().map(|layer| layer.operator.as_str()).collect();
    assert_eq!(unknown, ["If", "example.com.Strange"]);
    assert_eq!(graph.work().unwrap().flops, 6, "the ReLU alone");
    assert_eq!(graph.tensors[graph.unknown().next().unwrap().outputs[0]].shape, [2, 3]);
}

/// `torch.nn.functional.pad` with `mode="reflect"` as the exporter of `PyTorch` 2 writes it: the
/// pads of the last dimension come first, and are put in ONNX's order.
#[test]
fn pads_that_are_put_in_order_are_known() {
    let inputs = vec![value("x", "1 x 576")];
    let stored = vec![
        integers("pads", &[0, 64]),
        integers("zeros", &[2]),
        integers("rows", &[-1, 2]),
        integers("start", &[-1]),
        integers("end", &[i64::MIN + 1]),
        integers("axis", &[0]),
        integers("step", &[-1]),
        integers("flat", &[-1]),
    ];
    let nodes = vec![
        node("ConstantOfShape zeros -> none", vec![]),
        node("Cast none -> nothing", vec![integer("to", 7)]),
        node("Concat pads nothing -> all", vec![integer("axis", 0)]),
        node("Reshape all rows -> table", vec![]),
        node("Slice table start end axis step -> turned", vec![]),
        node("Transpose turned -> columns", vec![list("perm", &[1, 0])]),
        node("Reshape columns flat -> ordered", vec![]),
        node("Pad x ordered -> r", vec![text("mode", "reflect")]),
    ];
    let graph = read_nodes(inputs, stored, nodes, &["r"], &[]).unwrap();
    assert_eq!(graph.tensors[graph.outputs[0]].shape, [1, 576 + 64]);
}

#[test]
fn tables_are_turned_and_cut_in_any_dimension() {
    // 0 1 2, 3 4 5: its transpose is 0 3, 1 4, 2 5; of that the last two rows backward, and of
    // those the second column: 5, 4.
    let stored = vec![
        integers("values", &[0, 1, 2, 3, 4, 5]),
        integers("rows", &[2, 3]),
        integers("starts", &[-1, 1]),
        integers("ends", &[0, 2]),
        integers("steps", &[-1, 1]),
        integers("axes", &[0, 1]),
        integers("flat", &[-1]),
    ];
    let nodes = vec![
        node("Reshape values rows -> table", vec![]),
        node("Transpose table -> turned", vec![]),
        node("Slice turned starts ends axes steps -> cut", vec![]),
        node("Reshape cut flat -> sizes", vec![]),
        node("Expand x sizes -> r", vec![]),
    ];
    let graph = read_nodes(vec![value("x", "1 x 1")], stored, nodes, &["r"], &[]).unwrap();
    assert_eq!(graph.tensors[graph.outputs[0]].shape, [5, 4]);
}

#[test]
fn ranges_of_floats_have_a_length() {
    let float =
        |name: &str, value: f32| TensorProto { dims: vec![], float_data: vec![value], ..weights(name, &[]) };
    let length = |start, limit, step| {
        let stored = vec![float("start", start), float("limit", limit), float("step", step)];
        let nodes = vec![node("Range start limit step -> r", vec![])];
        let read = read_nodes(vec![value("x", "1")], stored, nodes, &["r"], &[]);
        read.map(|graph| graph.tensors[graph.outputs[0]].shape.clone())
    };
    assert_eq!(length(0.0, 40.0, 1.0).unwrap(), [40]);
    assert_eq!(length(1.0, 2.0, 0.3).unwrap(), [4]);
    assert_eq!(length(5.0, 0.0, -2.0).unwrap(), [3]);
    assert_eq!(length(5.0, 0.0, 2.0).unwrap(), [0]);
    for bad in [length(0.0, 1.0, 0.0), length(0.0, f32::NAN, 1.0), length(0.0, f32::INFINITY, 1.0)] {
        assert!(matches!(bad, Err(GraphError::Dynamic { .. })), "{bad:?}");
    }
}

/// The shape of what a model gives that multiplies `x` by a wide or a narrow matrix, as `condition`
/// says, and how many multiply-adds it needs.
fn choice(before: Vec<NodeProto>, inputs: Vec<ValueInfoProto>) -> Result<(Vec<u64>, u64), GraphError> {
    let branch = |name: &str, width: i64, result: &str| {
        let matrix = format!("{result}.matrix");
        let graph = GraphProto {
            node: vec![node(&format!("MatMul x {matrix} -> {result}"), vec![])],
            initializer: vec![weights(&matrix, &[3, width])],
            output: vec![ValueInfoProto { name: Some(result.to_owned()), r#type: None }],
            ..GraphProto::default()
        };
        AttributeProto { name: Some(name.to_owned()), g: Some(graph), ..AttributeProto::default() }
    };
    let branches = vec![branch("then_branch", 64, "wide"), branch("else_branch", 2, "narrow")];
    let after = [node("If condition -> r", branches), node("Relu r -> s", vec![])];
    let nodes = before.into_iter().chain(after).collect();
    let graph = read_nodes(inputs, vec![integers("two", &[2])], nodes, &["s"], &[])?;
    assert_eq!(graph.unknown().count(), 0);
    Ok((graph.tensors[graph.outputs[0]].shape.clone(), products(&graph)))
}

#[test]
fn the_branch_that_shapes_decide_takes_the_place_of_the_choice() {
    let rows = |dims| {
        let first = node("Shape x -> rows", vec![integer("end", 1)]);
        choice(vec![first, node("Equal rows two -> condition", vec![])], vec![value("x", dims)]).unwrap()
    };
    assert_eq!(rows("2 x 3"), (vec![2, 64], 2 * 3 * 64));
    assert_eq!(rows("5 x 3"), (vec![5, 2], 5 * 3 * 2));
    let open = choice(vec![], vec![value("x", "2 x 3"), typed("condition", "", DataType::BOOL)]).unwrap_err();
    let said =
        "what `the If` runs (If) depends on values that are not in the file, so the sizes of `r` are open";
    assert!(open.to_string().ends_with(said), "{open}");
}

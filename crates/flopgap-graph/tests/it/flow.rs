//! Functions, branches and loops, written out by hand.

use flopgap_files::Hint as _;
use flopgap_graph::{Graph, GraphError, Op};
use rten_onnx::onnx::{AttributeProto, DataType, GraphProto, NodeProto, TensorProto, ValueInfoProto};
use rten_onnx::protobuf::{EncodeMessage as _, ValueWriter};

use crate::support::{integer, integers, list, model, node, read_bytes, read_nodes, typed, value, weights};

/// A field of a message that holds bytes.
fn field(number: u8, bytes: &[u8]) -> Vec<u8> {
    let tag: &[u8] = if number < 16 { &[number << 3 | 2] } else { &[(number & 15) << 3 | 0x82, number >> 4] };
    let length = u16::try_from(bytes.len()).unwrap();
    let length = [u8::try_from(length & 0x7F).unwrap() | 0x80, u8::try_from(length >> 7).unwrap()];
    [tag, &length, bytes].concat()
}

fn encoded(node: &NodeProto) -> Vec<u8> {
    let mut bytes = Vec::new();
    node.encode(ValueWriter::new(&mut bytes)).unwrap();
    bytes
}

/// A function of the domain `local`; attributes of its nodes by reference are pairs of their name
/// and that of the function's.
fn function(signature: &str, nodes: &[(NodeProto, &[(&str, &str)])]) -> Vec<u8> {
    let (call, results) = signature.split_once(" -> ").unwrap();
    let mut words = call.split_whitespace();
    let mut bytes = field(1, words.next().unwrap().as_bytes());
    words.for_each(|input| bytes.extend(field(4, input.as_bytes())));
    results.split_whitespace().for_each(|output| bytes.extend(field(5, output.as_bytes())));
    for (node, references) in nodes {
        let mut node = encoded(node);
        for (name, reference) in *references {
            node.extend(field(5, &[field(1, name.as_bytes()), field(21, reference.as_bytes())].concat()));
        }
        bytes.extend(field(7, &node));
    }
    bytes.extend(field(10, b"local"));
    bytes
}

fn local(text: &str, attributes: Vec<AttributeProto>) -> NodeProto {
    NodeProto { domain: Some("local".to_owned()), ..node(text, attributes) }
}

fn named(name: &str) -> ValueInfoProto {
    ValueInfoProto { name: Some(name.to_owned()), r#type: None }
}

fn read_with(functions: &[Vec<u8>], graph: GraphProto) -> Result<Graph, GraphError> {
    let mut bytes = model(graph).write_buf().unwrap();
    bytes.extend(functions.iter().flat_map(|function| field(25, function)));
    read_bytes("model.onnx", &bytes, &[])
}

#[test]
fn functions_take_the_place_of_their_calls() {
    let functions = [
        function(
            "Layer x w b -> y",
            &[(local("Turned x -> t", vec![]), &[("to", "order")]), (node("Gemm t w b -> y", vec![]), &[])],
        ),
        function("Turned x -> t", &[(node("Transpose x -> t", vec![]), &[("perm", "to")])]),
    ];
    let graph = GraphProto {
        node: vec![
            local("Layer x w b -> y", vec![list("order", &[1, 0])]),
            local("Layer y v _ -> z", vec![list("order", &[0, 1])]),
        ],
        initializer: vec![weights("w", &[2, 5]), weights("b", &[5]), weights("v", &[5, 6])],
        input: vec![value("x", "2 x 3")],
        output: vec![named("z")],
        // What inner values are called in the graph does not matter.
        value_info: vec![value("t", "9 x 9")],
    };
    let graph = read_with(&functions, graph).unwrap();
    assert_eq!(graph.tensors[graph.outputs[0]].shape, [3, 6]);
    assert_eq!(graph.multiply_adds().unwrap(), 3 * 5 * 2 + 3 * 6 * 5);
    // The bias of the first alone.
    assert_eq!(graph.work().unwrap().flops, 2 * 120 + 3 * 5);
    let names: Vec<&str> = graph.layers.iter().map(|layer| layer.name.as_str()).collect();
    let inner = ["the Layer/the Turned/the Transpose", "the Layer/the Gemm"];
    assert_eq!(names, [inner, inner].concat());
    assert_eq!(graph.layers[2].op, Some(Op::View), "the second keeps its order");
}

#[test]
fn functions_that_call_themselves_are_refused() {
    let functions = [function("Again x -> y", &[(local("Again x -> y", vec![]), &[])])];
    let graph = GraphProto {
        node: vec![local("Again x -> y", vec![])],
        input: vec![value("x", "2")],
        output: vec![named("y")],
        ..GraphProto::default()
    };
    let error = read_with(&functions, graph).unwrap_err().to_string();
    assert!(error.ends_with("functions and loops are nested too deeply"), "{error}");
}

#[test]
fn loops_and_functions_without_an_end_are_refused() {
    let error = repeated(Some(1 << 40), "Identity c -> more", vec![]).unwrap_err().to_string();
    assert!(error.ends_with("more than 20000 calls and turns, or 200000 layers"), "{error}");
    // Each calls the next one twice.
    let mut functions: Vec<Vec<u8>> = (0..20)
        .map(|at| {
            let next = |call: &str| (local(&format!("F{} {call}", at + 1), vec![]), &[][..]);
            function(&format!("F{at} x -> y"), &[next("x -> t"), next("t -> y")])
        })
        .collect();
    functions.push(function("F20 x -> y", &[(node("Relu x -> y", vec![]), &[])]));
    let graph = GraphProto {
        node: vec![local("F0 x -> y", vec![])],
        input: vec![value("x", "2")],
        output: vec![named("y")],
        ..GraphProto::default()
    };
    let error = read_with(&functions, graph).unwrap_err().to_string();
    assert!(error.ends_with("more than 20000 calls and turns, or 200000 layers"), "{error}");
}

/// A loop over `h`, which is multiplied by `w` and collected; it goes on while `more` is true.
fn repeated(count: Option<i64>, more: &str, constants: Vec<TensorProto>) -> Result<Graph, GraphError> {
    let mut body = GraphProto {
        node: vec![
            node("MatMul h w -> g", vec![]),
            node("Concat all g -> longer", vec![integer("axis", 0)]),
            node(more, vec![]),
        ],
        input: [("i", DataType::INT64), ("c", DataType::BOOL)]
            .map(|(name, kind)| typed(name, "", kind))
            .to_vec(),
        output: ["more", "g", "longer", "g"].map(named).to_vec(),
        ..GraphProto::default()
    };
    body.input.extend(["h", "all"].map(named));
    let attribute =
        AttributeProto { name: Some("body".to_owned()), g: Some(body), ..AttributeProto::default() };
    let mut inputs = vec![value("x", "2 x 4")];
    let mut constants = constants;
    match count {
        Some(count) => constants.push(TensorProto { dims: vec![], ..integers("count", &[count]) }),
        None => inputs.push(typed("count", "", DataType::INT64)),
    }
    constants.push(weights("w", &[4, 4]));
    let nodes = vec![node("Loop count _ x x -> last all each", vec![attribute])];
    read_nodes(inputs, constants, nodes, &["last", "all", "each"], &[])
}

#[test]
fn loops_run_as_often_as_they_say() {
    let limit = |value| vec![TensorProto { dims: vec![], ..integers("limit", &[value]) }];
    for (count, more, constants, turns) in [
        (5, "Identity c -> more", vec![], 5),
        (100, "Less i limit -> more", limit(2), 3),
        (0, "Identity c -> more", vec![], 0),
    ] {
        let read = repeated(Some(count), more, constants);
        if turns == 0 {
            // Nothing says what shape a part would have.
            assert!(matches!(read, Err(GraphError::Flow { .. })), "{read:?}");
            continue;
        }
        let graph = read.unwrap();
        assert_eq!(graph.multiply_adds().unwrap(), turns * 2 * 4 * 4);
        let shapes: Vec<&[u64]> =
            graph.outputs.iter().map(|&at| graph.tensors[at].shape.as_slice()).collect();
        assert_eq!(shapes, [&[2, 4][..], &[2 + 2 * turns, 4], &[turns, 2, 4]]);
        assert_eq!(graph.parameters().unwrap(), 16, "weights are stored once");
        assert_eq!(graph.unknown().count(), 0);
        assert_eq!(graph.layers[0].name, "the Loop/0/the MatMul");
    }
}

#[test]
fn loops_of_unknown_length_are_named() {
    let error = repeated(None, "Identity c -> more", vec![]).unwrap_err();
    let said = "what `the Loop` runs (Loop) depends on values that are not in the file, so the sizes of `last` \
                are open";
    assert!(error.to_string().ends_with(said), "{error}");
    assert!(error.hint().unwrap().contains("`last=1x64`"));
}

#[test]
fn nodes_may_be_in_any_order() {
    let nodes = vec![node("Relu h -> y", vec![]), node("MatMul x w -> h", vec![])];
    let graph =
        read_nodes(vec![value("x", "2 x 3")], vec![weights("w", &[3, 4])], nodes, &["y"], &[]).unwrap();
    assert_eq!(graph.multiply_adds().unwrap(), 24);
    assert_eq!(graph.layers[0].operator, "MatMul");
}

/// Only the place of each parameter is stored beside it.
#[test]
fn sparse_parameters_have_the_shape_of_the_whole() {
    let graph = GraphProto {
        node: vec![node("MatMul x w -> y", vec![])],
        input: vec![value("x", "2 x 4")],
        output: vec![named("y")],
        ..GraphProto::default()
    };
    let mut values = Vec::new();
    weights("w", &[2]).encode(ValueWriter::new(&mut values)).unwrap();
    let sparse = [field(1, &values), vec![3 << 3, 4, 3 << 3, 3]].concat();
    let mut whole = Vec::new();
    graph.encode(ValueWriter::new(&mut whole)).unwrap();
    whole.extend(field(15, &sparse));
    let graph =
        read_bytes("model.onnx", &[&[8, 9], &field(7, &whole)[..], &field(8, &[16, 20])].concat(), &[]);
    let graph = graph.unwrap();
    assert_eq!((graph.multiply_adds().unwrap(), graph.parameters().unwrap()), (24, 12));
}

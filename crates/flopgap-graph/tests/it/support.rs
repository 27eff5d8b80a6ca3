//! What the tests share.

use std::io::Write as _;
use std::path::{Path, PathBuf};

use flopgap_graph::{Graph, GraphError, Op, Shapes, read};
use rten_onnx::onnx::{
    AttributeProto, DataType, Dimension, GraphProto, ModelProto, NodeProto, OperatorSetIdProto, TensorProto,
    TensorShapeProto, TypeProto, TypeProtoTensor, ValueInfoProto,
};
use tempfile::TempDir;

/// A model of the fixtures.
pub(crate) fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/models").join(name)
}

/// Reads a model of the fixtures.
pub(crate) fn load(name: &str) -> Graph {
    read(&fixture(name), &Shapes::default()).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// Shapes as a command line states them.
pub(crate) fn shapes(stated: &[&str]) -> Shapes {
    stated.iter().map(|text| text.parse().unwrap()).collect()
}

/// Multiply-adds of matrix products and convolutions alone: what the counter of `PyTorch` sees on a
/// CPU.
pub(crate) fn products(graph: &Graph) -> u64 {
    let ops = graph.layers.iter().filter_map(|layer| layer.op.as_ref());
    ops.filter(|op| matches!(op, Op::Gemm(_) | Op::Conv(_))).map(|op| op.multiply_adds().unwrap()).sum()
}

/// A file with these bytes, in a directory that goes with it.
pub(crate) fn file(name: &str, bytes: &[u8]) -> (TempDir, PathBuf) {
    let directory = TempDir::new().unwrap();
    let path = directory.path().join(name);
    std::fs::File::create(&path).unwrap().write_all(bytes).unwrap();
    (directory, path)
}

/// Reads these bytes as a model.
pub(crate) fn read_bytes(name: &str, bytes: &[u8], stated: &[&str]) -> Result<Graph, GraphError> {
    let (_directory, path) = file(name, bytes);
    read(&path, &shapes(stated))
}

/// A dimension: a size, or a name for one that is open.
pub(crate) fn dimension(text: &str) -> Dimension {
    match text.parse() {
        Ok(size) => Dimension { dim_value: Some(size), dim_param: None },
        Err(_) => Dimension { dim_value: None, dim_param: (text != "?").then(|| text.to_owned()) },
    }
}

/// A value of floats with dimensions such as `batch x 784`.
pub(crate) fn value(name: &str, dims: &str) -> ValueInfoProto {
    typed(name, dims, DataType::FLOAT)
}

pub(crate) fn typed(name: &str, dims: &str, kind: DataType) -> ValueInfoProto {
    let dim = dims.split_whitespace().filter(|dim| *dim != "x").map(dimension).collect();
    ValueInfoProto {
        name: Some(name.to_owned()),
        r#type: Some(TypeProto {
            tensor_type: Some(TypeProtoTensor {
                elem_type: Some(kind),
                shape: Some(TensorShapeProto { dim }),
            }),
            sequence: None,
        }),
    }
}

/// A parameter of floats without values.
pub(crate) fn weights(name: &str, dims: &[i64]) -> TensorProto {
    TensorProto {
        name: Some(name.to_owned()),
        dims: dims.to_vec(),
        data_type: Some(DataType::FLOAT),
        ..TensorProto::default()
    }
}

/// A parameter of indexes.
pub(crate) fn integers(name: &str, values: &[i64]) -> TensorProto {
    TensorProto {
        name: Some(name.to_owned()),
        dims: vec![i64::try_from(values.len()).unwrap()],
        data_type: Some(DataType::INT64),
        int64_data: values.to_vec(),
        ..TensorProto::default()
    }
}

/// A node: `Gemm x w b -> y`.
pub(crate) fn node(text: &str, attributes: Vec<AttributeProto>) -> NodeProto {
    let (call, outputs) = text.split_once(" -> ").unwrap_or((text, ""));
    let mut words = call.split_whitespace();
    let names = |words: &mut dyn Iterator<Item = &str>| -> Vec<String> {
        words.map(|word| if word == "_" { String::new() } else { word.to_owned() }).collect()
    };
    NodeProto {
        name: Some(format!("the {}", words.clone().next().unwrap_or_default())),
        op_type: words.next().map(str::to_owned),
        input: names(&mut words),
        output: names(&mut outputs.split_whitespace()),
        attribute: attributes,
        domain: None,
    }
}

pub(crate) fn integer(name: &str, value: i64) -> AttributeProto {
    AttributeProto { name: Some(name.to_owned()), i: Some(value), ..AttributeProto::default() }
}

pub(crate) fn list(name: &str, values: &[i64]) -> AttributeProto {
    AttributeProto { name: Some(name.to_owned()), ints: values.to_vec(), ..AttributeProto::default() }
}

pub(crate) fn text(name: &str, value: &str) -> AttributeProto {
    AttributeProto { name: Some(name.to_owned()), s: Some(value.to_owned()), ..AttributeProto::default() }
}

/// A model of operator set 20.
pub(crate) fn model(graph: GraphProto) -> ModelProto {
    ModelProto {
        ir_version: Some(9),
        graph: Some(graph),
        opset_import: vec![OperatorSetIdProto { domain: None, version: Some(20) }],
        ..ModelProto::default()
    }
}

/// Reads a model of these nodes.
pub(crate) fn read_nodes(
    inputs: Vec<ValueInfoProto>,
    initializer: Vec<TensorProto>,
    node: Vec<NodeProto>,
    outputs: &[&str],
    stated: &[&str],
) -> Result<Graph, GraphError> {
    let output =
        outputs.iter().map(|&name| ValueInfoProto { name: Some(name.to_owned()), r#type: None }).collect();
    let graph = GraphProto { node, initializer, input: inputs, output, value_info: Vec::new() };
    read_bytes("model.onnx", &model(graph).write_buf().unwrap(), stated)
}

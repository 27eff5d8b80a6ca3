//! The model under construction.

use std::cell::RefCell;

use flopgap_flops::{ElementType, Precision};
use half::f16;
use rten_onnx::onnx::{
    AttributeProto, AttributeType, DataType, Dimension, GraphProto, ModelProto, NodeProto,
    OperatorSetIdProto, TensorProto, TensorShapeProto, TypeProto, TypeProtoTensor, ValueInfoProto,
};

use super::quantize::{Scale, ranges};
use super::refused::refused;
use super::role::role;
use crate::error::GraphError;
use crate::graph::{Graph, Tensor};

/// The state of writing.
pub(super) struct Writer<'a> {
    pub(super) graph: &'a Graph,
    pub(super) precision: Precision,
    seed: u64,
    /// The scale of each tensor between layers, where they are 8 bits.
    pub(super) scales: Vec<Option<Scale>>,
    /// The name under which layers read each tensor.
    pub(super) read: Vec<String>,
    pub(super) nodes: Vec<NodeProto>,
    initializers: Vec<TensorProto>,
    written: Vec<bool>,
}

impl<'a> Writer<'a> {
    pub(super) fn new(graph: &'a Graph, precision: Precision, seed: u64) -> Self {
        let mut writer = Writer {
            graph,
            precision,
            seed,
            scales: vec![None; graph.tensors.len()],
            read: graph.tensors.iter().map(|tensor| tensor.name.clone()).collect(),
            nodes: Vec::new(),
            initializers: Vec::new(),
            written: vec![false; graph.tensors.len()],
        };
        if precision == Precision::Int8 {
            writer.scales = ranges(graph);
            for &input in &graph.inputs {
                if graph.tensors[input].element.is_some() {
                    writer.quantized(input, &graph.tensors[input].name.clone());
                }
            }
        }
        writer
    }

    /// The type in which floats are stored.
    pub(super) fn float(&self) -> DataType {
        if self.precision == Precision::Fp16 { DataType::FLOAT16 } else { DataType::FLOAT }
    }

    pub(super) fn shape(&self, tensor: usize) -> &'a [u64] {
        &self.graph.tensors[tensor].shape
    }

    /// A node with one output.
    pub(super) fn node(
        &mut self,
        name: &str,
        operator: &str,
        inputs: &[&str],
        output: &str,
        attributes: Vec<AttributeProto>,
    ) {
        self.nodes.push(NodeProto {
            name: Some(name.to_owned()),
            op_type: Some(operator.to_owned()),
            input: inputs.iter().map(|&input| input.to_owned()).collect(),
            output: vec![output.to_owned()],
            attribute: attributes,
            domain: None,
        });
    }

    fn initializer(&mut self, name: &str, shape: &[u64], data_type: DataType, bytes: Vec<u8>) {
        self.initializers.push(TensorProto {
            name: Some(name.to_owned()),
            dims: shape.iter().map(|&size| size.cast_signed()).collect(),
            data_type: Some(data_type),
            raw_data: Some(RefCell::new(bytes)),
            ..TensorProto::default()
        });
    }

    /// A constant list of sizes or axes.
    pub(super) fn integers(&mut self, name: &str, values: &[i64]) {
        let bytes = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        self.initializer(name, &[values.len() as u64], DataType::INT64, bytes);
    }

    /// A constant of floats in the precision of the model.
    pub(super) fn floats(&mut self, name: &str, shape: &[u64], values: &[f32]) {
        let (data_type, bytes) = if self.float() == DataType::FLOAT16 {
            (DataType::FLOAT16, values.iter().flat_map(|&value| f16::from_f32(value).to_le_bytes()).collect())
        } else {
            (DataType::FLOAT, values.iter().flat_map(|value| value.to_le_bytes()).collect())
        };
        self.initializer(name, shape, data_type, bytes);
    }

    /// The name of a tensor for a layer that reads it; parameters are written the first time.
    pub(super) fn operand(&mut self, tensor: usize) -> Result<String, GraphError> {
        if self.graph.tensors[tensor].parameter && !self.written[tensor] {
            self.written[tensor] = true;
            let values = self.values(tensor)?;
            let Tensor { name, shape, .. } = &self.graph.tensors[tensor];
            self.floats(name, shape, &values);
        }
        Ok(self.read[tensor].clone())
    }

    /// The name of weights that a layer reads in 8 bits: signed, with a scale of their own, which
    /// comes with it.
    pub(super) fn weights(&mut self, tensor: usize) -> Result<(String, f32), GraphError> {
        let values = self.values(tensor)?;
        let largest = values.iter().fold(0.0_f32, |largest, value| largest.max(value.abs()));
        let scale = largest.max(f32::MIN_POSITIVE) / 127.0;
        let Tensor { name, shape, .. } = &self.graph.tensors[tensor];
        let (quantized, read) = (format!("{name}.int8"), format!("{name}.read"));
        if !self.written[tensor] {
            self.written[tensor] = true;
            #[expect(clippy::cast_possible_truncation, reason = "the scale keeps them within 127")]
            let bytes =
                values.iter().map(|value| (value / scale).round() as i8).flat_map(i8::to_le_bytes).collect();
            self.initializer(&quantized, shape, DataType::INT8, bytes);
            let names = [format!("{name}.scale"), format!("{name}.zero")];
            self.initializer(&names[0], &[], DataType::FLOAT, scale.to_le_bytes().to_vec());
            self.initializer(&names[1], &[], DataType::INT8, vec![0]);
            let inputs = [quantized.as_str(), &names[0], &names[1]];
            self.node(&read, "DequantizeLinear", &inputs, &read, Vec::new());
        }
        Ok((read, scale))
    }

    /// The name of a bias that a layer reads in 32-bit integers of this scale.
    pub(super) fn bias(&mut self, tensor: usize, scale: f32) -> Result<String, GraphError> {
        let values = self.values(tensor)?;
        let Tensor { name, shape, .. } = &self.graph.tensors[tensor];
        let (quantized, read) = (format!("{name}.int32"), format!("{name}.read"));
        if !self.written[tensor] {
            self.written[tensor] = true;
            #[expect(clippy::cast_possible_truncation, reason = "a cast from a float saturates")]
            let bytes = values
                .iter()
                .map(|value| (value / scale).round() as i32)
                .flat_map(i32::to_le_bytes)
                .collect();
            self.initializer(&quantized, shape, DataType::INT32, bytes);
            let names = [format!("{name}.scale"), format!("{name}.zero")];
            self.initializer(&names[0], &[], DataType::FLOAT, scale.to_le_bytes().to_vec());
            self.initializer(&names[1], &[], DataType::INT32, vec![0; 4]);
            let inputs = [quantized.as_str(), &names[0], &names[1]];
            self.node(&read, "DequantizeLinear", &inputs, &read, Vec::new());
        }
        Ok(read)
    }

    /// Rounds what a node wrote under `name` to 8 bits and back; layers read the latter.
    pub(super) fn quantized(&mut self, tensor: usize, name: &str) {
        let Some(Scale { scale, zero }) = self.scales[tensor] else { return };
        let own = &self.graph.tensors[tensor].name;
        let (narrow, read) = (format!("{own}.uint8"), format!("{own}.read"));
        let names = [format!("{own}.scale"), format!("{own}.zero")];
        self.initializer(&names[0], &[], DataType::FLOAT, scale.to_le_bytes().to_vec());
        self.initializer(&names[1], &[], DataType::UINT8, vec![zero]);
        self.node(&narrow, "QuantizeLinear", &[name, &names[0], &names[1]], &narrow, Vec::new());
        self.node(&read, "DequantizeLinear", &[&narrow, &names[0], &names[1]], &read, Vec::new());
        self.read[tensor] = read;
    }

    fn values(&self, tensor: usize) -> Result<Vec<f32>, GraphError> {
        let stored = &self.graph.tensors[tensor];
        let role = role(self.graph, tensor).ok_or_else(|| refused(&stored.name, "nothing reads it"))?;
        // A file of ONNX ends at 2 GiB.
        if stored.bytes().is_ok_and(|bytes| bytes >= 1 << 31) {
            return Err(refused(&stored.name, "an ONNX file holds less than 2 GiB"));
        }
        Ok(role.values(stored, tensor, self.seed))
    }

    fn value(&self, name: String, tensor: &Tensor) -> ValueInfoProto {
        let data_type = match tensor.element {
            None => DataType::INT64,
            Some(ElementType::Int8) => DataType::UINT8,
            Some(_) => self.float(),
        };
        let dim = tensor
            .shape
            .iter()
            .map(|&size| Dimension { dim_value: Some(size.cast_signed()), dim_param: None })
            .collect();
        ValueInfoProto {
            name: Some(name),
            r#type: Some(TypeProto {
                tensor_type: Some(TypeProtoTensor {
                    elem_type: Some(data_type),
                    shape: Some(TensorShapeProto { dim }),
                }),
                sequence: None,
            }),
        }
    }

    /// The bytes of the model.
    pub(super) fn finish(mut self) -> Result<Vec<u8>, GraphError> {
        let total: usize = self
            .initializers
            .iter()
            .filter_map(|tensor| tensor.raw_data.as_ref())
            .map(|data| data.borrow().len())
            .sum();
        if total >= 1 << 31 {
            return Err(refused(&self.graph.name, "an ONNX file holds less than 2 GiB"));
        }
        let info = |indexes: &[usize]| -> Vec<ValueInfoProto> {
            indexes
                .iter()
                .map(|&index| {
                    let tensor = &self.graph.tensors[index];
                    self.value(tensor.name.clone(), tensor)
                })
                .collect()
        };
        let (input, output) = (info(&self.graph.inputs), info(&self.graph.outputs));
        // The result is what is read back from 8 bits, under the name of the graph.
        for &tensor in &self.graph.outputs {
            let own = &self.graph.tensors[tensor].name;
            if self.read[tensor] != *own {
                for node in &mut self.nodes {
                    for name in node.output.iter_mut().chain(&mut node.input) {
                        if name == own {
                            *name = format!("{own}.wide");
                        } else if *name == self.read[tensor] {
                            name.clone_from(own);
                        }
                    }
                }
            }
        }
        let model = ModelProto {
            ir_version: Some(8),
            producer_name: Some("flopgap".to_owned()),
            producer_version: Some(env!("CARGO_PKG_VERSION").to_owned()),
            graph: Some(GraphProto {
                node: self.nodes,
                initializer: self.initializers,
                input,
                output,
                value_info: Vec::new(),
            }),
            opset_import: vec![OperatorSetIdProto { domain: Some(String::new()), version: Some(20) }],
            metadata_props: Vec::new(),
        };
        model.write_buf().map_err(|error| refused(&self.graph.name, &error.to_string()))
    }
}

/// An integer attribute.
pub(super) fn integer(name: &str, value: i64) -> AttributeProto {
    AttributeProto {
        name: Some(name.to_owned()),
        i: Some(value),
        r#type: Some(AttributeType::INT),
        ..AttributeProto::default()
    }
}

/// A list of integers as an attribute.
pub(super) fn integers(name: &str, values: Vec<i64>) -> AttributeProto {
    AttributeProto {
        name: Some(name.to_owned()),
        ints: values,
        r#type: Some(AttributeType::INTS),
        ..AttributeProto::default()
    }
}

/// A float attribute.
pub(super) fn float(name: &str, value: f32) -> AttributeProto {
    AttributeProto {
        name: Some(name.to_owned()),
        f: Some(value),
        r#type: Some(AttributeType::FLOAT),
        ..AttributeProto::default()
    }
}

/// A text attribute.
pub(super) fn text(name: &str, value: &str) -> AttributeProto {
    AttributeProto {
        name: Some(name.to_owned()),
        s: Some(value.to_owned()),
        r#type: Some(AttributeType::STRING),
        ..AttributeProto::default()
    }
}

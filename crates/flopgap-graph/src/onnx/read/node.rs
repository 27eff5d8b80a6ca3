//! A node with what is known about its operands.

use flopgap_flops::ElementType;
use rten_onnx::onnx::{AttributeProto, DataType, NodeProto, TensorProto};

use crate::import::Stored;

/// The values of a small tensor.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Known {
    /// Indexes, sizes, truth values.
    Integers(Vec<i64>),
    /// Factors.
    Floats(Vec<f32>),
}

/// Elements of a tensor whose values are kept: shapes, axes and tables of positions have fewer.
pub(super) const KEPT: usize = 4096;

/// An operand of a node.
#[derive(Debug, Clone)]
pub(super) struct Operand {
    pub(super) shape: Vec<u64>,
    pub(super) stored: Stored,
    pub(super) known: Option<Known>,
}

impl Operand {
    pub(super) fn rank(&self) -> usize {
        self.shape.len()
    }

    pub(super) fn integers(&self) -> Option<&[i64]> {
        match &self.known {
            Some(Known::Integers(values)) => Some(values),
            _ => None,
        }
    }

    pub(super) fn floats(&self) -> Option<&[f32]> {
        match &self.known {
            Some(Known::Floats(values)) => Some(values),
            _ => None,
        }
    }
}

/// A node of the graph.
pub(super) struct Node<'a> {
    pub(super) proto: &'a NodeProto,
    /// The operator's name; of the standard domain, or of ONNX Runtime's own.
    pub(super) operator: &'a str,
    /// Whether it is of the standard domain.
    pub(super) standard: bool,
    pub(super) opset: i64,
    /// Channels that a convolution with channels side by side reads of its result.
    pub(super) channels: Option<u64>,
    /// Its operands; `None` where one is left out.
    pub(super) operands: Vec<Option<Operand>>,
}

impl<'a> Node<'a> {
    pub(super) fn attribute(&self, name: &str) -> Option<&'a AttributeProto> {
        self.proto.attribute.iter().find(|attribute| attribute.name.as_deref() == Some(name))
    }

    pub(super) fn integer(&self, name: &str) -> Option<i64> {
        self.attribute(name)?.i
    }

    pub(super) fn text(&self, name: &str) -> Option<&'a str> {
        self.attribute(name)?.s.as_deref()
    }

    pub(super) fn integers(&self, name: &str) -> Option<&'a [i64]> {
        self.attribute(name).map(|attribute| attribute.ints.as_slice())
    }

    /// A list of sizes; empty where it is absent.
    pub(super) fn sizes(&self, name: &str) -> Option<Vec<u64>> {
        self.integers(name).unwrap_or_default().iter().map(|&size| u64::try_from(size).ok()).collect()
    }

    pub(super) fn operand(&self, position: usize) -> Option<&Operand> {
        self.operands.get(position)?.as_ref()
    }

    pub(super) fn shape(&self, position: usize) -> Option<&[u64]> {
        Some(self.operand(position)?.shape.as_slice())
    }

    /// A list that older operator sets have as an attribute and newer ones as an operand.
    pub(super) fn list(&self, attribute: &str, position: usize) -> Option<Vec<i64>> {
        match self.operand(position) {
            Some(operand) => operand.integers().map(<[i64]>::to_vec),
            None => self.integers(attribute).map(<[i64]>::to_vec),
        }
    }

    /// Whether versions and exporters differ in how it rounds sizes.
    pub(super) fn rounds(&self) -> bool {
        matches!(
            self.operator,
            "MaxPool"
                | "AveragePool"
                | "LpPool"
                | "QLinearAveragePool"
                | "Resize"
                | "Upsample"
                | "ConvTranspose"
                | "NchwcUpsample"
        )
    }

    /// Whether an operand is given, known or not.
    pub(super) fn has(&self, position: usize) -> bool {
        self.operand(position).is_some()
    }

    /// Shapes of all operands that are given.
    pub(super) fn shapes(&self) -> Vec<&[u64]> {
        self.operands.iter().flatten().map(|operand| operand.shape.as_slice()).collect()
    }
}

/// The name by which an operator is known; `None` for one of a domain that is not. Of ONNX
/// Runtime's domains: its own operators, and those for images of which 8 or 16 channels lie side by
/// side, whose shapes are written as ever. Of `PyTorch`'s: what its exporter has no other operator
/// for.
pub(super) fn by_name<'a>(domain: &str, proto: &'a NodeProto) -> Option<&'a str> {
    let operator = proto.op_type.as_deref()?;
    match (domain, operator) {
        ("com.microsoft.nchwc", "Conv") => Some("FusedConv"),
        ("com.microsoft.nchwc", "Upsample") => Some("NchwcUpsample"),
        ("" | "ai.onnx" | "com.microsoft" | "com.microsoft.nchwc", _) => Some(operator),
        ("org.pytorch.aten", "ATen") => {
            let named = |attribute: &&AttributeProto| attribute.name.as_deref() == Some("operator");
            proto.attribute.iter().find(named)?.s.as_deref()
        }
        _ => None,
    }
}

/// The position of a dimension, which counts from the end where negative.
pub(super) fn axis(axis: i64, rank: usize) -> Option<usize> {
    let rank = i64::try_from(rank).ok()?;
    let axis = if axis < 0 { axis.checked_add(rank)? } else { axis };
    (0..rank).contains(&axis).then(|| usize::try_from(axis).ok()).flatten()
}

/// How elements of a type are stored.
pub(super) fn stored(data_type: DataType) -> Stored {
    match data_type {
        DataType::FLOAT => Stored::number(ElementType::Fp32),
        DataType::DOUBLE => Stored::number(ElementType::Fp64),
        DataType::FLOAT16 => Stored::number(ElementType::Fp16),
        DataType::BFLOAT16 => Stored::number(ElementType::Bf16),
        DataType::INT8 | DataType::UINT8 => Stored::number(ElementType::Int8),
        DataType::FLOAT8E4M3FN
        | DataType::FLOAT8E4M3FNUZ
        | DataType::FLOAT8E5M2
        | DataType::FLOAT8E5M2FNUZ => Stored::number(ElementType::Fp8),
        DataType::INT16 | DataType::UINT16 => Stored::other(2),
        DataType::INT32 | DataType::UINT32 => Stored::other(4),
        DataType::INT64 | DataType::UINT64 => Stored::other(8),
        DataType::COMPLEX64 => Stored::complex(ElementType::Fp32),
        DataType::COMPLEX128 => Stored::complex(ElementType::Fp64),
        // Truth values; types of four bits, of which runtimes unpack each to a byte; text, whose
        // length is not its shape's.
        _ => Stored::other(1),
    }
}

/// The values of a tensor, where it is small and of a type that shapes are made of.
pub(super) fn known(tensor: &TensorProto) -> Option<Known> {
    let count = tensor.dims.iter().try_fold(1_i64, |count, &size| count.checked_mul(size))?;
    let count = usize::try_from(count).ok().filter(|&count| count <= KEPT)?;
    let raw = tensor.raw_data.as_ref().map(|data| data.borrow());
    let raw = raw.as_deref().map_or(&[][..], Vec::as_slice);
    let integers =
        |width: usize, value: fn(&[u8]) -> i64| -> Vec<i64> { raw.chunks_exact(width).map(value).collect() };
    let values = match tensor.data_type? {
        DataType::INT64 if raw.is_empty() => tensor.int64_data.clone(),
        DataType::INT64 => integers(8, |bytes| bytes.try_into().map_or(0, i64::from_le_bytes)),
        DataType::INT32 | DataType::BOOL if raw.is_empty() => {
            tensor.int32_data.iter().copied().map(i64::from).collect()
        }
        DataType::INT32 => {
            integers(4, |bytes| bytes.try_into().map_or(0, |bytes| i32::from_le_bytes(bytes).into()))
        }
        DataType::BOOL => integers(1, |bytes| bytes[0].into()),
        DataType::FLOAT => {
            let values: Vec<f32> = if raw.is_empty() {
                tensor.float_data.clone()
            } else {
                raw.chunks_exact(4).map(|bytes| bytes.try_into().map_or(0.0, f32::from_le_bytes)).collect()
            };
            return (values.len() == count).then_some(Known::Floats(values));
        }
        _ => return None,
    };
    (values.len() == count).then_some(Known::Integers(values))
}

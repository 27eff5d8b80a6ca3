//! Infers types of results that the file does not state.

use flopgap_flops::ElementType;
use rten_onnx::onnx::DataType;

use super::node::{Node, stored};
use crate::import::Stored;

/// How the elements of each result are stored.
pub(super) fn results(node: &Node<'_>, count: usize) -> Vec<Stored> {
    let operand = |position: usize| node.operand(position).map(|operand| operand.stored);
    let first = operand(0).unwrap_or(Stored::number(ElementType::Fp32));
    let index = Stored::other(8);
    let truth = Stored::other(1);
    let byte = Stored::number(ElementType::Int8);
    let attribute = |name: &str| {
        let number = node.integer(name).and_then(|number| i32::try_from(number).ok());
        number.map(|number| stored(DataType(number)))
    };
    let kinds: Vec<Stored> = match node.operator {
        "Cast" => vec![attribute("to").unwrap_or(first)],
        "Shape" | "Size" | "ArgMax" | "ArgMin" | "NonZero" | "NonMaxSuppression" => vec![index],
        "TopK" | "MaxPool" | "Unique" => vec![first, index],
        "Equal" | "Less" | "LessOrEqual" | "Greater" | "GreaterOrEqual" | "And" | "Or" | "Xor" | "Not"
        | "IsNaN" | "IsInf" => vec![truth],
        "Dropout" => vec![first, truth],
        "CastLike" | "Where" | "DequantizeLinear" => vec![operand(1).unwrap_or(first)],
        "OneHot" => vec![operand(2).unwrap_or(first)],
        "QuantizeLinear" => vec![operand(2).or(attribute("output_dtype")).unwrap_or(byte)],
        "DynamicQuantizeLinear" => vec![byte, first, byte],
        // Sums of products of bytes are 32-bit integers.
        "MatMulInteger" | "ConvInteger" => vec![Stored::other(4)],
        "ConstantOfShape" => {
            let value = node.attribute("value").and_then(|attribute| attribute.t.as_ref());
            let kind = value.and_then(|value| value.data_type);
            vec![kind.map_or(Stored::number(ElementType::Fp32), stored)]
        }
        "EyeLike" | "RandomNormal" | "RandomUniform" | "RandomNormalLike" | "RandomUniformLike" => {
            vec![attribute("dtype").unwrap_or(Stored::number(ElementType::Fp32))]
        }
        _ => Vec::new(),
    };
    let mut kinds: Vec<Stored> = kinds.into_iter().take(count).collect();
    kinds.resize(count, first);
    kinds
}

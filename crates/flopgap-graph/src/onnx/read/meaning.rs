//! The meaning of ONNX operators.

use flopgap_flops::Activation;
use flopgap_flops::operator::{Cell, Interpolation, Recurrent};

use super::node::{Node, axis};
use crate::import::{
    Meaning, Window, attention, batch_norm, channel_norm, convolution, count, einsum, elementwise,
    embedding_bag, gather, grid_sample, matmul, norm, pointwise, pooling, reduce, reduction, same_padding,
    softmax,
};
use crate::op::{ElementwiseFunction, Gemm, NormFunction, Op, PoolFunction};

/// The meaning of a node that gives results of these shapes. An operator that is not known has no
/// operation.
pub(super) fn meaning(node: &Node<'_>, outputs: &[Vec<u64>]) -> Meaning {
    let Some(output) = outputs.first() else { return Meaning::unknown() };
    products(node, output)
        .or_else(|| windows(node, output))
        .or_else(|| norms(node))
        .or_else(|| moves(node, outputs))
        .or_else(|| functions(node, output))
        .unwrap_or_else(Meaning::unknown)
}

/// Operands by their places in the node; those that are left out count, too.
fn operands(op: Option<Op>, places: &[usize]) -> Meaning {
    Meaning::of(op).ordered(places.iter().map(|&place| Some(place)))
}

fn products(node: &Node<'_>, output: &[u64]) -> Option<Meaning> {
    let turned = |place: usize, name: &str| {
        let mut shape = node.shape(place)?.to_vec();
        if let (Some(1), [.., a, b]) = (node.integer(name), shape.as_mut_slice()) {
            std::mem::swap(a, b);
        }
        Some(shape)
    };
    let pair = |second: usize| matmul(&turned(0, "transA")?, &turned(second, "transB")?);
    Some(match node.operator {
        "MatMul" | "MatMulInteger" | "FusedMatMul" => operands(pair(1), &[0, 1]),
        "Gemm" => operands(pair(1), &[0, 1, 2]),
        "FusedGemm" => operands(pair(1), &[0, 1, 2]).and(fused(node, output, 0)?),
        "QGemm" => operands(pair(3), &[0, 3, 6]),
        "QLinearMatMul" => operands(pair(3), &[0, 3]),
        "MatMulNBits" => {
            let product = || {
                let (k, n) =
                    (u64::try_from(node.integer("K")?).ok()?, u64::try_from(node.integer("N")?).ok()?);
                let m = count(node.shape(0)?)?.checked_div(k)?;
                Some(Op::Gemm(Gemm { batch: 1, m, n, k }))
            };
            operands(product(), &[0, 1])
        }
        "Einsum" => {
            node.text("equation").and_then(|equation| einsum(equation, &node.shapes(), output)).into()
        }
        "Attention" if node.standard => {
            let causal = node.integer("is_causal") == Some(1);
            heads(node, "q_num_heads", "kv_num_heads", causal).into()
        }
        "MultiHeadAttention" => {
            let causal = node.integer("unidirectional") == Some(1);
            heads(node, "num_heads", "num_heads", causal).into()
        }
        "LSTM" | "GRU" | "RNN" | "DynamicQuantizeLSTM" => {
            let op = recurrent(node);
            // Through a peephole each of three gates sees the state: a product and a sum.
            let peephole = if node.operator != "LSTM" || !node.has(7) { 0 } else { 6 };
            let units = match &op {
                Some(op) => op.output_elements().ok()?.checked_mul(peephole)?,
                None => 0,
            };
            operands(op, &[0, 1, 2, 3]).and(units)
        }
        _ => return None,
    })
}

/// FLOPs of what ONNX Runtime fuses behind a product: so many sums, and the activation that it
/// names.
fn fused(node: &Node<'_>, output: &[u64], sums: u64) -> Option<u64> {
    let each = match node.text("activation") {
        Some(activation) => pointwise(&activation.to_ascii_lowercase())?.flops(),
        None => 0,
    };
    count(output)?.checked_mul(each.checked_add(sums)?)
}

/// Attention of queries, keys and values with four dimensions, or three and the heads side by side.
/// Keys and values that are kept from earlier calls come before those of this one, and a causal
/// query sees all of them.
fn heads(node: &Node<'_>, query: &str, key: &str, causal: bool) -> Option<Op> {
    let split = |place: usize, name: &str| {
        let shape = node.shape(place)?;
        let [batch, length, width] = *shape else { return Some(shape.to_vec()) };
        let heads = u64::try_from(node.integer(name)?).ok()?;
        Some(vec![batch, heads, length, width.checked_div(heads)?])
    };
    let kept = if node.standard { [4, 5] } else { [6, 7] };
    let before = if node.has(kept[0]) { *node.shape(kept[0])?.get(2)? } else { 0 };
    let with_kept = |place: usize, kept: usize| {
        let mut shape = split(place, key)?;
        if node.has(kept) {
            let more = *node.shape(kept)?.get(2)?;
            let length = shape.get_mut(2)?;
            *length = length.checked_add(more)?;
        }
        Some(shape)
    };
    attention(&split(0, query)?, &with_kept(1, kept[0])?, &with_kept(2, kept[1])?, causal.then_some(before))
}

fn recurrent(node: &Node<'_>) -> Option<Op> {
    let cell = match node.operator {
        "LSTM" | "DynamicQuantizeLSTM" => Cell::Lstm,
        "GRU" => Cell::Gru,
        _ => Cell::Rnn,
    };
    let ([a, b, inputs], [directions, x, y]) = (node.shape(0)?, node.shape(2)?) else { return None };
    // Of 8 bits, the weights are turned.
    let (rows, hidden) = if node.operator == "DynamicQuantizeLSTM" { (y, x) } else { (x, y) };
    let (length, batch) = if node.integer("layout") == Some(1) { (*b, *a) } else { (*a, *b) };
    if cell.gates().checked_mul(*hidden) != Some(*rows) {
        return None;
    }
    let bias = node.has(3);
    Some(Op::Recurrent(Recurrent {
        cell,
        batch,
        length,
        inputs: *inputs,
        hidden: *hidden,
        directions: *directions,
        bias,
    }))
}

fn windows(node: &Node<'_>, output: &[u64]) -> Option<Meaning> {
    let operator = node.operator;
    Some(match operator {
        "Conv" | "ConvTranspose" => operands(convolved(node, 1, output), &[0, 1, 2]),
        "ConvInteger" => operands(convolved(node, 1, output), &[0, 1]),
        "QLinearConv" => operands(convolved(node, 3, output), &[0, 3, 8]),
        "FusedConv" => {
            let sum = u64::from(node.has(3));
            operands(convolved(node, 1, output), &[0, 1, 2, 3]).and(fused(node, output, sum)?)
        }
        "MaxPool" | "AveragePool" | "LpPool" | "QLinearAveragePool" => {
            let factor = if operator == "LpPool" { 2 } else { 1 };
            let op = || {
                let x = node.shape(0)?;
                let mut window = window(node)?;
                window.kernel = node.sizes("kernel_shape")?;
                let image = x.get(2..)?;
                window.padding = padding(node, image, output.get(2..)?, &window.kernel.clone(), &window)?;
                // Without strides, windows are adjacent: by 1.
                if window.stride.is_empty() {
                    window.stride = vec![1; image.len()];
                }
                pooling(function(operator), x, output, &window)
            };
            Meaning { op: op(), order: Some(vec![0]), factor, extra: 0 }
        }
        "GlobalAveragePool" | "GlobalMaxPool" | "GlobalLpPool" | "QLinearGlobalAveragePool" => {
            let factor = if operator == "GlobalLpPool" { 2 } else { 1 };
            let whole = || {
                let x = node.shape(0)?;
                let window = Window { kernel: x.get(2..)?.to_vec(), stride: vec![1], ..Window::default() };
                pooling(function(operator), x, output, &window)
            };
            Meaning { op: whole(), order: Some(vec![0]), factor, extra: 0 }
        }
        "GridSample" => {
            let op = || {
                let interpolation = match node.text("mode").unwrap_or("linear") {
                    "nearest" => Interpolation::Nearest,
                    "linear" | "bilinear" => Interpolation::Linear,
                    _ => Interpolation::Cubic,
                };
                let padding = node.text("padding_mode").unwrap_or("zeros");
                let aligned = node.integer("align_corners") == Some(1);
                grid_sample(node.shape(0)?, node.shape(1)?, interpolation, padding, aligned)
            };
            operands(op(), &[0, 1])
        }
        "Resize" | "Upsample" | "NchwcUpsample" => {
            let x = node.shape(0)?;
            let scaled = x.iter().zip(output).filter(|(before, after)| before != after).count();
            // A weighted sum of the nearest pixels in the dimensions that change.
            let flops = match (node.text("mode").unwrap_or("nearest"), scaled) {
                (_, 0) => return Some(operands(Some(Op::View), &[0])),
                ("linear", 1) => 3,
                // Four pixels either way.
                ("linear", 2) | ("cubic", 1) => 7,
                ("linear", 3) => 15,
                ("cubic", 2) => 31,
                ("nearest", _) => return Some(operands(copied(&[output.to_vec()]), &[0])),
                _ => return Some(Meaning::unknown()),
            };
            operands(elementwise(ElementwiseFunction::Several(flops), &[x], output), &[0])
        }
        _ => return None,
    })
}

fn function(operator: &str) -> PoolFunction {
    if operator.contains("Max") { PoolFunction::Max } else { PoolFunction::Average }
}

fn window(node: &Node<'_>) -> Option<Window> {
    Some(Window {
        kernel: Vec::new(),
        stride: node.sizes("strides")?,
        dilation: node.sizes("dilations")?,
        padding: Vec::new(),
        output_padding: node.sizes("output_padding")?,
        groups: u64::try_from(node.integer("group").unwrap_or(1)).ok()?,
        transposed: node.operator == "ConvTranspose",
    })
}

fn convolved(node: &Node<'_>, place: usize, output: &[u64]) -> Option<Op> {
    let (x, weights) = (node.shape(0)?, node.shape(place)?);
    let mut window = window(node)?;
    window.padding = padding(node, x.get(2..)?, output.get(2..)?, weights.get(2..)?, &window)?;
    convolution(x, weights, output, &window)
}

/// Padding by dimension: as it is stated, or as the size of the output needs it.
fn padding(
    node: &Node<'_>,
    image: &[u64],
    output: &[u64],
    kernel: &[u64],
    window: &Window,
) -> Option<Vec<[u64; 2]>> {
    let rank = image.len();
    let at = |list: &[u64], index: usize| list.get(index).copied().unwrap_or(1);
    let same = node.text("auto_pad").is_some_and(|kind| kind.starts_with("SAME"));
    let stated = node.attribute("output_shape").is_some();
    if (same || stated) && output.len() == rank && kernel.len() == rank {
        return (0..rank)
            .map(|index| {
                let (stride, dilation) = (at(&window.stride, index), at(&window.dilation, index));
                if !window.transposed {
                    return same_padding(image[index], output[index], kernel[index], stride, dilation);
                }
                // What the output has too much without padding is cut off.
                let extra = window.output_padding.get(index).copied().unwrap_or(0);
                let reach = dilation.checked_mul(kernel[index].checked_sub(1)?)?.checked_add(1)?;
                let whole = image[index]
                    .checked_sub(1)?
                    .checked_mul(stride)?
                    .checked_add(reach)?
                    .checked_add(extra)?;
                let cut = whole.checked_sub(output[index])?;
                Some([cut / 2, cut - cut / 2])
            })
            .collect();
    }
    let pads = node.sizes("pads")?;
    if pads.is_empty() {
        return Some(vec![[0, 0]; rank]);
    }
    (pads.len() == 2 * rank).then(|| (0..rank).map(|index| [pads[index], pads[rank + index]]).collect())
}

fn norms(node: &Node<'_>) -> Option<Meaning> {
    let first = node.shape(0)?;
    let parameters = || {
        let elements =
            node.operands.iter().skip(1).flatten().map(|operand| count(&operand.shape).unwrap_or(0));
        elements.fold(0, u64::saturating_add)
    };
    let columns = || {
        let at = axis(node.integer("axis").unwrap_or(-1), first.len())?;
        count(&first[at..])
    };
    Some(match node.operator {
        "BatchNormalization" => {
            let training = node.integer("training_mode") == Some(1);
            batch_norm(first, training, parameters()).into()
        }
        "LayerNormalization" => {
            columns().and_then(|columns| norm(NormFunction::Layer, first, columns, parameters())).into()
        }
        "RMSNormalization" | "SimplifiedLayerNormalization" => {
            columns().and_then(|columns| norm(NormFunction::Rms, first, columns, parameters())).into()
        }
        // The sum with what is skipped, and a bias where there is one, come first.
        "SkipLayerNormalization" | "SkipSimplifiedLayerNormalization" => {
            let layer = node.operator == "SkipLayerNormalization";
            let function = if layer { NormFunction::Layer } else { NormFunction::Rms };
            let bias = if layer { 4 } else { 3 };
            let elements = count(first)?;
            let sums = elements.checked_mul(1 + u64::from(node.has(bias)))?;
            Meaning::of(norm(function, first, *first.last()?, parameters().saturating_sub(elements)))
                .and(sums)
        }
        "InstanceNormalization" => channel_norm(first, *first.get(1)?, parameters()).into(),
        "GroupNormalization" => {
            let groups = u64::try_from(node.integer("num_groups")?).ok()?;
            channel_norm(first, groups, parameters()).into()
        }
        "Softmax" | "LogSoftmax" if node.opset < 13 => {
            // Older sets flatten what follows the dimension.
            let at = axis(node.integer("axis").unwrap_or(1), first.len())?;
            let columns = count(&first[at..])?;
            softmax(&[count(&first[..at])?, columns], -1).into()
        }
        "Softmax" | "LogSoftmax" => softmax(first, node.integer("axis").unwrap_or(-1)).into(),
        // The square of each neighbor and their sum, scaled, shifted, raised to a power, and
        // divided by.
        "LRN" => {
            let flops = u8::try_from(node.integer("size")?.checked_mul(2)?.checked_add(4)?).ok()?;
            elementwise(ElementwiseFunction::Several(flops), &[first], first).into()
        }
        _ => return None,
    })
}

/// Operators that move elements or change the view. Shapes, axes and similar known values are not
/// operands.
fn moves(node: &Node<'_>, outputs: &[Vec<u64>]) -> Option<Meaning> {
    let output = outputs.first()?;
    let first = || node.shape(0);
    Some(match node.operator {
        // The last are tables that are computed once, whatever the inputs are.
        "Reshape" | "Flatten" | "Squeeze" | "Unsqueeze" | "Identity" | "Shape" | "Size" | "HannWindow"
        | "HammingWindow" | "BlackmanWindow" | "MelWeightMatrix" => operands(Some(Op::View), &[0]),
        "Dropout" => {
            // In newer sets an operand says whether it is training.
            let training =
                node.operand(2).and_then(|operand| operand.integers()).is_some_and(|values| values == [1]);
            let unknown = node.has(2) && node.operand(2).is_some_and(|operand| operand.integers().is_none());
            match (training, unknown) {
                (_, true) => Meaning::unknown(),
                (true, _) => operands(elementwise(ElementwiseFunction::Mul, &[first()?], output), &[0]),
                _ => operands(Some(Op::View), &[0]),
            }
        }
        "Transpose" => {
            // Dimensions of one element may change places without anything moving.
            let shape = first()?;
            let order: Vec<usize> = match node.integers("perm").filter(|order| !order.is_empty()) {
                Some(order) => order.iter().map(|&at| usize::try_from(at).ok()).collect::<Option<_>>()?,
                None => (0..shape.len()).rev().collect(),
            };
            let moved: Vec<usize> =
                order.into_iter().filter(|&at| shape.get(at).is_some_and(|&size| size != 1)).collect();
            if moved.is_sorted() { operands(Some(Op::View), &[0]) } else { operands(copied(outputs), &[0]) }
        }
        "Cast" | "CastLike" | "Slice" | "Split" | "Expand" | "Tile" | "Pad" | "DepthToSpace"
        | "SpaceToDepth" | "ReorderInput" | "ReorderOutput" | "ConstantOfShape" | "Range" | "OneHot"
        | "EyeLike" | "ReverseSequence" | "CenterCropPad" => operands(copied(outputs), &[0]),
        "Concat" | "ScatterND" | "ScatterElements" | "Scatter" | "TensorScatter" => copied(outputs).into(),
        "Gather" => {
            let table = first()?;
            let at = axis(node.integer("axis").unwrap_or(0), table.len())?;
            operands(gather(output, count(&table[at + 1..])?), &[0, 1])
        }
        "embedding_bag" => {
            let op = || {
                let mode = *node.operand(4)?.integers()?.first()?;
                embedding_bag(first()?, node.shape(1)?, output, mode, node.has(6))
            };
            operands(op(), &[0, 1, 2, 6])
        }
        "GatherElements" | "Compress" => operands(gather(output, 1), &[0, 1]),
        "GatherND" => {
            let width = count(output)?.checked_div(count(node.shape(1)?.split_last()?.1)?)?;
            operands(gather(output, width), &[0, 1])
        }
        _ => return None,
    })
}

fn copied(outputs: &[Vec<u64>]) -> Option<Op> {
    let mut elements = 0_u64;
    for shape in outputs {
        elements = elements.checked_add(count(shape)?)?;
    }
    Some(Op::Copy { elements })
}

fn functions(node: &Node<'_>, output: &[u64]) -> Option<Meaning> {
    let first = node.shape(0)?;
    let lower = node.operator.to_ascii_lowercase();
    if node.operator.starts_with("Reduce") || matches!(node.operator, "ArgMax" | "ArgMin") {
        let factor = reduction(&lower)?;
        return Some(Meaning { op: reduce(first, output), order: Some(vec![0]), factor, extra: 0 });
    }
    // Scales and zero points are a few bytes, which the formulas ignore.
    let element = lower.strip_prefix("qlinear").unwrap_or(&lower);
    if node.operator.starts_with("QLinear") {
        let two = matches!(element, "add" | "mul");
        let places: &[usize] = if two { &[0, 3] } else { &[0] };
        let shapes: Vec<&[u64]> = places.iter().filter_map(|&place| node.shape(place)).collect();
        return Some(operands(elementwise(pointwise(element)?, &shapes, output), places));
    }
    let function = match node.operator {
        // The bias is added first.
        "BiasGelu" | "FastGelu" => {
            let exact = node.operator == "BiasGelu";
            let activation = if exact { Activation::Gelu } else { Activation::GeluTanh };
            let function = ElementwiseFunction::Activation(activation);
            let sums = if node.has(1) { count(output)? } else { 0 };
            return Some(Meaning::of(elementwise(function, &node.shapes(), output)).and(sums));
        }
        "QuantizeLinear" | "DequantizeLinear" | "DynamicQuantizeLinear" => {
            // To find the range, every element is compared with the largest and the smallest.
            let factor = if node.operator == "DynamicQuantizeLinear" { 2 } else { 1 };
            let op = elementwise(ElementwiseFunction::Quantize, &[first], output);
            return Some(Meaning { op, order: Some(vec![0, 1, 2]), factor, extra: 0 });
        }
        "Gelu" if node.text("approximate") == Some("tanh") => {
            ElementwiseFunction::Activation(Activation::GeluTanh)
        }
        // Two products and a sum; the tables of sines are read next to it.
        "RotaryEmbedding" => ElementwiseFunction::Several(3),
        // The largest of a row is found by comparisons, and each element compared with it.
        "Hardmax" => ElementwiseFunction::Several(2),
        // A square is one product.
        "Pow"
            if node.operand(1).and_then(|operand| operand.floats()).is_some_and(|values| values == [2.0]) =>
        {
            return Some(operands(elementwise(ElementwiseFunction::Mul, &[first], output), &[0]));
        }
        "Clip" => return Some(operands(elementwise(ElementwiseFunction::Compare, &[first], output), &[0])),
        "CumSum" => return Some(operands(elementwise(ElementwiseFunction::Add, &[first], output), &[0])),
        _ => pointwise(&lower)?,
    };
    let shapes = node.shapes();
    // A sum of many is one addition less than there are operands; of one it is that one.
    let factor = match node.operator {
        "Sum" | "Mean" | "Max" | "Min" => shapes.len().saturating_sub(1) as u64,
        _ => 1,
    };
    if factor == 0 {
        return Some(Op::View.into());
    }
    Some(Meaning { op: elementwise(function, &shapes, output), order: None, factor, extra: 0 })
}

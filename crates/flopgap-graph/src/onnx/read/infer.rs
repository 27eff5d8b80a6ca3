//! Shapes of results, by operator, where every operand has a shape.
//!
//! Sources: the shape rules of the ONNX operator documents. `None`: the operator is not known, its
//! result depends on data, or the operands do not fit it. Sizes are 64-bit throughout, so that the
//! limits that exporters write as `i64::MAX` need no care.

use super::broadcast::broadcast;
use super::node::{Node, Operand, axis};
use super::rare;
use super::slice::slice;
use crate::import::{count, is_among, pointwise, reduction};
use crate::shapes::written;

type Shape = Vec<u64>;

/// Operators whose result has the shape of the first operand.
const KEEPS_SHAPE: &str = "Identity Cast CastLike Softmax LogSoftmax Hardmax InstanceNormalization GroupNormalization \
    LRN LpNormalization MeanVarianceNormalization QuantizeLinear \
    DequantizeLinear CumSum ReverseSequence Trilu Clip EyeLike ScatterND ScatterElements Scatter \
    Bernoulli RandomNormalLike RandomUniformLike RotaryEmbedding BiasGelu FastGelu QuickGelu \
    TensorScatter";

/// The shapes of the first results of a node: as many as follow.
pub(super) fn infer(node: &Node<'_>) -> Option<Vec<Shape>> {
    products(node)
        .or_else(|| windows(node))
        .or_else(|| views(node))
        .or_else(|| layout(node))
        .or_else(|| picks(node))
        .or_else(|| rare::reordered(node))
        .or_else(|| rare::signals(node))
        .or_else(|| rest(node))
}

fn products(node: &Node<'_>) -> Option<Vec<Shape>> {
    let result = match node.operator {
        "MatMul" | "MatMulInteger" | "FusedMatMul" => {
            let (a, b) = (node.shape(0)?, node.shape(1)?);
            let turn = |shape: &[u64], name: &str| flipped(shape, node.integer(name) == Some(1));
            product(&turn(a, "transA"), &turn(b, "transB"))?
        }
        "QLinearMatMul" => product(node.shape(0)?, node.shape(3)?)?,
        "Gemm" | "FusedGemm" | "QGemm" => {
            let second = if node.operator == "QGemm" { 3 } else { 1 };
            let first = flipped(node.shape(0)?, node.integer("transA") == Some(1));
            let second = flipped(node.shape(second)?, node.integer("transB") == Some(1));
            if first.len() != 2 || second.len() != 2 {
                return None;
            }
            product(&first, &second)?
        }
        "MatMulNBits" => {
            let mut shape = node.shape(0)?.to_vec();
            *shape.last_mut()? = u64::try_from(node.integer("N")?).ok()?;
            shape
        }
        "Einsum" => {
            return super::equation::shape(node.text("equation")?, &node.shapes()).map(|shape| vec![shape]);
        }
        "Attention" | "MultiHeadAttention" => return attention(node),
        "LSTM" | "GRU" | "RNN" | "DynamicQuantizeLSTM" => return recurrent(node),
        _ => return None,
    };
    Some(vec![result])
}

/// The result, and the keys and values that a later call goes on from.
fn attention(node: &Node<'_>) -> Option<Vec<Shape>> {
    let (mut shape, value) = (node.shape(0)?.to_vec(), node.shape(2)?);
    if shape.len() != value.len() {
        return None;
    }
    let heads = |name: &str| u64::try_from(node.integer(name)?).ok();
    let of_keys = heads("kv_num_heads").or(heads("num_heads"));
    if shape.len() == 4 {
        shape[3] = value[3];
    } else if let (Some(query), Some(key)) = (heads("q_num_heads"), of_keys) {
        *shape.last_mut()? = value.last()?.checked_div(key)?.checked_mul(query)?;
    } else {
        *shape.last_mut()? = *value.last()?;
    }
    let kept = if node.standard { [4, 5] } else { [6, 7] };
    let present = |place: usize| {
        let [batch, heads, length, width] = match *node.shape(place + 1)? {
            [batch, length, width] => [batch, of_keys?, length, width.checked_div(of_keys?)?],
            [batch, heads, length, width] => [batch, heads, length, width],
            _ => return None,
        };
        let before = if node.has(kept[place]) { *node.shape(kept[place])?.get(2)? } else { 0 };
        Some(vec![batch, heads, length.checked_add(before)?, width])
    };
    let present: Vec<Shape> = (0..2).map_while(present).collect();
    Some([vec![shape], present].concat())
}

/// Why operands cannot be those of a node, where their shapes alone decide.
pub(super) fn contradiction(node: &Node<'_>) -> Option<String> {
    let lower = node.operator.to_ascii_lowercase();
    let decided = is_among(node.operator, "MatMul MatMulInteger Gemm Conv ConvInteger ConvTranspose Concat")
        || pointwise(&lower).is_some() && node.operands.len() > 1;
    if !decided || node.operands.iter().any(Option::is_none) {
        return None;
    }
    let shapes: Vec<String> = node.shapes().into_iter().map(written).collect();
    Some(format!("{} cannot combine {}", node.operator, shapes.join(" and ")))
}

fn flipped(shape: &[u64], turn: bool) -> Shape {
    let mut shape = shape.to_vec();
    if let (true, [.., a, b]) = (turn, shape.as_mut_slice()) {
        std::mem::swap(a, b);
    }
    shape
}

#[expect(clippy::many_single_char_names, reason = "what the formula calls its sizes")]
fn product(a: &[u64], b: &[u64]) -> Option<Shape> {
    let (a_batch, m, k) = match a {
        [k] => (&[][..], None, *k),
        [batch @ .., m, k] => (batch, Some(*m), *k),
        [] => return None,
    };
    let (b_batch, inner, n) = match b {
        [k] => (&[][..], *k, None),
        [batch @ .., k, n] => (batch, *k, Some(*n)),
        [] => return None,
    };
    if k != inner {
        return None;
    }
    let mut shape = broadcast(&[a_batch, b_batch])?;
    shape.extend(m);
    shape.extend(n);
    Some(shape)
}

/// `Y`, `Y_h`, `Y_c`.
fn recurrent(node: &Node<'_>) -> Option<Vec<Shape>> {
    let ([a, b, _], [directions, x, y]) = (node.shape(0)?, node.shape(2)?) else { return None };
    let hidden = if node.operator == "DynamicQuantizeLSTM" { x } else { y };
    let batch_first = node.integer("layout") == Some(1);
    let (length, batch) = if batch_first { (*b, *a) } else { (*a, *b) };
    let (directions, hidden) = (*directions, *hidden);
    Some(if batch_first {
        let last = vec![batch, directions, hidden];
        vec![vec![batch, length, directions, hidden], last.clone(), last]
    } else {
        let last = vec![directions, batch, hidden];
        vec![vec![length, directions, batch, hidden], last.clone(), last]
    })
}

/// Convolutions and pools.
fn windows(node: &Node<'_>) -> Option<Vec<Shape>> {
    let shape = node.shape(0)?;
    let spatial = || shape.get(2..);
    Some(match node.operator {
        "Conv" | "ConvInteger" | "QLinearConv" | "ConvTranspose" | "FusedConv" => {
            let weights = node.shape(if node.operator == "QLinearConv" { 3 } else { 1 })?;
            let image = spatial().filter(|image| image.len() + 2 == weights.len())?;
            let kernel = &weights[2..];
            let transposed = node.operator == "ConvTranspose";
            let group = u64::try_from(node.integer("group").unwrap_or(1)).ok()?;
            let read = if transposed { weights[0] } else { weights[1].checked_mul(group)? };
            if shape[1] != read {
                return None;
            }
            let outputs = if transposed { weights[1].checked_mul(group)? } else { weights[0] };
            let mut result = vec![shape[0], outputs];
            result.extend(positions(node, image, kernel, transposed)?);
            vec![result]
        }
        "MaxPool" | "AveragePool" | "LpPool" | "QLinearAveragePool" => {
            let kernel = node.sizes("kernel_shape")?;
            let image = spatial().filter(|image| image.len() == kernel.len())?;
            let mut result = shape[..2].to_vec();
            result.extend(positions(node, image, &kernel, false)?);
            vec![result.clone(), result]
        }
        "GlobalAveragePool" | "GlobalMaxPool" | "GlobalLpPool" | "QLinearGlobalAveragePool" => {
            let mut result = shape.get(..2)?.to_vec();
            result.resize(shape.len(), 1);
            vec![result]
        }
        _ => return None,
    })
}

fn positions(node: &Node<'_>, image: &[u64], kernel: &[u64], transposed: bool) -> Option<Shape> {
    let rank = image.len();
    let list = |name: &str, default: u64| -> Option<Vec<u64>> {
        let sizes = node.sizes(name)?;
        if sizes.is_empty() { Some(vec![default; rank]) } else { (sizes.len() == rank).then_some(sizes) }
    };
    let (strides, dilations) = (list("strides", 1)?, list("dilations", 1)?);
    let same = node.text("auto_pad").is_some_and(|kind| kind.starts_with("SAME"));
    let stated = node.sizes("output_shape").filter(|sizes| transposed && sizes.len() >= rank);
    if let Some(stated) = stated {
        return Some(stated[stated.len() - rank..].to_vec());
    }
    let extra = list("output_padding", 0)?;
    let pads = node.sizes("pads").filter(|pads| pads.len() == 2 * rank).unwrap_or_else(|| vec![0; 2 * rank]);
    let up = node.integer("ceil_mode") == Some(1);
    (0..rank)
        .map(|index| {
            let (size, stride) = (image[index], strides[index]);
            let reach = dilations[index].checked_mul(kernel[index].checked_sub(1)?)?.checked_add(1)?;
            let pad = pads[index].checked_add(pads[rank + index])?;
            if transposed {
                let whole = size
                    .checked_sub(1)?
                    .checked_mul(stride)?
                    .checked_add(reach)?
                    .checked_add(extra[index])?;
                return if same { size.checked_mul(stride) } else { whole.checked_sub(pad) };
            }
            if stride == 0 {
                return None;
            }
            if same {
                return Some(size.div_ceil(stride));
            }
            let room = size.checked_add(pad)?.checked_sub(reach)?;
            if !up {
                return Some(room / stride + 1);
            }
            // A window that would begin in the padding behind the image is none.
            let positions = room.div_ceil(stride) + 1;
            let begins = (positions - 1).checked_mul(stride)?;
            Some(if begins >= size.checked_add(pads[index])? { positions - 1 } else { positions })
        })
        .collect()
}

/// Operators that only change the shape.
fn views(node: &Node<'_>) -> Option<Vec<Shape>> {
    let shape = || node.shape(0);
    let one = |shape: Shape| Some(vec![shape]);
    match node.operator {
        "Reshape" => {
            // The first operator sets have the shape as an attribute.
            let target = node.list("shape", 1)?;
            one(reshaped(shape()?, &target, node.integer("allowzero") == Some(1))?)
        }
        "Flatten" => {
            let shape = shape()?;
            let at = node.integer("axis").unwrap_or(1);
            let rank = i64::try_from(shape.len()).ok()?;
            let at = usize::try_from(if at < 0 { at.checked_add(rank)? } else { at }).ok()?;
            let (rows, columns) = shape.split_at_checked(at)?;
            one(vec![count(rows)?, count(columns)?])
        }
        "Squeeze" => {
            let shape = shape()?;
            let axes: Option<Vec<usize>> = match node.list("axes", 1) {
                Some(axes) => axes.iter().map(|&at| axis(at, shape.len())).collect(),
                None if node.has(1) => None,
                None => Some((0..shape.len()).filter(|&index| shape[index] == 1).collect()),
            };
            let axes = axes?;
            one(shape
                .iter()
                .enumerate()
                .filter(|(index, _)| !axes.contains(index))
                .map(|(_, &size)| size)
                .collect())
        }
        "Unsqueeze" => {
            let shape = shape()?;
            let axes = node.list("axes", 1)?;
            let rank = shape.len().checked_add(axes.len()).filter(|&rank| rank < 256)?;
            let axes: Vec<usize> = axes.iter().map(|&at| axis(at, rank)).collect::<Option<_>>()?;
            let mut rest = shape.iter();
            let sizes: Option<Shape> = (0..rank)
                .map(|index| if axes.contains(&index) { Some(1) } else { rest.next().copied() })
                .collect();
            one(sizes?)
        }
        "Transpose" => {
            let shape = shape()?;
            match node.integers("perm") {
                Some(order) if !order.is_empty() || shape.is_empty() => {
                    let sizes: Option<Shape> =
                        order.iter().map(|&at| shape.get(usize::try_from(at).ok()?).copied()).collect();
                    one(sizes.filter(|sizes| sizes.len() == shape.len())?)
                }
                _ => one(shape.iter().rev().copied().collect()),
            }
        }
        _ => None,
    }
}

/// Operators that cut, repeat or combine tensors.
fn layout(node: &Node<'_>) -> Option<Vec<Shape>> {
    let shape = || node.shape(0);
    let one = |shape: Shape| Some(vec![shape]);
    match node.operator {
        "Concat" => {
            let shapes = node.shapes();
            let mut result = shapes.first()?.to_vec();
            let at = axis(node.integer("axis").unwrap_or(1), result.len())?;
            for shape in &shapes[1..] {
                result[at] = result[at].checked_add(*shape.get(at)?)?;
            }
            one(result)
        }
        "Split" => split(node),
        "Expand" => {
            let target: Option<Shape> =
                node.operand(1)?.integers()?.iter().map(|&size| u64::try_from(size).ok()).collect();
            one(broadcast(&[shape()?, &target?])?)
        }
        "Tile" => {
            let repeats = node.operand(1)?.integers()?;
            let sizes: Option<Shape> = shape()?
                .iter()
                .zip(repeats)
                .map(|(size, &times)| size.checked_mul(u64::try_from(times).ok()?))
                .collect();
            one(sizes?)
        }
        "Pad" => {
            let mut result = shape()?.to_vec();
            let pads = node.list("pads", 1)?;
            let axes: Vec<usize> = match node.operand(3) {
                Some(axes) => {
                    axes.integers()?.iter().map(|&at| axis(at, result.len())).collect::<Option<_>>()?
                }
                None => (0..result.len()).collect(),
            };
            for (index, &at) in axes.iter().enumerate() {
                let (before, after) = (*pads.get(index)?, *pads.get(axes.len() + index)?);
                let size = i64::try_from(result[at]).ok()?.checked_add(before)?.checked_add(after)?;
                result[at] = u64::try_from(size).ok()?;
            }
            one(result)
        }
        "Slice" => one(slice(node)?),
        "DepthToSpace" | "SpaceToDepth" => {
            let [n, c, h, w] = *shape()? else { return None };
            let block = u64::try_from(node.integer("blocksize")?).ok().filter(|&block| block > 0)?;
            let area = block.checked_mul(block)?;
            if node.operator == "DepthToSpace" {
                one(vec![n, c / area, h.checked_mul(block)?, w.checked_mul(block)?])
            } else {
                one(vec![n, c.checked_mul(area)?, h / block, w / block])
            }
        }
        "Resize" | "Upsample" => one(resized(node)?),
        _ => None,
    }
}

fn reshaped(shape: &[u64], target: &[i64], zero: bool) -> Option<Shape> {
    let mut open = None;
    let mut result = Vec::with_capacity(target.len());
    for (index, &size) in target.iter().enumerate() {
        result.push(match size {
            0 if !zero => *shape.get(index)?,
            -1 if open.is_none() => {
                open = Some(index);
                1
            }
            size => u64::try_from(size).ok()?,
        });
    }
    if let Some(index) = open {
        let (whole, rest) = (count(shape)?, count(&result)?);
        result[index] = whole.checked_div(rest).filter(|size| size.checked_mul(rest) == Some(whole))?;
    }
    Some(result)
}

fn split(node: &Node<'_>) -> Option<Vec<Shape>> {
    let shape = node.shape(0)?;
    let at = axis(node.integer("axis").unwrap_or(0), shape.len())?;
    let parts = node.proto.output.len();
    let sizes: Vec<u64> = match node.list("split", 1).filter(|sizes| !sizes.is_empty()) {
        Some(sizes) => sizes.iter().map(|&size| u64::try_from(size).ok()).collect::<Option<_>>()?,
        None if node.has(1) || parts == 0 => return None,
        None => {
            // The last piece is the smaller one.
            let each = shape[at].div_ceil(parts as u64);
            (0..parts as u64).map(|part| each.min(shape[at].saturating_sub(part * each))).collect()
        }
    };
    let piece = |size: &u64| {
        let mut piece = shape.to_vec();
        piece[at] = *size;
        piece
    };
    Some(sizes.iter().map(piece).collect())
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a size times a factor, rounded down as ONNX says"
)]
fn resized(node: &Node<'_>) -> Option<Shape> {
    let mut result = node.shape(0)?.to_vec();
    let axes: Vec<usize> = match node.integers("axes").filter(|axes| !axes.is_empty()) {
        Some(axes) => axes.iter().map(|&at| axis(at, result.len())).collect::<Option<_>>()?,
        None => (0..result.len()).collect(),
    };
    let given = |position: usize| node.operand(position).filter(|operand| operand.shape != [0]);
    let place = if node.operator == "Upsample" || node.opset < 11 { 1 } else { 2 };
    if let Some(sizes) = given(3).filter(|_| place == 2) {
        for (&at, &size) in axes.iter().zip(sizes.integers()?) {
            result[at] = u64::try_from(size).ok()?;
        }
        return Some(result);
    }
    let factors = match (given(place), node.attribute("scales")) {
        (Some(operand), _) => operand.floats()?.to_vec(),
        (None, Some(attribute)) => attribute.floats.clone(),
        (None, None) => return None,
    };
    for (&at, &factor) in axes.iter().zip(&factors) {
        result[at] = (result[at] as f64 * f64::from(factor)) as u64;
    }
    Some(result)
}

/// Operators that select or create elements.
fn picks(node: &Node<'_>) -> Option<Vec<Shape>> {
    let shape = || node.shape(0);
    let result = match node.operator {
        "Gather" => {
            let (table, indexes) = (shape()?, node.shape(1)?);
            let at = axis(node.integer("axis").unwrap_or(0), table.len())?;
            [&table[..at], indexes, &table[at + 1..]].concat()
        }
        "GatherElements" => node.shape(1)?.to_vec(),
        "GatherND" => {
            let (data, indexes) = (shape()?, node.shape(1)?);
            let (last, rest) = indexes.split_last()?;
            let batch = usize::try_from(node.integer("batch_dims").unwrap_or(0)).ok()?;
            let skip = batch.checked_add(usize::try_from(*last).ok()?)?;
            [rest, data.get(skip..)?].concat()
        }
        "TopK" => {
            let mut shape = shape()?.to_vec();
            let at = axis(node.integer("axis").unwrap_or(-1), shape.len())?;
            let k = match node.operand(1) {
                Some(k) => *k.integers()?.first()?,
                None => node.integer("k")?,
            };
            shape[at] = u64::try_from(k).ok()?;
            return Some(vec![shape.clone(), shape]);
        }
        "OneHot" => {
            let mut shape = shape()?.to_vec();
            let depth = *node.operand(1)?.integers()?.first()?;
            let at = axis(node.integer("axis").unwrap_or(-1), shape.len() + 1)?;
            shape.insert(at, u64::try_from(depth).ok()?);
            shape
        }
        "ConstantOfShape" => node
            .operand(0)?
            .integers()?
            .iter()
            .map(|&size| u64::try_from(size).ok())
            .collect::<Option<_>>()?,
        "Range" => {
            if let Some(floats) = node.operand(0)?.floats() {
                let value = |position: usize| Some(f64::from(*node.operand(position)?.floats()?.first()?));
                let (start, limit, step) = (f64::from(*floats.first()?), value(1)?, value(2)?);
                let length = ((limit - start) / step).ceil();
                #[expect(
                    clippy::cast_possible_truncation,
                    clippy::cast_sign_loss,
                    reason = "a whole number below"
                )]
                return (length.is_finite() && length < 1e15).then(|| vec![vec![length.max(0.0) as u64]]);
            }
            let value = |position: usize| Some(*node.operand(position)?.integers()?.first()?);
            let (start, limit, step) = (value(0)?, value(1)?, value(2)?);
            let distance = if step > 0 { limit.checked_sub(start)? } else { start.checked_sub(limit)? };
            if step == 0 {
                return None;
            }
            vec![u64::try_from(distance.max(0)).ok()?.div_ceil(step.unsigned_abs())]
        }
        "Shape" => {
            let rank = i64::try_from(shape()?.len()).ok()?;
            let place = |at: i64| if at < 0 { at.saturating_add(rank) } else { at }.clamp(0, rank);
            let (start, end) =
                (place(node.integer("start").unwrap_or(0)), place(node.integer("end").unwrap_or(rank)));
            vec![u64::try_from((end - start).max(0)).ok()?]
        }
        "Size" => Vec::new(),
        "RandomNormal" | "RandomUniform" => node.sizes("shape")?,
        _ => return None,
    };
    Some(vec![result])
}

/// Functions of each element, reductions, and what keeps its shape.
fn rest(node: &Node<'_>) -> Option<Vec<Shape>> {
    let first = node.shape(0)?;
    let lower = node.operator.to_ascii_lowercase();
    let element = lower.strip_prefix("qlinear").unwrap_or(&lower);
    match node.operator {
        name if is_among(name, KEEPS_SHAPE) => Some(vec![first.to_vec()]),
        "Dropout" => Some(vec![first.to_vec(); 2]),
        // Statistics by channel follow in training.
        "BatchNormalization" => {
            let channels = vec![*first.get(1)?];
            Some([vec![first.to_vec()], vec![channels; 4]].concat())
        }
        "SkipLayerNormalization" | "SkipSimplifiedLayerNormalization" => {
            let mut rows = first.to_vec();
            *rows.last_mut()? = 1;
            Some(vec![first.to_vec(), rows.clone(), rows, first.to_vec()])
        }
        // The statistics of the rows come second and third.
        "LayerNormalization" | "RMSNormalization" | "SimplifiedLayerNormalization" => {
            let at = axis(node.integer("axis").unwrap_or(-1), first.len())?;
            let mut rows = first.to_vec();
            rows[at..].fill(1);
            Some(vec![first.to_vec(), rows.clone(), rows])
        }
        "DynamicQuantizeLinear" => Some(vec![first.to_vec(), Vec::new(), Vec::new()]),
        "ArgMax" | "ArgMin" => {
            let at = node.integer("axis").unwrap_or(0);
            Some(vec![reduced(first, &[at], node.integer("keepdims") != Some(0))?])
        }
        _ if node.operator.starts_with("QLinear") => {
            let mut shapes = vec![first];
            shapes.extend(node.shape(3).filter(|_| matches!(element, "add" | "mul")));
            pointwise(element)?;
            Some(vec![broadcast(&shapes)?])
        }
        _ if node.operator.starts_with("Reduce") && reduction(&lower).is_some() => {
            let axes = match node.list("axes", 1) {
                Some(axes) => axes,
                None if node.has(1) => return None,
                None => Vec::new(),
            };
            if axes.is_empty() && node.integer("noop_with_empty_axes") == Some(1) {
                return Some(vec![first.to_vec()]);
            }
            Some(vec![reduced(first, &axes, node.integer("keepdims") != Some(0))?])
        }
        _ => {
            pointwise(&lower)?;
            Some(vec![broadcast(&node.shapes())?])
        }
    }
}

/// A shape with some dimensions brought together, all where none is named.
fn reduced(shape: &[u64], axes: &[i64], keep: bool) -> Option<Shape> {
    let axes: Vec<usize> = if axes.is_empty() {
        (0..shape.len()).collect()
    } else {
        axes.iter().map(|&at| axis(at, shape.len())).collect::<Option<_>>()?
    };
    let sizes = shape.iter().enumerate().filter_map(|(index, &size)| match (axes.contains(&index), keep) {
        (true, true) => Some(1),
        (true, false) => None,
        (false, _) => Some(size),
    });
    Some(sizes.collect())
}

/// Whether all operands have as many elements as they claim: used before their values are.
pub(super) fn consistent(operand: &Operand) -> bool {
    let elements = count(&operand.shape).and_then(|count| usize::try_from(count).ok());
    match (&operand.known, elements) {
        (None, _) => true,
        (Some(super::node::Known::Integers(values)), Some(count)) => values.len() == count,
        (Some(super::node::Known::Floats(values)), Some(count)) => values.len() == count,
        (Some(_), None) => false,
    }
}

//! Layers as ONNX nodes.

use flopgap_flops::operator::Cell;
use flopgap_flops::{Activation, AttentionMask, Precision};
use rten_onnx::onnx::AttributeProto;

use super::model::{Writer, float, integer, integers, text};
use super::refused::refused;
use crate::error::GraphError;
use crate::op::{Conv, Elementwise, ElementwiseFunction, NormFunction, Op, Pool, PoolFunction};

/// Writes the nodes of a layer, and those that round its result to 8 bits.
pub(super) fn write(writer: &mut Writer<'_>, index: usize) -> Result<(), GraphError> {
    let layer = &writer.graph.layers[index];
    let Some(op) = &layer.op else { return Err(refused(&layer.name, "it has no known operation")) };
    let Some(&output) = layer.outputs.first() else {
        return Err(refused(&layer.name, "it writes nothing"));
    };
    let name = layer.name.as_str();
    let result = writer.graph.tensors[output].name.clone();
    let operands = operands(writer, index)?;
    let inputs: Vec<&str> = operands.iter().map(String::as_str).collect();
    match op {
        Op::Gemm(gemm) if gemm.batch == 1 => {
            writer.node(name, "Gemm", &inputs, &result, vec![integer("transB", 1)]);
        }
        Op::Gemm(_) => writer.node(name, "MatMul", &inputs, &result, Vec::new()),
        Op::Conv(conv) => convolution(writer, name, conv, &inputs, &result),
        Op::Pool(pool) => pooling(writer, name, pool, &inputs, &result)?,
        Op::Elementwise(op) => elementwise(writer, name, op, &inputs, &result)?,
        Op::Softmax { .. } => writer.node(name, "Softmax", &inputs, &result, vec![integer("axis", -1)]),
        Op::Norm(norm) => normalization(writer, name, norm.function, index, &inputs, &result)?,
        Op::Attention(attention) => {
            let plain = attention.kv_heads == attention.heads && attention.value_width.is_none();
            if attention.mask != AttentionMask::Full || !plain {
                return Err(refused(
                    name,
                    "only attention over all pairs, with keys for each head and values as wide, is supported",
                ));
            }
            self::attention(writer, name, attention.head_width, &inputs, &result);
        }
        Op::Recurrent(recurrent) => {
            let operator = match recurrent.cell {
                Cell::Rnn => "RNN",
                Cell::Gru => "GRU",
                Cell::Lstm => "LSTM",
            };
            let direction = if recurrent.directions == 2 { "bidirectional" } else { "forward" };
            let attributes =
                vec![integer("hidden_size", recurrent.hidden.cast_signed()), text("direction", direction)];
            writer.node(name, operator, &inputs, &result, attributes);
        }
        Op::Gather { .. } => writer.node(name, "Gather", &inputs, &result, vec![integer("axis", 0)]),
        Op::Reduce { .. } => {
            let axes = format!("{name}.axes");
            writer.integers(&axes, &[-1]);
            let attributes = vec![integer("keepdims", 0)];
            writer.node(name, "ReduceSum", &[inputs[0], &axes], &result, attributes);
        }
        Op::GridSample(_) | Op::EmbeddingBag(_) | Op::GroupedGemm(_) => {
            return Err(refused(name, "what data points at is not written"));
        }
        Op::Copy { .. } => writer.node(name, "Transpose", &inputs, &result, Vec::new()),
        Op::View => {
            let shape = format!("{name}.shape");
            let sizes: Vec<i64> = writer.shape(output).iter().map(|&size| size.cast_signed()).collect();
            writer.integers(&shape, &sizes);
            writer.node(name, "Reshape", &[inputs[0], &shape], &result, Vec::new());
        }
        Op::Empty => return Err(refused(name, "ONNX has no operation that does nothing")),
    }
    if writer.precision == Precision::Int8 && !rectified_next(writer, index) {
        writer.quantized(output, &result);
    }
    Ok(())
}

/// Whether the one layer that reads the result of this one is a `ReLU`, which an 8-bit kernel
/// applies itself.
fn rectified_next(writer: &Writer<'_>, index: usize) -> bool {
    let graph = writer.graph;
    let fuses = match &graph.layers[index].op {
        Some(Op::Gemm(_) | Op::Conv(_)) => true,
        Some(Op::Elementwise(op)) => op.function == ElementwiseFunction::Add,
        _ => false,
    };
    let outputs = &graph.layers[index].outputs;
    let mut readers =
        graph.layers.iter().filter(|layer| layer.inputs.iter().any(|input| outputs.contains(input)));
    let relu = |op: &Op| {
        let function = ElementwiseFunction::Activation(Activation::Relu);
        matches!(op, Op::Elementwise(op) if op.function == function)
    };
    fuses
        && readers.next().is_some_and(|layer| layer.op.as_ref().is_some_and(relu))
        && readers.next().is_none()
        && !outputs.iter().any(|output| graph.outputs.contains(output))
}

/// The names under which a layer reads its operands.
fn operands(writer: &mut Writer<'_>, index: usize) -> Result<Vec<String>, GraphError> {
    let layer = &writer.graph.layers[index];
    let product = matches!(layer.op, Some(Op::Gemm(_) | Op::Conv(_)));
    let narrow = writer.precision == Precision::Int8 && product;
    let mut weights = 1.0;
    let mut names = Vec::new();
    for (place, &tensor) in layer.inputs.iter().enumerate() {
        let parameter = writer.graph.tensors[tensor].parameter;
        names.push(match place {
            1 if narrow && parameter => {
                let (name, scale) = writer.weights(tensor)?;
                weights = scale;
                name
            }
            2 if narrow && parameter => {
                let input = writer.scales[layer.inputs[0]].map_or(1.0, |scale| scale.scale);
                writer.bias(tensor, input * weights)?
            }
            _ => writer.operand(tensor)?,
        });
    }
    Ok(names)
}

/// Padding as ONNX has it: all beginnings, then all ends.
fn pads(padding: &[[u64; 2]]) -> Vec<i64> {
    padding.iter().map(|pad| pad[0]).chain(padding.iter().map(|pad| pad[1])).map(u64::cast_signed).collect()
}

fn sizes(name: &str, values: &[u64]) -> AttributeProto {
    integers(name, values.iter().map(|&value| value.cast_signed()).collect())
}

fn convolution(writer: &mut Writer<'_>, name: &str, conv: &Conv, inputs: &[&str], result: &str) {
    let mut attributes = vec![
        integer("group", conv.groups.cast_signed()),
        sizes("kernel_shape", &conv.kernel),
        sizes("strides", &conv.stride),
        sizes("dilations", &conv.dilation),
        integers("pads", pads(&conv.padding)),
    ];
    if conv.transposed && !conv.output_padding.is_empty() {
        attributes.push(sizes("output_padding", &conv.output_padding));
    }
    let operator = if conv.transposed { "ConvTranspose" } else { "Conv" };
    writer.node(name, operator, inputs, result, attributes);
}

fn pooling(
    writer: &mut Writer<'_>,
    name: &str,
    pool: &Pool,
    inputs: &[&str],
    result: &str,
) -> Result<(), GraphError> {
    if pool.function == PoolFunction::Average
        && pool.kernel == pool.image
        && pool.output.iter().all(|&size| size == 1)
    {
        writer.node(name, "GlobalAveragePool", inputs, result, Vec::new());
        return Ok(());
    }
    let mut attributes = vec![sizes("kernel_shape", &pool.kernel), sizes("strides", &pool.stride)];
    let padding = if pool.padding.is_empty() { vec![[0, 0]; pool.image.len()] } else { pool.padding.clone() };
    attributes.push(integers("pads", pads(&padding)));
    let rounded_up = (0..pool.image.len()).map(|dimension| {
        let (Some(&kernel), Some(&stride), Some(&size), Some(&image), Some(pad)) = (
            pool.kernel.get(dimension),
            pool.stride.get(dimension),
            pool.output.get(dimension),
            pool.image.get(dimension),
            padding.get(dimension),
        ) else {
            return Err(refused(name, "its sizes differ in the number of dimensions"));
        };
        let room = (image + pad[0] + pad[1]).checked_sub(kernel).filter(|_| stride > 0);
        match room.map(|room| (room / stride + 1, room.div_ceil(stride) + 1)) {
            Some((floor, _)) if floor == size => Ok(false),
            Some((_, ceiling)) if ceiling == size => Ok(true),
            _ => Err(refused(name, "its output does not match the number of windows that fit")),
        }
    });
    if rounded_up.collect::<Result<Vec<_>, _>>()?.contains(&true) {
        attributes.push(integer("ceil_mode", 1));
    }
    let operator = match pool.function {
        PoolFunction::Max => "MaxPool",
        PoolFunction::Average => {
            attributes.push(integer("count_include_pad", 1));
            "AveragePool"
        }
    };
    writer.node(name, operator, inputs, result, attributes);
    Ok(())
}

fn elementwise(
    writer: &mut Writer<'_>,
    name: &str,
    op: &Elementwise,
    inputs: &[&str],
    result: &str,
) -> Result<(), GraphError> {
    // A function of two operands with one given has a constant for the other.
    let constant = format!("{name}.constant");
    let mut pair = inputs.to_vec();
    let two = |writer: &mut Writer<'_>, pair: &mut Vec<&str>, operator: &str| {
        if pair.len() == 1 {
            writer.floats(&constant, &[], &[1.5]);
        }
        let both = if pair.len() == 1 { vec![pair[0], &constant] } else { pair.clone() };
        writer.node(name, operator, &both, result, Vec::new());
    };
    match op.function {
        ElementwiseFunction::Add => two(writer, &mut pair, "Add"),
        ElementwiseFunction::Mul => two(writer, &mut pair, "Mul"),
        ElementwiseFunction::Div => two(writer, &mut pair, "Div"),
        ElementwiseFunction::Compare => two(writer, &mut pair, "Max"),
        ElementwiseFunction::Simple => writer.node(name, "Abs", &inputs[..1], result, Vec::new()),
        ElementwiseFunction::Several(4) => writer.node(name, "HardSigmoid", &inputs[..1], result, Vec::new()),
        ElementwiseFunction::Several(5) => writer.node(name, "HardSwish", &inputs[..1], result, Vec::new()),
        ElementwiseFunction::Several(_) => {
            return Err(refused(name, "only functions of 4 or 5 FLOPs are supported"));
        }
        ElementwiseFunction::Transcendental => writer.node(name, "Exp", &inputs[..1], result, Vec::new()),
        ElementwiseFunction::Quantize => {
            return Err(refused(name, "conversions to 8 bits are only written for int8 models"));
        }
        ElementwiseFunction::Activation(activation) => {
            self::activation(writer, name, activation, inputs[0], result);
        }
    }
    Ok(())
}

fn activation(writer: &mut Writer<'_>, name: &str, activation: Activation, input: &str, result: &str) {
    let (operator, attributes) = match activation {
        Activation::Identity => ("Identity", Vec::new()),
        Activation::Relu => ("Relu", Vec::new()),
        Activation::LeakyRelu => ("LeakyRelu", vec![float("alpha", 0.01)]),
        Activation::Sigmoid => ("Sigmoid", Vec::new()),
        Activation::Tanh => ("Tanh", Vec::new()),
        Activation::Gelu => ("Gelu", vec![text("approximate", "none")]),
        Activation::GeluTanh => ("Gelu", vec![text("approximate", "tanh")]),
        // An operator of its own only from operator set 24 on.
        Activation::Silu => {
            let gate = format!("{name}.gate");
            writer.node(&gate, "Sigmoid", &[input], &gate, Vec::new());
            writer.node(name, "Mul", &[input, &gate], result, Vec::new());
            return;
        }
    };
    writer.node(name, operator, &[input], result, attributes);
}

fn normalization(
    writer: &mut Writer<'_>,
    name: &str,
    function: NormFunction,
    index: usize,
    inputs: &[&str],
    result: &str,
) -> Result<(), GraphError> {
    let shape = writer.shape(writer.graph.layers[index].inputs[0]);
    let columns = shape.last().copied().unwrap_or(1);
    let ones = format!("{name}.ones");
    let mut operands = inputs.to_vec();
    match function {
        NormFunction::BatchInference => {
            if inputs.len() != 5 {
                return Err(refused(name, "a batch norm needs four vectors of parameters"));
            }
            writer.node(name, "BatchNormalization", inputs, result, Vec::new());
        }
        NormFunction::Layer | NormFunction::Group => {
            if inputs.len() == 1 {
                let values = vec![1.0; usize::try_from(columns).unwrap_or(0)];
                writer.floats(&ones, &[columns], &values);
                operands.push(&ones);
            }
            operands.truncate(3);
            writer.node(name, "LayerNormalization", &operands, result, vec![integer("axis", -1)]);
        }
        // Spelled out, as exporters do: runtimes know the pattern, and the operator only from set
        // 23 on.
        NormFunction::Rms => {
            let part = |what: &str| format!("{name}.{what}");
            let [two, epsilon, axes] = [part("two"), part("epsilon"), part("axes")];
            let [square, mean, safe, root, normal] =
                [part("square"), part("mean"), part("safe"), part("root"), part("normal")];
            writer.floats(&two, &[], &[2.0]);
            writer.floats(&epsilon, &[], &[1e-5]);
            writer.integers(&axes, &[-1]);
            writer.node(&square, "Pow", &[inputs[0], &two], &square, Vec::new());
            writer.node(&mean, "ReduceMean", &[&square, &axes], &mean, vec![integer("keepdims", 1)]);
            writer.node(&safe, "Add", &[&mean, &epsilon], &safe, Vec::new());
            writer.node(&root, "Sqrt", &[&safe], &root, Vec::new());
            match inputs.get(1) {
                Some(gain) => {
                    writer.node(&normal, "Div", &[inputs[0], &root], &normal, Vec::new());
                    writer.node(name, "Mul", &[&normal, gain], result, Vec::new());
                }
                None => writer.node(name, "Div", &[inputs[0], &root], result, Vec::new()),
            }
        }
    }
    Ok(())
}

/// Scores, their softmax, the weighted sum: what runtimes without fused attention run.
fn attention(writer: &mut Writer<'_>, name: &str, width: u64, inputs: &[&str], result: &str) {
    let part = |what: &str| format!("{name}.{what}");
    let [keys, scores, scale, scaled, weights] =
        [part("keys"), part("scores"), part("scale"), part("scaled"), part("weights")];
    writer.floats(&scale, &[], &[1.0 / (width.max(1) as f32).sqrt()]);
    writer.node(&keys, "Transpose", &inputs[1..2], &keys, vec![integers("perm", vec![0, 1, 3, 2])]);
    writer.node(&scores, "MatMul", &[inputs[0], &keys], &scores, Vec::new());
    writer.node(&scaled, "Mul", &[&scores, &scale], &scaled, Vec::new());
    writer.node(&weights, "Softmax", &[&scaled], &weights, vec![integer("axis", -1)]);
    writer.node(name, "MatMul", &[&weights, inputs[2]], result, Vec::new());
}

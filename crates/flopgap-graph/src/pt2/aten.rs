//! The meaning of `ATen` operators.

use flopgap_flops::Activation;
use flopgap_flops::operator::Interpolation;

use super::call::Call;
use super::views::is_view;
use crate::graph::Layout;
use crate::import::{
    Meaning, Window, attention, batch_norm, channel_norm, convolution, count, einsum, elementwise,
    embedding_bag, gather, grid_sample, is_among, linear, matmul, norm, pointwise, pooling, reduce,
    reduction, same_padding, softmax,
};
use crate::op::{ElementwiseFunction, GroupedGemm, NormFunction, Op, PoolFunction};

/// Attention of queries, keys and values.
const ATTENTION: &str = "scaled_dot_product_attention _scaled_dot_product_flash_attention \
    _scaled_dot_product_flash_attention_for_cpu _scaled_dot_product_efficient_attention \
    _scaled_dot_product_cudnn_attention _scaled_dot_product_fused_attention_overrideable \
    _scaled_dot_product_attention_math";

/// Convolutions; `transposed` is in the name or an argument.
const CONVOLUTIONS: &str = "conv1d conv2d conv3d convolution _convolution conv_transpose1d conv_transpose2d \
    conv_transpose3d cudnn_convolution mkldnn_convolution";

/// Pools, with the number of dimensions behind the word.
const POOLS: &str = "max_pool1d max_pool2d max_pool3d max_pool1d_with_indices max_pool2d_with_indices \
    max_pool3d_with_indices avg_pool1d avg_pool2d avg_pool3d";

/// Pools to an output of given size.
const ADAPTIVE_POOLS: &str = "adaptive_avg_pool1d adaptive_avg_pool2d adaptive_avg_pool3d _adaptive_avg_pool2d \
    _adaptive_avg_pool3d adaptive_max_pool1d adaptive_max_pool2d adaptive_max_pool3d";

/// What moves pixels.
const PIXEL_COPIES: &str = "pixel_shuffle pixel_unshuffle channel_shuffle im2col upsample_nearest1d upsample_nearest2d \
    upsample_nearest3d _upsample_nearest_exact1d _upsample_nearest_exact2d \
    _upsample_nearest_exact3d";

/// Normalizations with statistics by channel.
const BATCH_NORMS: &str = "batch_norm native_batch_norm _native_batch_norm_legit _native_batch_norm_legit_no_training \
    _batch_norm_no_update cudnn_batch_norm";

/// What changes the view or allocates, and moves nothing.
const VIEWS: &str = "view _unsafe_view squeeze unsqueeze unflatten transpose permute t numpy_T mT mH adjoint \
    expand expand_as slice select split split_with_sizes chunk tensor_split unsafe_split \
    unsafe_chunk hsplit vsplit unbind narrow alias detach as_strided diagonal unfold movedim \
    moveaxis swapaxes swapdims view_as view_as_real view_as_complex lift lift_fresh real imag \
    item _local_scalar_dense getitem atleast_1d atleast_2d atleast_3d broadcast_to \
    _assert_tensor_metadata _assert_async _assert_scalar sym_size sym_numel sym_stride \
    sym_constrain_range sym_constrain_range_for_size _print requires_grad resolve_conj \
    resolve_neg squeeze_copy view_copy meshgrid broadcast_tensors \
    empty empty_like empty_strided empty_permuted new_empty new_empty_strided";

/// What moves or fills elements.
const COPIES: &str = "clone _to_copy lift_fresh_copy cat concat concatenate stack hstack vstack dstack pad \
    constant_pad_nd reflection_pad1d reflection_pad2d reflection_pad3d replication_pad1d \
    replication_pad2d replication_pad3d circular_pad roll flip fliplr flipud rot90 repeat tile \
    repeat_interleave copy index_put _unsafe_index_put index_copy index_fill scatter \
    slice_scatter select_scatter masked_scatter fill zero zeros zeros_like ones ones_like full \
    full_like new_zeros new_ones new_full scalar_tensor arange eye linspace one_hot permute_copy expand_copy \
    slice_copy select_copy transpose_copy unsqueeze_copy alias_copy diag_embed _conj complex";

/// The meaning of a call, by its operator. An operator that is not known has no operation.
pub(super) fn meaning(call: &Call<'_>) -> Meaning {
    products(call)
        .or_else(|| windows(call))
        .or_else(|| norms(call))
        .or_else(|| views(call))
        .or_else(|| copies(call))
        .or_else(|| picks(call))
        .or_else(|| functions(call))
        .unwrap_or_else(Meaning::unknown)
}

/// Products of matrices, and attention.
fn products(call: &Call<'_>) -> Option<Meaning> {
    let shape = |argument: &str| call.shape(call.position(argument)?);
    let of = |op: Option<Op>, arguments: &[&str]| {
        Meaning::of(op).ordered(arguments.iter().map(|argument| call.position(argument)))
    };
    let pair = |a: &str, b: &str| matmul(shape(a)?, shape(b)?);
    Some(match call.name {
        "linear" => {
            let op = shape("input").zip(shape("weight")).and_then(|(x, weights)| linear(x, weights));
            of(op, &["input", "weight", "bias"])
        }
        "addmm" => of(pair("mat1", "mat2"), &["mat1", "mat2", "self"]),
        "baddbmm" | "addbmm" => of(pair("batch1", "batch2"), &["batch1", "batch2", "self"]),
        "addmv" => of(pair("mat", "vec"), &["mat", "vec", "self"]),
        "_grouped_mm" | "_scaled_grouped_mm" | "grouped_mm_fallback" => {
            let left = call.position("self").or(call.position("input"))?;
            let right = call.position("mat2").or(call.position("weight"))?;
            let op = grouped(call.shape(left)?, call.shape(right)?);
            Meaning::of(op).ordered([Some(left), Some(right), call.position("offs")])
        }
        "mm" | "bmm" => of(pair("self", "mat2"), &["self", "mat2"]),
        "_int_mm" | "_scaled_mm" => of(pair("self", "mat2"), &["self", "mat2", "bias"]),
        "mv" => of(pair("self", "vec"), &["self", "vec"]),
        "matmul" | "linalg_matmul" => of(pair("self", "other"), &["self", "other"]),
        "dot" | "vdot" | "inner" if call.operands.len() == 2 => matmul(call.shape(0)?, call.shape(1)?).into(),
        "outer" | "ger" => {
            let [m, n] = call.output()?.shape.as_slice() else { return None };
            matmul(&[*m, 1], &[1, *n]).into()
        }
        "einsum" => call
            .text("equation")
            .and_then(|equation| einsum(equation, &call.shapes(), &call.output()?.shape))
            .into(),
        name if is_among(name, ATTENTION) => {
            let causal = (call.truth("is_causal") == Some(true)).then_some(0);
            let op = shape("query").zip(shape("key")).zip(shape("value"));
            op.and_then(|((query, key), value)| attention(query, key, value, causal)).into()
        }
        _ => return None,
    })
}

/// Products whose rows, columns or inner sums are divided into groups: of two operands of three
/// dimensions, a batch.
fn grouped(left: &[u64], right: &[u64]) -> Option<Op> {
    let groups = match (left, right) {
        ([_, _, _], [_, _, _]) => return matmul(left, right),
        ([_, _], [groups, _, _]) | ([groups, _, _], [_, _]) => *groups,
        ([_, _], [_, _]) => 1,
        _ => return None,
    };
    let ([.., m, k], [.., inner, n]) = (left, right) else { return None };
    (k == inner).then_some(Op::GroupedGemm(GroupedGemm { groups, m: *m, n: *n, k: *k }))
}

/// Convolutions, pools and what scales images.
fn windows(call: &Call<'_>) -> Option<Meaning> {
    let output = || Some(call.output()?.shape.as_slice());
    let pads = |argument: &str| call.sizes(argument).into_iter().map(|pad| [pad; 2]).collect::<Vec<_>>();
    Some(match call.name {
        name if is_among(name, CONVOLUTIONS) => {
            let op = || {
                let (x, weights) = (
                    call.shape(call.position("input").or(call.position("self"))?)?,
                    call.shape(call.position("weight")?)?,
                );
                let mut window = Window {
                    stride: call.sizes("stride"),
                    dilation: call.sizes("dilation"),
                    padding: pads("padding"),
                    output_padding: call.sizes("output_padding"),
                    groups: call.integer("groups").and_then(|groups| u64::try_from(groups).ok()).unwrap_or(1),
                    transposed: name.starts_with("conv_transpose") || call.truth("transposed") == Some(true),
                    kernel: Vec::new(),
                };
                if call.text("padding") == Some("same") {
                    window.padding = same(x, weights, output()?, &window)?;
                }
                convolution(x, weights, output()?, &window)
            };
            let first = call.position("input").or(call.position("self"));
            Meaning::of(op()).ordered([first, call.position("weight"), call.position("bias")])
        }
        name if is_among(name, POOLS) => {
            let op = || {
                let x = call.shape(0)?;
                let rank = usize::from(name.as_bytes().get(8)? - b'0');
                let mut kernel = call.sizes("kernel_size");
                if let [one] = kernel.as_slice() {
                    kernel = vec![*one; rank];
                }
                let window = Window {
                    kernel,
                    stride: call.sizes("stride"),
                    dilation: call.sizes("dilation"),
                    padding: pads("padding"),
                    ..Window::default()
                };
                pooling(function(name), x, output()?, &window)
            };
            op().into()
        }
        name if is_among(name, ADAPTIVE_POOLS) => {
            let rank = usize::from(name.trim_start_matches('_').as_bytes().get(17)? - b'0');
            call.shape(0)
                .zip(output())
                .and_then(|(x, output)| adaptive(function(name), x, output, rank))
                .into()
        }
        name if is_among(name, PIXEL_COPIES) => copied(call).into(),
        "grid_sampler" | "grid_sampler_2d" | "grid_sampler_3d" => {
            let op = || {
                let interpolation = match call.integer("interpolation_mode")? {
                    0 => Interpolation::Linear,
                    1 => Interpolation::Nearest,
                    _ => Interpolation::Cubic,
                };
                let padding =
                    *["zeros", "border"].get(usize::try_from(call.integer("padding_mode")?).ok()?)?;
                let aligned = call.truth("align_corners")?;
                grid_sample(call.shape(0)?, call.shape(1)?, interpolation, padding, aligned)
            };
            op().into()
        }
        // A weighted sum of the two, four, eight or sixteen nearest pixels.
        "upsample_linear1d" => scaled(call, 3).into(),
        "upsample_bilinear2d" | "_upsample_bilinear2d_aa" => scaled(call, 7).into(),
        "upsample_trilinear3d" => scaled(call, 15).into(),
        "upsample_bicubic2d" | "_upsample_bicubic2d_aa" => scaled(call, 31).into(),
        _ => return None,
    })
}

fn function(name: &str) -> PoolFunction {
    if name.contains("max") { PoolFunction::Max } else { PoolFunction::Average }
}

/// The padding of `padding="same"`.
fn same(x: &[u64], weights: &[u64], output: &[u64], window: &Window) -> Option<Vec<[u64; 2]>> {
    let rank = weights.len().checked_sub(2)?;
    let tail = |shape: &[u64]| shape.get(shape.len().checked_sub(rank)?..).map(<[u64]>::to_vec);
    let (image, output) = (tail(x)?, tail(output)?);
    let at = |list: &[u64], index: usize| list.get(index).or(list.first()).copied().unwrap_or(1);
    (0..rank)
        .map(|index| {
            same_padding(
                image[index],
                output[index],
                weights[2 + index],
                at(&window.stride, index),
                at(&window.dilation, index),
            )
        })
        .collect()
}

/// Pooling to an output of given size. Where the sizes do not divide, windows overlap: output `i`
/// of `n` takes `floor(i s / n)` up to `ceil((i + 1) s / n)`, and the elements of all of them are
/// what is brought together.
fn adaptive(function: PoolFunction, x: &[u64], output: &[u64], rank: usize) -> Option<Op> {
    let image = x.get(x.len().checked_sub(rank)?..)?;
    let positions = output.get(output.len().checked_sub(rank)?..)?;
    let whole = image.iter().zip(positions).all(|(&size, &count)| count > 0 && size.is_multiple_of(count));
    if whole {
        let kernel: Vec<u64> = image.iter().zip(positions).map(|(size, count)| size / count).collect();
        // One window is not moved.
        let stride = if positions.iter().all(|&count| count == 1) { vec![1] } else { kernel.clone() };
        return pooling(function, x, output, &Window { kernel, stride, ..Window::default() });
    }
    let mut inputs = count(x.get(..x.len() - rank)?)?;
    for (&size, &positions) in image.iter().zip(positions) {
        if positions == 0 || positions > 1 << 20 {
            return None;
        }
        let mut elements = 0_u64;
        for index in 0..positions {
            let end = (index + 1).checked_mul(size)?.div_ceil(positions);
            elements = elements.checked_add(end - index * size / positions)?;
        }
        inputs = inputs.checked_mul(elements)?;
    }
    Some(Op::Reduce { inputs, outputs: count(output)? })
}

fn scaled(call: &Call<'_>, flops: u8) -> Option<Op> {
    elementwise(ElementwiseFunction::Several(flops), &[call.shape(0)?], &call.output()?.shape)
}

/// Normalizations and softmax.
fn norms(call: &Call<'_>) -> Option<Meaning> {
    let first = call.shape(0)?;
    let affine = call.elements(&["weight", "bias"]);
    let dimension = || call.integer("dim").unwrap_or(-1);
    Some(match call.name {
        name if is_among(name, BATCH_NORMS) => {
            let training = call.training || call.truth("training").or(call.truth("train")) == Some(true);
            let parameters = affine.saturating_add(call.elements(&["running_mean", "running_var"]));
            batch_norm(first, training, parameters).into()
        }
        "layer_norm" | "native_layer_norm" => {
            norm(NormFunction::Layer, first, normalized(call)?, affine).into()
        }
        "rms_norm" | "_fused_rms_norm" => norm(NormFunction::Rms, first, normalized(call)?, affine).into(),
        "group_norm" => {
            let groups = call.integer("num_groups").and_then(|groups| u64::try_from(groups).ok())?;
            channel_norm(first, groups, affine).into()
        }
        "native_group_norm" => {
            let groups = call.integer("group").and_then(|groups| u64::try_from(groups).ok())?;
            channel_norm(first, groups, affine).into()
        }
        "instance_norm" => channel_norm(first, *first.get(1)?, affine).into(),
        "softmax" | "_softmax" | "log_softmax" | "_log_softmax" | "_safe_softmax" | "special_softmax" => {
            softmax(first, dimension()).into()
        }
        _ => return None,
    })
}

/// Elements of the dimensions that a norm goes over.
fn normalized(call: &Call<'_>) -> Option<u64> {
    count(&call.sizes("normalized_shape"))
}

/// Operators that change the view, unless they must copy.
fn views(call: &Call<'_>) -> Option<Meaning> {
    let first = call.tensor(0);
    let sizes = || call.shape(0);
    Some(match call.name {
        name if is_among(name, VIEWS) => Op::View.into(),
        "reshape" | "flatten" | "reshape_as" | "ravel" => {
            let view = is_view(sizes()?, &first?.strides, &call.output()?.shape);
            if view { Op::View.into() } else { copied(call).into() }
        }
        "contiguous" => {
            if first?.layout() == Layout::Rows {
                Op::View.into()
            } else {
                copied(call).into()
            }
        }
        // Nothing moves if the type stays the same.
        "to" | "type_as" => {
            let (from, to) = (call.tensor(0)?, call.output()?);
            let same = (from.element, from.element_bytes) == (to.element, to.element_bytes);
            if same { Op::View.into() } else { copied(call).into() }
        }
        "dropout" | "alpha_dropout" | "feature_dropout" | "native_dropout" | "feature_alpha_dropout" => {
            // PyTorch skips one that drops nothing.
            let drops = call.number("p").is_none_or(|share| share > 0.0);
            if drops && (call.training || call.truth("train") == Some(true)) {
                elementwise(ElementwiseFunction::Mul, &[sizes()?], &call.output()?.shape).into()
            } else {
                Op::View.into()
            }
        }
        _ => return None,
    })
}

/// Operators that move or fill elements.
fn copies(call: &Call<'_>) -> Option<Meaning> {
    Some(match call.name {
        name if is_among(name, COPIES) => copied(call).into(),
        _ => return None,
    })
}

/// Operators that select elements by index, or add to them.
fn picks(call: &Call<'_>) -> Option<Meaning> {
    Some(match call.name {
        "embedding" => {
            let table = call.shape(call.position("weight")?)?;
            let op = gather(&call.output()?.shape, *table.get(1)?);
            Meaning::of(op).ordered([call.position("weight"), call.position("indices")])
        }
        "embedding_bag" | "_embedding_bag" | "_embedding_bag_forward_only" => {
            let op = || {
                // Rows that are left out depend on data.
                if call.integer("padding_idx").is_some_and(|index| index >= 0) {
                    return None;
                }
                let (table, indexes) = (call.position("weight")?, call.position("indices")?);
                let (mode, weights) =
                    (call.integer("mode").unwrap_or(0), call.position("per_sample_weights"));
                let output = &call.output()?.shape;
                embedding_bag(call.shape(table)?, call.shape(indexes)?, output, mode, weights.is_some())
            };
            op().into()
        }
        "index_select" | "index" | "_unsafe_index" | "gather" | "take" | "take_along_dim"
        | "masked_select" => {
            let indexed = call.operands.iter().filter(|operand| operand.argument != "self").count();
            if indexed == 0 { Op::View.into() } else { gather(&call.output()?.shape, 1).into() }
        }
        "scatter_add" | "index_add" | "scatter_reduce" => {
            let source = call.position("src").or(call.position("source"))?;
            elementwise(ElementwiseFunction::Add, &call.shapes(), call.shape(source)?).into()
        }
        _ => return None,
    })
}

/// Operators that, in place, change as many elements of their first operand as another has, such as
/// a cache of keys that a token is put into. Filling by one number is none of them: how much it
/// fills depends on indexes.
pub(super) fn part(call: &Call<'_>) -> Option<Meaning> {
    let (argument, adds) = match call.name {
        "index_copy" => ("source", false),
        "index_put" | "_index_put_impl" => ("values", call.truth("accumulate") == Some(true)),
        "scatter" => ("src", false),
        "scatter_add" | "scatter_reduce" => ("src", true),
        "index_add" => ("source", true),
        _ => return None,
    };
    let position = call.position(argument)?;
    let shape = call.shape(position)?;
    let elements = count(shape).filter(|elements| *elements > 1)?;
    let op = if adds {
        elementwise(ElementwiseFunction::Add, &[shape, shape], shape)?
    } else {
        Op::Copy { elements }
    };
    let indexes = call
        .operands
        .iter()
        .enumerate()
        .filter(|(_, operand)| matches!(operand.argument, "index" | "indices"));
    let order = std::iter::once(position).chain(indexes.map(|(index, _)| index));
    Some(Meaning::of(Some(op)).ordered(order.map(Some)))
}

fn copied(call: &Call<'_>) -> Option<Op> {
    let mut elements = 0_u64;
    for &output in call.outputs {
        elements = elements.checked_add(call.tensors[output].elements().ok()?)?;
    }
    Some(Op::Copy { elements })
}

/// Functions of each element, and what brings many together.
fn functions(call: &Call<'_>) -> Option<Meaning> {
    let output = call.output()?;
    let plain: String = call.name.chars().filter(|&c| c != '_').collect::<String>().to_ascii_lowercase();
    let together = matches!(
        call.overload,
        "dim" | "names_dim" | "correction" | "dim_IntList" | "dims" | "default" | "dim_max"
    ) || call.overload.starts_with("dim")
        || plain == "linalgvectornorm";
    // `max` and `min` of two tensors are element-wise, of one a reduction.
    if let Some(factor) = reduction(&plain)
        .filter(|_| call.position("other").is_none() && (together || call.operands.len() == 1))
    {
        let op = reduce(call.shape(0)?, &output.shape);
        return Some(Meaning { op, order: None, factor, extra: 0 });
    }
    let function = match (plain.as_str(), call.text("approximate")) {
        ("gelu", Some("tanh")) => ElementwiseFunction::Activation(Activation::GeluTanh),
        // A square is one product.
        ("pow", _) if call.number("exponent") == Some(2.0) => ElementwiseFunction::Mul,
        (name, _) if name.starts_with("quantizeper") || name.starts_with("dequantizeper") => {
            ElementwiseFunction::Quantize
        }
        (name, _) => pointwise(name)?,
    };
    Some(elementwise(function, &call.shapes(), &output.shape).into())
}

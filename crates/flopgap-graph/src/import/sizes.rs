//! Operations from the shapes of their operands. `None`: the shapes fit no formula.

use flopgap_flops::operator::{Bag, EmbeddingBag, GridSample, Interpolation, window_positions};
use flopgap_flops::{Attention, AttentionMask};

use crate::op::{Conv, Elementwise, ElementwiseFunction, Gemm, Norm, NormFunction, Op, Pool, PoolFunction};

/// Elements of a tensor of this shape.
pub(crate) fn count(shape: &[u64]) -> Option<u64> {
    crate::op::product("elements", shape).ok()
}

/// A function of each element: reads each operand once.
pub(crate) fn elementwise(function: ElementwiseFunction, inputs: &[&[u64]], output: &[u64]) -> Option<Op> {
    let elements = count(output)?;
    let mut read = 0_u64;
    for input in inputs {
        read = read.checked_add(count(input)?)?;
    }
    Some(Op::Elementwise(Elementwise { function, elements, read: read.max(elements.min(1)) }))
}

/// `y = x W^T`, weights `n x k` or a vector.
pub(crate) fn linear(x: &[u64], weights: &[u64]) -> Option<Op> {
    let (n, k) = match weights {
        [n, k] => (*n, *k),
        [k] => (1, *k),
        _ => return None,
    };
    let (last, rows) = x.split_last()?;
    if *last != k {
        return None;
    }
    Some(Op::Gemm(Gemm { batch: 1, m: count(rows)?, n, k }))
}

/// A product as `NumPy` and ONNX `MatMul` define it: leading dimensions are broadcast. One second
/// operand for all samples is one product.
#[expect(clippy::many_single_char_names, reason = "what the formula calls its sizes")]
pub(crate) fn matmul(a: &[u64], b: &[u64]) -> Option<Op> {
    let (m, k, a_batch) = match a {
        [k] => (1, *k, &[][..]),
        [batch @ .., m, k] => (*m, *k, batch),
        [] => return None,
    };
    let (inner, n, b_batch) = match b {
        [k] => (*k, 1, &[][..]),
        [batch @ .., k, n] => (*k, *n, batch),
        [] => return None,
    };
    if inner != k {
        return None;
    }
    if count(b_batch)? == 1 {
        return Some(Op::Gemm(Gemm { batch: 1, m: count(a_batch)?.checked_mul(m)?, n, k }));
    }
    let rank = a_batch.len().max(b_batch.len());
    let size = |batch: &[u64], dimension: usize| {
        (dimension + batch.len()).checked_sub(rank).map_or(1, |index| batch[index])
    };
    let mut batch = 1_u64;
    for dimension in 0..rank {
        let (left, right) = (size(a_batch, dimension), size(b_batch, dimension));
        if left != right && left != 1 && right != 1 {
            return None;
        }
        batch = batch.checked_mul(left.max(right))?;
    }
    Some(Op::Gemm(Gemm { batch, m, n, k }))
}

/// The attributes of a window.
#[derive(Debug, Clone, Default)]
pub(crate) struct Window {
    /// Sizes; a list of one goes for all dimensions, an empty one takes the default.
    pub(crate) kernel: Vec<u64>,
    pub(crate) stride: Vec<u64>,
    pub(crate) dilation: Vec<u64>,
    pub(crate) padding: Vec<[u64; 2]>,
    pub(crate) output_padding: Vec<u64>,
    pub(crate) groups: u64,
    pub(crate) transposed: bool,
}

/// A list by dimension: as it is, or one value for all, or the default for all.
fn by_dimension<T: Copy>(values: &[T], rank: usize, default: T) -> Option<Vec<T>> {
    match values {
        [] => Some(vec![default; rank]),
        [one] => Some(vec![*one; rank]),
        many if many.len() == rank => Some(many.to_vec()),
        _ => None,
    }
}

/// The padding with which a window of this kind gives an output of this size.
pub(crate) fn same_padding(
    image: u64,
    output: u64,
    kernel: u64,
    stride: u64,
    dilation: u64,
) -> Option<[u64; 2]> {
    let reach = dilation.checked_mul(kernel.checked_sub(1)?)?.checked_add(1)?;
    let needed = output.checked_sub(1)?.checked_mul(stride)?.checked_add(reach)?.saturating_sub(image);
    Some([needed / 2, needed - needed / 2])
}

/// A convolution of an image (with or without a batch) with weights, that gives an output of this
/// shape.
pub(crate) fn convolution(x: &[u64], weights: &[u64], output: &[u64], window: &Window) -> Option<Op> {
    let rank = weights.len().checked_sub(2).filter(|&rank| rank > 0)?;
    let (batch, x, output) = match (x.len().checked_sub(rank)?, output.len().checked_sub(rank)?) {
        (2, 2) => (x[0], &x[1..], &output[1..]),
        (1, 1) => (1, x, output),
        _ => return None,
    };
    let groups = window.groups.max(1);
    let (inputs, outputs) = if window.transposed {
        (weights[0], weights[1].checked_mul(groups)?)
    } else {
        (weights[1].checked_mul(groups)?, weights[0])
    };
    if inputs != x[0] || outputs != output[0] {
        return None;
    }
    let conv = Conv {
        batch,
        inputs,
        outputs,
        groups,
        image: x[1..].to_vec(),
        kernel: weights[2..].to_vec(),
        stride: by_dimension(&window.stride, rank, 1)?,
        dilation: by_dimension(&window.dilation, rank, 1)?,
        padding: by_dimension(&window.padding, rank, [0, 0])?,
        transposed: window.transposed,
        output_padding: if window.transposed {
            by_dimension(&window.output_padding, rank, 0)?
        } else {
            Vec::new()
        },
    };
    (conv.output().ok()? == output[1..]).then_some(Op::Conv(conv))
}

/// A pooling of an image over windows; sizes as the output has them, however they were rounded.
pub(crate) fn pooling(function: PoolFunction, x: &[u64], output: &[u64], window: &Window) -> Option<Op> {
    let rank = window.kernel.len();
    let (planes, image) = x.split_at_checked(x.len().checked_sub(rank)?)?;
    let positions = output.get(output.len().checked_sub(rank)?..)?;
    let stride =
        if window.stride.is_empty() { window.kernel.clone() } else { by_dimension(&window.stride, rank, 1)? };
    let padding = by_dimension(&window.padding, rank, [0, 0])?;
    let dilation = by_dimension(&window.dilation, rank, 1)?;
    for index in 0..rank {
        let least = window_positions(
            image[index],
            window.kernel[index],
            stride[index],
            dilation[index],
            padding[index],
        );
        // One more where the last window may be cut off by the edge.
        let least = least.unwrap_or(0);
        if positions[index] != least && positions[index] != least + 1 {
            return None;
        }
    }
    Some(Op::Pool(Pool {
        function,
        planes: count(planes)?,
        image: image.to_vec(),
        output: positions.to_vec(),
        kernel: window.kernel.clone(),
        stride,
        padding,
    }))
}

/// A softmax along one dimension, counted from the end where negative.
pub(crate) fn softmax(shape: &[u64], dimension: i64) -> Option<Op> {
    if shape.is_empty() {
        return Some(Op::Softmax { rows: 1, columns: 1 });
    }
    let rank = i64::try_from(shape.len()).ok()?;
    let dimension = if dimension < 0 { dimension + rank } else { dimension };
    let columns = *shape.get(usize::try_from(dimension).ok()?)?;
    Some(Op::Softmax { rows: count(shape)?.checked_div(columns).unwrap_or(0), columns })
}

/// A normalization with statistics of rows of so many elements.
pub(crate) fn norm(function: NormFunction, shape: &[u64], columns: u64, parameters: u64) -> Option<Op> {
    let elements = count(shape)?;
    let rows = elements.checked_div(columns)?;
    (rows * columns == elements).then_some(Op::Norm(Norm { function, rows, columns, parameters }))
}

/// A normalization with statistics by channel, the second dimension.
pub(crate) fn batch_norm(shape: &[u64], training: bool, parameters: u64) -> Option<Op> {
    let rows = *shape.get(1)?;
    let columns = count(shape)?.checked_div(rows)?;
    let function = if training { NormFunction::Group } else { NormFunction::BatchInference };
    Some(Op::Norm(Norm { function, rows, columns, parameters }))
}

/// A normalization with statistics of groups of channels of each sample; as many groups as channels
/// is an instance norm.
pub(crate) fn channel_norm(shape: &[u64], groups: u64, parameters: u64) -> Option<Op> {
    let rows = shape.first()?.checked_mul(groups)?;
    norm(NormFunction::Group, shape, count(shape)?.checked_div(rows)?, parameters)
}

/// Attention of queries `… heads length width` over keys `… heads length width`; where it is
/// causal, the first query sees one key more than `causal` says.
///
/// No query reads the keys after those of the last one, so these are left out. `None` also for
/// causal attention with queries after the last key, which is not a triangle.
pub(crate) fn attention(query: &[u64], key: &[u64], value: &[u64], causal: Option<u64>) -> Option<Op> {
    let split = |shape: &[u64]| match shape {
        [batch @ .., heads, length, width] => Some((count(batch)?, *heads, *length, *width)),
        [length, width] => Some((1, 1, *length, *width)),
        _ => None,
    };
    let ((batch, heads, queries, width), (_, kv_heads, keys, key_width)) = (split(query)?, split(key)?);
    let (_, _, _, value_width) = split(value)?;
    if width != key_width || kv_heads == 0 || !heads.is_multiple_of(kv_heads) {
        return None;
    }
    let (keys, mask) = match causal {
        None => (keys, AttentionMask::Full),
        Some(before) => (before.checked_add(queries).filter(|&seen| seen <= keys)?, AttentionMask::Causal),
    };
    let value_width = Some(value_width).filter(|&value_width| value_width != width);
    Some(Op::Attention(Attention {
        batch,
        heads,
        kv_heads,
        queries,
        keys,
        head_width: width,
        value_width,
        mask,
    }))
}

/// Rows of `width` elements picked out of a table to fill an output.
pub(crate) fn gather(output: &[u64], width: u64) -> Option<Op> {
    Some(Op::Gather { rows: count(output)?.checked_div(width).unwrap_or(0), width })
}

/// Images `batch channels …` sampled at points `batch … coordinates`; `padding` is what is beyond
/// the edges. `None` also where coordinates are reflected, which takes as long as they are far.
pub(crate) fn grid_sample(
    image: &[u64],
    grid: &[u64],
    interpolation: Interpolation,
    padding: &str,
    align_corners: bool,
) -> Option<Op> {
    let ([batch, channels, image @ ..], [_, points @ .., dimensions]) = (image, grid) else { return None };
    let dimensions = u32::try_from(*dimensions).ok().filter(|&dimensions| matches!(dimensions, 2 | 3))?;
    let fits = image.len() == dimensions as usize && points.len() == image.len();
    let cubic = interpolation == Interpolation::Cubic && dimensions != 2;
    if !fits || cubic || padding == "reflection" {
        return None;
    }
    Some(Op::GridSample(GridSample {
        interpolation,
        batch: *batch,
        channels: *channels,
        pixels: count(image)?,
        points: count(points)?,
        dimensions,
        align_corners,
        clamped: padding == "border",
    }))
}

/// Rows of a table `rows width` brought together in bags; `mode` is that of `PyTorch`.
pub(crate) fn embedding_bag(
    table: &[u64],
    indexes: &[u64],
    output: &[u64],
    mode: i64,
    weighted: bool,
) -> Option<Op> {
    let ([_, width], [bags, _]) = (table, output) else { return None };
    let function = match mode {
        0 => Bag::Sum,
        1 => Bag::Mean,
        2 => Bag::Max,
        _ => return None,
    };
    let (rows, width, bags) = (count(indexes)?, *width, *bags);
    Some(Op::EmbeddingBag(EmbeddingBag { function, rows, width, bags, weighted }))
}

/// Elements brought together.
pub(crate) fn reduce(input: &[u64], output: &[u64]) -> Option<Op> {
    Some(Op::Reduce { inputs: count(input)?, outputs: count(output)? })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gemm(op: Option<Op>) -> [u64; 4] {
        match op {
            Some(Op::Gemm(gemm)) => [gemm.batch, gemm.m, gemm.n, gemm.k],
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn products_broadcast_as_numpy_does() {
        assert_eq!(gemm(matmul(&[3, 4], &[4, 5])), [1, 3, 5, 4]);
        assert_eq!(gemm(matmul(&[7, 3, 4], &[4, 5])), [1, 21, 5, 4], "one weight for all samples");
        assert_eq!(gemm(matmul(&[7, 3, 4], &[7, 4, 5])), [7, 3, 5, 4]);
        assert_eq!(gemm(matmul(&[2, 1, 3, 4], &[6, 4, 5])), [12, 3, 5, 4]);
        assert_eq!(gemm(matmul(&[3, 4], &[6, 4, 5])), [6, 3, 5, 4]);
        assert_eq!(gemm(matmul(&[4], &[4])), [1, 1, 1, 4]);
        assert_eq!(matmul(&[3, 4], &[5, 4]), None);
        assert_eq!(matmul(&[2, 3, 4], &[3, 4, 5]), None);
        assert_eq!(matmul(&[], &[3]), None);
        assert_eq!(gemm(linear(&[2, 3, 4], &[5, 4])), [1, 6, 5, 4]);
        assert_eq!(linear(&[2, 3], &[5, 4]), None);
    }

    #[test]
    fn windows_must_give_the_output_that_is_there() {
        let window = Window { stride: vec![2], padding: vec![[1, 1]], groups: 1, ..Window::default() };
        let op = convolution(&[1, 3, 8, 8], &[4, 3, 3, 3], &[1, 4, 4, 4], &window).unwrap();
        assert_eq!(op.multiply_adds(), Ok(4 * 16 * 27));
        assert_eq!(convolution(&[1, 3, 8, 8], &[4, 3, 3, 3], &[1, 4, 5, 5], &window), None);
        assert_eq!(convolution(&[1, 2, 8, 8], &[4, 3, 3, 3], &[1, 4, 4, 4], &window), None);
        let whole = convolution(&[3, 8, 8], &[4, 3, 3, 3], &[4, 4, 4], &window);
        assert!(matches!(whole, Some(Op::Conv(conv)) if conv.batch == 1), "no batch");
        let pool = Window { kernel: vec![3, 3], stride: vec![2], ..Window::default() };
        assert!(pooling(PoolFunction::Max, &[2, 4, 8, 8], &[2, 4, 3, 3], &pool).is_some());
        assert!(pooling(PoolFunction::Max, &[2, 4, 8, 8], &[2, 4, 4, 4], &pool).is_some(), "rounded up");
        assert_eq!(pooling(PoolFunction::Max, &[2, 4, 8, 8], &[2, 4, 5, 5], &pool), None);
        assert_eq!(same_padding(8, 8, 3, 1, 1), Some([1, 1]));
        assert_eq!(same_padding(8, 4, 3, 2, 1), Some([0, 1]));
    }

    #[test]
    fn rows_and_columns_go_by_the_dimension() {
        assert_eq!(softmax(&[2, 3, 4], -1), Some(Op::Softmax { rows: 6, columns: 4 }));
        assert_eq!(softmax(&[2, 3, 4], 1), Some(Op::Softmax { rows: 8, columns: 3 }));
        assert_eq!(softmax(&[2, 3, 4], 3), None);
        let Some(Op::Norm(norm)) = channel_norm(&[2, 6, 5, 5], 3, 12) else { panic!() };
        assert_eq!((norm.rows, norm.columns), (6, 50));
    }

    #[test]
    fn causal_queries_see_the_first_keys() {
        let of = |queries: u64, keys: u64, causal| {
            let key = [2, 2, keys, 16];
            match attention(&[2, 8, queries, 16], &key, &key, causal) {
                Some(Op::Attention(attention)) => Some(attention),
                _ => None,
            }
        };
        let a = of(5, 7, None).unwrap();
        assert_eq!((a.batch, a.heads, a.kv_heads, a.queries, a.keys), (2, 8, 2, 5, 7));
        assert_eq!(a.mask, AttentionMask::Full);
        for (queries, keys, before) in [(5, 5, 0), (5, 7, 0), (5, 7, 1), (5, 7, 2), (1, 7, 3)] {
            let seen = (0..queries).map(|query| keys.min(before + query + 1)).sum::<u64>();
            let scores = of(queries, keys, Some(before)).unwrap().score_elements();
            assert_eq!(scores, Ok(2 * 8 * seen), "{queries} {keys} {before}");
        }
        assert_eq!((of(7, 5, Some(0)), of(5, 7, Some(3)), of(5, 7, Some(u64::MAX))), (None, None, None));
    }
}

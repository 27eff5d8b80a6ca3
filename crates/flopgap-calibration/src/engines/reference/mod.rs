//! Graphs in 64 bits: what fp32 engines are checked against. Plain loops, no fusion.

mod convolution;
mod elements;

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use flopgap_graph::op::{ElementwiseFunction, Gemm, Pool, PoolFunction};
use flopgap_graph::{Graph, GraphError, Layer, Op, Step, Workload, initial_values};
use rayon::prelude::*;

/// Multiply-adds of an evaluation at most: `ResNet-152` on one image.
const MOST_PRODUCTS: u128 = 12_000_000_000;

/// Whether all layers are supported here and the evaluation takes at most seconds.
pub(crate) fn evaluates(graph: &Graph) -> bool {
    let known = graph.layers.iter().all(|layer| match &layer.op {
        Some(Op::Conv(conv)) => !conv.transposed && conv.image.len() == 2,
        Some(Op::Pool(pool)) => pool.image.len() == 2,
        Some(Op::Elementwise(op)) => op.function != ElementwiseFunction::Quantize,
        Some(Op::Gemm(_) | Op::Softmax { .. } | Op::View) => true,
        _ => false,
    });
    let plain = graph.inputs.iter().all(|&input| graph.tensors[input].element.is_some());
    known && plain && graph.multiply_adds().is_ok_and(|count| u128::from(count) <= MOST_PRODUCTS)
}

/// The outputs of a graph that it [`evaluates`], with parameters as `to_onnx` writes them from this
/// seed.
///
/// # Errors
/// [`GraphError`] where a parameter has no values.
pub(crate) fn evaluate(graph: &Graph, seed: u64, inputs: Vec<Vec<f64>>) -> Result<Vec<Vec<f64>>, GraphError> {
    let mut values: BTreeMap<usize, Vec<f64>> = graph.inputs.iter().copied().zip(inputs).collect();
    // What no later layer reads is dropped: activations of deep networks are large.
    let last_reader = |tensor: usize| graph.layers.iter().rposition(|layer| layer.inputs.contains(&tensor));
    for (index, layer) in graph.layers.iter().enumerate() {
        for &input in &layer.inputs {
            if let Entry::Vacant(place) = values.entry(input) {
                let parameter = initial_values(graph, input, seed)?;
                place.insert(parameter.into_iter().map(f64::from).collect());
            }
        }
        let operands: Vec<&[f64]> = layer.inputs.iter().map(|input| &values[input][..]).collect();
        let result = compute(graph, layer, &operands);
        for &input in &layer.inputs {
            if last_reader(input) == Some(index) && !graph.outputs.contains(&input) {
                values.remove(&input);
            }
        }
        if let Some(&output) = layer.outputs.first() {
            values.insert(output, result);
        }
    }
    Ok(graph.outputs.iter().map(|output| values.remove(output).unwrap_or_default()).collect())
}

fn compute(graph: &Graph, layer: &Layer, operands: &[&[f64]]) -> Vec<f64> {
    let [first, rest @ ..] = operands else { return Vec::new() };
    match &layer.op {
        Some(Op::Gemm(gemm)) => product(gemm, first, rest),
        Some(Op::Conv(conv)) => convolution::forward(conv, first, rest),
        Some(Op::Pool(pool)) => pooled(pool, first),
        Some(Op::Elementwise(op)) => {
            let elements = layer.outputs.first().map_or(0, |&output| length(&graph.tensors[output].shape));
            elements::apply(op.function, elements, first, rest.first().copied())
        }
        Some(Op::Softmax { columns, .. }) => elements::softmax(first, size(*columns)),
        // Views; what else there is was refused by `evaluates`.
        _ => first.to_vec(),
    }
}

fn size(size: u64) -> usize {
    usize::try_from(size).unwrap_or(usize::MAX)
}

fn length(shape: &[u64]) -> usize {
    shape.iter().map(|&each| size(each)).product()
}

/// `x w^T + b` with weights `n x k`; of several products, each `m x k` by `k x n`.
fn product(gemm: &Gemm, x: &[f64], rest: &[&[f64]]) -> Vec<f64> {
    let (n, k) = (size(gemm.n), size(gemm.k));
    let [weights, rest @ ..] = rest else { return Vec::new() };
    let bias = rest.first();
    let stored_by_output = gemm.batch == 1;
    let rows = x.par_chunks(k.max(1)).enumerate();
    rows.flat_map_iter(|(row, x)| {
        let start = row / size(gemm.m).max(1) * n * k;
        let weights = if stored_by_output { weights } else { &weights[start..start + n * k] };
        (0..n).map(move |column| {
            let sum: f64 = if stored_by_output {
                x.iter().zip(&weights[column * k..(column + 1) * k]).map(|(a, b)| a * b).sum()
            } else {
                x.iter().enumerate().map(|(inner, a)| a * weights[inner * n + column]).sum()
            };
            sum + bias.map_or(0.0, |bias| bias[column])
        })
    })
    .collect()
}

fn pooled(pool: &Pool, x: &[f64]) -> Vec<f64> {
    let [height, width] = [0, 1].map(|dimension| size(pool.image[dimension]));
    let [rows, columns] = [0, 1].map(|dimension| size(pool.output[dimension]));
    // Where a window lies along a dimension: in the image, and in the image with its padding.
    let window = |dimension: usize, place: usize| {
        let [before, after] = pool.padding.get(dimension).copied().unwrap_or([0, 0]);
        let start = place * size(pool.stride[dimension]);
        let end = start + size(pool.kernel[dimension]);
        let (image, before) = (size(pool.image[dimension]), size(before));
        let inside = start.saturating_sub(before).min(image)..end.saturating_sub(before).min(image);
        (inside, end.min(image + before + size(after)) - start)
    };
    let planes = x.par_chunks(height * width);
    planes
        .flat_map_iter(|plane| {
            (0..rows * columns).map(move |place| {
                let ((down, tall), (across, wide)) = (window(0, place / columns), window(1, place % columns));
                let values = down.flat_map(|row| &plane[row * width..][across.clone()]).copied();
                match pool.function {
                    PoolFunction::Max => values.fold(f64::NEG_INFINITY, f64::max),
                    // Padding counts.
                    PoolFunction::Average => values.sum::<f64>() / (tall * wide) as f64,
                }
            })
        })
        .collect()
}

/// Multiply-adds of the samples that are compared, but one sample at least.
const MOST_SAMPLED: u64 = 100_000_000;

/// The samples of a workload that are compared: the first, the last and those in between that take
/// a moment. `None` where its tensors have no samples, and all is compared.
pub(crate) fn samples(workload: &Workload, graph: &Graph) -> Option<Vec<usize>> {
    let batch = size(*sample_count(&mut workload.clone())?);
    let products = graph.multiply_adds().ok()?;
    let each = (products / (batch as u64).max(1)).max(1);
    // A batched product of one is no batched product: its second operand would be weights.
    let is_batched = matches!(workload, Workload::Step(Step { op: Op::Gemm(gemm), .. }) if gemm.batch > 1);
    let fewest = if is_batched { 2 } else { 1 };
    let count = size(MOST_SAMPLED / each).clamp(fewest, batch.max(1));
    Some((0..count).map(|index| if count == 1 { 0 } else { index * (batch - 1) / (count - 1) }).collect())
}

/// The same workload with so many samples.
pub(crate) fn with_samples(workload: &Workload, samples: Option<&[usize]>) -> Workload {
    let mut workload = workload.clone();
    if let (Some(count), Some(samples)) = (sample_count(&mut workload), samples) {
        *count = samples.len() as u64;
    }
    workload
}

/// The leading dimension of all tensors that are no parameters, if there is one.
fn sample_count(workload: &mut Workload) -> Option<&mut u64> {
    match workload {
        Workload::Mlp(mlp) => Some(&mut mlp.batch),
        Workload::Resnet(resnet) => Some(&mut resnet.batch),
        Workload::Step(Step { op: Op::Gemm(gemm), .. }) => {
            Some(if gemm.batch > 1 { &mut gemm.batch } else { &mut gemm.m })
        }
        Workload::Step(Step { op: Op::Conv(conv), .. }) => Some(&mut conv.batch),
        _ => None,
    }
}

/// The inputs of a graph for these samples. `make` gives the numbers of the input at a place, of
/// all samples.
pub(crate) fn inputs(
    graph: &Graph,
    samples: Option<&[usize]>,
    make: impl Fn(usize, usize) -> Vec<f32>,
) -> Vec<Vec<f64>> {
    let each = |(place, &input): (usize, &usize)| {
        let shape = &graph.tensors[input].shape;
        let all: Vec<f64> = make(place, length(shape)).into_iter().map(f64::from).collect();
        match (samples, shape.first()) {
            (Some(samples), Some(&batch)) => rows(&all, size(batch), samples),
            _ => all,
        }
    };
    graph.inputs.iter().enumerate().map(each).collect()
}

/// Some of `batch` rows.
pub(crate) fn rows(all: &[f64], batch: usize, samples: &[usize]) -> Vec<f64> {
    let width = all.len() / batch.max(1);
    samples.iter().flat_map(|sample| &all[sample * width..(sample + 1) * width]).copied().collect()
}

/// The tolerance of 32-bit arithmetic, relative to the largest output: roundings are independent,
/// so they grow with the square root of the terms of a sum and of consecutive products.
pub(crate) fn fp32_bound(graph: &Graph) -> f64 {
    let (mut longest, mut products) = (1_u64, 0_u32);
    for op in graph.layers.iter().filter_map(|layer| layer.op.as_ref()) {
        let terms = match op {
            Op::Gemm(gemm) => gemm.k,
            Op::Conv(conv) => conv.inputs / conv.groups.max(1) * conv.kernel.iter().product::<u64>(),
            _ => continue,
        };
        longest = longest.max(terms);
        products += 1;
    }
    2e-6 * ((longest as f64 / 512.0).max(1.0) * f64::from(products.max(1))).sqrt()
}

#[cfg(test)]
mod tests {
    use flopgap_flops::Activation;
    use flopgap_graph::{MlpSpec, ResnetSpec};

    use super::*;

    fn evaluated(workload: &Workload, inputs: Vec<Vec<f64>>) -> Vec<f64> {
        let graph = workload.graph().unwrap();
        assert!(evaluates(&graph), "{}", workload.label());
        evaluate(&graph, 5, inputs).unwrap().concat()
    }

    fn numbers(length: usize) -> Vec<f64> {
        (0..length).map(|index| ((index * 53 % 97) as f64 - 48.0) / 48.0).collect()
    }

    #[test]
    fn samples_of_a_batched_product_are_a_batched_product() {
        let of = |batch| {
            let op = Op::Gemm(Gemm { batch, m: 2048, n: 64, k: 2048 });
            Workload::Step(Step { op, epilogue: flopgap_graph::Epilogue::default() })
        };
        let samples = samples(&of(8), &of(8).graph().unwrap()).unwrap();
        assert_eq!(samples, [0, 7]);
        assert_eq!(with_samples(&of(8), Some(&samples)), of(2));
    }

    #[test]
    fn a_network_is_its_layers() {
        let mlp = |batch| {
            Workload::Mlp(MlpSpec {
                input: 3,
                hidden: vec![4],
                output: 2,
                batch,
                activation: Activation::Tanh,
            })
        };
        let graph = mlp(2).graph().unwrap();
        let parameter = |name: &str| {
            let index = graph.tensors.iter().position(|tensor| tensor.name == name).unwrap();
            initial_values(&graph, index, 5).unwrap()
        };
        let x = numbers(6);
        let found = evaluated(&mlp(2), vec![x.clone()]);
        let layer = |x: &[f64], name: &str| -> Vec<f64> {
            let (weights, bias) = (parameter(&format!("{name}.weight")), parameter(&format!("{name}.bias")));
            let rows = weights.chunks(x.len()).zip(bias);
            rows.map(|(row, b)| f64::from(b) + row.iter().zip(x).map(|(w, x)| f64::from(*w) * x).sum::<f64>())
                .collect()
        };
        for (x, y) in x.chunks(3).zip(found.chunks(2)) {
            let hidden: Vec<f64> = layer(x, "0").into_iter().map(f64::tanh).collect();
            let expected = layer(&hidden, "2");
            assert!(y.iter().zip(&expected).all(|(a, b)| (a - b).abs() < 1e-12), "{y:?}, {expected:?}");
        }
        // A sample does not depend on the others.
        assert_eq!(evaluated(&mlp(1), vec![x[3..].to_vec()]), found[2..]);
    }

    #[test]
    fn a_residual_network_is_evaluated_sample_by_sample() {
        let resnet = |batch| Workload::Resnet(ResnetSpec { depth: 18, batch, image: 32 });
        let x = numbers(2 * 3 * 32 * 32);
        let both = evaluated(&resnet(2), vec![x.clone()]);
        assert_eq!(both.len(), 2000);
        assert!(both.iter().all(|y| y.is_finite()) && both.iter().any(|y| y.abs() > 1e-3));
        let second = evaluated(&resnet(1), vec![x[3 * 32 * 32..].to_vec()]);
        let error = second.iter().zip(&both[1000..]).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
        assert!(error < 1e-12, "{error}");
    }

    #[test]
    fn windows_are_pooled_with_their_padding() {
        let pool = |function| Pool {
            function,
            planes: 1,
            image: vec![2, 3],
            output: vec![2, 2],
            kernel: vec![2, 2],
            stride: vec![1, 2],
            padding: vec![[1, 0], [0, 1]],
        };
        let x = [-1.0, -2.0, -3.0, -4.0, -5.0, -6.0];
        assert_eq!(pooled(&pool(PoolFunction::Max), &x), [-1.0, -3.0, -1.0, -3.0]);
        assert_eq!(pooled(&pool(PoolFunction::Average), &x), [-0.75, -0.75, -3.0, -2.25]);
    }

    #[test]
    fn large_batches_are_sampled_and_large_models_refused() {
        let resnet = |depth, image| Workload::Resnet(ResnetSpec { depth, batch: 8, image });
        let of = |workload: &Workload| samples(workload, &workload.graph().unwrap());
        assert_eq!(of(&resnet(18, 224)), Some(vec![0]));
        // 37 million multiply-adds each.
        assert_eq!(of(&resnet(18, 32)), Some(vec![0, 7]));
        let reduced = with_samples(&resnet(18, 224), Some(&[0]));
        assert_eq!(reduced.batch(), Some(1));
        assert!(evaluates(&reduced.graph().unwrap()));
        assert!(!evaluates(&resnet(152, 224).graph().unwrap()), "eight images at once");
        assert_eq!(rows(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0], 3, &[0, 2]), [1.0, 2.0, 5.0, 6.0]);
    }
}

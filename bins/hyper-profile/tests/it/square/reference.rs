//! The network in 64 bits, the reference for the GPU, and the numbers of a seed.

pub(super) use flopgap_mlp::numerics::relative_error;
use flopgap_mlp::numerics::uniform;
use hyper_profile::square::Shape;

/// Output, loss and gradients in 64-bit floats.
#[derive(Debug)]
pub(super) struct Reference {
    /// The output of the last layer, D M numbers.
    pub(super) output: Vec<f64>,
    /// The sum of the output.
    pub(super) loss: f64,
    /// The gradient of the loss by every weight, N D^2 numbers.
    pub(super) gradients: Vec<f64>,
}

/// Rows of the second factor that stay in the cache while all rows of the first pass over them.
const BLOCK: usize = 64;

/// Computes the network with 64-bit weights, which the 32-bit ones are exactly.
///
/// It is plain loops, checked against finite differences, and takes `6 N D^2 M` FLOPs on one core.
pub(super) fn run(shape: Shape, weights: &[f32], input: &[f32]) -> Reference {
    let weights: Vec<f64> = weights.iter().copied().map(f64::from).collect();
    let input: Vec<f64> = input.iter().copied().map(f64::from).collect();
    run_f64(shape, &weights, &input)
}

fn run_f64(shape: Shape, weights: &[f64], input: &[f64]) -> Reference {
    let (width, samples) = (shape.width(), shape.samples());
    let mut activations = vec![input.to_vec()];
    for layer in weights.chunks_exact(shape.matrix()) {
        let mut z = vec![0.0; shape.panel()];
        product(layer, &activations[activations.len() - 1], width, samples, &mut z);
        for z in &mut z {
            *z = 1.0 / (1.0 + (-*z).exp());
        }
        activations.push(z);
    }
    let output = activations.pop().unwrap_or_default();
    let loss = output.iter().sum();

    let mut gradients = vec![0.0; shape.weights()];
    // The gradient by the output is 1 everywhere.
    let mut delta: Vec<f64> = output.iter().map(|y| (1.0 - y) * y).collect();
    let matrix = shape.matrix();
    for layer in (0..shape.layers()).rev() {
        let range = layer * matrix..(layer + 1) * matrix;
        let below = &activations[layer];
        outer(&delta, below, width, samples, &mut gradients[range.clone()]);
        if layer > 0 {
            let mut next = vec![0.0; shape.panel()];
            product(&transposed(&weights[range], width), &delta, width, samples, &mut next);
            next.iter_mut().zip(below).for_each(|(gradient, y)| *gradient *= (1.0 - y) * y);
            delta = next;
        }
    }
    Reference { output, loss, gradients }
}

/// `c += a * b` with `a` of D x D and `b` of D x M.
fn product(a: &[f64], b: &[f64], width: usize, samples: usize, c: &mut [f64]) {
    for first in (0..width).step_by(BLOCK) {
        let inner = first..width.min(first + BLOCK);
        for (row, out) in a.chunks_exact(width).zip(c.chunks_exact_mut(samples)) {
            for k in inner.clone() {
                let (factor, line) = (row[k], &b[k * samples..(k + 1) * samples]);
                out.iter_mut().zip(line).for_each(|(c, b)| *c += factor * b);
            }
        }
    }
}

/// `c = a * b^T` with both of D x M.
fn outer(a: &[f64], b: &[f64], width: usize, samples: usize, c: &mut [f64]) {
    for first in (0..width).step_by(BLOCK) {
        let columns = first..width.min(first + BLOCK);
        for (row, out) in a.chunks_exact(samples).zip(c.chunks_exact_mut(width)) {
            for j in columns.clone() {
                let other = &b[j * samples..(j + 1) * samples];
                out[j] = row.iter().zip(other).map(|(a, b)| a * b).sum();
            }
        }
    }
}

fn transposed(a: &[f64], width: usize) -> Vec<f64> {
    let mut result = vec![0.0; a.len()];
    for (i, row) in a.chunks_exact(width).enumerate() {
        for (j, value) in row.iter().enumerate() {
            result[j * width + i] = *value;
        }
    }
    result
}

/// The weights of a seed: elements 0 to N D^2 of its sequence, times the bound.
pub(super) fn weights(shape: Shape, seed: u64) -> Vec<f32> {
    (0..shape.weights() as u64).map(|index| uniform(seed, index) * shape.weight_bound()).collect()
}

/// The input of a seed: the D M elements of its sequence after the weights.
pub(super) fn input(shape: Shape, seed: u64) -> Vec<f32> {
    let first = shape.weights() as u64;
    (0..shape.panel() as u64).map(|index| uniform(seed, first.wrapping_add(index))).collect()
}

#[test]
fn gradients_are_finite_differences() {
    for (n, d, m) in [(1, 1, 1), (1, 5, 3), (3, 4, 1), (4, 7, 6), (2, 66, 2)] {
        let shape = Shape::new(n, d, m).unwrap();
        let weights: Vec<f64> = weights(shape, 3).into_iter().map(f64::from).collect();
        let input: Vec<f64> = input(shape, 3).into_iter().map(f64::from).collect();
        let gradients = run_f64(shape, &weights, &input).gradients;
        let step = 1e-5;
        // Every weight of the small ones, a spread of the large one.
        for index in (0..weights.len()).step_by(1 + weights.len() / 60) {
            let at = |offset: f64| {
                let mut moved = weights.clone();
                moved[index] += offset;
                run_f64(shape, &moved, &input).loss
            };
            let slope = (at(step) - at(-step)) / (2.0 * step);
            let found = gradients[index];
            assert!((found - slope).abs() < 1e-8 + 1e-5 * slope.abs(), "{shape} {index}: {found} {slope}");
        }
    }
}

#[test]
fn one_weight_by_hand() {
    let shape = Shape::new(1, 1, 1).unwrap();
    let result = run(shape, &[2.0], &[0.5]);
    let y = 1.0 / (1.0 + (-1.0_f64).exp());
    assert_eq!(result.output, [y]);
    assert!((result.gradients[0] - (1.0 - y) * y * 0.5).abs() < 1e-16);
}

#[test]
fn numbers_are_uniform_and_differ_by_seed() {
    let shape = Shape::new(2, 32, 8).unwrap();
    let all = weights(shape, 7);
    let bound = shape.weight_bound();
    assert!(all.iter().all(|weight| weight.abs() <= bound));
    let mean = all.iter().sum::<f32>() / all.len() as f32;
    assert!(mean.abs() < 0.1 * bound, "{mean}");
    assert_ne!(all, weights(shape, 8));
    assert!(input(shape, 7).iter().all(|x| (-1.0..1.0).contains(x)));
}

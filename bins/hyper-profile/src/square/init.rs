//! Weights and inputs from a seed: the same numbers on every backend.

use flopgap_mlp::numerics::uniform;

use crate::square::Shape;

/// The largest weight of a network of this width: Glorot's bound for the sigmoid, `4 sqrt(6 / (D +
/// D))`. Activations then keep their spread from layer to layer and gradients do not vanish, so
/// that errors show.
#[expect(clippy::cast_possible_truncation, reason = "rounded to the precision of the weights")]
pub fn weight_bound(shape: Shape) -> f32 {
    (4.0 * (3.0 / shape.width() as f64).sqrt()) as f32
}

/// The weights of a seed: elements 0 to N D^2 of its sequence, times [`weight_bound`].
pub fn weights(shape: Shape, seed: u64) -> Vec<f32> {
    let bound = weight_bound(shape);
    (0..shape.weights() as u64).map(|index| uniform(seed, index) * bound).collect()
}

/// The input of a seed: the D M elements of its sequence after the weights.
pub fn input(shape: Shape, seed: u64) -> Vec<f32> {
    let first = shape.weights() as u64;
    (0..shape.panel() as u64).map(|index| uniform(seed, first.wrapping_add(index))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_uniform_and_differ_by_seed() {
        let shape = Shape::new(2, 32, 8).unwrap();
        let all = weights(shape, 7);
        let bound = weight_bound(shape);
        assert!(all.iter().all(|weight| weight.abs() <= bound));
        let mean = all.iter().sum::<f32>() / all.len() as f32;
        assert!(mean.abs() < 0.1 * bound, "{mean}");
        assert_ne!(all, weights(shape, 8));
        assert!(input(shape, 7).iter().all(|x| (-1.0..1.0).contains(x)));
    }
}

//! Both passes along directions, in 64 bits: second derivatives, forward over reverse.

use super::{NEAR_KINK, Reference, Rounding, curvature, dot, on_all_cores, slope};
use crate::activation::has_kink;
use crate::error::check;
use crate::{MlpError, Network, Parameters};

/// How outputs and gradients of [`run`](super::run) change where the inputs move along `directions`
/// and the gradients by the outputs along `dy_directions`: the derivatives by `t`, at 0, of what
/// `run` gives for `inputs + t directions` and `output_gradients + t dy_directions`.
///
/// With the Jacobian `J` of a sample's outputs and the Hessian `H` of their sum weighted by its
/// `dy`, [`Reference::outputs`] are `J v`, and [`Reference::input_gradients`] are `H v` plus the
/// direction of `dy` times `J`. [`Reference::gradients`] are, for constant `dy`, the gradient by
/// the parameters of the sum over the samples of `v` times the gradient by the inputs: what a loss
/// of that gradient needs, `v` being its derivative.
///
/// Directions have the lengths of what they are of. [`Reference::near_kinks`] are those of `run`.
///
/// # Errors
/// [`MlpError::Length`].
pub fn tangents(
    parameters: &Parameters,
    inputs: &[f32],
    directions: &[f32],
    output_gradients: &[f32],
    dy_directions: &[f32],
    rounding: Rounding,
) -> Result<Reference, MlpError> {
    let network = parameters.network();
    let batch = inputs.len() / network.inputs();
    check("inputs", batch * network.inputs(), inputs.len())?;
    check("gradients by the outputs", batch * network.outputs(), output_gradients.len())?;
    check("directions of the inputs", inputs.len(), directions.len())?;
    check("directions of the gradients by the outputs", output_gradients.len(), dy_directions.len())?;
    let values: Vec<f64> = parameters.values().iter().copied().map(f64::from).collect();
    Ok(on_all_cores(network, batch, |part| {
        let mut result = Reference::empty(network);
        for sample in part {
            let row = |of: &[f32], width: usize| -> Vec<f64> {
                of[sample * width..(sample + 1) * width].iter().copied().map(f64::from).collect()
            };
            let x = [inputs, directions].map(|of| row(of, network.inputs()));
            let dy = [output_gradients, dy_directions].map(|of| row(of, network.outputs()));
            one(network, &values, x, dy, rounding, &mut result);
        }
        result
    }))
}

/// A sample: each array beside its tangent.
fn one(
    network: &Network,
    values: &[f64],
    x: [Vec<f64>; 2],
    dy: [Vec<f64>; 2],
    rounding: Rounding,
    result: &mut Reference,
) {
    let mut after = vec![x];
    // The slopes of each activation, and how they change.
    let mut slopes = Vec::new();
    let mut near_kink = false;
    for layer in 0..network.layers() {
        let (weights, biases) = (&values[network.weights(layer)], &values[network.biases(layer)]);
        let activation = network.activation(layer);
        let [below, moving] = &after[layer];
        let biases = biases.iter().copied().chain(std::iter::repeat(0.0));
        let (mut above, mut of_slopes) = ([vec![], vec![]], [vec![], vec![]]);
        for (row, bias) in weights.chunks_exact(below.len()).zip(biases) {
            let (z, tangent) = (bias + dot(row, below), dot(row, moving));
            near_kink |= has_kink(activation) && z.abs() < NEAR_KINK;
            above[0].push(super::activate(activation, z));
            above[1].push(slope(activation, z) * tangent);
            of_slopes[0].push(slope(activation, z));
            of_slopes[1].push(curvature(activation, z) * tangent);
        }
        above.iter_mut().chain(&mut of_slopes).for_each(|stored| rounding.apply(stored));
        after.push(above);
        slopes.push(of_slopes);
    }
    result.near_kinks.extend(near_kink.then_some(result.outputs.len() / network.outputs()));
    result.outputs.extend(&after[network.layers()][1]);

    let [mut delta, mut moving] = dy;
    for layer in (0..network.layers()).rev() {
        let [slopes, changes] = &slopes[layer];
        for (index, (slope, change)) in slopes.iter().zip(changes).enumerate() {
            moving[index] = moving[index] * slope + delta[index] * change;
            delta[index] *= slope;
        }
        rounding.apply(&mut delta);
        rounding.apply(&mut moving);
        let [below, moving_below] = &after[layer];
        let mut next = [vec![0.0; below.len()], vec![0.0; below.len()]];
        let weights = values[network.weights(layer)].chunks_exact(below.len());
        let gradients = result.gradients[network.weights(layer)].chunks_exact_mut(below.len());
        for ((row, gradients), (delta, moving)) in weights.zip(gradients).zip(delta.iter().zip(&moving)) {
            for (index, gradient) in gradients.iter_mut().enumerate() {
                *gradient += moving * below[index] + delta * moving_below[index];
                next[0][index] += delta * row[index];
                next[1][index] += moving * row[index];
            }
        }
        let biases = &mut result.gradients[network.biases(layer)];
        biases.iter_mut().zip(&moving).for_each(|(gradient, moving)| *gradient += moving);
        [delta, moving] = next;
    }
    rounding.apply(&mut moving);
    result.input_gradients.extend(moving);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Activation;
    use crate::reference::{numbers, relative_error, run};

    /// Of `run`, by a step that moves 32-bit inputs by what they can express.
    #[test]
    fn tangents_are_finite_differences() {
        const STEP: f32 = 1.0 / 1024.0;
        // Few bits, so that steps along a direction are exact.
        let coarse = |numbers: Vec<f32>| -> Vec<f32> {
            numbers.into_iter().map(|number| (number * 64.0).round() / 64.0).collect()
        };
        for (index, activation) in Activation::ALL.into_iter().enumerate() {
            let network = Network::new(&[5, 16, 8, 3])
                .and_then(|network| network.with_biases(&[true, index % 2 == 0, index % 3 == 0]))
                .unwrap()
                .with_activation(activation)
                .with_output_activation(activation);
            let parameters = Parameters::he(&network, 3);
            let ((x, dy), (v, dv)) = (numbers(&network, 4, 5), numbers(&network, 4, 6));
            let [x, v, dy, dv] = [x, v, dy, dv].map(coarse);
            let found = tangents(&parameters, &x, &v, &dy, &dv, Rounding::None).unwrap();
            let moved = |by: f32| {
                let along = |of: &[f32], v: &[f32]| -> Vec<f32> {
                    of.iter().zip(v).map(|(of, v)| of + by * v).collect()
                };
                run(&parameters, &along(&x, &v), &along(&dy, &dv), Rounding::None).unwrap()
            };
            let (above, below) = (moved(STEP), moved(-STEP));
            for (what, found, above, below) in [
                ("outputs", &found.outputs, above.outputs, below.outputs),
                ("inputs", &found.input_gradients, above.input_gradients, below.input_gradients),
                ("parameters", &found.gradients, above.gradients, below.gradients),
            ] {
                let expected: Vec<f64> = above
                    .iter()
                    .zip(&below)
                    .map(|(above, below)| (above - below) / (2.0 * f64::from(STEP)))
                    .collect();
                let error = relative_error(found, &expected);
                assert!(error < 2e-5, "{activation} {what}: {error:.1e}");
            }
        }
    }

    /// The Hessian is symmetric: `u H v = v H u`.
    #[test]
    fn the_hessian_is_symmetric() {
        let network = Network::new(&[6, 32, 32, 2]).unwrap().with_activation(Activation::Silu);
        let parameters = Parameters::he(&network, 9);
        let ((x, dy), (u, _), (v, _)) =
            (numbers(&network, 1, 1), numbers(&network, 1, 2), numbers(&network, 1, 3));
        let product = |along: &[f32], by: &[f32]| -> f64 {
            let none = vec![0.0; dy.len()];
            let found = tangents(&parameters, &x, along, &dy, &none, Rounding::None).unwrap();
            found.input_gradients.iter().zip(by).map(|(found, &by)| found * f64::from(by)).sum()
        };
        let (one, other) = (product(&u, &v), product(&v, &u));
        assert!((one - other).abs() < 1e-12 * one.abs().max(1.0) && one != 0.0, "{one} {other}");
    }

    #[test]
    fn samples_near_a_kink_are_those_of_the_passes() {
        let network = Network::new(&[8, 8, 8]).unwrap().with_activation(Activation::Relu).with_bias(false);
        let parameters = Parameters::he(&network, 2);
        // Without biases, a sample of zeros is at every kink.
        let (mut x, dy) = numbers(&network, 40, 3);
        for sample in [3, 17, 39] {
            x[sample * 8..][..8].fill(0.0);
        }
        let found = tangents(&parameters, &x, &x, &dy, &dy, Rounding::None).unwrap();
        let passes = run(&parameters, &x, &dy, Rounding::None).unwrap();
        assert_eq!(found.near_kinks, passes.near_kinks);
        assert_eq!(found.near_kinks, [3, 17, 39]);
    }
}

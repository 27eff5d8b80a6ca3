//! Fully connected networks in 64 bits, some samples of a batch.

use flopgap_mlp::{Network, Parameters, reference};

/// The most multiply-adds of a check; at least two samples are computed.
const MOST_PRODUCTS: usize = 30_000_000;

/// Parameters, and the input of a batch.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Chain<'a> {
    pub(crate) parameters: &'a Parameters,
    /// `batch x inputs`.
    pub(crate) x: &'a [f32],
}

/// The outputs of some samples in 64 bits, with the number of the sample: the first, the last and
/// those in between that fit into the time of a check.
pub(crate) fn chain_rows(chain: Chain<'_>) -> Vec<(usize, Vec<f64>)> {
    let network = chain.parameters.network();
    let batch = chain.x.len() / network.inputs();
    let rows = (MOST_PRODUCTS / network.parameters()).max(2).min(batch);
    let spread = |index: usize| if rows == 1 { 0 } else { index * (batch - 1) / (rows - 1) };
    (0..rows)
        .map(|index| {
            let row = spread(index);
            let x = &chain.x[row * network.inputs()..(row + 1) * network.inputs()];
            (row, forward(chain.parameters, x))
        })
        .collect()
}

fn forward(parameters: &Parameters, x: &[f32]) -> Vec<f64> {
    let network = parameters.network();
    let mut below: Vec<f64> = x.iter().copied().map(f64::from).collect();
    for layer in 0..network.layers() {
        let rows = parameters.weights(layer).chunks_exact(below.len()).zip(parameters.biases(layer));
        let above = rows.map(|(row, bias)| {
            let sum: f64 = row.iter().zip(&below).map(|(weight, a)| f64::from(*weight) * a).sum();
            reference::activate(network.activation(layer), f64::from(*bias) + sum)
        });
        below = above.collect();
    }
    below
}

/// The largest difference over the largest magnitude of the reference. `found` has `width` numbers
/// of each sample. NaN where any output is not finite, or all of the reference is 0.
pub(crate) fn largest_difference(found: &[f32], width: usize, truth: &[(usize, Vec<f64>)]) -> f64 {
    if found.iter().any(|number| !number.is_finite()) {
        return f64::NAN;
    }
    let (mut difference, mut magnitude) = (0.0_f64, 0.0_f64);
    for (row, expected) in truth {
        for (found, expected) in found[row * width..(row + 1) * width].iter().zip(expected) {
            difference = difference.max((f64::from(*found) - expected).abs());
            magnitude = magnitude.max(expected.abs());
        }
    }
    difference / magnitude
}

/// The tolerance of 32-bit arithmetic, relative to the largest output: roundings are independent,
/// so they grow with the square root of the terms of a sum and of the layers.
pub(crate) fn fp32_bound(network: &Network) -> f64 {
    let widest = network.widths().iter().copied().max().unwrap_or_default() as f64;
    2e-6 * ((widest / 512.0).max(1.0) * network.layers() as f64).sqrt()
}

#[cfg(test)]
mod tests {
    use flopgap_mlp::reference::Rounding;

    use super::*;

    #[test]
    fn samples_are_those_of_the_reference() {
        let network = Network::of_any_widths(&[5, 7, 3]).unwrap();
        let parameters = Parameters::he(&network, 1);
        let x: Vec<f32> = (0..50).map(|index| (index % 13) as f32 / 7.0 - 0.8).collect();
        let truth = reference::run(&parameters, &x, &[0.0; 30], Rounding::None).unwrap();
        let rows = chain_rows(Chain { parameters: &parameters, x: &x });
        assert_eq!(rows.len(), 10);
        for (row, outputs) in rows {
            for (found, expected) in outputs.iter().zip(&truth.outputs[row * 3..]) {
                assert!((found - expected).abs() < 1e-12, "{row}");
            }
        }
    }

    #[test]
    fn of_large_networks_the_first_and_the_last_sample_are_there() {
        let network = Network::of_any_widths(&[3000, 5001]).unwrap();
        let parameters = Parameters::from_values(&network, vec![0.5; network.parameters()]).unwrap();
        let rows = chain_rows(Chain { parameters: &parameters, x: &vec![1.0; 4 * 3000] });
        assert_eq!(rows.iter().map(|(row, _)| *row).collect::<Vec<_>>(), [0, 3]);
        assert_eq!(rows[0].1, vec![1500.5; 5001]);
    }

    #[test]
    fn what_is_not_a_number_is_no_agreement() {
        let truth = [(1, vec![2.0, -4.0])];
        assert!((largest_difference(&[9.0, 9.0, 2.0, -3.0], 2, &truth) - 0.25).abs() < 1e-12);
        assert!(largest_difference(&[f32::NAN, 9.0, 2.0, -3.0], 2, &truth).is_nan());
        assert!(largest_difference(&[0.0; 4], 2, &[(0, vec![0.0; 2])]).is_nan());
    }
}

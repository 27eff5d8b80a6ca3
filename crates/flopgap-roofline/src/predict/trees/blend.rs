//! The weights of three predictions.

/// Weights of three predictions on the logarithm; they sum to 1.
pub(crate) type Weights = [f64; 3];

/// The weights, in tenths, with the least mean relative error over rows: `predicted` are
/// logarithms, `times` what was measured.
///
/// Weights that are no better by a hundredth than `start` are not worth leaving it.
pub(crate) fn blend(predicted: &[Weights], times: &[f64], rows: &[usize], start: Weights) -> Weights {
    let error = |weights: &Weights| -> f64 {
        rows.iter().map(|&row| (weigh(weights, &predicted[row]).exp() / times[row] - 1.0).abs()).sum()
    };
    let mut best = (error(&start) * 0.99, start);
    for first in 0..=10u8 {
        for second in 0..=10 - first {
            let weights = [first, second, 10 - first - second].map(|tenths| f64::from(tenths) / 10.0);
            let error = error(&weights);
            if error < best.0 {
                best = (error, weights);
            }
        }
    }
    best.1
}

/// The weighted sum.
pub(crate) fn weigh(weights: &Weights, values: &Weights) -> f64 {
    weights.iter().zip(values).map(|(weight, value)| weight * value).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_prediction_that_is_right_gets_the_weight() {
        let times: Vec<f64> = (1..50).map(f64::from).collect();
        let predicted: Vec<Weights> = times
            .iter()
            .enumerate()
            .map(|(row, time)| [time.ln() + 0.5, time.ln(), (row % 3) as f64])
            .collect();
        let rows: Vec<usize> = (0..times.len()).collect();
        let tenths = |weights: Weights| weights.map(|weight| format!("{weight:.1}"));
        assert_eq!(tenths(blend(&predicted, &times, &rows, [0.5, 0.5, 0.0])), ["0.0", "1.0", "0.0"]);
        // All are equal, so the start stays.
        let alike: Vec<Weights> = times.iter().map(|time| [time.ln(); 3]).collect();
        assert_eq!(tenths(blend(&alike, &times, &rows, [0.5, 0.5, 0.0])), ["0.5", "0.5", "0.0"]);
    }
}

//! How much less several durations of one run tell than as many of different runs.

use super::{median, scatter};

/// With fewer durations in both runs together, how alike neighbors are cannot be seen.
const FEW: usize = 20;

/// What is assumed of these.
const ASSUMED: f64 = 1.5;

/// By what factor the variance of a median is larger than that of independent durations: from the
/// correlation of neighbors where it is beyond chance, as for an autoregressive process.
pub(super) fn inflation(runs: [&[f64]; 2]) -> f64 {
    let count = runs.map(<[f64]>::len).iter().sum::<usize>();
    if count < FEW {
        return ASSUMED;
    }
    let (mut products, mut squares) = (0.0, 0.0);
    for run in runs {
        let center = median(run);
        // So that an outlier neither makes nor hides a correlation.
        let most = 3.0 * scatter(run, center);
        let deviations: Vec<f64> = run.iter().map(|value| (value - center).clamp(-most, most)).collect();
        let mean = deviations.iter().sum::<f64>() / deviations.len() as f64;
        let pairs = deviations.windows(2).map(|pair| (pair[0] - mean) * (pair[1] - mean));
        products += pairs.sum::<f64>();
        squares += deviations.iter().map(|value| (value - mean).powi(2)).sum::<f64>();
    }
    let count = count as f64;
    let seen = if squares > 0.0 { products / squares } else { 0.0 };
    // One in ten of independent runs exceed it.
    if seen < 1.28 / count.sqrt() {
        return 1.0;
    }
    // What is seen in short runs is too small on average (Kendall).
    let correlation = (seen + 2.0 * (1.0 + 4.0 * seen) / count).min(0.95);
    ((1.0 + correlation) / (1.0 - correlation)).min(count / 2.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbors_that_are_alike_count_for_less() {
        let alternating: Vec<f64> = (0..20).map(|at| f64::from(at % 2)).collect();
        let rising: Vec<f64> = (0..20).map(f64::from).collect();
        assert!(inflation([&alternating, &alternating]) <= 1.0);
        assert!(inflation([&rising, &rising]) > 5.0);
        assert!(inflation([&rising[..3], &rising[..3]]) > 1.0);
        let constant = [1.0; 20];
        assert!(inflation([&constant, &constant]) <= 1.0);
    }
}

//! Repeats measurements until the median is known well enough.

use std::time::Instant;

use crate::Timing;

use crate::engines::engine::Repetition;
use crate::engines::error::EngineError;

/// Half-width of a 95 % interval in standard deviations of a normal distribution.
const Z: f64 = 1.96;

/// Samples before it is known how long one takes.
const FIRST: usize = 3;

/// Asks `measure` for so many more samples, in nanoseconds, until the interval of the median is
/// narrow enough or time is up.
///
/// # Errors
/// Those of `measure`; none at all is an error, too.
pub(crate) fn repeat(
    limit: &Repetition,
    mut measure: impl FnMut(usize) -> Result<Vec<f64>, EngineError>,
) -> Result<Timing, EngineError> {
    let start = Instant::now();
    let least = usize::try_from(limit.least).unwrap_or(usize::MAX).max(1);
    // A few first, of what takes long: all that are wanted may be more than there is time for.
    let mut samples = measure(least.min(FIRST))?;
    loop {
        samples.sort_by(f64::total_cmp);
        let Some(timing) = timing(&samples) else {
            return Err(EngineError::Failed {
                action: "time a workload".to_owned(),
                message: "nothing was measured".to_owned(),
            });
        };
        let half = (timing.high_ns - timing.low_ns) / 2.0;
        if samples.len() >= least && half <= limit.interval * timing.median_ns {
            return Ok(timing);
        }
        let elapsed = start.elapsed();
        if elapsed >= limit.limit {
            return Ok(Timing { capped: true, ..timing });
        }
        // The least, then half as many again, but no more than there is time for.
        let each = elapsed.as_secs_f64() / samples.len() as f64;
        let left = limit.limit.saturating_sub(elapsed).as_secs_f64() / each.max(1e-9);
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "positive; saturates")]
        let more = least.saturating_sub(samples.len()).max(samples.len() / 2).min(left as usize).max(1);
        samples.extend(measure(more)?);
    }
}

/// The median of sorted samples with its 95 % interval: between the order statistics that a
/// binomial distribution leaves 2.5 % beyond.
fn timing(sorted: &[f64]) -> Option<Timing> {
    let (&minimum_ns, count) = (sorted.first()?, sorted.len());
    let half = Z * (count as f64).sqrt() / 2.0;
    let middle = count as f64 / 2.0;
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a place in a vector")]
    let place = |rank: f64| sorted[(rank.max(0.0) as usize).min(count - 1)];
    let median_ns = f64::midpoint(sorted[(count - 1) / 2], sorted[count / 2]);
    Some(Timing {
        median_ns,
        low_ns: place((middle - half).floor()),
        high_ns: place((middle + half).ceil()),
        minimum_ns,
        runs: count as u64,
        capped: false,
        wall_ns: None,
    })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn steady_samples_end_at_once_and_noisy_ones_at_the_limit() {
        let limit = Repetition { limit: Duration::from_millis(20), ..Repetition::default() };
        let timing = repeat(&limit, |count| Ok(vec![100.0; count])).unwrap();
        assert_eq!((timing.runs, timing.capped), (10, false));
        let mut turn = 0_u32;
        let noisy = repeat(&limit, |count| {
            Ok((0..count)
                .map(|_| {
                    turn += 1;
                    std::thread::sleep(Duration::from_micros(100));
                    if turn.is_multiple_of(2) { 100.0 } else { 300.0 }
                })
                .collect())
        });
        let timing = noisy.unwrap();
        assert!(timing.capped && timing.runs >= 3, "{timing:?}");
        assert!(timing.low_ns <= timing.median_ns && timing.median_ns <= timing.high_ns);
    }

    #[test]
    fn the_interval_is_that_of_order_statistics() {
        let samples: Vec<f64> = (1..=100).map(f64::from).collect();
        let timing = timing(&samples).unwrap();
        // Ranks 50 ± 9.8.
        assert!((timing.median_ns - 50.5).abs() < 1e-9);
        assert!((timing.low_ns - 41.0).abs() < 1e-9 && (timing.high_ns - 61.0).abs() < 1e-9, "{timing:?}");
    }

    #[test]
    fn long_runs_end_at_the_limit_before_the_least() {
        let limit = Repetition { limit: Duration::from_millis(5), ..Repetition::default() };
        let timing = repeat(&limit, |count| {
            std::thread::sleep(Duration::from_millis(2 * count as u64));
            Ok(vec![2e6; count])
        });
        let timing = timing.unwrap();
        assert!(timing.capped && timing.runs == 3, "{timing:?}");
    }

    #[test]
    fn nothing_measured_is_an_error() {
        assert!(repeat(&Repetition::default(), |_| Ok(Vec::new())).is_err());
    }
}

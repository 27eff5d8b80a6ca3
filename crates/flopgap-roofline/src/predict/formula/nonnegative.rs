//! Sums of times with factors that are not negative, fitted to the least relative error.

/// Times that the weights are computed again: absolute errors by iteratively reweighted squares.
const ROUNDS: usize = 8;
/// Passes of the descent in each round that stay near the start, which is wanted where there are
/// few rows.
pub(crate) const FEW: usize = 40;
/// Passes that find the sum wherever it lies.
pub(crate) const MANY: usize = 4000;
/// Relative errors below this weigh alike.
const FLOOR: f64 = 0.02;

/// Factors `x >= 0` for which the sums of `x[j] terms[j]` are near to the measured times in
/// relative terms.
///
/// The mean absolute relative error is lowered by coordinate descent on reweighted squares, from
/// `start`. A row is as long as `start`.
pub(crate) fn factors(rows: &[Vec<f64>], times: &[f64], start: &[f64], passes: usize) -> Vec<f64> {
    regularized(rows, times, start, passes, 0.0)
}

/// The same, held near the start as if by so many rows: each factor costs its distance from there,
/// squared, in units of its share of the times.
pub(crate) fn regularized(
    rows: &[Vec<f64>],
    times: &[f64],
    start: &[f64],
    passes: usize,
    hold: f64,
) -> Vec<f64> {
    let columns = start.len();
    let mut scales = vec![0.0; columns];
    for (row, time) in rows.iter().zip(times) {
        for (scale, term) in scales.iter_mut().zip(row) {
            *scale += term / time;
        }
    }
    for scale in &mut scales {
        *scale = if *scale > 0.0 { rows.len() as f64 / *scale } else { 0.0 };
    }
    let relative: Vec<f64> = rows
        .iter()
        .zip(times)
        .flat_map(|(row, time)| row.iter().zip(&scales).map(move |(term, scale)| term * scale / time))
        .collect();
    let mut x: Vec<f64> = start
        .iter()
        .zip(&scales)
        .map(|(start, scale)| if *scale > 0.0 { start / scale } else { 0.0 })
        .collect();
    let first = x.clone();
    let mut weights = vec![1.0; rows.len()];
    let mut normal = vec![0.0; columns * columns];
    let mut right = vec![0.0; columns];
    for round in 0..ROUNDS {
        normal.fill(0.0);
        right.fill(0.0);
        for (row, weight) in relative.chunks_exact(columns).zip(&weights) {
            for i in 0..columns {
                let weighted = row[i] * weight;
                if weighted > 0.0 {
                    right[i] += weighted;
                    for (sum, term) in normal[i * columns..=i * columns + i].iter_mut().zip(row) {
                        *sum += weighted * term;
                    }
                }
            }
        }
        let hold = hold * weights.iter().sum::<f64>() / rows.len() as f64;
        for i in 0..columns {
            for j in 0..i {
                normal[j * columns + i] = normal[i * columns + j];
            }
            if normal[i * columns + i] > 0.0 {
                normal[i * columns + i] += hold;
                right[i] += hold * first[i];
            }
        }
        descend(&normal, &right, &mut x, passes);
        if round + 1 < ROUNDS {
            for (row, weight) in relative.chunks_exact(columns).zip(&mut weights) {
                let predicted: f64 = row.iter().zip(&x).map(|(term, factor)| term * factor).sum();
                *weight = 1.0 / (predicted - 1.0).abs().max(FLOOR);
            }
        }
    }
    x.iter().zip(&scales).map(|(factor, scale)| factor * scale).collect()
}

/// Lowers `x' N x / 2 - r' x` over `x >= 0`.
fn descend(normal: &[f64], right: &[f64], x: &mut [f64], passes: usize) {
    let columns = x.len();
    for _ in 0..passes {
        let mut moved: f64 = 0.0;
        for i in 0..columns {
            let row = &normal[i * columns..(i + 1) * columns];
            if row[i] <= 0.0 {
                continue;
            }
            let all: f64 = row.iter().zip(x.iter()).map(|(term, factor)| term * factor).sum();
            let next = (x[i] + (right[i] - all) / row[i]).max(0.0);
            moved = moved.max((next - x[i]).abs());
            x[i] = next;
        }
        if moved < 1e-7 {
            break;
        }
    }
}

/// The sum that factors make of terms.
pub(crate) fn sum(factors: &[f64], terms: &[f64]) -> f64 {
    factors.iter().zip(terms).map(|(factor, term)| factor * term).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sum_of_times_is_found_again() {
        // t = 5 + 2 a + 0 b, one row far off.
        let mut rows = Vec::new();
        let mut times = Vec::new();
        for a in 1..20 {
            for b in 1..5 {
                rows.push(vec![1.0, f64::from(a), f64::from(b * b)]);
                times.push(5.0 + 2.0 * f64::from(a));
            }
        }
        times[7] *= 3.0;
        let found = factors(&rows, &times, &[1.0, 1.0, 1.0], FEW);
        assert!((found[0] - 5.0).abs() < 0.2 && (found[1] - 2.0).abs() < 0.05, "{found:?}");
        assert!(found[2].abs() < 0.02, "{found:?}");
    }

    #[test]
    fn a_term_that_no_row_has_stays_out() {
        let rows = vec![vec![1.0, 0.0]; 5];
        let found = factors(&rows, &[3.0; 5], &[1.0, 1.0], FEW);
        assert!((found[0] - 3.0).abs() < 1e-6 && found[1] == 0.0, "{found:?}");
    }
}

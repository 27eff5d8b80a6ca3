//! Parameters for which errors are least: Levenberg and Marquardt's method (Marquardt, 1963) with
//! errors that weigh less the larger they are.

/// Errors from which on they count by their size rather than by their square.
const LARGE: f64 = 0.08;
/// Parameters stay within so much of where they began.
const FAR: f64 = 5.0;

/// How far a fit goes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Descent {
    /// What a step of 1 from the start weighs in every parameter, in errors.
    pub(crate) pull: f64,
    pub(crate) rounds: usize,
}

/// Parameters near `start` with the least errors over so many rows. `error` writes the slopes of a
/// row's error over the parameters.
pub(crate) fn least_errors<const N: usize>(
    start: [f64; N],
    rows: usize,
    error: impl Fn(usize, &[f64; N], &mut [f64; N]) -> f64,
    how: Descent,
) -> [f64; N] {
    let assess = |at: &[f64; N]| {
        let (mut normal, mut right, mut cost) = ([[0.0; N]; N], [0.0; N], 0.0);
        let mut slopes = [0.0; N];
        for row in 0..rows {
            let error = error(row, at, &mut slopes);
            let root = (1.0 + (error / LARGE).powi(2)).sqrt();
            cost += 2.0 * LARGE * LARGE * (root - 1.0);
            for i in (0..N).filter(|&i| slopes[i] != 0.0) {
                let weighted = slopes[i] / root;
                right[i] -= weighted * error;
                for j in 0..=i {
                    normal[i][j] += weighted * slopes[j];
                }
            }
        }
        let pull = how.pull * how.pull;
        for i in 0..N {
            let away = at[i] - start[i];
            cost += pull * away * away;
            right[i] -= pull * away;
            normal[i][i] += pull;
        }
        (normal, right, cost)
    };
    let mut at = start;
    let (mut normal, mut right, mut cost) = assess(&at);
    let mut damping = 1e-2;
    for _ in 0..how.rounds {
        let mut damped = normal;
        for (i, row) in damped.iter_mut().enumerate() {
            row[i] *= 1.0 + damping;
        }
        let Some(step) = solve(damped, right) else { break };
        let mut next = at;
        for i in 0..N {
            // A long step leaves where the slopes hold.
            next[i] = (at[i] + step[i].clamp(-1.0, 1.0)).clamp(start[i] - FAR, start[i] + FAR);
        }
        let (next_normal, next_right, next_cost) = assess(&next);
        if next_cost < cost {
            let gained = (cost - next_cost) / cost;
            (at, normal, right, cost) = (next, next_normal, next_right, next_cost);
            damping = (damping * 0.3).max(1e-7);
            if gained < 1e-4 {
                break;
            }
        } else {
            damping *= 6.0;
            if damping > 1e6 {
                break;
            }
        }
    }
    at
}

/// The solution of a symmetric system, of which the lower half is given, by Cholesky's method;
/// `None` where it is not positive definite.
fn solve<const N: usize>(mut matrix: [[f64; N]; N], mut right: [f64; N]) -> Option<[f64; N]> {
    for i in 0..N {
        for j in 0..=i {
            let known: f64 = (0..j).map(|k| matrix[i][k] * matrix[j][k]).sum();
            let left = matrix[i][j] - known;
            if i == j {
                if left.is_nan() || left <= 0.0 {
                    return None;
                }
                matrix[i][i] = left.sqrt();
            } else {
                matrix[i][j] = left / matrix[j][j];
            }
        }
    }
    for i in 0..N {
        let known: f64 = (0..i).map(|k| matrix[i][k] * right[k]).sum();
        right[i] = (right[i] - known) / matrix[i][i];
    }
    for i in (0..N).rev() {
        let known: f64 = (i + 1..N).map(|k| matrix[k][i] * right[k]).sum();
        right[i] = (right[i] - known) / matrix[i][i];
    }
    Some(right)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_curve_is_found_again_in_spite_of_an_outlier() {
        let curve = |x: f64, [a, b]: [f64; 2]| (a * x).exp() + b;
        let truth = [0.4, 2.0];
        let rows: Vec<(f64, f64)> = (0..20)
            .map(|row| (f64::from(row) / 5.0, curve(f64::from(row) / 5.0, truth)))
            .enumerate()
            .map(|(row, (x, y))| (x, if row == 7 { y + 3.0 } else { y }))
            .collect();
        let error = |row: usize, at: &[f64; 2], slopes: &mut [f64; 2]| {
            let (x, y) = rows[row];
            *slopes = [x * (at[0] * x).exp(), 1.0];
            curve(x, *at) - y
        };
        let found = least_errors([0.0, 0.0], rows.len(), error, Descent { pull: 1e-3, rounds: 60 });
        assert!((found[0] - 0.4).abs() < 0.01 && (found[1] - 2.0).abs() < 0.05, "{found:?}");
    }

    #[test]
    fn a_system_is_solved() {
        let found = solve([[4.0, 0.0], [2.0, 3.0]], [10.0, 9.0]).unwrap();
        assert!((found[0] - 1.5).abs() < 1e-12 && (found[1] - 2.0).abs() < 1e-12, "{found:?}");
        assert!(solve([[0.0]], [1.0]).is_none());
    }
}

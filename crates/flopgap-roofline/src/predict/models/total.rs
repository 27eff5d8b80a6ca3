//! The interval of a model from those of its steps.
//!
//! Steps of one kind are predicted by the same factors and trees: where one is wrong, the others
//! are wrong with it, and twelve layers that are alike are as unsure as one. Their deviations add
//! up; those of different kinds are independent, and their squares add up.

use rustc_hash::FxHashMap;

use crate::predict::inputs::kind;
use crate::predict::inputs::point::Point;
use crate::predict::inputs::regime::Regime;
use crate::predict::models::steps::regime;

/// A step with its interval, in nanoseconds.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Part {
    pub(crate) nanoseconds: f64,
    pub(crate) low: f64,
    pub(crate) high: f64,
    /// Whether nothing of its kind was measured: such bounds are limits, and all may be reached.
    pub(crate) from_floor: bool,
}

/// What the errors of steps have in common: kind, window and what bounds it.
type Class = (String, u64, Regime);

fn class(point: &Point<'_>) -> Class {
    (kind::name(&point.step.op), point.shape.window.to_bits(), regime(point))
}

/// Half-widths of the sum below and above it, on the logarithm.
pub(crate) fn widths(points: &[Point<'_>], parts: &[Part]) -> [f64; 2] {
    let classes = points.iter().map(class);
    deviations(classes.zip(parts.iter().copied()))
}

fn deviations<K: Eq + std::hash::Hash>(parts: impl Iterator<Item = (K, Part)>) -> [f64; 2] {
    let mut by_class: FxHashMap<K, [f64; 2]> = FxHashMap::default();
    let (mut sum, mut limits) = (0.0, [0.0; 2]);
    for (class, part) in parts {
        sum += part.nanoseconds;
        let of = [part.nanoseconds - part.low, part.high - part.nanoseconds];
        let all = if part.from_floor { &mut limits } else { by_class.entry(class).or_default() };
        all.iter_mut().zip(of).for_each(|(all, of)| *all += of);
    }
    if sum <= 0.0 {
        return [0.0; 2];
    }
    let total = |side: usize| {
        // In the order of their size, so that equal models have equal bounds.
        let mut squares: Vec<f64> = by_class.values().map(|of| of[side].powi(2)).collect();
        squares.sort_by(f64::total_cmp);
        (squares.iter().sum::<f64>().sqrt() + limits[side]) / sum
    };
    // What is below a sum of positive times is positive, but for rounding.
    [-(1.0 - total(0)).max(1e-3).ln(), (1.0 + total(1)).ln()]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(nanoseconds: f64, factor: f64) -> Part {
        Part { nanoseconds, low: nanoseconds / factor, high: nanoseconds * factor, from_floor: false }
    }

    #[test]
    fn errors_of_one_kind_add_up_and_those_of_others_average_out() {
        let alone = deviations([(0, part(100.0, 1.5))].into_iter());
        assert!(alone.iter().all(|width| (width - 1.5_f64.ln()).abs() < 1e-12), "{alone:?}");
        // Sixteen steps that are alike are as unsure as one.
        let alike = deviations((0..16).map(|_| (0, part(100.0, 1.5))));
        assert!(alike.iter().all(|width| (width - 1.5_f64.ln()).abs() < 1e-12), "{alike:?}");
        // Of sixteen kinds, a quarter of that is left: 800 of 1600 above, 533 below.
        let apart = deviations((0..16).map(|kind| (kind, part(100.0, 1.5))));
        let expected = [-(1.0 - 1.0 / 12.0_f64).ln(), 1.125_f64.ln()];
        assert!(apart.iter().zip(expected).all(|(width, of)| (width - of).abs() < 1e-12), "{apart:?}");
    }

    #[test]
    fn limits_of_what_was_never_measured_add_up() {
        let of_floor = |floor: f64| Part {
            nanoseconds: floor * 10f64.sqrt(),
            low: floor,
            high: 10.0 * floor,
            from_floor: true,
        };
        let exact = Part { nanoseconds: 100.0, low: 100.0, high: 100.0, from_floor: false };
        let parts = [(0, of_floor(10.0)), (1, of_floor(30.0)), (2, exact)];
        let sum: f64 = parts.iter().map(|(_, part)| part.nanoseconds).sum();
        let [down, up] = deviations(parts.into_iter());
        assert!((sum * (-down).exp() - 140.0).abs() < 1e-9 && (sum * up.exp() - 500.0).abs() < 1e-9);
    }
}

//! Derives the bandwidth of each level of the memory from a curve over working sets.

use crate::{Bandwidth, Level, quantile};

/// A level whose capacity is known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Capacity {
    /// `L1`, `L2`, `L3`.
    pub(crate) name: String,
    /// Bytes, of all units together.
    pub(crate) bytes: u64,
}

/// Part of a level that a working set may fill to be sure to lie in it, and how many times the
/// level below it must be larger.
const FILLED: f64 = 0.7;
const BEYOND: f64 = 1.5;
/// How many times larger than all caches a working set must be to come from memory.
const MEMORY: f64 = 3.0;

/// Bandwidth of each level, from the points of the curve whose working sets lie in it and do not
/// fit the level before: what `part` of them are below, one half for the median. A level without
/// such a point (a third level cache of which a virtual machine has a small part, say) is left out.
/// The last is the memory, by the largest working sets.
pub(crate) fn levels(capacities: &[Capacity], memory: &str, curve: &[Bandwidth], part: f64) -> Vec<Level> {
    let mut found = Vec::new();
    let mut before = 0.0;
    for capacity in capacities {
        let (low, high) = (before * BEYOND, capacity.bytes as f64 * FILLED);
        let inside = |point: &&Bandwidth| point.bytes as f64 >= low && point.bytes as f64 <= high;
        found.extend(level(&capacity.name, Some(capacity.bytes), curve.iter().filter(inside), part));
        before = before.max(capacity.bytes as f64);
    }
    let outside = |point: &&Bandwidth| point.bytes as f64 >= before * MEMORY;
    let largest = curve.last().into_iter();
    let memory = level(memory, None, curve.iter().filter(outside), part)
        .or_else(|| level(memory, None, largest, part));
    found.extend(memory);
    found
}

fn level<'a>(
    name: &str,
    bytes: Option<u64>,
    points: impl Iterator<Item = &'a Bandwidth>,
    part: f64,
) -> Option<Level> {
    let points: Vec<&Bandwidth> = points.collect();
    let of = |value: fn(&Bandwidth) -> f64| {
        let mut values: Vec<f64> = points.iter().copied().map(value).collect();
        values.sort_by(f64::total_cmp);
        quantile(&values, part)
    };
    let read = of(|point| point.read.value)?;
    let copy = of(|point| point.copy.value)?;
    Some(Level { name: name.to_owned(), bytes, read, copy })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Quantity;

    fn point(bytes: u64, rate: f64) -> Bandwidth {
        let quantity = |value| Quantity { value, spread: 0.0 };
        Bandwidth { bytes, read: quantity(rate), write: quantity(rate), copy: quantity(rate / 2.0) }
    }

    fn capacity(name: &str, bytes: u64) -> Capacity {
        Capacity { name: name.to_owned(), bytes }
    }

    #[test]
    fn a_level_has_the_median_of_the_working_sets_that_lie_in_it() {
        let curve = [
            point(10, 90.0),
            point(50, 100.0),
            point(90, 70.0), // at the edge of L1
            point(200, 40.0),
            point(400, 42.0),
            point(900, 20.0), // at the edge of L2
            point(5000, 10.0),
            point(9000, 11.0),
        ];
        let levels = levels(&[capacity("L1", 100), capacity("L2", 1000)], "DRAM", &curve, 0.5);
        let reported: Vec<(&str, Option<u64>, f64, f64)> =
            levels.iter().map(|level| (level.name.as_str(), level.bytes, level.read, level.copy)).collect();
        assert_eq!(
            reported,
            [("L1", Some(100), 95.0, 47.5), ("L2", Some(1000), 41.0, 20.5), ("DRAM", None, 10.5, 5.25)]
        );
    }

    #[test]
    fn a_level_without_a_point_is_left_out_and_the_memory_is_the_largest_working_set() {
        let levels = levels(
            &[capacity("L1", 100), capacity("L3", 1000)],
            "DRAM",
            &[point(50, 9.0), point(900, 3.0)],
            0.5,
        );
        assert_eq!(levels.len(), 2);
        assert!((levels[1].read - 3.0).abs() < 1e-12 && levels[1].bytes.is_none());
    }
}

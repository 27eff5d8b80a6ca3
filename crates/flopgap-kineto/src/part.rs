//! Forward, backward and optimizer, distinguished as `PyTorch` does.

use std::fmt;

/// The part of a training step that an operator belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Part {
    /// Everything else, including the loss.
    Forward,
    /// Run by the autograd engine.
    Backward,
    /// Within `Optimizer.step` or `Optimizer.zero_grad`.
    Optimizer,
}

impl Part {
    /// The name used in text.
    pub const fn name(self) -> &'static str {
        match self {
            Part::Forward => "forward",
            Part::Backward => "backward",
            Part::Optimizer => "optimizer",
        }
    }

    /// The part that a range opens by its name: the autograd engine wraps every function that it
    /// evaluates, and an optimizer its step.
    pub(crate) fn opened_by(name: &str) -> Option<Part> {
        if name.starts_with("autograd::engine::evaluate_function") {
            Some(Part::Backward)
        } else if ["Optimizer.step", "Optimizer.zero_grad"].iter().any(|begin| name.starts_with(begin)) {
            Some(Part::Optimizer)
        } else {
            None
        }
    }
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// A range of one thread.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Range {
    pub(crate) thread: u32,
    /// Nanoseconds.
    pub(crate) start: i64,
    pub(crate) end: i64,
    /// The part that it opens for itself and everything inside.
    pub(crate) opens: Option<Part>,
    /// Whether the framework assigns FLOPs to it.
    pub(crate) counted: bool,
}

/// The context of a range.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) part: Part,
    /// Inside another range that the framework assigns FLOPs to.
    pub(crate) within_counted: bool,
}

/// The part of each range: that of the innermost enclosing range that opens a part, itself
/// included.
pub(crate) fn places(ranges: &[Range]) -> Vec<Place> {
    let mut order: Vec<usize> = (0..ranges.len()).collect();
    // Stable: of two equal ranges the one recorded first is the outer one.
    order.sort_by_key(|&at| {
        let range = &ranges[at];
        (range.thread, range.start, std::cmp::Reverse(range.end))
    });
    let mut places = vec![Place { part: Part::Forward, within_counted: false }; ranges.len()];
    let mut open: Vec<usize> = Vec::new();
    for at in order {
        let range = &ranges[at];
        while open
            .last()
            .is_some_and(|&outer| ranges[outer].thread != range.thread || ranges[outer].end <= range.start)
        {
            open.pop();
        }
        let outer = open.last().copied();
        places[at] = Place {
            part: range.opens.or(outer.map(|outer| places[outer].part)).unwrap_or(Part::Forward),
            within_counted: outer.is_some_and(|outer| ranges[outer].counted || places[outer].within_counted),
        };
        open.push(at);
    }
    places
}

#[cfg(test)]
mod tests {
    use super::Part::{Backward, Forward, Optimizer};
    use super::*;
    use proptest::prelude::*;

    fn range(thread: u32, start: i64, end: i64, opens: Option<Part>) -> Range {
        Range { thread, start, end, opens, counted: false }
    }

    #[test]
    fn the_innermost_opening_range_decides() {
        let ranges = [
            range(0, 0, 10, None),
            range(0, 20, 90, Some(Part::Optimizer)),
            range(0, 30, 60, Some(Part::Backward)),
            range(0, 35, 40, None),
            range(0, 60, 70, None),
            range(1, 30, 40, None),
            range(0, 90, 95, None),
        ];
        let parts: Vec<_> = places(&ranges).iter().map(|place| place.part).collect();
        assert_eq!(parts, [Forward, Optimizer, Backward, Backward, Optimizer, Forward, Forward]);
    }

    proptest! {
        /// Checks the definition: of all enclosing ranges, the shortest that opens a part.
        #[test]
        fn nested_ranges_have_the_part_of_the_definition(seeds in proptest::collection::vec((0u32..3, 0i64..6, 0u8..6), 1..40)) {
            // Dyadic ranges never cross; distinct ones have distinct ends.
            let mut ranges: Vec<Range> = Vec::new();
            for (thread, level, kind) in seeds {
                let length = 64 >> level;
                let start = (i64::from(kind) * 37 + level * 11) % 64 / length * length;
                let opens = match kind { 0 => Some(Part::Backward), 1 => Some(Part::Optimizer), _ => None };
                if ranges.iter().all(|old| (old.thread, old.start, old.end) != (thread, start, start + length)) {
                    ranges.push(range(thread, start, start + length, opens));
                }
            }
            let found = places(&ranges);
            for (at, inner) in ranges.iter().enumerate() {
                let around = ranges.iter().filter(|outer| {
                    outer.thread == inner.thread && outer.start <= inner.start && inner.end <= outer.end && outer.opens.is_some()
                });
                let expected = around.min_by_key(|outer| outer.end - outer.start).and_then(|outer| outer.opens);
                prop_assert_eq!(found[at].part, expected.unwrap_or(Part::Forward));
            }
        }
    }
}

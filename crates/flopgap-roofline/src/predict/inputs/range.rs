//! The range of the fitted sizes: beyond it a prediction is an extrapolation.

use flopgap_flops::Precision;
use flopgap_graph::{Mode, Step};
use rustc_hash::FxHashMap;

use crate::predict::inputs::shape::Shape;

/// Sizes may exceed the fitted range by this factor before it counts as extrapolation.
const SLACK: f64 = 1.1;

/// By operation, not by the coarser family that is fitted together: kernels that gather rows have
/// sizes that those of sums of elements do not tell of.
type Key = (String, Precision, Mode);

/// Least and largest sizes of each kind of step.
#[derive(Debug, Clone, Default, serde::Serialize, serde::Deserialize)]
pub(crate) struct Ranges {
    by_key: FxHashMap<Key, [[f64; 2]; 6]>,
}

impl Ranges {
    pub(crate) fn include(&mut self, step: &Step, precision: Precision, mode: Mode) {
        let range = self
            .by_key
            .entry((step.op.name().to_owned(), precision, mode))
            .or_insert([[f64::INFINITY, f64::NEG_INFINITY]; 6]);
        for (range, size) in range.iter_mut().zip(sizes(&Shape::of(step))) {
            *range = [range[0].min(size), range[1].max(size)];
        }
    }

    /// Whether a step lies outside of what was fitted.
    pub(crate) fn outside(&self, step: &Step, precision: Precision, mode: Mode) -> bool {
        let Some(range) = self.by_key.get(&(step.op.name().to_owned(), precision, mode)) else { return true };
        range
            .iter()
            .zip(sizes(&Shape::of(step)))
            .any(|([least, most], size)| size < least / SLACK || size > most * SLACK)
    }
}

fn sizes(shape: &Shape) -> [f64; 6] {
    [shape.batch, shape.m, shape.n, shape.k, shape.flops, shape.elements()]
}

#[cfg(test)]
mod tests {
    use flopgap_graph::{Epilogue, Op};

    use super::*;

    #[test]
    fn sizes_of_one_operation_do_not_stand_for_another() {
        let step = |op| Step { op, epilogue: Epilogue::default() };
        let mut ranges = Ranges::default();
        let at = (Precision::Fp16, Mode::Graph);
        for elements in [1, 1 << 24] {
            ranges.include(&step(Op::Copy { elements }), at.0, at.1);
        }
        for rows in [1, 4096] {
            ranges.include(&step(Op::Gather { rows, width: 768 }), at.0, at.1);
        }
        assert!(!ranges.outside(&step(Op::Copy { elements: 262_144 }), at.0, at.1));
        assert!(!ranges.outside(&step(Op::Gather { rows: 64, width: 768 }), at.0, at.1));
        // As many elements as copies had, but in a single row: no kernel that gathers was seen to
        // do that.
        assert!(ranges.outside(&step(Op::Gather { rows: 1, width: 262_144 }), at.0, at.1));
        assert!(ranges.outside(&step(Op::Softmax { rows: 64, columns: 64 }), at.0, at.1));
        assert!(ranges.outside(&step(Op::Copy { elements: 64 }), at.0, Mode::Stream));
    }
}

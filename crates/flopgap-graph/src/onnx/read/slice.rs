//! What slices take of tensors.

use super::node::{Node, axis};

/// The elements that a slice takes of a dimension: the first, and how many, by a step.
pub(super) fn range(start: i64, end: i64, step: i64, size: u64) -> Option<(i64, u64)> {
    let size = i64::try_from(size).ok()?;
    let place = |at: i64| if at < 0 { at.saturating_add(size) } else { at };
    let (low, high) = if step > 0 { (0, size) } else { (-1, size - 1) };
    let (start, end) = (place(start).clamp(low, high), place(end).clamp(low, high));
    let distance = if step > 0 { end - start } else { start - end };
    let taken = u64::try_from(distance.max(0)).ok()?;
    (step != 0).then(|| (start, taken.div_ceil(step.unsigned_abs())))
}

/// What a slice takes of a dimension, as the file says it.
pub(super) struct Cut {
    pub(super) axis: usize,
    pub(super) start: i64,
    pub(super) end: i64,
    pub(super) step: i64,
}

/// The dimensions that a slice cuts, of so many.
pub(super) fn cuts(node: &Node<'_>, rank: usize) -> Option<Vec<Cut>> {
    let (starts, ends) = (node.list("starts", 1)?, node.list("ends", 2)?);
    let axes = match node.list("axes", 3) {
        Some(axes) => axes,
        None if node.has(3) => return None,
        None => (0..i64::try_from(starts.len()).ok()?).collect(),
    };
    let steps = match node.operand(4) {
        Some(steps) => steps.integers()?.to_vec(),
        None => vec![1; starts.len()],
    };
    let cut = |(index, &at): (usize, &i64)| {
        let (start, end, step) = (*starts.get(index)?, *ends.get(index)?, *steps.get(index)?);
        Some(Cut { axis: axis(at, rank)?, start, end, step })
    };
    axes.iter().enumerate().map(cut).collect()
}

/// The shape of what a slice takes.
pub(super) fn slice(node: &Node<'_>) -> Option<Vec<u64>> {
    let mut result = node.shape(0)?.to_vec();
    for Cut { axis, start, end, step } in cuts(node, result.len())? {
        result[axis] = range(start, end, step, result[axis])?.1;
    }
    Some(result)
}

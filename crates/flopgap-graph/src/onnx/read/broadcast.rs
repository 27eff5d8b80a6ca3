//! Shapes of operands that are broadcast over each other.

type Shape = Vec<u64>;

/// Shapes broadcast over each other.
pub(super) fn broadcast(shapes: &[&[u64]]) -> Option<Shape> {
    let rank = shapes.iter().map(|shape| shape.len()).max()?;
    let mut result = vec![1; rank];
    for shape in shapes {
        for (place, &size) in result[rank - shape.len()..].iter_mut().zip(*shape) {
            if *place == 1 {
                *place = size;
            } else if size != 1 && size != *place {
                return None;
            }
        }
    }
    Some(result)
}

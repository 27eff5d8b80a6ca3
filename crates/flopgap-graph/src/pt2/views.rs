//! Decides when a tensor can be viewed in another shape without a copy.

/// Whether the elements of a tensor of these sizes and strides can be addressed in `other` sizes by
/// strides alone: what `torch.reshape` asks before it copies (`computeStride_impl` of
/// `ATen/TensorUtils.cpp`).
pub(super) fn is_view(sizes: &[u64], strides: &[u64], other: &[u64]) -> bool {
    if sizes.len() != strides.len() || sizes.contains(&0) {
        return true;
    }
    // Neighboring dimensions that lie in memory as one, from the last to the first.
    let mut pieces: Vec<u64> = Vec::new();
    let mut inner: Option<(u64, u64)> = None;
    for (&size, &stride) in sizes.iter().zip(strides).rev().filter(|(size, _)| **size != 1) {
        inner = match inner {
            Some((elements, base)) if stride == base.saturating_mul(elements) => {
                Some((elements.saturating_mul(size), base))
            }
            Some((elements, _)) => {
                pieces.push(elements);
                Some((size, stride))
            }
            None => Some((size, stride)),
        };
    }
    pieces.extend(inner.map(|(elements, _)| elements));
    // Each piece must be cut into whole dimensions of the other shape.
    let mut dimensions = other.iter().rev().filter(|size| **size != 1);
    pieces.iter().all(|&piece| {
        let mut elements = 1_u64;
        while elements < piece {
            match dimensions.next() {
                Some(&size) => elements = elements.saturating_mul(size),
                None => return false,
            }
        }
        elements == piece
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reshapes_that_need_no_copy() {
        assert!(is_view(&[2, 3, 4], &[12, 4, 1], &[6, 4]));
        assert!(is_view(&[2, 3, 4], &[12, 4, 1], &[2, 2, 6]));
        // Heads moved before the length: joining them again needs a copy, splitting one does not.
        assert!(!is_view(&[1, 64, 12, 8], &[6144, 8, 512, 1], &[1, 64, 96]));
        assert!(is_view(&[1, 64, 12, 8], &[6144, 8, 512, 1], &[1, 64, 12, 2, 4]));
        assert!(is_view(&[1, 5], &[99, 1], &[5]), "a dimension of one element lies anywhere");
        assert!(!is_view(&[4, 5], &[1, 4], &[20]));
    }
}

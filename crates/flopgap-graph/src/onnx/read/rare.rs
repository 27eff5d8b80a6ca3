//! Shapes of results of operators that few models have.

use super::node::{Node, axis};

/// Images of which 8 or 16 channels lie side by side, as ONNX Runtime stores them: missing ones are
/// zeros, of which shapes have as many as there are.
pub(super) fn reordered(node: &Node<'_>) -> Option<Vec<Vec<u64>>> {
    let mut shape = match node.operator {
        "ReorderInput" | "ReorderOutput" | "NchwcUpsample" => node.shape(0)?.to_vec(),
        _ => return None,
    };
    let last = node.integer("channels_last") == Some(1);
    match node.operator {
        "ReorderInput" => {
            if last {
                let channels = shape.pop()?;
                shape.insert(1, channels);
            }
            let channels = shape.get_mut(1)?;
            let (narrow, wide) = (channels.next_multiple_of(8), channels.next_multiple_of(16));
            // How many lie side by side is not in the file.
            *channels = node.channels.or((narrow == wide).then_some(wide))?;
        }
        "ReorderOutput" => {
            shape.get(1)?;
            shape[1] = u64::try_from(node.integer("channels")?).ok()?;
            if last {
                let channels = shape.remove(1);
                shape.push(channels);
            }
        }
        _ => {
            for (size, factor) in shape.iter_mut().zip(node.sizes("scales")?) {
                *size = size.checked_mul(factor)?;
            }
        }
    }
    Some(vec![shape])
}

/// Samples of images, bags of rows, and what signals are taken apart into.
pub(super) fn signals(node: &Node<'_>) -> Option<Vec<Vec<u64>>> {
    let shape = || node.shape(0);
    let known = |place: usize| u64::try_from(*node.operand(place)?.integers()?.first()?).ok();
    let one_sided = |length: u64, default: i64| match node.integer("onesided").unwrap_or(default) {
        1 => length / 2 + 1,
        _ => length,
    };
    let result = match node.operator {
        "GridSample" => {
            let ([batch, channels, ..], [_, points @ .., _]) = (shape()?, node.shape(1)?) else {
                return None;
            };
            [&[*batch, *channels], points].concat()
        }
        "AffineGrid" => {
            let size = node.operand(1)?.integers()?;
            let size: Vec<u64> = size.iter().map(|&size| u64::try_from(size).ok()).collect::<Option<_>>()?;
            let (batch, image) = (*size.first()?, size.get(2..)?);
            [&[batch], image, &[image.len() as u64]].concat()
        }
        "embedding_bag" => {
            let ([_, width], [offsets]) = (shape()?, node.shape(2)?) else { return None };
            let ends = node.operand(7).and_then(|operand| operand.integers()).is_some_and(|last| last == [1]);
            vec![offsets.checked_sub(u64::from(ends))?, *width]
        }
        "DFT" => {
            let mut shape = shape()?.to_vec();
            let at = match node.operand(2) {
                Some(axis) => *axis.integers()?.first()?,
                None if node.opset >= 20 => -2,
                None => node.integer("axis").unwrap_or(1),
            };
            let at = axis(at, shape.len())?;
            let length = if node.has(1) { known(1)? } else { shape[at] };
            // Back from one side, versions differ.
            let (back, half) = (node.integer("inverse") == Some(1), node.integer("onesided") == Some(1));
            if back && half {
                return None;
            }
            shape[at] = one_sided(length, 0);
            *shape.last_mut()? = 2;
            shape
        }
        "STFT" => {
            let ([batch, length] | [batch, length, _]) = *shape()? else { return None };
            let frame = if node.has(3) { known(3)? } else { *node.shape(2)?.first()? };
            let frames = length.checked_sub(frame)?.checked_div(known(1)?)?.checked_add(1)?;
            vec![batch, frames, one_sided(frame, 1), 2]
        }
        "HannWindow" | "HammingWindow" | "BlackmanWindow" => vec![known(0)?],
        "MelWeightMatrix" => vec![known(1)? / 2 + 1, known(0)?],
        _ => return None,
    };
    Some(vec![result])
}

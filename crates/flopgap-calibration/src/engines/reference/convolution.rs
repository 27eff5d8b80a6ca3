//! Convolutions of images in 64 bits.

use flopgap_graph::op::Conv;
use rayon::prelude::*;

use super::size;

/// Where the output of one channel is computed from.
struct Geometry<'a> {
    conv: &'a Conv,
    /// Height and width of the input and of the output.
    image: [usize; 2],
    output: [usize; 2],
    kernel: [usize; 2],
}

/// `x` is `batch x inputs x height x width`, weights are `outputs x inputs / groups x kernel`. The
/// rest of the operands are weights and, where there is one, the bias.
pub(super) fn forward(conv: &Conv, x: &[f64], rest: &[&[f64]]) -> Vec<f64> {
    let ([weights, rest @ ..], Ok(output)) = (rest, conv.output()) else { return Vec::new() };
    let bias = rest.first();
    let pair = |sizes: &[u64]| [size(sizes[0]), size(sizes[1])];
    let geometry =
        Geometry { conv, image: pair(&conv.image), output: pair(&output), kernel: pair(&conv.kernel) };
    let (inputs, outputs) = (size(conv.inputs), size(conv.outputs));
    let groups = size(conv.groups).max(1);
    let [height, width] = geometry.image;
    let (each, plane) = (inputs / groups, geometry.output[0] * geometry.output[1]);
    let window = geometry.kernel[0] * geometry.kernel[1];
    let mut result = vec![0.0; size(conv.batch) * outputs * plane];
    result.par_chunks_mut(plane.max(1)).enumerate().for_each(|(index, sums)| {
        let (sample, channel) = (index / outputs, index % outputs);
        sums.fill(bias.map_or(0.0, |bias| bias[channel]));
        let first = channel / (outputs / groups) * each;
        for input in 0..each {
            let image = &x[(sample * inputs + first + input) * height * width..][..height * width];
            let kernel = &weights[(channel * each + input) * window..][..window];
            geometry.add(image, kernel, sums);
        }
    });
    result
}

impl Geometry<'_> {
    /// Adds what one channel of the input gives: a row of the output at a time, so that the inner
    /// loop is over neighbors.
    fn add(&self, image: &[f64], kernel: &[f64], sums: &mut [f64]) {
        let [_, width] = self.image;
        let [rows, columns] = self.output;
        for (place, &weight) in kernel.iter().enumerate() {
            let (down, across) = (place / self.kernel[1], place % self.kernel[1]);
            let span = self.inside(1, across, columns);
            if span.is_empty() {
                continue;
            }
            let stride = size(self.conv.stride[1]);
            for row in self.inside(0, down, rows) {
                let from = &image[self.source(0, row, down) * width..][..width];
                let from = &from[self.source(1, span.start, across)..];
                let to = &mut sums[row * columns..][span.clone()];
                if stride == 1 {
                    to.iter_mut().zip(from).for_each(|(sum, x)| *sum += weight * x);
                } else {
                    to.iter_mut().zip(from.iter().step_by(stride)).for_each(|(sum, x)| *sum += weight * x);
                }
            }
        }
    }

    /// Where along a dimension of the input the element `tap` of the kernel lies for an output.
    /// Only for outputs that are [`inside`](Self::inside).
    fn source(&self, dimension: usize, output: usize, tap: usize) -> usize {
        let offset = output * size(self.conv.stride[dimension]) + tap * size(self.conv.dilation[dimension]);
        offset - size(self.conv.padding[dimension][0])
    }

    /// The outputs along a dimension for which the element `tap` of the kernel lies inside the
    /// image.
    fn inside(&self, dimension: usize, tap: usize, outputs: usize) -> std::ops::Range<usize> {
        let stride = size(self.conv.stride[dimension]).max(1);
        let offset = tap * size(self.conv.dilation[dimension]);
        let before = size(self.conv.padding[dimension][0]);
        let first = before.saturating_sub(offset).div_ceil(stride);
        let end = (before + self.image[dimension]).saturating_sub(offset).div_ceil(stride);
        first.min(outputs)..end.min(outputs)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn conv(groups: u64, stride: u64, dilation: u64, padding: [u64; 2]) -> Conv {
        Conv {
            groups,
            kernel: vec![3, 2],
            stride: vec![stride, 2],
            dilation: vec![dilation, 1],
            padding: vec![padding, [0, 1]],
            ..Conv::new(2, [4, 6], &[7, 9], 3, 1)
        }
    }

    /// The definition, index by index.
    #[expect(
        clippy::cast_possible_wrap,
        clippy::cast_sign_loss,
        clippy::cast_possible_truncation,
        reason = "small numbers"
    )]
    fn definition(conv: &Conv, x: &[f64], weights: &[f64], bias: &[f64]) -> Vec<f64> {
        let output = conv.output().unwrap();
        let mut result = Vec::new();
        let each = conv.inputs / conv.groups;
        for (sample, channel) in (0..conv.batch).flat_map(|s| (0..conv.outputs).map(move |c| (s, c))) {
            for (row, column) in (0..output[0]).flat_map(|r| (0..output[1]).map(move |c| (r, c))) {
                let mut sum = bias[channel as usize];
                for input in 0..each {
                    let from = channel / (conv.outputs / conv.groups) * each + input;
                    for (down, across) in
                        (0..conv.kernel[0]).flat_map(|d| (0..conv.kernel[1]).map(move |a| (d, a)))
                    {
                        let y = (row * conv.stride[0] + down * conv.dilation[0]) as i64
                            - conv.padding[0][0] as i64;
                        let z = (column * conv.stride[1] + across * conv.dilation[1]) as i64
                            - conv.padding[1][0] as i64;
                        if (0..conv.image[0] as i64).contains(&y) && (0..conv.image[1] as i64).contains(&z) {
                            let place = ((sample * conv.inputs + from) as i64 * 7 + y) * 9 + z;
                            let weight =
                                ((channel * each + input) * conv.kernel[0] + down) * conv.kernel[1] + across;
                            sum += x[place as usize] * weights[weight as usize];
                        }
                    }
                }
                result.push(sum);
            }
        }
        result
    }

    #[test]
    fn convolutions_are_those_of_the_definition() {
        let number = |index: usize| ((index * 37 % 101) as f64 - 50.0) / 16.0;
        for (groups, stride, dilation, padding) in
            [(1, 1, 1, [0, 0]), (1, 2, 1, [1, 1]), (2, 1, 2, [2, 1]), (2, 3, 3, [0, 4])]
        {
            let conv = conv(groups, stride, dilation, padding);
            let x: Vec<f64> = (0..2 * 4 * 7 * 9).map(number).collect();
            let weights: Vec<f64> = (7..7 + 6 * 4 / size(groups) * 6).map(number).collect();
            let bias: Vec<f64> = (0..6).map(number).collect();
            let found = forward(&conv, &x, &[&weights, &bias]);
            let expected = definition(&conv, &x, &weights, &bias);
            assert_eq!(found.len(), expected.len());
            let error = found.iter().zip(&expected).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
            assert!(error < 1e-9, "groups {groups}, stride {stride}: {error}");
        }
    }
}

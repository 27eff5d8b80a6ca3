//! Where calls lie between measured ones.

use super::call::{Call, Kind};
use crate::floor::last_wave;
use crate::kriging::Scale;

const fn scale(reach: f64) -> Scale {
    Scale { reach, near: reach, names: false }
}

/// The number of an operator's name.
const fn name(reach: f64) -> Scale {
    Scale { reach, near: reach, names: true }
}

/// Whether other kernels compute them: nearly all neighbors are of the same.
const OTHER_KERNELS: Scale = Scale { reach: 0.3, near: 0.05, names: false };

// How far calls are alike along each coordinate: halved or doubled, one after the other, as long as
// calls of an architecture were estimated better from those of others on an H100 and an H200. The
// last is the GPU: shares of floors differ little. Before it, whether a compiled model makes the
// call: mostly by the same kernels.
const PRODUCT: &[Scale] = &[
    scale(16.0),
    scale(8.0),
    scale(4.0),
    scale(6.0),
    scale(0.5),
    scale(1.0),
    scale(1.0),
    scale(3.0),
    scale(8.0),
    scale(2.0),
    scale(1.0),
    scale(12.0),
    scale(12.0),
    scale(16.0),
    name(80.0),
];
const CONVOLUTION: &[Scale] = &[
    scale(4.0),
    scale(6.0),
    scale(8.0),
    scale(8.0),
    scale(8.0),
    scale(24.0),
    scale(4.0),
    scale(2.0),
    scale(6.0),
    scale(4.0),
    scale(0.5),
    scale(1.0),
    scale(2.5),
    scale(3.0),
    scale(0.5),
    scale(12.0),
    scale(32.0),
    name(40.0),
];
const GROUPED_CONVOLUTION: &[Scale] = &[
    scale(24.0),
    scale(6.0),
    scale(2.0),
    scale(6.0),
    scale(8.0),
    scale(48.0),
    scale(3.0),
    scale(8.0),
    scale(3.0),
    scale(6.0),
    scale(1.0),
    scale(2.0),
    scale(10.0),
    scale(8.0),
    scale(0.5),
    // Their blocks say nothing more.
    scale(1e6),
    scale(8.0),
    name(320.0),
];
const DEPTHWISE: &[Scale] = &[
    scale(4.0),
    scale(22.0),
    scale(6.0),
    scale(4.0),
    scale(2.0),
    scale(0.5),
    scale(4.0),
    scale(4.0),
    scale(3.0),
    scale(0.7),
    scale(11.0),
    name(10.0),
];
const ATTENTION: &[Scale] = &[
    scale(11.0),
    scale(8.0),
    scale(6.0),
    scale(2.0),
    scale(16.0),
    scale(0.5),
    scale(1.0),
    scale(1.5),
    OTHER_KERNELS,
    scale(8.0),
    scale(2.0),
    name(10.0),
];
const RECURRENT: &[Scale] = &[
    scale(6.0),
    scale(6.0),
    scale(4.0),
    scale(12.0),
    scale(4.0),
    scale(0.2),
    scale(2.0),
    scale(2.0),
    scale(16.0),
    name(20.0),
];
const NORM: &[Scale] =
    &[scale(4.0), scale(22.0), name(1.4), scale(16.0), scale(2.0), scale(4.0), scale(16.0), name(10.0)];
const OPTIMIZER: &[Scale] = &[scale(8.0), scale(8.0), name(1.0), scale(16.0), name(20.0)];
const GROUPED_PRODUCT: &[Scale] = &[scale(8.0), scale(8.0), scale(8.0), scale(8.0), scale(16.0), name(20.0)];
const FUSED: &[Scale] =
    &[scale(22.0), scale(3.0), scale(0.75), scale(4.0), name(2.8), scale(1.0), scale(16.0), name(40.0)];
const MAP: &[Scale] = &[
    scale(16.0),
    scale(16.0),
    name(0.5),
    scale(3.0),
    scale(16.0),
    scale(3.0),
    scale(2.0),
    scale(2.0),
    scale(16.0),
    name(20.0),
];
const ROWS: &[Scale] = &[
    scale(6.0),
    scale(8.0),
    name(0.5),
    scale(1.0),
    scale(16.0),
    scale(3.0),
    scale(4.0),
    scale(2.0),
    scale(16.0),
    name(20.0),
];

impl Kind {
    pub(super) const fn scales(self) -> &'static [Scale] {
        match self {
            Self::Product => PRODUCT,
            Self::Convolution => CONVOLUTION,
            Self::GroupedConvolution => GROUPED_CONVOLUTION,
            Self::DepthwiseConvolution => DEPTHWISE,
            Self::FusedAttention | Self::MathAttention => ATTENTION,
            Self::Recurrent => RECURRENT,
            Self::Norm => NORM,
            Self::Map => MAP,
            Self::Rows => ROWS,
            Self::Optimizer => OPTIMIZER,
            Self::Fused => FUSED,
            Self::GroupedProduct => GROUPED_PRODUCT,
        }
    }
}

fn log(size: u64) -> f64 {
    (size.max(1) as f64).log2()
}

fn flag(size: u64) -> f64 {
    size as f64
}

fn tiles(size: u64, tile: u64) -> f64 {
    size.div_ceil(tile) as f64
}

impl Call {
    /// Where it lies but for the GPU; `name` is the number of its operator.
    pub(super) fn coordinates(&self, name: f64, units: f64) -> Vec<f64> {
        match (self.kind, self.sizes.as_slice()) {
            (Kind::Product, &[batch, m, n, k, bias, linear, reordered]) => {
                let wave =
                    |rows, columns| last_wave(batch as f64 * tiles(m, rows) * tiles(n, columns), units);
                let odd = [m.saturating_mul(batch), n, k].iter().filter(|size| *size % 8 != 0).count();
                vec![
                    log(batch),
                    log(m),
                    log(n),
                    log(k),
                    wave(128, 128),
                    wave(256, 128),
                    wave(64, 128),
                    flag(bias),
                    flag(linear),
                    odd.min(2) as f64,
                    flag(reordered),
                    (batch as f64 * tiles(m, 64) * tiles(n, 64)).max(1.0).log2(),
                    [m, n, k].into_iter().map(log).sum::<f64>() + log(batch),
                ]
            }
            (Kind::Convolution | Kind::GroupedConvolution | Kind::DepthwiseConvolution, sizes) => {
                convolution(self.kind, sizes, units)
            }
            (
                Kind::FusedAttention | Kind::MathAttention,
                &[heads, queries, keys, head_width, truth, added, causal, repeats],
            ) => vec![
                log(heads),
                log(queries),
                log(keys),
                log(head_width),
                flag(truth),
                flag(added),
                flag(causal),
                last_wave(heads as f64 * tiles(queries, 128), units),
                // Tokens that are generated.
                f64::from(u8::from(queries == 1)),
                log(repeats),
            ],
            (Kind::Recurrent, &[batch, length, hidden, inputs, stacked, _, gates, directions]) => vec![
                log(batch),
                log(length),
                log(hidden),
                log(inputs),
                log(stacked),
                f64::from(u8::from(self.persists())),
                flag(gates),
                flag(directions),
            ],
            (Kind::Norm, &[rows, columns, reordered, gaps]) => {
                vec![log(rows), log(columns), name, log(self.bytes), flag(reordered), flag(gaps)]
            }
            (Kind::Fused, &[bytes, largest, tensors, width, channels]) => {
                vec![log(bytes), log(bytes) - log(largest), log(tensors), log(width), name, log(channels)]
            }
            (Kind::GroupedProduct, &[groups, m, n, k]) => [groups, m, n, k].map(log).to_vec(),
            (Kind::Optimizer, &[tensors, elements, _]) => vec![log(tensors), log(elements), name],
            (_, &[read, written, width, last, several, reordered, gaps]) => vec![
                log(read),
                log(written),
                name,
                log(width),
                log(last),
                flag(several),
                flag(reordered),
                flag(gaps),
            ],
            // Of a file that was damaged; no measured call lies there.
            _ => vec![f64::INFINITY; self.kind.scales().len() - 2],
        }
    }
}

fn convolution(kind: Kind, sizes: &[u64], units: f64) -> Vec<f64> {
    match (kind, sizes) {
        (
            Kind::DepthwiseConvolution,
            &[batch, pixels, image, kernel, _, _, groups, stride, dilation, _, _, bias, reordered, bf16],
        ) => vec![
            log(batch),
            log(image),
            log(pixels),
            log(groups),
            log(kernel),
            flag(reordered),
            log(stride),
            flag(bias),
            flag(bf16),
            f64::from(u8::from(dilation > 1)),
        ],
        (
            _,
            &[
                batch,
                pixels,
                _,
                kernel,
                inputs,
                outputs,
                groups,
                stride,
                dilation,
                rank,
                transposed,
                bias,
                reordered,
                _,
            ],
        ) => {
            let rows = batch.saturating_mul(pixels);
            let columns = outputs / groups.max(1);
            vec![
                log(rows),
                log(columns),
                log((inputs / groups.max(1)).saturating_mul(kernel)),
                log(kernel),
                log(groups),
                log(batch),
                log(stride),
                flag(bias),
                last_wave(tiles(rows, 128) * tiles(columns, 128), units),
                last_wave(tiles(rows, 128) * tiles(columns, 64), units),
                flag(transposed),
                flag(rank),
                f64::from(u8::from(dilation > 1)),
                f64::from(u8::from(inputs % 8 != 0)),
                flag(reordered),
                (tiles(rows, 128) * tiles(columns, 64) * groups as f64).max(1.0).log2(),
            ]
        }
        _ => vec![f64::INFINITY; kind.scales().len() - 2],
    }
}

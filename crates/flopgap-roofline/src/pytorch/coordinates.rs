//! Where calls lie between measured ones.

use super::call::{Call, Kind};
use crate::floor::last_wave;
use crate::kriging::Scale;

const fn scale(reach: f64) -> Scale {
    Scale { reach, near: reach, names: false }
}

/// The last coordinate but those of layouts is the operator's name.
const NAME: Scale = Scale { reach: 1.0, near: 1.0, names: true };
/// The last of all is the GPU: shares of floors differ little.
const GPU: Scale = Scale { reach: 20.0, near: 20.0, names: true };
/// Before it, whether a compiled model makes the call: mostly by the same kernels.
const COMPILED: Scale = scale(16.0);
/// Whether other kernels compute them: nearly all neighbors are of the same.
const OTHER_KERNELS: Scale = Scale { reach: 0.3, near: 0.05, names: false };

// How far calls are alike along each coordinate, chosen by hand.
const PRODUCT: &[Scale] = &[
    scale(8.0),
    scale(4.0),
    scale(8.0),
    scale(12.0),
    scale(2.0),
    scale(2.0),
    scale(2.0),
    scale(2.0),
    scale(4.0),
    scale(4.0),
    scale(4.0),
    COMPILED,
    GPU,
];
const CONVOLUTION: &[Scale] = &[
    scale(6.0),
    scale(6.0),
    scale(8.0),
    scale(4.0),
    scale(8.0),
    scale(12.0),
    scale(3.0),
    scale(4.0),
    scale(3.0),
    scale(3.0),
    scale(1.0),
    scale(2.0),
    scale(2.5),
    scale(6.0),
    scale(1.0),
    COMPILED,
    GPU,
];
const DEPTHWISE: &[Scale] = &[
    scale(8.0),
    scale(8.0),
    scale(8.0),
    scale(8.0),
    scale(3.0),
    scale(1.0),
    scale(4.0),
    scale(4.0),
    scale(2.0),
    scale(1.0),
    COMPILED,
    GPU,
];
const ATTENTION: &[Scale] = &[
    scale(8.0),
    scale(6.0),
    scale(6.0),
    scale(3.0),
    scale(3.0),
    scale(2.0),
    scale(2.0),
    scale(3.0),
    OTHER_KERNELS,
    COMPILED,
    GPU,
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
    COMPILED,
    GPU,
];
const NORM: &[Scale] = &[scale(8.0), scale(8.0), NAME, scale(8.0), scale(2.0), scale(4.0), COMPILED, GPU];
const OPTIMIZER: &[Scale] = &[scale(8.0), scale(8.0), NAME, COMPILED, GPU];
const GROUPED_PRODUCT: &[Scale] = &[scale(8.0), scale(8.0), scale(8.0), scale(8.0), COMPILED, GPU];
const FUSED: &[Scale] = &[scale(8.0), scale(6.0), scale(3.0), scale(2.0), NAME, scale(4.0), COMPILED, GPU];
const ELEMENTS: &[Scale] = &[
    scale(8.0),
    scale(8.0),
    NAME,
    scale(2.0),
    scale(16.0),
    scale(3.0),
    scale(2.0),
    scale(2.0),
    COMPILED,
    GPU,
];

impl Kind {
    pub(super) const fn scales(self) -> &'static [Scale] {
        match self {
            Self::Product => PRODUCT,
            Self::Convolution | Self::GroupedConvolution => CONVOLUTION,
            Self::DepthwiseConvolution => DEPTHWISE,
            Self::FusedAttention | Self::MathAttention => ATTENTION,
            Self::Recurrent => RECURRENT,
            Self::Norm => NORM,
            Self::Map | Self::Rows => ELEMENTS,
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
                ]
            }
            (Kind::Convolution | Kind::GroupedConvolution | Kind::DepthwiseConvolution, sizes) => {
                convolution(self.kind, sizes, units)
            }
            (
                Kind::FusedAttention | Kind::MathAttention,
                &[heads, queries, keys, head_width, truth, added, causal, _],
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
            ]
        }
        _ => vec![f64::INFINITY; kind.scales().len() - 2],
    }
}

//! Classes of kernels that are measured together, and the coordinates between which their times
//! are interpolated.

use flopgap_graph::language::{Attend, Experts, Format, Kernel, Operation, Routing};
use serde::{Deserialize, Serialize};

use super::Peaks;
use crate::floor::{Floor, last_wave};
use crate::kriging::Scale;

/// Kernels of one kind and number format: a table of measurements.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Class {
    /// Products in a format.
    Product(Format),
    /// Causal attention of whole sequences, by the format of keys and values.
    Prefill(Format),
    /// Attention of one new token of each sequence, by the format of the cache.
    Decode(Format),
    /// Experts by the format of their weights.
    Experts(Format),
    /// A collective of the GPUs of a node.
    Collective(Operation),
}

/// What takes time besides arithmetic and bytes, in seconds: it keeps utilizations of small kernels
/// smooth, and is part of what is interpolated, not of an estimate.
const PRODUCT_START: f64 = 2e-6;
const ATTENTION_START: f64 = 5e-6;
const EXPERTS_START: f64 = 1e-5;
const COLLECTIVE_START: f64 = 1e-5;

const fn scale(reach: f64, near: f64) -> Scale {
    Scale { reach, near, names: false }
}

/// Tokens, outputs, inputs; the last waves of three sizes of tiles. The numbers here were chosen on
/// H100's and L40S's tables and are the same for all machines.
const PRODUCT: &[Scale] =
    &[scale(4.0, 2.0), scale(8.0, 4.0), scale(12.0, 6.0), scale(2.0, 2.0), scale(2.0, 2.0), scale(2.0, 2.0)];
/// Heads of all sequences, tokens, heads, heads of a key, width, window; two last waves.
const ATTENTION: &[Scale] = &[
    scale(8.0, 4.0),
    scale(8.0, 4.0),
    scale(16.0, 8.0),
    scale(8.0, 4.0),
    scale(8.0, 4.0),
    scale(8.0, 4.0),
    scale(2.0, 2.0),
    scale(2.0, 2.0),
];
const EXPERTS: &[Scale] = &[scale(8.0, 4.0); 7];
/// Bytes, GPUs, bytes of an element.
const COLLECTIVE: &[Scale] = &[scale(8.0, 2.0), scale(8.0, 4.0), scale(8.0, 4.0)];

impl Class {
    /// The class of a kernel; `None` of those that no table has.
    pub fn of(kernel: &Kernel) -> Option<Self> {
        match kernel {
            Kernel::Product { format, .. } => Some(Self::Product(*format)),
            Kernel::Prefill(attend) => Some(Self::Prefill(attend.cache)),
            Kernel::Decode(attend) => Some(Self::Decode(attend.cache)),
            Kernel::Experts(experts) => Some(Self::Experts(experts.format)),
            Kernel::Collective { operation, .. } => Some(Self::Collective(*operation)),
            _ => None,
        }
    }

    /// Its kind, without the format.
    pub const fn kind(self) -> &'static str {
        match self {
            Self::Product(_) => "products",
            Self::Prefill(_) => "prefill attention",
            Self::Decode(_) => "decode attention",
            Self::Experts(_) => "experts",
            Self::Collective(_) => "collectives",
        }
    }

    /// Its format or operation.
    pub const fn variant(self) -> &'static str {
        match self {
            Self::Product(format) | Self::Prefill(format) | Self::Decode(format) | Self::Experts(format) => {
                format.name()
            }
            Self::Collective(Operation::AllReduce) => "all-reduce",
            Self::Collective(Operation::AllGather) => "all-gather",
            Self::Collective(Operation::ReduceScatter) => "reduce-scatter",
            Self::Collective(Operation::AllToAll) => "all-to-all",
        }
    }

    /// FLOPs per second that kernels of this class can reach; `None` where the machine lacks the
    /// format.
    pub(super) fn peak(self, peaks: &Peaks) -> Option<f64> {
        let (Self::Product(format) | Self::Experts(format)) = self else { return Some(peaks.bf16) };
        match format {
            Format::Fp8 | Format::Fp8Block | Format::Mxfp4Fp8 => peaks.fp8,
            Format::Nvfp4 => peaks.fp4,
            // Weights are converted, and multiplied in 16 bits.
            Format::Bf16 | Format::Int4 | Format::Mxfp4 => Some(peaks.bf16),
        }
    }

    pub(super) const fn scales(self) -> &'static [Scale] {
        match self {
            Self::Product(_) => PRODUCT,
            Self::Prefill(_) | Self::Decode(_) => ATTENTION,
            Self::Experts(_) => EXPERTS,
            Self::Collective(_) => COLLECTIVE,
        }
    }

    /// How many sizes a file has of each kernel.
    pub(super) const fn sizes(self) -> usize {
        match self {
            Self::Product(_) | Self::Collective(_) => 3,
            Self::Prefill(_) | Self::Decode(_) => 6,
            Self::Experts(_) => 8,
        }
    }

    /// A kernel by its sizes; the inverse of [`sizes`].
    pub(super) fn kernel(self, sizes: &[u64]) -> Option<Kernel> {
        Some(match (self, sizes) {
            (Self::Product(format), &[n, k, m]) => Kernel::Product { m, n, k, format },
            (Self::Prefill(cache), sizes) => Kernel::Prefill(attend(cache, sizes)?),
            (Self::Decode(cache), sizes) => Kernel::Decode(attend(cache, sizes)?),
            (
                Self::Experts(format),
                &[hidden, inner, chosen, experts, tensor_parallel, expert_parallel, routing, tokens],
            ) => {
                let routing = match routing {
                    0 => Routing::Balanced,
                    1 => Routing::Skewed,
                    _ => Routing::VerySkewed,
                };
                Kernel::Experts(Experts {
                    tokens,
                    hidden,
                    inner,
                    chosen,
                    experts,
                    tensor_parallel,
                    expert_parallel,
                    routing,
                    format,
                })
            }
            (Self::Collective(operation), &[gpus, width, elements]) => {
                Kernel::Collective { operation, gpus, elements, width }
            }
            _ => return None,
        })
    }
}

fn attend(cache: Format, sizes: &[u64]) -> Option<Attend> {
    let &[window, head_width, kv_heads, heads, batch, tokens] = sizes else { return None };
    let window = (window > 0).then_some(window);
    Some(Attend {
        batch,
        tokens,
        heads,
        kv_heads,
        head_width,
        value_width: head_width,
        window,
        values_in_keys: false,
        cache,
    })
}

/// The sizes of a kernel, as files order them: what changes fastest is last.
pub(super) fn sizes(kernel: &Kernel) -> Vec<u64> {
    match kernel {
        Kernel::Product { m, n, k, .. } => vec![*n, *k, *m],
        Kernel::Prefill(a) | Kernel::Decode(a) => {
            vec![a.window.unwrap_or(0), a.head_width, a.kv_heads, a.heads, a.batch, a.tokens]
        }
        Kernel::Experts(e) => {
            let parallel = [e.tensor_parallel, e.expert_parallel];
            let widths = [e.hidden, e.inner, e.chosen, e.experts];
            [&widths[..], &parallel, &[e.routing as u64, e.tokens]].concat()
        }
        Kernel::Collective { gpus, elements, width, .. } => vec![*gpus, *width, *elements],
        _ => Vec::new(),
    }
}

/// Where a kernel lies between the measured ones.
pub(super) fn coordinates(kernel: &Kernel, units: f64) -> Vec<f64> {
    let log = |size: u64| (size.max(1) as f64).log2();
    let tiles = |size: u64, tile: u64| size.div_ceil(tile) as f64;
    match kernel {
        Kernel::Product { m, n, k, .. } => {
            let wave = |rows, columns| last_wave(tiles(*m, rows) * tiles(*n, columns), units);
            vec![log(*m), log(*n), log(*k), wave(128, 128), wave(256, 128), wave(64, 128)]
        }
        Kernel::Prefill(a) | Kernel::Decode(a) => {
            let seen = a.window.map_or(a.tokens, |window| window.min(a.tokens));
            let blocks = |tile| {
                if matches!(kernel, Kernel::Prefill(_)) {
                    (a.batch * a.heads) as f64 * tiles(a.tokens, tile)
                } else {
                    (a.batch * a.kv_heads) as f64 * tiles(seen, tile)
                }
            };
            vec![
                log(a.batch * a.heads),
                log(a.tokens),
                log(a.heads),
                log(a.heads) - log(a.kv_heads),
                10.0 * log(a.head_width),
                a.window.map_or(0.0, |window| 4.0 * log(window + 1)),
                last_wave(blocks(128), units),
                last_wave(blocks(256), units),
            ]
        }
        Kernel::Experts(e) => vec![
            log(e.tokens),
            log(e.hidden),
            log(e.inner) - log(e.tensor_parallel),
            2.0 * log(e.chosen),
            2.0 * log(e.experts),
            log(e.expert_parallel),
            3.0 * f64::from(e.routing as u8),
        ],
        Kernel::Collective { gpus, elements, width, .. } => {
            vec![log(elements.saturating_mul(*width)), log(*gpus), 0.5 * *width as f64]
        }
        _ => Vec::new(),
    }
}

impl Floor {
    pub(super) fn of(kernel: &Kernel, class: Class, peaks: &Peaks) -> Self {
        let peak = class.peak(peaks).unwrap_or(peaks.bf16);
        let (rate, start) = match class {
            Class::Product(_) => (peaks.bytes_per_second, PRODUCT_START),
            Class::Prefill(_) | Class::Decode(_) => (peaks.bytes_per_second, ATTENTION_START),
            Class::Experts(_) => (peaks.bytes_per_second, EXPERTS_START),
            Class::Collective(_) => (peaks.link_bytes_per_second, COLLECTIVE_START),
        };
        Self { compute: kernel.flops() as f64 / peak, bytes: kernel.bytes() as f64 / rate, start }
    }
}

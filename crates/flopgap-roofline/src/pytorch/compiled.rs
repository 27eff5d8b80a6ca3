//! What `torch.compile` makes of a model: products, convolutions and attention by kernels of
//! libraries, and everything between them in fused kernels, which read and write each tensor once.

use std::borrow::Cow;

use flopgap_graph::{Graph, Op};

use super::call::{Arithmetic, Call, Kind, Phase};
use super::fast_path::FastPaths;
use super::fusion::{Compiled, Does, Fused, Pattern, Units, takes_statistics};

impl Pattern {
    const fn name(self) -> &'static str {
        match self {
            Self::Map => "map",
            Self::Concatenation => "cat",
            Self::Reduction => "reduction",
            Self::Softmax => "softmax",
            Self::Statistics => "statistics",
        }
    }
}

/// Tensors that are concatenated by one kernel.
const MOST_AT_ONCE: usize = 8;

/// The calls that a compiled model makes for one of a library: itself, but for attention that is
/// spelled out. That is both products in 32 bits, softmax between them, and kernels that move the
/// operands and the result.
pub(super) fn calls(call: Call, products: Arithmetic) -> Vec<Call> {
    let (Kind::MathAttention, &[heads, queries, keys, head_width, .., width]) =
        (call.kind, call.sizes.as_slice())
    else {
        return vec![call];
    };
    let arithmetic = if products == Arithmetic::Half { Arithmetic::Fp32 } else { products };
    let product = |n: u64, k: u64| {
        let count = |sizes: [u64; 3]| sizes.into_iter().fold(heads, u64::saturating_mul);
        let elements = [count([queries, k, 1]), count([k, n, 1]), count([queries, n, 1])];
        Call {
            kind: Kind::Product,
            phase: Phase::Compiled,
            arithmetic,
            operator: Cow::Borrowed(""),
            sizes: vec![heads, queries, n, k, 0, 0, 0],
            flops: count([queries, n, k]).saturating_mul(2),
            bytes: elements.into_iter().fold(0, u64::saturating_add).saturating_mul(4),
        }
    };
    let moved = |rows: u64, columns: u64, read: u64| {
        let elements = heads.saturating_mul(rows).saturating_mul(columns);
        let pattern = if read > 0 { Pattern::Map } else { Pattern::Softmax };
        let largest = elements.saturating_mul(4);
        // A softmax overwrites what it reads.
        let bytes = largest.saturating_add(elements.saturating_mul(read));
        let tensors = 1 + u64::from(read > 0);
        let (layers, width, channels) = (Vec::new(), 4, 0);
        Fused { layers, bytes, largest, tensors, width, pattern, channels }.call()
    };
    vec![
        moved(queries, head_width, width),
        moved(keys, head_width, width),
        product(keys, head_width),
        moved(queries, keys, 0),
        moved(keys, head_width, width),
        product(head_width, keys),
        moved(queries, head_width, width),
    ]
}

/// The kernels of a compiled model, in the order in which they first can run.
pub fn compiled(graph: &Graph) -> Vec<Compiled> {
    let reordered = channels_last(graph);
    let paths = FastPaths::compiled(graph);
    let mut units = Units::new(graph, reordered, &paths);
    for (place, layer) in graph.layers.iter().enumerate() {
        let Some(op) = &layer.op else { continue };
        let Some(does) = Does::of(op) else {
            units.view(layer);
            continue;
        };
        if paths.has(place) {
            units.add(Does::Library, place, &layer.inputs, &layer.outputs);
            continue;
        }
        // As of a cache that is empty.
        if let Some(only) = units.only(layer) {
            units.show(only, &layer.outputs);
            continue;
        }
        units.split(place, does);
        if let Op::Conv(conv) = op
            && reordered
        {
            units.reorder(place, conv);
        }
        if let (Op::Elementwise(_), &[output]) = (op, layer.outputs.as_slice())
            && units.is_inlined(&layer.inputs, output)
        {
            units.widen(layer);
            units.inline(place, &layer.inputs, output);
            continue;
        }
        match (op, does) {
            (_, Does::Reduce { .. }) if takes_statistics(layer) => {
                units.add(does, place, layer.inputs.get(..1).unwrap_or_default(), &[]);
                units.add(Does::Map, place, &layer.inputs, &layer.outputs);
            }
            // So many tensors are written into their place one by one.
            (Op::Copy { .. }, _) if layer.inputs.len() > MOST_AT_ONCE => {
                units.concatenate(place, layer);
            }
            (Op::Gemm(gemm), _) => units.product(place, layer, gemm.batch),
            _ => _ = units.add(does, place, &layer.inputs, &layer.outputs),
        }
        let bias = units.leaves_bias(layer).then(|| layer.inputs.get(2)).flatten();
        if let (Some(&bias), Some(&output)) = (bias, layer.outputs.first()) {
            if units.is_inlined(&[output, bias], output) {
                units.inline(place, &[output, bias], output);
            } else {
                units.add(Does::Map, place, &[output, bias], &[output]);
            }
        }
    }
    units.finish()
}

/// Whether convolutions are computed with channels last: Inductor's rule for inference, by the
/// FLOPs of convolutions that gain by it and of those that lose.
pub fn channels_last(graph: &Graph) -> bool {
    let [mut all, mut weighted, mut count] = [0.0; 3];
    for layer in &graph.layers {
        let (Some(Op::Conv(conv)), Some(work)) = (&layer.op, layer.work) else { continue };
        let (inputs, outputs) = (conv.inputs / conv.groups.max(1), conv.outputs);
        let factor = if conv.groups > 1 && inputs > 1 {
            1.358
        } else if outputs <= 64 && inputs <= 64 {
            0.783
        } else if 2 * outputs <= inputs && conv.kernel.iter().any(|size| *size > 1) {
            0.725
        } else {
            0.823
        };
        let flops = work.flops as f64;
        (all, weighted, count) = (all + flops, weighted + factor * flops, count + 1.0);
    }
    // Where little of a graph is convolutions, nothing is reordered for them. Nodes are about as
    // many as tensors.
    all > 0.0 && weighted <= all && (graph.tensors.len() as f64) < 300.0 * count
}

impl Fused {
    /// Its call, as those of fused kernels that were measured.
    pub fn call(&self) -> Call {
        let Self { bytes, largest, tensors, width, pattern, channels, .. } = *self;
        let operator = Cow::Borrowed(pattern.name());
        let (kind, phase, arithmetic) = (Kind::Fused, Phase::Compiled, Arithmetic::Fp32);
        Call {
            kind,
            phase,
            arithmetic,
            operator,
            sizes: vec![bytes, largest, tensors, width, channels],
            flops: 0,
            bytes,
        }
    }

    /// What of its time goes to each of its layers: by the bytes of their operands, since nobody
    /// can tell. The shares add up to 1.
    pub(super) fn shares(&self, graph: &Graph) -> Vec<(usize, f64)> {
        let bytes = |layer: usize| {
            let of = &graph.layers[layer];
            let bytes = of.inputs.iter().chain(&of.outputs).map(|&tensor| graph.tensors[tensor].bytes());
            bytes.map(|bytes| bytes.map_or(0.0, |bytes| bytes as f64)).sum::<f64>().max(1.0)
        };
        let sum: f64 = self.layers.iter().map(|&layer| bytes(layer)).sum();
        self.layers.iter().map(|&layer| (layer, bytes(layer) / sum)).collect()
    }
}

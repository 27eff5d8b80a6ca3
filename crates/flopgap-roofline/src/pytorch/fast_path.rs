//! What PyTorch runs in inference in place of the operators that an export has.
//!
//! `nn.MultiheadAttention` and `nn.TransformerEncoderLayer` have a fast path: one operator that
//! neither transposes nor copies, with the activation in the product
//! (`torch/nn/modules/activation.py` and `transformer.py`, `why_not_sparsity_fast_path`). Exports
//! never take it.

use std::collections::{BTreeMap, BTreeSet};

use flopgap_graph::{Graph, Layer, Op};

use super::call::{Call, Kind, operator};

/// The layers of a graph that run as parts of a fast path.
pub(super) struct FastPaths {
    /// The module whose fast path a layer is a part of, by layer.
    of: BTreeMap<usize, String>,
    /// Layers that are no kernel there.
    skipped: BTreeSet<usize>,
}

impl FastPaths {
    /// None: as in training.
    pub(super) const fn none() -> Self {
        Self { of: BTreeMap::new(), skipped: BTreeSet::new() }
    }

    pub(super) fn new(graph: &Graph) -> Self {
        let mut found = Self::none();
        let of_class = |class: &'static str| {
            graph.classes.iter().filter(move |(_, own)| own.ends_with(class)).map(|(path, _)| path)
        };
        for path in of_class("nn.modules.activation.MultiheadAttention") {
            let layers = members(graph, |layer| layer.module == *path);
            if is_fast_attention(graph, &layers) {
                let copies = layers.iter().filter(|(_, layer)| matches!(layer.op, Some(Op::Copy { .. })));
                found.skipped.extend(copies.map(|(place, _)| *place));
                found.of.extend(layers.iter().map(|(place, _)| (*place, path.clone())));
            }
        }
        for path in of_class("nn.modules.transformer.TransformerEncoderLayer") {
            let inside = format!("{path}.");
            let layers = members(graph, |layer| layer.module == *path || layer.module.starts_with(&inside));
            let (attention, others): (Vec<_>, Vec<_>) =
                layers.iter().partition(|(place, _)| found.of.contains_key(place));
            let functions: Vec<usize> = others
                .iter()
                .filter(|(_, layer)| matches!(operator(layer), "relu" | "gelu"))
                .map(|(place, _)| *place)
                .collect();
            let known = ["add", "layer_norm", "linear", "relu", "gelu", "dropout"];
            let is_known =
                |layer: &Layer| matches!(layer.op, Some(Op::View)) || known.contains(&operator(layer));
            if !attention.is_empty()
                && functions.len() == 1
                && others.iter().all(|(_, layer)| is_known(layer))
            {
                found.skipped.extend(functions);
                found.of.extend(layers.iter().map(|(place, _)| (*place, path.clone())));
            }
        }
        found
    }

    /// Those of a compiled model: `nn.TransformerEncoderLayer` is one operator there, too, and
    /// `nn.MultiheadAttention` is not.
    pub(super) fn compiled(graph: &Graph) -> Self {
        let Self { mut of, mut skipped } = Self::new(graph);
        let is_encoder = |path: &String| {
            graph.classes.get(path).is_some_and(|class| class.ends_with("TransformerEncoderLayer"))
        };
        of.retain(|_, path| is_encoder(path));
        skipped.retain(|layer| of.contains_key(layer));
        Self { of, skipped }
    }

    /// Whether a layer runs as a part of one.
    pub(super) fn has(&self, layer: usize) -> bool {
        self.of.contains_key(&layer)
    }

    /// The call of a layer as it runs: none, if another kernel does its work, and without the
    /// layouts that the transpositions of an export leave.
    pub(super) fn call(&self, graph: &Graph, layer: usize, mut call: Call) -> Option<Call> {
        if self.skipped.contains(&layer) {
            return None;
        }
        let is_sequence = || {
            graph.layers[layer].outputs.first().is_some_and(|&output| graph.tensors[output].shape.len() == 3)
        };
        match (call.kind, call.sizes.as_mut_slice()) {
            _ if self.of.is_empty() || !is_sequence() => {}
            (Kind::Product, [.., dense]) if self.of.contains_key(&layer) => *dense = 0,
            // Sums and norms after an attention lie as it does.
            (Kind::Norm | Kind::Map, [.., reordered, gaps]) => [*reordered, *gaps] = [0; 2],
            _ => {}
        }
        Some(call)
    }

    /// What a host runs: operators that compute, views, and modules.
    pub(super) fn launches(&self, graph: &Graph) -> [f64; 3] {
        let paths: BTreeSet<&String> = self.of.values().collect();
        let alone = graph.layers.iter().enumerate().filter(|(place, _)| !self.of.contains_key(place));
        let views = alone.clone().filter(|(_, layer)| matches!(layer.op, Some(Op::View))).count();
        let operators = alone.clone().count() - views;
        let modules: BTreeSet<&str> = alone.map(|(_, layer)| layer.module.as_str()).collect();
        [operators + paths.len(), views, modules.len() + paths.len()].map(|count| count as f64)
    }
}

fn members(graph: &Graph, is_member: impl Fn(&Layer) -> bool) -> Vec<(usize, &Layer)> {
    graph.layers.iter().enumerate().filter(|(_, layer)| is_member(layer)).collect()
}

/// Attention of a sequence with itself: one product for queries, keys and values, batches first
/// (their transposition is what an export begins with), no mask, an even number of heads.
fn is_fast_attention(graph: &Graph, layers: &[(usize, &Layer)]) -> bool {
    let products = layers.iter().filter(|(_, layer)| matches!(layer.op, Some(Op::Gemm(_)))).count();
    let mut attention = layers.iter().filter(|(_, layer)| matches!(layer.op, Some(Op::Attention(_))));
    let (Some((_, first)), Some((_, only)), None) = (layers.first(), attention.next(), attention.next())
    else {
        return false;
    };
    let heads = only.inputs.first().and_then(|&input| graph.tensors[input].shape.get(1)).copied();
    operator(first) == "transpose"
        && products == 2
        && only.inputs.len() == 3
        && heads.is_some_and(|heads| heads % 2 == 0)
}

//! The backward calls of a training step: where gradients flow, and what each layer does for them.

use std::borrow::Cow;

use flopgap_graph::{Graph, Layer, Op, Tensor};

use super::call::{Arithmetic, Call, Computed, Kind, Operands, Phase, operator};

/// What passes no gradient on, whatever it reads.
const WITHOUT: &[&str] = &[
    "detach",
    "detach_",
    "zeros_like",
    "ones_like",
    "full_like",
    "empty_like",
    "rand_like",
    "randn_like",
    "new_zeros",
    "new_ones",
    "new_full",
    "new_empty",
];

/// What reorders the dimensions of a tensor, and so the elements of its gradient.
const REORDERS: &[&str] = &["transpose", "permute", "t", "numpy_T", "mT", "movedim", "swapaxes", "swapdims"];

/// What takes shape or type alone from its second operand.
const OF_FIRST: &[&str] = &["reshape_as", "view_as", "expand_as", "type_as"];

/// The inputs of a layer that its backward may reach.
fn differentiable(layer: &Layer) -> &[usize] {
    let count = if OF_FIRST.contains(&operator(layer)) { 1 } else { layer.inputs.len() };
    layer.inputs.get(..count).unwrap_or_default()
}

/// Operators whose backward is that of another.
const ALIKE: &[(&str, &str)] = &[
    ("chunk", "split"),
    ("split_with_sizes", "split"),
    ("t", "transpose"),
    ("numpy_T", "transpose"),
    ("mT", "transpose"),
    ("view_as", "view"),
    ("reshape_as", "reshape"),
    ("expand_as", "expand"),
    ("type_as", "to"),
    ("rsub", "sub"),
];

/// The operator by which backward calls are distinguished: that of an in-place variant is the same.
fn backward_name(layer: &Layer) -> &str {
    let name = operator(layer);
    let name = name.strip_suffix('_').unwrap_or(name);
    ALIKE.iter().find(|(alike, _)| *alike == name).map_or(name, |(_, other)| other)
}

/// Which tensors have gradients in a training step, from the outputs back to the parameters.
#[derive(Debug, Clone)]
pub struct Gradients {
    /// Of each tensor, the layers that add to its gradient, each as often as it reads it.
    uses: Vec<Vec<usize>>,
    /// Of each tensor, whether it has one.
    flows: Vec<bool>,
}

impl Gradients {
    /// Those of a graph that [`read_training`](flopgap_graph::read_training) read.
    pub fn new(graph: &Graph) -> Self {
        let mut requires: Vec<bool> = graph.tensors.iter().map(|tensor| tensor.trained).collect();
        for layer in graph.layers.iter().filter(|layer| !WITHOUT.contains(&operator(layer))) {
            if differentiable(layer).iter().any(|&input| requires[input]) {
                for &output in &layer.outputs {
                    // Indexes and truth values have none.
                    requires[output] |= graph.tensors[output].element.is_some();
                }
            }
        }
        let mut flows = vec![false; graph.tensors.len()];
        let mut uses = vec![Vec::new(); graph.tensors.len()];
        for &output in &graph.outputs {
            flows[output] = requires[output];
        }
        for (place, layer) in graph.layers.iter().enumerate().rev() {
            if !layer.outputs.iter().any(|&output| flows[output]) {
                continue;
            }
            for &input in differentiable(layer).iter().filter(|&&input| requires[input]) {
                flows[input] = true;
                uses[input].push(place);
            }
        }
        Self { uses, flows }
    }

    /// Whether a layer has a backward.
    fn reach(&self, layer: &Layer) -> bool {
        layer.outputs.iter().any(|&output| self.flows[output])
            && differentiable(layer).iter().any(|&input| self.flows[input])
    }

    /// The tensors that an optimizer changes.
    pub fn trained<'a>(&self, graph: &'a Graph) -> impl Iterator<Item = &'a Tensor> {
        let tensors = graph.tensors.iter().zip(&self.flows);
        tensors.filter(|(tensor, flows)| tensor.trained && **flows).map(|(tensor, _)| tensor)
    }

    /// What a host runs backward: views, and tensors that an optimizer changes.
    pub fn launches(&self, graph: &Graph) -> [f64; 2] {
        let layers = graph.layers.iter().filter(|layer| self.reach(layer));
        let views = layers.filter(|layer| matches!(layer.op, Some(Op::View))).count();
        [views, self.trained(graph).count()].map(|count| count as f64)
    }

    /// The backward calls of a layer: its own, and sums of gradients that meet at what it reads.
    pub fn calls(&self, graph: &Graph, place: usize, computed: Computed) -> Vec<Call> {
        let layer = &graph.layers[place];
        if !self.reach(layer) {
            return Vec::new();
        }
        let own = self.own(graph, layer, computed);
        own.into_iter().chain(self.sums(graph, place).map(|tensor| sum(graph, tensor))).collect()
    }

    /// The tensors whose gradients a layer's backward is not the first to reach.
    fn sums<'a>(&'a self, graph: &'a Graph, place: usize) -> impl Iterator<Item = usize> + 'a {
        let inputs = differentiable(&graph.layers[place]);
        inputs.iter().enumerate().filter_map(move |(position, &input)| {
            let is_output = graph.outputs.contains(&input);
            // Backward begins at the last layer; one that reads a tensor twice adds to itself.
            let is_first = self.uses[input].first() == Some(&place) && !inputs[..position].contains(&input);
            (self.flows[input] && (is_output || !is_first)).then_some(input)
        })
    }

    fn own(&self, graph: &Graph, layer: &Layer, computed: Computed) -> Option<Call> {
        let operands = Operands::of(graph, layer)?;
        let needed: Vec<bool> = differentiable(layer).iter().map(|&input| self.flows[input]).collect();
        let needs = |place: usize| needed.get(place) == Some(&true);
        let mut call = if matches!(layer.op, Some(Op::View)) {
            Call {
                kind: Kind::Map,
                phase: Phase::Backward,
                arithmetic: Arithmetic::Fp32,
                operator: Cow::Borrowed(""),
                sizes: operands.sizes(),
                flops: 0,
                bytes: operands.read.saturating_add(operands.written),
            }
        } else {
            Call::of(graph, layer, computed)?
        };
        call.phase = Phase::Backward;
        match call.kind {
            Kind::Product | Kind::Convolution | Kind::GroupedConvolution | Kind::DepthwiseConvolution => {
                let both = needs(0) && needs(1);
                call.phase = match (needs(0), needs(1)) {
                    (true, true) => Phase::Backward,
                    (true, false) => Phase::BackwardToInput,
                    _ => Phase::BackwardToWeights,
                };
                let times = 1 + u64::from(both);
                call.flops = call.flops.saturating_mul(times);
                call.bytes = call.bytes.saturating_mul(times);
            }
            Kind::Map | Kind::Rows => {
                let several = needed.iter().filter(|needed| **needed).count() > 1;
                let elements = |place: &usize| graph.tensors[*place].elements().unwrap_or(0);
                let written = layer.outputs.first().map_or(0, elements);
                // What was broadcast is summed.
                let may = matches!(layer.op, Some(Op::Elementwise(_) | Op::View));
                let mut pairs = layer.inputs.iter().zip(&needed);
                let summed = may && pairs.any(|(input, needed)| *needed && elements(input) < written);
                let name = backward_name(layer);
                // More indexes are sorted first (PyTorch's `embedding_dense_backward_cuda`).
                let is_sorted =
                    name == "embedding" && matches!(layer.op, Some(Op::Gather { rows: 3073.., .. }));
                let sorted = if is_sorted { ", sorted" } else { "" };
                let several = if several { " of several" } else { "" };
                let summed = if summed { ", summed" } else { "" };
                call.operator = Cow::Owned(format!("{name}{several}{summed}{sorted}"));
                if let [.., reordered, gaps] = call.sizes.as_mut_slice() {
                    (*reordered, *gaps) = (u64::from(self.is_reordered(graph, layer)), 0);
                }
            }
            _ => call.flops = call.flops.saturating_mul(2),
        }
        Some(call)
    }

    /// Whether the gradient of a layer's result comes in another order of dimensions: attention
    /// gives those of its operands in the order that they came in.
    fn is_reordered(&self, graph: &Graph, layer: &Layer) -> bool {
        let users = |tensor: usize| self.uses[tensor].iter().map(|&place| &graph.layers[place]);
        layer.outputs.iter().flat_map(|&output| users(output)).any(|user| {
            REORDERS.contains(&operator(user))
                && user.outputs.iter().flat_map(|&output| users(output)).all(|next| {
                    !matches!(next.op, Some(Op::Attention(_))) && !REORDERS.contains(&operator(next))
                })
        })
    }
}

/// The sum of two gradients of a tensor.
fn sum(graph: &Graph, tensor: usize) -> Call {
    let tensor = &graph.tensors[tensor];
    let bytes = tensor.bytes().unwrap_or(u64::MAX);
    let last = tensor.shape.last().copied().unwrap_or(1);
    let twice = bytes.saturating_mul(2);
    Call {
        kind: Kind::Map,
        phase: Phase::Backward,
        arithmetic: Arithmetic::Fp32,
        operator: Cow::Borrowed("sum of gradients"),
        sizes: vec![twice, bytes, tensor.element_bytes, last, 1, 0, 0],
        flops: 0,
        bytes: twice.saturating_add(bytes),
    }
}

/// `AdamW` with `fused=True`: it reads parameters, gradients and two moments, and writes all but
/// the gradients.
pub(super) fn optimizer(graph: &Graph, gradients: &Gradients) -> Option<Call> {
    let (mut tensors, mut elements, mut bytes, mut width) = (0_u64, 0_u64, 0_u64, 0);
    for tensor in gradients.trained(graph) {
        tensors += 1;
        elements = elements.saturating_add(tensor.elements().unwrap_or(u64::MAX));
        bytes = bytes.saturating_add(tensor.bytes().unwrap_or(u64::MAX).saturating_mul(7));
        width = width.max(tensor.element_bytes);
    }
    (tensors > 0).then(|| adamw(tensors, elements, width, bytes))
}

/// A fused `AdamW` step over so many tensors and elements that moves `bytes` in all.
pub fn adamw(tensors: u64, elements: u64, width: u64, bytes: u64) -> Call {
    Call {
        kind: Kind::Optimizer,
        phase: Phase::Forward,
        arithmetic: if width == 2 { Arithmetic::Half } else { Arithmetic::Fp32 },
        operator: Cow::Borrowed("AdamW, fused"),
        sizes: vec![tensors, elements, width],
        flops: 0,
        bytes,
    }
}

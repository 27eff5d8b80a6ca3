//! A model as PyTorch runs it operator by operator, where that is not what an export has.

use std::borrow::Cow;

use flopgap_flops::Work;

use crate::build::layer_work;
use crate::graph::{Graph, Layer, Tensor};
use crate::op::Op;

/// Views between repeated heads and what they repeat, at most: a slice, a new dimension, its
/// expansion.
const VIEWS: usize = 4;

/// The widest heads for which several query heads share one key head.
const WIDEST: u64 = 256;

impl Graph {
    /// The graph as PyTorch runs it operator by operator: without the masks that are made only
    /// where it exports, compiles or captures a model, and without the copies of heads of keys and
    /// values that attention without a mask does not need (`sdpa_attention_forward` of Hugging
    /// Face's transformers). Layers keep their places; what no longer runs is a view.
    pub fn eager(&self) -> Cow<'_, Self> {
        if self.recorded_masks.is_empty() {
            return Cow::Borrowed(self);
        }
        let mut graph = self.clone();
        let mut unused = Vec::new();
        for place in 0..graph.layers.len() {
            let layer = &graph.layers[place];
            let (Some(Op::Attention(mut attention)), &[query, key, value, mask]) =
                (layer.op.clone(), layer.inputs.as_slice())
            else {
                continue;
            };
            let Some(hidden) = self.recorded_masks.get(&mask) else { continue };
            attention.mask = *hidden;
            let [own_key, own_value] = [key, value].map(|tensor| self.repeated(tensor).unwrap_or(tensor));
            let heads = |tensor: usize| graph.tensors[tensor].shape.get(1).copied();
            let is_grouped = attention.value_width.is_none() && attention.head_width <= WIDEST;
            let inputs = match heads(own_key).filter(|&shared| attention.heads.checked_rem(shared) == Some(0))
            {
                Some(shared) if is_grouped && heads(own_value) == Some(shared) => {
                    attention.kv_heads = shared;
                    vec![query, own_key, own_value]
                }
                _ => vec![query, key, value],
            };
            let op = Op::Attention(attention);
            let tensors = |indexes: &[usize]| -> Vec<&Tensor> {
                indexes.iter().map(|&index| &graph.tensors[index]).collect()
            };
            let Ok(work) = layer_work(&op, &tensors(&inputs), &tensors(&layer.outputs)) else { continue };
            unused.extend(layer.inputs.iter().filter(|tensor| !inputs.contains(tensor)));
            let layer = &mut graph.layers[place];
            (layer.op, layer.work, layer.inputs) = (Some(op), Some(work), inputs);
        }
        graph.remove(unused);
        Cow::Owned(graph)
    }

    /// The key or value heads, `batch heads length width`, that a tensor repeats: by a copy, or by
    /// a view if there is one head.
    fn repeated(&self, tensor: usize) -> Option<usize> {
        let writer = |tensor: usize| self.layers.iter().rev().find(|layer| layer.outputs.contains(&tensor));
        let copy = writer(tensor).filter(|layer| matches!(layer.op, Some(Op::Copy { .. } | Op::View)))?;
        let mut found = *copy.inputs.first()?;
        let [_, _, _, length, width] = *self.tensors[found].shape.as_slice() else { return None };
        for _ in 0..VIEWS {
            if let [_, _, own_length, own_width] = *self.tensors[found].shape.as_slice() {
                return ([own_length, own_width] == [length, width]).then_some(found);
            }
            let view = writer(found).filter(|layer| matches!(layer.op, Some(Op::View)))?;
            found = *view.inputs.first()?;
        }
        None
    }

    /// Makes views of the layers that nothing reads any longer, from these tensors back.
    fn remove(&mut self, mut unread: Vec<usize>) {
        let is_written = |layer: &Layer, tensor: &usize| layer.outputs.contains(tensor);
        while let Some(tensor) = unread.pop() {
            let is_read = |layer: &Layer| layer.inputs.contains(&tensor);
            if self.outputs.contains(&tensor) || self.layers.iter().any(is_read) {
                continue;
            }
            let Some(layer) = self.layers.iter_mut().find(|layer| is_written(layer, &tensor)) else {
                continue;
            };
            if layer.outputs.len() == 1 {
                (layer.op, layer.work) = (Some(Op::View), Some(Work::default()));
                unread.append(&mut layer.inputs);
            }
        }
    }
}

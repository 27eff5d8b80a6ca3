//! How much memory the tensors of a run take at most at a time.

use std::mem;

use flopgap_flops::FlopError;

use crate::error::GraphError;
use crate::graph::{Graph, Layer};
use crate::op::Op;

impl Graph {
    /// The bytes that its tensors take at most at a time, in a run of its layers in their order:
    /// what a caller supplies or receives and the parameters all the time, every other tensor from
    /// the layer that writes it to the last that reads it. What layers need for themselves, such as
    /// workspaces, is not in it, and nothing is fused.
    ///
    /// Views have the memory of what they are views of, and so has what is changed in place.
    ///
    /// # Errors
    /// [`GraphError::Count`] where a sum overflows.
    pub fn peak_bytes(&self) -> Result<u64, GraphError> {
        let roots = self.roots();
        // The last layer that reads each root.
        let mut last: Vec<Option<usize>> = vec![None; self.tensors.len()];
        for (index, layer) in self.layers.iter().enumerate() {
            for &tensor in layer.inputs.iter().chain(&layer.outputs) {
                last[roots[tensor]] = Some(index);
            }
        }
        let mut stays: Vec<bool> = self.tensors.iter().map(|tensor| tensor.parameter).collect();
        for root in self.inputs.iter().filter_map(|&input| roots.get(input)) {
            stays[*root] = true;
        }
        let mut is_there = stays.clone();
        for root in self.outputs.iter().filter_map(|&output| roots.get(output)) {
            stays[*root] = true;
        }
        let bytes = |root: usize| self.tensors[root].bytes().map_err(GraphError::count(&self.name));
        let sum = |one: u64, other: u64| {
            one.checked_add(other).ok_or_else(|| {
                GraphError::count(&self.name)(FlopError::Overflow { quantity: "bytes in use".into() })
            })
        };
        let mut now = 0;
        for root in (0..roots.len()).filter(|&root| is_there[root]) {
            now = sum(now, bytes(root)?)?;
        }
        let mut peak = now;
        for (index, layer) in self.layers.iter().enumerate() {
            for root in layer.outputs.iter().map(|&tensor| roots[tensor]) {
                if !mem::replace(&mut is_there[root], true) {
                    now = sum(now, bytes(root)?)?;
                }
            }
            peak = peak.max(now);
            for root in layer.inputs.iter().chain(&layer.outputs).map(|&tensor| roots[tensor]) {
                if last[root] == Some(index) && !stays[root] && mem::take(&mut is_there[root]) {
                    now -= bytes(root)?;
                }
            }
        }
        Ok(peak)
    }

    /// The tensor whose memory each tensor has.
    fn roots(&self) -> Vec<usize> {
        let mut roots: Vec<usize> = (0..self.tensors.len()).collect();
        for layer in self.layers.iter().filter(|layer| layer.op == Some(Op::View) || layer.is_in_place()) {
            if let Some((&source, others)) = layer.inputs.split_first() {
                let parts = others.iter().filter(|&&other| layer.is_whole_of(&self.tensors[other].name));
                for &tensor in layer.outputs.iter().chain(parts) {
                    roots[tensor] = roots[source];
                }
            }
        }
        roots
    }
}

impl Layer {
    /// Whether it is the view of a tensor after this part of it was changed in place, as the reader
    /// of `.pt2` archives calls both.
    fn is_whole_of(&self, part: &str) -> bool {
        self.name.strip_suffix(".whole").is_some_and(|name| part.strip_suffix(".part") == Some(name))
    }

    /// Whether its result is its first input, changed: `PyTorch` marks such operators with `_`.
    fn is_in_place(&self) -> bool {
        let name = self.operator.strip_prefix("aten.").and_then(|name| name.split('.').next());
        name.is_some_and(|name| name.ends_with('_') && !name.ends_with("__"))
    }
}

#[cfg(test)]
mod tests {
    use crate::{Shapes, read};

    /// A step of a Llama writes its keys and values into a cache that is there all the time.
    #[test]
    fn what_is_written_in_place_takes_no_memory() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/models/static_cache.pt2");
        let graph = read(path.as_ref(), &Shapes::default()).unwrap();
        let roots = graph.roots();
        let changed = graph.layers.iter().filter(|layer| layer.name.strip_suffix(".whole").is_some());
        let changed: Vec<_> = changed.collect();
        assert_eq!(changed.len(), 2, "keys and values");
        for layer in changed {
            let root = roots[layer.inputs[0]];
            assert!(layer.inputs.iter().chain(&layer.outputs).all(|&tensor| roots[tensor] == root));
        }
    }
}

//! What a training step takes in PyTorch: forward, backward and the step of `AdamW`.

use flopgap_graph::Graph;

use super::backward::{Gradients, optimizer};
use super::fast_path::FastPaths;
use super::{Computed, Estimate, PyTorch, Sum, Tables, Way};

impl PyTorch {
    /// The time of a training step of a graph that
    /// [`read_training`](flopgap_graph::read_training) read, by calls of training steps
    /// ([`training`]). The gradients of its outputs are given: no loss is in it. `AdamW` is the
    /// one with `fused=True`.
    pub fn training_step(&self, graph: &Graph, computed: Computed, way: Way) -> Option<Estimate> {
        let graph = &way.runs(graph);
        let gradients = Gradients::new(graph);
        let mut sum = Sum::new(self);
        let paths = FastPaths::none();
        sum.forward(graph, computed, &paths);
        for layer in 0..graph.layers.len() {
            for call in gradients.calls(graph, layer, computed) {
                sum.add(layer, call);
            }
        }
        if let Some(call) = optimizer(graph, &gradients) {
            sum.add(graph.layers.len(), call);
        }
        let costs = &self.about.costs;
        let [views, tensors] = gradients.launches(graph);
        let backward = costs.view * views + costs.tensor * tensors;
        sum.whole(way, costs.step + self.host(graph, &paths) + backward)
    }
}

/// The calls of training steps on a GPU, ignoring case: see [`named`](super::named).
pub fn training(name: &str) -> Option<&'static PyTorch> {
    static TABLES: Tables = Tables::new([
        include_bytes!("../../machines/h100.training.zst"),
        include_bytes!("../../machines/h200.training.zst"),
    ]);
    TABLES.named(name)
}

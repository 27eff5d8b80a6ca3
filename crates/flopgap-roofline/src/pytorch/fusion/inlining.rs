//! What is computed where it is read instead of by a kernel of its own, and what adds a bias.

use std::collections::BTreeSet;

use flopgap_graph::op::NormFunction;
use flopgap_graph::{Layer, Layout, Op};

use super::{Does, Units};

/// The most tensors that are read for a value that is computed where it is read, by one reader and
/// again by each of several (Inductor's `realize_acc_reads_threshold` and
/// `realize_reads_threshold`).
const MOST_READS: [usize; 2] = [8, 4];

/// Whether statistics of images take a kernel, and what is normalized by them another.
pub(in crate::pytorch) fn takes_statistics(layer: &Layer) -> bool {
    matches!(&layer.op, Some(Op::Norm(norm)) if norm.function == NormFunction::Group
        || norm.function != NormFunction::BatchInference && layer.operator.contains("batch_norm"))
}

impl Units<'_> {
    /// The layers that compute with a tensor or with a view of it; `None` of what the graph
    /// returns.
    fn readers(&self, tensor: usize) -> Option<BTreeSet<usize>> {
        let (mut found, mut views) = (BTreeSet::new(), BTreeSet::new());
        let mut tensors = vec![tensor];
        while let Some(tensor) = tensors.pop() {
            if self.graph.outputs.contains(&tensor) {
                return None;
            }
            for &reader in &self.users[tensor] {
                let layer = &self.graph.layers[reader];
                if !matches!(layer.op, Some(Op::View)) && self.only(layer).is_none() {
                    found.insert(reader);
                } else if views.insert(reader) {
                    tensors.extend(&layer.outputs);
                }
            }
        }
        Some(found)
    }

    /// Whether what reads a function of some tensors computes it instead of reading it: each of
    /// several readers, if the tensors are few. What a library reads, or a window moves over, is in
    /// memory.
    pub(in crate::pytorch) fn is_inlined(&self, inputs: &[usize], output: usize) -> bool {
        let Some(readers) = self.readers(output) else { return false };
        let reads_memory = |reader: &usize| {
            let layer = &self.graph.layers[*reader];
            let does = layer.op.as_ref().and_then(Does::of).filter(|_| !self.paths.has(*reader));
            does.is_none_or(|does| does.reads_memory(layer))
        };
        let reads_twice = |reader: &usize| takes_statistics(&self.graph.layers[*reader]);
        let several = readers.len() > 1 || readers.iter().any(reads_twice);
        !readers.is_empty()
            && !readers.iter().any(reads_memory)
            && self.reads(inputs, u64::MAX).len() <= MOST_READS[usize::from(several)]
    }

    /// Leaves a function of some tensors to its readers.
    pub(in crate::pytorch) fn inline(&mut self, place: usize, inputs: &[usize], output: usize) {
        let reads = self.reads(inputs, u64::MAX);
        let layers = self.take_inlined(inputs).into_iter().chain([place]).collect();
        self.inlined.insert(output, (layers, reads));
    }

    /// The layers that are computed again for what reads some tensors, unless another has them.
    pub(super) fn take_inlined(&mut self, inputs: &[usize]) -> Vec<usize> {
        let roots: BTreeSet<usize> = inputs.iter().map(|&input| self.root[input]).collect();
        let inlined = &mut self.inlined;
        let layers = roots.iter().filter_map(|root| Some(std::mem::take(&mut inlined.get_mut(root)?.0)));
        layers.flatten().collect()
    }

    /// Whether what adds the bias of a layer is fused with what reads the sum: of convolutions
    /// always, of products whose first operand has several dimensions and does not lie row by row
    /// (PyTorch's `linear`), and of those in 32 bits if that is functions of elements alone
    /// (Inductor's `unfuse_bias_add_to_pointwise`).
    pub(in crate::pytorch) fn leaves_bias(&self, layer: &Layer) -> bool {
        let (&[first, ..], &[output]) = (layer.inputs.as_slice(), layer.outputs.as_slice()) else {
            return false;
        };
        let tensors = &self.graph.tensors;
        let is_matrix = tensors[first].shape.len() < 3 || tensors[first].layout() == Layout::Rows;
        match &layer.op {
            Some(Op::Conv(_)) => true,
            Some(Op::Gemm(_)) if layer.operator.contains("linear") && !is_matrix => true,
            Some(Op::Gemm(_)) if tensors[output].element_bytes > 2 => {
                let readers = self.readers(output);
                readers.is_some_and(|readers| readers.iter().all(|reader| self.begins_with_function(*reader)))
            }
            _ => false,
        }
    }

    /// Whether the first thing that a layer does is a function of elements, which copies are, too.
    fn begins_with_function(&self, layer: usize) -> bool {
        let layer = &self.graph.layers[layer];
        match &layer.op {
            Some(Op::Elementwise(_)) => true,
            Some(Op::Norm(norm)) => norm.function == NormFunction::BatchInference,
            Some(Op::Copy { .. }) => layer.inputs.len() == 1,
            // Squares.
            Some(Op::Reduce { .. }) => layer.operator.contains("norm"),
            Some(Op::Gemm(gemm)) => {
                gemm.batch > 1 && layer.inputs.iter().any(|&input| self.graph.tensors[input].is_scattered(2))
            }
            _ => false,
        }
    }

    /// What several readers compute again from a batch norm in 16 bits they read in 32 if it is
    /// used twice, as by x sigmoid(x): both compute in 32 bits, and what a function of five tensors
    /// gives is stored before its second use.
    pub(in crate::pytorch) fn widen(&mut self, layer: &Layer) {
        let uses_twice =
            ["silu", "gelu", "hardswish", "mish"].iter().any(|name| layer.operator.contains(name));
        let (&[input], &[output]) = (layer.inputs.as_slice(), layer.outputs.as_slice()) else { return };
        let writer = self.writer[self.root[input]].and_then(|unit| self.all[unit].layers.last());
        let is_norm = writer.is_some_and(|&layer| {
            let op = self.graph.layers[layer].op.as_ref();
            matches!(op, Some(Op::Norm(norm)) if norm.function == NormFunction::BatchInference)
        });
        let several = self.readers(output).is_some_and(|readers| readers.len() > 1);
        if uses_twice && is_norm && several && self.graph.tensors[input].element_bytes == 2 {
            self.wide.insert(self.root[input]);
        }
    }
}

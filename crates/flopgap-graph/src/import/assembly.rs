//! Builds a graph from a file.

use std::path::{Path, PathBuf};

use flopgap_flops::ElementType;
use rustc_hash::FxHashMap;

use super::complex::on_reals;
use crate::build::layer_work;
use crate::error::GraphError;
use crate::graph::{Graph, Layer, Tensor};
use crate::op::Op;

/// How elements are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stored {
    pub(crate) element: Option<ElementType>,
    /// Bytes of an element.
    pub(crate) bytes: u64,
}

impl Stored {
    /// A type that networks compute in.
    pub(crate) const fn number(element: ElementType) -> Self {
        Stored { element: Some(element), bytes: element.bytes() }
    }

    /// Complex numbers, whose parts are of a type.
    pub(crate) const fn complex(element: ElementType) -> Self {
        Stored { element: Some(element), bytes: 2 * element.bytes() }
    }

    /// A type of indexes, truth values or text.
    pub(crate) const fn other(bytes: u64) -> Self {
        Stored { element: None, bytes }
    }
}

/// The meaning of an operator in a file.
#[derive(Debug, Clone, Default)]
pub(crate) struct Meaning {
    /// The operation, if there is a formula for it.
    pub(crate) op: Option<Op>,
    /// The operands in the order that [`Layer::inputs`] has, as positions among the operator's
    /// tensors; all in order where absent.
    pub(crate) order: Option<Vec<usize>>,
    /// FLOPs for each that the operation has, 1 where it is what its formula says.
    pub(crate) factor: u64,
    /// Additional FLOPs, for operations on the result.
    pub(crate) extra: u64,
}

impl Meaning {
    /// An operator without a formula.
    pub(crate) fn unknown() -> Self {
        Meaning::of(None)
    }

    pub(crate) fn of(op: Option<Op>) -> Self {
        Meaning { op, order: None, factor: 1, extra: 0 }
    }

    pub(crate) fn and(mut self, extra: u64) -> Self {
        self.extra = extra;
        self
    }

    pub(crate) fn ordered(mut self, order: impl IntoIterator<Item = Option<usize>>) -> Self {
        self.order = Some(order.into_iter().flatten().collect());
        self
    }
}

impl From<Op> for Meaning {
    fn from(op: Op) -> Self {
        Meaning::of(Some(op))
    }
}

impl From<Option<Op>> for Meaning {
    fn from(op: Option<Op>) -> Self {
        Meaning::of(op)
    }
}

/// The names of a layer.
#[derive(Debug, Clone, Default)]
pub(crate) struct Place {
    pub(crate) name: String,
    pub(crate) module: String,
    pub(crate) operator: String,
}

/// A graph under construction, with its tensors by name.
pub(crate) struct Assembly {
    path: PathBuf,
    pub(crate) graph: Graph,
    by_name: FxHashMap<String, usize>,
}

impl Assembly {
    pub(crate) fn new(path: &Path, name: String) -> Self {
        let graph = Graph { name, ..Graph::default() };
        Assembly { path: path.to_owned(), graph, by_name: FxHashMap::default() }
    }

    /// An error at a position in the file.
    pub(crate) fn damaged(&self, place: impl Into<String>, reason: impl Into<String>) -> GraphError {
        GraphError::Damaged { path: self.path.clone(), place: place.into(), reason: reason.into() }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The tensor of this name, where there is one.
    pub(crate) fn find(&self, name: &str) -> Option<usize> {
        self.by_name.get(name).copied()
    }

    /// Adds a tensor under the name by which the file's nodes call it.
    pub(crate) fn tensor(
        &mut self,
        called: &str,
        name: &str,
        shape: Vec<u64>,
        stored: Stored,
        parameter: bool,
    ) -> usize {
        self.graph.tensors.push(Tensor {
            name: name.to_owned(),
            shape,
            element: stored.element,
            element_bytes: stored.bytes,
            parameter,
            trained: false,
            strides: Vec::new(),
        });
        let index = self.graph.tensors.len() - 1;
        self.by_name.insert(called.to_owned(), index);
        index
    }

    /// What nodes call the tensors now: a graph within the graph may call others so.
    pub(crate) fn names(&self) -> FxHashMap<String, usize> {
        self.by_name.clone()
    }

    /// Takes all names away.
    pub(crate) fn take_names(&mut self) -> FxHashMap<String, usize> {
        std::mem::take(&mut self.by_name)
    }

    /// Restores the result of [`names`](Self::names).
    pub(crate) fn restore(&mut self, names: FxHashMap<String, usize>) {
        self.by_name = names;
    }

    /// Lets nodes call a tensor by another name.
    pub(crate) fn alias(&mut self, called: &str, index: usize) {
        self.by_name.insert(called.to_owned(), index);
    }

    /// Adds a layer with its work.
    pub(crate) fn layer(
        &mut self,
        place: Place,
        meaning: Meaning,
        tensors: &[usize],
        outputs: Vec<usize>,
    ) -> Result<(), GraphError> {
        let Place { name, module, operator } = place;
        let inputs: Vec<usize> = match &meaning.order {
            Some(order) => order.iter().filter_map(|&position| tensors.get(position).copied()).collect(),
            None => tensors.to_vec(),
        };
        let read = |indexes: &[usize]| -> Vec<&Tensor> {
            indexes.iter().map(|&index| &self.graph.tensors[index]).collect()
        };
        let op = meaning.op.and_then(|op| on_reals(op, &read(&inputs), &read(&outputs)));
        let work = match &op {
            None => None,
            Some(op) => {
                let count =
                    |source| GraphError::Count { place: format!("{}: {name}", self.path.display()), source };
                let mut work = layer_work(op, &read(&inputs), &read(&outputs)).map_err(count)?;
                let flops = work.flops.checked_mul(meaning.factor);
                work.flops = flops.and_then(|flops| flops.checked_add(meaning.extra)).ok_or_else(|| {
                    count(flopgap_flops::FlopError::Overflow { quantity: "layer FLOPs".into() })
                })?;
                Some(work)
            }
        };
        self.graph.layers.push(Layer { name, module, operator, op, work, inputs, outputs });
        Ok(())
    }
}

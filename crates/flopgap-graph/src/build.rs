//! Builds graphs layer by layer.

use flopgap_flops::{ElementType, FlopError, Work};

use crate::error::GraphError;
use crate::graph::{Graph, Layer, Tensor};
use crate::op::{Op, product};

/// A graph under construction.
pub(crate) struct Builder {
    graph: Graph,
    element: ElementType,
}

impl Builder {
    /// An empty graph whose tensors are of this type.
    pub(crate) fn new(name: impl Into<String>, element: ElementType) -> Self {
        let graph = Graph { name: name.into(), ..Graph::default() };
        Builder { graph, element }
    }

    fn tensor(&mut self, name: String, shape: &[u64], parameter: bool) -> usize {
        self.graph.tensors.push(Tensor {
            name,
            shape: shape.to_vec(),
            element: Some(self.element),
            element_bytes: self.element.bytes(),
            parameter,
            trained: false,
            strides: Vec::new(),
        });
        self.graph.tensors.len() - 1
    }

    /// A tensor that the caller supplies.
    pub(crate) fn input(&mut self, name: &str, shape: &[u64]) -> usize {
        let index = self.tensor(name.to_owned(), shape, false);
        self.graph.inputs.push(index);
        index
    }

    /// A tensor of 64-bit indexes that the caller supplies.
    pub(crate) fn indexes(&mut self, name: &str, shape: &[u64]) -> usize {
        let index = self.input(name, shape);
        let tensor = &mut self.graph.tensors[index];
        (tensor.element, tensor.element_bytes) = (None, 8);
        index
    }

    /// A tensor that is stored with the model.
    pub(crate) fn parameter(&mut self, name: String, shape: &[u64]) -> usize {
        self.tensor(name, shape, true)
    }

    /// A layer with one result of this shape, which is returned.
    pub(crate) fn layer(
        &mut self,
        name: &str,
        operator: &str,
        op: Op,
        inputs: Vec<usize>,
        shape: &[u64],
    ) -> Result<usize, GraphError> {
        let output = self.tensor(format!("{name}.output"), shape, false);
        let outputs = vec![output];
        let read = |index: &usize| &self.graph.tensors[*index];
        let work = layer_work(
            &op,
            &inputs.iter().map(read).collect::<Vec<_>>(),
            &outputs.iter().map(read).collect::<Vec<_>>(),
        )
        .map_err(GraphError::count(name))?;
        self.graph.layers.push(Layer {
            name: name.to_owned(),
            module: name.to_owned(),
            operator: operator.to_owned(),
            op: Some(op),
            work: Some(work),
            inputs,
            outputs,
        });
        Ok(output)
    }

    /// The graph with one result.
    pub(crate) fn finish(mut self, output: usize) -> Graph {
        self.graph.outputs.push(output);
        self.graph
    }

    /// The graph with no result.
    pub(crate) fn finish_without_output(self) -> Graph {
        self.graph
    }
}

/// The work of a layer on these tensors: the FLOPs of its operation and, for a product with three
/// operands, of its bias; the bytes of the tensors, each once. Rows selected from a table, and
/// slices of a tensor, count as read only as far as they are copied. Arithmetic on indexes and
/// booleans is not a floating-point operation.
pub(crate) fn layer_work(op: &Op, inputs: &[&Tensor], outputs: &[&Tensor]) -> Result<Work, FlopError> {
    if matches!(op, Op::View | Op::Empty) {
        return Ok(Work::default());
    }
    // With bytes of their own, elements of one byte each count elements.
    let counted = op.work(ElementType::Int8)?;
    let mut flops = counted.flops;
    if matches!(op, Op::Gemm(_) | Op::Conv(_)) && inputs.len() > 2 {
        flops = add("layer FLOPs", flops, op.output_elements()?)?;
    }
    if inputs.iter().chain(outputs).all(|tensor| tensor.element.is_none()) {
        flops = 0;
    }
    let mut bytes_written = 0;
    for tensor in outputs {
        bytes_written = add("bytes written", bytes_written, tensor.bytes()?)?;
    }
    let mut bytes_read = 0;
    for (index, tensor) in inputs.iter().enumerate() {
        // An operand that is read twice is fetched from memory once.
        if !inputs[..index].iter().any(|earlier| std::ptr::eq(*earlier, *tensor)) {
            bytes_read = add("bytes read", bytes_read, tensor.bytes()?)?;
        }
    }
    match (op, inputs) {
        (Op::Gather { rows, width }, [table, indexes, ..]) => {
            let rows = product("bytes read", &[*rows, *width, table.element_bytes])?;
            bytes_read = add("bytes read", rows.min(table.bytes()?), indexes.bytes()?)?;
        }
        (Op::EmbeddingBag(bag), [table, others @ ..]) => {
            bytes_read =
                product("bytes read", &[bag.rows, bag.width, table.element_bytes])?.min(table.bytes()?);
            for other in others {
                bytes_read = add("bytes read", bytes_read, other.bytes()?)?;
            }
        }
        (Op::Copy { elements }, [first, ..]) => {
            bytes_read = bytes_read.min(product("bytes read", &[*elements, first.element_bytes])?);
        }
        _ => {}
    }
    Ok(Work { flops, bytes_read, bytes_written })
}

fn add(quantity: &'static str, a: u64, b: u64) -> Result<u64, FlopError> {
    a.checked_add(b).ok_or(FlopError::Overflow { quantity: quantity.into() })
}

//! A model as layers.

use std::borrow::Cow;
use std::collections::BTreeMap;

use flopgap_flops::{AttentionMask, ElementType, FlopError, Work};
use serde::{Deserialize, Serialize};

use crate::error::GraphError;
use crate::op::{ElementwiseFunction, Op, product};

/// A model: its layers in an order in which they can run, and the tensors between them.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Graph {
    /// Name of the model.
    pub name: String,
    /// All tensors: inputs, parameters, what layers compute.
    pub tensors: Vec<Tensor>,
    /// The layers, each after those whose results it reads.
    pub layers: Vec<Layer>,
    /// Indexes of the tensors that a caller supplies.
    pub inputs: Vec<usize>,
    /// Indexes of the tensors that a caller receives.
    pub outputs: Vec<usize>,
    /// Classes of the modules by their paths, such as `torch.nn.modules.linear.Linear`; empty where
    /// the file does not say.
    #[serde(default)]
    pub classes: BTreeMap<String, String>,
    /// Masks of attention that its library makes only where PyTorch exports, compiles or captures
    /// the model, and what attention does without them; see [`eager`](Self::eager).
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub recorded_masks: BTreeMap<usize, AttentionMask>,
}

impl Graph {
    /// FLOPs and bytes of all layers that have a formula; see [`unknown`](Self::unknown) for the
    /// others.
    ///
    /// # Errors
    /// [`GraphError::Count`] where a sum overflows.
    pub fn work(&self) -> Result<Work, GraphError> {
        self.layers
            .iter()
            .filter_map(|layer| layer.work)
            .try_fold(Work::default(), |sum, work| sum.checked_add(&work))
            .map_err(GraphError::count(&self.name))
    }

    /// Multiply-adds of all products, what other tools call MACs: [`Op::multiply_adds`].
    ///
    /// # Errors
    /// [`GraphError::Count`] where a sum overflows.
    pub fn multiply_adds(&self) -> Result<u64, GraphError> {
        let mut sum = 0_u64;
        for (layer, op) in self.layers.iter().filter_map(|layer| Some((layer, layer.op.as_ref()?))) {
            let count = op.multiply_adds().map_err(GraphError::count(&layer.name))?;
            sum = sum.checked_add(count).ok_or_else(|| {
                GraphError::count(&self.name)(FlopError::Overflow { quantity: "multiply-adds".into() })
            })?;
        }
        Ok(sum)
    }

    /// The layers without a formula, which are excluded from all totals.
    pub fn unknown(&self) -> impl Iterator<Item = &Layer> {
        self.layers.iter().filter(|layer| layer.work.is_none())
    }

    /// Elements of all parameters, stored statistics included, in types that networks compute in:
    /// counters and shapes that are stored, too, are none.
    ///
    /// # Errors
    /// [`GraphError::Count`] where a sum overflows.
    pub fn parameters(&self) -> Result<u64, GraphError> {
        self.sum_of_parameters("parameters", Tensor::elements)
    }

    /// Bytes of those parameters as they are stored.
    ///
    /// # Errors
    /// [`GraphError::Count`] where a sum overflows.
    pub fn parameter_bytes(&self) -> Result<u64, GraphError> {
        self.sum_of_parameters("bytes of parameters", Tensor::bytes)
    }

    /// The type that most multiply-adds are done in; where nothing is multiplied, the type of
    /// floats that most written elements have. `None` where neither is.
    ///
    /// It is that of the first operand, and 8-bit integers where both operands are, or were
    /// converted from them (`QuantizeLinear`, `DequantizeLinear`): that is what engines compute.
    ///
    /// # Errors
    /// [`GraphError::Count`] where a sum overflows.
    pub fn arithmetic(&self) -> Result<Option<ElementType>, GraphError> {
        let mut writers: Vec<Option<&Layer>> = vec![None; self.tensors.len()];
        for layer in &self.layers {
            for &output in &layer.outputs {
                if let Some(writer) = writers.get_mut(output) {
                    *writer = Some(layer);
                }
            }
        }
        let mut counts: Vec<(ElementType, u64)> = Vec::new();
        for layer in &self.layers {
            let Some(op) = &layer.op else { continue };
            let count = op.multiply_adds().map_err(GraphError::count(&layer.name))?;
            let Some(first) = layer.inputs.first().filter(|_| count > 0) else { continue };
            let in_8_bits = |tensor: &usize| self.in_8_bits(&writers, *tensor);
            let element = if layer.inputs.iter().take(2).all(in_8_bits) {
                Some(ElementType::Int8)
            } else {
                self.tensors.get(*first).and_then(|tensor| tensor.element)
            };
            let Some(element) = element else { continue };
            add(&mut counts, element, count);
        }
        if counts.is_empty() {
            let written = self.layers.iter().flat_map(|layer| &layer.outputs);
            for tensor in written.filter_map(|&output| self.tensors.get(output)) {
                let Some(element) = tensor.element.filter(|&element| element != ElementType::Int8) else {
                    continue;
                };
                let count = tensor.elements().map_err(GraphError::count(&tensor.name))?;
                add(&mut counts, element, count);
            }
        }
        // Of several with as many, the first.
        Ok(counts.into_iter().rev().max_by_key(|(_, count)| *count).map(|(element, _)| element))
    }

    /// Whether a tensor is of 8-bit integers, or converted from them and then at most moved.
    fn in_8_bits(&self, writers: &[Option<&Layer>], mut tensor: usize) -> bool {
        // No path is longer than the graph, whatever a damaged one says.
        for _ in 0..=self.layers.len() {
            let is_int8 = self.tensors.get(tensor).is_some_and(|of| of.element == Some(ElementType::Int8));
            if is_int8 {
                return true;
            }
            let Some(writer) = writers.get(tensor).copied().flatten() else { return false };
            let passes = match &writer.op {
                Some(Op::View | Op::Copy { .. }) => true,
                Some(Op::Elementwise(sizes)) => sizes.function == ElementwiseFunction::Quantize,
                _ => false,
            };
            match writer.inputs.first() {
                Some(&input) if passes => tensor = input,
                _ => return false,
            }
        }
        false
    }

    /// Whether PyTorch exported it: its operators have namespaces, those of ONNX have none.
    pub fn is_of_pytorch(&self) -> bool {
        self.layers.iter().any(|layer| layer.operator.starts_with("aten."))
    }

    /// The same graph with all its floats of 16 and 32 bits in another type; itself, where most of
    /// it is computed in that type anyway or it has none.
    ///
    /// # Errors
    /// As [`arithmetic`](Self::arithmetic).
    pub fn with_floats(&self, element: ElementType) -> Result<Cow<'_, Self>, GraphError> {
        if self.arithmetic()?.is_none_or(|own| own == element) {
            return Ok(Cow::Borrowed(self));
        }
        let mut graph = self.clone();
        for tensor in &mut graph.tensors {
            if matches!(tensor.element, Some(ElementType::Fp32 | ElementType::Fp16 | ElementType::Bf16)) {
                let parts = if tensor.is_complex() { 2 } else { 1 };
                (tensor.element, tensor.element_bytes) = (Some(element), parts * element.bytes());
            }
        }
        Ok(Cow::Owned(graph))
    }

    fn sum_of_parameters(
        &self,
        quantity: &'static str,
        of: impl Fn(&Tensor) -> Result<u64, FlopError>,
    ) -> Result<u64, GraphError> {
        let mut sum = 0_u64;
        for tensor in self.tensors.iter().filter(|tensor| tensor.parameter && tensor.element.is_some()) {
            let count = of(tensor).map_err(GraphError::count(&tensor.name))?;
            sum = sum.checked_add(count).ok_or_else(|| {
                GraphError::count(&self.name)(FlopError::Overflow { quantity: quantity.into() })
            })?;
        }
        Ok(sum)
    }
}

fn add(counts: &mut Vec<(ElementType, u64)>, element: ElementType, count: u64) {
    match counts.iter_mut().find(|(other, _)| *other == element) {
        Some((_, sum)) => *sum = sum.saturating_add(count),
        None => counts.push((element, count)),
    }
}

impl Tensor {
    /// How many elements it has; 1 for a scalar.
    ///
    /// # Errors
    /// [`FlopError::Overflow`].
    pub fn elements(&self) -> Result<u64, FlopError> {
        product("tensor elements", &self.shape)
    }

    /// Whether its last dimensions, so many of them, are arrays that do not follow each other at
    /// one distance: a library that computes with all of them needs a copy first.
    pub fn is_scattered(&self, last: usize) -> bool {
        if self.strides.len() != self.shape.len() || self.shape.len() <= last {
            return false;
        }
        let leading = self.shape.len() - last;
        let dimensions = self.strides.iter().zip(&self.shape).take(leading);
        let dimensions: Vec<(u64, u64)> =
            dimensions.map(|(stride, size)| (*stride, *size)).filter(|(_, size)| *size != 1).collect();
        dimensions.windows(2).any(|pair| pair[0].0 != pair[1].0.saturating_mul(pair[1].1))
    }

    /// How its elements lie in memory, by its strides.
    pub fn layout(&self) -> Layout {
        if self.strides.len() != self.shape.len() || self.shape.contains(&0) {
            return Layout::Rows;
        }
        // A dimension of one element lies anywhere.
        let dimensions = self.strides.iter().zip(&self.shape).filter(|(_, size)| **size != 1);
        let mut inner_first: Vec<(u64, u64)> = dimensions.map(|(stride, size)| (*stride, *size)).collect();
        inner_first.reverse();
        let is_packed = |dimensions: &[(u64, u64)]| {
            let mut expected = 1_u64;
            dimensions.iter().all(|&(stride, size)| {
                let fits = stride == expected;
                expected = expected.saturating_mul(size);
                fits
            })
        };
        if is_packed(&inner_first) {
            return Layout::Rows;
        }
        inner_first.sort_unstable();
        if is_packed(&inner_first) { Layout::Reordered } else { Layout::Gaps }
    }

    /// Whether its elements are complex numbers, whose parts are of the type.
    pub fn is_complex(&self) -> bool {
        self.element.is_some_and(|element| self.element_bytes == 2 * element.bytes())
    }

    /// How many bytes they take: along a dimension of stride 0, to which it was expanded, all are
    /// the same.
    ///
    /// # Errors
    /// [`FlopError::Overflow`].
    pub fn bytes(&self) -> Result<u64, FlopError> {
        if self.strides.len() != self.shape.len() {
            return product("tensor bytes", &[self.elements()?, self.element_bytes]);
        }
        let dimensions = self.shape.iter().zip(&self.strides);
        let stored = |(&size, &stride): (&u64, &u64)| if stride == 0 { size.min(1) } else { size };
        let sizes: Vec<u64> = dimensions.map(stored).chain([self.element_bytes]).collect();
        product("tensor bytes", &sizes)
    }
}

/// A tensor of known shape.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tensor {
    /// Its name in the model.
    pub name: String,
    /// Its sizes.
    pub shape: Vec<u64>,
    /// How its elements are stored, or the parts of complex ones; `None` for types that no
    /// arithmetic of networks is done in (64-bit indexes, booleans, text).
    pub element: Option<ElementType>,
    /// Bytes of an element.
    pub element_bytes: u64,
    /// Whether it is stored with the model.
    pub parameter: bool,
    /// Whether training changes it by its gradient, as far as the file says: ONNX does not tell
    /// parameters from constants.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub trained: bool,
    /// Steps in elements from one to the next along each dimension; empty where the file does not
    /// say, and rows then lie one after the other.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub strides: Vec<u64>,
}

/// How the elements of a tensor lie in memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Layout {
    /// In the order of the dimensions, without gaps: what PyTorch calls contiguous.
    Rows,
    /// Without gaps, in another order of the dimensions: `channels_last`, a transposed matrix.
    Reordered,
    /// With gaps, or several times the same: a part of a larger tensor, an expanded one.
    Gaps,
}

/// One operation of a model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Layer {
    /// Its name in the model: `/layer1/0/conv1/Conv`.
    pub name: String,
    /// The module it belongs to, dots between the parts: `layer1.0.conv1`; empty where the model
    /// does not tell.
    pub module: String,
    /// The operator as the model names it: `Conv`, `aten.convolution.default`.
    pub operator: String,
    /// The operation, or `None` if this crate has no formula for the operator.
    pub op: Option<Op>,
    /// Exact FLOPs and compulsory bytes, or `None` where there is no formula. Never 0 for what is
    /// not known.
    pub work: Option<Work>,
    /// Indexes of the tensors that it reads. Of a product or convolution: its first operand, its
    /// second (the weights), and its bias where it has one; of everything else in the model's
    /// order.
    pub inputs: Vec<usize>,
    /// Indexes of the tensors that it writes.
    pub outputs: Vec<usize>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tensor(shape: &[u64], strides: &[u64]) -> Tensor {
        let (shape, strides) = (shape.to_vec(), strides.to_vec());
        let (element, element_bytes) = (Some(ElementType::Fp32), 4);
        let (name, parameter, trained) = (String::new(), false, false);
        Tensor { name, shape, element, element_bytes, parameter, trained, strides }
    }

    #[test]
    fn what_was_expanded_takes_the_bytes_of_what_is_there() {
        assert_eq!(tensor(&[8, 2, 6, 5], &[10, 5, 0, 1]).bytes(), Ok(8 * 2 * 5 * 4));
        assert_eq!(tensor(&[8, 2, 6, 5], &[]).bytes(), Ok(8 * 2 * 6 * 5 * 4));
        assert_eq!(tensor(&[3, 0], &[0, 0]).bytes(), Ok(0));
        assert_eq!(tensor(&[7], &[0]).bytes(), Ok(4));
    }

    #[test]
    fn layouts_are_those_of_strides() {
        let layout = |shape: &[u64], strides: &[u64]| tensor(shape, strides).layout();
        assert_eq!(layout(&[2, 1, 3], &[3, 77, 1]), Layout::Rows);
        assert_eq!(layout(&[2, 3], &[]), Layout::Rows, "a file that does not say");
        assert_eq!(layout(&[2, 3], &[1, 2]), Layout::Reordered);
        assert_eq!(layout(&[8, 3, 4, 5], &[60, 1, 15, 3]), Layout::Reordered, "channels last");
        assert_eq!(layout(&[2, 3], &[4, 1]), Layout::Gaps, "a part of a row");
        assert_eq!(layout(&[2, 3], &[0, 1]), Layout::Gaps, "expanded");
    }

    #[test]
    fn heads_of_a_batch_follow_each_other_at_one_distance_or_not() {
        // 2 images, 4 heads, 9 tokens, 16 features: as `view(-1, ...)` asks for.
        let scattered = |shape: &[u64], strides: &[u64], last| tensor(shape, strides).is_scattered(last);
        assert!(!scattered(&[2, 4, 9, 16], &[576, 144, 16, 1], 2));
        assert!(!scattered(&[2, 4, 9, 16], &[576, 144, 1, 9], 2), "each matrix transposed");
        assert!(scattered(&[2, 4, 9, 16], &[576, 16, 64, 1], 2), "heads beside each other");
        assert!(!scattered(&[1, 4, 9, 16], &[576, 16, 64, 1], 2), "one image");
        assert!(scattered(&[2, 9, 64], &[576, 1, 9], 1), "a row of each pixel of an image");
        assert!(!scattered(&[9, 64], &[1, 9], 1), "a transposed matrix");
        assert!(!scattered(&[2, 4, 9, 16], &[], 2), "a file that does not say");
    }
}

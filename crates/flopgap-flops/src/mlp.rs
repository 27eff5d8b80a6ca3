//! Multi-layer perceptrons of any sizes.

use crate::{
    Activation, ClassFlops, Convention, ElementType, FlopError, LossGradient, Pass, Ratio, Work, checked,
};

/// A fully connected network: `sizes[0]` inputs, then one layer per further size, on `batch`
/// samples.
///
/// Layer `i` computes `Y = activation(X W^T + b)` with `X` of shape `batch x sizes[i]` and `W` of
/// shape `sizes[i+1] x sizes[i]`.
///
/// ```
/// use flopgap_flops::{Activation, Convention, ElementType, Mlp, Pass};
///
/// let mlp = Mlp::new([64, 64, 16], 256)?.with_bias(true).with_activation(Activation::LeakyRelu);
/// assert_eq!(mlp.parameters()?, 5_200);
/// let forward = mlp.count(Pass::Forward, &Convention::ARITHMETIC, ElementType::Fp16)?;
/// assert_eq!(forward.total.flops.output, 2 * 256 * (64 * 64 + 64 * 16));
/// assert_eq!(forward.layers.len(), 2);
/// # Ok::<(), flopgap_flops::FlopError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(try_from = "Parts"))]
pub struct Mlp {
    sizes: Vec<u64>,
    batch: u64,
    bias: Biases,
    activation: Activation,
    output_activation: Activation,
    input_gradient: bool,
}

/// Which layers have a bias. A list is never of one value alone, so equal networks are equal.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(untagged))]
enum Biases {
    /// All layers, or none.
    Every(bool),
    /// One flag for each layer.
    Each(Vec<bool>),
}

/// FLOPs of one layer, or of all of them, by operation. The operations of the other pass are 0, so
/// the sum of a forward and a backward count is a training step.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct LayerFlops {
    /// Forward product `X W^T`: `2 batch in out`.
    pub output: u64,
    /// Forward bias: `batch out` additions.
    pub bias: u64,
    /// Forward activation.
    pub activation: u64,
    /// Backward: derivative of the activation times the incoming gradient, giving `dZ`.
    pub activation_gradient: u64,
    /// Backward `dX = dZ W`: `2 batch in out`, unless nothing needs it.
    pub input_gradient: u64,
    /// Backward `dW = dZ^T X`: `2 batch in out`.
    pub weight_gradient: u64,
    /// Backward `db`, the column sums of `dZ`: `batch out`.
    pub bias_gradient: u64,
}

impl LayerFlops {
    /// FLOPs of the matrix products.
    ///
    /// # Errors
    /// [`FlopError::Overflow`].
    pub fn gemm(&self) -> Result<u64, FlopError> {
        checked::sum("GEMM FLOPs", &[self.output, self.input_gradient, self.weight_gradient])
    }

    /// FLOPs of all operations.
    ///
    /// # Errors
    /// [`FlopError::Overflow`].
    pub fn total(&self) -> Result<u64, FlopError> {
        let classes = self.classes()?;
        classes.total()
    }

    /// The operations by class of kernel; biases and their gradients are `other`.
    ///
    /// # Errors
    /// [`FlopError::Overflow`].
    pub fn classes(&self) -> Result<ClassFlops, FlopError> {
        Ok(ClassFlops {
            gemm: self.gemm()?,
            split_k: 0,
            activation: checked::sum("activation FLOPs", &[self.activation, self.activation_gradient])?,
            other: checked::sum("bias FLOPs", &[self.bias, self.bias_gradient])?,
        })
    }

    /// Operation-wise sum.
    ///
    /// # Errors
    /// [`FlopError::Overflow`].
    pub fn checked_add(&self, more: &Self) -> Result<Self, FlopError> {
        Ok(Self {
            output: checked::sum("forward GEMM FLOPs", &[self.output, more.output])?,
            bias: checked::sum("bias FLOPs", &[self.bias, more.bias])?,
            activation: checked::sum("activation FLOPs", &[self.activation, more.activation])?,
            activation_gradient: checked::sum(
                "activation gradient FLOPs",
                &[self.activation_gradient, more.activation_gradient],
            )?,
            input_gradient: checked::sum(
                "input gradient FLOPs",
                &[self.input_gradient, more.input_gradient],
            )?,
            weight_gradient: checked::sum(
                "weight gradient FLOPs",
                &[self.weight_gradient, more.weight_gradient],
            )?,
            bias_gradient: checked::sum("bias gradient FLOPs", &[self.bias_gradient, more.bias_gradient])?,
        })
    }
}

/// FLOPs and compulsory bytes of one layer in one pass, or the sum over layers.
///
/// Bytes are those of a layer run as one fused kernel: its operands and results, but no
/// intermediate such as the product before the bias. Forward reads `X`, `W`, `b` and writes `Y`.
/// Backward reads `dY`, `X`, what the derivative needs (one tensor of the shape of `Y`; none for
/// the identity) and `W` where `dX` is needed, and writes `dW`, `db` and `dX`. A constant loss
/// gradient is not read.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct LayerWork {
    /// FLOPs by operation.
    pub flops: LayerFlops,
    /// Bytes of the operands.
    pub bytes_read: u64,
    /// Bytes of the results.
    pub bytes_written: u64,
}

impl LayerWork {
    /// Total FLOPs with the bytes.
    ///
    /// # Errors
    /// [`FlopError::Overflow`].
    pub fn work(&self) -> Result<Work, FlopError> {
        Ok(Work {
            flops: self.flops.total()?,
            bytes_read: self.bytes_read,
            bytes_written: self.bytes_written,
        })
    }

    /// Arithmetic intensity in FLOP per compulsory byte.
    ///
    /// # Errors
    /// [`FlopError::Overflow`].
    pub fn intensity(&self) -> Result<Option<Ratio>, FlopError> {
        self.work()?.intensity()
    }

    /// Component-wise sum.
    ///
    /// # Errors
    /// [`FlopError::Overflow`].
    pub fn checked_add(&self, more: &Self) -> Result<Self, FlopError> {
        Ok(Self {
            flops: self.flops.checked_add(&more.flops)?,
            bytes_read: checked::sum("bytes read", &[self.bytes_read, more.bytes_read])?,
            bytes_written: checked::sum("bytes written", &[self.bytes_written, more.bytes_written])?,
        })
    }
}

/// One pass over an [`Mlp`]: every layer in the order of the forward pass, and their sum.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct MlpWork {
    /// The pass.
    pub pass: Pass,
    /// Layer by layer, the layer next to the input first.
    pub layers: Vec<LayerWork>,
    /// The sum over layers.
    pub total: LayerWork,
}

impl Mlp {
    /// A network with the given sizes, without biases and activations and with no gradient for its
    /// input.
    ///
    /// # Errors
    /// [`FlopError::TooFewSizes`] for fewer than two sizes, [`FlopError::ZeroSize`] when a size or
    /// the batch is 0.
    pub fn new(sizes: impl Into<Vec<u64>>, batch: u64) -> Result<Self, FlopError> {
        let sizes = sizes.into();
        if sizes.len() < 2 {
            return Err(FlopError::TooFewSizes { found: sizes.len() });
        }
        if let Some(index) = sizes.iter().position(|&size| size == 0) {
            return Err(FlopError::ZeroSize { name: format!("sizes[{index}]").into() });
        }
        checked::positive(&[("batch", batch)])?;
        Ok(Self {
            sizes,
            batch,
            bias: Biases::Every(false),
            activation: Activation::Identity,
            output_activation: Activation::Identity,
            input_gradient: false,
        })
    }

    /// With or without a bias in every layer.
    #[must_use]
    pub fn with_bias(mut self, bias: bool) -> Self {
        self.bias = Biases::Every(bias);
        self
    }

    /// With a bias in some layers: one flag for each layer, the layer next to the input first.
    ///
    /// ```
    /// use flopgap_flops::Mlp;
    ///
    /// let mlp = Mlp::new([64, 128, 16], 256)?.with_biases(&[false, true])?;
    /// assert_eq!(mlp.parameters()?, 64 * 128 + 128 * 16 + 16);
    /// # Ok::<(), flopgap_flops::FlopError>(())
    /// ```
    ///
    /// # Errors
    /// [`FlopError::BiasCount`] when there is not one flag for each layer.
    pub fn with_biases(mut self, biases: &[bool]) -> Result<Self, FlopError> {
        if biases.len() != self.layers() {
            return Err(FlopError::BiasCount { layers: self.layers(), found: biases.len() });
        }
        let first = biases[0];
        let same = biases.iter().all(|&bias| bias == first);
        self.bias = if same { Biases::Every(first) } else { Biases::Each(biases.to_vec()) };
        Ok(self)
    }

    /// The activation of every layer, the last included.
    #[must_use]
    pub fn with_activation(mut self, activation: Activation) -> Self {
        self.activation = activation;
        self.output_activation = activation;
        self
    }

    /// The activation of the last layer only; call it after
    /// [`with_activation`](Self::with_activation).
    #[must_use]
    pub fn with_output_activation(mut self, activation: Activation) -> Self {
        self.output_activation = activation;
        self
    }

    /// Whether the backward pass computes the gradient of the network's input: when something
    /// trainable, such as an encoding, lies before it.
    #[must_use]
    pub fn with_input_gradient(mut self, needed: bool) -> Self {
        self.input_gradient = needed;
        self
    }

    /// Input size and the output size of every layer.
    pub fn sizes(&self) -> &[u64] {
        &self.sizes
    }

    /// Samples per pass.
    pub const fn batch(&self) -> u64 {
        self.batch
    }

    /// Number of layers, at least 1.
    pub fn layers(&self) -> usize {
        self.sizes.len() - 1
    }

    /// Weights and biases.
    ///
    /// # Errors
    /// [`FlopError::Overflow`].
    pub fn parameters(&self) -> Result<u64, FlopError> {
        (0..self.layers()).try_fold(0, |sum, index| {
            let weights = checked::product("parameters", &[self.sizes[index], self.sizes[index + 1]])?;
            checked::sum("parameters", &[sum, weights, self.biases(index)])
        })
    }

    /// FLOPs and compulsory bytes of one pass, layer by layer and in total.
    ///
    /// # Errors
    /// [`FlopError::Overflow`] naming the layer and the quantity.
    pub fn count(
        &self,
        pass: Pass,
        convention: &Convention,
        element: ElementType,
    ) -> Result<MlpWork, FlopError> {
        let layers = (0..self.layers())
            .map(|index| {
                let work = match pass {
                    Pass::Forward => self.forward_layer(index, convention, element),
                    Pass::Backward => self.backward_layer(index, convention, element),
                };
                work.map_err(|error| error.within(format_args!("layer {index}")))
            })
            .collect::<Result<Vec<_>, _>>()?;
        let total = layers.iter().try_fold(LayerWork::default(), |sum, layer| sum.checked_add(layer))?;
        Ok(MlpWork { pass, layers, total })
    }

    fn has_bias(&self, index: usize) -> bool {
        match &self.bias {
            Biases::Every(bias) => *bias,
            Biases::Each(biases) => biases[index],
        }
    }

    /// Biases of a layer.
    fn biases(&self, index: usize) -> u64 {
        if self.has_bias(index) { self.sizes[index + 1] } else { 0 }
    }

    fn is_last(&self, index: usize) -> bool {
        index + 1 == self.layers()
    }

    fn activation_of(&self, index: usize) -> Activation {
        if self.is_last(index) { self.output_activation } else { self.activation }
    }

    fn forward_layer(
        &self,
        index: usize,
        convention: &Convention,
        element: ElementType,
    ) -> Result<LayerWork, FlopError> {
        let layer = Shape::of(self, index)?;
        let cost = convention.activations.of(self.activation_of(index)).forward;
        let flops = LayerFlops {
            output: checked::product("forward GEMM FLOPs", &[2, self.batch, layer.inputs, layer.outputs])?,
            bias: if self.has_bias(index) { layer.output_elements } else { 0 },
            activation: checked::product("activation FLOPs", &[cost, layer.output_elements])?,
            ..LayerFlops::default()
        };
        let read = [layer.input_elements, layer.weights, self.biases(index)];
        LayerWork::of_elements(flops, &read, &[layer.output_elements], element)
    }

    fn backward_layer(
        &self,
        index: usize,
        convention: &Convention,
        element: ElementType,
    ) -> Result<LayerWork, FlopError> {
        let layer = Shape::of(self, index)?;
        let activation = self.activation_of(index);
        let incoming = if self.is_last(index) { convention.loss_gradient } else { LossGradient::Tensor };
        let cost = convention.backward_cost(activation, incoming)?;
        let needs_input_gradient = index > 0 || self.input_gradient;
        let product = checked::product("backward GEMM FLOPs", &[2, self.batch, layer.inputs, layer.outputs])?;
        let when = |condition: bool, count: u64| if condition { count } else { 0 };
        let flops = LayerFlops {
            activation_gradient: checked::product(
                "activation gradient FLOPs",
                &[cost, layer.output_elements],
            )?,
            input_gradient: when(needs_input_gradient, product),
            weight_gradient: product,
            bias_gradient: when(self.has_bias(index), layer.output_elements),
            ..LayerFlops::default()
        };
        let read = [
            when(incoming == LossGradient::Tensor, layer.output_elements),
            when(activation != Activation::Identity, layer.output_elements),
            layer.input_elements,
            when(needs_input_gradient, layer.weights),
        ];
        let written = [layer.weights, self.biases(index), when(needs_input_gradient, layer.input_elements)];
        LayerWork::of_elements(flops, &read, &written, element)
    }
}

impl LayerWork {
    fn of_elements(
        flops: LayerFlops,
        read: &[u64],
        written: &[u64],
        element: ElementType,
    ) -> Result<Self, FlopError> {
        let Work { bytes_read, bytes_written, .. } = Work::of_elements(0, read, written, element)?;
        Ok(Self { flops, bytes_read, bytes_written })
    }
}

/// Elements of the tensors of one layer.
struct Shape {
    inputs: u64,
    outputs: u64,
    weights: u64,
    input_elements: u64,
    output_elements: u64,
}

impl Shape {
    fn of(mlp: &Mlp, index: usize) -> Result<Self, FlopError> {
        let (inputs, outputs) = (mlp.sizes[index], mlp.sizes[index + 1]);
        Ok(Self {
            inputs,
            outputs,
            weights: checked::product("weights", &[inputs, outputs])?,
            input_elements: checked::product("input elements", &[mlp.batch, inputs])?,
            output_elements: checked::product("output elements", &[mlp.batch, outputs])?,
        })
    }
}

/// A network before its sizes are checked.
#[cfg(feature = "serde")]
#[derive(serde::Deserialize)]
#[serde(rename = "Mlp", deny_unknown_fields)]
struct Parts {
    sizes: Vec<u64>,
    batch: u64,
    bias: Biases,
    activation: Activation,
    output_activation: Activation,
    input_gradient: bool,
}

#[cfg(feature = "serde")]
impl TryFrom<Parts> for Mlp {
    type Error = FlopError;

    fn try_from(parts: Parts) -> Result<Self, FlopError> {
        let mlp = Self::new(parts.sizes, parts.batch)?;
        let mlp = match parts.bias {
            Biases::Every(bias) => mlp.with_bias(bias),
            Biases::Each(biases) => mlp.with_biases(&biases)?,
        };
        Ok(mlp
            .with_activation(parts.activation)
            .with_output_activation(parts.output_activation)
            .with_input_gradient(parts.input_gradient))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_checked_also_from_json() {
        assert_eq!(Mlp::new([3], 1), Err(FlopError::TooFewSizes { found: 1 }));
        assert_eq!(Mlp::new([3, 0], 1), Err(FlopError::ZeroSize { name: "sizes[1]".into() }));
        assert_eq!(Mlp::new([3, 1], 0), Err(FlopError::ZeroSize { name: "batch".into() }));
        let mlp = Mlp::new([3, 2], 4).unwrap().with_bias(true).with_activation(Activation::Tanh);
        let json = serde_json::to_string(&mlp).unwrap();
        assert_eq!(serde_json::from_str::<Mlp>(&json).unwrap(), mlp);
        assert!(serde_json::from_str::<Mlp>(&json.replace("\"batch\":4", "\"batch\":0")).is_err());
    }

    #[test]
    fn biases_of_some_layers_are_a_list_in_json() {
        let mlp = Mlp::new([3, 4, 2], 5).unwrap();
        let mixed = mlp.clone().with_biases(&[true, false]).unwrap();
        let json = serde_json::to_string(&mixed).unwrap();
        assert!(json.contains("\"bias\":[true,false]"), "{json}");
        assert_eq!(serde_json::from_str::<Mlp>(&json).unwrap(), mixed);
        assert!(serde_json::from_str::<Mlp>(&json.replace("[true,false]", "[true]")).is_err());
        assert!(serde_json::from_str::<Mlp>(&json.replace("[true,false]", "1")).is_err());

        let every = mlp.clone().with_bias(true);
        assert!(serde_json::to_string(&every).unwrap().contains("\"bias\":true"));
        assert_eq!(mlp.clone().with_biases(&[true, true]).unwrap(), every);
        assert_eq!(
            mlp.with_biases(&[true; 3]).unwrap_err().to_string(),
            "an MLP with 2 layers needs 2 bias flags; found 3"
        );
    }

    #[test]
    fn one_layer_by_hand() {
        // 3 -> 2 on 5 samples: X 15, W 6, b 2, Y 10 elements.
        let mlp = Mlp::new([3, 2], 5).unwrap().with_bias(true).with_activation(Activation::Sigmoid);
        let forward = mlp.count(Pass::Forward, &Convention::ARITHMETIC, ElementType::Fp32).unwrap();
        assert_eq!(
            forward.total,
            LayerWork {
                flops: LayerFlops { output: 60, bias: 10, activation: 40, ..LayerFlops::default() },
                bytes_read: 4 * (15 + 6 + 2),
                bytes_written: 4 * 10,
            }
        );
        let backward = mlp.count(Pass::Backward, &Convention::ARITHMETIC, ElementType::Fp32).unwrap();
        assert_eq!(
            backward.total,
            LayerWork {
                flops: LayerFlops {
                    activation_gradient: 30,
                    weight_gradient: 60,
                    bias_gradient: 10,
                    ..LayerFlops::default()
                },
                bytes_read: 4 * (10 + 10 + 15),
                bytes_written: 4 * (6 + 2),
            }
        );
        let all = mlp.with_input_gradient(true).count(Pass::Backward, &Convention::SQUARE, ElementType::Fp16);
        assert_eq!(
            all.unwrap().total,
            LayerWork {
                flops: LayerFlops {
                    activation_gradient: 10,
                    input_gradient: 60,
                    weight_gradient: 60,
                    bias_gradient: 10,
                    ..LayerFlops::default()
                },
                bytes_read: 2 * (10 + 15 + 6),
                bytes_written: 2 * (6 + 2 + 15),
            }
        );
    }

    #[test]
    fn overflow_names_layer_and_quantity() {
        let mlp = Mlp::new([2, 1 << 31, 1 << 31], 4).unwrap();
        let error = mlp.count(Pass::Forward, &Convention::SQUARE, ElementType::Fp32).unwrap_err();
        assert_eq!(error, FlopError::overflow("layer 1: forward GEMM FLOPs"));
        let wide = Mlp::new([1 << 32, 1 << 32], 1).unwrap();
        assert_eq!(wide.parameters(), Err(FlopError::overflow("parameters")));
    }
}

//! The sizes and activations of a network, and where its parameters lie.

use std::fmt;
use std::ops::Range;

use flopgap_flops::{Activation, FlopError, Mlp};

use crate::{MlpError, slope_from_output};

/// GPU kernels take widths that are multiples of this (16 bytes of half precision); others are
/// padded.
const MULTIPLE: usize = 8;
/// Wider layers are refused: their weights would not fit what a kernel indexes.
const WIDEST: usize = 16_384;
/// Wider layers are refused on a CPU, too: products of sizes must stay far from the limits of
/// `usize`.
const WIDEST_ON_CPU: usize = 1 << 20;
/// More layers are refused: kernels are made for each.
const DEEPEST: usize = 64;

/// A fully connected network: `a_0 = x`, `a_(l+1) = f_l(W_l a_l + b_l)`, `y = a_L`.
///
/// The parameters are one array without gaps: for each layer the weights, row-major (`out x in`),
/// then the biases, if the layer has any. Samples are rows: the inputs of a batch are `batch x
/// inputs`, row-major, the outputs `batch x outputs`.
///
/// ```
/// use flopgap_mlp::{Activation, Network};
///
/// let network = Network::new(&[64, 64, 16])?.with_output_activation(Activation::Sigmoid);
/// assert_eq!(network.layers(), 2);
/// assert_eq!(network.parameters(), 5_200);
/// assert_eq!(network.weights(1), 64 * 64 + 64..64 * 64 + 64 + 64 * 16);
/// assert_eq!(network.to_string(), "64-64-16 leaky_relu/sigmoid");
///
/// let color = Network::new(&[3, 64, 3])?.with_bias(false);
/// assert_eq!(color.parameters(), 3 * 64 + 64 * 3);
/// let mixed = color.with_biases(&[false, true])?;
/// assert_eq!(mixed.parameters(), 3 * 64 + 64 * 3 + 3);
/// assert!(Network::new(&[64, 0, 16]).is_err());
/// # Ok::<(), flopgap_mlp::MlpError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Network {
    widths: Vec<usize>,
    /// For each layer whether it has biases.
    biases: Vec<bool>,
    activation: Activation,
    output_activation: Activation,
}

impl Network {
    /// A network of these widths: inputs, one hidden layer or more, outputs. Layers have biases,
    /// the activation of the hidden layers is [`Activation::LeakyRelu`], the output has none.
    ///
    /// GPU kernels take widths that are multiples of 8. Others are padded inside, which costs a
    /// copy of inputs and outputs and the products of the padding: see [`Network::is_padded`].
    ///
    /// # Errors
    /// [`MlpError::Widths`] when there are fewer than three, or one is not from 1 to 16,384.
    pub fn new(widths: &[usize]) -> Result<Self, MlpError> {
        let refuse = |problem: String| Err(MlpError::Widths { widths: widths.to_vec(), problem });
        if widths.len() < 3 {
            return refuse("at least three are needed: inputs, a hidden layer, outputs".to_owned());
        }
        if widths.len() > DEEPEST + 1 {
            return refuse(format!("more than {DEEPEST} layers"));
        }
        for (position, &width) in widths.iter().enumerate() {
            if !(1..=WIDEST).contains(&width) {
                return refuse(format!("number {} is {width}: from 1 to {WIDEST}", position + 1));
            }
        }
        Ok(Self::with_widths(widths))
    }

    /// A network for the CPU: two or more widths, each any number from 1 to 1,048,576. Otherwise as
    /// [`Network::new`].
    ///
    /// GPU implementations refuse it unless [`Network::new`] takes its widths, too.
    ///
    /// ```
    /// use flopgap_mlp::Network;
    ///
    /// let layer = Network::of_any_widths(&[100, 7])?;
    /// assert_eq!((layer.layers(), layer.parameters()), (1, 707));
    /// # Ok::<(), flopgap_mlp::MlpError>(())
    /// ```
    ///
    /// # Errors
    /// [`MlpError::Widths`].
    pub fn of_any_widths(widths: &[usize]) -> Result<Self, MlpError> {
        let refuse = |problem: String| Err(MlpError::Widths { widths: widths.to_vec(), problem });
        if widths.len() < 2 {
            return refuse("at least two are needed: inputs, outputs".to_owned());
        }
        if widths.len() > DEEPEST + 1 {
            return refuse(format!("more than {DEEPEST} layers"));
        }
        let wrong = widths.iter().position(|width| !(1..=WIDEST_ON_CPU).contains(width));
        if let Some(position) = wrong {
            let problem =
                format!("number {} is {}: from 1 to {WIDEST_ON_CPU}", position + 1, widths[position]);
            return refuse(problem);
        }
        Ok(Self::with_widths(widths))
    }

    fn with_widths(widths: &[usize]) -> Self {
        Network {
            widths: widths.to_vec(),
            biases: vec![true; widths.len() - 1],
            activation: Activation::LeakyRelu,
            output_activation: Activation::Identity,
        }
    }

    /// Refuses widths that kernels cannot index.
    pub(crate) fn check_for_gpu(&self) -> Result<(), MlpError> {
        Self::new(&self.widths).map(|_| ())
    }

    /// Whether GPU kernels compute a padded network instead: a width is no multiple of 8, or a
    /// layer has no biases (the kernels then add zeros).
    pub fn is_padded(&self) -> bool {
        self.biases.contains(&false) || self.widths.iter().any(|width| !width.is_multiple_of(MULTIPLE))
    }

    /// The network that GPU kernels compute: widths rounded up to multiples of 8, with biases.
    /// Where the parameters that this network does not have are zero, its first outputs are those
    /// of this one.
    ///
    /// ```
    /// use flopgap_mlp::Network;
    ///
    /// let color = Network::new(&[3, 64, 3])?;
    /// assert_eq!(color.padded().widths(), [8, 64, 8]);
    /// # Ok::<(), flopgap_mlp::MlpError>(())
    /// ```
    #[must_use]
    pub fn padded(&self) -> Self {
        let widths = self.widths.iter().map(|width| width.next_multiple_of(MULTIPLE)).collect();
        Network { widths, biases: vec![true; self.layers()], ..self.clone() }
    }

    /// The padded network, if there can be kernels for it.
    ///
    /// # Errors
    /// As [`Network::new`].
    pub(crate) fn for_kernels(&self) -> Result<Self, MlpError> {
        self.check_for_gpu()?;
        Ok(self.padded())
    }

    /// For each parameter, its place among those of the padded network.
    pub(crate) fn places_in_padded(&self) -> Vec<usize> {
        let padded = self.padded();
        let mut places = Vec::with_capacity(self.parameters());
        for layer in 0..self.layers() {
            let (inputs, outputs) = (self.widths[layer], self.widths[layer + 1]);
            let start = padded.weights(layer).start;
            for output in 0..outputs {
                let row = start + output * padded.widths[layer];
                places.extend(row..row + inputs);
            }
            places.extend(padded.biases(layer).take(self.biases(layer).len()));
        }
        places
    }

    /// The same with biases in every layer, or in none.
    #[must_use]
    pub fn with_bias(self, bias: bool) -> Self {
        Network { biases: vec![bias; self.layers()], ..self }
    }

    /// The same with biases in some layers: one flag for each layer, the layer next to the inputs
    /// first, as `bias=` of PyTorch's `Linear`.
    ///
    /// # Errors
    /// [`MlpError::Length`] when there is not one flag for each layer.
    pub fn with_biases(self, biases: &[bool]) -> Result<Self, MlpError> {
        if biases.len() != self.layers() {
            let (expected, found) = (self.layers(), biases.len());
            return Err(MlpError::Length { what: "bias flags", expected, found });
        }
        Ok(Network { biases: biases.to_vec(), ..self })
    }

    /// Whether `layer` has biases.
    pub fn has_bias(&self, layer: usize) -> bool {
        self.biases[layer]
    }

    /// Refuses parameters of a network whose layers have other widths, or biases where these have
    /// none. Activations may differ: they are not among the parameters.
    pub(crate) fn check_parameters_of(&self, other: &Network) -> Result<(), MlpError> {
        if other.parameters() != self.parameters() {
            let (expected, found) = (self.parameters(), other.parameters());
            return Err(MlpError::Length { what: "parameters", expected, found });
        }
        if self.widths != other.widths || self.biases != other.biases {
            let (expected, found) = (self.to_string(), other.to_string());
            return Err(MlpError::OtherNetwork { found, expected });
        }
        Ok(())
    }

    /// The same with this activation of the hidden layers.
    #[must_use]
    pub fn with_activation(self, activation: Activation) -> Self {
        Network { activation, ..self }
    }

    /// The same with this activation of the output.
    #[must_use]
    pub fn with_output_activation(self, output_activation: Activation) -> Self {
        Network { output_activation, ..self }
    }

    /// Inputs, hidden layers, outputs.
    pub fn widths(&self) -> &[usize] {
        &self.widths
    }

    /// Numbers of a sample.
    pub fn inputs(&self) -> usize {
        self.widths[0]
    }

    /// Numbers of a result.
    pub fn outputs(&self) -> usize {
        self.widths[self.layers()]
    }

    /// Matrices of weights: hidden layers and the output.
    pub fn layers(&self) -> usize {
        self.widths.len() - 1
    }

    /// The activation after `layer`.
    pub fn activation(&self, layer: usize) -> Activation {
        if layer + 1 == self.layers() { self.output_activation } else { self.activation }
    }

    /// All weights and biases.
    pub fn parameters(&self) -> usize {
        self.start(self.layers())
    }

    /// Where the weights of `layer` lie among the parameters.
    pub fn weights(&self, layer: usize) -> Range<usize> {
        let start = self.start(layer);
        start..start + self.widths[layer] * self.widths[layer + 1]
    }

    /// Where the biases of `layer` lie among the parameters; empty if it has none.
    pub fn biases(&self, layer: usize) -> Range<usize> {
        let start = self.weights(layer).end;
        start..start + self.biases_of(layer)
    }

    /// How many biases `layer` has.
    fn biases_of(&self, layer: usize) -> usize {
        if self.biases[layer] { self.widths[layer + 1] } else { 0 }
    }

    /// Numbers that a training pass keeps of a sample, layer after layer: the outputs of the hidden
    /// layers, or the sums before the activation where [its slope does not follow from
    /// them](slope_from_output); then those of the output layer, too.
    pub(crate) fn kept_of_sample(&self) -> usize {
        let last = self.layers() - 1;
        let kept = if slope_from_output(self.output_activation) { last } else { last + 1 };
        self.widths[1..=kept].iter().sum()
    }

    fn start(&self, layer: usize) -> usize {
        let widths = &self.widths;
        (0..layer).map(|below| widths[below] * widths[below + 1] + self.biases_of(below)).sum()
    }

    /// The closed form of its work on a batch.
    ///
    /// # Errors
    /// When the batch is 0.
    pub fn work(&self, batch: usize) -> Result<Mlp, FlopError> {
        let widths: Vec<u64> = self.widths.iter().map(|&width| width as u64).collect();
        Ok(Mlp::new(widths, batch as u64)?
            .with_biases(&self.biases)?
            .with_activation(self.activation)
            .with_output_activation(self.output_activation)
            .with_input_gradient(true))
    }
}

/// `64-64-16 leaky_relu/identity`: the widths, the activation of the hidden layers, that of the
/// output; then `without bias` if it has none, and `without bias in layer 0, 2` if some layers
/// (counted from 0) have none.
impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, width) in self.widths.iter().enumerate() {
            write!(f, "{}{width}", if index > 0 { "-" } else { "" })?;
        }
        write!(f, " {}/{}", self.activation, self.output_activation)?;
        let without = (0..self.layers()).filter(|&layer| !self.biases[layer]).collect::<Vec<_>>();
        match &*without {
            [] => Ok(()),
            all if all.len() == self.layers() => write!(f, " without bias"),
            [first, others @ ..] => {
                write!(f, " without bias in layer {first}")?;
                others.iter().try_for_each(|layer| write!(f, ", {layer}"))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_lie_without_gaps() {
        let network = Network::new(&[64, 128, 32, 8]).unwrap();
        let mut end = 0;
        for layer in 0..network.layers() {
            assert_eq!(network.weights(layer).start, end);
            assert_eq!(network.biases(layer).start, network.weights(layer).end);
            end = network.biases(layer).end;
        }
        assert_eq!(network.parameters(), end);
        assert_eq!(network.parameters(), 64 * 128 + 128 + 128 * 32 + 32 + 32 * 8 + 8);
        assert_eq!(network.work(3).unwrap().parameters().unwrap(), end as u64);
    }

    #[test]
    fn hidden_layers_are_kept_and_sums_where_slopes_need_them() {
        let network = Network::new(&[64, 128, 32, 8]).unwrap();
        assert_eq!(network.kept_of_sample(), 160);
        assert_eq!(network.with_output_activation(Activation::Gelu).kept_of_sample(), 168);
    }

    #[test]
    fn parameters_have_their_places_in_the_padded_network() {
        let network = Network::new(&[3, 9, 2]).unwrap();
        assert!(network.is_padded() && !Network::new(&[8, 16, 8]).unwrap().is_padded());
        let padded = network.padded();
        assert_eq!(padded.widths(), [8, 16, 8]);
        let places = network.places_in_padded();
        // The second row of weights, the biases behind sixteen rows of eight, the next layer.
        assert_eq!(places[..4], [0, 1, 2, 8]);
        assert_eq!(places[27..29], [16 * 8, 16 * 8 + 1]);
        assert_eq!(places[36], padded.weights(1).start);
        assert_eq!(places.len(), network.parameters());

        let bare = network.clone().with_bias(false);
        assert!(bare.is_padded() && bare.padded() == padded);
        assert_eq!((bare.parameters(), bare.biases(0)), (3 * 9 + 9 * 2, 27..27));
        assert_eq!(bare.places_in_padded()[27], padded.weights(1).start);
        assert_eq!(bare.work(5).unwrap().parameters().unwrap(), 45);
        assert_eq!(bare.to_string(), "3-9-2 leaky_relu/identity without bias");

        let mixed = network.with_biases(&[false, true]).unwrap();
        assert!(mixed.is_padded() && mixed.padded() == padded);
        let places = mixed.places_in_padded();
        assert_eq!((mixed.parameters(), places.len()), (3 * 9 + 9 * 2 + 2, 3 * 9 + 9 * 2 + 2));
        assert_eq!(places[27], padded.weights(1).start);
        assert_eq!(places[45..], [padded.biases(1).start, padded.biases(1).start + 1]);
        assert_eq!(mixed.work(5).unwrap().parameters().unwrap(), 47);
    }

    #[test]
    fn layers_without_biases_are_named() {
        let network = Network::new(&[8, 8, 8, 8]).unwrap();
        for (biases, expected) in [
            ([true, true, true], ""),
            ([true, false, true], " without bias in layer 1"),
            ([false, true, false], " without bias in layer 0, 2"),
            ([false, false, false], " without bias"),
        ] {
            let network = network.clone().with_biases(&biases).unwrap();
            assert_eq!(network.to_string(), format!("8-8-8-8 leaky_relu/identity{expected}"));
            assert_eq!(network.is_padded(), biases.contains(&false));
            assert_eq!(biases, [0, 1, 2].map(|layer| network.has_bias(layer)));
        }
        assert_eq!(network.clone().with_bias(false), network.clone().with_biases(&[false; 3]).unwrap());
        let error = network.with_biases(&[false; 2]).unwrap_err().to_string();
        assert_eq!(error, "bias flags: expected 3 numbers, found 2");
    }

    #[test]
    fn refusals_name_the_width() {
        let message = |widths: &[usize]| Network::new(widths).unwrap_err().to_string();
        assert_eq!(
            message(&[64, 64]),
            "invalid widths 64, 64: at least three are needed: inputs, a hidden layer, outputs"
        );
        assert!(
            message(&[64, 0, 16]).contains("number 2 is 0: from 1 to 16384"),
            "{}",
            message(&[64, 0, 16])
        );
        assert!(message(&[16_385, 64, 16]).contains("number 1 is 16385"));
        assert!(message(&[8; 66]).contains("more than 64 layers"));
        let on_cpu = |widths: &[usize]| Network::of_any_widths(widths).unwrap_err().to_string();
        assert_eq!(on_cpu(&[64]), "invalid widths 64: at least two are needed: inputs, outputs");
        assert!(on_cpu(&[64, 0]).contains("number 2 is 0: from 1 to 1048576"), "{}", on_cpu(&[64, 0]));
        assert!(on_cpu(&[8; 66]).contains("more than 64 layers"));
    }
}

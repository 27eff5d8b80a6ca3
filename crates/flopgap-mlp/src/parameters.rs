//! Weights and biases on the host.

use crate::numerics::uniform;
use crate::{Element, MlpError, Network};

/// The weights and biases of a network in 32 bits, in the order that [`Network`] documents.
///
/// ```
/// use flopgap_mlp::{Parameters, Size};
///
/// let parameters = Parameters::he(&Size::Small.network(), 42);
/// assert_eq!(parameters.values().len(), 5_200);
/// assert!(parameters.biases(0).iter().all(|bias| bias.abs() <= 0.125));
/// # Ok::<(), flopgap_mlp::MlpError>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Parameters {
    network: Network,
    values: Vec<f32>,
}

impl Parameters {
    /// Weights uniform with the variance of He and others (2015), `2 / in`: in `±sqrt(6 / in)`;
    /// biases uniform in `±1 / sqrt(in)`, so that an error in them shows. The numbers are those of
    /// the seed, the same on every machine.
    #[expect(clippy::cast_possible_truncation, reason = "rounded to the precision of the parameters")]
    pub fn he(network: &Network, seed: u64) -> Self {
        let mut values: Vec<f32> =
            (0..network.parameters() as u64).map(|index| uniform(seed, index)).collect();
        for layer in 0..network.layers() {
            let inputs = network.widths()[layer] as f64;
            values[network.weights(layer)]
                .iter_mut()
                .for_each(|weight| *weight *= (6.0 / inputs).sqrt() as f32);
            values[network.biases(layer)].iter_mut().for_each(|bias| *bias *= (1.0 / inputs).sqrt() as f32);
        }
        Parameters { network: network.clone(), values }
    }

    /// These numbers.
    ///
    /// # Errors
    /// [`MlpError::Length`]; [`MlpError::NotFinite`] with the layer and place of the first NaN or
    /// infinity.
    pub fn from_values(network: &Network, values: Vec<f32>) -> Result<Self, MlpError> {
        if values.len() != network.parameters() {
            return Err(MlpError::Length {
                what: "parameters",
                expected: network.parameters(),
                found: values.len(),
            });
        }
        let parameters = Parameters { network: network.clone(), values };
        parameters.check_finite()?;
        Ok(parameters)
    }

    /// Refuses those of a network of other widths or biases. Its activations may be others: they
    /// are not among the parameters.
    pub(crate) fn check_widths(&self, network: &Network) -> Result<(), MlpError> {
        network.check_parameters_of(&self.network)
    }

    fn check_finite(&self) -> Result<(), MlpError> {
        for layer in 0..self.network.layers() {
            for (what, range) in
                [("weight", self.network.weights(layer)), ("bias", self.network.biases(layer))]
            {
                if let Some(index) = self.values[range.clone()].iter().position(|value| !value.is_finite()) {
                    return Err(MlpError::NotFinite {
                        what,
                        layer,
                        index,
                        value: self.values[range.start + index].to_string(),
                    });
                }
            }
        }
        Ok(())
    }

    /// The network.
    pub fn network(&self) -> &Network {
        &self.network
    }

    /// All numbers.
    pub fn values(&self) -> &[f32] {
        &self.values
    }

    /// The weights of `layer`, row-major, `out x in`.
    pub fn weights(&self, layer: usize) -> &[f32] {
        &self.values[self.network.weights(layer)]
    }

    /// The biases of `layer`; empty if it has none.
    pub fn biases(&self, layer: usize) -> &[f32] {
        &self.values[self.network.biases(layer)]
    }

    /// Rounded to another type, nearest, ties to even.
    pub fn narrow<T: Element>(&self) -> Vec<T> {
        self.values.iter().map(|&value| T::narrow(value)).collect()
    }

    /// What they are after they were stored in another type.
    #[must_use]
    pub fn rounded<T: Element>(&self) -> Self {
        let values = self.values.iter().map(|&value| T::narrow(value).widen()).collect();
        Parameters { network: self.network.clone(), values }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Activation;

    #[test]
    fn parameters_of_other_widths_are_refused_also_where_there_are_as_many() {
        let network = |widths: &[usize]| Network::new(widths).unwrap();
        let parameters = Parameters::he(&network(&[8, 16, 16]), 1);
        assert_eq!(parameters.check_widths(&network(&[8, 16, 16]).with_activation(Activation::Tanh)), Ok(()));
        let error = parameters.check_widths(&network(&[8, 24, 8])).unwrap_err();
        let message = "parameters of another network: expected 8-24-8 leaky_relu/identity, found 8-16-16 leaky_relu/identity";
        assert_eq!(error.to_string(), message);
        let error = parameters.check_widths(&network(&[8, 16, 8])).unwrap_err();
        assert!(matches!(error, MlpError::Length { .. }), "{error}");
        // As many biases, in another layer.
        let first = network(&[8, 16, 16]).with_biases(&[true, false]).unwrap();
        let second = network(&[8, 16, 16]).with_biases(&[false, true]).unwrap();
        let error = Parameters::he(&first, 1).check_widths(&second).unwrap_err().to_string();
        assert!(error.ends_with("found 8-16-16 leaky_relu/identity without bias in layer 1"), "{error}");
    }

    #[test]
    fn the_first_number_that_is_not_finite_is_named() {
        let network = Network::new(&[8, 16, 8]).unwrap();
        let mut values = vec![0.0; network.parameters()];
        values[network.biases(1).start + 3] = f32::NAN;
        let error = Parameters::from_values(&network, values).unwrap_err();
        assert_eq!(error.to_string(), "layer 1: bias 3 is NaN");
        assert!(matches!(
            Parameters::from_values(&network, vec![0.0; 5]),
            Err(MlpError::Length { found: 5, .. })
        ));
    }
}

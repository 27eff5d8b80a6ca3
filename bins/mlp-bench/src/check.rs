//! Inputs, and whether what came out is right.

use flopgap_gpu::GpuError;
use flopgap_mlp::MlpError;
use flopgap_mlp::dense::cuda::Accumulate;
use flopgap_mlp::dense::reference::{self, Errors, Reference, Rounding, relative_error};
use flopgap_mlp::dense::{Element, Network, Parameters, Precision};
use flopgap_mlp::square::init::uniform;

/// Samples that are checked of a larger batch.
const CHECKED: usize = 512;
/// The numbers that inputs are made of, over and over: a prime, so that samples differ.
pub(crate) const PERIOD: usize = 1_048_573;

/// A network's parameters and the numbers that its inputs and the gradients by its outputs are made of.
#[derive(Debug)]
pub(crate) struct Numbers<T> {
    pub(crate) parameters: Parameters,
    /// [`PERIOD`] numbers uniform in [-1, 1).
    pub(crate) base: Vec<T>,
}

/// Which samples of a batch are checked, and what is right for them.
#[derive(Debug)]
pub(crate) struct Expected {
    /// Their places in the batch, ascending.
    pub(crate) rows: Vec<usize>,
    /// The gradients by their outputs, with which the backward pass is checked.
    pub(crate) dy: Vec<f32>,
    truth: Reference,
    allowed: Errors,
}

impl<T: Element> Numbers<T> {
    /// Of a seed.
    pub(crate) fn new(network: &Network, seed: u64) -> Self {
        let base = (0..PERIOD as u64).map(|index| T::narrow(uniform(seed, (1 << 40) + index))).collect();
        Numbers { parameters: Parameters::he(network, seed).rounded::<T>(), base }
    }

    /// A row of `width` numbers.
    fn row(&self, row: usize, width: usize) -> Vec<f32> {
        (row * width..(row + 1) * width).map(|index| self.base[index % PERIOD].widen()).collect()
    }

    /// The samples of a batch that are checked, and what is right for them. The gradients by the parameters are checked with the gradients by the
    /// outputs of all other samples zero.
    ///
    /// # Errors
    /// Never for these lengths.
    pub(crate) fn expected(&self, batch: usize, accumulate: Accumulate) -> Result<Expected, MlpError> {
        let network = self.parameters.network();
        // All of a small batch; of a large one the first and the last, and others spread over it.
        let rows: Vec<usize> = if batch <= CHECKED {
            (0..batch).collect()
        } else {
            (0..CHECKED).map(|index| index * (batch - 1) / (CHECKED - 1)).collect()
        };
        let gather = |width| rows.iter().flat_map(|&row| self.row(row, width)).collect::<Vec<f32>>();
        let (x, mut dy) = (gather(network.inputs()), gather(network.outputs()));
        // In 32 bits, one sample on the other side of a kink weighs more than all that rounding costs. In 16 bits there are too many such samples, and
        // what is allowed has them, too.
        let truth = if T::PRECISION == Precision::F32 {
            reference::run_off_kinks(&self.parameters, &x, &mut dy)?
        } else {
            reference::run(&self.parameters, &x, &dy, Rounding::None)?
        };
        let mut allowed = Errors::allowed(T::PRECISION, &self.parameters, &x, &dy, &truth)?;
        if accumulate == Accumulate::F16 {
            // A sum of n terms in half precision may lose n times its rounding; what is checked is that nothing is wrong.
            for error in [&mut allowed.outputs, &mut allowed.input_gradients, &mut allowed.gradients] {
                *error = error.max(0.05);
            }
        }
        Ok(Expected { rows, dy, truth, allowed })
    }
}

/// What came out for the checked samples.
#[derive(Debug, Default)]
pub(crate) struct Found {
    /// Their outputs.
    pub(crate) outputs: Vec<f32>,
    /// The gradients by their inputs, and by the parameters.
    pub(crate) gradients: Option<(Vec<f32>, Vec<f32>)>,
}

impl Expected {
    /// The largest relative error of outputs, gradients by inputs and gradients by parameters.
    ///
    /// # Errors
    /// Which of them is beyond what the precision may cost.
    pub(crate) fn check(&self, found: &Found) -> Result<f64, String> {
        let mut parts = vec![("outputs", &found.outputs, &self.truth.outputs, self.allowed.outputs)];
        if let Some((inputs, parameters)) = &found.gradients {
            parts.push((
                "gradients by the inputs",
                inputs,
                &self.truth.input_gradients,
                self.allowed.input_gradients,
            ));
            parts.push((
                "gradients by the parameters",
                parameters,
                &self.truth.gradients,
                self.allowed.gradients,
            ));
        }
        let mut largest = 0.0_f64;
        for (what, found, expected, allowed) in parts {
            let error = relative_error(found, expected);
            if error.is_nan() || error > allowed {
                return Err(format!(
                    "wrong {what}: relative error {error:.1e}, {allowed:.1e} is what the precision may cost"
                ));
            }
            largest = largest.max(error);
        }
        Ok(largest)
    }
}

/// Why there is no time.
#[derive(Debug)]
pub(crate) enum Wrong {
    /// It did not run.
    Error(MlpError),
    /// It ran, and what came out is wrong.
    Result(String),
}

impl From<MlpError> for Wrong {
    fn from(error: MlpError) -> Self {
        Wrong::Error(error)
    }
}

impl From<GpuError> for Wrong {
    fn from(error: GpuError) -> Self {
        Wrong::Error(error.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flopgap_mlp::dense::Activation;

    #[expect(clippy::cast_possible_truncation, reason = "rounding is what it is for")]
    fn f32_of(value: f64) -> f32 {
        value as f32
    }

    #[test]
    fn a_sample_at_a_kink_has_no_gradients_to_check() {
        let network = Network::new(&[8, 256, 8]).unwrap().with_activation(Activation::Relu);
        let of_seed = |seed| {
            let numbers = Numbers::<f32>::new(&network, seed);
            let expected = numbers.expected(512, Accumulate::F32).unwrap();
            expected.truth.near_kinks.first().copied().map(|sample| (numbers, expected, sample))
        };
        let (numbers, expected, sample) = (0..1_000).find_map(of_seed).expect("one in about five");
        let of_sample = |row: usize| row * 8..(row + 1) * 8;
        assert_eq!(expected.dy[of_sample(sample)], [0.0; 8]);
        assert_eq!(expected.truth.input_gradients[of_sample(sample)], [0.0; 8]);
        let other = usize::from(sample == 0);
        assert_eq!(expected.dy[of_sample(other)], numbers.row(other, 8));
        assert!(expected.truth.input_gradients[of_sample(other)].iter().any(|&gradient| gradient != 0.0));
        // The outputs are checked all the same.
        assert!(expected.truth.outputs[of_sample(sample)].iter().any(|&output| output != 0.0));
        let mut found = Found {
            outputs: expected.truth.outputs.iter().map(|&output| f32_of(output)).collect(),
            gradients: None,
        };
        assert!(expected.check(&found).is_ok());
        found.outputs[sample * 8] += 1.0;
        assert!(expected.check(&found).unwrap_err().starts_with("wrong outputs"));
    }
}

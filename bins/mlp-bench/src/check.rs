//! Inputs, and the check of results.

use flopgap_gpu::GpuError;
use flopgap_mlp::cuda::Accumulate;
use flopgap_mlp::numerics::uniform;
use flopgap_mlp::reference::{self, Errors, Reference, Rounding, relative_error};
use flopgap_mlp::{Element, MlpError, Network, Parameters, Precision};

/// How many samples of a larger batch are checked.
const CHECKED: usize = 512;
/// The length of the repeated sequence of input numbers: a prime, so that samples differ.
pub(crate) const PERIOD: usize = 1_048_573;

/// A network's parameters and the numbers that its inputs and the gradients by its outputs are made
/// of.
#[derive(Debug)]
pub(crate) struct Numbers<T> {
    pub(crate) parameters: Parameters,
    /// [`PERIOD`] numbers uniform in [-1, 1).
    pub(crate) base: Vec<T>,
}

/// The checked samples of a batch, and their expected results.
#[derive(Debug)]
pub(crate) struct Expected {
    /// Their indices in the batch, ascending.
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

    /// The samples of a batch that are checked, and what is right for them. The gradients by the
    /// parameters are checked with the gradients by the outputs of all other samples zero.
    ///
    /// # Errors
    /// Never for these lengths.
    pub(crate) fn expected(&self, batch: usize) -> Result<Expected, MlpError> {
        let network = self.parameters.network();
        // All of a small batch; of a large one the first and the last, and others spread over it.
        let rows: Vec<usize> = if batch <= CHECKED {
            (0..batch).collect()
        } else {
            (0..CHECKED).map(|index| index * (batch - 1) / (CHECKED - 1)).collect()
        };
        let gather = |width| rows.iter().flat_map(|&row| self.row(row, width)).collect::<Vec<f32>>();
        let (x, mut dy) = (gather(network.inputs()), gather(network.outputs()));
        // In 32 bits, one sample on the other side of a kink weighs more than all that rounding
        // costs. In 16 bits there are too many such samples, and what is allowed has them, too.
        let truth = if T::PRECISION == Precision::F32 {
            reference::run_off_kinks(&self.parameters, &x, &mut dy)?
        } else {
            reference::run(&self.parameters, &x, &dy, Rounding::None)?
        };
        let allowed = Errors::allowed(T::PRECISION, &self.parameters, &x, &dy, &truth)?;
        Ok(Expected { rows, dy, truth, allowed })
    }
}

/// The results for the checked samples.
#[derive(Debug, Default)]
pub(crate) struct Found {
    /// Their outputs.
    pub(crate) outputs: Vec<f32>,
    /// The gradients by their inputs, and by the parameters.
    pub(crate) gradients: Option<(Vec<f32>, Vec<f32>)>,
}

/// Everything that a pass wrote.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Left {
    /// What must be identical in every run: its name, and a digest of all its bits.
    pub(crate) digests: Vec<(&'static str, u64)>,
    /// The gradients by the parameters, of the whole batch; none after a forward pass.
    pub(crate) gradients: Vec<f32>,
}

impl Left {
    /// Compares what a pass left before it was timed with what the timed passes left. `bound` is
    /// the relative difference that gradients by the parameters may have; none where they are added
    /// up in a fixed order: then they must have the same bits.
    ///
    /// # Errors
    /// What differs, and by how much.
    pub(crate) fn check(&self, after: &Left, bound: Option<f64>) -> Result<(), String> {
        let differs =
            |what: &str| format!("the timed passes computed other {what} than the pass before them");
        if let Some(((what, _), _)) = self.digests.iter().zip(&after.digests).find(|(a, b)| a != b) {
            return Err(differs(what));
        }
        let pairs = || self.gradients.iter().zip(&after.gradients).enumerate();
        let mut others = pairs().filter(|(_, (a, b))| a.to_bits() != b.to_bits());
        let Some((place, (first, second))) = others.next() else { return Ok(()) };
        let of = format!("{} of {}", 1 + others.count(), self.gradients.len());
        let gradients = differs("gradients by the parameters");
        let Some(bound) = bound else {
            return Err(format!(
                "{gradients}: {of} differ, first number {place}: {second:e} instead of {first:e}"
            ));
        };
        let before: Vec<f64> = self.gradients.iter().copied().map(f64::from).collect();
        let difference = relative_error(&after.gradients, &before);
        if difference.is_nan() || difference > bound {
            return Err(format!(
                "{gradients}: {of} differ, relative difference {difference:.1e}, {bound:.1e} allowed"
            ));
        }
        Ok(())
    }
}

impl Expected {
    /// How far gradients by the parameters may be apart that were added up in another order, as a
    /// relative difference: what the precision may cost, or, of more samples, `2^-23 sqrt(batch)`.
    /// A sum of n terms of random sign grows like `sqrt(n)`, and so loses about `2^-24 sqrt(n / 2)`
    /// of itself when terms are added one by one in 32 bits; two such sums differ by `sqrt(2)`
    /// times that, and half of what is allowed is left over.
    pub(crate) fn atomic_bound(&self, batch: usize, accumulate: Accumulate) -> f64 {
        self.allowed(accumulate).gradients.max(f64::from(f32::EPSILON) * (batch as f64).sqrt())
    }

    /// What the precision may cost with sums of this type.
    fn allowed(&self, accumulate: Accumulate) -> Errors {
        match accumulate {
            Accumulate::F32 => self.allowed,
            Accumulate::F16 => self.allowed.of_16_bit_sums(),
        }
    }

    /// The largest relative error of outputs, gradients by inputs and gradients by parameters.
    ///
    /// # Errors
    /// Which of them is beyond what the precision may cost.
    pub(crate) fn check(&self, found: &Found, accumulate: Accumulate) -> Result<f64, String> {
        let allowed = self.allowed(accumulate);
        let mut parts = vec![("outputs", &found.outputs, &self.truth.outputs, allowed.outputs)];
        if let Some((inputs, parameters)) = &found.gradients {
            parts.push((
                "gradients by the inputs",
                inputs,
                &self.truth.input_gradients,
                allowed.input_gradients,
            ));
            parts.push(("gradients by the parameters", parameters, &self.truth.gradients, allowed.gradients));
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
    /// It ran, but the results are wrong.
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
    use flopgap_mlp::Activation;

    #[test]
    fn every_gradient_that_the_timed_passes_left_is_compared() {
        let before = Left {
            digests: vec![("outputs", 1), ("gradients by the inputs", 2)],
            gradients: (0..1_000_u16).map(f32::from).collect(),
        };
        assert_eq!(before.check(&before.clone(), None), Ok(()));
        // Another finite number, which is all that was requested once.
        let mut after = before.clone();
        after.gradients[700] = 701.0;
        assert_eq!(
            before.check(&after, None).unwrap_err(),
            "the timed passes computed other gradients by the parameters than the pass before them: 1 of 1000 differ, first \
             number 700: 7.01e2 instead of 7e2"
        );
        // The same sum in another order; then one that is further away, and one that is no number.
        after.gradients[700] = 700.000_1;
        assert!(before.check(&after, None).is_err());
        assert_eq!(before.check(&after, Some(1e-5)), Ok(()));
        after.gradients[700] = 701.0;
        let message = before.check(&after, Some(1e-5)).unwrap_err();
        assert!(
            message.ends_with("1 of 1000 differ, relative difference 5.5e-5, 1.0e-5 allowed"),
            "{message}"
        );
        after.gradients[700] = f32::NAN;
        assert!(before.check(&after, Some(1e-5)).is_err());
        // Minus zero is another bit.
        after.gradients[700] = 700.0;
        after.gradients[0] = -0.0;
        assert!(before.check(&after, None).is_err());
        let mut after = before.clone();
        after.digests[1].1 = 3;
        assert!(
            before.check(&after, Some(1.0)).unwrap_err().contains("computed other gradients by the inputs")
        );
    }

    #[test]
    fn sums_in_any_order_are_within_the_bound() {
        let network = Network::new(&[8, 8, 8]).unwrap();
        let numbers = Numbers::<f32>::new(&network, 1);
        let bound = |batch| numbers.expected(batch).unwrap().atomic_bound(batch, Accumulate::F32);
        assert!((bound(1) - 1e-5).abs() < 1e-12);
        // Terms of random sign, added one by one from both ends: of many sums, as of many
        // parameters.
        let terms = 1 << 16;
        let (mut first, mut second) = (Vec::new(), Vec::new());
        for sum in 0..64 {
            let term = |index: u64| uniform(2, (sum << 20) + index);
            first.push((0..terms).map(term).sum::<f32>());
            second.push(f64::from((0..terms).rev().map(term).sum::<f32>()));
        }
        let (difference, bound) = (relative_error(&first, &second), bound(1 << 16));
        assert!(difference > 1e-6 && difference < bound, "{difference:e} {bound:e}");
    }

    #[expect(clippy::cast_possible_truncation, reason = "rounding is what it is for")]
    fn f32_of(value: f64) -> f32 {
        value as f32
    }

    #[test]
    fn a_sample_at_a_kink_has_no_gradients_to_check() {
        let network = Network::new(&[8, 256, 8]).unwrap().with_activation(Activation::Relu);
        let of_seed = |seed| {
            let numbers = Numbers::<f32>::new(&network, seed);
            let expected = numbers.expected(512).unwrap();
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
        assert!(expected.check(&found, Accumulate::F32).is_ok());
        found.outputs[sample * 8] += 1.0;
        assert!(expected.check(&found, Accumulate::F32).unwrap_err().starts_with("wrong outputs"));
    }
}

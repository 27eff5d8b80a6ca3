//! `AdamW` on the CPU.

use crate::{AdamWSettings, Cpu, MlpError, Network, Parameters};

use super::check;

/// `AdamW` for a [`Cpu`]. See [`AdamWSettings`] for the formula.
///
/// ```
/// use flopgap_mlp::{AdamWSettings, Cpu, Network, Parameters, cpu::AdamW};
///
/// let network = Network::new(&[8, 16, 8])?;
/// let mut cpu = Cpu::new(&Parameters::he(&network, 42));
/// let mut optimizer = AdamW::new(&network, AdamWSettings::default());
/// let gradients = vec![1.0; network.parameters()];
/// assert!(optimizer.step(&mut cpu, &gradients)?);
/// # Ok::<(), flopgap_mlp::MlpError>(())
/// ```
#[derive(Debug, Clone)]
pub struct AdamW {
    settings: AdamWSettings,
    network: Network,
    first: Vec<f32>,
    second: Vec<f32>,
    /// `beta^t`.
    powers: (f64, f64),
    steps: u64,
    skipped: u64,
}

impl AdamW {
    /// For the parameters of this network.
    pub fn new(network: &Network, settings: AdamWSettings) -> Self {
        let zeros = vec![0.0; network.parameters()];
        AdamW {
            settings,
            network: network.clone(),
            first: zeros.clone(),
            second: zeros,
            powers: (1.0, 1.0),
            steps: 0,
            skipped: 0,
        }
    }

    /// Changes the parameters by one step; false when it was left out because a gradient is not
    /// finite.
    ///
    /// # Errors
    /// [`MlpError::Length`] or [`MlpError::OtherNetwork`] when network or gradients are others;
    /// [`MlpError::Setting`] for a setting that cannot work; [`MlpError::NotFinite`] when a
    /// parameter grew beyond 32 bits. The parameters are then as before.
    #[expect(clippy::cast_possible_truncation, reason = "rounded to the precision of the parameters")]
    pub fn step(&mut self, cpu: &mut Cpu, gradients: &[f32]) -> Result<bool, MlpError> {
        self.network.check_parameters_of(cpu.network())?;
        check("gradients by the parameters", self.first.len(), gradients.len())?;
        self.settings.check()?;
        if self.settings.skip_not_finite && gradients.iter().any(|gradient| !gradient.is_finite()) {
            self.skipped += 1;
            return Ok(false);
        }
        self.steps += 1;
        self.powers.0 *= self.settings.betas.0;
        self.powers.1 *= self.settings.betas.1;
        let rounded = self.settings.rounded();
        let kept = (1.0 - self.settings.learning_rate * self.settings.weight_decay) as f32;
        let rate = (self.settings.learning_rate / (1.0 - self.powers.0)) as f32;
        let root = (1.0 / (1.0 - self.powers.1).sqrt()) as f32;
        let mut values = cpu.parameters().values().to_vec();
        let moments = self.first.iter_mut().zip(&mut self.second);
        for ((value, gradient), (first, second)) in values.iter_mut().zip(gradients).zip(moments) {
            let gradient = gradient * rounded.scale;
            *first = rounded.beta1 * *first + rounded.rest1 * gradient;
            *second = rounded.beta2 * *second + rounded.rest2 * gradient * gradient;
            *value = *value * kept - rate * (*first / (second.sqrt() * root + rounded.epsilon));
        }
        cpu.set_parameters(&Parameters::from_values(cpu.network(), values)?)?;
        Ok(true)
    }

    /// Sets the learning rate from the next step on.
    pub fn set_learning_rate(&mut self, learning_rate: f64) {
        self.settings.learning_rate = learning_rate;
    }

    /// Steps that were done, and steps that were left out.
    pub fn steps(&self) -> (u64, u64) {
        (self.steps, self.skipped)
    }
}

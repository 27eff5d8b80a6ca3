//! What `AdamW` is set to.

use crate::MlpError;

/// The settings of `AdamW` (Loshchilov and Hutter, "Decoupled weight decay regularization", 2019),
/// with the names and the defaults of PyTorch:
///
/// ```text
/// m <- beta1 m + (1 - beta1) g          v <- beta2 v + (1 - beta2) g^2
/// p <- p - lr weight_decay p - lr (m / (1 - beta1^t)) / (sqrt(v / (1 - beta2^t)) + epsilon)
/// ```
///
/// for a gradient `g` in step `t`, counted from 1. The paper's decay is `lr weight_decay` here, as
/// in PyTorch.
///
/// ```
/// use flopgap_mlp::AdamWSettings;
///
/// let settings = AdamWSettings { learning_rate: 5e-3, weight_decay: 0.0, ..AdamWSettings::default() };
/// assert_eq!(settings.betas, (0.9, 0.999));
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct AdamWSettings {
    /// `lr`: 1e-3.
    pub learning_rate: f64,
    /// Of the first and the second moment: 0.9 and 0.999.
    pub betas: (f64, f64),
    /// What keeps the quotient finite: 1e-8.
    pub epsilon: f64,
    /// 1e-2.
    pub weight_decay: f64,
    /// Gradients are divided by this before anything else: 1. Where the gradient by the outputs was
    /// multiplied so that half precision does not lose small numbers, the same factor.
    pub loss_scale: f64,
    /// Whether a step whose gradients hold a NaN or an infinity is left out, and counted: yes.
    /// Otherwise it makes all parameters NaN in time.
    pub skip_not_finite: bool,
}

impl Default for AdamWSettings {
    fn default() -> Self {
        AdamWSettings {
            learning_rate: 1e-3,
            betas: (0.9, 0.999),
            epsilon: 1e-8,
            weight_decay: 1e-2,
            loss_scale: 1.0,
            skip_not_finite: true,
        }
    }
}

/// What a kernel or loop computes with: rounded once from 64 bits.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Rounded {
    pub(crate) beta1: f32,
    pub(crate) rest1: f32,
    pub(crate) beta2: f32,
    pub(crate) rest2: f32,
    pub(crate) epsilon: f32,
    pub(crate) scale: f32,
}

/// A finite number that is not negative.
const NOT_NEGATIVE: &str = "a number from 0 on";

impl AdamWSettings {
    /// Refuses what would make parameters NaN, or move them the wrong way: what PyTorch refuses,
    /// and loss scales that cannot be divided by.
    pub(crate) fn check(&self) -> Result<(), MlpError> {
        let not_negative = |value: f64| value.is_finite() && value >= 0.0;
        let (beta1, beta2) = self.betas;
        for (what, value, is_good, allowed) in [
            ("learning_rate", self.learning_rate, not_negative(self.learning_rate), NOT_NEGATIVE),
            ("betas.0", beta1, (0.0..1.0).contains(&beta1), "a number from 0 to less than 1"),
            ("betas.1", beta2, (0.0..1.0).contains(&beta2), "a number from 0 to less than 1"),
            ("epsilon", self.epsilon, not_negative(self.epsilon), NOT_NEGATIVE),
            ("weight_decay", self.weight_decay, not_negative(self.weight_decay), NOT_NEGATIVE),
            (
                "loss_scale",
                self.loss_scale,
                not_negative(self.loss_scale) && self.loss_scale > 0.0,
                "a number greater than 0",
            ),
        ] {
            if !is_good {
                return Err(MlpError::Setting { what, value: value.to_string(), allowed });
            }
        }
        Ok(())
    }

    #[expect(clippy::cast_possible_truncation, reason = "rounding is what it is for")]
    pub(crate) fn rounded(&self) -> Rounded {
        let (beta1, beta2) = self.betas;
        Rounded {
            beta1: beta1 as f32,
            rest1: (1.0 - beta1) as f32,
            beta2: beta2 as f32,
            rest2: (1.0 - beta2) as f32,
            epsilon: self.epsilon as f32,
            scale: (1.0 / self.loss_scale) as f32,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_that_cannot_work_are_named() {
        let good = AdamWSettings::default();
        assert_eq!(good.check(), Ok(()));
        let still =
            AdamWSettings { learning_rate: 0.0, betas: (0.0, 0.0), epsilon: 0.0, weight_decay: 0.0, ..good };
        assert_eq!(still.check(), Ok(()));
        for (settings, message) in [
            (
                AdamWSettings { learning_rate: -1e-3, ..good },
                "invalid learning_rate -0.001 of the optimizer; expected a number from 0 on",
            ),
            (AdamWSettings { learning_rate: f64::INFINITY, ..good }, "invalid learning_rate inf"),
            (
                AdamWSettings { betas: (1.0, 0.999), ..good },
                "invalid betas.0 1 of the optimizer; expected a number from 0 to less than 1",
            ),
            (AdamWSettings { betas: (0.9, f64::NAN), ..good }, "invalid betas.1 NaN"),
            (AdamWSettings { epsilon: -1.0, ..good }, "invalid epsilon -1"),
            (AdamWSettings { weight_decay: f64::NAN, ..good }, "invalid weight_decay NaN"),
            (
                AdamWSettings { loss_scale: 0.0, ..good },
                "invalid loss_scale 0 of the optimizer; expected a number greater than 0",
            ),
        ] {
            let error = settings.check().unwrap_err().to_string();
            assert!(error.contains(message), "{error}");
        }
    }
}

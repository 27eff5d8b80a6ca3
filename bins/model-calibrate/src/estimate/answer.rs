//! The estimate of a model, as far as there is one.

use flopgap_calibration::mode_name;
use flopgap_flops::Precision;
use flopgap_graph::{Algorithm, Mode, Step};
use flopgap_roofline::predict::{Estimate, FitError, Predictor, StepEstimate};

use super::kernels::Kernels;

/// What is asked.
#[derive(Clone, Copy)]
pub(super) struct Asked<'a> {
    pub(super) steps: &'a [Step],
    pub(super) precision: Precision,
    pub(super) mode: Mode,
    pub(super) kernels: &'a Kernels,
}

/// What is known of a model.
#[derive(Clone)]
pub(super) struct Answer {
    /// Of all steps, or where some are not known of the others; `None` where none is.
    pub(super) estimate: Option<Estimate>,
    /// Why there is no estimate of the whole, a sentence for each reason; empty where there is one.
    pub(super) missing: Vec<String>,
    /// Each step, in order.
    pub(super) by_step: Vec<Option<StepEstimate>>,
}

impl Answer {
    /// Estimates the steps that the engine can run and whose operations were measured.
    pub(super) fn of(predictor: &Predictor, asked: Asked<'_>) -> Result<Self, FitError> {
        let Asked { steps, precision, mode, kernels } = asked;
        let mut missing: Vec<String> = Vec::new();
        let mut absent = vec![false; steps.len()];
        for (place, why) in kernels.refused() {
            absent[*place] = true;
            if !missing.contains(why) {
                missing.push(why.clone());
            }
        }
        let found = loop {
            let left: Vec<usize> = (0..steps.len()).filter(|&place| !absent[place]).collect();
            let of: Vec<Step> = left.iter().map(|&place| steps[place].clone()).collect();
            let algorithms: Option<Vec<Algorithm>> = kernels
                .algorithms()
                .map(|algorithms| left.iter().map(|&place| algorithms[place].clone()).collect());
            match predictor.estimate(&of, precision, mode, algorithms.as_deref()) {
                Ok(estimate) => break Some((left, estimate)),
                Err(FitError::NoSteps) if !steps.is_empty() => break None,
                Err(FitError::NeverMeasured { kinds, steps }) => {
                    for place in steps {
                        absent[left[place]] = true;
                    }
                    missing.push(format!("{} never measured", were(&kinds)));
                }
                Err(error) => return Err(error),
            }
        };
        let mut by_step = vec![None; steps.len()];
        let estimate = found.map(|(left, estimate)| {
            for (place, step) in left.into_iter().zip(&estimate.by_step) {
                by_step[place] = Some(step.clone());
            }
            estimate
        });
        Ok(Self { estimate, missing, by_step })
    }

    /// The estimate of the whole model.
    pub(super) fn whole(&self) -> Option<&Estimate> {
        self.estimate.as_ref().filter(|_| self.missing.is_empty())
    }

    /// How many steps have an estimate.
    pub(super) fn known(&self) -> usize {
        self.by_step.iter().flatten().count()
    }

    /// What is said of kinds that were measured in another way only; `None` where all were.
    pub(super) fn floors(&self, precision: Precision, mode: Mode) -> Option<String> {
        let kinds = self.estimate.as_ref().map(|estimate| &estimate.from_floor)?;
        let how = match mode {
            Mode::Call => String::new(),
            mode => format!(" as {}", mode_name(mode)),
        };
        let were = (!kinds.is_empty()).then(|| were(kinds))?;
        Some(format!("{were} not measured in {precision}{how}: between 1 and 10 times the floor"))
    }
}

/// `softmax was`, `softmax, copy were`.
fn were(kinds: &[String]) -> String {
    format!("{} {}", kinds.join(", "), if kinds.len() == 1 { "was" } else { "were" })
}

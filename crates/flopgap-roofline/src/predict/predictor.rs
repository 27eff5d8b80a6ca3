//! The predictor: fitted once for many estimates.

use flopgap_flops::Precision;
use flopgap_graph::{Algorithm, Mode, Step};

use super::{FitError, FitSettings, Observation, Regime};
use crate::Ceilings;
use crate::predict::estimate::{Bottleneck, Estimate, StepEstimate};
use crate::predict::formula::baseline::{Baseline, Constants, Fitted};
use crate::predict::inputs::machine::{Machine, Sample};
use crate::predict::inputs::measured::MeasuredRuns;
use crate::predict::inputs::point::Point;
use crate::predict::inputs::range::Ranges;
use crate::predict::inputs::shape::Shape;
use crate::predict::inputs::whole::Whole;
use crate::predict::models::model::{LEAST, Model};
use crate::predict::models::steps::{Predicted, regime};

/// How much wider an interval is outside the fitted sizes.
const BEYOND: f64 = 2.0;

/// Predicts runs of one engine on one machine.
#[derive(Debug, serde::Serialize, serde::Deserialize)]
pub struct Predictor {
    machine: Machine,
    constants: Fitted,
    by_size: Model,
    by_kernel: Option<Model>,
    ranges: Ranges,
    measured: MeasuredRuns,
    level: f64,
}

impl Predictor {
    /// Fits a predictor to observations.
    ///
    /// Without ceilings, the fastest observations replace them.
    ///
    /// # Errors
    /// Fewer observations than [`FitSettings::least`]; a time or an energy that is not a positive
    /// number; a setting out of range.
    pub fn fit(
        ceilings: Option<&Ceilings>,
        observations: &[Observation],
        settings: &FitSettings,
    ) -> Result<Self, FitError> {
        settings.check()?;
        for (index, observation) in observations.iter().enumerate() {
            observation.check(index)?;
        }
        if observations.len() < settings.least {
            return Err(FitError::TooFew { needed: settings.least, found: observations.len() });
        }
        let shapes: Vec<Vec<Shape>> = observations
            .iter()
            .map(|row| row.steps.iter().filter(|step| !Shape::vanishes(step)).map(Shape::of).collect())
            .collect();
        let samples: Vec<Sample<'_>> = observations
            .iter()
            .zip(&shapes)
            .map(|(row, shapes)| Sample {
                shapes,
                precision: row.precision,
                mode: row.mode,
                nanoseconds: row.nanoseconds,
            })
            .collect();
        let machine = Machine::of(ceilings, settings.units, &samples);
        let constants = Fitted::of(&machine, &samples);
        let mut ranges = Ranges::default();
        for row in observations {
            for step in row.steps.iter().filter(|step| !Shape::vanishes(step)) {
                ranges.include(step, row.precision, row.mode);
            }
        }
        let measured = MeasuredRuns::of(observations);
        let of = (&machine, &constants);
        let reported = observations.iter().filter(|row| row.algorithms.len() == row.steps.len()).count();
        let (by_size, by_kernel) = rayon::join(
            || Model::fit(of, &measured, observations, settings, false),
            || {
                let fit = || Model::fit(of, &measured, observations, settings, true);
                (settings.kernels && reported >= LEAST).then(fit).transpose()
            },
        );
        let (by_size, by_kernel) = (by_size?, by_kernel?);
        let level = settings.level;
        Ok(Self { machine, constants, by_size, by_kernel, ranges, measured, level })
    }

    /// The predictor as bytes, for [`Predictor::from_bytes`] of the same version of this crate.
    ///
    /// # Errors
    /// [`FitError::Forest`] where it cannot be written down.
    pub fn to_bytes(&self) -> Result<Vec<u8>, FitError> {
        postcard::to_allocvec(self).map_err(|error| FitError::Forest(error.to_string()))
    }

    /// The predictor that [`Predictor::to_bytes`] gave; `None` where the bytes are none. Bytes of
    /// another version may be taken for a predictor that predicts nonsense: keep the version next
    /// to them, and a checksum.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        match postcard::take_from_bytes(bytes) {
            Ok((predictor, [])) => Some(predictor),
            _ => None,
        }
    }

    /// Whether estimates differ where the kernels are known: enough of the rows recorded theirs.
    pub fn knows_kernels(&self) -> bool {
        self.by_kernel.as_ref().is_some_and(|model| !model.is_empty())
    }

    /// Predicts the steps of a model, run one after the other.
    ///
    /// A run that was measured comes back as measured, and so does each step that was. `algorithms`
    /// are those that a library chose for each step, where a device is available; without them the
    /// sizes alone are used.
    ///
    /// # Errors
    /// [`FitError::NoSteps`] where nothing is run; the library of the trees.
    pub fn estimate(
        &self,
        steps: &[Step],
        precision: Precision,
        mode: Mode,
        algorithms: Option<&[Algorithm]>,
    ) -> Result<Estimate, FitError> {
        if steps.is_empty() {
            return Err(FitError::NoSteps);
        }
        // Algorithms for a different number of steps belong to another plan.
        let algorithms = algorithms.filter(|algorithms| algorithms.len() == steps.len());
        let model = match (&self.by_kernel, algorithms) {
            (Some(model), Some(_)) if !model.is_empty() => model,
            _ => &self.by_size,
        };
        let algorithms = algorithms.filter(|_| model.with_kernels());
        let points: Vec<Point<'_>> = steps
            .iter()
            .enumerate()
            .map(|(place, step)| {
                let algorithm = algorithms.map(|algorithms| &algorithms[place]);
                Point::new((&self.machine, &self.constants), step, (precision, mode), algorithm)
            })
            .collect();
        let predicted = model.steps(&self.machine, &points)?;
        let by_step: Vec<StepEstimate> =
            points.iter().zip(predicted).map(|(point, predicted)| self.step(point, predicted)).collect();
        let times: Vec<f64> = by_step.iter().map(|step| step.nanoseconds).collect();
        let whole = Whole::of(&points, &times, model.work(&self.machine, &points));
        let extrapolated = by_step.iter().any(|step| step.extrapolated);
        let known = self.measured.run(steps, precision, mode);
        let correction =
            if steps.len() > 1 { model.correction(&self.machine, &points, &whole)? } else { None };
        let (nanoseconds, low, high) = if let Some(known) = known {
            (known.nanoseconds, known.bounds[0], known.bounds[1])
        } else if let Some(Predicted { ln, width }) = correction {
            let nanoseconds = whole.sum * ln.exp();
            let width = width * if extrapolated { BEYOND } else { 1.0 };
            (nanoseconds, nanoseconds * (-width).exp(), nanoseconds * width.exp())
        } else {
            (whole.sum, by_step.iter().map(|step| step.low).sum(), by_step.iter().map(|step| step.high).sum())
        };
        let memory_bytes = match known.and_then(|known| known.memory_bytes) {
            Some(bytes) => Some(bytes as f64),
            None => model.memory(&self.machine, &points)?,
        };
        let joules = match known.and_then(|known| known.joules) {
            Some(joules) => Some(joules),
            None => model.joules(&points, nanoseconds)?,
        };
        Ok(Estimate {
            nanoseconds,
            low,
            high,
            correction: if whole.sum > 0.0 { nanoseconds / whole.sum } else { 1.0 },
            extrapolated: extrapolated && known.is_none(),
            measured: known.is_some(),
            regime: whole.regime(),
            by_step,
            memory_bytes,
            joules,
        })
    }

    /// Nanoseconds by a formula alone.
    pub fn baseline(&self, baseline: Baseline, steps: &[Step], precision: Precision, mode: Mode) -> f64 {
        let kept = steps.iter().filter(|step| !Shape::vanishes(step));
        let roofs: Vec<f64> =
            kept.map(|step| self.machine.roof(&Shape::of(step), precision).nanoseconds()).collect();
        let roofline: f64 = roofs.iter().sum();
        match baseline {
            Baseline::Roofline => roofline,
            Baseline::OneEfficiency => roofline / self.constants.efficiency,
            Baseline::LaunchEfficiency => {
                let Constants { launch_ns, efficiency } = self.constants.constants(mode, precision);
                launch_ns * roofs.len() as f64 + roofline / efficiency
            }
        }
    }

    /// The fitted constants of [`Baseline::LaunchEfficiency`] for a mode and precision.
    pub fn constants(&self, mode: Mode, precision: Precision) -> Constants {
        self.constants.constants(mode, precision)
    }

    /// The fitted factor of [`Baseline::OneEfficiency`].
    pub fn efficiency(&self) -> f64 {
        self.constants.efficiency
    }

    /// The share of runs that intervals are to hold.
    pub fn level(&self) -> f64 {
        self.level
    }

    fn step(&self, point: &Point<'_>, predicted: Predicted) -> StepEstimate {
        let Point { step, precision, mode, shape, roof, launch, .. } = point;
        let regime = regime(point);
        let vanishes = Shape::vanishes(step);
        let known = self.measured.run(std::slice::from_ref(*step), *precision, *mode);
        let extrapolated = known.is_none() && !vanishes && self.ranges.outside(step, *precision, *mode);
        let width = predicted.width * if extrapolated { BEYOND } else { 1.0 };
        let nanoseconds = if vanishes { 0.0 } else { predicted.ln.exp() };
        let (nanoseconds, [low, high]) = known
            .map_or((nanoseconds, [nanoseconds * (-width).exp(), nanoseconds * width.exp()]), |known| {
                (known.nanoseconds, known.bounds)
            });
        let bottleneck = match regime {
            Regime::Launch => Bottleneck::Launch,
            Regime::Compute => Bottleneck::Compute,
            Regime::Memory => {
                Bottleneck::Memory(self.machine.level(roof.bytes).unwrap_or("memory").to_owned())
            }
        };
        StepEstimate {
            nanoseconds,
            low,
            high,
            bottleneck,
            regime,
            roofline_ns: roof.nanoseconds(),
            launch_ns: *launch,
            flops: shape.flops,
            bytes: roof.bytes,
            extrapolated,
            measured: known.is_some(),
        }
    }
}

//! The predictor: fitted once for many estimates.

use flopgap_flops::Precision;
use flopgap_graph::{Algorithm, Mode, Step};

use super::{FitError, FitSettings, Observation, Regime};
use crate::Ceilings;
use crate::predict::estimate::{Basis, Bottleneck, Estimate, StepEstimate};
use crate::predict::formula::baseline::{Baseline, Constants, Fitted};
use crate::predict::inputs::kind::{self, Cover, Kinds};
use crate::predict::inputs::machine::{Machine, Sample};
use crate::predict::inputs::measured::MeasuredRuns;
use crate::predict::inputs::point::Point;
use crate::predict::inputs::range::Ranges;
use crate::predict::inputs::shape::Shape;
use crate::predict::inputs::whole::Whole;
use crate::predict::models::model::{LEAST, Model};
use crate::predict::models::steps::{Predicted, regime};
use crate::predict::models::total::{self, Part};

/// How much wider an interval is outside the fitted sizes.
const BEYOND: f64 = 2.0;
/// How many times its floor a step may take whose kind was never measured.
const FAR: f64 = 10.0;

/// Predicts runs of one engine on one machine.
#[derive(Debug, serde::Serialize, serde::Deserialize)]
pub struct Predictor {
    machine: Machine,
    constants: Fitted,
    by_size: Model,
    by_kernel: Option<Model>,
    ranges: Ranges,
    kinds: Kinds,
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
        let machine = Machine::new(ceilings, settings.units, &samples);
        let constants = Fitted::new(&machine, &samples);
        let (mut ranges, mut kinds) = (Ranges::default(), Kinds::default());
        for row in observations {
            for step in row.steps.iter().filter(|step| !Shape::vanishes(step)) {
                ranges.include(step, row.precision, row.mode);
                kinds.include(step, row.precision, row.mode);
            }
        }
        let measured = MeasuredRuns::new(observations);
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
        Ok(Self { machine, constants, by_size, by_kernel, ranges, kinds, measured, level })
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
    /// sizes alone are used. A step of a kind that no observation has, but whose operation some
    /// have, is estimated from its floor: from once to ten times its roofline and launch. Launched
    /// on a stream, a model takes at least as long as in a graph.
    ///
    /// # Errors
    /// [`FitError::NoSteps`] where nothing is run; [`FitError::NeverMeasured`] for operations that
    /// no observation has; the library of the trees.
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
        self.check(steps, precision, mode)?;
        // Algorithms for a different number of steps belong to another plan.
        let algorithms = algorithms.filter(|algorithms| algorithms.len() == steps.len());
        let run = |mode| Run { steps, precision, mode, algorithms };
        let in_graph = mode == Mode::Stream && self.kinds.have(Mode::Graph);
        let graph = in_graph.then(|| self.run(run(Mode::Graph), None)).transpose()?;
        self.run(run(mode), graph.as_ref())
    }

    /// Refuses steps of operations that were never measured.
    fn check(&self, steps: &[Step], precision: Precision, mode: Mode) -> Result<(), FitError> {
        let never = |(_, step): &(usize, &Step)| {
            !Shape::vanishes(step) && self.kinds.cover(step, precision, mode) == Cover::Never
        };
        let (mut kinds, mut places) = (Vec::new(), Vec::new());
        for (place, step) in steps.iter().enumerate().filter(never) {
            let kind = kind::name(&step.op);
            if !kinds.contains(&kind) {
                kinds.push(kind);
            }
            places.push(place);
        }
        if places.is_empty() { Ok(()) } else { Err(FitError::NeverMeasured { kinds, steps: places }) }
    }

    /// A run, which takes no less than another where one is given.
    fn run(&self, run: Run<'_>, least: Option<&Estimate>) -> Result<Estimate, FitError> {
        let Run { steps, precision, mode, algorithms } = run;
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
        let mut by_step: Vec<StepEstimate> =
            points.iter().zip(predicted).map(|(point, predicted)| self.step(point, predicted)).collect();
        if let Some(least) = least {
            by_step.iter_mut().zip(&least.by_step).for_each(|(step, least)| step.raise(least));
        }
        let times: Vec<f64> = by_step.iter().map(|step| step.nanoseconds).collect();
        let whole = Whole::new(&points, &times, model.work(&self.machine, &points));
        let has = |basis: Basis| by_step.iter().any(|step| step.basis == basis);
        let (extrapolated, from_floor) = (has(Basis::Extrapolated), has(Basis::Floor));
        let known = self.measured.run(steps, precision, mode);
        let correction =
            if steps.len() > 1 { model.correction(&self.machine, &points, &whole)? } else { None };
        // Where steps were not fitted, models were, and residuals of models say all.
        let [down, up] = if correction.is_none() || model.has_steps() || from_floor {
            total::widths(&points, &by_step.iter().map(StepEstimate::part).collect::<Vec<_>>())
        } else {
            [0.0; 2]
        };
        let (mut nanoseconds, mut low, mut high) = if let Some(known) = known {
            (known.nanoseconds, known.bounds[0], known.bounds[1])
        } else {
            let Predicted { ln, width } = correction.unwrap_or(Predicted { ln: 0.0, width: 0.0 });
            let width = width * if extrapolated { BEYOND } else { 1.0 };
            let nanoseconds = whole.sum * ln.exp();
            (nanoseconds, nanoseconds * (-width.hypot(down)).exp(), nanoseconds * width.hypot(up).exp())
        };
        if let Some(least) = least.filter(|least| known.is_none() && least.from_floor.is_empty()) {
            nanoseconds = nanoseconds.max(least.nanoseconds);
            low = low.max(least.low);
            high = high.max(least.high);
        }
        let memory_bytes = match known.and_then(|known| known.memory_bytes) {
            Some(bytes) => Some(bytes as f64),
            None => model.memory(&self.machine, &points)?,
        };
        let joules = match known.and_then(|known| known.joules) {
            Some(joules) => Some(joules),
            None => model.joules(&points, nanoseconds)?,
        };
        let mut kinds = Vec::new();
        if known.is_none() {
            let floors = points.iter().zip(&by_step).filter(|(_, step)| step.basis == Basis::Floor);
            for (point, _) in floors {
                let kind = kind::name(&point.step.op);
                if !kinds.contains(&kind) {
                    kinds.push(kind);
                }
            }
        }
        Ok(Estimate {
            nanoseconds,
            low,
            high,
            correction: if whole.sum > 0.0 { nanoseconds / whole.sum } else { 1.0 },
            extrapolated: extrapolated && known.is_none(),
            from_floor: kinds,
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

    fn step(&self, point: &Point<'_>, predicted: Predicted) -> StepEstimate {
        let Point { step, precision, mode, shape, roof, launch, .. } = point;
        let regime = regime(point);
        let known = self.measured.run(std::slice::from_ref(*step), *precision, *mode);
        let cover = self.kinds.cover(step, *precision, *mode);
        let (basis, [nanoseconds, low, high]) = if let Some(known) = known {
            (Basis::Measured, [known.nanoseconds, known.bounds[0], known.bounds[1]])
        } else if Shape::vanishes(step) {
            (Basis::Fitted, [0.0; 3])
        } else if cover == Cover::Measured {
            let beyond = self.ranges.outside(step, *precision, *mode);
            let width = predicted.width * if beyond { BEYOND } else { 1.0 };
            let basis = if beyond { Basis::Extrapolated } else { Basis::Fitted };
            (basis, [0.0, -width, width].map(|width| (predicted.ln + width).exp()))
        } else {
            let floor = self.floor(point);
            (Basis::Floor, [FAR.sqrt(), 1.0, FAR].map(|factor| factor * floor))
        };
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
            basis,
        }
    }

    /// Nanoseconds that a step takes at least: a launch of nothing, or where none is known the one
    /// that was fitted, and its roofline.
    fn floor(&self, point: &Point<'_>) -> f64 {
        let measured = || Some(self.machine.launch(point.mode)).filter(|launch| *launch > 0.0);
        let launch = self.constants.empty(point.mode).or_else(measured).unwrap_or(point.launch);
        launch + point.roof.nanoseconds()
    }
}

/// What is to be predicted.
#[derive(Clone, Copy)]
struct Run<'a> {
    steps: &'a [Step],
    precision: Precision,
    mode: Mode,
    algorithms: Option<&'a [Algorithm]>,
}

impl StepEstimate {
    /// Takes no less than the same step in a graph, where both are predictions from rows.
    fn raise(&mut self, least: &StepEstimate) {
        if self.basis != Basis::Measured && least.basis != Basis::Floor {
            self.nanoseconds = self.nanoseconds.max(least.nanoseconds);
            self.low = self.low.max(least.low);
            self.high = self.high.max(least.high);
        }
    }

    fn part(&self) -> Part {
        let &Self { nanoseconds, low, high, basis, .. } = self;
        Part { nanoseconds, low, high, from_floor: basis == Basis::Floor }
    }
}

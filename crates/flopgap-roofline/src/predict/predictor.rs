//! The predictor: fitted once, asked often.

use std::hash::{Hash, Hasher};

use flopgap_flops::Precision;
use flopgap_graph::{Algorithm, Mode, Step};
use rustc_hash::{FxHashMap, FxHasher};

use super::baseline::{Baseline, Constants, Fitted};
use super::estimate::{Bottleneck, Estimate, StepEstimate};
use super::forest::{Forest, Growth};
use super::machine::{self, Machine, Roof, Sample};
use super::memory::{self, Memory};
use super::point::Point;
use super::range::Ranges;
use super::shape::Shape;
use super::steps::{Said, Steps, regime};
use super::whole::{Correction, Whole};
use super::{FitError, FitSettings, Observation, Regime};
use crate::Ceilings;

/// Fewest measured steps that trees are grown from.
const TREES: usize = 12;
/// Half-width on the logarithm where nothing tells: a factor of 2.
const UNKNOWN: f64 = std::f64::consts::LN_2;
/// How much wider an interval is beyond what was fitted.
const BEYOND: f64 = 2.0;

/// Predicts runs of one engine on one machine.
#[derive(Debug)]
pub struct Predictor {
    machine: Machine,
    constants: Fitted,
    /// By sizes alone.
    by_size: Option<Steps>,
    /// With what the library tells of its kernels.
    by_kernel: Option<Steps>,
    level: f64,
    ranges: Ranges,
    correction: Option<Correction>,
    power: Option<Forest>,
    memory: Option<Memory>,
    measured: FxHashMap<Key, Measured>,
}

type Key = (Vec<Step>, Precision, Mode);

/// What was measured of exactly this run.
#[derive(Debug, Clone)]
struct Measured {
    nanoseconds: f64,
    bounds: [f64; 2],
    memory_bytes: Option<u64>,
    joules: Option<f64>,
}

impl Predictor {
    /// Fits a predictor to observations.
    ///
    /// Without ceilings, the fastest observations stand for them.
    ///
    /// # Errors
    /// Fewer observations than [`FitSettings::least`]; a time or an energy that is not a positive number; a setting out of range.
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
        for sample in &samples {
            for shape in sample.shapes {
                ranges.include(shape, sample.precision, sample.mode);
            }
        }
        let mut predictor = Self {
            machine,
            constants,
            by_size: None,
            by_kernel: None,
            level: settings.level,
            ranges,
            correction: None,
            power: None,
            memory: None,
            measured: measured(observations),
        };
        predictor.fit_steps(observations, settings)?;
        predictor.fit_whole(observations, settings)?;
        predictor.fit_power(observations, settings)?;
        let with_memory = observations.iter().zip(&shapes).filter_map(|(row, shapes)| {
            let bytes = row.memory_bytes.filter(|bytes| *bytes > 0)?;
            Some((memory::terms(&row.steps, shapes, row.precision, &row.algorithms), bytes as f64))
        });
        predictor.memory = Memory::fit(&with_memory.collect::<Vec<_>>());
        Ok(predictor)
    }

    fn fit_steps(&mut self, observations: &[Observation], settings: &FitSettings) -> Result<(), FitError> {
        let single: Vec<&Observation> = observations.iter().filter(|row| row.steps.len() == 1).collect();
        self.by_size = self.fit_single(&single, settings, false)?;
        let told: Vec<&Observation> = single.into_iter().filter(|row| row.algorithms.len() == 1).collect();
        self.by_kernel = self.fit_single(&told, settings, true)?;
        Ok(())
    }

    fn fit_single(
        &self,
        rows: &[&Observation],
        settings: &FitSettings,
        with_kernels: bool,
    ) -> Result<Option<Steps>, FitError> {
        if rows.len() < TREES {
            return Ok(None);
        }
        let points: Vec<Point<'_>> = rows
            .iter()
            .map(|row| {
                let algorithm = row.algorithms.first().filter(|_| with_kernels);
                self.point(&row.steps[0], (row.precision, row.mode), algorithm)
            })
            .collect();
        let times: Vec<f64> = rows.iter().map(|row| row.nanoseconds).collect();
        let groups: Vec<u64> = rows.iter().map(|row| group(&row.steps)).collect();
        let how = (settings.seed, settings.level);
        Steps::fit(&self.machine, &points, &times, &groups, how, with_kernels).map(Some)
    }

    fn fit_whole(&mut self, observations: &[Observation], settings: &FitSettings) -> Result<(), FitError> {
        let mut models = Vec::new();
        let mut targets = Vec::new();
        let mut groups = Vec::new();
        for row in observations.iter().filter(|row| row.steps.len() > 1) {
            let algorithms = (!row.algorithms.is_empty()).then_some(&*row.algorithms);
            let steps = self.steps(&row.steps, row.precision, row.mode, algorithms)?;
            let model = self.whole(&row.steps, &steps, row.precision, row.mode);
            targets.push((row.nanoseconds / model.sum).ln());
            groups.push(group(&row.steps));
            models.push(model);
        }
        let growth = Growth { seed: settings.seed ^ 1, folds: 10, rounds: 2, trees: 8, leaf: 1 };
        self.correction = Correction::fit(&models, &groups, &targets, growth, settings.level)?;
        Ok(())
    }

    fn fit_power(&mut self, observations: &[Observation], settings: &FitSettings) -> Result<(), FitError> {
        let with: Vec<(&Observation, f64)> = observations
            .iter()
            .filter_map(|row| row.joules.map(|joules| (row, joules / (row.nanoseconds * 1e-9))))
            .collect();
        if with.len() < TREES {
            return Ok(());
        }
        let rows: Vec<Vec<f64>> =
            with.iter().map(|(row, _)| self.power_row(&row.steps, row.precision, row.nanoseconds)).collect();
        let targets: Vec<f64> = with.iter().map(|(_, watts)| watts.ln()).collect();
        let groups: Vec<u64> = with.iter().map(|(row, _)| group(&row.steps)).collect();
        let growth = Growth { seed: settings.seed ^ 2, folds: 10, rounds: 2, trees: 8, leaf: 1 };
        self.power = Some(Forest::fit(&rows, &groups, &targets, growth)?);
        Ok(())
    }

    /// Predicts the steps of a model, run one after the other.
    ///
    /// A run that was measured comes back as measured, and so does each step that was. `algorithms` are those that a library chose
    /// for each step, where a device is at hand; without them the sizes alone are used.
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
        let by_step = self.steps(steps, precision, mode, algorithms)?;
        let model = self.whole(steps, &by_step, precision, mode);
        let shapes: Vec<Shape> = steps.iter().map(Shape::of).collect();
        let extrapolated = by_step.iter().any(|step| step.extrapolated);
        let known = self.measured.get(&(steps.to_vec(), precision, mode));
        let (nanoseconds, low, high) = if let Some(known) = known {
            (known.nanoseconds, known.bounds[0], known.bounds[1])
        } else if let (true, Some(correction)) = (steps.len() > 1, &self.correction) {
            let Said { ln, width } = correction.predict(&model)?;
            let nanoseconds = model.sum * ln.exp();
            let width = width * if extrapolated { BEYOND } else { 1.0 };
            (nanoseconds, nanoseconds * (-width).exp(), nanoseconds * width.exp())
        } else {
            (model.sum, by_step.iter().map(|step| step.low).sum(), by_step.iter().map(|step| step.high).sum())
        };
        let memory_bytes =
            known.and_then(|known| known.memory_bytes).map(|bytes| bytes as f64).or_else(|| {
                let terms = memory::terms(steps, &shapes, precision, algorithms.unwrap_or(&[]));
                self.memory.as_ref().map(|memory| memory.bytes(&terms))
            });
        let joules = match known.and_then(|known| known.joules) {
            Some(joules) => Some(joules),
            None => self.joules(steps, precision, nanoseconds)?,
        };
        Ok(Estimate {
            nanoseconds,
            low,
            high,
            correction: nanoseconds / model.sum,
            extrapolated: extrapolated && known.is_none(),
            measured: known.is_some(),
            regime: model.regime(),
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

    fn point<'a>(
        &self,
        step: &'a Step,
        how: (Precision, Mode),
        algorithm: Option<&'a Algorithm>,
    ) -> Point<'a> {
        Point::new((&self.machine, &self.constants), step, how, algorithm)
    }

    fn steps(
        &self,
        steps: &[Step],
        precision: Precision,
        mode: Mode,
        algorithms: Option<&[Algorithm]>,
    ) -> Result<Vec<StepEstimate>, FitError> {
        // Algorithms for some other number of steps belong to some other plan.
        let algorithms = algorithms.filter(|algorithms| algorithms.len() == steps.len());
        let points: Vec<Point<'_>> = steps
            .iter()
            .enumerate()
            .map(|(place, step)| {
                self.point(step, (precision, mode), algorithms.map(|algorithms| &algorithms[place]))
            })
            .collect();
        let model = match (algorithms, &self.by_kernel) {
            (Some(_), Some(model)) => Some(model),
            _ => self.by_size.as_ref(),
        };
        let said = match model {
            Some(model) => model.predict(&self.machine, &points)?,
            None => points.iter().map(|point| Said { ln: point.base.ln(), width: UNKNOWN }).collect(),
        };
        Ok(points.iter().zip(said).map(|(point, said)| self.step(point, said)).collect())
    }

    fn step(&self, point: &Point<'_>, said: Said) -> StepEstimate {
        let Point { step, precision, mode, shape, roof, launch, .. } = point;
        let regime = regime(point);
        let vanishes = Shape::vanishes(step);
        let known = self.measured.get(&(vec![(*step).clone()], *precision, *mode));
        let extrapolated = known.is_none() && !vanishes && self.ranges.outside(shape, *precision, *mode);
        let width = said.width * if extrapolated { BEYOND } else { 1.0 };
        let nanoseconds = if vanishes { 0.0 } else { said.ln.exp() };
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

    fn whole(&self, steps: &[Step], by_step: &[StepEstimate], precision: Precision, mode: Mode) -> Whole {
        let element = precision.element().bytes() as f64;
        let mut whole = Whole {
            sum: by_step.iter().map(|step| step.nanoseconds).sum(),
            launch: by_step.iter().map(|step| step.launch_ns).sum(),
            compute: 0.0,
            memory: 0.0,
            weights: 0.0,
            outputs: 0.0,
            steps: steps.len() as f64,
            largest: by_step.iter().map(|step| step.nanoseconds).fold(0.0, f64::max),
            precision,
            mode,
        };
        whole.largest /= whole.sum;
        for step in steps {
            let shape = Shape::of(step);
            let roof = self.machine.roof(&shape, precision);
            whole.compute += roof.compute;
            whole.memory += roof.memory;
            whole.weights += shape.weights * element;
            whole.outputs += shape.outputs * element;
        }
        whole
    }

    /// What power is predicted from: how much of each roofline is reached, and for how long.
    fn power_row(&self, steps: &[Step], precision: Precision, nanoseconds: f64) -> Vec<f64> {
        let ln = |value: f64| value.max(1e-6).ln();
        let roofs: Vec<Roof> =
            steps.iter().map(|step| self.machine.roof(&Shape::of(step), precision)).collect();
        let compute = roofs.iter().map(|roof| roof.compute).sum::<f64>() / nanoseconds;
        let memory = roofs.iter().map(|roof| roof.memory).sum::<f64>() / nanoseconds;
        let bytes: f64 = roofs.iter().map(|roof| roof.bytes).sum();
        vec![
            machine::place(precision) as f64,
            ln(compute),
            ln(memory),
            ln(compute / memory.max(1e-6)),
            ln(bytes),
            ln(nanoseconds),
            ln(nanoseconds / steps.len() as f64),
        ]
    }

    fn joules(
        &self,
        steps: &[Step],
        precision: Precision,
        nanoseconds: f64,
    ) -> Result<Option<f64>, FitError> {
        let Some(power) = &self.power else { return Ok(None) };
        let watts = power.predict(&[self.power_row(steps, precision, nanoseconds)])?[0].exp();
        Ok(Some(watts * nanoseconds * 1e-9))
    }
}

/// Runs by what was run; of several measurements of one run, their geometric mean.
fn measured(observations: &[Observation]) -> FxHashMap<Key, Measured> {
    let mut by_key: FxHashMap<Key, Vec<&Observation>> = FxHashMap::default();
    for row in observations {
        by_key.entry((row.steps.clone(), row.precision, row.mode)).or_default().push(row);
    }
    by_key
        .into_iter()
        .map(|(key, rows)| {
            let logarithms: f64 = rows.iter().map(|row| row.nanoseconds.ln()).sum();
            let bounds = rows.iter().fold([f64::INFINITY, 0.0f64], |bounds, row| {
                let [low, high] = row.bounds.unwrap_or([row.nanoseconds; 2]);
                [bounds[0].min(low), bounds[1].max(high)]
            });
            let measured = Measured {
                nanoseconds: (logarithms / rows.len() as f64).exp(),
                bounds,
                memory_bytes: rows.iter().filter_map(|row| row.memory_bytes).max(),
                joules: rows.iter().find_map(|row| row.joules),
            };
            (key, measured)
        })
        .collect()
}

/// What runs have in common that are left out together: their steps, in whatever precision and mode.
fn group(steps: &[Step]) -> u64 {
    let mut hasher = FxHasher::default();
    steps.hash(&mut hasher);
    hasher.finish()
}

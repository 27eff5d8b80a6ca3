//! Models of time, memory and power of steps, and of interactions between steps; fitted once from
//! sizes alone and once with the library's reports on its kernels.

use std::hash::{Hash, Hasher};

use flopgap_graph::{Algorithm, Step};
use rustc_hash::{FxHashMap, FxHasher};

use crate::predict::formula::baseline::Fitted;
use crate::predict::formula::structure::{Structure, Terms};
use crate::predict::inputs::cores;
use crate::predict::inputs::machine::Machine;
use crate::predict::inputs::measured::MeasuredRuns;
use crate::predict::inputs::point::Point;
use crate::predict::inputs::whole::Whole;
use crate::predict::models::memory::{self, Kind, Memory};
use crate::predict::models::power::{self, Drawn, Power};
use crate::predict::models::steps::{Predicted, Steps};
use crate::predict::trees::correction::{Correction, CorrectionRow};
use crate::predict::trees::forest::Growth;
use crate::predict::{FitError, FitSettings, Observation};

/// Fewest measured steps that trees are grown from, or models that a structure is fitted to.
pub(crate) const LEAST: usize = 12;
/// Half-width on the logarithm where it is unknown: a factor of 2.
pub(crate) const UNKNOWN: f64 = std::f64::consts::LN_2;

/// The models.
#[derive(Debug, serde::Serialize, serde::Deserialize)]
pub(crate) struct Model {
    with_kernels: bool,
    steps: Option<Steps>,
    /// Times as sums; for steps that were not measured alone, derived from models.
    structure: Option<Structure>,
    correction: Option<Correction>,
    memory: Option<Memory>,
    memory_correction: Option<Correction>,
    power: Option<Power>,
}

impl Model {
    /// Fits to the observations; with kernels, to those whose kernels are known.
    pub(crate) fn fit(
        (machine, constants): (&Machine, &Fitted),
        measured: &MeasuredRuns,
        observations: &[Observation],
        settings: &FitSettings,
        with_kernels: bool,
    ) -> Result<Self, FitError> {
        let rows: Vec<(&Observation, Vec<Point<'_>>)> = observations
            .iter()
            .filter(|row| !with_kernels || row.algorithms.len() == row.steps.len())
            .map(|row| {
                let algorithms = with_kernels.then_some(&*row.algorithms);
                (row, points((machine, constants), row, algorithms))
            })
            .collect();
        let (single, several): (Vec<_>, Vec<_>) = rows.iter().partition(|(row, _)| row.steps.len() == 1);
        let mut model = Self {
            with_kernels,
            steps: None,
            structure: None,
            correction: None,
            memory: None,
            memory_correction: None,
            power: None,
        };
        if single.len() >= LEAST {
            let points: Vec<Point<'_>> = single.iter().map(|(_, points)| points[0]).collect();
            let times: Vec<f64> = single.iter().map(|(row, _)| row.nanoseconds).collect();
            let groups: Vec<u64> = single.iter().map(|(row, _)| group(&row.steps)).collect();
            let how = (settings.seed, settings.level);
            model.steps = Some(Steps::fit(machine, &points, &times, &groups, how, with_kernels)?);
            let terms: Vec<Terms> = points.iter().map(|point| Terms::new(machine, point)).collect();
            let all: Vec<usize> = (0..terms.len()).collect();
            model.structure = Some(Structure::fit(&terms, &times, &all));
        } else if several.len() >= LEAST {
            let found: Vec<(Terms, f64)> = several
                .iter()
                .filter_map(|(row, points)| Some((Terms::of_model(machine, points)?, row.nanoseconds)))
                .collect();
            let (terms, times): (Vec<Terms>, Vec<f64>) = found.into_iter().unzip();
            let all: Vec<usize> = (0..terms.len()).collect();
            model.structure = Some(Structure::fit(&terms, &times, &all));
        }
        let mut correction_rows = Vec::with_capacity(several.len());
        let times = model.times(machine, measured, &several)?;
        for ((row, points), times) in several.iter().zip(times) {
            let whole = Whole::new(points, &times, model.work(machine, points));
            correction_rows.push(CorrectionRow {
                target: (row.nanoseconds / whole.sum).ln(),
                features: of_model(machine, points, &whole),
                regime: whole.regime(),
                group: group(&row.steps),
            });
        }
        let growth = Growth { seed: settings.seed ^ 1, folds: 8, rounds: 2, trees: 8, leaf: 1 };
        model.correction = Correction::fit(&correction_rows, growth, (settings.level, UNKNOWN))?;
        model.fit_memory(machine, &rows, settings)?;
        let drawn: Vec<Drawn> = rows
            .iter()
            .filter_map(|(row, points)| {
                Some(Drawn {
                    features: power::features(points, row.nanoseconds),
                    watts: row.joules? / (row.nanoseconds * 1e-9),
                    group: group(&row.steps),
                })
            })
            .collect();
        model.power = Power::fit(&drawn, settings.seed ^ 2)?;
        Ok(model)
    }

    /// Nanoseconds of the steps of each row: as measured by themselves, or as predicted, which is
    /// done once for all that are alike.
    fn times(
        &self,
        machine: &Machine,
        measured: &MeasuredRuns,
        rows: &[&(&Observation, Vec<Point<'_>>)],
    ) -> Result<Vec<Vec<f64>>, FitError> {
        let mut places = FxHashMap::default();
        let mut distinct: Vec<Point<'_>> = Vec::new();
        let mut of_rows: Vec<Vec<usize>> = Vec::with_capacity(rows.len());
        for (_, points) in rows {
            let mut row = Vec::with_capacity(points.len());
            for point in points {
                let key = (point.step, point.precision, point.mode, point.algorithm);
                row.push(*places.entry(key).or_insert(distinct.len()));
                if row.last() == Some(&distinct.len()) {
                    distinct.push(*point);
                }
            }
            of_rows.push(row);
        }
        let known: Vec<Option<f64>> = distinct.iter().map(|point| measured.step(point)).collect();
        let unknown: Vec<Point<'_>> = distinct
            .iter()
            .zip(&known)
            .filter(|(_, known)| known.is_none())
            .map(|(point, _)| *point)
            .collect();
        let mut predicted = self.steps(machine, &unknown)?.into_iter();
        let times: Vec<f64> = known
            .into_iter()
            .map(|known| known.or_else(|| Some(predicted.next()?.ln.exp())).unwrap_or(f64::NAN))
            .collect();
        Ok(of_rows.into_iter().map(|row| row.into_iter().map(|place| times[place]).collect()).collect())
    }

    fn fit_memory(
        &mut self,
        machine: &Machine,
        rows: &[(&Observation, Vec<Point<'_>>)],
        settings: &FitSettings,
    ) -> Result<(), FitError> {
        let held: Vec<(&Observation, &[Point<'_>], f64)> = rows
            .iter()
            .filter_map(|(row, points)| {
                let bytes = row.memory_bytes.filter(|bytes| *bytes > 0)?;
                Some((*row, &**points, bytes as f64))
            })
            .collect();
        let terms: Vec<Vec<f64>> = held.iter().map(|(_, points, _)| memory::terms(points)).collect();
        let bytes: Vec<f64> = held.iter().map(|(_, _, bytes)| *bytes).collect();
        let kinds: Vec<Kind> = held.iter().map(|(_, points, _)| memory::kind(points)).collect();
        let Some(memory) = Memory::fit(&terms, &kinds, &bytes) else { return Ok(()) };
        let correction_rows: Vec<CorrectionRow> = held
            .iter()
            .zip(terms.iter().zip(&kinds))
            .map(|((row, points, bytes), (terms, kind))| {
                let bases: Vec<f64> = points.iter().map(|point| point.base).collect();
                let whole = Whole::new(points, &bases, self.work(machine, points));
                CorrectionRow {
                    target: (bytes / memory.bytes(terms, *kind)).ln(),
                    features: whole.features().to_vec(),
                    regime: whole.regime(),
                    group: group(&row.steps),
                }
            })
            .collect();
        let growth = Growth { seed: settings.seed ^ 3, folds: 8, rounds: 1, trees: 8, leaf: 2 };
        self.memory_correction = Correction::fit(&correction_rows, growth, (settings.level, UNKNOWN))?;
        self.memory = Some(memory);
        Ok(())
    }

    /// Whether anything was fitted.
    pub(crate) fn is_empty(&self) -> bool {
        self.steps.is_none() && self.structure.is_none()
    }

    /// Whether steps were measured alone, so that their intervals come from residuals.
    pub(crate) fn has_steps(&self) -> bool {
        self.steps.is_some()
    }

    /// Whether it was fitted to what a library reports about its kernels.
    pub(crate) fn with_kernels(&self) -> bool {
        self.with_kernels
    }

    /// Each step by itself.
    pub(crate) fn steps(&self, machine: &Machine, points: &[Point<'_>]) -> Result<Vec<Predicted>, FitError> {
        if let Some(steps) = &self.steps {
            return steps.predict(machine, points);
        }
        let predicted = points.iter().map(|point| {
            let of = |structure: &Structure| structure.predict(&Terms::new(machine, point));
            Predicted { ln: self.structure.as_ref().map_or(point.base, of).ln(), width: UNKNOWN }
        });
        Ok(predicted.collect())
    }

    /// Nanoseconds of the work of all steps, without launches.
    pub(crate) fn work(&self, machine: &Machine, points: &[Point<'_>]) -> f64 {
        let empty = Structure::default();
        let structure = self.structure.as_ref().unwrap_or(&empty);
        points.iter().map(|point| structure.work(&Terms::new(machine, point))).sum()
    }

    /// ln of the time of a model over the sum of its steps; `None` where no model was measured.
    pub(crate) fn correction(
        &self,
        machine: &Machine,
        points: &[Point<'_>],
        whole: &Whole,
    ) -> Result<Option<Predicted>, FitError> {
        let correction = self.correction.as_ref();
        let features = || of_model(machine, points, whole);
        correction.map(|correction| correction.predict(&features(), whole.regime())).transpose()
    }

    /// Joules of a run of so many nanoseconds; `None` where too few observations had any.
    pub(crate) fn joules(&self, points: &[Point<'_>], nanoseconds: f64) -> Result<Option<f64>, FitError> {
        let watts = |power: &Power| power.watts(&power::features(points, nanoseconds));
        let watts = self.power.as_ref().map(watts).transpose()?;
        Ok(watts.map(|watts| watts * nanoseconds * 1e-9))
    }

    /// Bytes held at most; `None` where no observation had any.
    pub(crate) fn memory(&self, machine: &Machine, points: &[Point<'_>]) -> Result<Option<f64>, FitError> {
        let Some(memory) = &self.memory else { return Ok(None) };
        let bytes = memory.bytes(&memory::terms(points), memory::kind(points));
        let bases: Vec<f64> = points.iter().map(|point| point.base).collect();
        let whole = Whole::new(points, &bases, self.work(machine, points));
        let predicted = self
            .memory_correction
            .as_ref()
            .map(|correction| correction.predict(whole.features(), whole.regime()));
        Ok(Some(bytes * predicted.transpose()?.map_or(1.0, |predicted| predicted.ln.exp())))
    }
}

/// Features of a model: those of any, and those of a CPU.
fn of_model(machine: &Machine, points: &[Point<'_>], whole: &Whole) -> Vec<f64> {
    whole.features().iter().copied().chain(cores::features(machine, points, whole.sum)).collect()
}

/// The steps of an observation.
fn points<'a>(
    of: (&Machine, &Fitted),
    row: &'a Observation,
    algorithms: Option<&'a [Algorithm]>,
) -> Vec<Point<'a>> {
    row.steps
        .iter()
        .enumerate()
        .map(|(place, step)| {
            let algorithm = algorithms.and_then(|algorithms| algorithms.get(place));
            Point::new(of, step, (row.precision, row.mode), algorithm)
        })
        .collect()
}

/// What runs have in common that are left out together: their steps, in whatever precision and
/// mode.
pub(crate) fn group(steps: &[Step]) -> u64 {
    let mut hasher = FxHasher::default();
    steps.hash(&mut hasher);
    hasher.finish()
}

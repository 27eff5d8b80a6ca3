//! Predictions without trees, which the predictor has to beat.

use flopgap_flops::Precision;
use flopgap_graph::Mode;

use crate::predict::inputs::machine::{Machine, Sample, place, place_of};
use crate::predict::inputs::shape::Family;

/// A prediction by formula.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Baseline {
    /// The larger of operations over peak and bytes over bandwidth, summed over the steps.
    Roofline,
    /// The roofline over one efficiency factor, fitted.
    OneEfficiency,
    /// A launch for each step and the roofline over an efficiency factor; both fitted, for each
    /// mode and precision.
    LaunchEfficiency,
}

impl Baseline {
    /// All of them, simplest first.
    pub const ALL: [Self; 3] = [Self::Roofline, Self::OneEfficiency, Self::LaunchEfficiency];

    /// Its name in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Roofline => "roofline",
            Self::OneEfficiency => "one efficiency",
            Self::LaunchEfficiency => "launch + roofline / efficiency",
        }
    }
}

/// The fitted constants of [`Baseline::LaunchEfficiency`], for one mode and precision.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Constants {
    /// Nanoseconds before each step.
    pub launch_ns: f64,
    /// Share of the roofline that is reached.
    pub efficiency: f64,
}

/// Constants of all baselines.
#[derive(Debug, Clone, serde::Serialize, serde::Deserialize)]
pub(crate) struct Fitted {
    /// Of [`Baseline::OneEfficiency`].
    pub(crate) efficiency: f64,
    by_group: [[Option<Constants>; 5]; 3],
    overall: [Option<Constants>; 3],
    empty: [Option<f64>; 3],
}

impl Fitted {
    pub(crate) fn new(machine: &Machine, samples: &[Sample<'_>]) -> Self {
        let points: Vec<(Point, &Sample<'_>)> =
            samples.iter().map(|sample| (Point::of(machine, sample), sample)).collect();
        let all: Vec<Point> = points.iter().map(|(point, _)| *point).collect();
        let mut by_group = [[None; 5]; 3];
        let mut overall = [None; 3];
        let mut empty = [None; 3];
        for mode in [Mode::Call, Mode::Stream, Mode::Graph] {
            let of_mode = || points.iter().filter(|(_, sample)| sample.mode == mode);
            let group: Vec<Point> = of_mode().map(|(point, _)| *point).collect();
            overall[place_of(mode)] = constants(&group, machine.launch(mode));
            let nothing =
                |sample: &Sample<'_>| matches!(sample.shapes, [shape] if shape.family == Family::Empty);
            let mut launches: Vec<f64> = of_mode()
                .filter(|(_, sample)| nothing(sample))
                .map(|(_, sample)| sample.nanoseconds)
                .collect();
            launches.sort_by(f64::total_cmp);
            empty[place_of(mode)] = launches.get(launches.len() / 2).copied();
            for precision in Precision::ALL {
                let group: Vec<Point> = of_mode()
                    .filter(|(_, sample)| sample.precision == precision)
                    .map(|(point, _)| *point)
                    .collect();
                // Fewer points say less about a precision than the other precisions do.
                if group.len() >= 8 {
                    by_group[place_of(mode)][place(precision)] = constants(&group, machine.launch(mode));
                }
            }
        }
        Self {
            efficiency: factor(&all, 0.0).map_or(1.0, |(factor, _)| 1.0 / factor),
            by_group,
            overall,
            empty,
        }
    }

    /// Nanoseconds of a launch of nothing, where one was measured.
    pub(crate) fn empty(&self, mode: Mode) -> Option<f64> {
        self.empty[place_of(mode)]
    }

    /// Constants of a mode and precision; where none were fitted, those of the mode, then those of
    /// any mode.
    pub(crate) fn constants(&self, mode: Mode, precision: Precision) -> Constants {
        let own = self.by_group[place_of(mode)][place(precision)].or(self.overall[place_of(mode)]);
        let any = || self.overall.iter().copied().flatten().next();
        own.or_else(any).unwrap_or(Constants { launch_ns: 0.0, efficiency: 1.0 })
    }
}

/// A run in the terms of the baselines.
#[derive(Debug, Clone, Copy)]
struct Point {
    steps: f64,
    roof: f64,
    nanoseconds: f64,
}

impl Point {
    fn of(machine: &Machine, sample: &Sample<'_>) -> Self {
        let roofs = sample.shapes.iter().map(|shape| machine.roof(shape, sample.precision).nanoseconds());
        Self { steps: sample.shapes.len() as f64, roof: roofs.sum(), nanoseconds: sample.nanoseconds }
    }
}

/// The factor on the rooflines with the least mean relative error, given a launch time, and that
/// error.
///
/// The mean of `|launch n + f roof - t| / t` is least at a weighted median of `(t - launch n) /
/// roof`.
fn factor(points: &[Point], launch: f64) -> Option<(f64, f64)> {
    let usable = points.iter().filter(|point| point.roof > 0.0);
    let mut wanted: Vec<(f64, f64)> = usable
        .map(|point| {
            ((point.nanoseconds - launch * point.steps) / point.roof, point.roof / point.nanoseconds)
        })
        .collect();
    wanted.sort_by(|left, right| left.0.total_cmp(&right.0));
    let half = wanted.iter().map(|(_, weight)| weight).sum::<f64>() / 2.0;
    let mut passed = 0.0;
    let median = wanted.iter().find(|(_, weight)| {
        passed += weight;
        passed >= half
    });
    let factor = median?.0.max(1e-6);
    let error = |point: &Point| ((launch * point.steps + factor * point.roof) / point.nanoseconds).ln().abs();
    Some((factor, points.iter().map(error).sum::<f64>() / points.len() as f64))
}

/// Launch time and efficiency with the least mean error, the launch time searched from a twentieth
/// to twenty times of what was measured.
fn constants(points: &[Point], launch: f64) -> Option<Constants> {
    let least = points.iter().map(|point| point.nanoseconds / point.steps.max(1.0)).reduce(f64::min)?;
    let around = if launch > 0.0 { launch } else { least };
    let mut best: Option<(f64, Constants)> = None;
    for step in -30..=30 {
        let launch_ns = around * 20f64.powf(f64::from(step) / 30.0);
        let Some((factor, error)) = factor(points, launch_ns) else { continue };
        if best.is_none_or(|(least, _)| error < least) {
            best = Some((error, Constants { launch_ns, efficiency: 1.0 / factor }));
        }
    }
    // Runs that compute nothing say only what a launch costs.
    Some(best.map_or(Constants { launch_ns: least, efficiency: 1.0 }, |(_, found)| found))
}

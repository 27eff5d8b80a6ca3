//! The peaks of a machine, from measured ceilings or from the observations themselves.

use flopgap_flops::Precision;
use flopgap_graph::Mode;

use crate::Ceilings;
use crate::predict::inputs::shape::Shape;

/// Ceilings in the form that predictions use.
#[derive(Debug, Clone, serde::Serialize, serde::Deserialize)]
pub(crate) struct Machine {
    /// Multiprocessors or threads.
    pub(crate) units: f64,
    /// Operations per nanosecond, in the order of [`Precision::ALL`]; absent if unknown.
    peaks: [Option<f64>; 5],
    /// Working sets in bytes and the bytes read in a nanosecond there, smallest first.
    bandwidth: Vec<(f64, f64)>,
    /// Names and sizes of the levels of the memory hierarchy, fastest first.
    levels: Vec<(String, f64)>,
    /// Nanoseconds before a step computes, by mode.
    launch: [Option<f64>; 3],
}

/// The roofline of a step in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Roof {
    /// Of its arithmetic.
    pub(crate) compute: f64,
    /// Of its compulsory bytes.
    pub(crate) memory: f64,
    /// Bytes that it touches.
    pub(crate) bytes: f64,
}

impl Roof {
    /// The larger of both.
    pub(crate) fn nanoseconds(&self) -> f64 {
        self.compute.max(self.memory)
    }
}

/// A run reduced to the inputs of the constants.
pub(crate) struct Sample<'a> {
    pub(crate) shapes: &'a [Shape],
    pub(crate) precision: Precision,
    pub(crate) mode: Mode,
    pub(crate) nanoseconds: f64,
}

impl Machine {
    /// The machine of these ceilings; missing values are replaced by the fastest samples.
    pub(crate) fn new(ceilings: Option<&Ceilings>, units: Option<u32>, samples: &[Sample<'_>]) -> Self {
        let mut machine = ceilings.map_or_else(Self::unknown, Self::measured);
        if let (None, Some(units)) = (ceilings, units) {
            machine.units = f64::from(units);
        }
        for (place, precision) in Precision::ALL.into_iter().enumerate() {
            if machine.peaks[place].is_none() {
                let reached = samples.iter().filter(|sample| sample.precision == precision);
                let rate = |sample: &Sample<'_>| total(sample, |shape| shape.flops) / sample.nanoseconds;
                machine.peaks[place] = reached.map(rate).filter(|rate| *rate > 0.0).reduce(f64::max);
            }
        }
        if machine.bandwidth.is_empty() {
            let rate = |sample: &Sample<'_>| {
                total(sample, |shape| bytes(shape, sample.precision)) / sample.nanoseconds
            };
            let best = samples.iter().map(rate).filter(|rate| *rate > 0.0).reduce(f64::max);
            machine.bandwidth = vec![(1.0, best.unwrap_or(1.0))];
        }
        for mode in [Mode::Call, Mode::Stream, Mode::Graph] {
            if machine.launch[place_of(mode)].is_none() {
                let each = |sample: &Sample<'_>| sample.nanoseconds / sample.shapes.len().max(1) as f64;
                let of_mode = samples.iter().filter(|sample| sample.mode == mode);
                machine.launch[place_of(mode)] = of_mode.map(each).reduce(f64::min);
            }
        }
        machine
    }

    fn unknown() -> Self {
        Self { units: 1.0, peaks: [None; 5], bandwidth: Vec::new(), levels: Vec::new(), launch: [None; 3] }
    }

    fn measured(ceilings: &Ceilings) -> Self {
        let mut machine = Self::unknown();
        machine.units = f64::from(ceilings.units.max(1));
        for peak in &ceilings.peaks {
            let slot = &mut machine.peaks[place(peak.precision)];
            let rate = peak.ops_per_second.value * 1e-9;
            if rate > 0.0 && slot.is_none_or(|known| rate > known) {
                *slot = Some(rate);
            }
        }
        let points = ceilings.bandwidth.iter().map(|point| (point.bytes as f64, point.read.value * 1e-9));
        machine.bandwidth = points.filter(|(bytes, rate)| *bytes > 0.0 && *rate > 0.0).collect();
        machine.bandwidth.sort_by(|left, right| left.0.total_cmp(&right.0));
        machine.levels = ceilings
            .levels
            .iter()
            .map(|level| (level.name.clone(), level.bytes.map_or(f64::INFINITY, |bytes| bytes as f64)))
            .collect();
        if machine.bandwidth.is_empty() {
            let last = ceilings.levels.last().map(|level| level.read * 1e-9);
            machine.bandwidth = last.filter(|rate| *rate > 0.0).map(|rate| (1.0, rate)).into_iter().collect();
        }
        let launch = Some(ceilings.launch_ns.value).filter(|value| *value > 0.0);
        machine.launch[place_of(Mode::Call)] = launch;
        machine.launch[place_of(Mode::Stream)] = launch;
        machine.launch[place_of(Mode::Graph)] =
            ceilings.graph_node_ns.map(|node| node.value).filter(|value| *value > 0.0);
        machine
    }

    /// Operations per nanosecond; if unknown, those of the precision nearest in width.
    pub(crate) fn peak(&self, precision: Precision) -> f64 {
        let own = place(precision);
        let known = (0..5).filter_map(|other| self.peaks[other].map(|rate| (own.abs_diff(other), rate)));
        known.min_by_key(|(distance, _)| *distance).map_or(1.0, |(_, rate)| rate)
    }

    /// Bytes in a nanosecond at a working set, between measured points by their logarithms.
    pub(crate) fn bandwidth(&self, bytes: f64) -> f64 {
        let after = self.bandwidth.partition_point(|(at, _)| *at <= bytes);
        match (after.checked_sub(1).map(|before| self.bandwidth[before]), self.bandwidth.get(after)) {
            (Some((_, rate)), None) => rate,
            (None, Some((_, rate))) => *rate,
            (Some((left, from)), Some((right, to))) => {
                let share = (bytes / left).ln() / (right / left).ln();
                from * (to / from).powf(share)
            }
            (None, None) => 1.0,
        }
    }

    /// Bytes in a nanosecond at the working set that is read fastest.
    pub(crate) fn nearest(&self) -> f64 {
        self.bandwidth.iter().map(|(_, rate)| *rate).reduce(f64::max).unwrap_or(1.0)
    }

    /// Nanoseconds before a step computes; 0 if unknown.
    pub(crate) fn launch(&self, mode: Mode) -> f64 {
        self.launch[place_of(mode)].unwrap_or(0.0)
    }

    /// Name of the level that a working set lies in.
    pub(crate) fn level(&self, bytes: f64) -> Option<&str> {
        self.levels.iter().find(|(_, size)| bytes <= *size).map(|(name, _)| name.as_str())
    }

    /// The roofline of a step.
    pub(crate) fn roof(&self, shape: &Shape, precision: Precision) -> Roof {
        let bytes = bytes(shape, precision);
        let memory = if bytes > 0.0 { bytes / self.bandwidth(bytes) } else { 0.0 };
        Roof { compute: shape.flops / self.peak(precision), memory, bytes }
    }
}

/// Bytes that a step reads and writes at least.
pub(crate) fn bytes(shape: &Shape, precision: Precision) -> f64 {
    shape.elements() * precision.element().bytes() as f64
}

/// Place of a precision in [`Precision::ALL`].
pub(crate) fn place(precision: Precision) -> usize {
    Precision::ALL.into_iter().position(|other| other == precision).unwrap_or_default()
}

pub(crate) const fn place_of(mode: Mode) -> usize {
    match mode {
        Mode::Call => 0,
        Mode::Stream => 1,
        Mode::Graph => 2,
    }
}

fn total(sample: &Sample<'_>, of: impl Fn(&Shape) -> f64) -> f64 {
    sample.shapes.iter().map(of).sum()
}

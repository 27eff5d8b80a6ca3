//! A step with everything that its prediction depends on.

use flopgap_flops::Precision;
use flopgap_graph::{Algorithm, Mode, Step};

use super::baseline::{Constants, Fitted};
use super::kernel::Kernel;
use super::machine::{Machine, Roof};
use super::shape::{Family, Shape};

/// A step in a precision and mode on a machine.
#[derive(Debug, Clone, Copy)]
pub(super) struct Point<'a> {
    pub(super) step: &'a Step,
    pub(super) precision: Precision,
    pub(super) mode: Mode,
    /// The library's report on the chosen kernel.
    pub(super) algorithm: Option<&'a Algorithm>,
    pub(super) shape: Shape,
    pub(super) roof: Roof,
    /// Nanoseconds before it computes.
    pub(super) launch: f64,
    /// The prediction by two constants.
    pub(super) base: f64,
    /// The work of the kernels, if known.
    pub(super) work: Option<Kernel>,
}

impl<'a> Point<'a> {
    pub(super) fn new(
        (machine, constants): (&Machine, &Fitted),
        step: &'a Step,
        (precision, mode): (Precision, Mode),
        algorithm: Option<&'a Algorithm>,
    ) -> Self {
        let shape = Shape::of(step);
        let roof = machine.roof(&shape, precision);
        let Constants { launch_ns, efficiency } = constants.constants(mode, precision);
        // Of a launch of nothing, what was measured of it, else what the ceilings say.
        let empty = || constants.empty(mode).unwrap_or_else(|| machine.launch(mode));
        let base = match shape.family {
            Family::Empty if empty() > 0.0 => empty(),
            _ => launch_ns + roof.nanoseconds() / efficiency,
        };
        let work = algorithm
            .map(|algorithm| Kernel::of(machine, (&shape, &roof), (precision, launch_ns), algorithm));
        Self { step, precision, mode, algorithm, shape, roof, launch: launch_ns, base, work }
    }

    /// The reference for the trees alongside the structure.
    pub(super) fn reference(&self) -> f64 {
        match (self.shape.family, &self.work) {
            (Family::Gemm | Family::Conv, Some(work)) => work.time,
            _ => self.base,
        }
    }

    /// What distinguishes algorithms: coarsely the library's name, finely the tile and the kernels.
    pub(super) fn kernel(&self) -> Option<[String; 2]> {
        let algorithm = self.algorithm?;
        let tile = algorithm.tile.map_or(String::new(), |[rows, columns]| format!(" {rows}x{columns}"));
        let fine = format!("{}{tile} {}", algorithm.id, algorithm.kernels.join(" "));
        Some([algorithm.id.clone(), fine])
    }
}

//! A step with everything that its prediction depends on.

use flopgap_flops::Precision;
use flopgap_graph::{Algorithm, Mode, Step};

use crate::predict::formula::baseline::{Constants, Fitted};
use crate::predict::inputs::kernel::Kernel;
use crate::predict::inputs::machine::{Machine, Roof};
use crate::predict::inputs::shape::{Family, Shape};

/// A step in a precision and mode on a machine.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Point<'a> {
    pub(crate) step: &'a Step,
    pub(crate) precision: Precision,
    pub(crate) mode: Mode,
    /// The library's report on the chosen kernel.
    pub(crate) algorithm: Option<&'a Algorithm>,
    pub(crate) shape: Shape,
    pub(crate) roof: Roof,
    /// Nanoseconds before it computes.
    pub(crate) launch: f64,
    /// The prediction by two constants.
    pub(crate) base: f64,
    /// The work of the kernels, if known.
    pub(crate) work: Option<Kernel>,
}

impl<'a> Point<'a> {
    pub(crate) fn new(
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
            .map(|algorithm| Kernel::new(machine, (&shape, &roof), (precision, launch_ns), algorithm));
        Self { step, precision, mode, algorithm, shape, roof, launch: launch_ns, base, work }
    }

    /// The reference for the trees alongside the structure.
    pub(crate) fn reference(&self) -> f64 {
        match (self.shape.family, &self.work) {
            (Family::Gemm | Family::Conv, Some(work)) => work.time,
            _ => self.base,
        }
    }

    /// What distinguishes algorithms: coarsely the library's name, finely the tile and the kernels.
    pub(crate) fn kernel(&self) -> Option<[String; 2]> {
        let algorithm = self.algorithm?;
        let tile = algorithm.tile.map_or(String::new(), |[rows, columns]| format!(" {rows}x{columns}"));
        let fine = format!("{}{tile} {}", algorithm.id, algorithm.kernels.join(" "));
        Some([algorithm.id.clone(), fine])
    }
}

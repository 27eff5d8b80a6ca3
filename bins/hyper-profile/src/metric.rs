//! The four overheads of a run.

use flopgap_phases::sweep::MetricsRow;
use flopgap_report::numbers::ValueFormat;
use flopgap_report::scale::Scale;

/// One overhead: its column, its name, and its meaning.
pub(crate) struct Metric {
    pub(crate) key: &'static str,
    pub(crate) title: &'static str,
    /// The unit of the value.
    pub(crate) unit: &'static str,
    pub(crate) meaning: &'static str,
    pub(crate) of: fn(&MetricsRow) -> f64,
    /// Whether the tiles of products are in it.
    pub(crate) tiles: bool,
}

impl Metric {
    /// The scale of all values of the run, shared by every picture of the metric. `None` if no axis
    /// can hold them.
    pub(crate) fn scale(&self, rows: &[MetricsRow]) -> Option<Scale> {
        Scale::of(rows.iter().map(self.of), ValueFormat::Number)
    }
}

/// In the order of the columns.
pub(crate) const METRICS: [Metric; 4] = [
    Metric {
        key: "epsilon",
        title: "GEMM overhead ε",
        unit: "of theory",
        meaning: "Counted FLOPs of the matrix products above the closed form, relative to it: padding of tiles and \
                  work of the epilogue. 0 is perfect, 1 is twice the work.",
        of: |row| row.epsilon,
        tiles: true,
    },
    Metric {
        key: "rho",
        title: "split-K work ρ",
        unit: "FLOP per element",
        meaning: "FLOPs of split-K reductions (and of the loss reduction, backward) for each activation element; the \
                  closed form has none.",
        of: |row| row.rho,
        tiles: false,
    },
    Metric {
        key: "kappa",
        title: "activation overhead κ",
        unit: "of theory",
        meaning: "Counted FLOPs of the activations above one for each element: what the sigmoid's exponential and \
                  division cost.",
        of: |row| row.kappa,
        tiles: false,
    },
    Metric {
        key: "omega",
        title: "total overhead ω",
        unit: "of theory",
        meaning: "All counted FLOPs above all theoretical ones, relative to them.",
        of: |row| row.omega,
        tiles: true,
    },
];

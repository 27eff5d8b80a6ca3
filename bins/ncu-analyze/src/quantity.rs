//! What kernels are measured by, in columns and in comparisons.

use flopgap_phases::Totals;
use flopgap_report::table::{Cell, Column};

/// A quantity of a kernel, of a class or of a whole report.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Quantity {
    Launches,
    Time,
    Flops,
    DramBytes,
    L2Bytes,
    FlopRate,
    ByteRate,
    Roofline,
    Occupancy,
}

/// Its value: counted, or a quotient of what was counted.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Amount {
    Count(u64),
    Real(f64),
}

impl Amount {
    pub(crate) fn as_f64(self) -> f64 {
        match self {
            Amount::Count(count) => count as f64,
            Amount::Real(value) => value,
        }
    }
}

impl Quantity {
    pub(crate) const ALL: [Quantity; 9] = [
        Quantity::Launches,
        Quantity::Time,
        Quantity::Flops,
        Quantity::DramBytes,
        Quantity::L2Bytes,
        Quantity::FlopRate,
        Quantity::ByteRate,
        Quantity::Roofline,
        Quantity::Occupancy,
    ];

    /// Its key in CSV and JSON, its name for readers, in conditions, and its unit.
    const fn words(self) -> (&'static str, &'static str, &'static str, Option<&'static str>) {
        match self {
            Quantity::Launches => ("launches", "launches", "launches", None),
            Quantity::Time => ("duration_ns", "time", "time", Some("ns")),
            Quantity::Flops => ("flops", "work", "flops", Some("FLOP")),
            Quantity::DramBytes => ("dram_bytes", "DRAM", "bytes", Some("byte")),
            Quantity::L2Bytes => ("l2_bytes", "L2", "l2-bytes", Some("byte")),
            Quantity::FlopRate => ("tflops", "TFLOP/s", "tflops", None),
            Quantity::ByteRate => ("gbps", "GB/s", "gbps", None),
            Quantity::Roofline => ("roofline_share", "roofline", "roofline", None),
            Quantity::Occupancy => ("occupancy", "occupancy", "occupancy", None),
        }
    }

    pub(crate) fn key(self) -> &'static str {
        self.words().0
    }

    pub(crate) fn name(self) -> &'static str {
        self.words().1
    }

    pub(crate) fn in_conditions(self) -> &'static str {
        self.words().2
    }

    pub(crate) fn unit(self) -> Option<&'static str> {
        self.words().3
    }

    pub(crate) fn column(self) -> Column {
        let column = Column::number(self.key(), self.name());
        match self.unit() {
            Some(unit) => column.unit(unit),
            None => column,
        }
    }

    /// The value, where every launch has what it takes.
    pub(crate) fn of(self, totals: &Totals) -> Option<Amount> {
        let sum = |sum| totals.complete(sum).map(Amount::Count);
        match self {
            Quantity::Launches => Some(Amount::Count(totals.launches)),
            Quantity::Time => sum(totals.duration_ns),
            Quantity::Flops => sum(totals.flops),
            Quantity::DramBytes => sum(totals.dram_bytes),
            Quantity::L2Bytes => sum(totals.l2_bytes),
            Quantity::FlopRate => totals.flops_per_second().map(|rate| Amount::Real(rate / 1e12)),
            Quantity::ByteRate => totals.bytes_per_second().map(|rate| Amount::Real(rate / 1e9)),
            Quantity::Roofline => totals.roofline_share().map(Amount::Real),
            Quantity::Occupancy => totals.mean_occupancy().map(Amount::Real),
        }
    }

    /// Whether some launch has it.
    pub(crate) fn is_measured(self, totals: &Totals) -> bool {
        let some = |sum| totals.measured(sum) > 0;
        let (time, flops, bytes) = (some(totals.duration_ns), some(totals.flops), some(totals.dram_bytes));
        match self {
            Quantity::Launches => true,
            Quantity::Time => time,
            Quantity::Flops => flops,
            Quantity::DramBytes => bytes,
            Quantity::L2Bytes => some(totals.l2_bytes),
            Quantity::FlopRate => time && flops,
            Quantity::ByteRate => time && bytes,
            Quantity::Roofline => time && some(totals.least_ps),
            Quantity::Occupancy => some(totals.occupancy),
        }
    }

    /// Whether a kernel that was not launched has 0 of it.
    pub(crate) fn adds_up(self) -> bool {
        self.unit().is_some() || self == Quantity::Launches
    }

    pub(crate) fn cell(self, amount: Amount) -> Cell {
        match (amount, self) {
            (Amount::Count(count), _) => Cell::from(count),
            (Amount::Real(value), Quantity::Roofline | Quantity::Occupancy) => Cell::percent(value, 2),
            (Amount::Real(value), _) => Cell::float(value, 3),
        }
    }
}

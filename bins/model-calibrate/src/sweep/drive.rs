//! Measures the rows of a plan, one after the other.

use std::time::Instant;

use flopgap_calibration::Writer;
use flopgap_calibration::run::{PlannedRow, RunPlan};
use flopgap_cli::Failure;
use flopgap_engines::{Engine, Measure, MeasureError, Monitor, Repetition, SHORTEST_WINDOW, measure};
use flopgap_report::progress::Progress;

use super::file_failure;

/// Rows that may fail one after the other. A device that was lost fails every row, and there are thousands.
const IN_A_ROW: usize = 10;

/// Fills a calibration file.
pub(super) struct Driver<'a> {
    /// The engine of a name.
    pub(super) engine: &'a dyn Fn(&str) -> Option<&'a dyn Engine>,
    pub(super) plan: &'a RunPlan,
    pub(super) writer: Writer,
    pub(super) monitor: Box<dyn Monitor>,
    pub(super) repetition: Repetition,
    /// When to stop.
    pub(super) until: Option<Instant>,
}

/// What became of the rows.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Filled {
    pub(super) measured: usize,
    pub(super) failed: usize,
    /// Not reached before the time was over.
    pub(super) left: usize,
}

impl Driver<'_> {
    /// Measures the rows at these places of the plan.
    ///
    /// # Errors
    /// When a row cannot be written, or too many in a row cannot be measured.
    pub(super) fn fill(&mut self, places: &[usize]) -> Result<Filled, Failure> {
        let progress = Progress::new(places.len() as u64, "rows");
        let mut filled = Filled::default();
        let mut in_a_row = 0;
        for (done, &place) in places.iter().enumerate() {
            if self.until.is_some_and(|until| Instant::now() >= until) {
                filled.left = places.len() - done;
                break;
            }
            let planned = &self.plan.rows[place];
            let name = name(planned);
            progress.note(name.clone());
            match self.row(planned) {
                Ok(()) => {
                    filled.measured += 1;
                    in_a_row = 0;
                }
                Err(Unmeasured::File(failure)) => {
                    progress.finish();
                    return Err(failure);
                }
                Err(Unmeasured::Row(reason)) => {
                    progress.warn(&format!("{name}: {reason}"));
                    filled.failed += 1;
                    in_a_row += 1;
                    if in_a_row == IN_A_ROW {
                        progress.finish();
                        let message = format!("{IN_A_ROW} rows one after the other could not be measured");
                        let hint = "each is named above; what was measured is kept, and --resume goes on";
                        return Err(Failure::new(message).hint(hint));
                    }
                }
            }
            progress.advance(1);
        }
        progress.finish();
        Ok(filled)
    }

    fn row(&mut self, planned: &PlannedRow) -> Result<(), Unmeasured> {
        let PlannedRow { engine, point, energy, count } = planned;
        let Some(engine) = (self.engine)(engine) else {
            return Err(Unmeasured::Row(format!("engine {engine} is not open")));
        };
        let what =
            Measure { repetition: self.repetition, energy: energy.then_some(SHORTEST_WINDOW), count: *count };
        let monitor = self.monitor.as_mut();
        let row = measure(engine, &point.workload, point.precision, point.mode, &what, monitor);
        let row = row.map_err(|error: MeasureError| Unmeasured::Row(error.to_string()))?;
        self.writer.append(&row).map_err(|error| Unmeasured::File(file_failure(&error)))
    }
}

/// Why there is no row.
enum Unmeasured {
    /// This one alone.
    Row(String),
    /// None can be written.
    File(Failure),
}

/// What is measured, for progress and warnings.
pub(super) fn name(planned: &PlannedRow) -> String {
    let point = &planned.point;
    format!("{} {} {}", planned.engine, point.workload.label(), point.precision)
}

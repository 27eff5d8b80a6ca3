//! Measures the rows of a plan, one after the other.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use flopgap_calibration::Writer;
use flopgap_calibration::engines::{
    Engine, Measure, MeasureError, Monitor, Repetition, SHORTEST_WINDOW, measure,
};
use flopgap_calibration::run::{PlannedRow, RunPlan};
use flopgap_cli::{Console, Failure};

use crate::load::of_file;

/// The most consecutive rows that may fail. A lost device fails every row, and there are thousands.
const IN_A_ROW: usize = 10;

/// Fills a calibration file.
pub(super) struct Driver<'a> {
    /// The engine of a name.
    pub(super) engine: &'a dyn Fn(&str) -> Option<&'a dyn Engine>,
    pub(super) plan: &'a RunPlan,
    pub(super) writer: &'a mut Writer,
    pub(super) monitor: Box<dyn Monitor>,
    pub(super) repetition: Repetition,
    pub(super) console: Console,
    /// When to stop.
    pub(super) until: Option<Instant>,
    /// Set when the process is asked to stop.
    pub(super) stop: &'a AtomicBool,
}

/// The outcome of the rows.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Filled {
    pub(super) measured: usize,
    pub(super) failed: usize,
    /// Not reached within the time limit, or before the process was asked to stop.
    pub(super) left: usize,
    /// Whether the process was asked to stop.
    pub(super) stopped: bool,
}

impl Driver<'_> {
    /// Measures the rows at these places of the plan.
    ///
    /// # Errors
    /// When a row cannot be written, or too many in a row cannot be measured.
    pub(super) fn fill(&mut self, places: &[usize]) -> Result<Filled, Failure> {
        let progress = self.console.progress(places.len() as u64, "rows");
        let mut filled = Filled::default();
        let mut in_a_row = 0;
        for (done, &place) in places.iter().enumerate() {
            let stopped = self.stop.load(Ordering::Relaxed);
            if stopped || self.until.is_some_and(|until| Instant::now() >= until) {
                filled.left = places.len() - done;
                filled.stopped = stopped;
                break;
            }
            let planned = &self.plan.rows[place];
            let name = name(planned);
            progress.note(name.clone());
            let (console, begin) = (self.console, Instant::now());
            match self.row(planned) {
                Ok(()) => {
                    let seconds = begin.elapsed().as_secs_f64();
                    progress.suspend(|| console.detail(format_args!("{name}: measured: {seconds:.3} s")));
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
                        let message = format!("{IN_A_ROW} consecutive rows could not be measured");
                        let hint = "each is named above; measured rows are kept, and `--resume` continues";
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
        let row =
            row.map_err(|error: MeasureError| Unmeasured::Row(flopgap_files::chain(&error).to_string()))?;
        self.writer.append(&row).map_err(|error| Unmeasured::File(of_file(&error)))
    }
}

/// Why a row is missing.
enum Unmeasured {
    /// Only this row failed.
    Row(String),
    /// No row can be written.
    File(Failure),
}

/// A description of a row, for progress and warnings.
pub(super) fn name(planned: &PlannedRow) -> String {
    let point = &planned.point;
    format!("{} {} {}", planned.engine, point.workload.label(), point.precision)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use flopgap_calibration::engines::{EngineError, Session, Unwatched};
    use flopgap_calibration::grid::{Family, Point, Request, SEED, Size, Target, plan};
    use flopgap_calibration::{Calibration, Check, Header, Origin, Timing};
    use flopgap_flops::Precision;
    use flopgap_graph::{Algorithm, Mode, Workload};

    use super::*;

    /// Runs nothing; every so many rows it cannot.
    struct Fake {
        origin: Origin,
        fails: fn(usize) -> bool,
        opened: std::cell::Cell<usize>,
    }

    impl Engine for Fake {
        fn name(&self) -> &'static str {
            "fake"
        }
        fn origin(&self) -> &Origin {
            &self.origin
        }
        fn modes(&self) -> &[Mode] {
            &[Mode::Call]
        }
        fn supports(&self, _: &Workload, _: Precision) -> Result<(), EngineError> {
            Ok(())
        }
        fn open<'a>(
            &'a self,
            _: &Workload,
            _: Precision,
            _: Mode,
        ) -> Result<Box<dyn Session + 'a>, EngineError> {
            let opened = self.opened.get();
            self.opened.set(opened + 1);
            if (self.fails)(opened) {
                return Err(EngineError::Failed { action: "open".to_owned(), message: "no".to_owned() });
            }
            Ok(Box::new(Nothing))
        }
    }

    struct Nothing;

    impl Session for Nothing {
        fn check(&mut self) -> Result<Check, EngineError> {
            Ok(Check { reference: "none".to_owned(), error: 0.0, bound: 0.0 })
        }
        fn time(&mut self, _: &Repetition) -> Result<Timing, EngineError> {
            Ok(Timing {
                median_ns: 5.0,
                low_ns: 4.0,
                high_ns: 6.0,
                minimum_ns: 4.0,
                runs: 10,
                capped: false,
                wall_ns: None,
            })
        }
        fn run_for(&mut self, _: std::time::Duration) -> Result<u64, EngineError> {
            Ok(1)
        }
        fn memory_bytes(&self) -> Option<u64> {
            None
        }
        fn device_memory_bytes(&self) -> Option<u64> {
            None
        }
        fn counted_flops(&mut self) -> Result<Option<u64>, EngineError> {
            Ok(None)
        }
        fn algorithms(&self) -> Vec<Algorithm> {
            Vec::new()
        }
        fn remarks(&self) -> Vec<String> {
            Vec::new()
        }
    }

    fn rows(count: usize) -> Vec<PlannedRow> {
        let request = Request {
            target: Target::Cpu,
            size: Size::Quick,
            families: vec![Family::Mlp],
            batches: Vec::new(),
            precisions: Vec::new(),
            modes: vec![Mode::Call],
            scenario: None,
            caches: flopgap_calibration::grid::Caches::default(),
            seed: SEED,
        };
        let points = plan(&request, &mut |_: &Point| Ok(())).unwrap().points;
        let row = |point| PlannedRow { engine: "fake".to_owned(), point, energy: false, count: false };
        points.into_iter().take(count).map(row).collect()
    }

    fn fill(path: &Path, count: usize, fails: fn(usize) -> bool) -> Result<Filled, Failure> {
        let engine = Fake { origin: Origin::default(), fails, opened: std::cell::Cell::default() };
        let plan = RunPlan::new(Vec::new(), rows(count));
        let mut writer = Writer::create(path, &Header::new(Origin::default(), None)).unwrap();
        let mut driver = Driver {
            engine: &|name| (name == "fake").then_some(&engine as &dyn Engine),
            plan: &plan,
            writer: &mut writer,
            monitor: Box::new(Unwatched),
            repetition: Repetition::default(),
            console: "test".into(),
            until: None,
            stop: &AtomicBool::new(false),
        };
        driver.fill(&(0..count).collect::<Vec<_>>())
    }

    #[test]
    fn rows_that_fail_alone_cost_no_other() {
        let (_dir, [path]) = flopgap_testing::paths(["calibration.jsonl"]);
        let filled = fill(&path, 30, |row| row % 10 == 3).unwrap();
        assert_eq!(filled, Filled { measured: 27, failed: 3, ..Filled::default() });
        assert_eq!(Calibration::read(&path).unwrap().rows.len(), 27);
    }

    #[test]
    fn a_lost_device_ends_the_sweep_and_what_was_measured_is_kept() {
        let (_dir, [path]) = flopgap_testing::paths(["calibration.jsonl"]);
        let failure = fill(&path, 60, |row| row >= 5).unwrap_err();
        assert!(failure.to_string().starts_with("10 consecutive rows could not be measured"), "{failure}");
        assert_eq!(Calibration::read(&path).unwrap().rows.len(), 5);
    }
}

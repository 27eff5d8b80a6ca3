//! Measures one workload on one engine: checks it, times it, then measures everything else.

use std::time::{Duration, Instant};

use crate::{Check, DeviceState, Energy, EnergySource, Measurement, Row};
use flopgap_files::{ErrorKind, Hint, Text};
use flopgap_flops::Precision;
use flopgap_graph::{Mode, Workload};

use crate::engines::engine::{Engine, Repetition, Session};
use crate::engines::error::EngineError;
use crate::engines::placed;

/// Monitors a device while rows are measured: NVML on a GPU, RAPL on a CPU.
pub trait Monitor {
    /// The current state of the device, if it reports it.
    fn state(&mut self) -> Option<DeviceState>;

    /// Joules that the device has used since a moment that does not change, and where that was
    /// read. `None` where there is no counter, which is not the same as 0.
    fn joules(&mut self) -> Option<(f64, EnergySource)>;
}

/// A monitor without states and energies.
#[derive(Debug, Clone, Copy, Default)]
pub struct Unwatched;

impl Monitor for Unwatched {
    fn state(&mut self) -> Option<DeviceState> {
        None
    }

    fn joules(&mut self) -> Option<(f64, EnergySource)> {
        None
    }
}

/// What to measure besides time and memory.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Measure {
    /// When timing stops.
    pub repetition: Repetition,
    /// The window over which energy is measured; `None` for no energy.
    pub energy: Option<Duration>,
    /// Whether FLOPs are counted by hardware counters.
    pub count: bool,
}

/// The shortest window over which energy is measured. Counters are updated about ten times per
/// second, and some GPUs sample a quarter of the time only (arXiv 2312.02741), so that shorter ones
/// tell little.
pub const SHORTEST_WINDOW: Duration = Duration::from_secs(2);

/// How long a workload runs before a window for energy: power follows the load with a delay, and
/// the counter is as old as its last update, at the beginning as at the end.
const BEFORE_WINDOW: Duration = Duration::from_millis(300);

/// An error of measuring a row.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MeasureError {
    /// The engine failed.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// The output is wrong, so that its time means nothing.
    #[error(
        "output of {engine} differs from {} by {:.3e} of its magnitude; {:.3e} is allowed",
        check.reference, check.error, check.bound
    )]
    Wrong {
        /// The engine.
        engine: &'static str,
        /// The comparison.
        check: Check,
    },
    /// The engine reported an impossible time.
    #[error("{engine} reported {nanoseconds} ns for a run; expected a positive number")]
    Time {
        /// The engine.
        engine: &'static str,
        /// The time.
        nanoseconds: f64,
    },
}

impl Hint for MeasureError {
    fn hint(&self) -> Option<Text<'_>> {
        match self {
            Self::Engine(error) => error.hint(),
            Self::Wrong { .. } | Self::Time { .. } => None,
        }
    }

    fn kind(&self) -> ErrorKind {
        match self {
            Self::Engine(error) => error.kind(),
            Self::Wrong { .. } | Self::Time { .. } => ErrorKind::Failed,
        }
    }
}

/// Measures a workload: opened, checked against a reference, timed; then its memory, energy and
/// counted FLOPs, as far as they are requested and can be had.
///
/// # Errors
/// [`MeasureError::Wrong`] where the output is beyond its bound; what the engine says.
pub fn measure(
    engine: &dyn Engine,
    workload: &Workload,
    precision: Precision,
    mode: Mode,
    what: &Measure,
    monitor: &mut dyn Monitor,
) -> Result<Row, MeasureError> {
    let before = monitor.state();
    let open = || engine.open(workload, precision, mode);
    let begin = Instant::now();
    let mut session = open()?;
    let opened = begin.elapsed();
    let check = session.check()?;
    // Not `>`, since NaN exceeds any bound.
    if !matches!(check.error.partial_cmp(&check.bound), Some(order) if order.is_le()) {
        return Err(MeasureError::Wrong { engine: engine.name(), check });
    }
    let time = match mode {
        Mode::Call => placed::time(session.as_mut(), &open, opened, &what.repetition)?,
        Mode::Stream | Mode::Graph => session.time(&what.repetition)?,
    };
    let state = state_of(before, monitor.state());
    let fault = [time.median_ns, time.low_ns, time.high_ns, time.minimum_ns]
        .into_iter()
        .find(|nanoseconds| !(nanoseconds.is_finite() && *nanoseconds > 0.0));
    if let Some(nanoseconds) = fault {
        return Err(MeasureError::Time { engine: engine.name(), nanoseconds });
    }
    let energy = match what.energy {
        Some(window) => energy(session.as_mut(), window.max(SHORTEST_WINDOW), monitor)?,
        None => None,
    };
    let mut remarks = session.remarks();
    let counted_flops = if what.count { counted(session.as_mut(), &mut remarks) } else { None };
    let measurement = Measurement {
        time,
        memory_bytes: session.memory_bytes(),
        device_memory_bytes: session.device_memory_bytes(),
        energy,
        counted_flops,
        algorithms: session.algorithms(),
        check: Some(rounded(check)),
        state,
        remarks,
    };
    Ok(Row {
        workload: workload.clone(),
        engine: engine.name().to_owned(),
        mode,
        precision,
        threads: engine.threads(),
        measurement,
    })
}

/// With three digits: more of them say nothing, and were a fifth of a compressed file.
fn rounded(check: Check) -> Check {
    let round = |number: f64| format!("{number:.2e}").parse().unwrap_or(number);
    Check { error: round(check.error), bound: round(check.bound), ..check }
}

/// FLOPs of a run. Counters that fail take neither time nor energy with them, which are measured by
/// then: the row says why it has no count.
fn counted(session: &mut dyn Session, remarks: &mut Vec<String>) -> Option<u64> {
    match session.counted_flops() {
        Ok(counted) => counted,
        Err(error) => {
            remarks.push(format!("FLOPs were not counted: {}", flopgap_files::chain(&error)));
            None
        }
    }
}

/// Clocks and throttling as they were under load; the temperature from before it.
fn state_of(before: Option<DeviceState>, under_load: Option<DeviceState>) -> Option<DeviceState> {
    match (before, under_load) {
        (Some(before), Some(loaded)) => {
            Some(DeviceState { temperature_c: before.temperature_c.or(loaded.temperature_c), ..loaded })
        }
        (before, under_load) => under_load.or(before),
    }
}

/// Energy of a run, from a window of many, or `None` where there is no counter.
fn energy(
    session: &mut dyn Session,
    window: Duration,
    monitor: &mut dyn Monitor,
) -> Result<Option<Energy>, EngineError> {
    if monitor.joules().is_none() {
        return Ok(None);
    }
    session.run_for(BEFORE_WINDOW)?;
    let Some((first, source)) = monitor.joules() else { return Ok(None) };
    let begin = Instant::now();
    let runs = session.run_for(window)?;
    let window_s = begin.elapsed().as_secs_f64();
    let Some((last, _)) = monitor.joules() else { return Ok(None) };
    let used = last - first;
    // A counter that did not move, or went back because it wrapped, has measured nothing.
    if !(used.is_finite() && used > 0.0) || runs == 0 {
        return Ok(None);
    }
    Ok(Some(Energy { joules: used / runs as f64, window_s, watts: used / window_s, source }))
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use crate::{Origin, Timing};
    use flopgap_graph::{Epilogue, Op, Step};

    use super::*;

    /// What a fake engine gives back.
    struct Fake {
        origin: Origin,
        error: f64,
        nanoseconds: f64,
        /// Whether counters can be read.
        counts: bool,
        /// What was called, in order.
        calls: Cell<Vec<&'static str>>,
    }

    fn fake(error: f64, nanoseconds: f64) -> Fake {
        Fake { origin: Origin::default(), error, nanoseconds, counts: true, calls: Cell::default() }
    }

    impl Fake {
        fn called(&self, what: &'static str) {
            let mut calls = self.calls.take();
            calls.push(what);
            self.calls.set(calls);
        }
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
        fn threads(&self) -> u32 {
            2
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
            Ok(Box::new(Opened(self)))
        }
    }

    struct Opened<'a>(&'a Fake);

    impl Session for Opened<'_> {
        fn check(&mut self) -> Result<Check, EngineError> {
            self.0.called("check");
            Ok(Check { reference: "fp64".to_owned(), error: self.0.error, bound: 1e-3 })
        }
        fn time(&mut self, _: &Repetition) -> Result<Timing, EngineError> {
            self.0.called("time");
            let ns = self.0.nanoseconds;
            Ok(Timing {
                median_ns: ns,
                low_ns: ns,
                high_ns: ns,
                minimum_ns: ns,
                runs: 10,
                capped: false,
                wall_ns: None,
            })
        }
        fn run_for(&mut self, duration: Duration) -> Result<u64, EngineError> {
            self.0.called("run for");
            // Time passes without waiting for it: a run a millisecond.
            Ok(u64::try_from(duration.as_millis()).unwrap())
        }
        fn memory_bytes(&self) -> Option<u64> {
            Some(4096)
        }
        fn device_memory_bytes(&self) -> Option<u64> {
            None
        }
        fn counted_flops(&mut self) -> Result<Option<u64>, EngineError> {
            self.0.called("count");
            if self.0.counts {
                return Ok(Some(128));
            }
            Err(EngineError::Failed { action: "count".to_owned(), message: "no permission".to_owned() })
        }
        fn remarks(&self) -> Vec<String> {
            vec!["made up".to_owned()]
        }
    }

    /// Gives 100 J more whenever it is asked, and gets warmer.
    struct Watched(u32);

    impl Monitor for Watched {
        fn state(&mut self) -> Option<DeviceState> {
            self.0 += 1;
            Some(DeviceState {
                temperature_c: Some(40 + self.0),
                clock_mhz: Some(100 * self.0),
                ..DeviceState::default()
            })
        }
        fn joules(&mut self) -> Option<(f64, EnergySource)> {
            self.0 += 1;
            Some((f64::from(self.0) * 100.0, EnergySource::Nvml))
        }
    }

    fn run(engine: &Fake, energy: bool, count: bool, monitor: &mut dyn Monitor) -> Result<Row, MeasureError> {
        let step = Step { op: Op::Empty, epilogue: Epilogue::default() };
        let energy = energy.then_some(Duration::from_millis(1));
        let what = Measure { repetition: Repetition::default(), energy, count };
        measure(engine, &Workload::Step(step), Precision::Fp32, Mode::Call, &what, monitor)
    }

    #[test]
    fn a_row_has_what_was_asked_for_and_nothing_else() {
        let engine = fake(1.2345e-4, 250.0);
        let row = run(&engine, false, false, &mut Unwatched).unwrap();
        assert_eq!(engine.calls.take(), ["check", "time"]);
        assert_eq!((row.engine.as_str(), row.threads), ("fake", 2));
        let Measurement { time, memory_bytes, energy, counted_flops, state, remarks, check, .. } =
            row.measurement;
        assert!((time.median_ns - 250.0).abs() < f64::EPSILON);
        assert_eq!((memory_bytes, energy, counted_flops, state), (Some(4096), None, None, None));
        assert_eq!(remarks, ["made up"]);
        let expected = Check { reference: "fp64".to_owned(), error: 1.23e-4, bound: 1e-3 };
        assert_eq!(check, Some(expected));
    }

    #[test]
    fn energy_is_of_a_run_and_the_window_is_never_short() {
        let engine = fake(0.0, 250.0);
        let row = run(&engine, true, true, &mut Watched(0)).unwrap();
        assert_eq!(engine.calls.take(), ["check", "time", "run for", "run for", "count"]);
        let energy = row.measurement.energy.unwrap();
        // 100 J over the 2,000 runs of the shortest window, although 1 ms was requested.
        assert!((energy.joules - 0.05).abs() < 1e-12, "{energy:?}");
        assert_eq!(row.measurement.counted_flops, Some(128));
        let state = row.measurement.state.unwrap();
        assert_eq!((state.temperature_c, state.clock_mhz), (Some(41), Some(200)));
    }

    #[test]
    fn no_counter_gives_no_energy() {
        let engine = fake(0.0, 250.0);
        assert_eq!(run(&engine, true, false, &mut Unwatched).unwrap().measurement.energy, None);
        assert_eq!(engine.calls.take(), ["check", "time"]);
    }

    #[test]
    fn counters_that_fail_leave_the_time() {
        let engine = Fake { counts: false, ..fake(0.0, 250.0) };
        let measurement = run(&engine, false, true, &mut Unwatched).unwrap().measurement;
        assert_eq!(measurement.counted_flops, None);
        assert_eq!(measurement.remarks, ["made up", "FLOPs were not counted: count: no permission"]);
    }

    #[test]
    fn a_wrong_output_is_refused_before_it_is_timed() {
        for error in [2e-3, f64::NAN] {
            let engine = fake(error, 250.0);
            let message = run(&engine, false, false, &mut Unwatched).unwrap_err().to_string();
            assert!(message.starts_with("output of fake differs from "), "{message}");
            assert_eq!(engine.calls.take(), ["check"]);
        }
    }

    #[test]
    fn impossible_times_are_refused() {
        for nanoseconds in [0.0, -1.0, f64::NAN] {
            let error = run(&fake(0.0, nanoseconds), false, false, &mut Unwatched).unwrap_err();
            assert!(matches!(error, MeasureError::Time { .. }), "{error}");
        }
    }
}

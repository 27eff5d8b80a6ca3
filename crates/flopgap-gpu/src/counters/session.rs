//! A session: runs the work in its passes and pairs launches and regions with counts.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::calibration::Calibration;
use super::cupti::Cupti;
use super::launches::{Recording, Watch};
use super::pass::{Done, Pass};
use super::range::{Mode, RangeProfiler};
use super::tally::Tally;
use super::{
    Chip, CounterError, CounterSource, LaunchCounts, MetricPlan, RegionCounts, Regions, Rows, Work, WorkError,
};
use crate::context::Context;
use crate::error::During as _;

/// Counts what this process does on one GPU.
///
/// A process has one session at a time, on one GPU: CUPTI 13.0 crashes with two. Count several GPUs
/// from a process each.
///
/// ```no_run
/// use flopgap_gpu::counters::{Chip, CounterSession, Preset};
///
/// let gpu = flopgap_gpu::Context::new(0)?;
/// let metrics = Chip::new(&gpu)?.preset(Preset::Flops);
/// let mut session = CounterSession::new(&gpu, &metrics)?;
/// let rows = session.per_launch(100, &mut |regions| {
///     regions.within("forward", |_| {
///         // launch kernels here
///         Ok(())
///     })
/// })?;
/// for row in rows {
///     println!("{} {:?} {:?}", row.launch.symbol, row.launch.grid, row.counts);
/// }
/// # Ok::<(), flopgap_gpu::counters::CounterError>(())
/// ```
///
/// # In steps
///
/// Work that is no closure (an interpreter that runs a `with` block, say) is counted in steps:
/// [`begin`](Self::begin), and for each pass [`start_pass`](Self::start_pass), [`Regions::enter`]
/// and [`Regions::leave`] on the session itself, and [`end_pass`](Self::end_pass) until it says
/// that all passes are done; then [`launches`](Self::launches) or [`regions`](Self::regions). The
/// steps may come from different threads.
#[derive(Debug)]
pub struct CounterSession {
    /// Shared with what is called before launches.
    tally: Arc<Mutex<Tally>>,
    /// While the session is [parked](CounterSession::park), nobody watches.
    watch: Option<Watch>,
    calibration: Calibration,
    check: Check,
    metrics: Vec<String>,
    passes: usize,
    context: Context,
    measurement: Option<Measurement>,
    /// Dropped last.
    _claim: Claim,
}

/// The right to be the only session of the process, watching or parked.
#[derive(Debug)]
struct Claim;

static CLAIMED: AtomicBool = AtomicBool::new(false);

impl Claim {
    fn check_free() -> Result<(), CounterError> {
        if CLAIMED.load(Ordering::Acquire) { Err(Self::busy()) } else { Ok(()) }
    }

    fn take() -> Result<Self, CounterError> {
        if CLAIMED.swap(true, Ordering::AcqRel) { Err(Self::busy()) } else { Ok(Claim) }
    }

    fn busy() -> CounterError {
        let message = "this process has a session already".to_owned();
        CounterError::Busy { function: "CounterSession::new", message }
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        CLAIMED.store(false, Ordering::Release);
    }
}

/// A measurement under way.
#[derive(Debug)]
struct Measurement {
    mode: Mode,
    /// Completed passes.
    passes: usize,
    /// The result of the first pass.
    first: Option<Done>,
    /// The pass that is under way.
    pass: Option<Pass>,
    complete: bool,
}

/// Options of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SessionOptions {
    /// When to check that nothing else in the process traces kernels.
    pub checks: Checks,
    /// Take CUPTI away from another client of this process that has subscribed to it.
    /// `torch.profiler` stays subscribed after its first use, also while it records nothing, and
    /// subscribes again when it records next. Do not ask for this while it records.
    pub takes_over: bool,
}

/// When a session checks that nothing else in the process traces kernels.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Checks {
    /// When it is opened, and with every measurement. Where no metric has a known count, that takes
    /// a measurement of its own.
    #[default]
    Always,
    /// When it is opened, and with every measurement where that costs nothing. Tracing that begins
    /// later then goes unnoticed where only hardware events are counted; it adds the few bytes and
    /// instructions with which CUPTI takes the times of a kernel.
    Opening,
}

/// How a measurement is checked, in addition to the check when the session is opened. Tracing
/// spoils all metrics: of a kernel that moves 512 bytes through the first-level cache, 544 were
/// counted on an H200.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Check {
    /// The calibration is its last row: what is counted of it is known.
    LastRow,
    /// The calibration is counted after it.
    Afterwards,
    /// It is not.
    Never,
}

impl Check {
    fn new(metrics: &[String], checks: Checks) -> Self {
        match (Calibration::knows_any(metrics), checks) {
            (true, _) => Check::LastRow,
            (false, Checks::Always) => Check::Afterwards,
            (false, Checks::Opening) => Check::Never,
        }
    }
}

impl CounterSession {
    /// A session that counts these metrics on an open GPU.
    ///
    /// # Errors
    /// CUPTI missing, no permission to read counters, a metric that the chip does not have;
    /// [`CounterError::Traced`] when something else in this process traces kernels.
    pub fn new<S: AsRef<str>>(context: &Context, metrics: &[S]) -> Result<Self, CounterError> {
        // Asked first: what the chip can count cannot be asked while something is counted.
        Claim::check_free()?;
        Self::on_chip(context, &Chip::new(context)?, metrics)
    }

    /// [`CounterSession::new`] where the chip is known already.
    ///
    /// # Errors
    /// As [`CounterSession::new`].
    pub fn on_chip<S: AsRef<str>>(
        context: &Context,
        chip: &Chip,
        metrics: &[S],
    ) -> Result<Self, CounterError> {
        Self::planned(context, chip, chip.plan(metrics)?, SessionOptions::default())
    }

    /// A session for a plan of this chip.
    ///
    /// # Errors
    /// As [`CounterSession::new`].
    pub fn planned(
        context: &Context,
        chip: &Chip,
        plan: MetricPlan,
        options: SessionOptions,
    ) -> Result<Self, CounterError> {
        let cupti = Cupti::get()?;
        bind(context)?;
        let claim = Claim::take()?;
        let watch = Watch::new(cupti, context.cuda().cu_ctx(), options.takes_over)?;
        // CUPTI may have been detached since the chip was asked.
        cupti.start()?;
        let calibration = Calibration::new(context, chip)?;
        calibration.run(cupti, context, &watch)?;
        let profiler = RangeProfiler::enable(cupti, context)?;
        let (metrics, passes) = (plan.metrics().to_vec(), plan.passes());
        let check = Check::new(&metrics, options.checks);
        let tally = Tally::new(profiler, plan, context.clone(), check == Check::LastRow);
        Ok(CounterSession {
            tally: Arc::new(Mutex::new(tally)),
            watch: Some(watch),
            calibration,
            check,
            metrics,
            passes,
            context: context.clone(),
            measurement: None,
            _claim: claim,
        })
    }

    /// The metrics, in the order of the counts.
    pub fn metrics(&self) -> &[String] {
        &self.metrics
    }

    /// How often the work is run for one measurement.
    pub fn passes(&self) -> usize {
        self.passes
    }

    /// Runs the work and returns the counts of every launch: see [`CounterSource::per_launch`].
    ///
    /// # Errors
    /// As described there.
    pub fn per_launch(
        &mut self,
        expected: usize,
        work: &mut Work<'_>,
    ) -> Result<Vec<LaunchCounts>, CounterError> {
        self.run(Rows::Launches, expected, work)?;
        self.launches()
    }

    /// Runs the work without counting it and returns its launches: see
    /// [`CounterSource::uncounted`]. A measurement that is under way is given up.
    ///
    /// # Errors
    /// As described there.
    pub fn uncounted(&mut self, work: &mut Work<'_>) -> Result<Vec<LaunchCounts>, CounterError> {
        self.abandon();
        bind(&self.context)?;
        self.watch()?.take();
        let pass = Some(Pass::new(Mode::Launch));
        self.measurement =
            Some(Measurement { mode: Mode::Launch, passes: 0, first: None, pass, complete: false });
        let running = Running(self);
        let worked = work(&mut *running.0).map_err(of_work);
        let session = &mut *running.0;
        let Some(mut pass) = session.measurement.take().and_then(|measurement| measurement.pass) else {
            return Err(CounterError::NoRegion { what: "the work ended its own pass".to_owned() });
        };
        let watch = watching(session.watch.as_ref())?;
        let open = pass.close(&mut locked(&session.tally), watch);
        let synchronized = session.context.synchronize();
        let Recording { launches, graphs } = watch.take();
        worked?;
        refuse_open(open?)?;
        synchronized?;
        if graphs > 0 {
            return Err(CounterError::Graphs { graphs });
        }
        let none = vec![Vec::new(); launches.len()];
        Ok(pass.done(launches).launches(none))
    }

    /// Runs the work and returns the counts of every region: see [`CounterSource::per_region`].
    ///
    /// # Errors
    /// As described there.
    pub fn per_region(
        &mut self,
        expected: usize,
        work: &mut Work<'_>,
    ) -> Result<Vec<RegionCounts>, CounterError> {
        self.run(Rows::Regions, expected, work)?;
        self.regions()
    }

    /// Lets others use CUPTI until the next measurement begins, which is faster than opening
    /// another session: 0.05 s against 0.35 s on an H200. The counters of the GPU stay reserved for
    /// this process. A measurement that is under way is given up.
    pub fn park(&mut self) {
        self.abandon();
        self.watch = None;
    }

    /// Ends the session and takes CUPTI out of the process (`cuptiFinalize`), with what it adds to
    /// every launch: 0.5 µs on the host of an H200, which a session that is only dropped leaves
    /// there. Every other client of CUPTI in the process loses its subscription. Another session
    /// can be opened later.
    ///
    /// No other thread should call CUDA meanwhile: CUPTI does not say that it waits for such calls.
    ///
    /// # Errors
    /// When CUPTI refuses.
    pub fn detach(self) -> Result<(), CounterError> {
        let cupti = Cupti::get()?;
        bind(&self.context)?;
        drop(self);
        cupti.finalize()
    }

    /// Begins a measurement that is expected to have so many rows: see
    /// [`CounterSource::per_launch`]. One that is under way is given up.
    ///
    /// # Errors
    /// When CUPTI refuses; [`CounterError::Busy`] where the session was parked and another client
    /// has subscribed since: open a new one.
    pub fn begin(&mut self, rows: Rows, expected: usize) -> Result<(), CounterError> {
        self.abandon();
        bind(&self.context)?;
        self.watch()?;
        let mode = rows.into();
        locked(&self.tally).begin(mode, expected)?;
        self.measurement = Some(Measurement { mode, passes: 0, first: None, pass: None, complete: false });
        Ok(())
    }

    /// Watches launches again, where the session was parked.
    fn watch(&mut self) -> Result<&Watch, CounterError> {
        if self.watch.is_none() {
            self.watch = Some(Watch::new(Cupti::get()?, self.context.cuda().cu_ctx(), false)?);
        }
        watching(self.watch.as_ref())
    }

    /// Begins the next pass. All passes must do the same.
    ///
    /// # Errors
    /// When CUPTI refuses, or no measurement has begun.
    pub fn start_pass(&mut self) -> Result<(), CounterError> {
        bind(&self.context)?;
        let measurement = begun(self.measurement.as_mut())?;
        if measurement.complete || measurement.passes == self.passes {
            return Err(CounterError::TooManyPasses { planned: self.passes });
        }
        let watch = watching(self.watch.as_ref())?;
        watch.take();
        locked(&self.tally).start_pass()?;
        if measurement.mode == Mode::Launch {
            let tally = self.tally.clone();
            watch.in_turn(Some(Arc::new(move |launches| locked(&tally).make_room_or_remember(launches))));
        }
        measurement.pass = Some(Pass::new(measurement.mode));
        Ok(())
    }

    /// Ends a pass after all that it launched has run. Returns whether it was the last.
    ///
    /// # Errors
    /// A region that is still open; launches that cannot be distinguished; a pass that did
    /// something else than the first; of several passes, more rows than were expected; counts that
    /// are wrong ([`CounterError::Traced`]). The measurement is given up then, and another can
    /// begin.
    pub fn end_pass(&mut self) -> Result<bool, CounterError> {
        let ended = self.ended(Ok(()));
        if ended.is_err() {
            self.abandon();
        }
        ended
    }

    /// [`CounterSession::end_pass`] after work that ended in this way.
    fn ended(&mut self, worked: Result<(), CounterError>) -> Result<bool, CounterError> {
        bind(&self.context)?;
        let measurement = begun(self.measurement.as_mut())?;
        let Some(mut pass) = measurement.pass.take() else {
            return Err(CounterError::NoRegion { what: "no pass to end".to_owned() });
        };
        let watch = watching(self.watch.as_ref())?;
        let open = pass.close(&mut locked(&self.tally), watch);
        let synchronized = self.context.synchronize();
        watch.in_turn(None);
        // The launches of the work, without those of the calibration.
        let Recording { launches, graphs } = watch.take();
        let check = self.check == Check::LastRow && worked.is_ok() && synchronized.is_ok();
        let mut tally = locked(&self.tally);
        let calibrated = if !check {
            Ok(())
        } else if measurement.mode == Mode::Launch {
            self.calibration.launch().map_err(CounterError::from)
        } else {
            tally.push_check(pass.rows()).and_then(|()| {
                let launched = self.calibration.launch();
                tally.pop()?;
                Ok(launched?)
            })
        };
        // Also after an error, so that the session can be used again. The first error is the one
        // that says why.
        let stopped = tally.stop();
        watch.take();
        worked?;
        refuse_open(open?)?;
        synchronized?;
        calibrated?;
        // The instructions of a graph's kernels are not counted (the rows say 0), hardware events
        // are. Said before what CUPTI says at the end of such a pass, which explains nothing.
        let by_instruction = self.metrics.iter().any(|metric| metric.contains("__sass_"));
        if graphs > 0 && (measurement.mode == Mode::Launch || by_instruction) {
            return Err(CounterError::Graphs { graphs });
        }
        let complete = stopped?;
        measurement.passes += 1;
        let done = pass.done(launches);
        if let Some(first) = &measurement.first {
            first.same_as(&done, measurement.passes)?;
        }
        tally.end_pass(done.rows(measurement.mode), complete)?;
        measurement.first.get_or_insert(done);
        measurement.complete = complete;
        if !complete && measurement.passes == self.passes {
            return Err(CounterError::TooManyPasses { planned: self.passes });
        }
        Ok(complete)
    }

    /// Gives a measurement up, with the pass that is under way. The session can be used again.
    pub fn abandon(&mut self) {
        let Some(measurement) = self.measurement.take() else { return };
        if let (Some(mut pass), Some(watch)) = (measurement.pass, self.watch.as_ref()) {
            // Errors here concern discarded data.
            let _ = bind(&self.context);
            let _ = pass.close(&mut locked(&self.tally), watch);
            let _ = self.context.synchronize();
            watch.in_turn(None);
            let _ = locked(&self.tally).stop();
            watch.take();
        }
    }

    /// The counts of every launch of the measurement that was just completed, in order.
    ///
    /// # Errors
    /// No such measurement is complete; a check afterwards finds wrong counts
    /// ([`CounterError::Traced`]).
    pub fn launches(&mut self) -> Result<Vec<LaunchCounts>, CounterError> {
        let (done, counts) = self.rows(Mode::Launch)?;
        Ok(done.launches(counts))
    }

    /// The counts of every region of the measurement that was just completed, in the order in which
    /// they were entered.
    ///
    /// # Errors
    /// As [`CounterSession::launches`].
    pub fn regions(&mut self) -> Result<Vec<RegionCounts>, CounterError> {
        let (done, counts) = self.rows(Mode::Region)?;
        Ok(done.regions(counts))
    }

    /// The launches and regions, and the counts of their rows.
    fn rows(&mut self, mode: Mode) -> Result<(Done, Vec<Vec<u64>>), CounterError> {
        let done = self
            .measurement
            .take_if(|measurement| measurement.complete && measurement.mode == mode)
            .and_then(|measurement| measurement.first);
        let Some(done) = done else {
            return Err(CounterError::NoRegion {
                what: "no measurement of this kind is complete".to_owned(),
            });
        };
        bind(&self.context)?;
        let mut tally = locked(&self.tally);
        let counts = tally.finish();
        if self.check == Check::Afterwards {
            tally.release()?;
            self.calibration.run(Cupti::get()?, &self.context, watching(self.watch.as_ref())?)?;
        }
        Ok((done, counts))
    }

    /// Runs the work in all its passes, and again where more rows came in the first of them than
    /// were expected.
    fn run(&mut self, rows: Rows, expected: usize, work: &mut Work<'_>) -> Result<(), CounterError> {
        match self.run_expecting(rows, expected, work) {
            Err(CounterError::TooMany { found, .. }) => self.run_expecting(rows, found, work),
            ended => ended,
        }
    }

    fn run_expecting(
        &mut self,
        rows: Rows,
        expected: usize,
        work: &mut Work<'_>,
    ) -> Result<(), CounterError> {
        self.begin(rows, expected)?;
        loop {
            self.start_pass()?;
            let running = Running(self);
            let worked = work(&mut *running.0).map_err(of_work);
            let ended = running.0.ended(worked);
            // Gives the measurement up, which after a pass that went well is not wanted.
            if ended.is_ok() {
                std::mem::forget(running);
            }
            if ended? {
                return Ok(());
            }
        }
    }
}

impl CounterSource for CounterSession {
    fn metrics(&self) -> &[String] {
        self.metrics()
    }

    fn passes(&self) -> usize {
        self.passes()
    }

    fn per_launch(
        &mut self,
        expected: usize,
        work: &mut Work<'_>,
    ) -> Result<Vec<LaunchCounts>, CounterError> {
        self.per_launch(expected, work)
    }

    fn uncounted(&mut self, work: &mut Work<'_>) -> Result<Vec<LaunchCounts>, CounterError> {
        self.uncounted(work)
    }

    fn per_region(
        &mut self,
        expected: usize,
        work: &mut Work<'_>,
    ) -> Result<Vec<RegionCounts>, CounterError> {
        self.per_region(expected, work)
    }
}

/// Regions of the pass that is under way, from whatever thread.
impl Regions for CounterSession {
    fn enter(&mut self, name: &str) -> Result<(), CounterError> {
        let pass = under_way(self.measurement.as_mut())?;
        bind(&self.context)?;
        pass.enter(name, &mut locked(&self.tally), watching(self.watch.as_ref())?)
    }

    fn leave(&mut self) -> Result<(), CounterError> {
        let pass = under_way(self.measurement.as_mut())?;
        bind(&self.context)?;
        pass.leave(&mut locked(&self.tally), watching(self.watch.as_ref())?)
    }
}

/// Gives the measurement up also when the work panics.
struct Running<'a>(&'a mut CounterSession);

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.0.abandon();
    }
}

fn locked(tally: &Mutex<Tally>) -> MutexGuard<'_, Tally> {
    tally.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Makes the GPU that of the calling thread.
fn bind(context: &Context) -> Result<(), CounterError> {
    Ok(context.cuda().bind_to_thread().during("use the GPU")?)
}

/// The error of work: one of counting, or any other.
fn of_work(error: WorkError) -> CounterError {
    match error.downcast::<CounterError>() {
        Ok(ours) => *ours,
        Err(theirs) => CounterError::Work(theirs),
    }
}

/// Refuses a pass that left a region open.
fn refuse_open(innermost: Option<String>) -> Result<(), CounterError> {
    match innermost {
        Some(name) => Err(CounterError::NoRegion { what: format!("region {name:?} was never left") }),
        None => Ok(()),
    }
}

fn begun(measurement: Option<&mut Measurement>) -> Result<&mut Measurement, CounterError> {
    measurement.ok_or_else(|| CounterError::NoRegion { what: "no measurement has begun".to_owned() })
}

fn watching(watch: Option<&Watch>) -> Result<&Watch, CounterError> {
    watch.ok_or_else(|| CounterError::NoRegion { what: "the session is parked".to_owned() })
}

fn under_way(measurement: Option<&mut Measurement>) -> Result<&mut Pass, CounterError> {
    measurement
        .and_then(|measurement| measurement.pass.as_mut())
        .ok_or_else(|| CounterError::NoRegion { what: "no pass is under way".to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_measurement_is_checked() {
        let of = |metrics: &[&str], checks| {
            Check::new(&metrics.iter().map(|&metric| metric.to_owned()).collect::<Vec<_>>(), checks)
        };
        let ffma = "smsp__sass_thread_inst_executed_op_ffma_pred_on.sum";
        let dfma = "smsp__sass_thread_inst_executed_op_dfma_pred_on.sum";
        assert_eq!(of(&["dram__bytes.sum", ffma], Checks::Always), Check::LastRow);
        assert_eq!(of(&["dram__bytes.sum", ffma], Checks::Opening), Check::LastRow);
        assert_eq!(of(&[dfma], Checks::Always), Check::Afterwards);
        assert_eq!(of(&["sm__inst_executed.sum"], Checks::Always), Check::Afterwards);
        assert_eq!(of(&["dram__bytes.sum", "gpu__time_duration.sum"], Checks::Always), Check::Afterwards);
        assert_eq!(of(&["dram__bytes.sum", "gpu__time_duration.sum"], Checks::Opening), Check::Never);
    }
}

//! A session: runs the work in its passes and pairs launches and regions with counts.

use std::sync::atomic::{AtomicBool, Ordering};

use super::calibration::Calibration;
use super::cupti::Cupti;
use super::exact::exact_count;
use super::launches::{Recording, Watch};
use super::pass::{Done, Pass};
use super::range::{Mode, RangeProfiler};
use super::{Chip, CounterError, CounterSource, LaunchCounts, MetricPlan, RegionCounts, Regions, Rows, Work};
use crate::context::Context;
use crate::error::GpuError;

/// Counts what this process does on one GPU.
///
/// A process has one session at a time, on one GPU: CUPTI 13.0 crashes with two. Count several GPUs
/// from a process each.
///
/// ```no_run
/// use flopgap_gpu::counters::{Chip, CounterSession, CounterSource as _, Preset};
///
/// let gpu = flopgap_gpu::Context::new(0)?;
/// let metrics = Chip::of(&gpu)?.preset(Preset::Flops);
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
    // Dropped in this order: the profiler must end before the context may.
    profiler: RangeProfiler,
    /// While the session is [parked](CounterSession::park), nobody watches.
    watch: Option<Watch>,
    calibration: Calibration,
    check: Check,
    plan: MetricPlan,
    chip: String,
    context: Context,
    /// For which rows it was seen that they come in the order of their launches or regions. CUPTI
    /// does not promise it.
    ordered: Vec<Mode>,
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
    limit: usize,
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
    fn of(metrics: &[String], checks: Checks) -> Self {
        match (Calibration::knows_any(metrics), checks) {
            (true, _) => Check::LastRow,
            (false, Checks::Always) => Check::Afterwards,
            (false, Checks::Opening) => Check::Never,
        }
    }

    /// Rows that it needs.
    fn rows(self) -> usize {
        usize::from(self == Check::LastRow)
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
        Self::on_chip(context, &Chip::of(context)?, metrics)
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
        let context = context.clone();
        Ok(CounterSession {
            profiler,
            watch: Some(watch),
            calibration,
            check: Check::of(plan.metrics(), options.checks),
            plan,
            chip: chip.name().to_owned(),
            context,
            ordered: Vec::new(),
            measurement: None,
            _claim: claim,
        })
    }

    /// The chip: `GH100`.
    pub fn chip(&self) -> &str {
        &self.chip
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

    /// Begins a measurement with room for so many rows. One that is under way is given up.
    ///
    /// # Errors
    /// When CUPTI refuses; [`CounterError::Busy`] where the session was parked and another client
    /// has subscribed since: open a new one.
    pub fn begin(&mut self, rows: Rows, limit: usize) -> Result<(), CounterError> {
        self.abandon();
        bind(&self.context)?;
        if self.watch.is_none() {
            self.watch = Some(Watch::new(Cupti::get()?, self.context.cuda().cu_ctx(), false)?);
        }
        let mode = rows.into();
        let room = limit.saturating_add(self.check.rows());
        self.profiler.prepare(mode, room, &self.plan, &self.context)?;
        self.measurement =
            Some(Measurement { mode, limit, passes: 0, first: None, pass: None, complete: false });
        Ok(())
    }

    /// Begins the next pass. All passes must do the same.
    ///
    /// # Errors
    /// When CUPTI refuses, or no measurement has begun.
    pub fn start_pass(&mut self) -> Result<(), CounterError> {
        bind(&self.context)?;
        let measurement = begun(self.measurement.as_mut())?;
        if measurement.complete || measurement.passes == self.plan.passes() {
            return Err(CounterError::TooManyPasses { planned: self.plan.passes() });
        }
        let watch = watching(self.watch.as_ref())?;
        watch.take();
        watch.in_turn(measurement.mode == Mode::Launch);
        self.profiler.start()?;
        measurement.pass = Some(Pass::new(measurement.mode, measurement.limit));
        Ok(())
    }

    /// Ends a pass after all that it launched has run. Returns whether it was the last.
    ///
    /// # Errors
    /// A region that is still open; launches that cannot be distinguished; a pass that did
    /// something else than the first. The measurement is given up then, and another can begin.
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
        let open = pass.close(&self.profiler, watch);
        let synchronized = self.context.synchronize();
        watch.in_turn(false);
        // The launches of the work, without those of the calibration.
        let Recording { launches, graphs } = watch.take();
        let check = self.check == Check::LastRow && worked.is_ok() && synchronized.is_ok();
        let calibrated = if !check {
            Ok(())
        } else if measurement.mode == Mode::Launch {
            self.calibration.launch().map_err(CounterError::from)
        } else {
            self.profiler.push(pass.rows()).and_then(|()| {
                let launched = self.calibration.launch();
                self.profiler.pop()?;
                Ok(launched?)
            })
        };
        // Also after an error, so that the session can be used again. The first error is the one
        // that says why.
        let stopped = self.profiler.stop();
        watch.take();
        worked?;
        if let Some(name) = open? {
            return Err(CounterError::NoRegion { what: format!("region {name:?} was never left") });
        }
        synchronized?;
        calibrated?;
        let complete = stopped?;
        // The instructions of a graph's kernels are not counted (the rows say 0), hardware events
        // are.
        let by_instruction = self.plan.metrics().iter().any(|metric| metric.contains("__sass_"));
        if graphs > 0 && (measurement.mode == Mode::Launch || by_instruction) {
            return Err(CounterError::Graphs { graphs });
        }
        measurement.passes += 1;
        let done = pass.done(launches);
        match &measurement.first {
            None => measurement.first = Some(done),
            Some(first) => first.same_as(&done, measurement.passes)?,
        }
        measurement.complete = complete;
        if !complete && measurement.passes == self.plan.passes() {
            return Err(CounterError::TooManyPasses { planned: self.plan.passes() });
        }
        Ok(complete)
    }

    /// Gives a measurement up, with the pass that is under way. The session can be used again.
    pub fn abandon(&mut self) {
        let Some(measurement) = self.measurement.take() else { return };
        if let (Some(mut pass), Some(watch)) = (measurement.pass, self.watch.as_ref()) {
            // Errors here concern discarded data.
            let _ = bind(&self.context);
            let _ = pass.close(&self.profiler, watch);
            let _ = self.context.synchronize();
            watch.in_turn(false);
            let _ = self.profiler.stop();
            watch.take();
        }
    }

    /// The counts of every launch of the measurement that was just completed, in order.
    ///
    /// # Errors
    /// More launches than there was room for; counts that cannot be distinguished or are wrong
    /// ([`CounterError::Traced`]).
    pub fn launches(&mut self) -> Result<Vec<LaunchCounts>, CounterError> {
        let (done, counts) = self.rows(Mode::Launch)?;
        let mut marks = done.marks.into_iter().peekable();
        let mut region = None;
        let rows = done.launches.into_iter().zip(counts).enumerate().map(|(index, (launch, counts))| {
            while let Some((_, label)) = marks.next_if(|(first, _)| *first <= index) {
                region = label;
            }
            LaunchCounts { launch, region: region.clone(), counts }
        });
        Ok(rows.collect())
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
            .and_then(|measurement| Some((measurement.first?, measurement.limit)));
        let Some((done, limit)) = done else {
            return Err(CounterError::NoRegion {
                what: "no measurement of this kind is complete".to_owned(),
            });
        };
        bind(&self.context)?;
        let counts = self.counts(mode, done.rows(mode), limit)?;
        Ok((done, counts))
    }

    /// Runs the work in all its passes.
    fn run(&mut self, rows: Rows, limit: usize, work: &mut Work<'_>) -> Result<(), CounterError> {
        self.begin(rows, limit)?;
        loop {
            self.start_pass()?;
            let running = Running(self);
            let worked = work(&mut *running.0).map_err(|error| match error.downcast::<CounterError>() {
                Ok(ours) => *ours,
                Err(theirs) => CounterError::Work(theirs),
            });
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

    /// The counts of `rows` rows, in order.
    fn counts(&mut self, mode: Mode, rows: usize, limit: usize) -> Result<Vec<Vec<u64>>, CounterError> {
        let dropped = self.profiler.decode()?;
        if dropped > 0 || rows > limit {
            return Err(CounterError::TooMany { limit, found: rows.max(limit + dropped) });
        }
        let (ranges, all) = (self.profiler.ranges()?, rows + self.check.rows());
        if ranges != all {
            return Err(CounterError::Mismatch { launches: all, ranges });
        }
        // A name costs as much as a value, so the order is checked once for each kind of row.
        if !self.ordered.contains(&mode) && all > 1 {
            self.profiler.check_order(mode, all)?;
            self.ordered.push(mode);
        }
        let mut values = vec![0.0; self.plan.metrics().len()];
        if self.check == Check::LastRow {
            self.plan.evaluate(self.profiler.data(), rows, &mut values)?;
            Calibration::check(self.plan.metrics(), &values)?;
        }
        let mut counts = Vec::with_capacity(rows);
        for row in 0..rows {
            self.plan.evaluate(self.profiler.data(), row, &mut values)?;
            let exact = values.iter().zip(self.plan.metrics()).map(|(&value, metric)| {
                exact_count(value).ok_or_else(|| CounterError::NotExact {
                    metric: metric.clone(),
                    range: row,
                    value,
                })
            });
            counts.push(exact.collect::<Result<_, _>>()?);
        }
        self.profiler.ended_well();
        if self.check == Check::Afterwards {
            self.profiler.release()?;
            self.calibration.run(Cupti::get()?, &self.context, watching(self.watch.as_ref())?)?;
        }
        Ok(counts)
    }
}

impl CounterSource for CounterSession {
    fn metrics(&self) -> &[String] {
        self.plan.metrics()
    }

    fn passes(&self) -> usize {
        self.plan.passes()
    }

    fn per_launch(&mut self, limit: usize, work: &mut Work<'_>) -> Result<Vec<LaunchCounts>, CounterError> {
        self.run(Rows::Launches, limit, work)?;
        self.launches()
    }

    fn per_region(&mut self, limit: usize, work: &mut Work<'_>) -> Result<Vec<RegionCounts>, CounterError> {
        self.run(Rows::Regions, limit, work)?;
        self.regions()
    }
}

/// Regions of the pass that is under way, from whatever thread.
impl Regions for CounterSession {
    fn enter(&mut self, name: &str) -> Result<(), CounterError> {
        let pass = under_way(self.measurement.as_mut())?;
        bind(&self.context)?;
        pass.enter(name, &self.profiler, watching(self.watch.as_ref())?)
    }

    fn leave(&mut self) -> Result<(), CounterError> {
        let pass = under_way(self.measurement.as_mut())?;
        bind(&self.context)?;
        pass.leave(&self.profiler, watching(self.watch.as_ref())?)
    }
}

/// Gives the measurement up also when the work panics.
struct Running<'a>(&'a mut CounterSession);

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.0.abandon();
    }
}

/// Makes the GPU that of the calling thread.
fn bind(context: &Context) -> Result<(), CounterError> {
    Ok(context.cuda().bind_to_thread().map_err(|error| GpuError::driver("use the GPU", error))?)
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
            Check::of(&metrics.iter().map(|&metric| metric.to_owned()).collect::<Vec<_>>(), checks)
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

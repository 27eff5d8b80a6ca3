//! A session: runs the work in its passes, follows its regions, and pairs launches with counts.

use std::mem::take;
use std::sync::Arc;

use super::calibration::Calibration;
use super::cupti::Cupti;
use super::launches::{Recording, Watch};
use super::range::{Mode, RangeProfiler};
use super::{
    Chip, CounterError, CounterSource, Launch, LaunchCounts, MetricPlan, RegionCounts, Regions, Work,
};
use crate::context::Context;
use crate::error::GpuError;

/// The largest whole number below which a 64-bit float holds every whole number.
const EXACT: f64 = 9_007_199_254_740_992.0;

/// Counts what this process does on one GPU.
///
/// A process has one session at a time, on one GPU: CUPTI 13.0 crashes with two. Count several GPUs from a process each.
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
#[derive(Debug)]
pub struct CounterSession {
    // Dropped in this order: the profiler must end before the context may.
    profiler: RangeProfiler,
    watch: Watch,
    calibration: Calibration,
    check: Check,
    plan: MetricPlan,
    chip: String,
    context: Context,
    /// For which rows it was seen that they come in the order of their launches or regions. CUPTI does not promise it.
    ordered: Vec<Mode>,
}

/// How a measurement is checked, beside the opening of the session. Tracing spoils all metrics: of a kernel that moves 512 bytes through the
/// first-level cache, 544 were counted on an H200.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Check {
    /// The calibration is its last row: what is counted of it is known.
    LastRow,
    /// The calibration is counted after it.
    Afterwards,
}

impl Check {
    fn of(metrics: &[String]) -> Self {
        if Calibration::knows_any(metrics) { Check::LastRow } else { Check::Afterwards }
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
    /// CUPTI missing, no permission to read counters, a metric that the chip does not have; [`CounterError::Traced`] when something else in
    /// this process traces kernels.
    pub fn new<S: AsRef<str>>(context: &Context, metrics: &[S]) -> Result<Self, CounterError> {
        // Asked first: what the chip can count cannot be asked while something is counted.
        Watch::check_free()?;
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
        let cupti = Cupti::get()?;
        let plan = chip.plan(metrics)?;
        context.cuda().bind_to_thread().map_err(|error| GpuError::driver("use the GPU", error))?;
        let calibration = Calibration::new(context, chip)?;
        let watch = Watch::new(cupti, context.cuda().cu_ctx())?;
        calibration.run(cupti, context, &watch)?;
        let profiler = RangeProfiler::enable(cupti, context)?;
        let context = context.clone();
        Ok(CounterSession {
            profiler,
            watch,
            calibration,
            check: Check::of(plan.metrics()),
            plan,
            chip: chip.name().to_owned(),
            context,
            ordered: Vec::new(),
        })
    }

    /// The chip: `GH100`.
    pub fn chip(&self) -> &str {
        &self.chip
    }

    /// Runs the work in all its passes. Returns what it launched (the same in all passes), and what it did in the last pass.
    fn run(&mut self, mode: Mode, limit: usize, work: &mut Work<'_>) -> Result<Ran, CounterError> {
        self.context.cuda().bind_to_thread().map_err(|error| GpuError::driver("use the GPU", error))?;
        let room = limit.saturating_add(self.check.rows());
        self.profiler.prepare(mode, room, &self.plan, &self.context)?;
        let mut first: Option<Ran> = None;
        for pass in 1..=self.plan.passes() {
            let (ran, complete) = self.pass(mode, limit, work)?;
            match &first {
                None => first = Some(ran),
                Some(first) => same_work(pass, first, &ran)?,
            }
            if complete {
                return first.ok_or(CounterError::TooManyPasses { planned: 0 });
            }
        }
        Err(CounterError::TooManyPasses { planned: self.plan.passes() })
    }

    /// Runs the work once. The second value says whether all passes are done.
    fn pass(&mut self, mode: Mode, limit: usize, work: &mut Work<'_>) -> Result<(Ran, bool), CounterError> {
        self.watch.take();
        self.profiler.start()?;
        let mut tracker = Tracker {
            profiler: &self.profiler,
            watch: &self.watch,
            mode,
            limit,
            open: Vec::new(),
            marks: Vec::new(),
            regions: Vec::new(),
            ended: false,
        };
        let worked = work(&mut tracker);
        let open = tracker.close();
        let synchronized = self.context.synchronize();
        // What the work launched, and nothing of the calibration.
        let Recording { launches, graphs, threads } = self.watch.take();
        let calibrated = if self.check == Check::LastRow && worked.is_ok() && synchronized.is_ok() {
            self.calibrate(mode, &tracker)
        } else {
            Ok(())
        };
        // Also after an error, so that the session can be used again. The first error is the one that says why.
        let stopped = tracker.stop();
        let (marks, regions) = (take(&mut tracker.marks), take(&mut tracker.regions));
        drop(tracker);
        worked.map_err(|error| match error.downcast::<CounterError>() {
            Ok(ours) => *ours,
            Err(theirs) => CounterError::Work(theirs),
        })?;
        if let Some(name) = open? {
            return Err(CounterError::NoRegion { what: format!("region {name:?} was never left") });
        }
        synchronized?;
        calibrated?;
        let complete = stopped?;
        self.watch.take();
        // The instructions of a graph's kernels are not counted (the rows say 0), hardware events are.
        let by_instruction = self.plan.metrics().iter().any(|metric| metric.contains("__sass_"));
        if graphs > 0 && (mode == Mode::Launch || by_instruction) {
            return Err(CounterError::Graphs { graphs });
        }
        if mode == Mode::Launch && threads.len() > 1 {
            return Err(CounterError::Threads { threads: threads.len() });
        }
        Ok((Ran { launches, marks, regions }, complete))
    }

    /// The last row of a measurement.
    fn calibrate(&self, mode: Mode, tracker: &Tracker<'_>) -> Result<(), CounterError> {
        match mode {
            Mode::Launch => Ok(self.calibration.launch()?),
            Mode::Region => {
                self.profiler.push(tracker.regions.len())?;
                let launched = self.calibration.launch();
                self.profiler.pop()?;
                Ok(launched?)
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
            self.calibration.run(Cupti::get()?, &self.context, &self.watch)?;
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
        let ran = self.run(Mode::Launch, limit, work)?;
        let counts = self.counts(Mode::Launch, ran.launches.len(), limit)?;
        let mut marks = ran.marks.into_iter().peekable();
        let mut region = None;
        let rows = ran.launches.into_iter().zip(counts).enumerate().map(|(index, (launch, counts))| {
            while let Some((_, label)) = marks.next_if(|(first, _)| *first <= index) {
                region = label;
            }
            LaunchCounts { launch, region: region.clone(), counts }
        });
        Ok(rows.collect())
    }

    fn per_region(&mut self, limit: usize, work: &mut Work<'_>) -> Result<Vec<RegionCounts>, CounterError> {
        let ran = self.run(Mode::Region, limit, work)?;
        let counts = self.counts(Mode::Region, ran.regions.len(), limit)?;
        let rows = ran.regions.into_iter().zip(counts).map(|(region, counts)| RegionCounts {
            region: region.name,
            launches: ran.launches.get(region.launches).unwrap_or_default().to_vec(),
            graphs: region.graphs,
            counts,
        });
        Ok(rows.collect())
    }
}

/// What the work did in a pass.
struct Ran {
    launches: Vec<Launch>,
    /// From which launch on which region is open.
    marks: Vec<(usize, Option<Arc<str>>)>,
    /// The regions that were entered and left.
    regions: Vec<Region>,
}

struct Region {
    name: Arc<str>,
    launches: std::ops::Range<usize>,
    graphs: usize,
}

/// Checks that a later pass did the same as the first.
fn same_work(pass: usize, first: &Ran, now: &Ran) -> Result<(), CounterError> {
    let different = |what| Err(CounterError::NotRepeatable { pass, what });
    if first.launches.len() != now.launches.len() {
        return different(format!("{} kernels, the first pass {}", now.launches.len(), first.launches.len()));
    }
    let mut pairs = first.launches.iter().zip(&now.launches).enumerate();
    if let Some((index, (before, after))) = pairs.find(|(_, (before, after))| before != after) {
        return different(format!(
            "{} {:?} {:?} as number {index}, the first pass {} {:?} {:?}",
            after.symbol, after.grid, after.block, before.symbol, before.grid, before.block
        ));
    }
    if !first.regions.iter().map(|region| &region.name).eq(now.regions.iter().map(|region| &region.name)) {
        return different("kernels in other regions".to_owned());
    }
    Ok(())
}

/// A count that the float holds exactly.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "whole, not negative, below 2^53"
)]
pub(super) fn exact_count(value: f64) -> Option<u64> {
    ((0.0..EXACT).contains(&value) && value.fract() == 0.0).then_some(value as u64)
}

/// Follows the regions of the work through one pass.
struct Tracker<'a> {
    profiler: &'a RangeProfiler,
    watch: &'a Watch,
    mode: Mode,
    limit: usize,
    open: Vec<String>,
    marks: Vec<(usize, Option<Arc<str>>)>,
    regions: Vec<Region>,
    /// Whether the pass was ended.
    ended: bool,
}

/// Ends the pass also when the work panics.
impl Drop for Tracker<'_> {
    fn drop(&mut self) {
        if !self.ended {
            let _ = self.close();
            let _ = self.stop();
        }
    }
}

impl Tracker<'_> {
    /// Ends the pass. Returns whether it was the last.
    fn stop(&mut self) -> Result<bool, CounterError> {
        self.ended = true;
        self.profiler.stop()
    }

    /// Leaves what is open. Returns the innermost region that was.
    fn close(&mut self) -> Result<Option<String>, CounterError> {
        let innermost = self.open.last().cloned();
        while !self.open.is_empty() {
            self.leave()?;
        }
        Ok(innermost)
    }

    fn mark(&mut self) {
        let label = (!self.open.is_empty()).then(|| self.open.join("/").into());
        self.marks.push((self.watch.launches(), label));
    }
}

impl Regions for Tracker<'_> {
    fn enter(&mut self, name: &str) -> Result<(), CounterError> {
        if self.mode == Mode::Region {
            if let Some(outer) = self.open.last() {
                return Err(CounterError::Nested { outer: outer.clone(), inner: name.to_owned() });
            }
            if self.regions.len() == self.limit {
                return Err(CounterError::TooMany { limit: self.limit, found: self.limit + 1 });
            }
            self.profiler.push(self.regions.len())?;
            let start = self.watch.launches();
            // `graphs` holds the count at the start until the region is left.
            self.regions.push(Region {
                name: name.into(),
                launches: start..start,
                graphs: self.watch.graphs(),
            });
        }
        self.open.push(name.to_owned());
        self.mark();
        Ok(())
    }

    fn leave(&mut self) -> Result<(), CounterError> {
        if self.open.pop().is_none() {
            return Err(CounterError::NoRegion { what: "no region to leave".to_owned() });
        }
        self.mark();
        if self.mode == Mode::Region {
            if let Some(region) = self.regions.last_mut() {
                region.launches.end = self.watch.launches();
                region.graphs = self.watch.graphs() - region.graphs;
            }
            self.profiler.pop()?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_measurement_is_checked() {
        let of = |metrics: &[&str]| {
            Check::of(&metrics.iter().map(|&metric| metric.to_owned()).collect::<Vec<_>>())
        };
        let ffma = "smsp__sass_thread_inst_executed_op_ffma_pred_on.sum";
        assert_eq!(of(&["dram__bytes.sum", ffma]), Check::LastRow);
        assert_eq!(of(&["smsp__sass_thread_inst_executed_op_dfma_pred_on.sum"]), Check::Afterwards);
        assert_eq!(of(&["sm__inst_executed.sum"]), Check::Afterwards);
        assert_eq!(of(&["dram__bytes.sum", "gpu__time_duration.sum"]), Check::Afterwards);
    }

    #[test]
    fn only_exact_counts_are_counts() {
        assert_eq!(exact_count(0.0), Some(0));
        assert_eq!(exact_count(9_007_199_254_740_991.0), Some(9_007_199_254_740_991));
        for value in [9_007_199_254_740_992.0, -1.0, 0.5, f64::NAN, f64::INFINITY] {
            assert_eq!(exact_count(value), None, "{value}");
        }
    }

    fn ran(launches: &[(&str, u32)], regions: &[&str]) -> Ran {
        let launch = |(symbol, blocks): &(&str, u32)| Launch {
            symbol: (*symbol).into(),
            grid: [*blocks, 1, 1],
            block: [1, 1, 1],
            shared_bytes: 0,
        };
        let region = |name: &&str| Region { name: (*name).into(), launches: 0..0, graphs: 0 };
        Ran {
            launches: launches.iter().map(launch).collect(),
            marks: Vec::new(),
            regions: regions.iter().map(region).collect(),
        }
    }

    #[test]
    fn a_pass_that_does_something_else_is_named() {
        let first = ran(&[("a", 1), ("b", 2)], &["r"]);
        assert!(same_work(2, &first, &ran(&[("a", 1), ("b", 2)], &["r"])).is_ok());
        let text = |now: &Ran| same_work(2, &first, now).unwrap_err().to_string();
        assert!(text(&ran(&[("a", 1)], &["r"])).contains("1 kernels, the first pass 2"));
        assert!(text(&ran(&[("a", 1), ("b", 3)], &["r"])).contains("b [3, 1, 1]"));
        assert!(text(&ran(&[("a", 1), ("b", 2)], &["s"])).contains("other regions"));
    }
}

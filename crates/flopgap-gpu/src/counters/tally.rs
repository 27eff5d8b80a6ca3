//! Rows of counts without a limit: CUPTI counts into an image with room for some rows, and where
//! the image is full, the counts are read and the next rows replace them.
//!
//! That is possible where all is counted in one pass. CUPTI finds the rows of a later pass in the
//! image of the first by names, and it names launches by numbers that go on from image to image.

use super::calibration::Calibration;
use super::exact::exact_count;
use super::range::{Mode, RangeProfiler};
use super::{CounterError, MetricPlan};
use crate::context::Context;

/// Rows that an image has room for at most. On an H200, CUPTI takes some 1.1 MB of the GPU's memory
/// for each. Reading an image and beginning again takes some 20 ms.
const MOST: usize = 512;

/// The rows of a measurement, counted in as many images as they need.
#[derive(Debug)]
pub(super) struct Tally {
    // Dropped in this order: the profiler must end before the context may.
    profiler: RangeProfiler,
    plan: MetricPlan,
    context: Context,
    /// Whether the last row is the calibration's.
    is_checked: bool,
    mode: Mode,
    /// Rows of the image that are for the work.
    room: usize,
    /// The first row in the image.
    first: usize,
    /// The counts of the rows that were read.
    counts: Vec<Vec<u64>>,
    /// What was wrong where no error could be returned.
    error: Option<CounterError>,
    /// For which rows it was seen that they come in the order of their launches or regions. CUPTI
    /// does not promise it.
    ordered: Vec<Mode>,
}

impl Tally {
    pub(super) fn new(profiler: RangeProfiler, plan: MetricPlan, context: Context, is_checked: bool) -> Self {
        Tally {
            profiler,
            plan,
            context,
            is_checked,
            mode: Mode::Launch,
            room: 0,
            first: 0,
            counts: Vec::new(),
            error: None,
            ordered: Vec::new(),
        }
    }

    /// Begins a measurement that is expected to have so many rows.
    pub(super) fn begin(&mut self, mode: Mode, expected: usize) -> Result<(), CounterError> {
        self.mode = mode;
        self.room = if self.is_read_at_once() { expected.clamp(1, MOST) } else { expected.max(1) };
        (self.first, self.counts) = (0, Vec::new());
        let room = self.room + usize::from(self.is_checked);
        self.profiler.prepare(mode, room, &self.plan, &self.context)?;
        self.profiler.clear(&self.plan)
    }

    /// Whether the counts of a row are complete when it ends.
    fn is_read_at_once(&self) -> bool {
        self.plan.passes() == 1
    }

    /// Begins the next pass.
    pub(super) fn start_pass(&mut self) -> Result<(), CounterError> {
        self.error = None;
        self.profiler.start()
    }

    /// Whether so many rows of this pass leave no room for another one, where room can be made.
    fn is_full(&self, rows: usize) -> bool {
        rows >= self.first + self.room && self.is_read_at_once()
    }

    /// Makes room for the row that follows so many of this pass. All of them have ended.
    fn make_room(&mut self, rows: usize) -> Result<(), CounterError> {
        if !self.is_full(rows) {
            return Ok(());
        }
        self.profiler.stop()?;
        self.read(rows - self.first, false)?;
        self.first = rows;
        self.profiler.clear(&self.plan)?;
        self.profiler.start()
    }

    /// [`Tally::make_room`] where no error can be returned: the end of the pass does.
    pub(super) fn make_room_or_remember(&mut self, rows: usize) {
        if self.error.is_none() {
            self.error = self.make_room(rows).err();
        }
    }

    pub(super) fn push(&mut self, row: usize) -> Result<(), CounterError> {
        if self.is_full(row) {
            // Kernels of regions that have ended may still run.
            self.context.synchronize()?;
            self.make_room(row)?;
        }
        self.profiler.push(row)
    }

    /// Begins the row of the calibration, for which there is always room.
    pub(super) fn push_check(&self, row: usize) -> Result<(), CounterError> {
        self.profiler.push(row)
    }

    pub(super) fn pop(&self) -> Result<(), CounterError> {
        self.profiler.pop()
    }

    /// Ends a pass, also after an error. Returns whether it was the last.
    pub(super) fn stop(&mut self) -> Result<bool, CounterError> {
        let stopped = self.profiler.stop();
        match self.error.take() {
            Some(error) => Err(error),
            None => stopped,
        }
    }

    /// After a pass that ended well and had so many rows: reads what is in the image, if the pass
    /// was the last.
    pub(super) fn end_pass(&mut self, rows: usize, was_last: bool) -> Result<(), CounterError> {
        let rows = rows.saturating_sub(self.first);
        if rows > self.room {
            return Err(CounterError::TooMany { expected: self.room, found: rows });
        }
        if was_last { self.read(rows, true) } else { Ok(()) }
    }

    /// The counts of all rows, of a measurement whose passes have all ended.
    pub(super) fn finish(&mut self) -> Vec<Vec<u64>> {
        self.profiler.ended_well();
        std::mem::take(&mut self.counts)
    }

    /// Releases the counters for another profiler.
    pub(super) fn release(&mut self) -> Result<(), CounterError> {
        self.profiler.release()
    }

    /// Reads an image with so many rows of the work; the last one has the calibration's, too.
    fn read(&mut self, rows: usize, is_last: bool) -> Result<(), CounterError> {
        let dropped = self.profiler.decode()?;
        let is_checked = is_last && self.is_checked;
        let all = rows + usize::from(is_checked);
        let ranges = self.profiler.ranges()? + dropped;
        if ranges != all {
            return Err(CounterError::Mismatch { launches: all, ranges });
        }
        // A name costs as much as a value, so the order is checked once for each kind of row.
        if !self.ordered.contains(&self.mode) && all > 1 {
            self.profiler.check_order(all)?;
            self.ordered.push(self.mode);
        }
        let mut values = vec![0.0; self.plan.metrics().len()];
        if is_checked {
            self.plan.evaluate(self.profiler.data(), rows, &mut values)?;
            Calibration::check(self.plan.metrics(), &values)?;
        }
        self.counts.reserve(rows);
        for row in 0..rows {
            self.plan.evaluate(self.profiler.data(), row, &mut values)?;
            let exact = values.iter().zip(self.plan.metrics()).map(|(&value, metric)| {
                exact_count(value).ok_or_else(|| CounterError::NotExact {
                    metric: metric.clone(),
                    range: self.first + row,
                    value,
                })
            });
            self.counts.push(exact.collect::<Result<_, _>>()?);
        }
        Ok(())
    }
}

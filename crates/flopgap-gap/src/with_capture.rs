//! A recording of replays together with that of the capture of their graphs.

use std::path::Path;
use std::sync::Arc;

use flopgap_files::present;
use flopgap_flops::torch::OperatorWork;
use flopgap_trace::{
    ActivitySample, ApiCall, Attribution, ClockCorrection, ClockSample, Copied, CorrelationId, CountedKernel,
    CountedStep, Frame, GpuActivity, GpuId, GpuNumber, Joined, Launched, Name, Operation, OperationTimes,
    Overhead, ProcessId, Range, RangeName, Ranges, ReadError, Recording, ThreadId, WorkKind,
};
use rustc_hash::{FxHashMap, FxHashSet};

/// A recording in which CUDA graphs are replayed, and one in which they were captured: what
/// launched a node of a graph is known from its capture alone.
///
/// All work and all times are those of the replays. Before them lie the calls, ranges and functions
/// of the capture, in processes of their own; calls whose work ran are left out.
pub struct WithCapture<'a> {
    replays: &'a dyn Recording,
    capture: &'a dyn Recording,
    /// When the capture ended, by its own clock.
    end: i64,
    /// The ranges of both; nothing where the capture has none.
    ranges: Option<Arc<Ranges>>,
    /// How many of them are of the replays.
    own_ranges: usize,
}

/// Sets apart the threads of a capture, which is often of the same process.
const OF_CAPTURE: i64 = 1 << 62;

fn thread(id: ThreadId) -> ThreadId {
    ThreadId(id.0 ^ OF_CAPTURE)
}

impl<'a> WithCapture<'a> {
    /// Puts a recording of a capture before one of replays.
    ///
    /// # Errors
    /// What keeps the capture from being read.
    pub fn new(replays: &'a dyn Recording, capture: &'a dyn Recording) -> Result<WithCapture<'a>, ReadError> {
        let mut end = i64::MIN;
        present(capture.each_call(&|_| true, &mut |call| end = end.max(call.end)))?;
        let captured = present(capture.ranges())?;
        if let Some(ranges) = &captured {
            end = ranges.ranges.iter().filter_map(|range| range.end).fold(end, i64::max);
        }
        let mut both = WithCapture { replays, capture, end, ranges: None, own_ranges: 0 };
        if let Some(captured) = captured {
            let own = present(replays.ranges())?.map(Arc::unwrap_or_clone).unwrap_or_default();
            both.own_ranges = own.ranges.len();
            both.ranges = Some(Arc::new(both.merged(own, &captured)));
        }
        Ok(both)
    }

    /// The ranges of the replays, and those of the capture before them.
    fn merged(&self, mut all: Ranges, captured: &Ranges) -> Ranges {
        let known: FxHashMap<RangeName, Name> =
            all.names.iter().map(|(at, name)| (name.clone(), at)).collect();
        let names: Vec<Name> = captured
            .names
            .iter()
            .map(|(_, name)| known.get(name).copied().unwrap_or_else(|| all.names.push(name.clone())))
            .collect();
        all.ranges.extend(captured.ranges.iter().map(|range| Range {
            start: self.time(range.start),
            end: Some(self.time(range.end.unwrap_or(self.end))),
            thread: thread(range.thread),
            name: names[range.name.index()],
            ..*range
        }));
        all
    }

    /// A time of the capture, before all times of the replays.
    const fn time(&self, time: i64) -> i64 {
        time.saturating_sub(self.end).saturating_sub(1)
    }
}

impl Recording for WithCapture<'_> {
    fn path(&self) -> &Path {
        self.replays.path()
    }

    fn ranges(&self) -> Result<Arc<Ranges>, ReadError> {
        self.ranges.clone().map_or_else(|| self.replays.ranges(), Ok)
    }

    fn launched(&self, attribution: Attribution) -> Result<Arc<Launched>, ReadError> {
        self.replays.launched(attribution)
    }

    fn operation_times(
        &self,
        within: Option<&[usize]>,
        attribution: Attribution,
    ) -> Result<OperationTimes, ReadError> {
        self.replays.operation_times(within, attribution)
    }

    fn gpu_activity(&self, attribution: Attribution) -> Result<Vec<GpuActivity>, ReadError> {
        self.replays.gpu_activity(attribution)
    }

    fn each_operation(
        &self,
        whole_graphs: bool,
        visit: &mut dyn FnMut(&Operation<'_>),
    ) -> Result<(), ReadError> {
        self.replays.each_operation(whole_graphs, visit)
    }

    fn each_call(
        &self,
        wanted: &dyn Fn(&str) -> bool,
        visit: &mut dyn FnMut(&ApiCall<'_>),
    ) -> Result<(), ReadError> {
        let mut ran: FxHashSet<(Option<ProcessId>, CorrelationId)> = FxHashSet::default();
        present(self.capture.each_operation(false, &mut |operation| {
            // What a graph runs is of no captured call.
            if operation.work.kind != WorkKind::Graph {
                ran.extend(operation.work.correlation.map(|id| (operation.work.process, id)));
            }
        }))?;
        present(self.capture.each_call(wanted, &mut |call| {
            let process = Some(call.thread.process());
            let has_run = |id: CorrelationId| ran.contains(&(process, id)) || ran.contains(&(None, id));
            if !call.correlation.is_some_and(has_run) {
                visit(&ApiCall {
                    thread: thread(call.thread),
                    start: self.time(call.start),
                    end: self.time(call.end),
                    correlation: None,
                    ..*call
                });
            }
        }))?;
        self.replays.each_call(wanted, visit)
    }

    fn each_copy(&self, visit: &mut dyn FnMut(&Copied)) -> Result<(), ReadError> {
        self.replays.each_copy(visit)
    }

    fn overheads(&self) -> Result<Vec<Overhead>, ReadError> {
        self.replays.overheads()
    }

    fn frames(&self) -> Result<Vec<Frame>, ReadError> {
        let mut all = self.replays.frames()?;
        all.extend(self.capture.frames()?.into_iter().map(|frame| Frame {
            thread: thread(frame.thread),
            start: self.time(frame.start),
            end: self.time(frame.end),
            ..frame
        }));
        Ok(all)
    }

    fn counted(&self) -> Result<Vec<CountedKernel>, ReadError> {
        self.replays.counted()
    }

    fn counted_steps(&self) -> Result<Vec<CountedStep>, ReadError> {
        self.replays.counted_steps()
    }

    fn peak_memory(&self) -> Option<u64> {
        self.replays.peak_memory()
    }

    fn clock_samples(&self) -> Result<Vec<ClockSample>, ReadError> {
        self.replays.clock_samples()
    }

    fn activity_samples(&self) -> Result<Vec<ActivitySample>, ReadError> {
        self.replays.activity_samples()
    }

    fn highest_clocks(&self) -> Result<Vec<(GpuId, i64)>, ReadError> {
        self.replays.highest_clocks()
    }

    fn span(&self) -> Result<Option<(i64, i64)>, ReadError> {
        self.replays.span()
    }

    fn gpu_numbers(&self) -> Result<Vec<GpuNumber>, ReadError> {
        self.replays.gpu_numbers()
    }

    fn gpu_names(&self) -> Result<Vec<String>, ReadError> {
        self.replays.gpu_names()
    }

    fn operator_work(&self) -> Result<Arc<[(usize, OperatorWork)]>, ReadError> {
        let Some(captured) = present(self.capture.operator_work())? else {
            return self.replays.operator_work();
        };
        let own = present(self.replays.operator_work())?.unwrap_or_default();
        let captured = captured.iter().map(|(range, work)| (self.own_ranges + range, *work));
        Ok(own.iter().copied().chain(captured).collect())
    }

    fn ranks(&self) -> Vec<(ProcessId, u64)> {
        self.replays.ranks()
    }

    fn joined(&self) -> Option<Joined> {
        self.replays.joined()
    }

    fn is_one_machine(&self) -> bool {
        self.replays.is_one_machine()
    }

    fn part(&self, process: ProcessId) -> usize {
        self.replays.part(process)
    }

    fn corrections(&self) -> &[ClockCorrection] {
        self.replays.corrections()
    }

    fn world_size(&self) -> Option<u64> {
        self.replays.world_size()
    }
}

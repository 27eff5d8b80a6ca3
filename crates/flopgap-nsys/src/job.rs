//! Exports of the ranks of one job as one recording.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use flopgap_files::present;
use flopgap_trace::{
    ApiCall, ClockCorrection, Copied, CountedKernel, CountedStep, GpuNumber, Joined, Kinds, LaunchCalls,
    Name, Names, Nesting, Operation, OperationSums, Overhead, Owners, ProcessId, RangeName, ReadError,
    Recording, ThreadId, Work, WorkKind,
};
use rustc_hash::FxHashMap;

use crate::error::if_recorded;
use crate::gpu_work::{graph_name, recorded};
use crate::launched::add_calls;
use crate::tables::gpu::{IdentifiedWork, has_kernel_names, identified_work};
use crate::{
    Attribution, Error, GpuActivity, GraphId, Launched, NvtxRanges, OperationTimes, StringId, Trace,
};

/// Bits of process and thread ids in a [`ThreadId`], and those of the virtual machine.
const ID_BITS: u32 = 56;

/// Exports that were recorded at the same time, each of other processes, read as one recording.
///
/// Their clocks are put together by when each recording began in UTC: the clock of the job begins
/// with the first of them. Within the job the ids of processes and threads say from which export
/// they are; [`ProcessId::pid`] is that of the system.
///
/// ```
/// use flopgap_nsys::{Job, Trace};
///
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("a.sqlite");
/// # let packed = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/nsys/two_ranks_nccl.sqlite.zst");
/// # std::fs::write(&path, zstd::decode_all(std::fs::File::open(packed)?)?)?;
/// let trace = std::sync::Arc::new(Trace::open(&path)?);
/// // Both are of the same processes.
/// assert!(Job::of(vec![trace.clone(), trace]).is_err());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Job {
    parts: Vec<Part>,
    /// Whether all exports list a GPU of the first one by its unique id.
    one_machine: bool,
    corrections: Vec<ClockCorrection>,
    ranges: Mutex<Weak<NvtxRanges>>,
    launched: Mutex<Option<(Attribution, Weak<Launched>)>>,
}

/// An export of a job.
#[derive(Debug)]
struct Part {
    trace: Arc<Trace>,
    /// Its place among the exports.
    at: i64,
    /// How much later than the first recording it began, in nanoseconds.
    shift: i64,
    /// From when to when its GPU work ran, by its own clock; absent where it has none.
    ran: Option<(i64, i64)>,
    /// The processes that did GPU work; absent of work of which an export does not say it.
    pids: BTreeSet<Option<i64>>,
}

impl Part {
    fn time(&self, time: i64) -> i64 {
        time.saturating_add(self.shift)
    }

    /// An id with the place of its export instead of the hardware's number, which is always 0.
    fn id(&self, id: i64) -> i64 {
        (id & ((1 << ID_BITS) - 1)) | (self.at + 1) << ID_BITS
    }

    fn thread(&self, thread: ThreadId) -> ThreadId {
        ThreadId(self.id(thread.0))
    }

    fn process(&self, process: Option<ProcessId>) -> Option<ProcessId> {
        process.map(|process| ProcessId(self.id(process.0)))
    }

    fn work(&self, work: Work) -> Work {
        let (start, end) = (self.time(work.start), self.time(work.end));
        Work { start, end, process: self.process(work.process), ..work }
    }
}

/// No more exports than fit into the ids of threads.
const MOST: usize = 126;

impl Job {
    /// The recording of some exports, whenever they were recorded.
    ///
    /// # Errors
    /// [`Error::NoStartTime`], [`Error::SameProcess`], [`Error::TooMany`], and when an export
    /// cannot be read.
    pub fn of(traces: Vec<Arc<Trace>>) -> Result<Job, Error> {
        let job = Job::read(traces)?;
        job.require_own_processes()?;
        Ok(job)
    }

    /// The recording of some exports; none where no time is in the recorded GPU work of all.
    ///
    /// # Errors
    /// As [`Job::of`].
    pub fn at_same_time(traces: Vec<Arc<Trace>>) -> Result<Option<Job>, Error> {
        let job = Job::read(traces)?;
        if !job.ran_together() {
            return Ok(None);
        }
        job.require_own_processes()?;
        Ok(Some(job))
    }

    /// Whether some time is in the recorded GPU work of all exports.
    fn ran_together(&self) -> bool {
        let ran =
            self.parts.iter().map(|part| part.ran.map(|(start, end)| (part.time(start), part.time(end))));
        let Some(ran) = ran.collect::<Option<Vec<(i64, i64)>>>() else { return false };
        let last_start = ran.iter().map(|(start, _)| *start).max();
        let first_end = ran.iter().map(|(_, end)| *end).min();
        last_start < first_end
    }

    fn read(traces: Vec<Arc<Trace>>) -> Result<Job, Error> {
        if let Some(trace) = traces.get(MOST) {
            return Err(Error::TooMany { path: trace.path().to_owned(), most: MOST });
        }
        let began = traces.iter().map(|trace| began(trace)).collect::<Result<Vec<i64>, Error>>()?;
        let first = began.iter().min().copied().unwrap_or_default();
        let uuids = traces.iter().map(|trace| uuids(trace)).collect::<Result<Vec<_>, Error>>()?;
        let one_machine = uuids.iter().all(|own| uuids.first().is_some_and(|one| !one.is_disjoint(own)));
        let parts = (0..).zip(traces).zip(began);
        let part = |((at, trace), began): ((i64, Arc<Trace>), i64)| {
            let (mut ran, mut pids) = (None, BTreeSet::new());
            if_recorded(trace.identified_work(true, |work, _| {
                let (start, end) = ran.unwrap_or((work.start, work.end));
                ran = Some((start.min(work.start), end.max(work.end)));
                pids.insert(work.process.map(ProcessId::pid));
            }))?;
            Ok(Part { trace, at, shift: began.saturating_sub(first), ran, pids })
        };
        Ok(Job {
            parts: parts.map(part).collect::<Result<_, Error>>()?,
            one_machine,
            corrections: Vec::new(),
            ranges: Mutex::default(),
            launched: Mutex::default(),
        })
    }

    /// Refuses exports of which two have GPU work of processes of one number, by which ranks are
    /// distinguished.
    fn require_own_processes(&self) -> Result<(), Error> {
        for (at, part) in self.parts.iter().enumerate() {
            for other in &self.parts[..at] {
                if let Some(pid) = part.pids.intersection(&other.pids).next() {
                    let (path, other) = (other.trace.path().to_owned(), part.trace.path().to_owned());
                    return Err(Error::SameProcess { path, other, pid: *pid });
                }
            }
        }
        Ok(())
    }

    /// Corrects the clocks of its exports. That of the job begins with the first of them again.
    pub fn correct(&mut self, corrections: Vec<ClockCorrection>) {
        for own in &corrections {
            if let Some(part) = self.parts.get_mut(own.part) {
                part.shift = part.shift.saturating_add(own.ns);
            }
        }
        let first = self.parts.iter().map(|part| part.shift).min().unwrap_or_default();
        for part in &mut self.parts {
            part.shift = part.shift.saturating_sub(first);
        }
        (self.ranges, self.launched) = (Mutex::default(), Mutex::default());
        self.corrections = corrections;
    }

    /// The exports, in the order in which they were given.
    pub fn traces(&self) -> impl ExactSizeIterator<Item = &Arc<Trace>> {
        self.parts.iter().map(|part| &part.trace)
    }

    fn merged(&self) -> Result<Arc<NvtxRanges>, Error> {
        let mut known = self.ranges.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(ranges) = known.upgrade() {
            return Ok(ranges);
        }
        let mut all = NvtxRanges {
            last_event: i64::MIN,
            last_range: i64::MIN,
            last_push_pop: i64::MIN,
            ..NvtxRanges::default()
        };
        let mut names: FxHashMap<RangeName, Name> = FxHashMap::default();
        let mut absence = None;
        for part in &self.parts {
            let own = match part.trace.nvtx_ranges() {
                Ok(own) => own,
                Err(error) if error.is_no_table() => {
                    absence = Some(error);
                    continue;
                }
                Err(error) => return Err(error),
            };
            let of_job = |(_, name): (Name, &RangeName)| {
                *names.entry(name.clone()).or_insert_with(|| all.names.push(name.clone()))
            };
            let of_job: Vec<Name> = own.names.iter().map(of_job).collect();
            all.ranges.extend(own.ranges.iter().map(|range| crate::NvtxRange {
                start: part.time(range.start),
                // Open ranges end with their own recording.
                end: Some(part.time(range.end.unwrap_or(own.last_range))),
                thread: part.thread(range.thread),
                name: of_job[range.name.index()],
                ..*range
            }));
            all.last_event = all.last_event.max(part.time(own.last_event));
            all.last_range = all.last_range.max(part.time(own.last_range));
            all.last_push_pop = all.last_push_pop.max(part.time(own.last_push_pop));
        }
        if let Some(error) = absence.filter(|_| all.ranges.is_empty()) {
            return Err(error);
        }
        let all = Arc::new(all);
        *known = Arc::downgrade(&all);
        Ok(all)
    }

    /// Calls `visit` with all GPU work of the exports that have any, each piece with its place
    /// among the kinds that are returned, and with what kernels are called. Kernels and graphs of
    /// one name are of one kind.
    fn each_work(
        &self,
        whole_graphs: bool,
        mut visit: impl FnMut(Work, u32),
    ) -> Result<(Kinds, Names), Error> {
        let (mut kinds, mut names) = (Kinds::default(), Names::default());
        self.each_with_work(|part| {
            let mut known: FxHashMap<(WorkKind, Option<i64>), u32> = FxHashMap::default();
            for rows in recorded(WorkKind::all(whole_graphs), |kind| identified_work(&part.trace, kind))? {
                for row in rows {
                    let IdentifiedWork { work, id, .. } = row?;
                    let place = if let Some(place) = known.get(&(work.kind, id)) {
                        *place
                    } else {
                        let text = match (work.kind, id) {
                            (WorkKind::Kernel, Some(id)) => Some(part.trace.string_or_id(StringId(id))?),
                            (WorkKind::Graph, Some(id)) => Some(graph_name(GraphId(id))),
                            _ => None,
                        };
                        let of_job = text.map_or(id, |text| i64::try_from(names.intern(&text).index()).ok());
                        let place = kinds.place(work.kind, of_job);
                        known.insert((work.kind, id), place);
                        place
                    };
                    visit(part.work(work), place);
                }
            }
            Ok(())
        })?;
        Ok((kinds, names))
    }

    /// Asks each export; what one lacks is an error where all lack it.
    fn each_with_work(&self, mut ask: impl FnMut(&Part) -> Result<(), Error>) -> Result<(), Error> {
        let (mut answered, mut absence) = (false, None);
        for part in &self.parts {
            match ask(part) {
                Ok(()) => answered = true,
                Err(error) if error.is_no_table() => absence = absence.or(Some(error)),
                Err(error) => return Err(error),
            }
        }
        absence.filter(|_| !answered).map_or(Ok(()), Err)
    }

    fn read_launched(&self, attribution: Attribution) -> Result<Arc<Launched>, Error> {
        let mut known = self.launched.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((by, launched)) = &*known
            && *by == attribution
            && let Some(launched) = launched.upgrade()
        {
            return Ok(launched);
        }
        let ranges = self.merged()?;
        let mut calls = LaunchCalls::default();
        self.each_with_work(|part| {
            add_calls(&part.trace, &mut |thread, mut interval, correlation, is_second| {
                (interval.start, interval.end) = (part.time(interval.start), part.time(interval.end));
                calls.add(part.thread(thread), interval, correlation, is_second);
            })
        })?;
        let nesting = Nesting::new(calls, &Owners::of(&ranges), attribution.by);
        let mut launched = Launched::collect(ranges, nesting);
        let (kinds, _) = self.each_work(attribution.whole_graphs, |work, kind| launched.add(&work, kind))?;
        let launched = Arc::new(launched.finish(kinds));
        *known = Some((attribution, Arc::downgrade(&launched)));
        Ok(launched)
    }

    fn times(&self, within: Option<&[usize]>, attribution: Attribution) -> Result<OperationTimes, Error> {
        let mut sums = OperationSums::default();
        let launched = within.map(|ranges| Ok((ranges, self.read_launched(attribution)?))).transpose()?;
        let (kinds, names) = self.each_work(attribution.whole_graphs, |work, kind| {
            if launched.is_none() {
                sums.add(work.process, work.device, kind, work.duration());
            }
        })?;
        let kinds = if let Some((ranges, launched)) = &launched {
            launched.within(ranges, |process, device, piece| {
                sums.add(process, device, piece.kind, piece.duration());
            });
            launched.kinds()
        } else {
            &kinds
        };
        let texts: Vec<&Arc<str>> = names.iter().map(|(_, text)| text).collect();
        let text = |id: i64| texts.get(usize::try_from(id).ok()?).map(|text| Arc::clone(text));
        let first = self.parts.first();
        sums.finish(kinds, |_, id| match (id, first) {
            (Some(id), _) => Ok(text(id)),
            (None, Some(part)) => has_kernel_names(&part.trace).map(|()| None),
            (None, None) => Ok(None),
        })
    }
}

/// When the recording of an export began, in nanoseconds of UTC.
fn began(trace: &Trace) -> Result<i64, Error> {
    trace.session()?.utc_ns.ok_or_else(|| Error::NoStartTime { path: trace.path().to_owned() })
}

/// The unique ids of the GPUs of an export's machine.
fn uuids(trace: &Trace) -> Result<BTreeSet<Arc<str>>, Error> {
    let gpus = present(trace.gpus())?.unwrap_or_default();
    Ok(gpus.into_iter().filter_map(|gpu| gpu.uuid).collect())
}

impl Recording for Job {
    fn path(&self) -> &Path {
        self.parts.first().map_or(Path::new(""), |part| part.trace.path())
    }

    fn joined(&self) -> Option<Joined> {
        let recordings = u64::try_from(self.parts.len()).unwrap_or(u64::MAX);
        let at_same_time = self.ran_together();
        Some(Joined { recordings, at_same_time, one_machine: self.one_machine })
    }

    fn is_one_machine(&self) -> bool {
        self.one_machine
    }

    fn part(&self, process: ProcessId) -> usize {
        usize::try_from((process.0 >> ID_BITS) - 1).unwrap_or_default()
    }

    fn corrections(&self) -> &[ClockCorrection] {
        &self.corrections
    }

    fn ranges(&self) -> Result<Arc<NvtxRanges>, ReadError> {
        self.merged().map_err(ReadError::new)
    }

    fn launched(&self, attribution: Attribution) -> Result<Arc<Launched>, ReadError> {
        self.read_launched(attribution).map_err(ReadError::new)
    }

    fn operation_times(
        &self,
        within: Option<&[usize]>,
        attribution: Attribution,
    ) -> Result<OperationTimes, ReadError> {
        self.times(within, attribution).map_err(ReadError::new)
    }

    fn gpu_activity(&self, attribution: Attribution) -> Result<Vec<GpuActivity>, ReadError> {
        let mut all = Vec::new();
        let read = self.each_with_work(|part| {
            let own = part.trace.gpu_activity(attribution)?;
            all.extend(own.into_iter().map(|own| GpuActivity {
                process: part.process(own.process),
                start: part.time(own.start),
                end: part.time(own.end),
                ..own
            }));
            Ok(())
        });
        read.map_err(ReadError::new)?;
        Ok(all)
    }

    fn each_operation(
        &self,
        whole_graphs: bool,
        visit: &mut dyn FnMut(&Operation<'_>),
    ) -> Result<(), ReadError> {
        let mut names = Names::default();
        // Counts of earlier exports.
        let mut before = 0;
        let read = self.each_with_work(|part| {
            let first = before;
            before += u32::try_from(part.trace.counted_kernels()?.len()).unwrap_or(0);
            part.trace.visit_operations(whole_graphs, &mut |operation| {
                // Ids of names are those of one export.
                let name_id = match operation.work.kind {
                    WorkKind::Kernel => {
                        i64::try_from(names.intern(operation.name).index()).unwrap_or(i64::MAX)
                    }
                    _ => operation.name_id,
                };
                let counted = operation.counted.map(|counted| first + counted);
                visit(&Operation { work: part.work(operation.work), name_id, counted, ..*operation });
            })
        });
        read.map_err(ReadError::new)
    }

    fn counted(&self) -> Result<Vec<CountedKernel>, ReadError> {
        let mut all = Vec::new();
        let read = self.each_with_work(|part| {
            all.extend(part.trace.counted_kernels()?);
            Ok(())
        });
        read.map_err(ReadError::new)?;
        Ok(all)
    }

    fn counted_steps(&self) -> Result<Vec<CountedStep>, ReadError> {
        let mut all = Vec::new();
        let read = self.each_with_work(|part| {
            let own = part.trace.counted_ranges()?.into_iter();
            all.extend(own.map(|own| CountedStep { process: ProcessId(part.id(own.process.0)), ..own }));
            Ok(())
        });
        read.map_err(ReadError::new)?;
        Ok(all)
    }

    fn each_call(
        &self,
        wanted: &dyn Fn(&str) -> bool,
        visit: &mut dyn FnMut(&ApiCall<'_>),
    ) -> Result<(), ReadError> {
        let read = self.each_with_work(|part| {
            part.trace.visit_calls(wanted, &mut |call| {
                let (start, end) = (part.time(call.start), part.time(call.end));
                visit(&ApiCall { thread: part.thread(call.thread), start, end, ..*call });
            })
        });
        read.map_err(ReadError::new)
    }

    fn each_copy(&self, visit: &mut dyn FnMut(&Copied)) -> Result<(), ReadError> {
        self.parts.iter().try_for_each(|part| {
            part.trace.each_copy(&mut |copied| visit(&Copied { work: part.work(copied.work), ..*copied }))
        })
    }

    fn overheads(&self) -> Result<Vec<Overhead>, ReadError> {
        let mut all = Vec::new();
        for part in &self.parts {
            all.extend(part.trace.overheads()?.into_iter().map(|own| Overhead {
                start: part.time(own.start),
                end: part.time(own.end),
                process: ProcessId(part.id(own.process.0)),
                thread: own.thread.map(|thread| part.thread(thread)),
                ..own
            }));
        }
        all.sort_by_key(|own| own.start);
        Ok(all)
    }

    fn span(&self) -> Result<Option<(i64, i64)>, ReadError> {
        let mut all: Option<(i64, i64)> = None;
        for part in &self.parts {
            let Some((start, end)) = part.trace.span()? else { return Ok(None) };
            let (start, end) = (part.time(start), part.time(end));
            let (first, last) = all.unwrap_or((start, end));
            all = Some((first.min(start), last.max(end)));
        }
        Ok(all)
    }

    fn gpu_numbers(&self) -> Result<Vec<GpuNumber>, ReadError> {
        // Two machines number their GPUs alike.
        if !self.one_machine {
            return Ok(Vec::new());
        }
        let mut all = Vec::new();
        for part in &self.parts {
            all.extend(part.trace.gpu_numbers()?);
        }
        Ok(all)
    }

    fn gpu_names(&self) -> Result<Vec<String>, ReadError> {
        let mut all = BTreeSet::new();
        for part in &self.parts {
            all.extend(part.trace.gpu_names()?);
        }
        Ok(all.into_iter().collect())
    }
}

//! The trace event format, which Perfetto and Chrome open.

use std::collections::hash_map::Entry;
use std::io::Write;
use std::sync::Arc;

use flopgap_files::present;
use rustc_hash::{FxHashMap, FxHashSet};

use super::json::{Event, Place};
use super::lanes::Lane;
use super::links::Links;
use super::rows;
use super::window::in_order;
use super::work::{Work, work_in_order};
use super::writing;
use crate::strings::Strings;
use crate::tables::TableSpec;
use crate::tables::gpu::{KERNEL, MEMCPY, MEMSET};
use crate::tables::graph::GRAPH;
use crate::tables::host::{OSRT, OVERHEAD, RUNTIME, api_calls};
use crate::tables::nvtx_kind::NVTX;
use crate::tables::unified::{CPU_FAULTS, GPU_FAULTS};
use crate::{
    Annotation, AnnotationKind, ApiCall, ContextId, DeviceId, Error, GpuId, GraphRun, Kernel, MemoryCopy,
    MemoryKind, MemorySet, Placement, ProcessId, StreamId, ThreadId, ThreadName, Trace,
};

/// How many events an export has, by kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ExportCounts {
    /// Kernels, one slice each.
    pub kernels: u64,
    /// Memory copies, one slice each.
    pub copies: u64,
    /// Memsets, one slice each.
    pub sets: u64,
    /// Launches of CUDA graphs that were traced as a whole, one slice each.
    pub graphs: u64,
    /// API calls, one slice each.
    pub api_calls: u64,
    /// API rows that were left out because they only repeat a call to add its backtrace.
    pub repeated_calls: u64,
    /// Push/pop ranges, one slice each.
    pub pushpop_ranges: u64,
    /// Start/end ranges, one asynchronous slice each.
    pub startend_ranges: u64,
    /// Of the ranges of both styles, those that were open at the end of the recording: they have a
    /// begin but no end.
    pub open_ranges: u64,
    /// Marks, one instant each.
    pub marks: u64,
    /// Calls of the operating system's libraries, one slice each.
    pub os_calls: u64,
    /// Intervals of work of the profiler itself, one slice each.
    pub overheads: u64,
    /// Page faults of the CPU in unified memory, one instant each.
    pub cpu_faults: u64,
    /// Page faults of GPUs in unified memory, one slice for those of a page.
    pub gpu_faults: u64,
    /// Arrows from a call to the work that it launched: two events each.
    pub flows: u64,
    /// Kernels, copies, memsets and graphs without an arrow, because the call was not recorded.
    pub unlinked: u64,
    /// Rows that end before they start: drawn without length, with the duration as an argument.
    pub backwards: u64,
    /// Rows of the timeline for processes and GPUs.
    pub processes: u64,
    /// Rows of the timeline for threads and streams within these.
    pub tracks: u64,
    /// Events in all, with names and order of rows.
    pub events: u64,
}

/// Writes the trace in the trace event format (JSON), which [Perfetto](https://ui.perfetto.dev) and
/// `chrome://tracing` open.
///
/// - One process row for each process and each GPU. A process has for each thread a row of API
///   calls, one of NVTX push/pop ranges and marks, one of calls of the operating system, and one of
///   what the profiler itself did; start/end ranges, which may overlap, are asynchronous slices. A
///   GPU has a row for each process, context and stream; page faults of unified memory have rows of
///   their own.
/// - A CUDA graph that was traced as a whole is one slice.
/// - A slice that would cross another of its row goes to a further row of the same thread or
///   stream, numbered in its name, as viewers drop slices that cross. Concurrent work of one stream
///   (nodes of a graph) is never drawn as nested.
/// - An arrow leads from a call to each kernel, copy, memset and graph that it launched.
/// - Slices are named as in the trace: kernels with their short names, ranges with `domain:text`,
///   or the text alone in the default domain. Everything else recorded is in the arguments.
/// - Times are microseconds with three decimals, which is every nanosecond.
///
/// Rows are written as the tables are scanned. What is held does not grow with their length, except
/// for one bit for each correlation id and a number for each launch of several kernels.
///
/// # Errors
/// [`Error::NoTable`] when the trace has none of all this; [`Error::Output`] when `out` fails.
///
/// ```no_run
/// use std::io::Write;
///
/// let trace = flopgap_nsys::Trace::open("step.sqlite")?;
/// let mut out = std::io::BufWriter::new(std::fs::File::create("step.json")?);
/// let counts = flopgap_nsys::export::perfetto(&trace, &mut out)?;
/// out.flush()?;
/// println!("{} kernels, {} arrows", counts.kernels, counts.flows);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn perfetto(trace: &Trace, out: &mut impl Write) -> Result<ExportCounts, Error> {
    if DRAWN.iter().all(|table| trace.require(table).is_err()) {
        trace.require(&KERNEL)?;
    }
    let links = Links::read(trace)?;
    let mut strings = Strings::new(trace);
    let labels = Labels::read(trace, &mut strings)?;
    let timeline =
        Timeline { pids: FxHashMap::default(), used: FxHashSet::default(), lanes: FxHashMap::default() };
    let counts = ExportCounts::default();
    let mut writer = Writer { out, event: Event::default(), links, strings, labels, timeline, counts };
    writer.event.open();
    for call in in_order(rows(api_calls(trace))?, |call| (call.start, call.end)) {
        writer.call(&call?)?;
    }
    let span = |range: &Annotation| (range.start, range.end.unwrap_or(i64::MAX));
    for range in in_order(rows(trace.annotations())?, span) {
        writer.annotation(&range?)?;
    }
    writer.others(trace)?;
    work_in_order(trace, |work| match work {
        Work::Kernel(kernel) => writer.kernel(kernel),
        Work::Copy(copy) => writer.copy(copy),
        Work::Set(set) => writer.set(set),
        Work::Graph(graph) => writer.graph(graph),
    })?;
    writer.event.close();
    writing(writer.event.write(writer.out))?;
    Ok(writer.counts)
}

/// The tables that are drawn.
pub(super) const DRAWN: [&TableSpec; 10] =
    [&KERNEL, &MEMCPY, &MEMSET, &GRAPH, &RUNTIME, &NVTX, &OSRT, &OVERHEAD, &CPU_FAULTS, &GPU_FAULTS];

/// The names of GPUs, processes and threads.
#[derive(Debug, Default)]
pub(super) struct Labels {
    gpus: FxHashMap<GpuId, Arc<str>>,
    /// By process id and the number that the process gives a GPU.
    numbers: FxHashMap<(i64, DeviceId), GpuId>,
    processes: FxHashMap<ProcessId, Arc<str>>,
    threads: FxHashMap<ThreadId, Arc<str>>,
}

impl Labels {
    fn read(trace: &Trace, strings: &mut Strings<&Trace>) -> Result<Labels, Error> {
        let mut labels = Labels::default();
        // Labels are optional: an export without them is drawn with numbers.
        for gpu in present(trace.gpus())?.unwrap_or_default() {
            labels.gpus.extend(gpu.name.map(|name| (gpu.id, name)));
        }
        for device in present(trace.cuda_devices())?.unwrap_or_default() {
            labels.numbers.extend(device.gpu.map(|gpu| ((device.pid, device.device), gpu)));
        }
        for process in present(trace.processes())?.unwrap_or_default() {
            if let (Some(id), Some(name)) = (process.id, process.name) {
                labels.processes.entry(id).or_insert(name);
            }
        }
        for ThreadName { thread, name, .. } in present(trace.thread_names())?.unwrap_or_default() {
            // A thread that was renamed keeps its first name.
            if let Entry::Vacant(unnamed) = labels.threads.entry(thread) {
                unnamed.insert(strings.get(name)?);
            }
        }
        Ok(labels)
    }

    pub(super) fn gpu(&self, process: Option<ProcessId>, device: DeviceId) -> GpuId {
        let number = process.and_then(|process| self.numbers.get(&(process.pid(), device)));
        // An export that does not say it has one numbering.
        number.copied().unwrap_or(GpuId(device.0))
    }
}

/// A process row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Owner {
    Process(Option<ProcessId>),
    Gpu(GpuId),
}

/// A row within a process row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Track {
    Api(Option<ThreadId>),
    Nvtx(Option<ThreadId>),
    Os(Option<ThreadId>),
    Overhead(Option<ThreadId>),
    /// Page faults of the CPU by process.
    CpuFaults(Option<ProcessId>),
    GpuFaults {
        gpu: GpuId,
        process: Option<ProcessId>,
    },
    Stream {
        gpu: GpuId,
        process: Option<ProcessId>,
        context: ContextId,
        stream: StreamId,
    },
}

/// The name of an event: its domain, if any, and its text.
pub(super) type Called<'a> = (Option<&'a str>, &'a str);

/// The rows that there are so far.
struct Timeline {
    pids: FxHashMap<Owner, i64>,
    used: FxHashSet<i64>,
    /// The process row of each track, and its rows.
    lanes: FxHashMap<Track, (i64, Vec<Lane>)>,
}

/// Where rows stand that come after those of all threads and streams.
const LAST: i64 = 1 << 32;

/// The first number that is not a process or thread of the system, whose ids have 24 bits.
const INVENTED: i64 = 1 << 24;

pub(super) struct Writer<'t, 'o, W> {
    out: &'o mut W,
    pub(super) event: Event,
    links: Links,
    pub(super) strings: Strings<&'t Trace>,
    pub(super) labels: Labels,
    timeline: Timeline,
    pub(super) counts: ExportCounts,
}

impl<W: Write> Writer<'_, '_, W> {
    /// Ends the current event.
    pub(super) fn put(&mut self) -> Result<(), Error> {
        self.counts.events += 1;
        if self.event.end() { writing(self.event.write(self.out)) } else { Ok(()) }
    }

    /// A number that no process or thread has yet; `wanted` when it is free.
    fn number(&mut self, wanted: i64) -> i64 {
        let mut number = wanted;
        if number <= 0 || self.timeline.used.contains(&number) {
            number = INVENTED;
            number += i64::try_from(self.timeline.used.len()).unwrap_or_default();
        }
        self.timeline.used.insert(number);
        number
    }

    fn pid(&mut self, owner: Owner) -> Result<i64, Error> {
        if let Some(pid) = self.timeline.pids.get(&owner) {
            return Ok(*pid);
        }
        let seen = self.timeline.pids.len();
        let (wanted, name, order) = match owner {
            Owner::Process(Some(process)) => {
                let name = self.labels.processes.get(&process).map_or("process", |name| name);
                (process.pid(), name.to_owned(), seen)
            }
            Owner::Process(None) => (0, "unknown process".to_owned(), seen),
            Owner::Gpu(gpu) => {
                let name = self.labels.gpus.get(&gpu).map(|name| format!(": {name}")).unwrap_or_default();
                (0, format!("GPU {gpu}{name}"), 1_000_000 + seen)
            }
        };
        let pid = self.number(wanted);
        self.timeline.pids.insert(owner, pid);
        self.counts.processes += 1;
        let place = Place { pid, tid: pid };
        self.event.begin('M', "process_name", place).text("name", &name);
        self.put()?;
        self.event.begin('M', "process_sort_index", place).arg("sort_index", order);
        self.put()?;
        Ok(pid)
    }

    /// The row of `track` on which a slice fits, a new one when there is none.
    pub(super) fn place(&mut self, track: Track, start: i64, end: i64) -> Result<Place, Error> {
        let owner = match track {
            Track::Api(thread) | Track::Nvtx(thread) | Track::Os(thread) | Track::Overhead(thread) => {
                Owner::Process(thread.map(ThreadId::process))
            }
            Track::CpuFaults(process) => Owner::Process(process),
            Track::Stream { gpu, .. } | Track::GpuFaults { gpu, .. } => Owner::Gpu(gpu),
        };
        let nests = !matches!(track, Track::Stream { .. } | Track::GpuFaults { .. });
        if let Some((pid, lanes)) = self.timeline.lanes.get_mut(&track)
            && let Some(lane) = lanes.iter_mut().find_map(|lane| lane.take(start, end, nests).then_some(lane))
        {
            return Ok(Place { pid: *pid, tid: lane.tid });
        }
        let pid = self.pid(owner)?;
        let number = self.timeline.lanes.get(&track).map_or(0, |(_, lanes)| lanes.len()) + 1;
        let suffix = if number > 1 { format!(" ({number})") } else { String::new() };
        // The rows of a thread are adjacent.
        let of_thread = |thread: Option<ThreadId>, place: i64| thread.map_or(0, ThreadId::tid) * 4 + place;
        let of_process = |process: Option<ProcessId>| {
            process.map(|process| format!("process {}, ", process.pid())).unwrap_or_default()
        };
        let (wanted, name, order) = match track {
            Track::Nvtx(thread) => (0, self.thread(thread, "NVTX"), of_thread(thread, 0)),
            Track::Api(thread) => {
                (thread.map_or(0, ThreadId::tid), self.thread(thread, "CUDA API"), of_thread(thread, 1))
            }
            Track::Os(thread) => (0, self.thread(thread, "OS runtime"), of_thread(thread, 2)),
            Track::Overhead(thread) => (0, self.thread(thread, "profiler overhead"), of_thread(thread, 3)),
            Track::CpuFaults(_) => (0, "CPU page faults".to_owned(), LAST),
            Track::Stream { process, context, stream, .. } => {
                (0, format!("{}context {context}, stream {stream}", of_process(process)), stream.0)
            }
            Track::GpuFaults { process, .. } => (0, format!("{}GPU page faults", of_process(process)), LAST),
        };
        let tid = self.number(wanted);
        let mut lane = Lane::new(tid);
        lane.take(start, end, nests);
        self.timeline.lanes.entry(track).or_insert_with(|| (pid, Vec::new())).1.push(lane);
        self.counts.tracks += 1;
        let place = Place { pid, tid };
        self.event.begin('M', "thread_name", place).text("name", &format!("{name}{suffix}"));
        self.put()?;
        self.event.begin('M', "thread_sort_index", place).arg("sort_index", order);
        self.put()?;
        Ok(place)
    }

    fn thread(&self, thread: Option<ThreadId>, what: &str) -> String {
        let Some(thread) = thread else { return format!("unknown thread: {what}") };
        let name = self.labels.threads.get(&thread).map_or("thread", |name| name);
        format!("{name} {}: {what}", thread.tid())
    }

    /// Begins a slice; the caller adds arguments and puts it.
    pub(super) fn slice(
        &mut self,
        track: Track,
        name: Called<'_>,
        category: &str,
        start: i64,
        end: i64,
    ) -> Result<Place, Error> {
        let place = self.place(track, start, end.max(start))?;
        let duration = i128::from(end) - i128::from(start);
        self.event
            .begin_in('X', name.0, name.1, place)
            .category(category)
            .time("ts", start.into())
            .time("dur", duration.max(0));
        if duration < 0 {
            self.counts.backwards += 1;
            self.event.arg("duration_ns", duration);
        }
        Ok(place)
    }

    fn flow(&mut self, phase: char, place: Place, at: i64, id: u64) -> Result<(), Error> {
        self.event
            .begin(phase, "launch", place)
            .category("launch")
            .time("ts", at.into())
            .field("id", format_args!("\"{id:#x}\""));
        if phase == 'f' {
            self.event.field("bp", "\"e\"");
        }
        self.put()
    }

    fn call(&mut self, call: &ApiCall) -> Result<(), Error> {
        if self.links.repeats(call) {
            self.counts.repeated_calls += 1;
            return Ok(());
        }
        let name = self.strings.get(call.name)?;
        let place = self.slice(Track::Api(call.thread), (None, &name), "cuda_api", call.start, call.end)?;
        self.event.maybe("correlation", call.correlation.map(i64::from)).maybe("result", call.result);
        self.put()?;
        self.counts.api_calls += 1;
        for flow in self.links.begin(call.thread, call.correlation) {
            self.flow('s', place, call.start, flow)?;
        }
        Ok(())
    }

    fn annotation(&mut self, range: &Annotation) -> Result<(), Error> {
        let name = (range.domain.as_deref(), &*range.text);
        let end = range.end.unwrap_or(i64::MAX);
        let track = Track::Nvtx(range.thread);
        match range.kind {
            AnnotationKind::Mark => {
                let place = self.place(track, range.start, range.start)?;
                self.event
                    .begin_in('i', name.0, name.1, place)
                    .category("nvtx")
                    .time("ts", range.start.into())
                    .field("s", "\"t\"");
                self.counts.marks += 1;
            }
            AnnotationKind::PushPop => {
                if range.end.is_some() {
                    self.slice(track, name, "nvtx", range.start, end)?;
                } else {
                    let place = self.place(track, range.start, end)?;
                    self.event
                        .begin_in('B', name.0, name.1, place)
                        .category("nvtx")
                        .time("ts", range.start.into());
                    self.counts.open_ranges += 1;
                }
                self.counts.pushpop_ranges += 1;
            }
            AnnotationKind::StartEnd => {
                self.startend(range, name)?;
                self.counts.startend_ranges += 1;
                return Ok(());
            }
        }
        self.event.number("row", range.row.0).maybe("category", range.category);
        self.put()
    }

    fn startend(&mut self, range: &Annotation, name: Called<'_>) -> Result<(), Error> {
        let pid = self.pid(Owner::Process(range.thread.map(ThreadId::process)))?;
        let place = Place { pid, tid: range.thread.map_or(pid, ThreadId::tid) };
        self.event
            .begin_in('b', name.0, name.1, place)
            .category("nvtx")
            .time("ts", range.start.into())
            .field("id", format_args!("\"{:#x}\"", range.row.0))
            .number("row", range.row.0)
            .maybe("category", range.category)
            .maybe("ending_thread", range.end_thread.map(ThreadId::tid));
        let Some(end) = range.end else {
            self.counts.open_ranges += 1;
            return self.put();
        };
        if end < range.start {
            self.counts.backwards += 1;
            self.event.arg("duration_ns", i128::from(end) - i128::from(range.start));
        }
        self.put()?;
        self.event
            .begin_in('e', name.0, name.1, place)
            .category("nvtx")
            .time("ts", end.max(range.start).into())
            .field("id", format_args!("\"{:#x}\"", range.row.0));
        self.put()
    }

    /// Begins the slice of a piece of GPU work.
    fn work(&mut self, at: &Placement, name: &str, category: &str) -> Result<Place, Error> {
        let process = self.links.process(at.process);
        let gpu = self.labels.gpu(process, at.device);
        let track = Track::Stream { gpu, process, context: at.context, stream: at.stream };
        let place = self.slice(track, (None, name), category, at.start, at.end)?;
        self.event
            .number("device", at.device.0)
            .number("context", at.context.0)
            .maybe("green_context", at.green_context.map(i64::from))
            .number("stream", at.stream.0)
            .maybe("correlation", at.correlation.map(i64::from));
        Ok(place)
    }

    /// Puts it, with the arrow that leads to it.
    fn arrive(&mut self, at: &Placement, place: Place) -> Result<(), Error> {
        self.put()?;
        if let Some(flow) = self.links.end(at.process, at.correlation) {
            self.counts.flows += 1;
            self.flow('f', place, at.start, flow)
        } else {
            self.counts.unlinked += 1;
            Ok(())
        }
    }

    fn kernel(&mut self, kernel: &Kernel) -> Result<(), Error> {
        let (short, full) = (self.strings.get(kernel.short)?, self.strings.get(kernel.demangled)?);
        let place = self.work(&kernel.at, &short, "kernel")?;
        self.event
            .numbers("grid", <[u32; 3]>::from(kernel.grid).map(i64::from))
            .numbers("block", <[u32; 3]>::from(kernel.block).map(i64::from))
            .maybe("registers", kernel.registers)
            .maybe("static_shared_bytes", kernel.static_shared)
            .maybe("dynamic_shared_bytes", kernel.dynamic_shared)
            .maybe("graph_node", kernel.graph_node.map(i64::from))
            .text("demangled", &full);
        self.counts.kernels += 1;
        self.arrive(&kernel.at, place)
    }

    fn copy(&mut self, copy: &MemoryCopy) -> Result<(), Error> {
        let kind = copy.kind.to_string();
        let place = self.work(&copy.at, &format!("memcpy {kind}"), "memcpy")?;
        self.event.number("bytes", copy.bytes).text("kind", &kind);
        self.memory("source", copy.source);
        self.memory("destination", copy.destination);
        self.counts.copies += 1;
        self.arrive(&copy.at, place)
    }

    fn set(&mut self, set: &MemorySet) -> Result<(), Error> {
        let place = self.work(&set.at, "memset", "memset")?;
        self.event.number("bytes", set.bytes);
        self.memory("memory", set.memory);
        self.counts.sets += 1;
        self.arrive(&set.at, place)
    }

    fn graph(&mut self, graph: &GraphRun) -> Result<(), Error> {
        let place = self.work(&graph.at, &format!("CUDA graph {}", graph.graph), "graph")?;
        self.event.number("graph", graph.graph.0).number("executable", graph.executable.0);
        self.counts.graphs += 1;
        self.arrive(&graph.at, place)
    }

    fn memory(&mut self, key: &str, kind: Option<MemoryKind>) {
        match kind.map(|kind| (kind.label(), kind.code())) {
            Some((Some(label), _)) => self.event.text(key, label),
            Some((None, code)) => self.event.arg(key, code),
            None => &mut self.event,
        };
    }
}

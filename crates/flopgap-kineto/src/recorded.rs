//! What is kept of the events while they pass by.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use flopgap_flops::torch;
use flopgap_trace::{ContextId, CorrelationId, DeviceId, Dim3, ExternalId, GraphNodeId, RankGroup, StreamId};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::Error;
use crate::event::{Allocated, Called, Category, Event, Launched};
use crate::formula::{self, Inputs, Kind};
use crate::frame;
use crate::host::{Evaluated, Id, Threads};
use crate::json::{Cursor, Raw, Scalar, Stop};
use crate::part::{self, Part, Place, Range};
use crate::trace::{
    Annotation, AnnotationKind, Call, GpuKind, GpuWork, Operator, Profiler, Source, Trace, Warning,
    WarningKind,
};
use crate::xla::{self, Meaning, Plain};

/// Warnings of one kind are listed up to this many; the rest becomes a number.
const LISTED: u64 = 5;

/// Names of modules in Python's stack.
const MODULE: &[u8] = b"nn.Module: ";

/// What is kept of the events while they pass by.
#[derive(Default)]
pub(crate) struct Recorded {
    seen: u64,
    names: FxHashMap<Box<[u8]>, Arc<str>>,
    /// Groups of ranks by their names, ranks and collectives as they are written.
    groups: FxHashMap<[Box<[u8]>; 3], Arc<RankGroup>>,
    threads: Threads,
    operators: Vec<Operator>,
    /// Of each operator, the part that it opens.
    opens: Vec<Option<Part>>,
    gpu_work: Vec<GpuWork>,
    calls: Vec<Call>,
    annotations: Vec<Annotation>,
    overheads: Vec<(Arc<str>, i64, i64)>,
    frames: Vec<(Arc<str>, u32, i64, u64)>,
    peak_memory: Option<u64>,
    /// Where arrows from forward operators end: thread and time.
    backward_starts: FxHashSet<(u32, i64)>,
    with_shapes: bool,
    warnings: Vec<Warning>,
    unreadable: u64,
    uncounted: u64,
    without_arguments: u64,
    /// Events of categories that are not read.
    unread: BTreeMap<Vec<u8>, u64>,
    /// Events that have begun, as they are written, by process and thread.
    begun: FxHashMap<(Id, Id), Vec<Box<[u8]>>>,
    unpaired: u64,
    /// Events without a category, and what processes are called.
    plain: Vec<Plain>,
    processes: FxHashMap<Id, Box<str>>,
}

impl Recorded {
    /// Keeps what is asked for of an event; `written` is how it stands in the file.
    pub(crate) fn push(&mut self, event: &Event<'_>, written: &[u8]) {
        self.seen += 1;
        let arrow = event.category == Category::ForwardBackward;
        match event.phase {
            b'X' => self.push_complete(event),
            b's' if arrow => {
                let thread = self.threads.place(event.process, event.thread);
                self.threads.begin(event.id, thread);
            }
            b'f' if arrow => {
                let thread = self.threads.place(event.process, event.thread);
                self.threads.end(event.id, thread);
                if let Some(start) = event.start.nanoseconds() {
                    self.backward_starts.insert((thread, start));
                }
            }
            b'B' => {
                let id = (Id::of(event.process), Id::of(event.thread));
                self.begun.entry(id).or_default().push(written.into());
            }
            b'E' => self.push_end(event),
            b'i' if event.name.bytes == b"[memory]" => {
                let allocated = self.arguments(Allocated::read(event));
                // None is less than any number.
                self.peak_memory = self.peak_memory.max(allocated.most());
            }
            b'M' if event.name.bytes == b"process_name" => {
                if let Scalar::Text(name) = event.argument(b"name") {
                    self.processes.insert(Id::of(event.process), name.text().into());
                }
            }
            b'M' if event.name.bytes == b"thread_name" => {
                if let Scalar::Text(name) = event.argument(b"name") {
                    self.threads.name(event.process, event.thread, &name.text());
                }
            }
            _ => {}
        }
    }

    /// The end of the last event that began on its thread: both are one with a duration.
    fn push_end(&mut self, end: &Event<'_>) {
        let id = (Id::of(end.process), Id::of(end.thread));
        let Some(written) = self.begun.get_mut(&id).and_then(Vec::pop) else {
            self.unpaired += 1;
            return;
        };
        // It was parsed before.
        let Ok(begin) = Event::parse(&mut Cursor::new(&written, true)) else { return };
        let lasted = || end.start.nanoseconds()?.checked_sub(begin.start.nanoseconds()?);
        let Some(lasted) = lasted().filter(|lasted| *lasted >= 0) else {
            self.unpaired += 1;
            return;
        };
        let duration = format!("{}.{:03}", lasted / 1000, lasted % 1000);
        let arguments = if begin.arguments.len() > 2 { begin.arguments } else { end.arguments };
        let duration = Scalar::Number(duration.as_bytes());
        self.push_complete(&Event { phase: b'X', duration, arguments, ..begin });
    }

    /// Events without a category, by the names of their processes and threads.
    fn read_plain(&mut self) -> Profiler {
        let plain = std::mem::take(&mut self.plain);
        let is_xla = xla::is_xla(self.processes.values().map(|name| &**name));
        let (mut repeated, mut unknown) = (0, 0);
        for event in plain {
            let id = (event.process.clone(), event.thread.clone());
            let process = self.processes.get(&event.process).filter(|_| is_xla);
            let line = self.threads.name_of(&id);
            let place = || self.threads.place_of(id);
            match process.map(|process| event.meaning(process, line.as_deref(), place)) {
                Some(Meaning::Work(work)) => self.gpu_work.push(work),
                Some(Meaning::Call(call)) => self.calls.push(call),
                Some(Meaning::Annotation(annotation)) => self.annotations.push(annotation),
                Some(Meaning::Repeats) => repeated += 1,
                Some(Meaning::Unknown) | None => unknown += 1,
            }
        }
        if unknown > 0 {
            self.unread.insert(Vec::new(), unknown);
        }
        let unpaired = self.unpaired + self.begun.values().map(|begun| begun.len() as u64).sum::<u64>();
        let unpaired = (unpaired > 0).then_some(WarningKind::Unpaired { events: unpaired });
        let repeated = (repeated > 0).then_some(WarningKind::Repeated { events: repeated });
        let kinds = [unpaired, repeated].into_iter().flatten();
        self.warnings.extend(kinds.map(|kind| Warning { event: None, kind }));
        if is_xla { Profiler::Xla } else { Profiler::Torch }
    }

    fn push_complete(&mut self, event: &Event<'_>) {
        if event.label.bytes.is_empty() {
            if let Some(times) = self.times(event) {
                let name = self.name(event.name);
                self.plain.push(Plain::new(event, name, times));
            }
            return;
        }
        let marks = |name: &[u8]| {
            [&b"ProfilerStep#"[..], b"Optimizer.step#", b"Optimizer.zero_grad#"]
                .iter()
                .any(|begin| name.starts_with(begin))
        };
        match event.category {
            // Old versions have no category for annotations.
            Category::Operator if marks(event.name.bytes) => {
                self.push_annotation(event, AnnotationKind::User);
            }
            Category::Operator => self.push_operator(event),
            Category::Annotation => self.push_annotation(event, AnnotationKind::User),
            Category::Python if event.name.bytes.starts_with(MODULE) => {
                self.push_annotation(event, AnnotationKind::Module);
            }
            Category::Python if frame::is_users(event.name.bytes) => {
                let Some((start, duration)) = self.times(event) else { return };
                let thread = self.threads.place(event.process, event.thread);
                let name = self.name(event.name);
                self.frames.push((name, thread, start, duration));
            }
            Category::Call => self.push_call(event),
            Category::Kernel => self.push_work(event, GpuKind::Kernel),
            Category::Copy => self.push_work(event, GpuKind::Copy),
            Category::Set => self.push_work(event, GpuKind::Memset),
            Category::Overhead => self.push_overhead(event),
            Category::Other => match self.unread.get_mut(event.label.bytes) {
                Some(events) => *events += 1,
                None => {
                    self.unread.insert(event.label.bytes.to_owned(), 1);
                }
            },
            Category::GpuAnnotation | Category::Python | Category::ForwardBackward | Category::Known => {}
        }
    }

    /// When an event began and how long it lasted; an event of which that is not known is left out
    /// with a warning.
    fn times(&mut self, event: &Event<'_>) -> Option<(i64, u64)> {
        let times = event.times();
        if times.is_none() {
            self.unreadable += 1;
            if self.unreadable <= LISTED {
                let kind = WarningKind::NoTimes { name: event.name.text().into_owned() };
                self.warnings.push(Warning { event: Some(self.seen), kind });
            }
        }
        times.map(|(start, end)| (start, end.abs_diff(start)))
    }

    /// Arguments, or none where they cannot be read.
    fn arguments<T: Default>(&mut self, read: Result<T, Stop>) -> T {
        read.unwrap_or_else(|_| {
            self.without_arguments += 1;
            T::default()
        })
    }

    fn push_work(&mut self, event: &Event<'_>, kind: GpuKind) {
        let Some((start, duration)) = self.times(event) else { return };
        let launched = self.arguments(Launched::read(event));
        let group = self.group(&launched);
        let exchanged = launched.exchanged();
        // Of what all ranks give or of what each gets, whichever is whole.
        let message = exchanged.map(|[given, gotten]| given.max(gotten));
        let bytes = launched.bytes.count().or(message);
        let extents = [launched.grid, launched.block].map(|sizes| sizes.filter(|sizes| !sizes.is_empty()));
        let shape = |sizes: &Vec<u64>| Dim3::checked(<[u64; 3]>::try_from(&sizes[..]).ok()?);
        let [grid, block] = extents.each_ref().map(|sizes| sizes.as_ref().and_then(shape));
        let are_read =
            [grid, block].iter().zip(&extents).all(|(read, sizes)| read.is_some() == sizes.is_some());
        self.without_arguments += u64::from(!are_read);
        let work = GpuWork {
            kind,
            name: self.name(event.name),
            start,
            duration,
            // The profiler shows GPUs as processes and streams as their threads.
            device: launched.device.integer().or_else(|| event.process.integer()).map(DeviceId),
            context: launched.context.integer().map(ContextId),
            stream: launched.stream.integer().or_else(|| event.thread.integer()).map(StreamId),
            correlation: launched.correlation.integer().map(CorrelationId),
            external: launched.external.integer().map(ExternalId),
            graph_node: launched.graph_node.integer().filter(|node| *node > 0).map(GraphNodeId),
            grid,
            block,
            registers: launched.registers.count(),
            shared_bytes: launched.shared_memory.count(),
            bytes,
            exchanged: exchanged.filter(|_| group.is_some()).map(Box::new),
            group,
        };
        self.gpu_work.push(work);
    }

    fn push_call(&mut self, event: &Event<'_>) {
        let Some((start, duration)) = self.times(event) else { return };
        let thread = self.threads.place(event.process, event.thread);
        let correlation = event.argument(b"correlation").integer().map(CorrelationId);
        let name = self.name(event.name);
        self.calls.push(Call { name, start, duration, thread, correlation });
    }

    /// Loading functions and waiting for a place in a GPU's queue are not the profiler's work.
    fn push_overhead(&mut self, event: &Event<'_>) {
        const OWN: [&[u8]; 4] =
            [b"Activity Buffer Request", b"Activity Buffer Flush", b"Buffer Flush", b"Instrumentation"];
        if OWN.contains(&event.name.bytes)
            && let Some((start, end)) = event.times()
        {
            let name = self.name(event.name);
            self.overheads.push((name, start, end));
        }
    }

    fn push_annotation(&mut self, event: &Event<'_>, kind: AnnotationKind) {
        let Some((start, duration)) = self.times(event) else { return };
        let thread = self.threads.place(event.process, event.thread);
        let external = event.argument(b"External id").integer().map(ExternalId);
        let name = self.name(event.name);
        self.annotations.push(Annotation { kind, name, start, duration, thread, external });
    }

    fn push_operator(&mut self, event: &Event<'_>) {
        let Some((start, duration)) = self.times(event) else { return };
        let thread = self.threads.place(event.process, event.thread);
        let name = self.name(event.name);
        let has_work = torch::is_known(&name);
        let called = Called::read(event, has_work || Kind::of(&name).is_some());
        let called = self.arguments(called);
        let flops = self.flops(&name, &called);
        let work = if has_work { called.work(&name) } else { None };
        let forward_thread = called.forward_thread.integer().filter(|thread| *thread > 0);
        let opens = Part::opened_by(&name).or(forward_thread.map(|_| Part::Backward));
        let sequence = called.sequence.integer();
        if opens == Some(Part::Backward) {
            self.threads.backward(Evaluated { thread, forward_thread, sequence });
        } else {
            self.threads.forward(thread, sequence);
        }
        let external = called.external.integer().map(ExternalId);
        let part = Part::Forward;
        self.operators.push(Operator { name, part, start, duration, thread, external, flops, work });
        self.opens.push(opens);
    }

    /// What the trace says, or else the formula.
    fn flops(&mut self, name: &str, called: &Called<'_>) -> Option<(u64, Source)> {
        self.with_shapes |= called.has_shapes;
        if let Some(flops) = called.flops.count() {
            self.with_shapes = true;
            return Some((flops, Source::Recorded));
        }
        let inputs = Inputs { shapes: &called.shapes, concrete: &called.concrete };
        match formula::flops(name, inputs) {
            Ok(flops) => flops.map(|flops| (flops, Source::Formula)),
            Err(reason) => {
                self.uncounted += 1;
                if self.uncounted <= LISTED {
                    let kind = WarningKind::Uncounted { operator: name.to_owned(), reason };
                    self.warnings.push(Warning { event: Some(self.seen), kind });
                }
                None
            }
        }
    }

    /// The group of ranks of a collective, each kept once.
    fn group(&mut self, launched: &Launched<'_>) -> Option<Arc<RankGroup>> {
        let text = |scalar| if let Scalar::Text(text) = scalar { text } else { Raw::default() };
        let Scalar::Text(name) = launched.group_name else { return None };
        let (ranks, collective) = (text(launched.group_ranks), text(launched.collective));
        let key = [name, ranks, collective].map(|text| Box::from(text.bytes));
        let known = self.groups.entry(key).or_insert_with(|| {
            let ranks = ranks.text();
            let ranks = ranks.trim().strip_prefix('[').and_then(|ranks| ranks.strip_suffix(']'));
            // A long list is cut off in the trace: then not all of its items are numbers.
            let ranks = ranks.unwrap_or_default().split(',').map(|rank| rank.trim().parse());
            let ranks = ranks.collect::<Result<Vec<u64>, _>>().unwrap_or_default();
            Arc::new(RankGroup { name: name.text().into(), ranks, collective: collective.text().into() })
        });
        Some(known.clone())
    }

    /// A name, each kept once.
    fn name(&mut self, name: Raw<'_>) -> Arc<str> {
        if let Some(known) = self.names.get(name.bytes) {
            return Arc::clone(known);
        }
        let shared: Arc<str> = name.text().into();
        self.names.insert(name.bytes.into(), Arc::clone(&shared));
        shared
    }

    /// Refuses a trace from which no FLOPs can be taken.
    pub(crate) fn require_shapes(&self, path: &Path) -> Result<(), Error> {
        let (path, operators) = (path.to_owned(), self.operators.len());
        if operators == 0 {
            return Err(Error::NoOperators { path, events: self.seen });
        }
        if !self.with_shapes {
            return Err(Error::NoShapes { path, operators });
        }
        Ok(())
    }

    /// The trace, with the part of each operator. Where nobody asks for FLOPs, a trace without any
    /// shapes is not strange.
    pub(crate) fn finish(mut self, path: &Path, without_shapes: bool) -> Trace {
        if without_shapes && !self.with_shapes {
            self.warnings.retain(|warning| !matches!(warning.kind, WarningKind::Uncounted { .. }));
            self.uncounted = 0;
        }
        let profiler = self.read_plain();
        let places = self.places();
        self.warn_of_totals(&places);
        for (operator, place) in self.operators.iter_mut().zip(places) {
            operator.part = place.part;
        }
        Trace {
            path: path.to_owned(),
            profiler,
            device: None,
            devices: Vec::new(),
            distributed: None,
            job: BTreeMap::new(),
            base: 0,
            threads: self.threads.finish(),
            operators: self.operators,
            gpu_work: self.gpu_work,
            calls: self.calls,
            annotations: self.annotations,
            overheads: self.overheads,
            frames: self.frames,
            peak_memory: self.peak_memory,
            warnings: self.warnings,
        }
    }

    /// The place of each operator.
    fn places(&self) -> Vec<Place> {
        let range = |thread: u32, start: i64, duration: u64, opens: Option<Part>, counted: bool| {
            let from_forward = opens.is_none() && self.backward_starts.contains(&(thread, start));
            let opens = opens.or(from_forward.then_some(Part::Backward));
            Range { thread, start, end: start.saturating_add_unsigned(duration), opens, counted }
        };
        let operators = self.operators.iter().zip(&self.opens).map(|(operator, opens)| {
            let counted = Kind::of(&operator.name).is_some();
            range(operator.thread, operator.start, operator.duration, *opens, counted)
        });
        let annotations = self.annotations.iter().filter_map(|annotation| {
            let opens = Part::opened_by(&annotation.name)?;
            Some(range(annotation.thread, annotation.start, annotation.duration, Some(opens), false))
        });
        part::places(&operators.chain(annotations).collect::<Vec<_>>())
    }

    fn warn_of_totals(&mut self, places: &[Place]) {
        let twice = self.operators.iter().zip(places).filter(|(operator, place)| {
            place.within_counted && operator.flops.is_some_and(|(flops, _)| flops > 0)
        });
        let twice = twice.count();
        let more = |count: u64| count.checked_sub(LISTED).filter(|&rest| rest > 0);
        let events = more(self.unreadable).map(|events| WarningKind::MoreWithoutTimes { events });
        let operators = more(self.uncounted).map(|operators| WarningKind::MoreUncounted { operators });
        let twice = (twice > 0).then_some(WarningKind::CountedTwice { calls: twice });
        let without = self.without_arguments;
        let arguments = (without > 0).then_some(WarningKind::Arguments { events: without });
        let kinds = [events, operators, twice, arguments].into_iter().flatten();
        let unread = std::mem::take(&mut self.unread);
        let unread = unread.into_iter().map(|(category, events)| WarningKind::Unread {
            category: String::from_utf8_lossy(&category).into_owned(),
            events,
        });
        self.warnings.extend(kinds.chain(unread).map(|kind| Warning { event: None, kind }));
    }
}

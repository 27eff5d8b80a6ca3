//! Reads a trace event by event, without holding the JSON in memory.

use std::fmt;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;
use std::sync::Arc;

use rustc_hash::{FxHashMap, FxHashSet};
use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

use crate::Error;
use crate::event::{Arguments, Category, Event, Phase, Scalar};
use crate::formula::{self, Inputs, Kind};
use crate::part::{self, Part, Range};
use crate::trace::{GpuKind, GpuWork, Operator, Source, Trace, Warning, WarningKind};

/// How many warnings of one kind are listed; the rest are only counted.
const LISTED: u64 = 5;

/// How to read a trace; the default requires what FLOPs are computed from.
///
/// ```
/// use flopgap_kineto::Trace;
///
/// let json = br#"[{"ph":"X","cat":"kernel","name":"gemm","ts":1,"dur":2}]"#;
/// assert!(Trace::read(&json[..], "trace.json").is_err());
/// let trace = Trace::options().without_shapes(true).read(&json[..], "trace.json")?;
/// assert_eq!(trace.gpu_work.len(), 1);
/// # Ok::<(), flopgap_kineto::Error>(())
/// ```
#[derive(Debug, Clone, Copy, Default)]
pub struct Options {
    without_shapes: bool,
}

impl Options {
    /// Accepts a trace without operators or without the shapes of their inputs, so that no FLOPs
    /// may be known.
    #[must_use]
    pub fn without_shapes(mut self, accepted: bool) -> Self {
        self.without_shapes = accepted;
        self
    }

    /// See [`Trace::open`].
    ///
    /// # Errors
    /// As [`Trace::open`].
    pub fn open(self, path: impl AsRef<Path>) -> Result<Trace, Error> {
        let path = path.as_ref();
        let file = File::open(path).map_err(|source| Error::Io { path: path.to_owned(), source })?;
        self.read(file, path)
    }

    /// See [`Trace::read`].
    ///
    /// # Errors
    /// As [`Trace::open`].
    pub fn read(self, reader: impl Read, path: impl AsRef<Path>) -> Result<Trace, Error> {
        let path = path.as_ref();
        let events = Trace::events(reader, path)?;
        if !self.without_shapes {
            events.require_shapes(path)?;
        }
        events.finish(path)
    }
}

impl Trace {
    /// Reads a trace: JSON as `export_chrome_trace` writes it, also compressed with gzip or
    /// Zstandard, recognized by its first bytes.
    ///
    /// # Errors
    /// [`Error`] when the file is not a trace, is cut off, or has no shapes at all.
    pub fn open(path: impl AsRef<Path>) -> Result<Trace, Error> {
        Options::default().open(path)
    }

    /// Like [`Trace::open`], from any reader; `path` names it in messages.
    ///
    /// # Errors
    /// As [`Trace::open`].
    pub fn read(reader: impl Read, path: impl AsRef<Path>) -> Result<Trace, Error> {
        Options::default().read(reader, path)
    }

    /// Options for reading a trace.
    pub fn options() -> Options {
        Options::default()
    }

    fn events(reader: impl Read, path: &Path) -> Result<Events, Error> {
        let io_error = |source| Error::Io { path: path.to_owned(), source };
        let reader = decompressed(BufReader::with_capacity(1 << 17, reader)).map_err(io_error)?;
        let mut events = Events::default();
        let mut json = serde_json::Deserializer::from_reader(reader);
        let result = Document { events: &mut events }.deserialize(&mut json).and_then(|()| json.end());
        result.map_err(|error| of_json(path, error))?;
        Ok(events)
    }
}

fn decompressed<'a>(mut reader: impl BufRead + 'a) -> io::Result<Box<dyn BufRead + 'a>> {
    let head = reader.fill_buf()?;
    Ok(if head.starts_with(&[0x1f, 0x8b]) {
        Box::new(BufReader::with_capacity(1 << 17, flate2::bufread::MultiGzDecoder::new(reader)))
    } else if head.starts_with(&[0x28, 0xb5, 0x2f, 0xfd]) {
        Box::new(BufReader::with_capacity(1 << 17, zstd::Decoder::with_buffer(reader)?))
    } else {
        Box::new(reader)
    })
}

fn of_json(path: &Path, error: serde_json::Error) -> Error {
    let (path, line, column) = (path.to_owned(), error.line(), error.column());
    match error.classify() {
        serde_json::error::Category::Io => Error::Io { path, source: error.into() },
        serde_json::error::Category::Eof => Error::Truncated { path, line, column },
        _ => {
            let text = error.to_string();
            let place = format!(" at line {line} column {column}");
            let message = text.strip_suffix(&place).unwrap_or(&text).to_owned();
            Error::Json { path, line, column, message }
        }
    }
}

/// Data collected from the events in one pass.
#[derive(Default)]
struct Events {
    seen: u64,
    is_trace: bool,
    device: Option<String>,
    names: FxHashMap<String, Arc<str>>,
    threads: FxHashMap<(Id, Id), u32>,
    /// Ranges on the host, with further data for the operators among them.
    ranges: Vec<Range>,
    operators: Vec<Option<Called>>,
    gpu_work: Vec<GpuWork>,
    /// Where arrows from forward operators end: thread and time.
    backward_starts: FxHashSet<(u32, i64)>,
    with_shapes: bool,
    warnings: Vec<Warning>,
    unreadable: u64,
    uncounted: u64,
}

/// Data of an operator apart from its range.
struct Called {
    name: Arc<str>,
    flops: Option<(u64, Source)>,
}

/// A process or thread: a number, or for some tools a text.
#[derive(PartialEq, Eq, Hash)]
enum Id {
    Number(i64),
    Text(String),
}

impl Id {
    fn of(scalar: Scalar) -> Id {
        match scalar {
            Scalar::Integer(number) => Id::Number(number),
            Scalar::Text(text) => Id::Text(text),
            Scalar::Float(value) => Id::Text(value.to_string()),
            Scalar::None => Id::Text(String::new()),
        }
    }
}

impl Events {
    fn push(&mut self, event: Event) {
        self.seen += 1;
        match (event.phase, event.category) {
            (Phase::FlowEnd, Category::ForwardBackward) => {
                if let Some(start) = event.start.nanoseconds() {
                    let thread = self.thread(event.process, event.thread);
                    self.backward_starts.insert((thread, start));
                }
            }
            (Phase::Complete, Category::Operator) => self.push_range(event, true),
            (Phase::Complete, Category::Annotation) if Part::opened_by(&event.name).is_some() => {
                self.push_range(event, false);
            }
            (Phase::Complete, Category::Kernel) => self.push_work(event, GpuKind::Kernel),
            (Phase::Complete, Category::Copy) => self.push_work(event, GpuKind::Copy),
            (Phase::Complete, Category::Set) => self.push_work(event, GpuKind::Memset),
            _ => {}
        }
    }

    /// Start and end of an event; an event that lacks either is skipped with a warning.
    fn times(&mut self, event: &Event) -> Option<(i64, i64)> {
        let times = event.start.nanoseconds().zip(event.duration.nanoseconds());
        let times = times.filter(|(_, duration)| *duration >= 0);
        let times = times.and_then(|(start, duration)| Some((start, start.checked_add(duration)?)));
        if times.is_none() {
            self.unreadable += 1;
            if self.unreadable <= LISTED {
                let kind = WarningKind::NoTimes { name: event.name.clone() };
                self.warnings.push(Warning { event: Some(self.seen), kind });
            }
        }
        times
    }

    fn push_work(&mut self, event: Event, kind: GpuKind) {
        let Some((start, end)) = self.times(&event) else { return };
        let Arguments {
            device,
            context,
            stream,
            correlation,
            registers,
            shared_memory,
            bytes,
            grid,
            block,
            ..
        } = event.arguments;
        let sizes = |sizes: Option<Vec<u64>>| <[u64; 3]>::try_from(sizes?).ok();
        let work = GpuWork {
            kind,
            name: self.name(event.name),
            start,
            duration: end.abs_diff(start),
            device: device.integer(),
            context: context.integer(),
            stream: stream.integer(),
            correlation: correlation.integer(),
            grid: sizes(grid),
            block: sizes(block),
            registers: registers.count(),
            shared_bytes: shared_memory.count(),
            bytes: bytes.count(),
        };
        self.gpu_work.push(work);
    }

    fn push_range(&mut self, event: Event, is_operator: bool) {
        let Some((start, end)) = self.times(&event) else { return };
        let flops = if is_operator { self.flops(&event) } else { None };
        let thread = self.thread(event.process, event.thread);
        let from_forward = event.arguments.forward_thread.integer().is_some_and(|thread| thread > 0);
        let opens = Part::opened_by(&event.name).or(from_forward.then_some(Part::Backward));
        let counted = Kind::of(&event.name).is_some();
        self.ranges.push(Range { thread, start, end, opens, counted });
        let name = is_operator.then(|| self.name(event.name));
        self.operators.push(name.map(|name| Called { name, flops }));
    }

    /// The trace's own value, or else the formula's.
    fn flops(&mut self, event: &Event) -> Option<(u64, Source)> {
        let arguments = &event.arguments;
        self.with_shapes |= !arguments.shapes.is_empty();
        if let Some(flops) = arguments.flops.count() {
            self.with_shapes = true;
            return Some((flops, Source::Recorded));
        }
        let inputs = Inputs { shapes: &arguments.shapes, concrete: &arguments.concrete };
        match formula::flops(&event.name, inputs) {
            Ok(flops) => flops.map(|flops| (flops, Source::Formula)),
            Err(reason) => {
                self.uncounted += 1;
                if self.uncounted <= LISTED {
                    let kind = WarningKind::Uncounted { operator: event.name.clone(), reason };
                    self.warnings.push(Warning { event: Some(self.seen), kind });
                }
                None
            }
        }
    }

    fn thread(&mut self, process: Scalar, thread: Scalar) -> u32 {
        let next = u32::try_from(self.threads.len()).unwrap_or(u32::MAX);
        *self.threads.entry((Id::of(process), Id::of(thread))).or_insert(next)
    }

    fn name(&mut self, name: String) -> Arc<str> {
        if let Some(known) = self.names.get(&name) {
            return Arc::clone(known);
        }
        let shared: Arc<str> = name.as_str().into();
        self.names.insert(name, Arc::clone(&shared));
        shared
    }

    /// Refuses a trace from which no FLOPs can be taken.
    fn require_shapes(&self, path: &Path) -> Result<(), Error> {
        let path = path.to_owned();
        let count = self.operators.iter().flatten().count();
        if !self.is_trace {
            return Err(Error::NotATrace { path });
        }
        if count == 0 {
            return Err(Error::NoOperators { path, events: self.seen });
        }
        if !self.with_shapes {
            return Err(Error::NoShapes { path, operators: count });
        }
        Ok(())
    }

    fn finish(mut self, path: &Path) -> Result<Trace, Error> {
        let path = path.to_owned();
        if !self.is_trace {
            return Err(Error::NotATrace { path });
        }
        for range in &mut self.ranges {
            if range.opens.is_none() && self.backward_starts.contains(&(range.thread, range.start)) {
                range.opens = Some(Part::Backward);
            }
        }
        let places = part::places(&self.ranges);
        self.warn_of_totals(&places);
        let operators = self.operators.into_iter().zip(&self.ranges).zip(&places);
        let operators = operators.filter_map(|((operator, range), place)| {
            let Called { name, flops } = operator?;
            let duration = range.end.abs_diff(range.start);
            Some(Operator { name, part: place.part, start: range.start, duration, flops })
        });
        let (device, operators) = (self.device, operators.collect());
        Ok(Trace { path, device, operators, gpu_work: self.gpu_work, warnings: self.warnings })
    }

    fn warn_of_totals(&mut self, places: &[part::Place]) {
        let twice = self.operators.iter().zip(places).filter(|(operator, place)| {
            let flops = operator.as_ref().and_then(|called| called.flops);
            place.within_counted && flops.is_some_and(|(flops, _)| flops > 0)
        });
        let twice = twice.count();
        let more = |count: u64| count.checked_sub(LISTED).filter(|&rest| rest > 0);
        let events = more(self.unreadable).map(|events| WarningKind::MoreWithoutTimes { events });
        let operators = more(self.uncounted).map(|operators| WarningKind::MoreUncounted { operators });
        let twice = (twice > 0).then_some(WarningKind::CountedTwice { calls: twice });
        let kinds = [events, operators, twice].into_iter().flatten();
        self.warnings.extend(kinds.map(|kind| Warning { event: None, kind }));
    }
}

/// The whole file: an object with `traceEvents`, or the list of events alone.
struct Document<'a> {
    events: &'a mut Events,
}

#[derive(Deserialize)]
#[serde(field_identifier)]
enum Key {
    #[serde(rename = "traceEvents")]
    Events,
    #[serde(rename = "deviceProperties")]
    Devices,
    #[serde(other)]
    Other,
}

#[derive(Deserialize)]
struct Device {
    #[serde(default)]
    name: Scalar,
}

impl<'de> DeserializeSeed<'de> for Document<'_> {
    type Value = ();
    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Document<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a Chrome trace")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(key) = map.next_key::<Key>()? {
            match key {
                Key::Events => {
                    self.events.is_trace = true;
                    map.next_value_seed(List { events: self.events })?;
                }
                Key::Devices => {
                    let first = map.next_value::<Vec<Device>>()?.into_iter().next();
                    if let Some(Scalar::Text(name)) = first.map(|device| device.name) {
                        self.events.device = Some(name);
                    }
                }
                Key::Other => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<(), A::Error> {
        self.events.is_trace = true;
        List { events: self.events }.visit_seq(list)
    }
}

/// The list of events.
struct List<'a> {
    events: &'a mut Events,
}

impl<'de> DeserializeSeed<'de> for List<'_> {
    type Value = ();
    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for List<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of events")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        while let Some(event) = list.next_element()? {
            self.events.push(event);
        }
        Ok(())
    }
}

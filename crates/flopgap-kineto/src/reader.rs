//! A trace read event by event: the JSON is never held as a whole.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;

use flopgap_files::unpack::{Compression, Meter};
use flopgap_trace::DeviceId;
use serde::Deserialize;
use serde_json::Value;

use crate::Error;
use crate::event::Event;
use crate::json::{Cursor, Fault, Scalar, Stop, Window};
use crate::recorded::Recorded;
use crate::trace::{Device, Distributed, Trace};

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
    /// may be known; operators without shapes are then no reason for a warning.
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
        let document = Document::read(reader, path)?;
        if !document.is_trace {
            return Err(Error::NotATrace { path: path.to_owned() });
        }
        let Document { recorded, devices, distributed, job, base, .. } = document;
        if !self.without_shapes {
            recorded.require_shapes(path)?;
        }
        let device = devices.first().and_then(|device| device.name.clone());
        let trace = recorded.finish(path, self.without_shapes);
        Ok(Trace { device, devices, distributed, job, base, ..trace })
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

    /// Options to read a trace with.
    pub fn options() -> Options {
        Options::default()
    }
}

/// The content of a file that may be compressed.
pub(crate) fn decompressed<'a>(reader: impl Read + 'a) -> io::Result<Box<dyn Read + 'a>> {
    let meter = Meter::default();
    let mut reader = BufReader::with_capacity(1 << 17, meter.packed(reader));
    Ok(match Compression::of(reader.fill_buf()?) {
        Some(compression) => Box::new(meter.unpack(compression, reader)?),
        None => Box::new(reader),
    })
}

/// The whole file: an object with `traceEvents`, or the list of events alone.
#[derive(Default)]
struct Document {
    recorded: Recorded,
    is_trace: bool,
    devices: Vec<Device>,
    distributed: Option<Distributed>,
    job: BTreeMap<String, String>,
    base: i64,
}

/// A key of the outermost object, up to its value.
enum Key {
    End,
    Events,
    Devices,
    Distributed,
    Base,
    Job(String),
    Other,
}

/// Under which names traces say of which job they are.
const JOB: [&[u8]; 7] = [
    b"job_id",
    b"job_name",
    b"mast_job_attempt",
    b"mast_job_name",
    b"mast_job_version",
    b"slurm_job_id",
    b"tw_job",
];

impl Document {
    fn read(reader: impl Read, path: &Path) -> Result<Document, Error> {
        let io_error = |source| Error::Io { path: path.to_owned(), source };
        let reader = decompressed(reader).map_err(io_error)?;
        let mut window = Window::new(reader);
        let mut document = Document::default();
        document.parse(&mut window).map_err(|fault| match fault {
            Fault::Io(source) => io_error(source),
            Fault::End(at) => Error::Truncated { path: path.to_owned(), line: at.line, column: at.column },
            Fault::Syntax(at, message) => {
                let (path, message) = (path.to_owned(), message.to_owned());
                Error::Json { path, line: at.line, column: at.column, message }
            }
        })?;
        Ok(document)
    }

    fn parse<R: Read>(&mut self, window: &mut Window<R>) -> Result<(), Fault> {
        let is_list = window.parse(|cursor| {
            cursor.skip_byte_order_mark();
            match cursor.peek()? {
                b'[' => cursor.expect(b'[', "expected a list").map(|()| true),
                b'{' => cursor.expect(b'{', "expected an object").map(|()| false),
                _ => Err(Stop::Syntax("expected a Chrome trace: an object or a list")),
            }
        })?;
        if is_list {
            self.is_trace = true;
            self.events(window)?;
        } else {
            let mut first = true;
            loop {
                match window.parse(|cursor| key(cursor, first))? {
                    Key::End => break,
                    Key::Events => {
                        self.is_trace = true;
                        window.parse(|cursor| cursor.expect(b'[', "expected a list of events"))?;
                        self.events(window)?;
                    }
                    Key::Devices => {
                        self.devices = window.parse(|cursor| value(cursor, devices))?.unwrap_or_default();
                    }
                    Key::Distributed => {
                        self.distributed = window.parse(|cursor| value(cursor, distributed))?;
                    }
                    Key::Base => {
                        self.base =
                            window.parse(|cursor| cursor.scalar().map(Scalar::integer))?.unwrap_or_default();
                    }
                    Key::Job(key) => {
                        let text = window.parse(|cursor| value(cursor, |value| Some(value.to_string())))?;
                        self.job.extend(text.map(|text| (key, text)));
                    }
                    Key::Other => window.parse(|cursor| cursor.skip().map(drop))?,
                }
                first = false;
            }
        }
        window.parse(|cursor| {
            if cursor.is_done()? { Ok(()) } else { Err(Stop::Syntax("more after the end of the trace")) }
        })
    }

    /// The list of events, behind its bracket.
    fn events<R: Read>(&mut self, window: &mut Window<R>) -> Result<(), Fault> {
        let mut first = true;
        loop {
            let recorded = &mut self.recorded;
            let more = window.parse(|cursor| {
                if !cursor.next_item(b']', first)? {
                    return Ok(false);
                }
                // One that is not complete is read again with more of the file: until then, nothing
                // is kept.
                let start = cursor.at();
                let event = Event::parse(cursor)?;
                recorded.push(&event, cursor.since(start));
                Ok(true)
            })?;
            if !more {
                return Ok(());
            }
            first = false;
        }
    }
}

fn key(cursor: &mut Cursor<'_>, first: bool) -> Result<Key, Stop> {
    if !cursor.next_item(b'}', first)? {
        return Ok(Key::End);
    }
    Ok(match cursor.key()?.bytes {
        b"traceEvents" => Key::Events,
        b"deviceProperties" => Key::Devices,
        b"distributedInfo" => Key::Distributed,
        b"baseTimeNanoseconds" => Key::Base,
        key if JOB.contains(&key) => Key::Job(String::from_utf8_lossy(key).into_owned()),
        _ => Key::Other,
    })
}

/// What `of` makes of the next value; nothing where it is not what is expected there.
fn value<T>(cursor: &mut Cursor<'_>, of: fn(&Value) -> Option<T>) -> Result<Option<T>, Stop> {
    let value = serde_json::from_slice(cursor.skip()?);
    Ok(value.ok().and_then(|value| of(&value)))
}

fn devices(value: &Value) -> Option<Vec<Device>> {
    let device = |value: &Value| Device {
        id: value.get("id").and_then(Value::as_i64).map(DeviceId),
        name: value.get("name").and_then(Value::as_str).map(str::to_owned),
        multiprocessors: value.get("numSms").and_then(Value::as_u64),
        memory_bytes: value.get("totalGlobalMem").and_then(Value::as_u64),
    };
    Some(value.as_array()?.iter().map(device).collect())
}

fn distributed(value: &Value) -> Option<Distributed> {
    /// Some tools write numbers as texts.
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Number {
        Number(u64),
        Text(String),
    }
    let number = |key: &str| match Number::deserialize(value.get(key)?).ok()? {
        Number::Number(number) => Some(number),
        Number::Text(text) => text.trim().parse().ok(),
    };
    value.is_object().then(|| Distributed {
        rank: number("rank"),
        world_size: number("world_size"),
        backend: value.get("backend").and_then(Value::as_str).map(str::to_owned),
    })
}

//! Traces of XLA, as JAX and TensorFlow write them: events without categories, which only the names
//! of their processes and threads explain.

use std::sync::Arc;

use flopgap_trace::{CorrelationId, DeviceId, StreamId};

use crate::event::Event;
use crate::host::Id;
use crate::trace::{Annotation, AnnotationKind, Call, GpuKind, GpuWork};

/// How the processes of GPUs are called, before the number.
const GPU: &str = "/device:GPU:";
/// How that of the host is.
const HOST: &str = "/host:";
/// How a device's lines of kernels and copies are called, before the number; its others repeat
/// these.
const STREAM: &str = "Stream #";

/// An event without a category.
#[derive(Debug)]
pub(crate) struct Plain {
    pub(crate) process: Id,
    pub(crate) thread: Id,
    name: Arc<str>,
    start: i64,
    duration: u64,
    correlation: Option<CorrelationId>,
    /// The number of the step that an annotation marks.
    step: Option<i64>,
    /// What was copied.
    bytes: Option<u64>,
}

impl Plain {
    pub(crate) fn new(event: &Event<'_>, name: Arc<str>, (start, duration): (i64, u64)) -> Plain {
        let (mut correlation, mut step, mut bytes) = (None, None, None);
        // Arguments that cannot be read are absent.
        let _ = event.each_argument(|key, cursor| {
            match key {
                b"correlation_id" => correlation = cursor.scalar()?.integer().map(CorrelationId),
                b"step_num" => step = cursor.scalar()?.integer(),
                b"memcpy_details" | b"memset_details" => {
                    if let crate::json::Scalar::Text(details) = cursor.scalar()? {
                        let text = details.text();
                        bytes = text.split_once("size:").and_then(|(_, size)| {
                            size.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
                        });
                    }
                }
                _ => drop(cursor.skip()?),
            }
            Ok(())
        });
        let (process, thread) = (Id::of(event.process), Id::of(event.thread));
        Plain { process, thread, name, start, duration, correlation, step, bytes }
    }
}

/// What an event without a category is, by the names of its process and thread.
pub(crate) enum Meaning {
    Work(GpuWork),
    Call(Call),
    Annotation(Annotation),
    /// Known and not asked for: a frame of Python, or a line that repeats what other lines say.
    Repeats,
    Unknown,
}

/// Whether names of processes are those of XLA.
pub(crate) fn is_xla<'a>(mut processes: impl Iterator<Item = &'a str>) -> bool {
    processes.any(|name| name.starts_with("/device:") || name.starts_with(HOST))
}

impl Plain {
    /// What it is; `place` finds its thread among those of the host.
    pub(crate) fn meaning(self, process: &str, line: Option<&str>, place: impl FnOnce() -> u32) -> Meaning {
        let Plain { name, start, duration, correlation, step, bytes, .. } = self;
        if let Some(device) = process.strip_prefix(GPU) {
            let Some(stream) = line.and_then(|line| line.strip_prefix(STREAM)) else {
                return Meaning::Repeats;
            };
            let is = |begin: &str| name.get(..begin.len()).is_some_and(|is| is.eq_ignore_ascii_case(begin));
            let kind = if is("memcpy") {
                GpuKind::Copy
            } else if is("memset") {
                GpuKind::Memset
            } else {
                GpuKind::Kernel
            };
            return Meaning::Work(GpuWork {
                kind,
                start,
                duration,
                name,
                device: leading(device).map(DeviceId),
                context: None,
                stream: leading(stream).map(StreamId),
                correlation,
                external: None,
                graph_node: None,
                group: None,
                grid: None,
                block: None,
                registers: None,
                shared_bytes: None,
                bytes,
                exchanged: None,
            });
        }
        if !process.starts_with(HOST) {
            return Meaning::Unknown;
        }
        if name.starts_with('$') {
            return Meaning::Repeats;
        }
        if is_call(&name) {
            return Meaning::Call(Call { name, start, duration, thread: place(), correlation });
        }
        let name = step.map_or(name.clone(), |step| format!("{name} step {step}").into());
        let kind = AnnotationKind::User;
        Meaning::Annotation(Annotation { kind, name, start, duration, thread: place(), external: None })
    }
}

/// Whether a function is one of the GPU's runtime or driver: `cuLaunchKernel`.
fn is_call(name: &str) -> bool {
    ["cuda", "cu", "hip"].iter().any(|begin| {
        name.strip_prefix(begin).is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_uppercase()))
    })
}

/// The number that a text begins with.
fn leading(text: &str) -> Option<i64> {
    text.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
}

//! Events: what the library wrote itself.

use std::borrow::Cow;

use super::activity::Device;
use super::bytes::{u32_at, u64_at};
use crate::format::{counted, device, event, followed, mark};

/// An event.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Event<'a> {
    /// A string of records; the address is what a record has in place of the number where the
    /// program was killed before its buffer was complete.
    String {
        number: u64,
        address: u64,
        text: Cow<'a, str>,
    },
    Function {
        domain: u32,
        number: u32,
        name: Cow<'a, str>,
    },
    Push(Mark<'a>),
    Start(Mark<'a>),
    Mark(Mark<'a>),
    Pop {
        domain: u64,
    },
    End {
        range: u64,
    },
    Domain {
        number: u64,
        name: Cow<'a, str>,
    },
    Registered {
        number: u32,
        text: Cow<'a, str>,
    },
    Category {
        domain: u32,
        number: u32,
        name: Cow<'a, str>,
    },
    Thread {
        number: u64,
        name: Cow<'a, str>,
    },
    Command {
        arguments: Cow<'a, str>,
    },
    Message {
        severity: u64,
        text: Cow<'a, str>,
    },
    Node {
        number: u64,
        original: u64,
    },
    Stride {
        kind: u32,
        bytes: u32,
    },
    Device {
        device: Device,
        name: Cow<'a, str>,
    },
    Switched {
        on: bool,
        time: u64,
    },
    Metrics {
        group: u32,
        names: Cow<'a, str>,
    },
    Work {
        number: u32,
        work: Work<'a>,
    },
    Counted {
        group: u32,
        works: [u32; counted::WORKS],
        values: Vec<f64>,
    },
    Step {
        group: u32,
        values: Vec<f64>,
        range: Cow<'a, str>,
    },
}

/// What is counted.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Work<'a> {
    Kernel { name: Cow<'a, str>, grid: [u32; 3], block: [u32; 3], shared: u32 },
    Graph(u32),
}

impl Work<'_> {
    pub(crate) fn into_owned(self) -> Work<'static> {
        match self {
            Work::Kernel { name, grid, block, shared } => {
                Work::Kernel { name: name.into_owned().into(), grid, block, shared }
            }
            Work::Graph(graph) => Work::Graph(graph),
        }
    }
}

/// A mark, or the beginning of a range.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Mark<'a> {
    pub(crate) range: u64,
    pub(crate) domain: u32,
    pub(crate) category: Option<u32>,
    pub(crate) color: Option<u32>,
    pub(crate) payload: Option<Payload>,
    pub(crate) text: Text<'a>,
}

/// What a range or mark is called.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Text<'a> {
    Own(Cow<'a, str>),
    Registered(u32),
}

/// A number that a program gives to a range.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Payload {
    Unsigned(u64),
    Signed(i64),
    Double(f64),
    Unsigned32(u32),
    Signed32(i32),
    Float(f32),
}

/// Reads events until the bytes end or say nothing sensible.
pub(super) fn decode<'a>(bytes: &'a [u8], mut take: impl FnMut(u64, Event<'a>)) {
    let mut at = 0;
    while at + event::HEADER <= bytes.len() {
        let length = u32_at(bytes, at) as usize;
        let Some(record) = bytes.get(at..at + length).filter(|it| it.len() >= event::HEADER) else { return };
        if let Some(event) = one(u32_at(record, 4), &record[event::HEADER..]) {
            take(u64_at(record, 8), event);
        }
        at += length.next_multiple_of(event::ALIGNMENT);
    }
}

fn one(kind: u32, rest: &[u8]) -> Option<Event<'_>> {
    let text = |from: usize| String::from_utf8_lossy(rest.get(from..).unwrap_or_default());
    let two = || (u32_at(rest, 0), u32_at(rest, 4));
    Some(match kind {
        event::STRING => Event::String { number: u64_at(rest, 0), address: u64_at(rest, 8), text: text(16) },
        event::FUNCTION => Event::Function { domain: two().0, number: two().1, name: text(8) },
        event::PUSH => Event::Push(mark(rest)),
        event::PUSH_TEXT => Event::Push(Mark {
            range: 0,
            domain: 0,
            category: None,
            color: None,
            payload: None,
            text: Text::Own(text(0)),
        }),
        event::START => Event::Start(mark(rest)),
        event::MARK => Event::Mark(mark(rest)),
        event::POP => Event::Pop { domain: u64_at(rest, 0) },
        event::END => Event::End { range: u64_at(rest, 0) },
        event::DOMAIN => Event::Domain { number: u64_at(rest, 0), name: text(8) },
        event::REGISTERED => Event::Registered { number: two().1, text: text(8) },
        event::CATEGORY => Event::Category { domain: two().0, number: two().1, name: text(8) },
        event::THREAD => Event::Thread { number: u64_at(rest, 0), name: text(8) },
        event::COMMAND => Event::Command { arguments: text(0) },
        event::MESSAGE => Event::Message { severity: u64_at(rest, 0), text: text(8) },
        event::NODE => Event::Node { number: u64_at(rest, 0), original: u64_at(rest, 8) },
        event::STRIDE => Event::Stride { kind: two().0, bytes: two().1 },
        event::DEVICE => {
            let word = |at: usize| u32_at(rest, device::WORDS + 4 * at);
            let mut uuid = [0; 16];
            uuid.copy_from_slice(rest.get(device::UUID..device::NAME)?);
            let device = Device {
                id: word(0),
                name: 0,
                uuid,
                bandwidth: u64_at(rest, device::SIZES),
                memory: u64_at(rest, device::SIZES + 8),
                l2: word(4),
                clock: word(5),
                multiprocessors: word(1),
                capability: (word(2), word(3)),
                warp: word(6),
            };
            Event::Device { device, name: text(device::NAME) }
        }
        event::SWITCHED => Event::Switched { on: u64_at(rest, 0) == followed::ON, time: u64_at(rest, 8) },
        event::METRICS => Event::Metrics { group: two().0, names: text(4) },
        event::WORK => {
            let three = |at: usize| [at, at + 4, at + 8].map(|at| u32_at(rest, at));
            let work = match u32_at(rest, 4) {
                0 => Work::Kernel {
                    name: text(36),
                    grid: three(8),
                    block: three(20),
                    shared: u32_at(rest, 32),
                },
                graph => Work::Graph(graph),
            };
            Event::Work { number: two().0, work }
        }
        event::COUNTED => {
            let mut works = [0; counted::WORKS];
            for (work, at) in works.iter_mut().zip((4..).step_by(4)) {
                *work = u32_at(rest, at);
            }
            let values = numbers(rest.get(4 + 4 * counted::WORKS..).unwrap_or_default());
            Event::Counted { group: two().0, works, values }
        }
        event::STEP => {
            let (group, metrics) = two();
            let name = (metrics as usize).checked_mul(8)?.checked_add(8)?;
            Event::Step { group, values: numbers(rest.get(8..name)?), range: text(name) }
        }
        _ => return None,
    })
}

fn numbers(bytes: &[u8]) -> Vec<f64> {
    bytes.chunks_exact(8).map(|value| f64::from_bits(u64_at(value, 0))).collect()
}

fn mark(rest: &[u8]) -> Mark<'_> {
    let registered = u32_at(rest, mark::REGISTERED);
    let text = String::from_utf8_lossy(rest.get(mark::TEXT..).unwrap_or_default());
    Mark {
        range: u64_at(rest, mark::RANGE),
        domain: u32_at(rest, mark::DOMAIN),
        category: Some(u32_at(rest, mark::CATEGORY)).filter(|&category| category != 0),
        color: (u32_at(rest, mark::COLOR_TYPE) != 0).then(|| u32_at(rest, mark::COLOR)),
        payload: payload(u32_at(rest, mark::PAYLOAD_TYPE), u64_at(rest, mark::PAYLOAD)),
        text: if registered == 0 { Text::Own(text) } else { Text::Registered(registered) },
    }
}

/// A payload from its type, as NVTX numbers them, and its bits.
fn payload(kind: u32, bits: u64) -> Option<Payload> {
    let low = u32::try_from(bits & u64::from(u32::MAX)).unwrap_or(0);
    Some(match kind {
        1 => Payload::Unsigned(bits),
        2 => Payload::Signed(bits.cast_signed()),
        3 => Payload::Double(f64::from_bits(bits)),
        4 => Payload::Unsigned32(low),
        5 => Payload::Signed32(low.cast_signed()),
        6 => Payload::Float(f32::from_bits(low)),
        _ => return None,
    })
}

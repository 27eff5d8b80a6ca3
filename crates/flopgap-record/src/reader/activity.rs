//! Records of CUPTI, from the fields that all versions since 12.0 have at the same places.

use super::bytes::{u32_at, u64_at};
use crate::format::activity as kind;

/// What CUPTI recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Activity {
    Kernel(Kernel),
    Copy(Copy),
    Set(Set),
    Api(Api),
    Sync(Sync),
    Graph(Graph),
    Overhead(Overhead),
    Device(Device),
    Context { id: u32, device: u32, null_stream: u16 },
    Stream(Stream),
}

/// When and where work ran. Times are nanoseconds since 1970.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct At {
    pub(crate) start: u64,
    pub(crate) end: u64,
    pub(crate) device: u32,
    pub(crate) context: u32,
    pub(crate) stream: u32,
    pub(crate) correlation: u32,
    pub(crate) node: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Kernel {
    pub(crate) at: At,
    /// The number of a string, or its address.
    pub(crate) name: u64,
    pub(crate) grid: [u32; 3],
    pub(crate) block: [u32; 3],
    pub(crate) registers: u16,
    pub(crate) static_shared: u32,
    pub(crate) dynamic_shared: u32,
    pub(crate) local_per_thread: u32,
    pub(crate) local: u64,
    pub(crate) grid_id: u64,
    pub(crate) launch_type: u8,
    pub(crate) cache: u8,
    pub(crate) shared_executed: u32,
    /// The graph that it was launched by, 0 for none.
    pub(crate) graph: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Copy {
    pub(crate) at: At,
    pub(crate) bytes: u64,
    pub(crate) kind: u8,
    pub(crate) source: u8,
    pub(crate) destination: u8,
    /// Devices and contexts of a copy between devices.
    pub(crate) between: Option<[u32; 4]>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Set {
    pub(crate) at: At,
    pub(crate) bytes: u64,
    pub(crate) value: u32,
    pub(crate) memory: u16,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Api {
    pub(crate) start: u64,
    pub(crate) end: u64,
    pub(crate) is_driver: bool,
    pub(crate) function: u32,
    pub(crate) thread: u32,
    pub(crate) correlation: u32,
    pub(crate) result: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Sync {
    pub(crate) at: At,
    pub(crate) kind: u32,
    pub(crate) event: u32,
}

/// A launch of a whole graph.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Graph {
    pub(crate) at: At,
    pub(crate) graph: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Overhead {
    pub(crate) start: u64,
    pub(crate) end: u64,
    pub(crate) kind: u32,
    /// Where it is a thread's.
    pub(crate) thread: Option<u32>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Device {
    pub(crate) id: u32,
    /// The number of a string.
    pub(crate) name: u64,
    pub(crate) uuid: [u8; 16],
    /// Kilobytes per second.
    pub(crate) bandwidth: u64,
    pub(crate) memory: u64,
    pub(crate) l2: u32,
    /// Kilohertz.
    pub(crate) clock: u32,
    pub(crate) multiprocessors: u32,
    pub(crate) capability: (u32, u32),
    pub(crate) warp: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stream {
    pub(crate) context: u32,
    pub(crate) id: u32,
    pub(crate) priority: u32,
    pub(crate) flag: u32,
}

/// The kind of an object that overhead is of: a thread.
const OF_A_THREAD: u32 = 2;

impl Activity {
    /// When it began; `None` for devices, contexts and streams.
    pub(crate) fn begun(&self) -> Option<u64> {
        match self {
            Activity::Kernel(Kernel { at, .. })
            | Activity::Copy(Copy { at, .. })
            | Activity::Set(Set { at, .. })
            | Activity::Sync(Sync { at, .. })
            | Activity::Graph(Graph { at, .. }) => Some(at.start),
            Activity::Api(Api { start, .. }) | Activity::Overhead(Overhead { start, .. }) => Some(*start),
            Activity::Device(_) | Activity::Context { .. } | Activity::Stream(_) => None,
        }
    }

    /// A record of a kind; `None` if it is of a kind that is not read, or too short.
    pub(super) fn decode(kind: u32, record: &[u8]) -> Option<Activity> {
        let needed = match kind {
            kind::KERNEL | kind::KERNEL_ALONE => 200,
            kind::COPY | kind::SET => 80,
            kind::COPY_BETWEEN_DEVICES => 88,
            kind::RUNTIME | kind::DRIVER | kind::SYNCHRONIZATION | kind::OVERHEAD | kind::GRAPH => 40,
            kind::DEVICE => 144,
            kind::CONTEXT => 16,
            kind::STREAM => 20,
            _ => return None,
        };
        let record = record.get(..).filter(|record| record.len() >= needed)?;
        Some(match kind {
            kind::KERNEL | kind::KERNEL_ALONE => Activity::Kernel(kernel(record)),
            kind::COPY => Activity::Copy(copy(record)),
            kind::COPY_BETWEEN_DEVICES => Activity::Copy(copy_between(record)),
            kind::SET => Activity::Set(set(record)),
            kind::RUNTIME | kind::DRIVER => Activity::Api(api(record, kind == kind::DRIVER)),
            kind::SYNCHRONIZATION => Activity::Sync(sync(record)),
            kind::OVERHEAD => Activity::Overhead(overhead(record)),
            kind::GRAPH => Activity::Graph(graph(record)),
            kind::DEVICE => Activity::Device(device(record)),
            kind::CONTEXT => Activity::Context {
                id: u32_at(record, 4),
                device: u32_at(record, 8),
                null_stream: u16_at(record, 14),
            },
            _ => Activity::Stream(Stream {
                context: u32_at(record, 4),
                id: u32_at(record, 8),
                priority: u32_at(record, 12),
                flag: u32_at(record, 16),
            }),
        })
    }
}

fn u16_at(record: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([record[at], record[at + 1]])
}

/// Start and end at 16, three numbers from `place`, the correlation and the node where they are.
fn at(record: &[u8], place: usize, correlation: usize, node: usize) -> At {
    At {
        start: u64_at(record, 16),
        end: u64_at(record, 24),
        device: u32_at(record, place),
        context: u32_at(record, place + 4),
        stream: u32_at(record, place + 8),
        correlation: u32_at(record, correlation),
        node: u64_at(record, node),
    }
}

fn kernel(record: &[u8]) -> Kernel {
    let three = |at: usize| [u32_at(record, at), u32_at(record, at + 4), u32_at(record, at + 8)];
    Kernel {
        at: at(record, 40, 92, 144),
        name: u64_at(record, kind::KERNEL_NAME),
        grid: three(52),
        block: three(64),
        registers: u16_at(record, 6),
        static_shared: u32_at(record, 76),
        dynamic_shared: u32_at(record, 80),
        local_per_thread: u32_at(record, 84),
        local: u64_at(record, 192),
        grid_id: u64_at(record, 96),
        launch_type: record[136],
        cache: record[4],
        shared_executed: u32_at(record, 140),
        graph: u32_at(record, 156),
    }
}

fn copy(record: &[u8]) -> Copy {
    Copy {
        at: at(record, 32, 44, 64),
        bytes: u64_at(record, 8),
        kind: record[4],
        source: record[5],
        destination: record[6],
        between: None,
    }
}

fn copy_between(record: &[u8]) -> Copy {
    let between = [44, 48, 52, 56].map(|at| u32_at(record, at));
    Copy { at: at(record, 32, 60, 72), between: Some(between), ..copy(record) }
}

fn set(record: &[u8]) -> Set {
    Set {
        at: at(record, 32, 44, 64),
        bytes: u64_at(record, 8),
        value: u32_at(record, 4),
        memory: u16_at(record, 50),
    }
}

fn api(record: &[u8], is_driver: bool) -> Api {
    Api {
        start: u64_at(record, 8),
        end: u64_at(record, 16),
        is_driver,
        function: u32_at(record, kind::CALL_NUMBER),
        thread: u32_at(record, 28),
        correlation: u32_at(record, 32),
        result: u32_at(record, 36),
    }
}

fn sync(record: &[u8]) -> Sync {
    let at = At {
        start: u64_at(record, 8),
        end: u64_at(record, 16),
        correlation: u32_at(record, 24),
        context: u32_at(record, 28),
        stream: u32_at(record, 32),
        ..At::default()
    };
    Sync { at, kind: u32_at(record, 4), event: u32_at(record, 36) }
}

fn graph(record: &[u8]) -> Graph {
    let at = At {
        start: u64_at(record, 8),
        end: u64_at(record, 16),
        device: u32_at(record, 24),
        context: u32_at(record, 32),
        stream: u32_at(record, 36),
        correlation: u32_at(record, 4),
        node: 0,
    };
    Graph { at, graph: u32_at(record, 28) }
}

fn overhead(record: &[u8]) -> Overhead {
    Overhead {
        start: u64_at(record, 24),
        end: u64_at(record, 32),
        kind: u32_at(record, 4),
        thread: (u32_at(record, 8) == OF_A_THREAD).then(|| u32_at(record, 16)),
    }
}

fn device(record: &[u8]) -> Device {
    let mut uuid = [0; 16];
    uuid.copy_from_slice(&record[120..136]);
    Device {
        id: u32_at(record, 112),
        name: u64_at(record, kind::DEVICE_NAME),
        uuid,
        bandwidth: u64_at(record, 8),
        memory: u64_at(record, 16),
        l2: u32_at(record, 28),
        clock: u32_at(record, 36),
        multiprocessors: u32_at(record, 44),
        capability: (u32_at(record, 104), u32_at(record, 108)),
        warp: u32_at(record, 32),
    }
}

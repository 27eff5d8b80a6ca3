//! The messages of a report that are needed, with NVIDIA's field numbers; every other field is
//! skipped unread.
//!
//! NVIDIA ships the format's description in the `extras/FileFormat` directory of Nsight Compute.
//! The numbers below hold for file version 7, which ncu 2022.4, 2023.3, 2025.1 and 2025.3 write.

use super::FormatFault;
use super::wire::{Damage, Field, Message, u32_of};

/// The newest file version whose reports were compared with NVIDIA's own reader.
pub(super) const KNOWN_VERSION: u32 = 7;

/// `FileHeader.Version`.
pub(super) fn file_version(header: Message<'_>) -> Result<u32, Damage> {
    for field in header.fields() {
        if let (1, Field::Varint(version)) = field? {
            return u32_of(version, header.at, "file version");
        }
    }
    Err(Damage::new(header.at, FormatFault::NoVersion))
}

/// What kind of work a result measured. The numbers are the order of the results in a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// One kernel launch.
    Kernel,
    /// All work between two marks (range replay, application range replay).
    Range,
    /// A command list.
    Cmdlist,
    /// A CUDA graph profiled as one.
    Graph,
}

/// In the order of their messages in a block.
pub(super) const KINDS: [Kind; 4] = [Kind::Kernel, Kind::Range, Kind::Cmdlist, Kind::Graph];

/// `BlockHeader`, with the parts that are read on demand still as bytes.
#[derive(Debug, Clone, Copy)]
pub(super) struct BlockHeader<'a> {
    pub(super) sources: u32,
    /// How many results of each kind follow, in the order of [`KINDS`].
    pub(super) results: [u32; KINDS.len()],
    /// Graph descriptions for the viewer, after the results.
    pub(super) graphs: u32,
    pub(super) payload: u32,
    pub(super) strings: Option<Message<'a>>,
    pub(super) process: Option<Message<'a>>,
}

impl<'a> BlockHeader<'a> {
    pub(super) fn parse(header: Message<'a>) -> Result<Self, Damage> {
        let mut block =
            BlockHeader { sources: 0, results: [0; 4], graphs: 0, payload: 0, strings: None, process: None };
        for field in header.fields() {
            let (number, field) = field?;
            match field {
                Field::Varint(value) => {
                    let place = match number {
                        1 => &mut block.sources,
                        2 => &mut block.results[0],
                        5 => &mut block.payload,
                        7 => &mut block.results[1],
                        8 => &mut block.results[2],
                        9 => &mut block.results[3],
                        10 => &mut block.graphs,
                        _ => continue,
                    };
                    *place = u32_of(value, header.at, "count in a block header")?;
                }
                Field::Bytes(bytes) => match number {
                    4 => block.strings = Some(bytes),
                    6 => block.process = Some(bytes),
                    _ => {}
                },
                Field::Fixed64(_) | Field::Fixed32(_) => {}
            }
        }
        Ok(block)
    }
}

/// The strings of a `ProfilerStringTable`.
pub(super) fn strings(table: Message<'_>) -> impl Iterator<Item = Result<Message<'_>, Damage>> {
    table.fields().filter_map(|field| match field {
        Ok((1, Field::Bytes(text))) => Some(Ok(text)),
        Ok(_) => None,
        Err(damage) => Some(Err(damage)),
    })
}

/// `ProcessInfo`.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct ProcessInfo<'a> {
    pub(super) id: Option<u64>,
    pub(super) host: Option<Message<'a>>,
    /// The executable, with its directory.
    pub(super) name: Option<Message<'a>>,
}

impl<'a> ProcessInfo<'a> {
    pub(super) fn parse(message: Message<'a>) -> Result<Self, Damage> {
        let mut process = ProcessInfo::default();
        for field in message.fields() {
            match field? {
                (1, Field::Varint(id)) => process.id = Some(id),
                (2, Field::Bytes(host)) => process.host = Some(host),
                (3, Field::Bytes(name)) => process.name = Some(name),
                _ => {}
            }
        }
        Ok(process)
    }
}

/// The field numbers of one kind of result; 0, which is no field number, where the kind has no such
/// field.
#[derive(Debug)]
pub(super) struct ResultFields {
    pub(super) thread: u32,
    pub(super) mangled: u32,
    pub(super) function: u32,
    /// The demangled name of a kernel, the display name of a command list.
    pub(super) name: u32,
    pub(super) grid: u32,
    pub(super) block: u32,
    pub(super) metrics: u32,
    pub(super) nvtx: u32,
    pub(super) context: u32,
    pub(super) stream: u32,
    /// What the reader calls a result that has no name of its own: the words of ncu's own tables.
    pub(super) unnamed: &'static str,
}

impl Kind {
    /// Where `ProfileResult`, `RangeResult`, `CmdlistResult` and `GraphResult` keep what a launch
    /// needs.
    pub(super) fn fields(self) -> &'static ResultFields {
        match self {
            Kind::Kernel => &ResultFields {
                thread: 1,
                mangled: 5,
                function: 6,
                name: 7,
                grid: 10,
                block: 11,
                metrics: 13,
                nvtx: 21,
                context: 22,
                stream: 23,
                unnamed: "",
            },
            Kind::Range => &ResultFields { context: 11, stream: 0, unnamed: "range", ..WITHOUT_KERNEL },
            Kind::Cmdlist => &ResultFields { name: 18, unnamed: "cmdlist", ..WITHOUT_KERNEL },
            Kind::Graph => &ResultFields { unnamed: "graph", ..WITHOUT_KERNEL },
        }
    }
}

/// What the three results that are not one kernel have in common. A grid, where one of them has
/// several, is none.
const WITHOUT_KERNEL: ResultFields = ResultFields {
    thread: 1,
    mangled: 0,
    function: 0,
    name: 0,
    grid: 0,
    block: 0,
    metrics: 4,
    nvtx: 10,
    context: 11,
    stream: 12,
    unnamed: "",
};

/// `ProfileMetricValue`, the member that is set.
#[derive(Debug, Clone, Copy)]
pub(super) enum MetricValue<'a> {
    Text(Message<'a>),
    Float(f64),
    Whole(u64),
}

/// `ProfileMetricResult` without its instances (per-SM or per-instruction values): `None` where it
/// has no value of its own.
pub(super) fn metric(message: Message<'_>) -> Result<(u32, Option<MetricValue<'_>>), Damage> {
    let mut name = None;
    let mut value = None;
    for field in message.fields() {
        match field? {
            (1, Field::Varint(id)) => name = Some(u32_of(id, message.at, "name index of a metric")?),
            (2, Field::Bytes(bytes)) => value = metric_value(bytes)?,
            _ => {}
        }
    }
    let name =
        name.ok_or_else(|| Damage::new(message.at, FormatFault::Lacks { part: "metric", what: "name" }))?;
    Ok((name, value))
}

/// `ProfileMetricListElement`: what an instance belongs to, and its value.
pub(super) fn instance(
    message: Message<'_>,
) -> Result<(Option<MetricValue<'_>>, Option<MetricValue<'_>>), Damage> {
    let (mut of, mut value) = (None, None);
    for field in message.fields() {
        match field? {
            (1, Field::Bytes(bytes)) => of = metric_value(bytes)?,
            (2, Field::Bytes(bytes)) => value = metric_value(bytes)?,
            _ => {}
        }
    }
    Ok((of, value))
}

fn metric_value(message: Message<'_>) -> Result<Option<MetricValue<'_>>, Damage> {
    let mut value = None;
    for field in message.fields() {
        match field? {
            (1, Field::Bytes(text)) => value = Some(MetricValue::Text(text)),
            (2, Field::Fixed32(bits)) => value = Some(MetricValue::Float(f32::from_bits(bits).into())),
            (3, Field::Fixed64(bits)) => value = Some(MetricValue::Float(f64::from_bits(bits))),
            (4 | 5, Field::Varint(count)) => value = Some(MetricValue::Whole(count)),
            _ => {}
        }
    }
    Ok(value)
}

/// `Uint64x3`; `None` unless all three are there.
pub(super) fn dim3(message: Message<'_>) -> Result<Option<[u64; 3]>, Damage> {
    let mut dims = [None; 3];
    for field in message.fields() {
        match field? {
            (1, Field::Varint(x)) => dims[0] = Some(x),
            (2, Field::Varint(y)) => dims[1] = Some(y),
            (3, Field::Varint(z)) => dims[2] = Some(z),
            _ => {}
        }
    }
    let [x, y, z] = dims;
    Ok(x.zip(y).zip(z).map(|((x, y), z)| [x, y, z]))
}

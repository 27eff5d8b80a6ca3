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
    let version = header.number(1)?.ok_or_else(|| Damage::new(header.at, FormatFault::NoVersion))?;
    u32_of(version, header.at, "file version")
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
        let count =
            |number| u32_of(header.number(number)?.unwrap_or(0), header.at, "count in a block header");
        Ok(BlockHeader {
            sources: count(1)?,
            results: [count(2)?, count(7)?, count(8)?, count(9)?],
            graphs: count(10)?,
            payload: count(5)?,
            strings: header.message(4)?,
            process: header.message(6)?,
        })
    }
}

/// The field numbers of one kind of result; 0, which is no field number, where the kind has no such
/// field.
#[derive(Debug)]
pub(super) struct ResultFields {
    pub(super) thread: u32,
    /// The demangled name of a kernel, the display name of a command list; the function's name; its
    /// mangled name.
    pub(super) names: [u32; 3],
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
                names: [7, 6, 5],
                grid: 10,
                block: 11,
                metrics: 13,
                nvtx: 21,
                context: 22,
                stream: 23,
                unnamed: "",
            },
            Kind::Range => &ResultFields { context: 11, stream: 0, unnamed: "range", ..WITHOUT_KERNEL },
            Kind::Cmdlist => &ResultFields { names: [18, 0, 0], unnamed: "cmdlist", ..WITHOUT_KERNEL },
            Kind::Graph => &ResultFields { unnamed: "graph", ..WITHOUT_KERNEL },
        }
    }
}

/// What the three results that are not one kernel have in common. A grid, where one of them has
/// several, is none.
const WITHOUT_KERNEL: ResultFields = ResultFields {
    thread: 1,
    names: [0; 3],
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
    let value = |number| message.message(number)?.map_or(Ok(None), metric_value);
    Ok((value(1)?, value(2)?))
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
    let [x, y, z] = [message.number(1)?, message.number(2)?, message.number(3)?];
    Ok(x.zip(y).zip(z).map(|((x, y), z)| [x, y, z]))
}

//! What ran on a GPU: kernels, copies, memsets, and whole graphs.

pub(crate) use flopgap_trace::{Work, WorkKind as Kind};

use super::TableSpec;
use super::codes::{CopyKind, MemoryKind};
use super::graph::GRAPH;
use super::placement::{Placement, placement};
use crate::row::{Field, Row};
use crate::rows::{Decoded, Select};
use crate::{
    ContextId, CorrelationId, DeviceId, Dim3, Error, GraphNodeId, KernelName, ProcessId, RowsOf, StringId,
    Trace,
};

pub(crate) const KERNEL: TableSpec = TableSpec::new("CUPTI_ACTIVITY_KIND_KERNEL", "CUDA kernel data");
pub(crate) const MEMCPY: TableSpec = TableSpec::new("CUPTI_ACTIVITY_KIND_MEMCPY", "CUDA memory copies");
pub(crate) const MEMSET: TableSpec = TableSpec::new("CUPTI_ACTIVITY_KIND_MEMSET", "CUDA memsets");

/// A kernel that ran on a GPU. Names are ids for [`Trace::string`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Kernel {
    /// When and where it ran.
    pub at: Placement,
    /// Name with template arguments.
    pub demangled: StringId,
    /// Name alone.
    pub short: StringId,
    /// Registers of a thread.
    pub registers: Option<i64>,
    /// Blocks in x, y, z.
    pub grid: Dim3,
    /// Threads of a block in x, y, z.
    pub block: Dim3,
    /// Static shared memory of a block, in bytes.
    pub static_shared: Option<i64>,
    /// Dynamic shared memory of a block, in bytes.
    pub dynamic_shared: Option<i64>,
    /// The node of a CUDA graph that it ran for.
    pub graph_node: Option<GraphNodeId>,
}

/// A memory copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct MemoryCopy {
    /// When and where it ran.
    pub at: Placement,
    /// How much was copied.
    pub bytes: i64,
    /// From where to where.
    pub kind: CopyKind,
    /// The kind of the source memory.
    pub source: Option<MemoryKind>,
    /// The kind of the destination memory.
    pub destination: Option<MemoryKind>,
    /// The GPU of the source, where it is another than that of the copy.
    pub source_device: Option<DeviceId>,
    /// The GPU of the destination, where it is another than that of the copy.
    pub destination_device: Option<DeviceId>,
}

/// A memset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct MemorySet {
    /// When and where it ran.
    pub at: Placement,
    /// How much was set.
    pub bytes: i64,
    /// The kind of memory.
    pub memory: Option<MemoryKind>,
}

/// The table of a kind of work.
pub(crate) fn table_of(kind: Kind) -> &'static TableSpec {
    match kind {
        Kind::Kernel => &KERNEL,
        Kind::Copy => &MEMCPY,
        Kind::Set => &MEMSET,
        Kind::Graph => &GRAPH,
    }
}

/// What is done with work that ends before it starts. [`Trace::warnings`] counts such rows either
/// way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Backward {
    /// It counts with a negative duration, as in the reports of nsys.
    AsNsys,
    /// It is left out: a time below zero would be subtracted from sums without notice.
    LeftOut,
}

impl Backward {
    #[inline]
    fn keeps(self, start: i64, end: i64) -> bool {
        self == Backward::AsNsys || start <= end
    }
}

/// Work with what distinguishes its kind from others.
pub(crate) struct IdentifiedWork {
    pub(crate) work: Work,
    /// The id of a kernel's demangled name, the id of a graph, the bytes of a copy or memset.
    pub(crate) id: Option<i64>,
    pub(crate) row: i64,
}

/// Kernels or whole graphs with an id of a name.
pub(crate) struct NamedWork {
    pub(crate) work: Work,
    /// The id of a kernel's name, for [`Trace::string`], or of a graph.
    pub(crate) name: i64,
}

/// A kernel with its grid and block.
pub(crate) struct ShapedKernel {
    pub(crate) start: i64,
    pub(crate) end: i64,
    pub(crate) name: StringId,
    pub(crate) grid: Dim3,
    pub(crate) block: Dim3,
}

impl ShapedKernel {
    pub(crate) fn duration(&self) -> i64 {
        self.end.saturating_sub(self.start)
    }
}

/// What ties GPU work to the call that launched it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LaunchId {
    pub(crate) process: Option<ProcessId>,
    pub(crate) correlation: Option<CorrelationId>,
}

/// When a context of a GPU was busy.
pub(crate) struct Busy {
    pub(crate) start: i64,
    pub(crate) end: i64,
    pub(crate) device: DeviceId,
    pub(crate) context: ContextId,
    pub(crate) process: Option<ProcessId>,
}

/// A copy or memset as summaries see it.
pub(crate) struct MemoryOperation {
    pub(crate) start: i64,
    pub(crate) end: i64,
    pub(crate) bytes: i64,
    /// The kind of a copy; `None` for a memset.
    pub(crate) kind: Option<CopyKind>,
}

impl MemoryOperation {
    pub(crate) fn duration(&self) -> i64 {
        self.end.saturating_sub(self.start)
    }
}

fn kernel(select: &mut Select<'_>) -> impl Fn(&Row<'_>) -> Option<Kernel> + Copy + Send + use<> {
    let at = placement(select);
    let (demangled, short) = (select.need("demangledName"), select.want("shortName"));
    let registers = select.want("registersPerThread");
    let shape = shape(select);
    let (fixed, dynamic) = (select.want("staticSharedMemory"), select.want("dynamicSharedMemory"));
    let graph_node = select.want("graphNodeId");
    move |row| {
        let demangled = StringId(row.int(demangled)?);
        let (grid, block) = shape(row)?;
        Some(Kernel {
            at: at(row)?,
            demangled,
            short: row.int(short).map_or(demangled, StringId),
            registers: row.int(registers),
            grid,
            block,
            static_shared: row.int(fixed),
            dynamic_shared: row.int(dynamic),
            graph_node: row.int(graph_node).map(GraphNodeId),
        })
    }
}

/// Decodes the grid and the block of a kernel.
fn shape(select: &mut Select<'_>) -> impl Fn(&Row<'_>) -> Option<(Dim3, Dim3)> + Copy + Send + use<> {
    let grid = ["gridX", "gridY", "gridZ"].map(|column| select.need(column));
    let block = ["blockX", "blockY", "blockZ"].map(|column| select.need(column));
    let dim3 = |row: &Row<'_>, [x, y, z]: [Field; 3]| {
        Some(Dim3 { x: row.extent(x)?, y: row.extent(y)?, z: row.extent(z)? })
    };
    move |row| Some((dim3(row, grid)?, dim3(row, block)?))
}

/// The column of the id of a kernel's name, and the one to fall back on.
#[derive(Clone, Copy)]
struct NameColumns(Field, Field);

impl NameColumns {
    fn select(select: &mut Select<'_>, names: KernelName) -> NameColumns {
        let demangled = select.need("demangledName");
        let first = match names {
            KernelName::Demangled => demangled,
            KernelName::Base => select.need("shortName"),
            KernelName::Mangled => select.want("mangledName"),
        };
        NameColumns(first, demangled)
    }

    #[inline]
    fn decode(self, row: &Row<'_>) -> Option<StringId> {
        row.int(self.0).or_else(|| row.int(self.1)).map(StringId)
    }
}

/// Decodes what all GPU work has in common; `None` for what is left out because it ends before it
/// starts.
fn work(
    select: &mut Select<'_>,
    kind: Kind,
    backward: Backward,
) -> impl Fn(&Row<'_>) -> Option<Work> + Copy + Send + use<> {
    let (start, end, device) = (select.need("start"), select.need("end"), select.need("deviceId"));
    let (correlation, process) = (select.want("correlationId"), select.want("globalPid"));
    move |row| {
        let (start, end) = (row.int(start)?, row.int(end)?);
        let (device, correlation) = (DeviceId(row.int(device)?), row.int(correlation).map(CorrelationId));
        let process = row.int(process).map(ProcessId);
        backward.keeps(start, end).then_some(Work { kind, start, end, device, process, correlation })
    }
}

fn copy(select: &mut Select<'_>) -> impl Fn(&Row<'_>) -> Option<MemoryCopy> + Copy + Send + use<> {
    let at = placement(select);
    let (bytes, kind) = (select.need("bytes"), select.need("copyKind"));
    let (source, destination) = (select.want("srcKind"), select.want("dstKind"));
    let (source_device, destination_device) = (select.want("srcDeviceId"), select.want("dstDeviceId"));
    move |row| {
        Some(MemoryCopy {
            at: at(row)?,
            bytes: row.int(bytes)?,
            kind: CopyKind::of(row.int(kind)?),
            source: row.int(source).map(MemoryKind::of),
            destination: row.int(destination).map(MemoryKind::of),
            source_device: row.int(source_device).map(DeviceId),
            destination_device: row.int(destination_device).map(DeviceId),
        })
    }
}

fn set(select: &mut Select<'_>) -> impl Fn(&Row<'_>) -> Option<MemorySet> + Copy + Send + use<> {
    let at = placement(select);
    let (bytes, memory) = (select.need("bytes"), select.want("memKind"));
    move |row| {
        Some(MemorySet { at: at(row)?, bytes: row.int(bytes)?, memory: row.int(memory).map(MemoryKind::of) })
    }
}

/// Every kernel.
pub(crate) fn kernels(trace: &Trace) -> Result<impl Decoded<Kernel> + use<>, Error> {
    let mut select = trace.select(&KERNEL);
    let kernel = kernel(&mut select);
    select.rows(kernel)
}

/// When and where every kernel ran, with the id of its demangled name, and its row.
pub(crate) fn kernel_places(
    trace: &Trace,
) -> Result<impl Decoded<(Placement, StringId, i64)> + use<>, Error> {
    let mut select = trace.select(&KERNEL);
    let (at, name) = (placement(&mut select), select.need("demangledName"));
    select.rows(move |row| Some((at(row)?, StringId(row.int(name)?), row.id())))
}

/// Every kernel with the id of the name that is shown.
pub(crate) fn named_kernels(
    trace: &Trace,
    names: KernelName,
) -> Result<impl Decoded<(Kernel, StringId)> + use<>, Error> {
    let mut select = trace.select(&KERNEL);
    let (kernel, name) = (kernel(&mut select), NameColumns::select(&mut select, names));
    select.rows(move |row| {
        let name = name.decode(row)?;
        Some((kernel(row)?, name))
    })
}

/// Every copy.
pub(crate) fn copies(trace: &Trace) -> Result<impl Decoded<MemoryCopy> + use<>, Error> {
    let mut select = trace.select(&MEMCPY);
    let copy = copy(&mut select);
    select.rows(copy)
}

/// Every memset.
pub(crate) fn memsets(trace: &Trace) -> Result<impl Decoded<MemorySet> + use<>, Error> {
    let mut select = trace.select(&MEMSET);
    let set = set(&mut select);
    select.rows(set)
}

/// Every piece of work of a kind.
pub(crate) fn all_work(
    trace: &Trace,
    kind: Kind,
    backward: Backward,
) -> Result<impl Decoded<Work> + use<>, Error> {
    let mut select = trace.select(table_of(kind));
    let work = work(&mut select, kind, backward);
    select.rows(work)
}

/// [`all_work`] without what ends before it starts, each piece with what distinguishes it from
/// others.
pub(crate) fn identified_work(
    trace: &Trace,
    kind: Kind,
) -> Result<impl Decoded<IdentifiedWork> + use<>, Error> {
    let mut select = trace.select(table_of(kind));
    let work = work(&mut select, kind, Backward::LeftOut);
    let id = match kind {
        Kind::Kernel => select.want("demangledName"),
        Kind::Graph => select.need("graphId"),
        Kind::Copy | Kind::Set => select.want("bytes"),
    };
    select.rows(move |row| Some(IdentifiedWork { work: work(row)?, id: row.int(id), row: row.id() }))
}

/// Whether kernels of an export have names.
pub(crate) fn has_kernel_names(trace: &Trace) -> Result<(), Error> {
    let mut select = trace.select(&KERNEL);
    select.need("demangledName");
    select.scan().map(drop)
}

/// Kernels with the ids of their names, or whole graphs with their own.
pub(crate) fn named_work(
    trace: &Trace,
    kind: Kind,
    names: KernelName,
    backward: Backward,
) -> Result<impl Decoded<NamedWork> + use<>, Error> {
    let mut select = trace.select(table_of(kind));
    let work = work(&mut select, kind, backward);
    let name = if kind == Kind::Graph {
        let id = select.need("graphId");
        NameColumns(id, id)
    } else {
        NameColumns::select(&mut select, names)
    };
    select.rows(move |row| Some(NamedWork { work: work(row)?, name: name.decode(row)?.0 }))
}

/// How long each kernel ran, with the id of its name.
pub(crate) fn kernel_durations(
    trace: &Trace,
    names: KernelName,
) -> Result<impl Decoded<(i64, StringId)> + use<>, Error> {
    let mut select = trace.select(&KERNEL);
    let (start, end, name) =
        (select.need("start"), select.need("end"), NameColumns::select(&mut select, names));
    select.rows(move |row| Some((row.int(end)?.saturating_sub(row.int(start)?), name.decode(row)?)))
}

/// Every kernel with its grid and block.
pub(crate) fn shaped_kernels(
    trace: &Trace,
    names: KernelName,
) -> Result<impl Decoded<ShapedKernel> + use<>, Error> {
    let mut select = trace.select(&KERNEL);
    let (start, end) = (select.need("start"), select.need("end"));
    let (name, shape) = (NameColumns::select(&mut select, names), shape(&mut select));
    select.rows(move |row| {
        let (grid, block) = shape(row)?;
        Some(ShapedKernel {
            start: row.int(start)?,
            end: row.int(end)?,
            name: name.decode(row)?,
            grid,
            block,
        })
    })
}

/// Every kernel with its grid, its block, and where it was launched.
pub(crate) fn placed_kernels(
    trace: &Trace,
    names: KernelName,
) -> Result<impl Decoded<(NamedWork, Dim3, Dim3)> + use<>, Error> {
    let mut select = trace.select(&KERNEL);
    let work = work(&mut select, Kind::Kernel, Backward::AsNsys);
    let (name, shape) = (NameColumns::select(&mut select, names), shape(&mut select));
    select.rows(move |row| {
        let (grid, block) = shape(row)?;
        Some((NamedWork { work: work(row)?, name: name.decode(row)?.0 }, grid, block))
    })
}

/// What ties the work of a kind to the calls that launched it.
pub(crate) fn launch_ids(trace: &Trace, kind: Kind) -> Result<impl Decoded<LaunchId> + use<>, Error> {
    let mut select = trace.select(table_of(kind));
    let (process, correlation) = (select.want("globalPid"), select.want("correlationId"));
    select.rows(move |row| {
        Some(LaunchId {
            process: row.int(process).map(ProcessId),
            correlation: row.int(correlation).map(CorrelationId),
        })
    })
}

/// When work of a kind ran.
pub(crate) fn busy(trace: &Trace, kind: Kind) -> Result<impl Decoded<Busy> + use<>, Error> {
    let mut select = trace.select(table_of(kind));
    let (start, end) = (select.need("start"), select.need("end"));
    let (device, context) = (select.need("deviceId"), select.need("contextId"));
    let process = select.want("globalPid");
    select.rows(move |row| {
        Some(Busy {
            start: row.int(start)?,
            end: row.int(end)?,
            device: DeviceId(row.int(device)?),
            context: ContextId(row.int(context)?),
            process: row.int(process).map(ProcessId),
        })
    })
}

/// Time, bytes and kind of every copy.
pub(crate) fn copy_sizes(trace: &Trace) -> Result<impl Decoded<MemoryOperation> + use<>, Error> {
    let mut select = trace.select(&MEMCPY);
    let (start, end) = (select.need("start"), select.need("end"));
    let (bytes, kind) = (select.need("bytes"), select.need("copyKind"));
    select.rows(move |row| {
        let kind = Some(CopyKind::of(row.int(kind)?));
        Some(MemoryOperation { start: row.int(start)?, end: row.int(end)?, bytes: row.int(bytes)?, kind })
    })
}

/// Time and bytes of every memset.
pub(crate) fn memset_sizes(trace: &Trace) -> Result<impl Decoded<MemoryOperation> + use<>, Error> {
    let mut select = trace.select(&MEMSET);
    let (start, end, bytes) = (select.need("start"), select.need("end"), select.need("bytes"));
    select.rows(move |row| {
        let (start, end) = (row.int(start)?, row.int(end)?);
        Some(MemoryOperation { start, end, bytes: row.int(bytes)?, kind: None })
    })
}

/// Time, bytes, kind and address of every copy, whose address exports lack that record no
/// migrations.
pub(crate) fn copy_addresses(
    trace: &Trace,
) -> Result<impl Decoded<(MemoryOperation, Option<i64>)> + use<>, Error> {
    let mut select = trace.select(&MEMCPY);
    let (start, end) = (select.need("start"), select.need("end"));
    let (bytes, kind) = (select.need("bytes"), select.need("copyKind"));
    let address = select.want("virtualAddress");
    select.rows(move |row| {
        let bytes = row.int(bytes)?;
        let (end, start, kind) = (row.int(end)?, row.int(start)?, Some(CopyKind::of(row.int(kind)?)));
        Some((MemoryOperation { start, end, bytes, kind }, row.int(address)))
    })
}

impl Trace {
    /// Every kernel, in the order of the file, which is not always that of time.
    ///
    /// ```no_run
    /// let trace = flopgap_nsys::Trace::open("step.sqlite")?;
    /// let mut busy = 0;
    /// for kernel in trace.kernels()? {
    ///     busy += kernel?.at.duration();
    /// }
    /// println!("{busy} ns in kernels");
    /// # Ok::<(), flopgap_nsys::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::NoTable`] when no kernels were recorded; each row may be an error, too, after which
    /// there are no more.
    pub fn kernels(&self) -> Result<RowsOf<Kernel>, Error> {
        kernels(self).map(|rows| RowsOf::new(self, rows))
    }

    /// Every memory copy, in the order of the file.
    ///
    /// # Errors
    /// As [`Trace::kernels`].
    pub fn copies(&self) -> Result<RowsOf<MemoryCopy>, Error> {
        copies(self).map(|rows| RowsOf::new(self, rows))
    }

    /// Every memset, in the order of the file.
    ///
    /// # Errors
    /// As [`Trace::kernels`].
    pub fn memsets(&self) -> Result<RowsOf<MemorySet>, Error> {
        memsets(self).map(|rows| RowsOf::new(self, rows))
    }
}

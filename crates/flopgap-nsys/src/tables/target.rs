//! The hardware, contexts, streams, processes and threads of the recording.

use std::sync::Arc;

use super::TableSpec;
use super::codes::StreamKind;
use crate::{ContextId, DeviceId, Error, GpuId, ProcessId, StreamId, StringId, ThreadId, Trace};

const THREADS: TableSpec = TableSpec::new("ThreadNames", "names of threads");
const GPUS: TableSpec = TableSpec::new("TARGET_INFO_GPU", "GPUs");
const DEVICES: TableSpec = TableSpec::new("TARGET_INFO_CUDA_DEVICE", "CUDA devices");
const PROCESSES: TableSpec = TableSpec::new("PROCESSES", "names of processes");
const CONTEXTS: TableSpec = TableSpec::new("TARGET_INFO_CUDA_CONTEXT_INFO", "CUDA contexts");
const NULL_STREAMS: TableSpec = TableSpec::new("TARGET_INFO_CUDA_NULL_STREAM", "CUDA contexts");
const STREAMS: TableSpec = TableSpec::new("TARGET_INFO_CUDA_STREAM", "CUDA streams");

/// A GPU of the machine.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct Gpu {
    /// The virtual machine that it belongs to, as in the high bits of a [`ThreadId`].
    pub machine: Option<i64>,
    /// Its number on the machine, which is not always that of
    /// [`Placement::device`](crate::Placement::device).
    pub id: GpuId,
    /// Such as `NVIDIA H200`.
    pub name: Option<Arc<str>>,
    /// Where it sits on the PCI bus.
    pub bus: Option<Arc<str>>,
    /// Its unique id.
    pub uuid: Option<Arc<str>>,
    /// The chip, such as `GH100`.
    pub chip: Option<Arc<str>>,
    /// How many multiprocessors it has.
    pub multiprocessors: Option<i64>,
    /// Its memory, in bytes.
    pub memory: Option<i64>,
    /// The rate of its memory as nsys exports it, in bytes per second.
    pub memory_bandwidth: Option<i64>,
    /// The size of its L2 cache, in bytes.
    pub l2_cache: Option<i64>,
    /// Its highest clock, in hertz.
    pub clock: Option<i64>,
    /// Its compute capability: major, minor.
    pub compute_capability: Option<(i64, i64)>,
}

/// Which GPU a process means by a device number (exports since 2025; `CUDA_VISIBLE_DEVICES` makes
/// them differ).
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct CudaDevice {
    /// [`Gpu::id`].
    pub gpu: Option<GpuId>,
    /// The number in rows of this process.
    pub device: DeviceId,
    /// The process id.
    pub pid: i64,
    /// The unique id of the GPU or its part.
    pub uuid: Option<Arc<str>>,
    /// How many multiprocessors the process sees.
    pub multiprocessors: Option<i64>,
}

/// A CUDA context.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct Context {
    /// The process id.
    pub pid: i64,
    /// The GPU, as the process numbers them.
    pub device: DeviceId,
    /// Its id.
    pub context: ContextId,
    /// The id of its null stream.
    pub null_stream: StreamId,
    /// The context that this one is a green context of.
    pub parent: Option<ContextId>,
    /// Whether it is a green context; absent in exports before 2023.4.
    pub is_green: Option<bool>,
}

/// A CUDA stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct Stream {
    /// The process id.
    pub pid: i64,
    /// Its context.
    pub context: ContextId,
    /// Its id.
    pub stream: StreamId,
    /// Its priority: lower numbers go first.
    pub priority: Option<i64>,
    /// How it was created.
    pub kind: Option<StreamKind>,
}

/// A process of the recording.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct Process {
    /// How rows name it.
    pub id: Option<ProcessId>,
    /// Its process id.
    pub pid: i64,
    /// The name of its program.
    pub name: Option<Arc<str>>,
}

/// The name of a thread; a thread that was renamed has several.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct ThreadName {
    /// The thread.
    pub thread: ThreadId,
    /// Its name.
    pub name: StringId,
    /// Its priority.
    pub priority: Option<i64>,
}

impl Trace {
    /// The GPUs of the machine.
    ///
    /// # Errors
    /// [`Error::NoTable`] when the export does not list them.
    pub fn gpus(&self) -> Result<Vec<Gpu>, Error> {
        let mut select = self.select(&GPUS);
        let (machine, id, name) = (select.want("vmId"), select.need("id"), select.want("name"));
        let (bus, uuid, chip) = (select.want("busLocation"), select.want("uuid"), select.want("chipName"));
        let (multiprocessors, memory) = (select.want("smCount"), select.want("totalMemory"));
        let (bandwidth, cache) = (select.want("memoryBandwidth"), select.want("l2CacheSize"));
        let clock = select.want("clockRate");
        let (major, minor) = (select.want("computeMajor"), select.want("computeMinor"));
        let rows = select.rows(move |row| {
            let text = |field| row.text(field).map(Arc::from);
            Some(Gpu {
                machine: row.int(machine),
                id: GpuId(row.int(id)?),
                name: text(name),
                bus: text(bus),
                uuid: text(uuid),
                chip: text(chip),
                multiprocessors: row.int(multiprocessors),
                memory: row.int(memory),
                memory_bandwidth: row.int(bandwidth),
                l2_cache: row.int(cache),
                clock: row.int(clock),
                compute_capability: row.int(major).zip(row.int(minor)),
            })
        })?;
        rows.collect()
    }

    /// Which GPU each process means by which number.
    ///
    /// # Errors
    /// [`Error::NoTable`] in exports before 2025, where the numbers are those of [`Gpu::id`].
    pub fn cuda_devices(&self) -> Result<Vec<CudaDevice>, Error> {
        let mut select = self.select(&DEVICES);
        let (gpu, device, pid) = (select.want("gpuId"), select.need("cudaId"), select.need("pid"));
        let (uuid, multiprocessors) = (select.want("uuid"), select.want("numMultiprocessors"));
        let rows = select.rows(move |row| {
            Some(CudaDevice {
                gpu: row.int(gpu).map(GpuId),
                device: DeviceId(row.int(device)?),
                pid: row.int(pid)?,
                uuid: row.text(uuid).map(Arc::from),
                multiprocessors: row.int(multiprocessors),
            })
        })?;
        rows.collect()
    }

    /// The CUDA contexts.
    ///
    /// # Errors
    /// [`Error::NoTable`] when the export does not list them.
    pub fn contexts(&self) -> Result<Vec<Context>, Error> {
        // Before 2023.4 there was a table of null streams, which names their contexts.
        let modern = self.schema().table(CONTEXTS.name).is_some();
        let mut select = self.select(if modern { &CONTEXTS } else { &NULL_STREAMS });
        let (pid, device) = (select.need("processId"), select.need("deviceId"));
        let context = select.need("contextId");
        let null_stream = select.need(if modern { "nullStreamId" } else { "streamId" });
        let (parent, is_green) = (select.want("parentContextId"), select.want("isGreenContext"));
        let rows = select.rows(move |row| {
            Some(Context {
                pid: row.int(pid)?,
                device: DeviceId(row.int(device)?),
                context: ContextId(row.int(context)?),
                null_stream: StreamId(row.int(null_stream)?),
                parent: row.int(parent).filter(|parent| *parent != 0).map(ContextId),
                is_green: row.int(is_green).map(|green| green != 0),
            })
        })?;
        rows.collect()
    }

    /// The CUDA streams.
    ///
    /// # Errors
    /// [`Error::NoTable`] when the export does not list them.
    pub fn streams(&self) -> Result<Vec<Stream>, Error> {
        let mut select = self.select(&STREAMS);
        let (pid, context) = (select.need("processId"), select.need("contextId"));
        let stream = select.need("streamId");
        let (priority, kind) = (select.want("priority"), select.want("flag"));
        let rows = select.rows(move |row| {
            Some(Stream {
                pid: row.int(pid)?,
                context: ContextId(row.int(context)?),
                stream: StreamId(row.int(stream)?),
                priority: row.int(priority),
                kind: row.int(kind).map(StreamKind::of),
            })
        })?;
        rows.collect()
    }

    /// The processes.
    ///
    /// # Errors
    /// [`Error::NoTable`] when the export does not list them.
    pub fn processes(&self) -> Result<Vec<Process>, Error> {
        let mut select = self.select(&PROCESSES);
        let (id, pid, name) = (select.want("globalPid"), select.want("pid"), select.want("name"));
        let rows = select.rows(move |row| {
            let id = row.int(id).map(ProcessId);
            let pid = row.int(pid).or(id.map(ProcessId::pid))?;
            Some(Process { id, pid, name: row.text(name).map(Arc::from) })
        })?;
        rows.collect()
    }

    /// The names of threads, in the order in which they were given.
    ///
    /// # Errors
    /// [`Error::NoTable`] when the export does not list them.
    pub fn thread_names(&self) -> Result<Vec<ThreadName>, Error> {
        let mut select = self.select(&THREADS);
        let (thread, name) = (select.need("globalTid"), select.need("nameId"));
        let priority = select.want("priority");
        let rows = select.rows(move |row| {
            let (thread, name) = (ThreadId(row.int(thread)?), StringId(row.int(name)?));
            Some(ThreadName { thread, name, priority: row.int(priority) })
        })?;
        rows.collect()
    }
}

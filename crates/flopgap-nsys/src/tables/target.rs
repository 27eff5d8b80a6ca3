//! The hardware, processes and threads of the recording.

use std::sync::Arc;

use super::TableSpec;
use crate::{DeviceId, Error, GpuId, ProcessId, StringId, ThreadId, Trace};

const THREADS: TableSpec = TableSpec::new("ThreadNames", "names of threads");
const GPUS: TableSpec = TableSpec::new("TARGET_INFO_GPU", "GPUs");
const DEVICES: TableSpec = TableSpec::new("TARGET_INFO_CUDA_DEVICE", "CUDA devices");
const PROCESSES: TableSpec = TableSpec::new("PROCESSES", "names of processes");

/// A GPU of the machine.
#[derive(Clone, Debug, PartialEq, Eq)]
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

/// A process of the recording.
#[derive(Clone, Debug, PartialEq, Eq)]
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

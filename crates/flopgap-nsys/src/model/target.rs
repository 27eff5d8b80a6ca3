//! What the recording ran on: GPUs, contexts, streams, processes, threads.

use std::sync::Arc;

use crate::tables::{CONTEXTS, DEVICES, GPUS, NULL_STREAMS, PROCESSES, STREAMS, THREADS, need, want};
use crate::{Error, GlobalId, Trace};

/// A GPU of the machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gpu {
    /// The virtual machine that it belongs to, as in the high bits of a [`GlobalId`].
    pub machine: Option<i64>,
    /// Its number on the machine, which is not always that of [`Placement::device`](crate::Placement::device).
    pub id: i64,
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
    /// The rate of its memory as nsys exports it, in bytes in a second.
    pub memory_bandwidth: Option<i64>,
    /// The size of its L2 cache, in bytes.
    pub l2_cache: Option<i64>,
    /// Its highest clock, in hertz.
    pub clock: Option<i64>,
    /// Its compute capability: major, minor.
    pub compute_capability: Option<(i64, i64)>,
}

/// Which GPU a process means by a device number (exports since 2025; `CUDA_VISIBLE_DEVICES` makes them differ).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CudaDevice {
    /// [`Gpu::id`].
    pub gpu: Option<i64>,
    /// The number in rows of this process.
    pub device: i64,
    /// The process id.
    pub pid: i64,
    /// The unique id of the GPU or its part.
    pub uuid: Option<Arc<str>>,
    /// How many multiprocessors the process sees.
    pub multiprocessors: Option<i64>,
}

/// A CUDA context.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Context {
    /// The process id.
    pub pid: i64,
    /// The GPU, as the process numbers them.
    pub device: i64,
    /// Its id.
    pub context: i64,
    /// The id of its null stream.
    pub null_stream: i64,
    /// The context that this one is a green context of.
    pub parent: Option<i64>,
    /// Whether it is a green context; absent in exports before 2023.4.
    pub is_green: Option<bool>,
}

/// A CUDA stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stream {
    /// The process id.
    pub pid: i64,
    /// Its context.
    pub context: i64,
    /// Its id.
    pub stream: i64,
    /// Its priority: lower numbers go first.
    pub priority: Option<i64>,
    /// How it was made: see [`stream_label`](crate::stream_label).
    pub kind: Option<i64>,
}

/// A process of the recording.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Process {
    /// How rows name it.
    pub id: Option<GlobalId>,
    /// Its process id.
    pub pid: i64,
    /// The name of its program.
    pub name: Option<Arc<str>>,
}

/// The name of a thread; a thread that was renamed has several.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ThreadName {
    /// The thread.
    pub thread: GlobalId,
    /// Its name, for [`Trace::string`].
    pub name: i64,
    /// Its priority.
    pub priority: Option<i64>,
}

impl Trace {
    /// The GPUs of the machine.
    ///
    /// # Errors
    /// [`Error::NoTable`] when the export does not list them.
    pub fn gpus(&self) -> Result<Vec<Gpu>, Error> {
        let columns = [
            want("vmId"),
            need("id"),
            want("name"),
            want("busLocation"),
            want("uuid"),
            want("chipName"),
            want("smCount"),
            want("totalMemory"),
            want("memoryBandwidth"),
            want("l2CacheSize"),
            want("clockRate"),
            want("computeMajor"),
            want("computeMinor"),
        ];
        let mut gpus = Vec::new();
        self.scan(&GPUS, &columns, |row| {
            gpus.push(Gpu {
                machine: row.int(0),
                id: row.int(1)?,
                name: row.text(2).map(Arc::from),
                bus: row.text(3).map(Arc::from),
                uuid: row.text(4).map(Arc::from),
                chip: row.text(5).map(Arc::from),
                multiprocessors: row.int(6),
                memory: row.int(7),
                memory_bandwidth: row.int(8),
                l2_cache: row.int(9),
                clock: row.int(10),
                compute_capability: row.int(11).zip(row.int(12)),
            });
            Some(())
        })?;
        Ok(gpus)
    }

    /// Which GPU each process means by which number.
    ///
    /// # Errors
    /// [`Error::NoTable`] in exports before 2025, where the numbers are those of [`Gpu::id`].
    pub fn cuda_devices(&self) -> Result<Vec<CudaDevice>, Error> {
        let columns = [want("gpuId"), need("cudaId"), need("pid"), want("uuid"), want("numMultiprocessors")];
        let mut devices = Vec::new();
        self.scan(&DEVICES, &columns, |row| {
            devices.push(CudaDevice {
                gpu: row.int(0),
                device: row.int(1)?,
                pid: row.int(2)?,
                uuid: row.text(3).map(Arc::from),
                multiprocessors: row.int(4),
            });
            Some(())
        })?;
        Ok(devices)
    }

    /// The CUDA contexts.
    ///
    /// # Errors
    /// [`Error::NoTable`] when the export does not list them.
    pub fn contexts(&self) -> Result<Vec<Context>, Error> {
        // Before 2023.4 there was a table of null streams, which names their contexts.
        let modern = self.schema().table(CONTEXTS.name).is_some();
        let (table, stream) = if modern { (&CONTEXTS, "nullStreamId") } else { (&NULL_STREAMS, "streamId") };
        let columns = [
            need("processId"),
            need("deviceId"),
            need("contextId"),
            need(stream),
            want("parentContextId"),
            want("isGreenContext"),
        ];
        let mut contexts = Vec::new();
        self.scan(table, &columns, |row| {
            contexts.push(Context {
                pid: row.int(0)?,
                device: row.int(1)?,
                context: row.int(2)?,
                null_stream: row.int(3)?,
                parent: row.int(4).filter(|parent| *parent != 0),
                is_green: row.int(5).map(|green| green != 0),
            });
            Some(())
        })?;
        Ok(contexts)
    }

    /// The CUDA streams.
    ///
    /// # Errors
    /// [`Error::NoTable`] when the export does not list them.
    pub fn streams(&self) -> Result<Vec<Stream>, Error> {
        let columns =
            [need("processId"), need("contextId"), need("streamId"), want("priority"), want("flag")];
        let mut streams = Vec::new();
        self.scan(&STREAMS, &columns, |row| {
            streams.push(Stream {
                pid: row.int(0)?,
                context: row.int(1)?,
                stream: row.int(2)?,
                priority: row.int(3),
                kind: row.int(4),
            });
            Some(())
        })?;
        Ok(streams)
    }

    /// The processes.
    ///
    /// # Errors
    /// [`Error::NoTable`] when the export does not list them.
    pub fn processes(&self) -> Result<Vec<Process>, Error> {
        let columns = [want("globalPid"), want("pid"), want("name")];
        let mut processes = Vec::new();
        self.scan(&PROCESSES, &columns, |row| {
            let id = row.int(0).map(GlobalId);
            let pid = row.int(1).or(id.map(GlobalId::pid))?;
            processes.push(Process { id, pid, name: row.text(2).map(Arc::from) });
            Some(())
        })?;
        Ok(processes)
    }

    /// The names of threads, in the order in which they were given.
    ///
    /// # Errors
    /// [`Error::NoTable`] when the export does not list them.
    pub fn thread_names(&self) -> Result<Vec<ThreadName>, Error> {
        let mut threads = Vec::new();
        self.scan(&THREADS, &[need("globalTid"), need("nameId"), want("priority")], |row| {
            let thread = GlobalId(row.int(0)?);
            threads.push(ThreadName { thread, name: row.int(1)?, priority: row.int(2) });
            Some(())
        })?;
        Ok(threads)
    }
}

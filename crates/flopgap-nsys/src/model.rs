//! What was recorded, row by row.

use crate::tables::{KERNEL, MEMCPY, MEMSET, RUNTIME};
use crate::trace::{need, want};
use crate::{Error, GlobalId, Trace};

/// A kernel that ran on a GPU. Times are nanoseconds since the recording began; names are ids for [`Trace::string`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kernel {
    /// When it began.
    pub start: i64,
    /// When it ended.
    pub end: i64,
    /// Which GPU, as the process numbers them.
    pub device: i64,
    /// The CUDA context.
    pub context: i64,
    /// The green context; absent in exports before 2023.4, and 0 where there is none.
    pub green_context: Option<i64>,
    /// The stream.
    pub stream: i64,
    /// Ties it to the call that launched it, within its process.
    pub correlation: Option<i64>,
    /// The process; absent in trimmed exports.
    pub process: Option<GlobalId>,
    /// Name with template arguments.
    pub demangled: i64,
    /// Name alone.
    pub short: i64,
    /// Registers of a thread.
    pub registers: Option<i64>,
    /// Blocks in x, y, z.
    pub grid: [i64; 3],
    /// Threads of a block in x, y, z.
    pub block: [i64; 3],
    /// Static shared memory of a block, in bytes.
    pub static_shared: Option<i64>,
    /// Dynamic shared memory of a block, in bytes.
    pub dynamic_shared: Option<i64>,
    /// The node of a CUDA graph that it ran for.
    pub graph_node: Option<i64>,
}

/// A memory copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryCopy {
    /// When it began.
    pub start: i64,
    /// When it ended.
    pub end: i64,
    /// Which GPU, as the process numbers them.
    pub device: i64,
    /// The CUDA context.
    pub context: i64,
    /// The green context; absent in exports before 2023.4, and 0 where there is none.
    pub green_context: Option<i64>,
    /// The stream.
    pub stream: i64,
    /// Ties it to the call that asked for it, within its process.
    pub correlation: Option<i64>,
    /// The process; absent in trimmed exports.
    pub process: Option<GlobalId>,
    /// How much was copied.
    pub bytes: i64,
    /// From where to where: see [`copy_label`].
    pub kind: i64,
    /// The kind of the source memory: see [`memory_label`].
    pub source: Option<i64>,
    /// The kind of the destination memory: see [`memory_label`].
    pub destination: Option<i64>,
}

/// A memory set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemorySet {
    /// When it began.
    pub start: i64,
    /// When it ended.
    pub end: i64,
    /// Which GPU, as the process numbers them.
    pub device: i64,
    /// The CUDA context.
    pub context: i64,
    /// The green context; absent in exports before 2023.4, and 0 where there is none.
    pub green_context: Option<i64>,
    /// The stream.
    pub stream: i64,
    /// Ties it to the call that asked for it, within its process.
    pub correlation: Option<i64>,
    /// The process; absent in trimmed exports.
    pub process: Option<GlobalId>,
    /// How much was set.
    pub bytes: i64,
    /// The kind of memory: see [`memory_label`].
    pub memory: Option<i64>,
}

/// A call of the CUDA runtime or driver API.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ApiCall {
    /// When it began.
    pub start: i64,
    /// When it returned.
    pub end: i64,
    /// What recorded it: 0 runtime API, 1 driver API, 67 a second row of the same call with its backtrace.
    pub class: i64,
    /// The calling thread.
    pub thread: Option<GlobalId>,
    /// Ties it to the GPU work that it started, within its process.
    pub correlation: Option<i64>,
    /// Its name, with CUDA's version suffix.
    pub name: i64,
    /// What it returned: 0 is success.
    pub result: Option<i64>,
}

/// Between what a copy of this `copyKind` moves data, as nsys spells it; nothing for an unknown number.
///
/// The labels are built in because exports before 2022.4 have no table of them.
pub fn copy_label(kind: i64) -> Option<&'static str> {
    Some(match kind {
        0 => "Unknown",
        1 => "Host-to-Device",
        2 => "Device-to-Host",
        3 => "Host-to-Array",
        4 => "Array-to-Host",
        5 => "Array-to-Array",
        6 => "Array-to-Device",
        7 => "Device-to-Array",
        8 => "Device-to-Device",
        9 => "Host-to-Host",
        10 => "Peer-to-Peer",
        11 => "Unified Host-to-Device",
        12 => "Unified Device-to-Host",
        13 => "Unified Device-to-Device",
        _ => return None,
    })
}

/// The name of a kind of memory, as nsys spells it; nothing for an unknown number.
pub fn memory_label(kind: i64) -> Option<&'static str> {
    Some(match kind {
        0 => "Pageable",
        1 => "Pinned",
        2 => "Device",
        3 => "Array",
        4 => "Managed",
        5 => "Device Static",
        6 => "Managed Static",
        7 => "Unknown",
        _ => return None,
    })
}

impl Trace {
    /// Calls `visit` with every kernel, in the order of the file, which is not always that of time.
    ///
    /// # Errors
    /// [`Error::NoTable`] when no kernels were recorded.
    pub fn kernels(&self, mut visit: impl FnMut(Kernel)) -> Result<(), Error> {
        self.kernel_rows(|kernel, _| visit(kernel))
    }

    /// [`Trace::kernels`] with the rowid of each.
    pub(crate) fn kernel_rows(&self, mut visit: impl FnMut(Kernel, i64)) -> Result<(), Error> {
        let columns = [
            need("start"),
            need("end"),
            need("deviceId"),
            need("contextId"),
            want("greenContextId"),
            need("streamId"),
            want("correlationId"),
            want("globalPid"),
            need("demangledName"),
            want("shortName"),
            want("registersPerThread"),
            need("gridX"),
            need("gridY"),
            need("gridZ"),
            need("blockX"),
            need("blockY"),
            need("blockZ"),
            want("staticSharedMemory"),
            want("dynamicSharedMemory"),
            want("graphNodeId"),
        ];
        self.scan(&KERNEL, &columns, |row| {
            let demangled = row.int(8)?;
            let kernel = Kernel {
                start: row.int(0)?,
                end: row.int(1)?,
                device: row.int(2)?,
                context: row.int(3)?,
                green_context: row.int(4),
                stream: row.int(5)?,
                correlation: row.int(6),
                process: row.int(7).map(GlobalId),
                demangled,
                short: row.int(9).unwrap_or(demangled),
                registers: row.int(10),
                grid: [row.int(11)?, row.int(12)?, row.int(13)?],
                block: [row.int(14)?, row.int(15)?, row.int(16)?],
                static_shared: row.int(17),
                dynamic_shared: row.int(18),
                graph_node: row.int(19),
            };
            visit(kernel, row.id());
            Some(())
        })
    }

    /// Calls `visit` with every memory copy, in the order of the file.
    ///
    /// # Errors
    /// [`Error::NoTable`] when none were recorded.
    pub fn copies(&self, mut visit: impl FnMut(MemoryCopy)) -> Result<(), Error> {
        let columns = [
            need("start"),
            need("end"),
            need("deviceId"),
            need("contextId"),
            want("greenContextId"),
            need("streamId"),
            want("correlationId"),
            want("globalPid"),
            need("bytes"),
            need("copyKind"),
            want("srcKind"),
            want("dstKind"),
        ];
        self.scan(&MEMCPY, &columns, |row| {
            visit(MemoryCopy {
                start: row.int(0)?,
                end: row.int(1)?,
                device: row.int(2)?,
                context: row.int(3)?,
                green_context: row.int(4),
                stream: row.int(5)?,
                correlation: row.int(6),
                process: row.int(7).map(GlobalId),
                bytes: row.int(8)?,
                kind: row.int(9)?,
                source: row.int(10),
                destination: row.int(11),
            });
            Some(())
        })
    }

    /// Calls `visit` with every memory set, in the order of the file.
    ///
    /// # Errors
    /// [`Error::NoTable`] when none were recorded.
    pub fn sets(&self, mut visit: impl FnMut(MemorySet)) -> Result<(), Error> {
        let columns = [
            need("start"),
            need("end"),
            need("deviceId"),
            need("contextId"),
            want("greenContextId"),
            need("streamId"),
            want("correlationId"),
            want("globalPid"),
            need("bytes"),
            want("memKind"),
        ];
        self.scan(&MEMSET, &columns, |row| {
            visit(MemorySet {
                start: row.int(0)?,
                end: row.int(1)?,
                device: row.int(2)?,
                context: row.int(3)?,
                green_context: row.int(4),
                stream: row.int(5)?,
                correlation: row.int(6),
                process: row.int(7).map(GlobalId),
                bytes: row.int(8)?,
                memory: row.int(9),
            });
            Some(())
        })
    }

    /// Calls `visit` with every call of the CUDA APIs, in the order of the file, which since 2025.5 is not that of time.
    ///
    /// # Errors
    /// [`Error::NoTable`] when none were recorded.
    pub fn api_calls(&self, mut visit: impl FnMut(ApiCall)) -> Result<(), Error> {
        let columns = [
            need("start"),
            need("end"),
            want("eventClass"),
            want("globalTid"),
            want("correlationId"),
            need("nameId"),
            want("returnValue"),
        ];
        self.scan(&RUNTIME, &columns, |row| {
            visit(ApiCall {
                start: row.int(0)?,
                end: row.int(1)?,
                class: row.int(2).unwrap_or_default(),
                thread: row.int(3).map(GlobalId),
                correlation: row.int(4),
                name: row.int(5)?,
                result: row.int(6),
            });
            Some(())
        })
    }
}

//! What ran on a GPU: kernels, copies and sets.

use crate::row::Row;
use crate::tables::{Column, KERNEL, MEMCPY, MEMSET, need, want};
use crate::{Error, GlobalId, RowsOf, Trace};

/// When and where a piece of work ran on a GPU, and for whom. Times are nanoseconds since the recording began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Placement {
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
}

impl Placement {
    /// From start to end, in nanoseconds; negative where the recording says that it ended before it began.
    pub fn duration(&self) -> i64 {
        self.end.saturating_sub(self.start)
    }
}

/// The columns of a [`Placement`], followed by others.
pub(super) fn placed<const N: usize>(more: [Column; N]) -> Vec<Column> {
    let placement = [
        need("start"),
        need("end"),
        need("deviceId"),
        need("contextId"),
        want("greenContextId"),
        need("streamId"),
        want("correlationId"),
        want("globalPid"),
    ];
    placement.into_iter().chain(more).collect()
}

/// The first column after those of a [`Placement`].
pub(super) const MORE: usize = 8;

/// Where the row of a scan of [`placed`] columns ran.
pub(super) fn placement(row: &Row<'_>) -> Option<Placement> {
    Some(Placement {
        start: row.int(0)?,
        end: row.int(1)?,
        device: row.int(2)?,
        context: row.int(3)?,
        green_context: row.int(4),
        stream: row.int(5)?,
        correlation: row.int(6),
        process: row.int(7).map(GlobalId),
    })
}

/// A kernel that ran on a GPU. Names are ids for [`Trace::string`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kernel {
    /// When and where it ran.
    pub at: Placement,
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
    /// When and where it ran.
    pub at: Placement,
    /// How much was copied.
    pub bytes: i64,
    /// From where to where: see [`copy_label`](crate::copy_label).
    pub kind: i64,
    /// The kind of the source memory: see [`memory_label`](crate::memory_label).
    pub source: Option<i64>,
    /// The kind of the destination memory: see [`memory_label`](crate::memory_label).
    pub destination: Option<i64>,
    /// The GPU of the source, where it is another than that of the copy.
    pub source_device: Option<i64>,
    /// The GPU of the destination, where it is another than that of the copy.
    pub destination_device: Option<i64>,
}

/// A memory set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemorySet {
    /// When and where it ran.
    pub at: Placement,
    /// How much was set.
    pub bytes: i64,
    /// The kind of memory: see [`memory_label`](crate::memory_label).
    pub memory: Option<i64>,
}

impl Kernel {
    /// The columns that [`Kernel::of`] reads, followed by others, of which the first is [`Kernel::MORE`].
    pub(crate) fn columns<const N: usize>(more: [Column; N]) -> Vec<Column> {
        let mut columns = placed([
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
        ]);
        columns.extend(more);
        columns
    }

    /// The first column after those of a kernel.
    pub(crate) const MORE: usize = MORE + 12;

    /// The kernel of a row of [`Kernel::columns`].
    #[inline]
    pub(crate) fn of(row: &Row<'_>) -> Option<Kernel> {
        let demangled = row.int(MORE)?;
        Some(Kernel {
            at: placement(row)?,
            demangled,
            short: row.int(MORE + 1).unwrap_or(demangled),
            registers: row.int(MORE + 2),
            grid: [row.int(MORE + 3)?, row.int(MORE + 4)?, row.int(MORE + 5)?],
            block: [row.int(MORE + 6)?, row.int(MORE + 7)?, row.int(MORE + 8)?],
            static_shared: row.int(MORE + 9),
            dynamic_shared: row.int(MORE + 10),
            graph_node: row.int(MORE + 11),
        })
    }
}

impl MemoryCopy {
    /// The columns that [`MemoryCopy::of`] reads.
    pub(crate) fn columns() -> Vec<Column> {
        placed([
            need("bytes"),
            need("copyKind"),
            want("srcKind"),
            want("dstKind"),
            want("srcDeviceId"),
            want("dstDeviceId"),
        ])
    }

    /// The copy of a row of [`MemoryCopy::columns`].
    pub(crate) fn of(row: &Row<'_>) -> Option<MemoryCopy> {
        Some(MemoryCopy {
            at: placement(row)?,
            bytes: row.int(MORE)?,
            kind: row.int(MORE + 1)?,
            source: row.int(MORE + 2),
            destination: row.int(MORE + 3),
            source_device: row.int(MORE + 4),
            destination_device: row.int(MORE + 5),
        })
    }
}

impl MemorySet {
    /// The columns that [`MemorySet::of`] reads.
    pub(crate) fn columns() -> Vec<Column> {
        placed([need("bytes"), want("memKind")])
    }

    /// The set of a row of [`MemorySet::columns`].
    pub(crate) fn of(row: &Row<'_>) -> Option<MemorySet> {
        Some(MemorySet { at: placement(row)?, bytes: row.int(MORE)?, memory: row.int(MORE + 1) })
    }
}

impl Trace {
    /// Calls `visit` with every kernel, in the order of the file, which is not always that of time.
    ///
    /// # Errors
    /// [`Error::NoTable`] when no kernels were recorded.
    pub fn kernels(&self, mut visit: impl FnMut(Kernel)) -> Result<(), Error> {
        self.scan(&KERNEL, &Kernel::columns([]), |row| {
            visit(Kernel::of(row)?);
            Some(())
        })
    }

    /// Every kernel, in the order of the file, one when it is asked for.
    ///
    /// ```no_run
    /// let trace = flopgap_nsys::Trace::open("step.sqlite".as_ref())?;
    /// let first = trace.kernel_rows()?.next().transpose()?;
    /// println!("{first:?}");
    /// # Ok::<(), flopgap_nsys::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::NoTable`] when no kernels were recorded; each row may be an error, too, after which there are no more.
    pub fn kernel_rows(&self) -> Result<RowsOf<Kernel>, Error> {
        self.rows_of(&KERNEL, &Kernel::columns([]), Kernel::of)
    }

    /// Every memory copy, in the order of the file, one when it is asked for.
    ///
    /// # Errors
    /// As [`Trace::kernel_rows`].
    pub fn copy_rows(&self) -> Result<RowsOf<MemoryCopy>, Error> {
        self.rows_of(&MEMCPY, &MemoryCopy::columns(), MemoryCopy::of)
    }

    /// Every memory set, in the order of the file, one when it is asked for.
    ///
    /// # Errors
    /// As [`Trace::kernel_rows`].
    pub fn set_rows(&self) -> Result<RowsOf<MemorySet>, Error> {
        self.rows_of(&MEMSET, &MemorySet::columns(), MemorySet::of)
    }

    /// Calls `visit` with every memory copy, in the order of the file.
    ///
    /// # Errors
    /// [`Error::NoTable`] when none were recorded.
    pub fn copies(&self, mut visit: impl FnMut(MemoryCopy)) -> Result<(), Error> {
        self.scan(&MEMCPY, &MemoryCopy::columns(), |row| {
            visit(MemoryCopy::of(row)?);
            Some(())
        })
    }

    /// Calls `visit` with every memory set, in the order of the file.
    ///
    /// # Errors
    /// [`Error::NoTable`] when none were recorded.
    pub fn sets(&self, mut visit: impl FnMut(MemorySet)) -> Result<(), Error> {
        self.scan(&MEMSET, &MemorySet::columns(), |row| {
            visit(MemorySet::of(row)?);
            Some(())
        })
    }
}

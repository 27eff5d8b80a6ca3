//! CUDA unified memory: page faults, and the migrations that they cause.

use super::operation::{MORE, Placement, placed, placement};
use crate::tables::{CPU_FAULTS, GPU_FAULTS, MEMCPY, need, want};
use crate::{Error, GlobalId, Trace};

/// The `copyKind` of a migration to the device.
pub(crate) const TO_DEVICE: i64 = 11;
/// The `copyKind` of a migration to the host.
pub(crate) const TO_HOST: i64 = 12;
/// The `copyKind` of a migration between devices.
const BETWEEN_DEVICES: i64 = 13;

/// A page fault of the CPU in unified memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CpuPageFault {
    /// When, in nanoseconds since the recording began.
    pub time: i64,
    /// The process.
    pub process: Option<GlobalId>,
    /// The virtual address of the page.
    pub address: i64,
    /// The instruction (function or address) that touched it, for [`Trace::string`].
    pub instruction: Option<i64>,
    /// The module of that instruction, for [`Trace::string`].
    pub module: Option<i64>,
}

/// Page faults of a GPU in one page of unified memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GpuPageFault {
    /// When the first came, in nanoseconds since the recording began.
    pub start: i64,
    /// When they were served.
    pub end: i64,
    /// The process.
    pub process: Option<GlobalId>,
    /// Which GPU, as the process numbers them.
    pub device: i64,
    /// The virtual address of the page.
    pub address: i64,
    /// How many faults.
    pub faults: i64,
    /// How it was touched: see [`access_label`](crate::access_label).
    pub access: Option<i64>,
}

/// A migration of unified memory, which the export lists among the copies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Migration {
    /// When and where.
    pub at: Placement,
    /// Which way: 11 to the device, 12 to the host, 13 between devices; see [`copy_label`](crate::copy_label).
    pub kind: i64,
    /// How much moved.
    pub bytes: i64,
    /// The virtual address of the first page.
    pub address: Option<i64>,
    /// Why: see [`migration_label`](crate::migration_label).
    pub cause: Option<i64>,
}

impl Trace {
    /// Calls `visit` with every page fault of the CPU, in the order of the file.
    ///
    /// # Errors
    /// [`Error::NoTable`] when none were recorded.
    pub fn cpu_page_faults(&self, mut visit: impl FnMut(CpuPageFault)) -> Result<(), Error> {
        let columns =
            [need("start"), want("globalPid"), need("address"), want("CpuInstruction"), want("module")];
        self.scan(&CPU_FAULTS, &columns, |row| {
            visit(CpuPageFault {
                time: row.int(0)?,
                process: row.int(1).map(GlobalId),
                address: row.int(2)?,
                instruction: row.int(3),
                module: row.int(4),
            });
            Some(())
        })
    }

    /// Calls `visit` with the page faults of GPUs, in the order of the file.
    ///
    /// # Errors
    /// [`Error::NoTable`] when none were recorded.
    pub fn gpu_page_faults(&self, mut visit: impl FnMut(GpuPageFault)) -> Result<(), Error> {
        let columns = [
            need("start"),
            need("end"),
            want("globalPid"),
            need("deviceId"),
            need("address"),
            need("numberOfPageFaults"),
            want("faultAccessType"),
        ];
        self.scan(&GPU_FAULTS, &columns, |row| {
            visit(GpuPageFault {
                start: row.int(0)?,
                end: row.int(1)?,
                process: row.int(2).map(GlobalId),
                device: row.int(3)?,
                address: row.int(4)?,
                faults: row.int(5)?,
                access: row.int(6),
            });
            Some(())
        })
    }

    /// Calls `visit` with every migration, in the order of the file.
    ///
    /// # Errors
    /// [`Error::NoTable`] when no copies were recorded.
    pub fn migrations(&self, mut visit: impl FnMut(Migration)) -> Result<(), Error> {
        let columns =
            placed([need("copyKind"), need("bytes"), want("virtualAddress"), want("migrationCause")]);
        self.scan(&MEMCPY, &columns, |row| {
            let kind = row.int(MORE)?;
            if [TO_DEVICE, TO_HOST, BETWEEN_DEVICES].contains(&kind) {
                visit(Migration {
                    at: placement(row)?,
                    kind,
                    bytes: row.int(MORE + 1)?,
                    address: row.int(MORE + 2),
                    cause: row.int(MORE + 3),
                });
            }
            Some(())
        })
    }
}

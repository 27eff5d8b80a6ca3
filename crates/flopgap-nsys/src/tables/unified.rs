//! Page faults of CUDA unified memory. The migrations that they cause are among the copies.

use std::hash::Hash;

use super::TableSpec;
use super::codes::AccessKind;
use crate::rows::Decoded;
use crate::{DeviceId, Error, ProcessId, RowsOf, StringId, Trace};

pub(crate) const CPU_FAULTS: TableSpec =
    TableSpec::new("CUDA_UM_CPU_PAGE_FAULT_EVENTS", "CPU page faults of CUDA unified memory");
pub(crate) const GPU_FAULTS: TableSpec =
    TableSpec::new("CUDA_UM_GPU_PAGE_FAULT_EVENTS", "GPU page faults of CUDA unified memory");

/// A page fault of the CPU in unified memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CpuPageFault {
    /// When, in nanoseconds since the recording began.
    pub time: i64,
    /// The process.
    pub process: Option<ProcessId>,
    /// The virtual address of the page.
    pub address: i64,
    /// The instruction (function or address) that touched it, for [`Trace::string`].
    pub instruction: Option<StringId>,
    /// The module of that instruction, for [`Trace::string`].
    pub module: Option<StringId>,
}

/// Page faults of a GPU in one page of unified memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct GpuPageFault {
    /// When the first came, in nanoseconds since the recording began.
    pub start: i64,
    /// When they were served.
    pub end: i64,
    /// The process.
    pub process: Option<ProcessId>,
    /// Which GPU, as the process numbers them.
    pub device: DeviceId,
    /// The virtual address of the page.
    pub address: i64,
    /// How many faults.
    pub faults: i64,
    /// How it was touched.
    pub access: Option<AccessKind>,
}

/// Where the program was when a page fault came. All three are ids or numbers of the export.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct FaultPlace {
    /// For [`Trace::string`].
    pub(crate) instruction: StringId,
    /// For [`Trace::string`]; absent before 2025.
    pub(crate) file: Option<StringId>,
    pub(crate) line: Option<i64>,
}

/// Where the program was at each page fault of the CPU.
pub(crate) fn fault_places(trace: &Trace) -> Result<impl Decoded<FaultPlace> + use<>, Error> {
    let mut select = trace.select(&CPU_FAULTS);
    let instruction = select.need("CpuInstruction");
    let (file, line) = (select.want("sourceFile"), select.want("sourceLine"));
    select.rows(move |row| {
        let instruction = StringId(row.int(instruction)?);
        Some(FaultPlace { instruction, file: row.int(file).map(StringId), line: row.int(line) })
    })
}

/// The address of each page fault of the CPU.
pub(crate) fn cpu_fault_addresses(trace: &Trace) -> Result<impl Decoded<i64> + use<>, Error> {
    let mut select = trace.select(&CPU_FAULTS);
    let address = select.need("address");
    select.rows(move |row| row.int(address))
}

/// The addresses of page faults of GPUs, each with how many there were.
pub(crate) fn gpu_fault_addresses(trace: &Trace) -> Result<impl Decoded<(i64, i64)> + use<>, Error> {
    let mut select = trace.select(&GPU_FAULTS);
    let (address, faults) = (select.need("address"), select.need("numberOfPageFaults"));
    select.rows(move |row| {
        let faults = row.int(faults)?;
        Some((row.int(address)?, faults))
    })
}

impl Trace {
    /// Every page fault of the CPU, in the order of the file.
    ///
    /// # Errors
    /// As [`Trace::kernels`].
    pub fn cpu_page_faults(&self) -> Result<RowsOf<CpuPageFault>, Error> {
        let mut select = self.select(&CPU_FAULTS);
        let (time, process) = (select.need("start"), select.want("globalPid"));
        let (address, instruction) = (select.need("address"), select.want("CpuInstruction"));
        let module = select.want("module");
        let rows = select.rows(move |row| {
            Some(CpuPageFault {
                time: row.int(time)?,
                process: row.int(process).map(ProcessId),
                address: row.int(address)?,
                instruction: row.int(instruction).map(StringId),
                module: row.int(module).map(StringId),
            })
        })?;
        Ok(RowsOf::new(self, rows))
    }

    /// The page faults of GPUs, in the order of the file.
    ///
    /// # Errors
    /// As [`Trace::kernels`].
    pub fn gpu_page_faults(&self) -> Result<RowsOf<GpuPageFault>, Error> {
        let mut select = self.select(&GPU_FAULTS);
        let (start, end) = (select.need("start"), select.need("end"));
        let (process, device) = (select.want("globalPid"), select.need("deviceId"));
        let (address, faults) = (select.need("address"), select.need("numberOfPageFaults"));
        let access = select.want("faultAccessType");
        let rows = select.rows(move |row| {
            Some(GpuPageFault {
                start: row.int(start)?,
                end: row.int(end)?,
                process: row.int(process).map(ProcessId),
                device: DeviceId(row.int(device)?),
                address: row.int(address)?,
                faults: row.int(faults)?,
                access: row.int(access).map(AccessKind::of),
            })
        })?;
        Ok(RowsOf::new(self, rows))
    }
}

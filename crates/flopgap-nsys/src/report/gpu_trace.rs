//! Every kernel and memory operation in the order of time.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::KernelName;
use super::memory::{copy_name, set_name};
use super::table::{Column, Sink, Unit, Value};
use crate::tables::{DEVICES, GPUS, KERNEL};
use crate::trace::{need, want};
use crate::{Error, Kernel, MemoryCopy, MemorySet, Placement, Trace, memory_label};

static COLUMNS: [Column; 21] = [
    Column::new("Start", Unit::Time),
    Column::new("Duration", Unit::Time),
    Column::new("CorrId", Unit::Plain),
    Column::new("GrdX", Unit::Plain),
    Column::new("GrdY", Unit::Plain),
    Column::new("GrdZ", Unit::Plain),
    Column::new("BlkX", Unit::Plain),
    Column::new("BlkY", Unit::Plain),
    Column::new("BlkZ", Unit::Plain),
    Column::new("Reg/Trd", Unit::Plain),
    Column::new("StcSMem", Unit::Memory),
    Column::new("DymSMem", Unit::Memory),
    Column::new("Bytes", Unit::Memory),
    Column::new("Throughput", Unit::Throughput),
    Column::new("SrcMemKd", Unit::Plain),
    Column::new("DstMemKd", Unit::Plain),
    Column::new("Device", Unit::Plain),
    Column::new("Ctx", Unit::Plain),
    Column::new("GreenCtx", Unit::Plain),
    Column::new("Strm", Unit::Plain),
    Column::new("Name", Unit::Plain),
];

/// One piece of GPU work.
enum Work {
    /// With the id of the name that is shown.
    Kernel(Kernel, i64),
    Copy(MemoryCopy),
    Set(MemorySet),
}

impl Work {
    fn at(&self) -> &Placement {
        match self {
            Work::Kernel(kernel, _) => &kernel.at,
            Work::Copy(copy) => &copy.at,
            Work::Set(set) => &set.at,
        }
    }
}

/// The name of each GPU by process (where the export numbers devices by process) and device.
struct Devices {
    gpus: FxHashMap<i64, Arc<str>>,
    numbers: FxHashMap<(i64, i64), i64>,
}

impl Devices {
    fn read(trace: &Trace) -> Result<Devices, Error> {
        let mut devices = Devices { gpus: FxHashMap::default(), numbers: FxHashMap::default() };
        let absent = |result: Result<(), Error>| match result {
            Err(error) if !error.is_absence() => Err(error),
            _ => Ok(()),
        };
        absent(trace.scan(&GPUS, &[need("id"), need("name")], |row| {
            devices.gpus.insert(row.int(0)?, row.text(1)?.into());
            Some(())
        }))?;
        absent(trace.scan(&DEVICES, &[want("gpuId"), need("cudaId"), need("pid")], |row| {
            if let Some(gpu) = row.int(0) {
                devices.numbers.insert((row.int(2)?, row.int(1)?), gpu);
            }
            Some(())
        }))?;
        Ok(devices)
    }

    /// `NVIDIA H200 (0)`, or the number alone where the export has no names.
    fn label(&self, at: &Placement) -> Value {
        let device = at.device;
        let number = at.process.and_then(|process| self.numbers.get(&(process.pid(), device)));
        match self.gpus.get(number.unwrap_or(&device)) {
            Some(name) => Value::Text(format!("{name} ({device})").into()),
            // So printed by nsys, with nothing before the space.
            None => Value::Text(format!(" ({device})").into()),
        }
    }
}

/// A context, green context or stream. 0 is none: pages of unified memory move without them.
fn numbered(number: impl Into<Option<i64>>) -> Value {
    number.into().filter(|number| *number != 0).into()
}

/// Bytes in a second; nothing for an operation that took no time.
fn throughput(bytes: i64, duration: i64) -> Value {
    if duration > 0 { Value::Real(bytes as f64 * 1e9 / duration as f64) } else { Value::Absent }
}

fn memory(kind: Option<i64>) -> Value {
    match kind {
        Some(kind) => memory_label(kind).map_or_else(|| kind.into(), Value::text),
        None => Value::Absent,
    }
}

/// `cuda_gpu_trace`.
pub(super) fn trace(trace: &Trace, names: KernelName, sink: &mut dyn Sink) -> Result<(), Error> {
    let mut work = Vec::new();
    let shown = shown_names(trace, names)?;
    let kernels = trace.kernel_rows(|kernel, row| {
        let name = match names {
            KernelName::Demangled => kernel.demangled,
            KernelName::Base => kernel.short,
            KernelName::Mangled => shown.get(&row).copied().unwrap_or(kernel.demangled),
        };
        work.push(Work::Kernel(kernel, name));
    });
    let copies = trace.copies(|copy| work.push(Work::Copy(copy)));
    let sets = trace.sets(|set| work.push(Work::Set(set)));
    for result in [kernels, copies, sets] {
        match result {
            Err(error) if !error.is_no_table() || work.is_empty() => return Err(error),
            _ => {}
        }
    }
    work.sort_by_key(|piece| piece.at().start);
    let devices = Devices::read(trace)?;
    let mut texts: FxHashMap<i64, Arc<str>> = FxHashMap::default();
    for piece in &work {
        if let Work::Kernel(_, name) = piece
            && !texts.contains_key(name)
        {
            texts.insert(*name, trace.string_or_id(*name)?);
        }
    }
    trace.writing(|| {
        sink.columns(&COLUMNS)?;
        for piece in &work {
            sink.row(&row(piece, &devices, &texts))?;
        }
        Ok(())
    })
}

/// The mangled name of each kernel row that has one; read only when it is shown.
fn shown_names(trace: &Trace, names: KernelName) -> Result<FxHashMap<i64, i64>, Error> {
    let mut shown = FxHashMap::default();
    if names == KernelName::Mangled && trace.schema().table(KERNEL.name).is_some() {
        trace.scan(&KERNEL, &[want("mangledName")], |row| {
            if let Some(name) = row.int(0) {
                shown.insert(row.id(), name);
            }
            Some(())
        })?;
    }
    Ok(shown)
}

/// Bytes, throughput, and the kinds of memory.
fn memory_cells(bytes: i64, at: &Placement, source: Option<i64>, destination: Option<i64>) -> [Value; 4] {
    [bytes.into(), throughput(bytes, at.duration()), memory(source), memory(destination)]
}

fn row(piece: &Work, devices: &Devices, texts: &FxHashMap<i64, Arc<str>>) -> [Value; 21] {
    const NONE: Value = Value::Absent;
    let at = piece.at();
    let (launch, transfer, name) = match piece {
        Work::Kernel(kernel, name) => {
            let ([grid_x, grid_y, grid_z], [block_x, block_y, block_z]) = (kernel.grid, kernel.block);
            let launch = [
                grid_x.into(),
                grid_y.into(),
                grid_z.into(),
                block_x.into(),
                block_y.into(),
                block_z.into(),
                kernel.registers.into(),
                kernel.static_shared.into(),
                kernel.dynamic_shared.into(),
            ];
            (launch, [NONE; 4], texts[name].clone())
        }
        Work::Copy(copy) => {
            let transfer = memory_cells(copy.bytes, at, copy.source, copy.destination);
            ([NONE; 9], transfer, copy_name(copy.kind))
        }
        Work::Set(set) => ([NONE; 9], memory_cells(set.bytes, at, set.memory, None), set_name()),
    };
    let [grid_x, grid_y, grid_z, block_x, block_y, block_z, registers, fixed, dynamic] = launch;
    let [bytes, throughput, source, destination] = transfer;
    [
        at.start.into(),
        at.duration().into(),
        at.correlation.into(),
        grid_x,
        grid_y,
        grid_z,
        block_x,
        block_y,
        block_z,
        registers,
        fixed,
        dynamic,
        bytes,
        throughput,
        source,
        destination,
        devices.label(at),
        numbered(at.context),
        numbered(at.green_context),
        numbered(at.stream),
        name.into(),
    ]
}

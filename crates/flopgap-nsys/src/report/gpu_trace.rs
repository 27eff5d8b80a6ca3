//! Every kernel and memory operation in the order of time.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::KernelName;
use super::memory::{copy_name, set_name};
use super::table::{Column, Sink, Unit, Value};
use crate::tables::{DEVICES, GPUS, KERNEL};
use crate::trace::{need, want};
use crate::{Error, GlobalId, Kernel, MemoryCopy, MemorySet, Trace, memory_label};

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
    fn start(&self) -> i64 {
        match self {
            Work::Kernel(kernel, _) => kernel.start,
            Work::Copy(copy) => copy.start,
            Work::Set(set) => set.start,
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
    fn label(&self, process: Option<GlobalId>, device: i64) -> Value {
        let number = process.and_then(|process| self.numbers.get(&(process.pid(), device)));
        match self.gpus.get(number.unwrap_or(&device)) {
            Some(name) => Value::Text(format!("{name} ({device})").into()),
            None => Value::Text(format!("({device})").into()),
        }
    }
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
    work.sort_by_key(Work::start);
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

fn row(piece: &Work, devices: &Devices, texts: &FxHashMap<i64, Arc<str>>) -> [Value; 21] {
    const NONE: Value = Value::Absent;
    // nsys writes 0 where there is no green context.
    let green = |context: Option<i64>| context.filter(|context| *context != 0).into();
    match piece {
        Work::Kernel(kernel, name) => [
            kernel.start.into(),
            kernel.end.saturating_sub(kernel.start).into(),
            kernel.correlation.into(),
            kernel.grid[0].into(),
            kernel.grid[1].into(),
            kernel.grid[2].into(),
            kernel.block[0].into(),
            kernel.block[1].into(),
            kernel.block[2].into(),
            kernel.registers.into(),
            kernel.static_shared.into(),
            kernel.dynamic_shared.into(),
            NONE,
            NONE,
            NONE,
            NONE,
            devices.label(kernel.process, kernel.device),
            kernel.context.into(),
            green(kernel.green_context),
            kernel.stream.into(),
            texts[name].clone().into(),
        ],
        Work::Copy(copy) => {
            let duration = copy.end.saturating_sub(copy.start);
            [
                copy.start.into(),
                duration.into(),
                copy.correlation.into(),
                NONE,
                NONE,
                NONE,
                NONE,
                NONE,
                NONE,
                NONE,
                NONE,
                NONE,
                copy.bytes.into(),
                throughput(copy.bytes, duration),
                memory(copy.source),
                memory(copy.destination),
                devices.label(copy.process, copy.device),
                copy.context.into(),
                green(copy.green_context),
                copy.stream.into(),
                copy_name(copy.kind).into(),
            ]
        }
        Work::Set(set) => {
            let duration = set.end.saturating_sub(set.start);
            [
                set.start.into(),
                duration.into(),
                set.correlation.into(),
                NONE,
                NONE,
                NONE,
                NONE,
                NONE,
                NONE,
                NONE,
                NONE,
                NONE,
                set.bytes.into(),
                throughput(set.bytes, duration),
                memory(set.memory),
                NONE,
                devices.label(set.process, set.device),
                set.context.into(),
                green(set.green_context),
                set.stream.into(),
                set_name().into(),
            ]
        }
    }
}

//! Every kernel and memory operation in the order of time.

use std::collections::hash_map::Entry;
use std::sync::Arc;

use flopgap_files::present;
use rustc_hash::FxHashMap;

use super::memory::{copy_name, set_name};
use super::table::{Columns, Sink, Value};
use crate::KernelName;
use crate::in_time::in_time;
use crate::tables::gpu::{KERNEL, MEMCPY, MEMSET, copies, memsets, named_kernels};
use crate::{
    CopyKind, DeviceId, Error, GpuId, Kernel, MemoryCopy, MemoryKind, MemorySet, Placement, ProcessId,
    StringId, Trace,
};

static COLUMNS: Columns = Columns::new(
    "Start (ns),Duration (ns),CorrId,GrdX,GrdY,GrdZ,BlkX,BlkY,BlkZ,Reg/Trd,StcSMem (MB),\
     DymSMem (MB),Bytes (MB),Throughput (MB/s),SrcMemKd,DstMemKd,Device,Ctx,GreenCtx,Strm,Name",
);

/// One piece of GPU work.
enum Work {
    /// With the id of the name that is shown.
    Kernel(Kernel, StringId),
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

    fn start(&self) -> i64 {
        self.at().start
    }
}

/// The name of each GPU by process (where the export numbers devices by process) and device.
#[derive(Default)]
struct Devices {
    gpus: FxHashMap<GpuId, Arc<str>>,
    numbers: FxHashMap<(i64, DeviceId), GpuId>,
    labels: FxHashMap<(Option<ProcessId>, DeviceId), Arc<str>>,
}

impl Devices {
    fn read(trace: &Trace) -> Result<Devices, Error> {
        let mut devices = Devices::default();
        for gpu in present(trace.gpus())?.unwrap_or_default() {
            devices.gpus.extend(gpu.name.map(|name| (gpu.id, name)));
        }
        for device in present(trace.cuda_devices())?.unwrap_or_default() {
            devices.numbers.extend(device.gpu.map(|gpu| ((device.pid, device.device), gpu)));
        }
        Ok(devices)
    }

    /// `NVIDIA H200 (0)`, or the number alone where the export has no names.
    fn label(&mut self, at: &Placement) -> Value {
        let device = at.device;
        let label = self.labels.entry((at.process, device)).or_insert_with(|| {
            let number = at.process.and_then(|process| self.numbers.get(&(process.pid(), device)));
            // An export that does not say it has one numbering.
            match self.gpus.get(&number.map_or(GpuId(device.0), |number| *number)) {
                Some(name) => format!("{name} ({device})").into(),
                // So printed by nsys, with nothing before the space.
                None => format!(" ({device})").into(),
            }
        });
        Value::Text(label.clone())
    }
}

/// A context, green context or stream. 0 is none: pages of unified memory move without them.
fn numbered(number: Option<impl Into<i64>>) -> Value {
    number.map(Into::into).filter(|number: &i64| *number != 0).into()
}

/// Bytes per second; nothing for an operation that took no time.
fn throughput(bytes: i64, duration: i64) -> Value {
    if duration > 0 { Value::Real(bytes as f64 * 1e9 / duration as f64) } else { Value::Absent }
}

/// `cuda_gpu_trace`.
pub(super) fn trace(trace: &Trace, names: KernelName, sink: &mut dyn Sink) -> Result<(), Error> {
    type Pieces = Box<dyn Iterator<Item = Result<Work, Error>>>;
    let of_kernels = || -> Result<Pieces, Error> {
        let rows = named_kernels(trace, names)?;
        Ok(Box::new(rows.map(|row| row.map(|(kernel, name)| Work::Kernel(kernel, name)))))
    };
    let of_copies =
        || -> Result<Pieces, Error> { Ok(Box::new(copies(trace)?.map(|copy| copy.map(Work::Copy)))) };
    let of_sets = || -> Result<Pieces, Error> { Ok(Box::new(memsets(trace)?.map(|set| set.map(Work::Set)))) };
    let tables = [
        in_time(trace, &KERNEL, of_kernels, Work::start),
        in_time(trace, &MEMCPY, of_copies, Work::start),
        in_time(trace, &MEMSET, of_sets, Work::start),
    ];
    let (mut sources, mut absences) = (Vec::new(), Vec::new());
    for source in tables {
        match source {
            Ok(source) => sources.push(source),
            Err(error) if error.is_no_table() => absences.push(error),
            Err(error) => return Err(error),
        }
    }
    if sources.is_empty() {
        return Err(absences.swap_remove(0));
    }
    let mut labels = Labels::read(trace)?;
    trace.writing(|| sink.columns(&COLUMNS))?;
    // Of pieces that start together, kernels come first and sets last.
    while let Some((_, at)) = (0..sources.len()).filter_map(|at| Some((sources[at].start()?, at))).min() {
        if let Some(piece) = sources[at].next() {
            let cells = row(&piece?, &mut labels)?;
            trace.writing(|| sink.row(&cells))?;
        }
    }
    Ok(())
}

/// The texts of cells, each made once.
struct Labels<'t> {
    trace: &'t Trace,
    devices: Devices,
    names: FxHashMap<StringId, Arc<str>>,
    copies: FxHashMap<CopyKind, Arc<str>>,
    set: Arc<str>,
    memories: FxHashMap<MemoryKind, Value>,
}

impl<'t> Labels<'t> {
    fn read(trace: &'t Trace) -> Result<Labels<'t>, Error> {
        Ok(Labels {
            trace,
            devices: Devices::read(trace)?,
            names: FxHashMap::default(),
            copies: FxHashMap::default(),
            set: set_name(),
            memories: FxHashMap::default(),
        })
    }

    fn kernel(&mut self, id: StringId) -> Result<Arc<str>, Error> {
        Ok(match self.names.entry(id) {
            Entry::Occupied(name) => name.get().clone(),
            Entry::Vacant(place) => place.insert(self.trace.string_or_id(id)?).clone(),
        })
    }

    fn copy(&mut self, kind: CopyKind) -> Arc<str> {
        self.copies.entry(kind).or_insert_with(|| copy_name(kind)).clone()
    }

    fn memory(&mut self, kind: Option<MemoryKind>) -> Value {
        let Some(kind) = kind else { return Value::Absent };
        self.memories.entry(kind).or_insert_with(|| kind.into()).clone()
    }
}

fn row(piece: &Work, labels: &mut Labels<'_>) -> Result<[Value; 21], Error> {
    const NONE: Value = Value::Absent;
    let at = piece.at();
    let (launch, transfer, name) = match piece {
        Work::Kernel(kernel, name) => {
            let (grid, block) = (kernel.grid, kernel.block);
            let launch = [
                grid.x.into(),
                grid.y.into(),
                grid.z.into(),
                block.x.into(),
                block.y.into(),
                block.z.into(),
                kernel.registers.into(),
                kernel.static_shared.into(),
                kernel.dynamic_shared.into(),
            ];
            (launch, [NONE; 4], labels.kernel(*name)?)
        }
        Work::Copy(copy) => {
            let (source, destination) = (labels.memory(copy.source), labels.memory(copy.destination));
            let transfer = [copy.bytes.into(), throughput(copy.bytes, at.duration()), source, destination];
            ([NONE; 9], transfer, labels.copy(copy.kind))
        }
        Work::Set(set) => {
            let memory = labels.memory(set.memory);
            let transfer = [set.bytes.into(), throughput(set.bytes, at.duration()), memory, NONE];
            ([NONE; 9], transfer, labels.set.clone())
        }
    };
    let [grid_x, grid_y, grid_z, block_x, block_y, block_z, registers, fixed, dynamic] = launch;
    let [bytes, throughput, source, destination] = transfer;
    Ok([
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
        labels.devices.label(at),
        numbered(Some(at.context)),
        numbered(at.green_context),
        numbered(Some(at.stream)),
        name.into(),
    ])
}

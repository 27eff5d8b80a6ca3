//! An export as any recording.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::collections::hash_map::Entry;
use std::path::Path;
use std::sync::Arc;

use flopgap_files::present;
use flopgap_trace::{
    ActivitySample, ApiCall, ClockSample, Copied, CountedKernel, CountedStep, GpuId, GpuNumber, Memory,
    Operation, Overhead, ProcessId, ReadError, Recording, Work, WorkKind, common_name,
};
use rustc_hash::FxHashMap;

use crate::error::if_recorded;
use crate::gpu_work::{graph_name, recorded};
use crate::tables::gpu::{Kind, kernel_places};
use crate::{
    Attribution, CopyKind, Error, GpuActivity, Launched, MemoryCopy, MemoryKind, NvtxRanges, OperationTimes,
    Placement, ProfilerOverhead, StringId, Trace,
};

impl Recording for Trace {
    fn path(&self) -> &Path {
        self.path()
    }

    fn ranges(&self) -> Result<Arc<NvtxRanges>, ReadError> {
        self.nvtx_ranges().map_err(ReadError::new)
    }

    fn launched(&self, attribution: Attribution) -> Result<Arc<Launched>, ReadError> {
        self.launched(attribution).map_err(ReadError::new)
    }

    fn operation_times(
        &self,
        within: Option<&[usize]>,
        attribution: Attribution,
    ) -> Result<OperationTimes, ReadError> {
        self.operation_times(within, attribution).map_err(ReadError::new)
    }

    fn gpu_activity(&self, attribution: Attribution) -> Result<Vec<GpuActivity>, ReadError> {
        self.gpu_activity(attribution).map_err(ReadError::new)
    }

    fn each_operation(
        &self,
        whole_graphs: bool,
        visit: &mut dyn FnMut(&Operation<'_>),
    ) -> Result<(), ReadError> {
        self.visit_operations(whole_graphs, visit).map_err(ReadError::new)
    }

    fn each_call(
        &self,
        wanted: &dyn Fn(&str) -> bool,
        visit: &mut dyn FnMut(&ApiCall<'_>),
    ) -> Result<(), ReadError> {
        self.visit_calls(wanted, visit).map_err(ReadError::new)
    }

    fn each_copy(&self, visit: &mut dyn FnMut(&Copied)) -> Result<(), ReadError> {
        self.visit_copies(visit).map_err(ReadError::new)
    }

    fn overheads(&self) -> Result<Vec<Overhead>, ReadError> {
        self.own_overheads().map_err(ReadError::new)
    }

    fn counted(&self) -> Result<Vec<CountedKernel>, ReadError> {
        self.counted_kernels().map_err(ReadError::new)
    }

    fn counted_steps(&self) -> Result<Vec<CountedStep>, ReadError> {
        self.counted_ranges().map_err(ReadError::new)
    }

    fn clock_samples(&self) -> Result<Vec<ClockSample>, ReadError> {
        self.clock_samples().map_err(ReadError::new)
    }

    fn activity_samples(&self) -> Result<Vec<ActivitySample>, ReadError> {
        self.activity_samples().map_err(ReadError::new)
    }

    fn highest_clocks(&self) -> Result<Vec<(GpuId, i64)>, ReadError> {
        let gpus = present(self.gpus()).map_err(ReadError::new)?.unwrap_or_default();
        Ok(gpus.into_iter().filter_map(|gpu| Some((gpu.id, gpu.clock?))).collect())
    }

    fn span(&self) -> Result<Option<(i64, i64)>, ReadError> {
        Ok(self.session().map_err(ReadError::new)?.span)
    }

    fn gpu_numbers(&self) -> Result<Vec<GpuNumber>, ReadError> {
        let devices = if_recorded(self.cuda_devices()).map_err(ReadError::new)?;
        let numbers = devices.into_iter().flatten().filter_map(|device| {
            Some(GpuNumber { pid: device.pid, device: device.device, gpu: device.gpu? })
        });
        Ok(numbers.collect())
    }

    fn gpu_names(&self) -> Result<Vec<String>, ReadError> {
        let Some(gpus) = present(self.gpus()).map_err(ReadError::new)? else { return Ok(Vec::new()) };
        // Where all are alike, it does not matter which of them each piece of work ran on.
        if let Some(kind) = common_name(gpus.iter().map(|gpu| gpu.name.as_deref())) {
            let works = self.has_gpu_work().map_err(ReadError::new)?;
            return Ok(works.then(|| kind.to_owned()).into_iter().collect());
        }
        let name = |id| gpus.iter().find(|gpu| gpu.id == id).and_then(|gpu| gpu.name.as_deref());
        let numbers = self.gpu_numbers()?;
        let used = self.gpu_activity(Attribution::default()).map_err(ReadError::new)?;
        let names = used.iter().filter_map(|used| {
            let pid = used.process.map(ProcessId::pid);
            let known = numbers.iter().find(|known| Some(known.pid) == pid && known.device == used.device);
            name(known.map_or(GpuId(used.device.0), |known| known.gpu)).map(str::to_owned)
        });
        Ok(names.collect::<BTreeSet<_>>().into_iter().collect())
    }
}

impl Trace {
    /// The rows of `PROFILER_OVERHEAD` that are the profiler's: loading a library is the program's.
    fn own_overheads(&self) -> Result<Vec<Overhead>, Error> {
        const OWN: [&str; 4] = ["CUDA profiling", "CUPTI", "NVTX profiling", "Chunk Allocation"];
        let mut own = Vec::new();
        for row in present(self.profiler_overheads())?.into_iter().flatten() {
            let ProfilerOverhead { start, end, thread, name } = row?;
            let name = self.string_or_id(name)?;
            if let Some(thread) = thread
                && start < end
                && OWN.iter().any(|own| name.starts_with(own))
            {
                let name = Arc::from(&*name);
                own.push(Overhead { start, end, process: thread.process(), thread: Some(thread), name });
            }
        }
        own.sort_by_key(|own| own.start);
        Ok(own)
    }

    pub(crate) fn visit_operations(
        &self,
        whole_graphs: bool,
        visit: &mut dyn FnMut(&Operation<'_>),
    ) -> Result<(), Error> {
        let mut names: FxHashMap<StringId, Arc<str>> = FxHashMap::default();
        let counts = self.counts_of_kernels()?;
        // What was counted of the kernel at hand.
        let counted = Cell::new(None);
        let mut of = |kind: WorkKind, at: Placement, (name_id, name): (i64, &str), bytes: Option<i64>| {
            let Placement { start, end, device, process, correlation, stream, .. } = at;
            // As in every answer, what ends before it starts is left out; the warnings count it.
            if start <= end {
                let work = Work { kind, start, end, device, process, correlation };
                let (exchanged, group, counted) = (None, None, counted.take());
                visit(&Operation { work, stream, name_id, name, bytes, exchanged, group, counted });
            }
        };
        recorded(Kind::all(whole_graphs), |kind| {
            match kind {
                Kind::Kernel => {
                    for kernel in kernel_places(self)? {
                        let (at, id, row) = kernel?;
                        counted.set(counts.get(&row).copied());
                        let name = if let Some(name) = names.get(&id) {
                            name.clone()
                        } else {
                            let name = self.string_or_id(id)?;
                            names.insert(id, name.clone());
                            name
                        };
                        of(kind, at, (id.0, &name), None);
                    }
                }
                Kind::Copy => {
                    for copy in self.copies()? {
                        let copy = copy?;
                        let name = copy.kind.label().unwrap_or("Unknown");
                        of(kind, copy.at, (copy.kind.code(), name), Some(copy.bytes));
                    }
                }
                Kind::Set => {
                    for set in self.memsets()? {
                        let set = set?;
                        of(kind, set.at, (0, "memset"), Some(set.bytes));
                    }
                }
                Kind::Graph => {
                    for run in self.graph_runs()? {
                        let run = run?;
                        of(kind, run.at, (run.graph.0, &graph_name(run.graph)), None);
                    }
                }
            }
            Ok(())
        })
        .map(drop)
    }

    pub(crate) fn visit_calls(
        &self,
        wanted: &dyn Fn(&str) -> bool,
        visit: &mut dyn FnMut(&ApiCall<'_>),
    ) -> Result<(), Error> {
        let mut known: FxHashMap<StringId, Option<Arc<str>>> = FxHashMap::default();
        for call in self.api_calls()? {
            let call = call?;
            let Some(thread) = call.thread else { continue };
            let name = match known.entry(call.name) {
                Entry::Occupied(known) => known.into_mut(),
                Entry::Vacant(place) => place.insert(self.string(call.name)?.filter(|name| wanted(name))),
            };
            if let Some(name) = name {
                let crate::ApiCall { start, end, correlation, .. } = call;
                visit(&ApiCall { thread, start, end, name, correlation });
            }
        }
        Ok(())
    }

    fn visit_copies(&self, visit: &mut dyn FnMut(&Copied)) -> Result<(), Error> {
        for copy in if_recorded(self.copies())?.into_iter().flatten() {
            let copy = copy?;
            let Placement { start, end, device, process, correlation, .. } = copy.at;
            // As in every answer, what ends before it starts is left out; the warnings count it.
            if start <= end {
                let work = Work { kind: WorkKind::Copy, start, end, device, process, correlation };
                let [from, to] = memories(&copy);
                visit(&Copied { work, from, to, bytes: Some(copy.bytes) });
            }
        }
        Ok(())
    }
}

/// Between which memories a copy moves data; where an export does not say their kinds, by its own
/// kind.
fn memories(copy: &MemoryCopy) -> [Memory; 2] {
    let of_kind = match copy.kind {
        CopyKind::HostToDevice | CopyKind::HostToArray => [Memory::Host, Memory::Device],
        CopyKind::DeviceToHost | CopyKind::ArrayToHost => [Memory::Device, Memory::Host],
        CopyKind::HostToHost => [Memory::Host, Memory::Host],
        CopyKind::DeviceToDevice
        | CopyKind::ArrayToArray
        | CopyKind::ArrayToDevice
        | CopyKind::DeviceToArray
        | CopyKind::PeerToPeer => [Memory::Device, Memory::Device],
        _ => [Memory::Unknown, Memory::Unknown],
    };
    let memory = |kind: Option<MemoryKind>, otherwise: Memory| match kind {
        Some(MemoryKind::Pageable) => Memory::Pageable,
        Some(MemoryKind::Pinned) => Memory::Pinned,
        Some(MemoryKind::Device | MemoryKind::DeviceStatic | MemoryKind::Array) => Memory::Device,
        Some(MemoryKind::Managed | MemoryKind::ManagedStatic) => Memory::Unknown,
        _ => otherwise,
    };
    [memory(copy.source, of_kind[0]), memory(copy.destination, of_kind[1])]
}

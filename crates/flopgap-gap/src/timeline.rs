//! All work of the GPUs, by process and GPU.

use std::collections::BTreeMap;
use std::sync::Arc;

use flopgap_kernels::{Classifier, KernelClass, KernelInfo};
use flopgap_timings::collectives::{Arrival, Calls};
use flopgap_timings::{Gpus, Place};
use flopgap_trace::{Memory, Operation, ProcessId, Recording, WorkKind};
use rustc_hash::FxHashMap;

use crate::captures::{Captures, Graphs};
use crate::cause::Cause;
use crate::error::Error;
use crate::host::{Host, NONE, push};
use crate::operation::{FIRST, Kind, Lane, Op};

/// All work.
#[derive(Debug)]
pub(crate) struct Timeline {
    pub(crate) lanes: Vec<Lane>,
    pub(crate) kinds: Vec<Kind>,
    /// The kernels of collectives whose ranks were recorded together.
    pub(crate) arrivals: Vec<Arrival>,
    /// What is known of nodes of CUDA graphs.
    pub(crate) graphs: Graphs,
}

/// What distinguishes kinds: of copies, their memories; of communication, the group.
type KindKey = (WorkKind, i64, u8, u32);

impl Timeline {
    pub(crate) fn read(trace: &dyn Recording, host: &Host, gpus: &Gpus) -> Result<Timeline, Error> {
        let mut memories: FxHashMap<(Option<ProcessId>, i64, i64), [Memory; 2]> = FxHashMap::default();
        trace.each_copy(&mut |copied| {
            let key = (copied.work.process, copied.work.start, copied.work.end);
            memories.insert(key, [copied.from, copied.to]);
        })?;
        let classifier = Classifier::new();
        let mut kinds: Vec<Kind> = Vec::new();
        let mut known: FxHashMap<KindKey, u32> = FxHashMap::default();
        let mut groups: BTreeMap<flopgap_trace::RankGroup, u32> = BTreeMap::new();
        let mut lanes: Vec<Lane> = Vec::new();
        let mut last = 0;
        let mut collectives = Calls::default();
        let mut durations = 0_i128;
        trace.each_operation(true, &mut |operation| {
            let work = &operation.work;
            let copied = (work.kind == WorkKind::Copy)
                .then(|| memories.get(&(work.process, work.start, work.end)).copied())
                .flatten();
            let group = operation.group.map_or(0, |group| {
                let next = u32::try_from(groups.len()).unwrap_or_default() + 1;
                if let Some(known) = groups.get(group) {
                    *known
                } else {
                    groups.insert(group.clone(), next);
                    next
                }
            });
            let code = copied.map_or(0, |[from, to]| 1 + 8 * (from as u8) + to as u8);
            let key = (work.kind, operation.name_id, code, group);
            let kind = *known.entry(key).or_insert_with(|| {
                kinds.push(kind(operation, copied, &classifier));
                u32::try_from(kinds.len() - 1).unwrap_or_default()
            });
            if kinds[kind as usize].cause == Cause::Communication {
                collectives.add(gpus.place(work.process, work.device), operation);
            }
            durations += i128::from(work.end) - i128::from(work.start);
            let is_of = |lane: &Lane| (lane.process, lane.device) == (work.process, work.device);
            if !lanes.get(last).is_some_and(is_of) {
                last = lanes.iter().position(is_of).unwrap_or_else(|| {
                    let (process, device) = (work.process, work.device);
                    lanes.push(Lane { process, device, operations: Vec::new() });
                    lanes.len() - 1
                });
            }
            let stream = u32::try_from(operation.stream.0 & i64::from(!FIRST)).unwrap_or_default();
            let call = host.launch(work.process, work.correlation);
            let op = Op { start: work.start, end: work.end, kind, stream, call, captured: NONE };
            push(&mut lanes[last].operations, op);
        })?;
        // As those of every real recording do: sums over them need no more.
        if i64::try_from(durations).is_err() {
            return Err(Error::Durations { path: trace.path().to_owned() });
        }
        let ran: Vec<Place> = lanes.iter().map(|lane| gpus.place(lane.process, lane.device)).collect();
        let arrivals = collectives.arrivals(&ran, trace.world_size());
        lanes.sort_by_key(|lane| (lane.process, lane.device));
        for lane in &mut lanes {
            lane.operations.shrink_to_fit();
            lane.operations.sort_unstable_by_key(|op| (op.start, op.call, op.end, op.stream()));
            let mut is_known = vec![false; kinds.len()];
            for op in &mut lane.operations {
                let is_known = &mut is_known[op.kind as usize];
                if !*is_known && kinds[op.kind as usize].info.is_some() {
                    op.stream |= FIRST;
                }
                *is_known = true;
            }
        }
        let graphs = Captures::find(host, &lanes).assign(host, &mut lanes, &kinds);
        Ok(Timeline { lanes, kinds, arrivals, graphs })
    }

    pub(crate) fn kind(&self, op: &Op) -> &Kind {
        &self.kinds[op.kind as usize]
    }
}

fn kind(operation: &Operation<'_>, copied: Option<[Memory; 2]>, classifier: &Classifier) -> Kind {
    match operation.work.kind {
        WorkKind::Kernel => {
            let info = classifier.get(operation.name);
            let name = match operation.group {
                Some(group) => {
                    let of = if group.collective.is_empty() { &info.short } else { &*group.collective };
                    Arc::from(format!("{of} in group {}", group.name))
                }
                None => Arc::from(info.short.as_str()),
            };
            Kind { cause: cause(&info), name, info: Some(info), memories: None }
        }
        WorkKind::Copy => {
            let host = |memory| matches!(memory, Memory::Pageable | Memory::Pinned | Memory::Host);
            let cause = match copied {
                Some([from, Memory::Device]) if host(from) => Cause::HostToDevice,
                Some([Memory::Device, to]) if host(to) => Cause::DeviceToHost,
                Some([Memory::Device, Memory::Device]) => Cause::DeviceToDevice,
                _ => Cause::Copy,
            };
            let memory = |memory| match memory {
                Memory::Pageable => Some("pageable"),
                Memory::Pinned => Some("pinned"),
                _ => None,
            };
            let kind = copied.and_then(|[from, to]| memory(from).or_else(|| memory(to)));
            let name = match (cause, kind) {
                (Cause::Copy, _) => operation.name.to_owned(),
                (_, None) => cause.in_words().to_owned(),
                (_, Some(kind)) => format!("{}, {kind}", cause.in_words()),
            };
            Kind { cause, name: name.into(), info: None, memories: copied }
        }
        WorkKind::Set => Kind { cause: Cause::Set, name: "memset".into(), info: None, memories: None },
        WorkKind::Graph => {
            let name = Arc::from(operation.name);
            Kind { cause: Cause::WholeGraph, name, info: None, memories: None }
        }
    }
}

fn cause(info: &KernelInfo) -> Cause {
    match (info.class, info.tensor_cores) {
        (KernelClass::Matmul | KernelClass::Gemv, Some(true)) => Cause::TensorCores,
        (KernelClass::Matmul | KernelClass::Gemv, Some(false)) => Cause::CudaCores,
        (KernelClass::Matmul | KernelClass::Gemv | KernelClass::SplitKReduce, _) => Cause::Matmul,
        (KernelClass::Elementwise, _) => Cause::Elementwise,
        (KernelClass::Reduction, _) => Cause::Reduction,
        (KernelClass::Softmax, _) => Cause::Softmax,
        (KernelClass::Norm, _) => Cause::Norm,
        (KernelClass::Attention, _) => Cause::Attention,
        (KernelClass::Convolution, _) => Cause::Convolution,
        (KernelClass::Recurrence, _) => Cause::Recurrence,
        (KernelClass::Index, _) => Cause::Index,
        (KernelClass::Optimizer, _) => Cause::Optimizer,
        (KernelClass::Copy | KernelClass::Layout, _) => Cause::Layout,
        (KernelClass::Random, _) => Cause::Random,
        (KernelClass::Communication, _) => Cause::Communication,
        (KernelClass::Other, _) => Cause::Other,
    }
}

//! What ran on GPUs.

use flopgap_nsys::{
    AccessKind, CopyKind, GpuPageFault, GraphRun, Kernel, MemoryCopy, MemoryKind, MemorySet, ProcessId,
    SyncKind, Synchronization,
};

use super::{Nsys, place_on_gpu, times, times_on_gpu};
use crate::column::{Column, int, label, maybe_int};

pub(super) fn kernels(nsys: &Nsys) -> Vec<Column<Kernel>> {
    let classifier = nsys.classifier.clone();
    let class = move |name: &str| Some(classifier.get(name).class.as_str().to_owned());
    let classifier = nsys.classifier.clone();
    let display = move |name: &str| Some(classifier.get(name).short.clone());
    let classifier = nsys.classifier.clone();
    let precision =
        move |name: &str| classifier.get(name).precision.map(|precision| precision.as_str().to_owned());
    let demangled = |kernel: &Kernel| kernel.demangled;
    let mut columns: Vec<Column<Kernel>> = times_on_gpu(|kernel: &Kernel| &kernel.at).into();
    columns.extend([
        nsys.string("name", "The kernel's name, demangled.", demangled, |name| Some(name.to_owned())),
        nsys.string(
            "display_name",
            "A name that fits in a table, the same for every spelling of one kernel.",
            demangled,
            display,
        ),
        nsys.string(
            "class",
            "The kind of work, from the name: `matmul`, `elementwise`, `copy`...",
            demangled,
            class,
        ),
        nsys.string(
            "precision",
            "The number format it computes in, where the name has it.",
            demangled,
            precision,
        ),
        nsys.string(
            "short_name",
            "The name alone, as nsys shortens it.",
            |kernel: &Kernel| kernel.short,
            |name| Some(name.to_owned()),
        ),
    ]);
    columns.extend(place_on_gpu(|kernel: &Kernel| &kernel.at));
    columns.extend([
        int("grid_x", "Blocks in x.", |kernel: &Kernel| kernel.grid.x.into()),
        int("grid_y", "Blocks in y.", |kernel: &Kernel| kernel.grid.y.into()),
        int("grid_z", "Blocks in z.", |kernel: &Kernel| kernel.grid.z.into()),
        int("block_x", "Threads of a block in x.", |kernel: &Kernel| kernel.block.x.into()),
        int("block_y", "Threads of a block in y.", |kernel: &Kernel| kernel.block.y.into()),
        int("block_z", "Threads of a block in z.", |kernel: &Kernel| kernel.block.z.into()),
        maybe_int("registers", "Registers of a thread.", |kernel: &Kernel| kernel.registers),
        maybe_int("static_shared_bytes", "Static shared memory of a block.", |kernel: &Kernel| {
            kernel.static_shared
        }),
        maybe_int("dynamic_shared_bytes", "Dynamic shared memory of a block.", |kernel: &Kernel| {
            kernel.dynamic_shared
        }),
        maybe_int("graph_node", "The node of a CUDA graph that it ran for.", |kernel: &Kernel| {
            kernel.graph_node.map(i64::from)
        }),
    ]);
    columns
}

pub(super) fn copies() -> Vec<Column<MemoryCopy>> {
    let mut columns: Vec<Column<MemoryCopy>> = times_on_gpu(|copy: &MemoryCopy| &copy.at).into();
    columns.extend([
        int("bytes", "How much was copied.", |copy: &MemoryCopy| copy.bytes),
        label(
            "kind",
            "From where to where, as nsys spells it: `Host-to-Device`.",
            |copy: &MemoryCopy| Some(copy.kind.code()),
            |code| CopyKind::of(code).label(),
        ),
        label(
            "source",
            "The kind of the source memory: `Pinned`, `Device`...",
            |copy: &MemoryCopy| copy.source.map(MemoryKind::code),
            |code| MemoryKind::of(code).label(),
        ),
        label(
            "destination",
            "The kind of the destination memory.",
            |copy: &MemoryCopy| copy.destination.map(MemoryKind::code),
            |code| MemoryKind::of(code).label(),
        ),
        maybe_int("source_device", "The GPU of the source, where it is another.", |copy: &MemoryCopy| {
            copy.source_device.map(i64::from)
        }),
        maybe_int(
            "destination_device",
            "The GPU of the destination, where it is another.",
            |copy: &MemoryCopy| copy.destination_device.map(i64::from),
        ),
    ]);
    columns.extend(place_on_gpu(|copy: &MemoryCopy| &copy.at));
    columns
}

pub(super) fn memsets() -> Vec<Column<MemorySet>> {
    let mut columns: Vec<Column<MemorySet>> = times_on_gpu(|set: &MemorySet| &set.at).into();
    columns.extend([
        int("bytes", "How much was set.", |set: &MemorySet| set.bytes),
        label(
            "memory",
            "The kind of memory: `Device`...",
            |set: &MemorySet| set.memory.map(MemoryKind::code),
            |code| MemoryKind::of(code).label(),
        ),
    ]);
    columns.extend(place_on_gpu(|set: &MemorySet| &set.at));
    columns
}

pub(super) fn graphs() -> Vec<Column<GraphRun>> {
    let mut columns: Vec<Column<GraphRun>> = times_on_gpu(|run: &GraphRun| &run.at).into();
    columns.extend([
        int("graph", "The graph.", |run: &GraphRun| run.graph.into()),
        int("executable", "The instance of the graph that was launched.", |run: &GraphRun| {
            run.executable.into()
        }),
    ]);
    columns.extend(place_on_gpu(|run: &GraphRun| &run.at));
    columns
}

pub(super) fn synchronizations() -> Vec<Column<Synchronization>> {
    let mut columns: Vec<Column<Synchronization>> = times_on_gpu(|wait: &Synchronization| &wait.at).into();
    columns.extend([
        label(
            "kind",
            "What was waited for, as nsys spells it: `Stream sync`.",
            |wait: &Synchronization| Some(wait.kind.code()),
            |code| SyncKind::of(code).label(),
        ),
        maybe_int("event", "The event that was waited for, when it was one.", |wait: &Synchronization| {
            wait.event.map(i64::from)
        }),
    ]);
    columns.extend(place_on_gpu(|wait: &Synchronization| &wait.at));
    columns
}

pub(super) fn faults() -> Vec<Column<GpuPageFault>> {
    let mut columns: Vec<Column<GpuPageFault>> =
        times(|fault: &GpuPageFault| fault.start, |fault| fault.end).into();
    columns.extend([
        maybe_int("pid", "The process.", |fault: &GpuPageFault| fault.process.map(ProcessId::pid)),
        int("device", "The GPU, as the process numbers them.", |fault: &GpuPageFault| fault.device.into()),
        int("address", "The virtual address of the page.", |fault: &GpuPageFault| fault.address),
        int("faults", "How many faults.", |fault: &GpuPageFault| fault.faults),
        label(
            "access",
            "How it was touched, as nsys spells it.",
            |fault: &GpuPageFault| fault.access.map(AccessKind::code),
            |code| AccessKind::of(code).label(),
        ),
    ]);
    columns
}

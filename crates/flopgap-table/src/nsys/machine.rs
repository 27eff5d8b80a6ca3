//! What the recording ran on.

use flopgap_nsys::{Gpu, Process};

use crate::column::{Column, int, maybe_int, text};

pub(super) fn gpus() -> Vec<Column<Gpu>> {
    vec![
        int(
            "id",
            "Its number on the machine, which is not always the device number of a process.",
            |gpu: &Gpu| gpu.id.into(),
        ),
        text("name", "Such as `NVIDIA H200`.", |gpu: &Gpu| gpu.name.as_deref()),
        text("chip", "The chip, such as `GH100`.", |gpu: &Gpu| gpu.chip.as_deref()),
        maybe_int("compute_capability_major", "The compute capability, before the point.", |gpu: &Gpu| {
            gpu.compute_capability.map(|capability| capability.0)
        }),
        maybe_int("compute_capability_minor", "The compute capability, behind the point.", |gpu: &Gpu| {
            gpu.compute_capability.map(|capability| capability.1)
        }),
        maybe_int("multiprocessors", "How many multiprocessors it has.", |gpu: &Gpu| gpu.multiprocessors),
        maybe_int("clock_hz", "Its highest clock.", |gpu: &Gpu| gpu.clock),
        maybe_int("memory_bytes", "Its memory.", |gpu: &Gpu| gpu.memory),
        maybe_int("memory_bytes_per_s", "The rate of its memory, as nsys exports it.", |gpu: &Gpu| {
            gpu.memory_bandwidth
        }),
        maybe_int("l2_bytes", "The size of its L2 cache.", |gpu: &Gpu| gpu.l2_cache),
        text("bus", "Where it sits on the PCI bus.", |gpu: &Gpu| gpu.bus.as_deref()),
        text("uuid", "Its unique id.", |gpu: &Gpu| gpu.uuid.as_deref()),
    ]
}

pub(super) fn processes() -> Vec<Column<Process>> {
    vec![
        int("pid", "The process id.", |process: &Process| process.pid),
        text("name", "The name of its program.", |process: &Process| process.name.as_deref()),
    ]
}

//! Work of GPUs, in the columns of an export of nsys.

use std::sync::Arc;

use flopgap_kernels::Classifier;
use flopgap_kineto::GpuWork;

use super::Row;
use crate::column::{Column, int, looked_up, maybe_int, text};

type Work = Row<GpuWork>;

fn signed(value: Option<u64>) -> Option<i64> {
    value.and_then(|value| i64::try_from(value).ok())
}

fn times() -> [Column<Work>; 3] {
    [
        int("start_ns", "When it began on the GPU, in nanoseconds since the first event.", |work: &Work| {
            work.since_begin(work.it().start)
        }),
        int("end_ns", "When it ended on the GPU, the sum of `start_ns` and `duration_ns`.", |work: &Work| {
            work.since_begin(work.it().start.saturating_add_unsigned(work.it().duration))
        }),
        int("duration_ns", "From start to end.", |work: &Work| {
            i64::try_from(work.it().duration).unwrap_or(i64::MAX)
        }),
    ]
}

fn place() -> [Column<Work>; 6] {
    [
        maybe_int("pid", "The process: that of most calls of the trace.", |work: &Work| work.pid()),
        maybe_int("device", "The GPU, as the process numbers them.", |work: &Work| {
            work.it().device.map(i64::from)
        }),
        maybe_int("context", "The CUDA context.", |work: &Work| work.it().context.map(i64::from)),
        maybe_int("green_context", "The green context; not recorded.", |_: &Work| None),
        maybe_int("stream", "The stream.", |work: &Work| work.it().stream.map(i64::from)),
        maybe_int(
            "correlation",
            "Ties it to the call that asked for it (`api_calls.correlation`), within its process.",
            |work: &Work| work.it().correlation.map(i64::from),
        ),
    ]
}

pub(super) fn kernels(classifier: &Arc<Classifier>) -> Vec<Column<Work>> {
    let name = |work: &Work| Some(work.it().name.clone());
    let of = |known: &Arc<Classifier>| known.clone();
    let (display, class, precision) = (of(classifier), of(classifier), of(classifier));
    let mut columns: Vec<Column<Work>> = times().into();
    columns.extend([
        text("name", "The kernel's name, demangled.", |work: &Work| Some(&work.it().name)),
        looked_up(
            "display_name",
            "A name that fits in a table, the same for every spelling of one kernel.",
            name,
            move |name| Ok(Some(display.get(&name).short.as_str().into())),
        ),
        looked_up(
            "class",
            "The kind of work, from the name: `matmul`, `elementwise`, `copy`...",
            name,
            move |name| Ok(Some(class.get(&name).class.as_str().into())),
        ),
        looked_up(
            "precision",
            "The number format it computes in, where the name has it.",
            name,
            move |name| Ok(precision.get(&name).precision.map(|precision| precision.as_str().into())),
        ),
        text("short_name", "The name alone, as nsys shortens it; not recorded.", |_: &Work| None),
    ]);
    columns.extend(place());
    columns.extend([
        maybe_int("grid_x", "Blocks in x.", |work: &Work| work.it().grid.map(|grid| grid.x.into())),
        maybe_int("grid_y", "Blocks in y.", |work: &Work| work.it().grid.map(|grid| grid.y.into())),
        maybe_int("grid_z", "Blocks in z.", |work: &Work| work.it().grid.map(|grid| grid.z.into())),
        maybe_int("block_x", "Threads of a block in x.", |work: &Work| {
            work.it().block.map(|block| block.x.into())
        }),
        maybe_int("block_y", "Threads of a block in y.", |work: &Work| {
            work.it().block.map(|block| block.y.into())
        }),
        maybe_int("block_z", "Threads of a block in z.", |work: &Work| {
            work.it().block.map(|block| block.z.into())
        }),
        maybe_int("registers", "Registers of a thread.", |work: &Work| signed(work.it().registers)),
        maybe_int(
            "static_shared_bytes",
            "Static shared memory of a block; the profiler records the sum with dynamic memory alone.",
            |_: &Work| None,
        ),
        maybe_int(
            "dynamic_shared_bytes",
            "Dynamic shared memory of a block; the profiler records the sum with static memory alone.",
            |_: &Work| None,
        ),
        maybe_int("graph_node", "The node of a CUDA graph that it ran for.", |work: &Work| {
            work.it().graph_node.map(i64::from)
        }),
    ]);
    columns
}

/// The parts of what the profiler calls a copy: `Memcpy HtoD (Pageable -> Device)`.
fn copied(name: &str) -> [Option<&str>; 3] {
    let Some(rest) = name.strip_prefix("Memcpy ") else { return [None; 3] };
    let (direction, memory) = rest.split_once(" (").unwrap_or((rest, ""));
    let memory = memory.strip_suffix(')').and_then(|memory| memory.split_once(" -> "));
    let (source, destination) = memory.unzip();
    let kind = match direction {
        "HtoD" => "Host-to-Device",
        "DtoH" => "Device-to-Host",
        "DtoD" => "Device-to-Device",
        "HtoH" => "Host-to-Host",
        "PtoP" => "Peer-to-Peer",
        other => other,
    };
    [Some(kind), source, destination]
}

pub(super) fn copies() -> Vec<Column<Work>> {
    let mut columns: Vec<Column<Work>> = times().into();
    columns.extend([
        maybe_int("bytes", "How much was copied.", |work: &Work| signed(work.it().bytes)),
        text("kind", "From where to where, as nsys spells it: `Host-to-Device`.", |work: &Work| {
            copied(&work.it().name)[0]
        }),
        text("source", "The kind of the source memory: `Pinned`, `Device`...", |work: &Work| {
            copied(&work.it().name)[1]
        }),
        text("destination", "The kind of the destination memory.", |work: &Work| copied(&work.it().name)[2]),
        maybe_int("source_device", "The GPU of the source; not recorded.", |_: &Work| None),
        maybe_int("destination_device", "The GPU of the destination; not recorded.", |_: &Work| None),
    ]);
    columns.extend(place());
    columns
}

pub(super) fn memsets() -> Vec<Column<Work>> {
    let mut columns: Vec<Column<Work>> = times().into();
    columns.extend([
        maybe_int("bytes", "How much was set.", |work: &Work| signed(work.it().bytes)),
        text("memory", "The kind of memory: `Device`...", |work: &Work| {
            work.it().name.strip_prefix("Memset (")?.strip_suffix(')')
        }),
    ]);
    columns.extend(place());
    columns
}

#[cfg(test)]
mod tests {
    use super::copied;

    #[test]
    fn copies_say_from_where_to_where() {
        assert_eq!(
            copied("Memcpy HtoD (Pageable -> Device)"),
            [Some("Host-to-Device"), Some("Pageable"), Some("Device")]
        );
        assert_eq!(copied("Memcpy DtoD"), [Some("Device-to-Device"), None, None]);
        assert_eq!(copied("CopyDeviceToHost"), [None; 3]);
    }
}

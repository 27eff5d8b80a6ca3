//! Launches, each with all its metrics.

use std::sync::Arc;

use flopgap_kernels::Classifier;
use flopgap_ncu::{FlopCounter, Flops, LaunchView, Measurement, OperationType};
use flopgap_phases::arithmetic;

use super::columns::{Cell, Holds, Known, Metrics};
use super::views::{Shared, Views};
use crate::Error;
use crate::column::{Column, count, looked_up, maybe_count, maybe_float, text};

/// A launch.
pub(super) struct Row {
    id: Option<u64>,
    position: u64,
    segment: u64,
    process_id: Option<u64>,
    process_name: Option<Arc<str>>,
    host: Option<Arc<str>>,
    device: Option<u64>,
    compute_capability: Option<(u32, u32)>,
    context: Option<u64>,
    stream: Option<u64>,
    name: Arc<str>,
    grid: Option<[u64; 3]>,
    block: Option<[u64; 3]>,
    nvtx: Option<String>,
    invocations: u64,
    flops: Flops,
    values: Box<[Cell]>,
}

/// The launches of a report.
pub(super) struct Launches {
    views: Views,
    metrics: Arc<Metrics>,
    classifier: Arc<Classifier>,
    counter: FlopCounter,
    known: Known,
    shared: Shared,
}

impl Launches {
    pub(super) fn new(views: Views, metrics: Arc<Metrics>, classifier: Arc<Classifier>) -> Launches {
        let (known, shared) = (Known::default(), Shared::default());
        Launches { views, metrics, classifier, counter: FlopCounter::new(), known, shared }
    }
}

impl Iterator for Launches {
    type Item = Result<Row, Error>;

    fn next(&mut self) -> Option<Result<Row, Error>> {
        let Launches { views, metrics, classifier, counter, known, shared } = self;
        let row = views.next(|view| {
            let info = classifier.get(view.kernel_name());
            Row {
                id: view.id,
                position: view.position,
                segment: view.segment.into(),
                process_id: view.process_id,
                process_name: shared.not_empty(view.process_name, view.strings),
                host: shared.not_empty(view.host, view.strings),
                device: view.device,
                compute_capability: view.compute_capability,
                context: view.context,
                stream: view.stream,
                name: shared.get(view.name, view.strings),
                grid: view.grid,
                block: view.block,
                nvtx: ranges(view),
                invocations: view.invocations,
                flops: counter.count_as(view, &arithmetic(&info)),
                values: metrics.values(view, known),
            }
        });
        row.transpose()
    }
}

/// The ranges around a launch, outermost first: `step/forward`, those of a domain as
/// `domain:forward`.
fn ranges(view: LaunchView<'_>) -> Option<String> {
    let name = |range: &flopgap_ncu::NvtxRange| {
        let (domain, name) = (view.strings.get(range.domain), view.strings.get(range.name));
        if domain.is_empty() { name.to_owned() } else { format!("{domain}:{name}") }
    };
    let names: Vec<String> = view.nvtx.iter().map(name).collect();
    (!names.is_empty()).then(|| names.join("/"))
}

/// The operations of one precision, if they were counted and are certainly arithmetic.
fn counted(flops: &Flops, precision: OperationType) -> Option<u64> {
    flops.get(precision).count().map(|count| count.value)
}

/// The floating-point operations of the tensor cores, over all measured types; unknown if any of
/// these is unknown.
fn tensor(flops: &Flops) -> Option<u64> {
    let types = flops.iter().filter(|(precision, _)| precision.is_tensor() && precision.is_float());
    let mut sum = None;
    for (_, measurement) in types {
        match measurement {
            Measurement::Counted(count) => sum = Some(sum.unwrap_or(0_u64).checked_add(count.value)?),
            _ => return None,
        }
    }
    sum
}

fn classified(
    name: &'static str,
    about: &str,
    classifier: &Arc<Classifier>,
    of: fn(&flopgap_kernels::KernelInfo) -> Option<&str>,
) -> Column<Row> {
    let classifier = classifier.clone();
    looked_up(
        name,
        about,
        |row: &Row| Some(row.name.clone()),
        move |name| Ok(of(&classifier.get(&name)).map(Arc::from)),
    )
}

fn identity(classifier: &Arc<Classifier>) -> Vec<Column<Row>> {
    let size = |sizes: Option<[u64; 3]>, at: usize| sizes.map(|sizes| sizes[at]);
    vec![
        maybe_count("id", "ncu's number of the launch; absent in a summary.", |row: &Row| row.id),
        text("name", "The kernel's name as the report has it.", |row: &Row| Some(&row.name)),
        classified(
            "display_name",
            "A name that fits in a table, the same for every spelling of one kernel.",
            classifier,
            |info| Some(&info.short),
        ),
        classified(
            "class",
            "The kind of work, from the name: `matmul`, `elementwise`, `copy`...",
            classifier,
            |info| Some(info.class.as_str()),
        ),
        classified(
            "precision",
            "The number format it computes in, where the name has it.",
            classifier,
            |info| Some(info.precision?.as_str()),
        ),
        text("nvtx", "The ranges around the launch, outermost first: `step/forward`.", |row: &Row| {
            row.nvtx.as_deref()
        }),
        maybe_count("grid_x", "Blocks in x.", move |row: &Row| size(row.grid, 0)),
        maybe_count("grid_y", "Blocks in y.", move |row: &Row| size(row.grid, 1)),
        maybe_count("grid_z", "Blocks in z.", move |row: &Row| size(row.grid, 2)),
        maybe_count("block_x", "Threads of a block in x.", move |row: &Row| size(row.block, 0)),
        maybe_count("block_y", "Threads of a block in y.", move |row: &Row| size(row.block, 1)),
        maybe_count("block_z", "Threads of a block in z.", move |row: &Row| size(row.block, 2)),
        count(
            "invocations",
            "How many launches the row stands for: 1, or more in a summary.",
            |row: &Row| row.invocations,
        ),
        maybe_count("device", "The CUDA device.", |row: &Row| row.device),
        maybe_count("compute_capability_major", "The compute capability, before the point.", |row: &Row| {
            Some(row.compute_capability?.0.into())
        }),
        maybe_count("compute_capability_minor", "The compute capability, behind the point.", |row: &Row| {
            Some(row.compute_capability?.1.into())
        }),
        maybe_count("context", "The CUDA context.", |row: &Row| row.context),
        maybe_count("stream", "The stream.", |row: &Row| row.stream),
        maybe_count("process_id", "The process that launched it.", |row: &Row| row.process_id),
        text("process_name", "That process's program.", |row: &Row| row.process_name.as_deref()),
        text("host", "The host it ran on.", |row: &Row| row.host.as_deref()),
        count("segment", "Which table of the file: one of concatenated runs has several.", |row: &Row| {
            row.segment
        }),
        count(
            "position",
            "Where it begins: the line of the file (CSV) or the number of the result.",
            |row: &Row| row.position,
        ),
    ]
}

fn derived() -> Vec<Column<Row>> {
    vec![
        maybe_count(
            "flops",
            "Executed FLOPs of all precisions; absent where the counters that the report has would give too few.",
            |row: &Row| Some(row.flops.work().ok()?.value),
        ),
        maybe_count(
            "fp64_flops",
            "Executed FLOPs in double precision, not on the tensor cores.",
            |row: &Row| counted(&row.flops, OperationType::Fp64),
        ),
        maybe_count(
            "fp32_flops",
            "Executed FLOPs in single precision, not on the tensor cores.",
            |row: &Row| counted(&row.flops, OperationType::Fp32),
        ),
        maybe_count(
            "fp16_flops",
            "Executed FLOPs in half precision, not on the tensor cores.",
            |row: &Row| counted(&row.flops, OperationType::Fp16),
        ),
        maybe_count("tensor_flops", "Executed FLOPs on the tensor cores, of all types.", |row: &Row| {
            tensor(&row.flops)
        }),
        maybe_count("time_ns", "Time on the GPU.", |row: &Row| Some(row.flops.duration_ns?.value)),
        maybe_count("dram_bytes", "Read from and written to device memory.", |row: &Row| {
            Some(row.flops.dram_bytes?.value)
        }),
        maybe_count("dram_read_bytes", "Read from device memory.", |row: &Row| {
            Some(row.flops.dram_read_bytes?.value)
        }),
        maybe_count("dram_write_bytes", "Written to device memory.", |row: &Row| {
            Some(row.flops.dram_write_bytes?.value)
        }),
        maybe_count("l2_bytes", "Through the L2 cache.", |row: &Row| Some(row.flops.l2_bytes?.value)),
        maybe_count("l1_bytes", "Through the L1 cache.", |row: &Row| Some(row.flops.l1_bytes?.value)),
    ]
}

/// The columns of a report's launches: identity, values computed from metrics, and each metric.
pub(super) fn columns(metrics: &Metrics, classifier: &Arc<Classifier>) -> Vec<Column<Row>> {
    let mut columns = identity(classifier);
    columns.extend(derived());
    columns.extend(metrics.columns.iter().enumerate().map(|(at, metric)| {
        let about = match &*metric.unit {
            "" => format!("ncu's `{}`.", metric.metric),
            unit => format!("ncu's `{}`, in {unit}.", metric.metric),
        };
        let name = metric.name.clone();
        let column = match metric.holds {
            Holds::Count => maybe_count(name, &about, move |row: &Row| match row.values[at] {
                Cell::Count(count) => Some(count),
                _ => None,
            }),
            Holds::Float => maybe_float(name, &about, move |row: &Row| match row.values[at] {
                Cell::Float(value) => Some(value),
                _ => None,
            }),
            Holds::Text => text(name, &about, move |row: &Row| match &row.values[at] {
                Cell::Text(text) => Some(text),
                _ => None,
            }),
        };
        column.noting("metric", &*metric.metric).noting("unit", &*metric.unit)
    }));
    columns
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A metric of the same name would be a duplicate column.
    #[test]
    fn the_names_of_own_columns_are_listed() {
        let own: Vec<String> = columns(&Metrics::default(), &Arc::new(Classifier::new()))
            .iter()
            .map(|column| column.field.name().clone())
            .collect();
        let mut listed = super::super::columns::OWN.to_vec();
        listed.sort_unstable();
        let mut own: Vec<&str> = own.iter().map(String::as_str).collect();
        own.sort_unstable();
        assert_eq!(own, listed);
    }
}

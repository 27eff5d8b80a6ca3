//! Tables of `torch.profiler` traces.

use std::path::Path;
use std::sync::Arc;

use flopgap_kernels::Classifier;
use flopgap_kineto::{GpuKind, GpuWork, Operator, Source, Trace};

use crate::column::{Column, count, int, looked_up, maybe_count, maybe_int, text};
use crate::source::Named;
use crate::table::Rows;
use crate::{Error, Table};

/// A trace that has been read.
#[derive(Debug)]
pub(crate) struct Kineto {
    pub(crate) trace: Arc<Trace>,
    classifier: Arc<Classifier>,
}

/// An operator of a trace.
struct Called(Arc<Trace>, usize);

/// A kernel, copy or set of a trace.
struct Work(Arc<Trace>, usize);

impl Called {
    fn it(&self) -> &Operator {
        &self.0.operators[self.1]
    }
}

impl Work {
    fn it(&self) -> &GpuWork {
        &self.0.gpu_work[self.1]
    }
}

const OPERATORS: Named =
    Named { name: "operators", about: "Calls of operators of the framework, with its own FLOPs." };
const KERNELS: Named = Named { name: "kernels", about: "Kernels that ran on a GPU." };
const COPIES: Named = Named { name: "copies", about: "Memory copies and sets." };

impl Kineto {
    pub(crate) fn open(path: &Path) -> Result<Kineto, Error> {
        let trace = Trace::options().without_shapes(true).open(path)?;
        Ok(Kineto { trace: Arc::new(trace), classifier: Arc::new(Classifier::new()) })
    }

    pub(crate) fn tables(&self) -> Vec<Named> {
        let has =
            |kernels: bool| self.trace.gpu_work.iter().any(|work| (work.kind == GpuKind::Kernel) == kernels);
        let mut tables = Vec::new();
        tables.extend((!self.trace.operators.is_empty()).then_some(OPERATORS));
        tables.extend(has(true).then_some(KERNELS));
        tables.extend(has(false).then_some(COPIES));
        tables
    }

    #[cfg(feature = "parquet")]
    pub(crate) fn provenance(&self) -> crate::parquet::Provenance {
        crate::parquet::Provenance {
            profiler: Some("torch.profiler".to_owned()),
            gpu: self.trace.device.clone(),
            ..Default::default()
        }
    }

    pub(crate) fn table(&self, path: &Arc<Path>, name: &str) -> Option<Table> {
        let it = self.tables().into_iter().find(|table| table.name == name)?;
        let it = (it.name, it.about);
        let trace = self.trace.clone();
        Some(match it.0 {
            "operators" => Table::new(path, it, operators(), move || {
                let trace = trace.clone();
                Ok(Box::new((0..trace.operators.len()).map(move |at| Ok(Called(trace.clone(), at))))
                    as Rows<Called>)
            }),
            "kernels" => Table::new(path, it, kernels(&self.classifier), move || Ok(work(&trace, true))),
            _ => Table::new(path, it, copies(), move || Ok(work(&trace, false))),
        })
    }
}

/// Kernels, or everything else.
fn work(trace: &Arc<Trace>, kernels: bool) -> Rows<Work> {
    let trace = trace.clone();
    let wanted = move |at: usize| {
        let is_kernel = trace.gpu_work.get(at)?.kind == GpuKind::Kernel;
        Some((is_kernel == kernels).then(|| Ok(Work(trace.clone(), at))))
    };
    Box::new((0..).map_while(wanted).flatten())
}

fn operators() -> Vec<Column<Called>> {
    vec![
        int("start_ns", "When it began on the host, on the trace's own clock.", |called: &Called| {
            called.it().start
        }),
        count("duration_ns", "How long the host was in it.", |called: &Called| called.it().duration),
        text("name", "The operator: `aten::mm`.", |called: &Called| Some(&called.it().name)),
        text(
            "part",
            "The part of the training step: `forward`, `backward` or `optimizer`.",
            |called: &Called| Some(called.it().part.name()),
        ),
        maybe_count(
            "flops",
            "The FLOPs that the framework assigns to it; absent where it has no formula or lacks a shape.",
            |called: &Called| Some(called.it().flops?.0),
        ),
        text(
            "flops_source",
            "Where these come from: `recorded` in the trace, or the framework's `formula` over the shapes.",
            |called: &Called| {
                Some(match called.it().flops?.1 {
                    Source::Recorded => "recorded",
                    Source::Formula => "formula",
                })
            },
        ),
    ]
}

fn times() -> [Column<Work>; 2] {
    [
        int("start_ns", "When it began on the GPU, on the trace's own clock.", |work: &Work| work.it().start),
        count("duration_ns", "How long it ran.", |work: &Work| work.it().duration),
    ]
}

fn place() -> [Column<Work>; 4] {
    [
        maybe_int("device", "The GPU.", |work: &Work| work.it().device),
        maybe_int("context", "The CUDA context.", |work: &Work| work.it().context),
        maybe_int("stream", "The stream.", |work: &Work| work.it().stream),
        maybe_int("correlation", "Links it to the call that launched it.", |work: &Work| {
            work.it().correlation
        }),
    ]
}

fn kernels(classifier: &Arc<Classifier>) -> Vec<Column<Work>> {
    let class = classifier.clone();
    let display = classifier.clone();
    let mut columns: Vec<Column<Work>> = times().into();
    columns.extend([
        text("name", "The kernel's name, demangled.", |work: &Work| Some(&work.it().name)),
        looked_up(
            "display_name",
            "A name that fits in a table, the same for every spelling of one kernel.",
            |work: &Work| Some(work.it().name.clone()),
            move |name| Ok(Some(display.get(&name).short.as_str().into())),
        ),
        looked_up(
            "class",
            "The kind of work, from the name: `matmul`, `elementwise`, `copy`...",
            |work: &Work| Some(work.it().name.clone()),
            move |name| Ok(Some(class.get(&name).class.as_str().into())),
        ),
    ]);
    columns.extend(place());
    let of = |sizes: Option<[u64; 3]>, at: usize| sizes.map(|sizes| sizes[at]);
    columns.extend([
        maybe_count("grid_x", "Blocks in x.", move |work: &Work| of(work.it().grid, 0)),
        maybe_count("grid_y", "Blocks in y.", move |work: &Work| of(work.it().grid, 1)),
        maybe_count("grid_z", "Blocks in z.", move |work: &Work| of(work.it().grid, 2)),
        maybe_count("block_x", "Threads of a block in x.", move |work: &Work| of(work.it().block, 0)),
        maybe_count("block_y", "Threads of a block in y.", move |work: &Work| of(work.it().block, 1)),
        maybe_count("block_z", "Threads of a block in z.", move |work: &Work| of(work.it().block, 2)),
        maybe_count("registers", "Registers of a thread.", |work: &Work| work.it().registers),
        maybe_count("shared_bytes", "Shared memory of a block.", |work: &Work| work.it().shared_bytes),
    ]);
    columns
}

fn copies() -> Vec<Column<Work>> {
    let mut columns: Vec<Column<Work>> = times().into();
    columns.extend([
        text("name", "What was copied or set: `Memcpy HtoD (Pageable -> Device)`.", |work: &Work| {
            Some(&work.it().name)
        }),
        text("kind", "`copy` or `memset`.", |work: &Work| {
            Some(if work.it().kind == GpuKind::Memset { "memset" } else { "copy" })
        }),
        maybe_count("bytes", "How much was copied or set.", |work: &Work| work.it().bytes),
    ]);
    columns.extend(place());
    columns
}

//! Answers of `flopgap-timings` as tables: what its lists say, one a row.
//!
//! ```
//! use flopgap_kernels::Classifier;
//! use flopgap_table::{Source, answers};
//! use flopgap_timings::{Scope, kernels::kernels};
//!
//! # let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/nsys/small_forward.sqlite.zst");
//! let source = Source::open(path)?;
//! let trace = source.trace().expect("an export of nsys");
//! let found = kernels(trace.recording(), &Scope::all(), &Classifier::new())?;
//! let table = answers::kernels(source.path(), &found);
//! assert_eq!(table.read()?.map(|batch| batch.unwrap().num_rows()).sum::<usize>(), found.kernels.len());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use std::path::Path;

use flopgap_timings::Times;
use flopgap_timings::compare::{Comparison, Row};
use flopgap_timings::diff::{Diff, KernelChange, RangeChange, Side};
use flopgap_timings::kernels::{KernelTimes, Kernels};
use flopgap_timings::passes::{GpuTimes, Pass, Passes};

use crate::Table;
use crate::column::{Column, count, float, maybe_count, maybe_float, maybe_int, text};
use crate::held::{Held, table};

/// Sums over a trace are wider than 64 bits, but no real recording exceeds 64.
fn whole(sum: i128) -> Option<i64> {
    i64::try_from(sum).ok()
}

/// The kernels of a trace or its ranges, largest total first.
pub fn kernels(path: &Path, found: &Kernels) -> Table {
    type Of = Held<KernelTimes>;
    let columns: Vec<Column<Of>> = vec![
        text("name", "The kernel's name, demangled.", |kernel: &Of| Some(&kernel.name)),
        text("display_name", "A name that fits in a table.", |kernel: &Of| Some(&kernel.short)),
        text("class", "The kind of work, from the name.", |kernel: &Of| Some(kernel.class.as_str())),
        count("calls", "How often it ran.", |kernel: &Of| kernel.times.count),
        maybe_int("total_ns", "The sum of its durations.", |kernel: &Of| whole(kernel.times.total_ns)),
        float("mean_ns", "The mean of its durations.", |kernel: &Of| kernel.times.mean_ns),
        float("median_ns", "The middle of its durations.", |kernel: &Of| kernel.times.median_ns),
        maybe_int("min_ns", "The smallest duration.", |kernel: &Of| Some(kernel.times.min_ns)),
        maybe_int("max_ns", "The largest duration.", |kernel: &Of| Some(kernel.times.max_ns)),
        float("stddev_ns", "The sample standard deviation.", |kernel: &Of| kernel.times.stddev_ns),
        float("share", "The share of the time of all kernels: 1 is all.", |kernel: &Of| kernel.share),
    ];
    table(path, ("kernels", "Kernels by the time that they take."), columns, found.kernels.clone())
}

/// The mean GPU time of a pass.
fn on_gpu(name: &'static str, about: &str, of: fn(&GpuTimes) -> Times) -> Column<Held<Pass>> {
    maybe_float(name, about, move |pass: &Held<Pass>| Some(of(pass.gpu.as_ref()?).mean_ns))
}

/// The steps and passes of a trace.
pub fn passes(path: &Path, found: &Passes) -> Table {
    type Of = Held<Pass>;
    let columns: Vec<Column<Of>> = vec![
        text("name", "The range: `forward`, or with numbers folded `step_*`.", |pass: &Of| Some(&pass.name)),
        text("kind", "What it is: `step`, `forward`, `backward`...", |pass: &Of| Some(pass.kind.as_str())),
        maybe_int("pid", "The process; absent where one alone has steps and passes.", |pass: &Of| {
            pass.process
        }),
        count("instances", "How many instances are measured.", |pass: &Of| pass.host.count),
        float(
            "host_mean_ns",
            "From the beginning to the end of the range, on the host: mean.",
            |pass: &Of| pass.host.mean_ns,
        ),
        float("host_median_ns", "The same: the middle.", |pass: &Of| pass.host.median_ns),
        maybe_float(
            "waiting_mean_ns",
            "The part of it in which its thread was blocked by calls that wait or copy.",
            |pass: &Of| Some(pass.waiting?.mean_ns),
        ),
        on_gpu(
            "gpu_projected_mean_ns",
            "From its first operation's beginning to its last one's end, on the GPU.",
            |gpu| gpu.projected,
        ),
        on_gpu("gpu_busy_mean_ns", "The part of it in which at least one operation ran.", |gpu| gpu.busy),
        on_gpu("gpu_gaps_mean_ns", "The rest of it, between its operations.", |gpu| gpu.gaps),
        on_gpu(
            "gpu_idle_mean_ns",
            "The part of its time on the host in which the GPU ran nothing at all.",
            |gpu| gpu.idle,
        ),
        maybe_float("kernels_mean", "Kernels of one instance.", |pass: &Of| {
            Some(pass.gpu.as_ref()?.kernels_mean)
        }),
    ];
    table(path, ("passes", "Steps and passes: means of their instances."), columns, found.passes.clone())
}

/// Two traces by kind of work.
pub fn comparison(path: &Path, found: &Comparison) -> Table {
    type Of = Held<Row>;
    let columns: Vec<Column<Of>> = vec![
        text("work", "The kind of work: a class of kernels, or `memcpy` and `memset`.", |row: &Of| {
            Some(row.work.as_str())
        }),
        float("calls_a", "Calls in A, of one instance where ranges are compared.", |row: &Of| row.calls[0]),
        float("calls_b", "Calls in B.", |row: &Of| row.calls[1]),
        float("time_a_ns", "Time in A, of one instance.", |row: &Of| row.total_ns[0]),
        float("time_b_ns", "Time in B.", |row: &Of| row.total_ns[1]),
        float("share_a", "Share of the GPU's work in A: 1 is all.", |row: &Of| row.share[0]),
        float("share_b", "Share in B.", |row: &Of| row.share[1]),
    ];
    table(path, ("comparison", "GPU time of two traces by kind of work."), columns, found.rows.clone())
}

/// The kernels of two traces, the largest change of time first.
pub fn kernel_changes(path: &Path, found: &Diff) -> Table {
    type Of = Held<KernelChange>;
    let each = |side: Option<Side>| side.map(|side| side.each_ns);
    let calls = |side: Option<Side>| side.map(|side| side.each_calls);
    let columns: Vec<Column<Of>> = vec![
        text(
            "name",
            "The kernel's name with its numbers folded, or that of copies and sets.",
            |kernel: &Of| Some(&kernel.name),
        ),
        text("display_name", "A name that fits in a table.", |kernel: &Of| Some(&kernel.short)),
        text("class", "The kind of work.", |kernel: &Of| Some(kernel.class.as_str())),
        maybe_count("place", "Which of the places of the answer, from 0.", |kernel: &Of| {
            u64::try_from(kernel.place).ok()
        }),
        maybe_float(
            "calls_before",
            "Launches in one instance, before; absent where there were none.",
            move |kernel: &Of| calls(kernel.time.before),
        ),
        maybe_float("calls_after", "The same after.", move |kernel: &Of| calls(kernel.time.after)),
        maybe_float("time_before_ns", "Time in one instance, before.", move |kernel: &Of| {
            each(kernel.time.before)
        }),
        maybe_float("time_after_ns", "The same after.", move |kernel: &Of| each(kernel.time.after)),
        float("difference_ns", "By how much it is slower in one instance.", |kernel: &Of| {
            kernel.time.difference_ns()
        }),
        maybe_float(
            "change",
            "By how much it is slower, as a fraction; absent for what is new or gone.",
            |kernel: &Of| kernel.time.fraction(),
        ),
        maybe_float("change_per_call", "By how much one launch is slower, as a fraction.", |kernel: &Of| {
            kernel.time.per_call()
        }),
    ];
    table(
        path,
        ("kernels", "Kernels before and after, the largest change first."),
        columns,
        found.kernels.clone(),
    )
}

/// The ranges of two traces on the host, the largest change first.
pub fn range_changes(path: &Path, found: &Diff) -> Table {
    type Of = Held<RangeChange>;
    let mean = |side: Option<Side>| side.map(|side| side.mean_ns);
    let calls = |side: Option<Side>| side.map(|side| side.calls);
    let columns: Vec<Column<Of>> = vec![
        text("name", "The range with its numbers folded.", |range: &Of| Some(&range.name)),
        maybe_count(
            "instances_before",
            "Instances before; absent where there were none.",
            move |range: &Of| calls(range.wall.before),
        ),
        maybe_count("instances_after", "The same after.", move |range: &Of| calls(range.wall.after)),
        maybe_float("host_mean_before_ns", "Time on the host before: mean.", move |range: &Of| {
            mean(range.wall.before)
        }),
        maybe_float("host_mean_after_ns", "The same after.", move |range: &Of| mean(range.wall.after)),
        float("difference_ns", "By how much an instance is slower on the host.", |range: &Of| {
            range.wall.difference_ns()
        }),
        maybe_float(
            "change",
            "By how much it is slower, as a fraction; absent for what is new or gone.",
            |range: &Of| range.wall.fraction(),
        ),
    ];
    table(
        path,
        ("ranges", "Ranges before and after, the largest change first."),
        columns,
        found.ranges.clone(),
    )
}

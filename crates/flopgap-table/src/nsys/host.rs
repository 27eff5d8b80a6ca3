//! Activity and annotations of the host.

use flopgap_nsys::{
    Annotation, ApiCall, CpuPageFault, OsCall, OsClass, ProcessId, ProfilerOverhead, ThreadId,
};

use super::{Nsys, times};
use crate::column::{Column, int, maybe_int, text};

pub(super) fn ranges() -> Vec<Column<Annotation>> {
    vec![
        int("id", "The row in the export, nsys's `RangeId`.", |range: &Annotation| range.row.into()),
        int("start_ns", "When it began, in nanoseconds since the recording began.", |range: &Annotation| {
            range.start
        }),
        maybe_int(
            "end_ns",
            "When it ended; absent for a mark, and for a range that was open at the end of the recording.",
            |range: &Annotation| range.end,
        ),
        maybe_int("duration_ns", "From start to end, on the host.", |range: &Annotation| {
            Some(range.end?.saturating_sub(range.start))
        }),
        text("name", "Its text.", |range: &Annotation| Some(&range.text)),
        text("domain", "The name of its domain; absent in the default domain.", |range: &Annotation| {
            range.domain.as_deref()
        }),
        text("style", "`PushPop`, `StartEnd` or `Mark`.", |range: &Annotation| Some(range.kind.as_str())),
        maybe_int("category", "The number of its category within the domain.", |range: &Annotation| {
            range.category
        }),
        maybe_int("pid", "The process.", |range: &Annotation| range.thread.map(ThreadId::pid)),
        maybe_int("tid", "The thread.", |range: &Annotation| range.thread.map(ThreadId::tid)),
        maybe_int("end_tid", "The thread that ended it, when that is another.", |range: &Annotation| {
            range.end_thread.map(ThreadId::tid)
        }),
    ]
}

pub(super) fn api_calls(nsys: &Nsys) -> Vec<Column<ApiCall>> {
    let mut columns: Vec<Column<ApiCall>> = times(|call: &ApiCall| call.start, |call| call.end).into();
    columns.extend([
        nsys.string(
            "name",
            "The function, with CUDA's version suffix.",
            |call: &ApiCall| call.name,
            |name| Some(name.to_owned()),
        ),
        maybe_int("pid", "The process.", |call: &ApiCall| call.thread.map(ThreadId::pid)),
        maybe_int("tid", "The calling thread.", |call: &ApiCall| call.thread.map(ThreadId::tid)),
        maybe_int(
            "correlation",
            "Ties it to the GPU work that it started, within its process.",
            |call: &ApiCall| call.correlation.map(i64::from),
        ),
        int(
            "api",
            "What recorded it: 0 runtime, 1 driver, 67 a second row of the same call with its backtrace.",
            |call: &ApiCall| call.class.code(),
        ),
        maybe_int("result", "What it returned: 0 is success.", |call: &ApiCall| call.result),
    ]);
    columns
}

pub(super) fn os_calls(nsys: &Nsys) -> Vec<Column<OsCall>> {
    let mut columns: Vec<Column<OsCall>> = times(|call: &OsCall| call.start, |call| call.end).into();
    columns.extend([
        nsys.string("name", "The function.", |call: &OsCall| call.name, |name| Some(name.to_owned())),
        maybe_int("pid", "The process.", |call: &OsCall| call.thread.map(ThreadId::pid)),
        maybe_int("tid", "The calling thread.", |call: &OsCall| call.thread.map(ThreadId::tid)),
        maybe_int(
            "class",
            "What it is: 27 a call, other numbers a state of the thread such as waiting.",
            |call: &OsCall| call.class.map(OsClass::code),
        ),
        maybe_int("result", "What it returned.", |call: &OsCall| call.result),
        maybe_int("nesting", "In how many traced calls it lies.", |call: &OsCall| call.nesting),
    ]);
    columns
}

pub(super) fn profiler_overheads(nsys: &Nsys) -> Vec<Column<ProfilerOverhead>> {
    let mut columns: Vec<Column<ProfilerOverhead>> =
        times(|work: &ProfilerOverhead| work.start, |work| work.end).into();
    columns.extend([
        nsys.string("name", "What it is.", |work: &ProfilerOverhead| work.name, |name| Some(name.to_owned())),
        maybe_int("pid", "The process.", |work: &ProfilerOverhead| work.thread.map(ThreadId::pid)),
        maybe_int("tid", "The thread.", |work: &ProfilerOverhead| work.thread.map(ThreadId::tid)),
    ]);
    columns
}

pub(super) fn cpu_faults(nsys: &Nsys) -> Vec<Column<CpuPageFault>> {
    vec![
        int("time_ns", "When, in nanoseconds since the recording began.", |fault: &CpuPageFault| fault.time),
        maybe_int("pid", "The process.", |fault: &CpuPageFault| fault.process.map(ProcessId::pid)),
        int("address", "The virtual address of the page.", |fault: &CpuPageFault| fault.address),
        nsys.string(
            "instruction",
            "The instruction (function or address) that touched it.",
            |fault: &CpuPageFault| fault.instruction,
            |name| Some(name.to_owned()),
        ),
        nsys.string(
            "module",
            "The module of that instruction.",
            |fault: &CpuPageFault| fault.module,
            |name| Some(name.to_owned()),
        ),
    ]
}

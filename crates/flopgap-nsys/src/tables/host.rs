//! What the host called.

use super::TableSpec;
use super::codes::{ApiClass, OsClass};
use crate::row::Row;
use crate::rows::{Decoded, Select};
use crate::{CorrelationId, Error, ProcessId, RowsOf, StringId, ThreadId, Trace};

pub(crate) const RUNTIME: TableSpec = TableSpec::new("CUPTI_ACTIVITY_KIND_RUNTIME", "CUDA API data");
pub(crate) const OSRT: TableSpec = TableSpec::new("OSRT_API", "OS runtime calls");
pub(crate) const OVERHEAD: TableSpec = TableSpec::new("PROFILER_OVERHEAD", "overhead of the profiler");

/// A call of the CUDA runtime or driver API.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ApiCall {
    /// When it began.
    pub start: i64,
    /// When it returned.
    pub end: i64,
    /// What recorded it: the runtime API, the driver API, or nsys for a second row of the same call
    /// with its backtrace.
    pub class: ApiClass,
    /// The calling thread.
    pub thread: Option<ThreadId>,
    /// Ties it to the GPU work that it started, within its process.
    pub correlation: Option<CorrelationId>,
    /// Its name, with CUDA's version suffix.
    pub name: StringId,
    /// What it returned: 0 is success.
    pub result: Option<i64>,
}

/// A call of the operating system's libraries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct OsCall {
    /// When it began.
    pub start: i64,
    /// When it returned.
    pub end: i64,
    /// What it is: a call, or a state of the thread such as waiting.
    pub class: Option<OsClass>,
    /// The calling thread.
    pub thread: Option<ThreadId>,
    /// Its name.
    pub name: StringId,
    /// What it returned.
    pub result: Option<i64>,
    /// In how many traced calls it lies.
    pub nesting: Option<i64>,
}

/// Work of the profiler itself on a thread of the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ProfilerOverhead {
    /// When it began.
    pub start: i64,
    /// When it was done.
    pub end: i64,
    /// The thread.
    pub thread: Option<ThreadId>,
    /// What it is.
    pub name: StringId,
}

/// What ties a call to the GPU work that it launched.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CallId {
    pub(crate) has_backtrace: bool,
    pub(crate) thread: Option<ThreadId>,
    pub(crate) correlation: Option<CorrelationId>,
}

/// How long a call took.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NamedCall {
    pub(crate) duration: i64,
    pub(crate) name: StringId,
    pub(crate) has_backtrace: bool,
}

/// A call with its time, whatever its name.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TimedCall {
    pub(crate) start: i64,
    pub(crate) end: i64,
    pub(crate) id: CallId,
}

impl CallId {
    /// The process and the correlation id, if the row has both.
    pub(crate) fn of_process(self) -> Option<(ProcessId, CorrelationId)> {
        Some((self.thread?.process(), self.correlation?))
    }
}

impl ApiCall {
    pub(crate) fn id(&self) -> CallId {
        let ApiCall { thread, correlation, .. } = *self;
        CallId { has_backtrace: self.has_backtrace(), thread, correlation }
    }

    /// Whether the row adds a backtrace to a call, which mostly has a row of its own.
    pub fn has_backtrace(&self) -> bool {
        self.class == ApiClass::Backtrace
    }

    pub(crate) fn duration(&self) -> i64 {
        self.end.saturating_sub(self.start)
    }
}

impl OsCall {
    /// Whether it is a call, not a state of the thread.
    pub fn is_call(&self) -> bool {
        self.class.is_none_or(|class| class == OsClass::Call)
    }
}

fn call_id(select: &mut Select<'_>) -> impl Fn(&Row<'_>) -> CallId + Copy + Send + use<> {
    let (class, thread) = (select.want("eventClass"), select.want("globalTid"));
    let correlation = select.want("correlationId");
    move |row| CallId {
        has_backtrace: row.int(class).map(ApiClass::of) == Some(ApiClass::Backtrace),
        thread: row.int(thread).map(ThreadId),
        correlation: row.int(correlation).map(CorrelationId),
    }
}

/// Every call of the CUDA APIs.
pub(crate) fn api_calls(trace: &Trace) -> Result<impl Decoded<ApiCall> + use<>, Error> {
    let mut select = trace.select(&RUNTIME);
    let (start, end) = (select.need("start"), select.need("end"));
    let (class, thread) = (select.want("eventClass"), select.want("globalTid"));
    let correlation = select.want("correlationId");
    let (name, result) = (select.need("nameId"), select.want("returnValue"));
    select.rows(move |row| {
        Some(ApiCall {
            start: row.int(start)?,
            end: row.int(end)?,
            class: row.int(class).map_or(ApiClass::Runtime, ApiClass::of),
            thread: row.int(thread).map(ThreadId),
            correlation: row.int(correlation).map(CorrelationId),
            name: StringId(row.int(name)?),
            result: row.int(result),
        })
    })
}

/// When every call of the CUDA APIs was made, with the id of its name.
pub(crate) fn launch_calls(trace: &Trace) -> Result<impl Decoded<(TimedCall, StringId)> + use<>, Error> {
    let mut select = trace.select(&RUNTIME);
    let (start, end, id) = (select.need("start"), select.need("end"), call_id(&mut select));
    let name = select.need("nameId");
    select.rows(move |row| {
        let call = TimedCall { start: row.int(start)?, end: row.int(end)?, id: id(row) };
        Some((call, StringId(row.int(name)?)))
    })
}

/// How long every call of the CUDA APIs took.
pub(crate) fn named_calls(trace: &Trace) -> Result<impl Decoded<NamedCall> + use<>, Error> {
    let mut select = trace.select(&RUNTIME);
    let (start, end) = (select.need("start"), select.need("end"));
    let (name, class) = (select.need("nameId"), select.want("eventClass"));
    select.rows(move |row| {
        let duration = row.int(end)?.saturating_sub(row.int(start)?);
        let has_backtrace = row.int(class).map(ApiClass::of) == Some(ApiClass::Backtrace);
        Some(NamedCall { duration, name: StringId(row.int(name)?), has_backtrace })
    })
}

/// What ties every call of the CUDA APIs to its work, and the row of the call.
pub(crate) fn call_ids(trace: &Trace) -> Result<impl Decoded<(CallId, i64)> + use<>, Error> {
    let mut select = trace.select(&RUNTIME);
    let id = call_id(&mut select);
    select.rows(move |row| Some((id(row), row.id())))
}

/// When every call of the CUDA APIs was made.
pub(crate) fn timed_calls(trace: &Trace) -> Result<impl Decoded<TimedCall> + use<>, Error> {
    let mut select = trace.select(&RUNTIME);
    let (start, end, id) = (select.need("start"), select.need("end"), call_id(&mut select));
    select.rows(move |row| Some(TimedCall { start: row.int(start)?, end: row.int(end)?, id: id(row) }))
}

/// Every call of the operating system's libraries.
pub(crate) fn os_calls(trace: &Trace) -> Result<impl Decoded<OsCall> + use<>, Error> {
    let mut select = trace.select(&OSRT);
    let (start, end) = (select.need("start"), select.need("end"));
    let (class, thread, name) = (select.want("eventClass"), select.want("globalTid"), select.need("nameId"));
    let (result, nesting) = (select.want("returnValue"), select.want("nestingLevel"));
    select.rows(move |row| {
        Some(OsCall {
            start: row.int(start)?,
            end: row.int(end)?,
            class: row.int(class).map(OsClass::of),
            thread: row.int(thread).map(ThreadId),
            name: StringId(row.int(name)?),
            result: row.int(result),
            nesting: row.int(nesting),
        })
    })
}

impl Trace {
    /// Every call of the CUDA APIs, in the order of the file, which since 2025.5 is not that of
    /// time.
    ///
    /// # Errors
    /// As [`Trace::kernels`].
    pub fn api_calls(&self) -> Result<RowsOf<ApiCall>, Error> {
        api_calls(self).map(|rows| RowsOf::new(self, rows))
    }

    /// Every call of the operating system's libraries, in the order of the file.
    ///
    /// # Errors
    /// As [`Trace::kernels`].
    pub fn os_calls(&self) -> Result<RowsOf<OsCall>, Error> {
        os_calls(self).map(|rows| RowsOf::new(self, rows))
    }

    /// All work of the profiler itself, in the order of the file.
    ///
    /// # Errors
    /// As [`Trace::kernels`].
    pub fn profiler_overheads(&self) -> Result<RowsOf<ProfilerOverhead>, Error> {
        let mut select = self.select(&OVERHEAD);
        let (start, end) = (select.need("start"), select.need("end"));
        let (thread, name) = (select.want("globalTid"), select.need("nameId"));
        let rows = select.rows(move |row| {
            let (start, end, name) = (row.int(start)?, row.int(end)?, StringId(row.int(name)?));
            Some(ProfilerOverhead { start, end, thread: row.int(thread).map(ThreadId), name })
        })?;
        Ok(RowsOf::new(self, rows))
    }
}

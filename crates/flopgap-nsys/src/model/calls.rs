//! What the host called.

use crate::row::Row;
use crate::tables::{Column, OSRT, OVERHEAD, RUNTIME, need, want};
use crate::{Error, GlobalId, RowsOf, Trace};

/// A call of the CUDA runtime or driver API.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ApiCall {
    /// When it began.
    pub start: i64,
    /// When it returned.
    pub end: i64,
    /// What recorded it: 0 runtime API, 1 driver API, 67 a second row of the same call with its backtrace.
    pub class: i64,
    /// The calling thread.
    pub thread: Option<GlobalId>,
    /// Ties it to the GPU work that it started, within its process.
    pub correlation: Option<i64>,
    /// Its name, with CUDA's version suffix.
    pub name: i64,
    /// What it returned: 0 is success.
    pub result: Option<i64>,
}

/// A call of the operating system's libraries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OsCall {
    /// When it began.
    pub start: i64,
    /// When it returned.
    pub end: i64,
    /// What it is: 27 a call, other numbers a state of the thread such as waiting.
    pub class: Option<i64>,
    /// The calling thread.
    pub thread: Option<GlobalId>,
    /// Its name, for [`Trace::string`].
    pub name: i64,
    /// What it returned.
    pub result: Option<i64>,
    /// In how many traced calls it lies.
    pub nesting: Option<i64>,
}

/// Work of the profiler itself on a thread of the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProfilerOverhead {
    /// When it began.
    pub start: i64,
    /// When it was done.
    pub end: i64,
    /// The thread.
    pub thread: Option<GlobalId>,
    /// What it is, for [`Trace::string`].
    pub name: i64,
}

impl ApiCall {
    /// The columns that [`ApiCall::of`] reads.
    const COLUMNS: [Column; 7] = [
        need("start"),
        need("end"),
        want("eventClass"),
        want("globalTid"),
        want("correlationId"),
        need("nameId"),
        want("returnValue"),
    ];

    fn of(row: &Row<'_>) -> Option<ApiCall> {
        Some(ApiCall {
            start: row.int(0)?,
            end: row.int(1)?,
            class: row.int(2).unwrap_or_default(),
            thread: row.int(3).map(GlobalId),
            correlation: row.int(4),
            name: row.int(5)?,
            result: row.int(6),
        })
    }
}

impl OsCall {
    /// The columns that [`OsCall::of`] reads.
    const COLUMNS: [Column; 7] = [
        need("start"),
        need("end"),
        want("eventClass"),
        want("globalTid"),
        need("nameId"),
        want("returnValue"),
        want("nestingLevel"),
    ];

    fn of(row: &Row<'_>) -> Option<OsCall> {
        Some(OsCall {
            start: row.int(0)?,
            end: row.int(1)?,
            class: row.int(2),
            thread: row.int(3).map(GlobalId),
            name: row.int(4)?,
            result: row.int(5),
            nesting: row.int(6),
        })
    }
}

impl Trace {
    /// Calls `visit` with all work of the profiler itself, in the order of the file.
    ///
    /// # Errors
    /// [`Error::NoTable`] when none was recorded.
    pub fn profiler_overheads(&self, mut visit: impl FnMut(ProfilerOverhead)) -> Result<(), Error> {
        let columns = [need("start"), need("end"), want("globalTid"), need("nameId")];
        self.scan(&OVERHEAD, &columns, |row| {
            let (start, end, name) = (row.int(0)?, row.int(1)?, row.int(3)?);
            visit(ProfilerOverhead { start, end, thread: row.int(2).map(GlobalId), name });
            Some(())
        })
    }

    /// Calls `visit` with every call of the CUDA APIs, in the order of the file, which since 2025.5 is not that of time.
    ///
    /// # Errors
    /// [`Error::NoTable`] when none were recorded.
    pub fn api_calls(&self, mut visit: impl FnMut(ApiCall)) -> Result<(), Error> {
        self.scan(&RUNTIME, &ApiCall::COLUMNS, |row| {
            visit(ApiCall::of(row)?);
            Some(())
        })
    }

    /// Every call of the CUDA APIs, in the order of the file, one when it is asked for.
    ///
    /// # Errors
    /// As [`Trace::kernel_rows`].
    pub fn api_call_rows(&self) -> Result<RowsOf<ApiCall>, Error> {
        self.rows_of(&RUNTIME, &ApiCall::COLUMNS, ApiCall::of)
    }

    /// Calls `visit` with every call of the operating system's libraries, in the order of the file.
    ///
    /// # Errors
    /// [`Error::NoTable`] when none were recorded.
    pub fn os_calls(&self, mut visit: impl FnMut(OsCall)) -> Result<(), Error> {
        self.scan(&OSRT, &OsCall::COLUMNS, |row| {
            visit(OsCall::of(row)?);
            Some(())
        })
    }

    /// Every call of the operating system's libraries, in the order of the file, one when it is asked for.
    ///
    /// # Errors
    /// As [`Trace::kernel_rows`].
    pub fn os_call_rows(&self) -> Result<RowsOf<OsCall>, Error> {
        self.rows_of(&OSRT, &OsCall::COLUMNS, OsCall::of)
    }
}

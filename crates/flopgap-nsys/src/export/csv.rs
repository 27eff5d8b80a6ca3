//! Tables as plain CSV.

use std::fmt;
use std::io::Write;
use std::str::FromStr;

use flopgap_hint::{ErrorKind, Hint};

use super::writing;
use crate::strings::Strings;
use crate::tables::gpu::{copies, kernels, memsets};
use crate::tables::graph::graph_runs;
use crate::tables::host::{api_calls, os_calls};
use crate::{Annotation, Dim3, Error, OsClass, Placement, ProcessId, ThreadId, Trace};

/// What to write as CSV.
///
/// Times are integer nanoseconds since the recording began, sizes are bytes; what was not recorded
/// is an empty field. Rows have the order of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum CsvTable {
    /// `start_ns`, `end_ns`, `pid`, `device`, `context`, `green_context`, `stream`, `correlation`,
    /// `registers`, `grid_x`, `grid_y`, `grid_z`, `block_x`, `block_y`, `block_z`,
    /// `static_shared_bytes`, `dynamic_shared_bytes`, `graph_node`, `short_name`, `name` (with
    /// template arguments).
    Kernels,
    /// `start_ns`, `end_ns`, `pid`, `device`, `context`, `green_context`, `stream`, `correlation`,
    /// `bytes`, `kind`, `source`, `destination` (the names of [`CopyKind`](crate::CopyKind) and
    /// [`MemoryKind`](crate::MemoryKind); an unknown kind is its number).
    Copies,
    /// `start_ns`, `end_ns`, `pid`, `device`, `context`, `green_context`, `stream`, `correlation`,
    /// `bytes`, `memory`.
    Sets,
    /// Launches of CUDA graphs that were traced as a whole: `start_ns`, `end_ns`, `pid`, `device`,
    /// `context`, `green_context`, `stream`, `correlation`, `graph`, `executable`.
    Graphs,
    /// `start_ns`, `end_ns`, `pid`, `tid`, `class` (0 runtime, 1 driver, 67 a row that repeats a
    /// call to add its backtrace), `correlation`, `result` (0 is success), `name` (with its version
    /// suffix).
    Api,
    /// `row`, `start_ns`, `end_ns`, `pid`, `tid`, `end_tid` (of a range that another thread ended),
    /// `style` (`PushPop`, `StartEnd` or `Mark`), `domain`, `category`, `text`.
    Nvtx,
    /// Calls of the operating system's libraries: `start_ns`, `end_ns`, `pid`, `tid`, `class` (27 a
    /// call, else a state of the thread), `result`, `nesting`, `name`.
    Os,
    /// Page faults of the CPU in unified memory: `time_ns`, `pid`, `address`, `instruction`,
    /// `module`.
    CpuFaults,
    /// Page faults of GPUs in unified memory: `start_ns`, `end_ns`, `pid`, `device`, `address`,
    /// `faults`, `access` (the names of
    /// [`AccessKind`](crate::AccessKind); an unknown kind is its number).
    GpuFaults,
    /// Work of the profiler itself: `start_ns`, `end_ns`, `pid`, `tid`, `name`.
    Overhead,
}

impl CsvTable {
    /// All tables.
    pub const ALL: [CsvTable; 10] = [
        CsvTable::Kernels,
        CsvTable::Copies,
        CsvTable::Sets,
        CsvTable::Graphs,
        CsvTable::Api,
        CsvTable::Nvtx,
        CsvTable::Os,
        CsvTable::CpuFaults,
        CsvTable::GpuFaults,
        CsvTable::Overhead,
    ];

    /// The name, as [`FromStr`] reads it.
    pub fn name(self) -> &'static str {
        match self {
            CsvTable::Kernels => "kernels",
            CsvTable::Copies => "copies",
            CsvTable::Sets => "sets",
            CsvTable::Graphs => "graphs",
            CsvTable::Api => "api",
            CsvTable::Nvtx => "nvtx",
            CsvTable::Os => "os",
            CsvTable::CpuFaults => "cpu_faults",
            CsvTable::GpuFaults => "gpu_faults",
            CsvTable::Overhead => "overhead",
        }
    }

    fn header(self) -> &'static str {
        match self {
            CsvTable::Kernels => {
                "start_ns,end_ns,pid,device,context,green_context,stream,correlation,registers,grid_x,grid_y,grid_z,\
                 block_x,block_y,block_z,static_shared_bytes,dynamic_shared_bytes,graph_node,short_name,name\n"
            }
            CsvTable::Copies => {
                "start_ns,end_ns,pid,device,context,green_context,stream,correlation,bytes,kind,source,destination\n"
            }
            CsvTable::Sets => {
                "start_ns,end_ns,pid,device,context,green_context,stream,correlation,bytes,memory\n"
            }
            CsvTable::Graphs => {
                "start_ns,end_ns,pid,device,context,green_context,stream,correlation,graph,executable\n"
            }
            CsvTable::Api => "start_ns,end_ns,pid,tid,class,correlation,result,name\n",
            CsvTable::Nvtx => "row,start_ns,end_ns,pid,tid,end_tid,style,domain,category,text\n",
            CsvTable::Os => "start_ns,end_ns,pid,tid,class,result,nesting,name\n",
            CsvTable::CpuFaults => "time_ns,pid,address,instruction,module\n",
            CsvTable::GpuFaults => "start_ns,end_ns,pid,device,address,faults,access\n",
            CsvTable::Overhead => "start_ns,end_ns,pid,tid,name\n",
        }
    }
}

impl fmt::Display for CsvTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A name of no [`CsvTable`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown table `{0}`: there are {names}", names = CsvTable::ALL.map(CsvTable::name).join(", "))]
pub struct UnknownTable(String);

impl Hint for UnknownTable {
    fn kind(&self) -> ErrorKind {
        ErrorKind::Usage
    }
}

impl FromStr for CsvTable {
    type Err = UnknownTable;

    fn from_str(name: &str) -> Result<CsvTable, UnknownTable> {
        let found = CsvTable::ALL.into_iter().find(|table| table.name() == name);
        found.ok_or_else(|| UnknownTable(name.to_owned()))
    }
}

/// Writes a table as CSV (RFC 4180 with `\n`) while it is read; how many rows it has.
///
/// # Errors
/// [`Error::NoTable`] when the trace does not have it, before anything is written;
/// [`Error::Output`] when `out` fails.
pub fn csv(trace: &Trace, table: CsvTable, out: &mut impl Write) -> Result<u64, Error> {
    let mut lines = Lines { out, header: table.header(), line: String::new(), rows: 0 };
    let mut names = Strings::new(trace);
    match table {
        CsvTable::Kernels => {
            for kernel in lines.begin(kernels(trace))? {
                let (line, kernel) = (lines.line(), kernel?);
                gpu(line, &kernel.at);
                numbers(line, &[kernel.registers]);
                extents(line, [kernel.grid, kernel.block]);
                let node = kernel.graph_node.map(i64::from);
                numbers(line, &[kernel.static_shared, kernel.dynamic_shared, node]);
                text(line, &names.get(kernel.short)?);
                text(line, &names.get(kernel.demangled)?);
                lines.end()?;
            }
        }
        CsvTable::Copies => {
            for copy in lines.begin(copies(trace))? {
                let (line, copy) = (lines.line(), copy?);
                gpu(line, &copy.at);
                numbers(line, &[Some(copy.bytes)]);
                label(line, Some((copy.kind.label(), copy.kind.code())));
                label(line, copy.source.map(|kind| (kind.label(), kind.code())));
                label(line, copy.destination.map(|kind| (kind.label(), kind.code())));
                lines.end()?;
            }
        }
        CsvTable::Sets => {
            for set in lines.begin(memsets(trace))? {
                let (line, set) = (lines.line(), set?);
                gpu(line, &set.at);
                numbers(line, &[Some(set.bytes)]);
                label(line, set.memory.map(|kind| (kind.label(), kind.code())));
                lines.end()?;
            }
        }
        CsvTable::Graphs => {
            for graph in lines.begin(graph_runs(trace))? {
                let (line, graph) = (lines.line(), graph?);
                gpu(line, &graph.at);
                numbers(line, &[Some(graph.graph.0), Some(graph.executable.0)]);
                lines.end()?;
            }
        }
        CsvTable::Os => {
            for call in lines.begin(os_calls(trace))? {
                let (line, call) = (lines.line(), call?);
                host(line, call.start, call.end, call.thread);
                numbers(line, &[call.class.map(OsClass::code), call.result, call.nesting]);
                text(line, &names.get(call.name)?);
                lines.end()?;
            }
        }
        CsvTable::CpuFaults => {
            for fault in lines.begin(trace.cpu_page_faults())? {
                let (line, fault) = (lines.line(), fault?);
                numbers(line, &[Some(fault.time), fault.process.map(ProcessId::pid), Some(fault.address)]);
                for id in [fault.instruction, fault.module] {
                    match id {
                        Some(id) => text(line, &names.get(id)?),
                        None => line.push(','),
                    }
                }
                lines.end()?;
            }
        }
        CsvTable::GpuFaults => {
            for fault in lines.begin(trace.gpu_page_faults())? {
                let (line, fault) = (lines.line(), fault?);
                numbers(line, &[Some(fault.start), Some(fault.end), fault.process.map(ProcessId::pid)]);
                numbers(line, &[Some(fault.device.0), Some(fault.address), Some(fault.faults)]);
                label(line, fault.access.map(|kind| (kind.label(), kind.code())));
                lines.end()?;
            }
        }
        CsvTable::Overhead => {
            for overhead in lines.begin(trace.profiler_overheads())? {
                let (line, overhead) = (lines.line(), overhead?);
                host(line, overhead.start, overhead.end, overhead.thread);
                text(line, &names.get(overhead.name)?);
                lines.end()?;
            }
        }
        CsvTable::Api => {
            for call in lines.begin(api_calls(trace))? {
                let (line, call) = (lines.line(), call?);
                host(line, call.start, call.end, call.thread);
                numbers(line, &[Some(call.class.code()), call.correlation.map(i64::from), call.result]);
                text(line, &names.get(call.name)?);
                lines.end()?;
            }
        }
        CsvTable::Nvtx => {
            for range in lines.begin(trace.annotations())? {
                annotation(lines.line(), &range?);
                lines.end()?;
            }
        }
    }
    Ok(lines.rows)
}

/// The lines written so far.
struct Lines<'o, W> {
    out: &'o mut W,
    header: &'static str,
    line: String,
    rows: u64,
}

impl<W: Write> Lines<'_, W> {
    /// Writes the header when the table can be read.
    fn begin<R>(&mut self, rows: Result<R, Error>) -> Result<R, Error> {
        let rows = rows?;
        writing(self.out.write_all(self.header.as_bytes()))?;
        Ok(rows)
    }

    /// The next line, to which fields are added that end in commas.
    fn line(&mut self) -> &mut String {
        self.line.clear();
        &mut self.line
    }

    /// Writes the line.
    fn end(&mut self) -> Result<(), Error> {
        self.line.pop();
        self.line.push('\n');
        self.rows += 1;
        writing(self.out.write_all(self.line.as_bytes()))
    }
}

fn gpu(line: &mut String, at: &Placement) {
    numbers(line, &[Some(at.start), Some(at.end), at.process.map(ProcessId::pid)]);
    numbers(
        line,
        &[Some(at.device.0), Some(at.context.0), at.green_context.map(i64::from), Some(at.stream.0)],
    );
    numbers(line, &[at.correlation.map(i64::from)]);
}

fn annotation(line: &mut String, range: &Annotation) {
    numbers(line, &[Some(range.row.0), Some(range.start), range.end]);
    numbers(line, &[range.thread.map(ThreadId::pid), range.thread.map(ThreadId::tid)]);
    numbers(line, &[range.end_thread.map(ThreadId::tid)]);
    text(line, range.kind.as_str());
    text(line, range.domain.as_deref().unwrap_or_default());
    numbers(line, &[range.category]);
    text(line, &range.text);
}

fn host(line: &mut String, start: i64, end: i64, thread: Option<ThreadId>) {
    numbers(line, &[Some(start), Some(end), thread.map(ThreadId::pid), thread.map(ThreadId::tid)]);
}

fn numbers(line: &mut String, values: &[Option<i64>]) {
    let mut digits = itoa::Buffer::new();
    for value in values {
        if let Some(value) = value {
            line.push_str(digits.format(*value));
        }
        line.push(',');
    }
}

fn extents(line: &mut String, extents: [Dim3; 2]) {
    for Dim3 { x, y, z } in extents {
        numbers(line, &[x, y, z].map(|extent| Some(extent.into())));
    }
}

/// The name of a kind, or its code where it has none.
fn label(line: &mut String, kind: Option<(Option<&str>, i64)>) {
    match kind {
        Some((Some(label), _)) => text(line, label),
        Some((None, code)) => numbers(line, &[Some(code)]),
        None => line.push(','),
    }
}

/// A text field, quoted if necessary.
fn text(line: &mut String, value: &str) {
    if value.contains([',', '"', '\n', '\r']) || value.starts_with(' ') || value.ends_with(' ') {
        line.push('"');
        line.push_str(&value.replace('"', "\"\""));
        line.push('"');
    } else {
        line.push_str(value);
    }
    line.push(',');
}

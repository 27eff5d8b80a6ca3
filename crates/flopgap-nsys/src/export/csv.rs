//! Tables as plain CSV.

use std::fmt;
use std::io::{self, Write};
use std::str::FromStr;

use super::writing;
use crate::strings::Strings;
use crate::{Annotation, Error, GlobalId, Placement, Trace, access_label, copy_label, memory_label};

/// What to write as CSV.
///
/// Times are integer nanoseconds since the recording began, sizes are bytes; what was not recorded is an empty field. Rows
/// have the order of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum CsvTable {
    /// `start_ns`, `end_ns`, `pid`, `device`, `context`, `green_context`, `stream`, `correlation`, `registers`, `grid_x`,
    /// `grid_y`, `grid_z`, `block_x`, `block_y`, `block_z`, `static_shared_bytes`, `dynamic_shared_bytes`, `graph_node`,
    /// `short_name`, `name` (with template arguments).
    Kernels,
    /// `start_ns`, `end_ns`, `pid`, `device`, `context`, `green_context`, `stream`, `correlation`, `bytes`, `kind`, `source`,
    /// `destination` (kinds as in [`copy_label`] and [`memory_label`]; an unknown kind is its number).
    Copies,
    /// `start_ns`, `end_ns`, `pid`, `device`, `context`, `green_context`, `stream`, `correlation`, `bytes`, `memory`.
    Sets,
    /// Launches of CUDA graphs that were traced as a whole: `start_ns`, `end_ns`, `pid`, `device`, `context`, `green_context`, `stream`,
    /// `correlation`, `graph`, `executable`.
    Graphs,
    /// `start_ns`, `end_ns`, `pid`, `tid`, `class` (0 runtime, 1 driver, 67 a row that repeats a call to add its backtrace),
    /// `correlation`, `result` (0 is success), `name` (with its version suffix).
    Api,
    /// `row`, `start_ns`, `end_ns`, `pid`, `tid`, `end_tid` (of a range that another thread ended), `style` (`PushPop`,
    /// `StartEnd` or `Mark`), `domain`, `category`, `text`.
    Nvtx,
    /// Calls of the operating system's libraries: `start_ns`, `end_ns`, `pid`, `tid`, `class` (27 a call, else a state of the thread),
    /// `result`, `nesting`, `name`.
    Os,
    /// Page faults of the CPU in unified memory: `time_ns`, `pid`, `address`, `instruction`, `module`.
    CpuFaults,
    /// Page faults of GPUs in unified memory: `start_ns`, `end_ns`, `pid`, `device`, `address`, `faults`, `access` (as in
    /// [`access_label`]; an unknown kind is its number).
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

/// A name that is none of [`CsvTable`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown table `{0}`: there are {names}", names = CsvTable::ALL.map(CsvTable::name).join(", "))]
pub struct UnknownTable(String);

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
/// [`Error::NoTable`] when the trace does not have it, before anything is written; [`Error::Output`] when
/// `out` fails.
pub fn csv(trace: &Trace, table: CsvTable, out: &mut impl Write) -> Result<u64, Error> {
    let mut lines =
        Lines { out, line: String::new(), names: Strings::new(trace), begun: false, rows: 0, result: Ok(()) };
    let header = table.header();
    match table {
        CsvTable::Kernels => trace.kernels(|kernel| {
            lines.row(header, |line, names| {
                gpu(line, &kernel.at);
                numbers(line, &[kernel.registers]);
                numbers(line, &kernel.grid.map(Some));
                numbers(line, &kernel.block.map(Some));
                numbers(line, &[kernel.static_shared, kernel.dynamic_shared, kernel.graph_node]);
                text(line, &names.get(kernel.short)?);
                text(line, &names.get(kernel.demangled)?);
                Ok(())
            });
        })?,
        CsvTable::Copies => trace.copies(|copy| {
            lines.row(header, |line, _| {
                gpu(line, &copy.at);
                numbers(line, &[Some(copy.bytes)]);
                label(line, Some(copy.kind), copy_label);
                label(line, copy.source, memory_label);
                label(line, copy.destination, memory_label);
                Ok(())
            });
        })?,
        CsvTable::Sets => trace.sets(|set| {
            lines.row(header, |line, _| {
                gpu(line, &set.at);
                numbers(line, &[Some(set.bytes)]);
                label(line, set.memory, memory_label);
                Ok(())
            });
        })?,
        CsvTable::Graphs => trace.graph_runs(|graph| {
            lines.row(header, |line, _| {
                gpu(line, &graph.at);
                numbers(line, &[Some(graph.graph), Some(graph.executable)]);
                Ok(())
            });
        })?,
        CsvTable::Os => trace.os_calls(|call| {
            lines.row(header, |line, names| {
                host(line, call.start, call.end, call.thread);
                numbers(line, &[call.class, call.result, call.nesting]);
                text(line, &names.get(call.name)?);
                Ok(())
            });
        })?,
        CsvTable::CpuFaults => trace.cpu_page_faults(|fault| {
            lines.row(header, |line, names| {
                numbers(line, &[Some(fault.time), fault.process.map(GlobalId::pid), Some(fault.address)]);
                for id in [fault.instruction, fault.module] {
                    match id {
                        Some(id) => text(line, &names.get(id)?),
                        None => line.push(','),
                    }
                }
                Ok(())
            });
        })?,
        CsvTable::GpuFaults => trace.gpu_page_faults(|fault| {
            lines.row(header, |line, _| {
                numbers(line, &[Some(fault.start), Some(fault.end), fault.process.map(GlobalId::pid)]);
                numbers(line, &[Some(fault.device), Some(fault.address), Some(fault.faults)]);
                label(line, fault.access, access_label);
                Ok(())
            });
        })?,
        CsvTable::Overhead => trace.profiler_overheads(|overhead| {
            lines.row(header, |line, names| {
                host(line, overhead.start, overhead.end, overhead.thread);
                text(line, &names.get(overhead.name)?);
                Ok(())
            });
        })?,
        CsvTable::Api => trace.api_calls(|call| {
            lines.row(header, |line, names| {
                host(line, call.start, call.end, call.thread);
                numbers(line, &[Some(call.class), call.correlation, call.result]);
                text(line, &names.get(call.name)?);
                Ok(())
            });
        })?,
        CsvTable::Nvtx => trace.annotations(|range| {
            lines.row(header, |line, _| {
                annotation(line, &range);
                Ok(())
            });
        })?,
    }
    lines.finish(header)
}

/// The lines written so far. A failure ends the writing, and is told at the end: a scan has no way to stop.
struct Lines<'t, 'o, W> {
    out: &'o mut W,
    line: String,
    names: Strings<&'t Trace>,
    begun: bool,
    rows: u64,
    result: Result<(), Error>,
}

impl<'t, W: Write> Lines<'t, '_, W> {
    fn row(
        &mut self,
        header: &str,
        fields: impl FnOnce(&mut String, &mut Strings<&'t Trace>) -> Result<(), Error>,
    ) {
        if self.result.is_err() {
            return;
        }
        self.line.clear();
        self.result = fields(&mut self.line, &mut self.names).and_then(|()| {
            self.line.pop();
            self.line.push('\n');
            writing(begin(self.out, &mut self.begun, header))?;
            writing(self.out.write_all(self.line.as_bytes()))
        });
        self.rows += 1;
    }

    fn finish(mut self, header: &str) -> Result<u64, Error> {
        self.result?;
        writing(begin(self.out, &mut self.begun, header))?;
        Ok(self.rows)
    }
}

/// Writes the header, once.
fn begin(out: &mut impl Write, begun: &mut bool, header: &str) -> io::Result<()> {
    if *begun { Ok(()) } else { out.write_all(header.as_bytes()).inspect(|()| *begun = true) }
}

fn gpu(line: &mut String, at: &Placement) {
    numbers(line, &[Some(at.start), Some(at.end), at.process.map(GlobalId::pid)]);
    numbers(line, &[Some(at.device), Some(at.context), at.green_context, Some(at.stream), at.correlation]);
}

fn annotation(line: &mut String, range: &Annotation) {
    numbers(line, &[Some(range.row), Some(range.start), range.end]);
    numbers(line, &[range.thread.map(GlobalId::pid), range.thread.map(GlobalId::tid)]);
    numbers(line, &[range.end_thread.map(GlobalId::tid)]);
    text(line, range.kind.as_str());
    text(line, range.domain.as_deref().unwrap_or_default());
    numbers(line, &[range.category]);
    text(line, &range.text);
}

fn host(line: &mut String, start: i64, end: i64, thread: Option<GlobalId>) {
    numbers(line, &[Some(start), Some(end), thread.map(GlobalId::pid), thread.map(GlobalId::tid)]);
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

fn label(line: &mut String, kind: Option<i64>, labels: fn(i64) -> Option<&'static str>) {
    match kind.map(|kind| (kind, labels(kind))) {
        Some((_, Some(label))) => text(line, label),
        Some((kind, None)) => numbers(line, &[Some(kind)]),
        None => line.push(','),
    }
}

/// A field of text, in quotes when it needs them.
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

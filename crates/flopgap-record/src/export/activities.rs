//! Rows of what CUPTI recorded.

use rusqlite::{Connection, params};
use rustc_hash::{FxHashMap, FxHashSet};

use super::counts::Counts;
use super::names::{KernelName, Strings};
use super::rows::Table;
use super::target::Targets;
use super::{Ids, schema};
use crate::format::activity::SILENT;
use crate::reader::{Activity, Api, At, Copy, Device, Graph, Kernel, Overhead, Set, Sync};

/// The tables, and what the process that is being read calls things.
#[derive(Debug, Default)]
pub(super) struct Activities<'d> {
    pub(super) kernels: Table<'d>,
    pub(super) copies: Table<'d>,
    pub(super) sets: Table<'d>,
    pub(super) calls: Table<'d>,
    syncs: Table<'d>,
    graphs: Table<'d>,
    overheads: Table<'d>,
    targets: Targets,
    pub(super) counts: Counts,
    /// The end of the last record of all processes.
    last: i64,
    process: OfProcess,
}

/// What belongs to one process.
#[derive(Debug, Default)]
struct OfProcess {
    ids: Ids,
    /// Strings by their numbers, and by the addresses that unfinished buffers have instead.
    strings: FxHashMap<u64, String>,
    addresses: FxHashMap<u64, u64>,
    kernels: FxHashMap<u64, KernelName>,
    functions: FxHashMap<(u32, u32), Function>,
    times: Times,
    /// Launches without their kernel yet, and kernels without their launch.
    launches: FxHashSet<u32>,
    launched: FxHashSet<u32>,
}

impl OfProcess {
    /// The string of a number, or of the address that is in its place.
    fn text(&self, number: u64) -> Option<&str> {
        let known = self.strings.get(&number);
        Some(known.or_else(|| self.strings.get(self.addresses.get(&number)?))?)
    }
}

/// A function of an API.
#[derive(Debug, Clone, Copy)]
struct Function {
    name: i64,
    is_launch: bool,
    is_silent: bool,
}

/// Records whose times say nothing, and launches that have no record.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Times {
    /// Work without a beginning or an end.
    pub(super) without: u64,
    /// Work that ends before it begins.
    pub(super) reversed: u64,
    /// Launches whose kernels are not recorded.
    pub(super) launches_alone: u64,
}

/// Domains of functions.
const RUNTIME: u32 = 2;
const DRIVER: u32 = 1;
/// nsys's numbers for them in rows.
const CLASS_OF_RUNTIME: i64 = 0;
const CLASS_OF_DRIVER: i64 = 1;
/// Kinds of memory: CUPTI begins with the unknown one, nsys ends with it.
const KINDS_OF_MEMORY: u8 = 8;

impl<'d> Activities<'d> {
    /// Begins a process.
    pub(super) fn begin(&mut self, ids: Ids) {
        self.process = OfProcess { ids, ..OfProcess::default() };
    }

    pub(super) fn string(&mut self, number: u64, address: u64, text: &str) {
        self.process.addresses.insert(address, number);
        self.process.strings.insert(number, text.to_owned());
    }

    /// A device that CUPTI has no record of, because it was in use before.
    pub(super) fn device(&mut self, device: Device, name: String) {
        self.targets.device(device, Some(name), self.ids().pid);
    }

    pub(super) fn function(&mut self, domain: u32, number: u32, id: i64, text: &str) {
        let is_launch = text.starts_with("cudaLaunch") || text.starts_with("cuLaunch");
        let is_silent = SILENT.iter().any(|silent| text.starts_with(silent));
        self.process.functions.insert((domain, number), Function { name: id, is_launch, is_silent });
    }

    pub(super) fn take(
        &mut self,
        activity: Activity,
        strings: &mut Strings,
        database: &'d Connection,
    ) -> rusqlite::Result<()> {
        match activity {
            Activity::Kernel(kernel) => self.kernel(&kernel, strings, database),
            Activity::Copy(copy) => self.copy(&copy, database),
            Activity::Set(set) => self.set(&set, database),
            Activity::Api(call) => self.call(&call, strings, database),
            Activity::Sync(sync) => self.sync(&sync, database),
            Activity::Graph(graph) => self.graph(&graph, database),
            Activity::Overhead(overhead) => self.overhead(&overhead, strings, database),
            Activity::Device(device) => {
                let name = self.process.strings.get(&device.name).cloned();
                self.targets.device(device, name, self.ids().pid);
                Ok(())
            }
            Activity::Context { id, device, null_stream } => {
                self.targets.context(self.ids().pid, id, device, null_stream);
                Ok(())
            }
            Activity::Stream(stream) => {
                self.targets.stream(self.ids().pid, stream);
                Ok(())
            }
        }
    }

    fn ids(&self) -> Ids {
        self.process.ids
    }

    /// Times of work, unless they say nothing, which is counted.
    fn times_of(&mut self, at: &At) -> Option<(i64, i64)> {
        let times = &mut self.process.times;
        if at.start == 0 || at.end == 0 {
            times.without += 1;
            return None;
        }
        if at.end < at.start {
            times.reversed += 1;
            return None;
        }
        let ids = self.ids();
        let (start, end) = (ids.time(at.start), ids.time(at.end));
        self.seen(end);
        Some((start, end))
    }

    fn seen(&mut self, end: i64) {
        self.last = self.last.max(end);
    }

    fn kernel(
        &mut self,
        kernel: &Kernel,
        strings: &mut Strings,
        database: &'d Connection,
    ) -> rusqlite::Result<()> {
        if !self.process.launches.remove(&kernel.at.correlation) {
            self.process.launched.insert(kernel.at.correlation);
        }
        let Some((start, end)) = self.times_of(&kernel.at) else { return Ok(()) };
        let name = self.name(kernel.name, strings, database)?;
        let (Kernel { at, grid, block, .. }, process) = (kernel, self.ids().process());
        self.kernels.insert(
            database,
            &schema::KERNEL,
            params![
                start,
                end,
                at.device,
                at.context,
                at.stream,
                at.correlation,
                process,
                name.demangled,
                name.short,
                name.mangled,
                kernel.launch_type,
                kernel.cache,
                kernel.registers,
                grid[0],
                grid[1],
                grid[2],
                block[0],
                block[1],
                block[2],
                kernel.static_shared,
                kernel.dynamic_shared,
                kernel.local_per_thread,
                kernel.local.cast_signed(),
                kernel.grid_id.cast_signed(),
                kernel.shared_executed,
                node(at),
            ],
        )?;
        self.counts.kernel(kernel, self.process.text(kernel.name), self.kernels.rows);
        Ok(())
    }

    /// The names of a kernel. One that the program was killed before saying is its address.
    fn name(
        &mut self,
        number: u64,
        strings: &mut Strings,
        database: &'d Connection,
    ) -> rusqlite::Result<KernelName> {
        if let Some(&name) = self.process.kernels.get(&number) {
            return Ok(name);
        }
        let known = self.process.text(number);
        let unknown = || format!("unknown kernel at {number:#x}");
        let name = KernelName::of(&known.map_or_else(unknown, str::to_owned), strings, database)?;
        self.process.kernels.insert(number, name);
        Ok(name)
    }

    fn copy(&mut self, copy: &Copy, database: &'d Connection) -> rusqlite::Result<()> {
        let Some((start, end)) = self.times_of(&copy.at) else { return Ok(()) };
        let [source_device, source_context, device, context] =
            copy.between.map_or([None; 4], |between| between.map(Some));
        let at = &copy.at;
        let process = self.ids().process();
        self.copies.insert(
            database,
            &schema::COPY,
            params![
                start,
                end,
                at.device,
                at.context,
                at.stream,
                at.correlation,
                process,
                copy.bytes.cast_signed(),
                copy.kind,
                memory(copy.source),
                memory(copy.destination),
                source_device,
                source_context,
                device,
                context,
                node(at),
            ],
        )
    }

    fn set(&mut self, set: &Set, database: &'d Connection) -> rusqlite::Result<()> {
        let Some((start, end)) = self.times_of(&set.at) else { return Ok(()) };
        let (at, process) = (&set.at, self.ids().process());
        self.sets.insert(
            database,
            &schema::SET,
            params![
                start,
                end,
                at.device,
                at.context,
                at.stream,
                at.correlation,
                process,
                set.value,
                set.bytes.cast_signed(),
                node(at),
                memory(u8::try_from(set.memory).unwrap_or(0)),
            ],
        )
    }

    fn call(&mut self, call: &Api, strings: &mut Strings, database: &'d Connection) -> rusqlite::Result<()> {
        let ids = self.ids();
        let (start, end) = (ids.time(call.start), ids.time(call.end));
        if call.start == 0 || call.end < call.start {
            self.process.times.without += 1;
            return Ok(());
        }
        self.seen(end);
        let (domain, class) =
            if call.is_driver { (DRIVER, CLASS_OF_DRIVER) } else { (RUNTIME, CLASS_OF_RUNTIME) };
        let known = self.process.functions.get(&(domain, call.function)).copied();
        let (name, is_launch) = match known {
            Some(Function { is_silent: true, .. }) => return Ok(()),
            Some(Function { name, is_launch, .. }) => (name, is_launch),
            None => (strings.id(database, &format!("unknown function {}", call.function))?, false),
        };
        if is_launch && call.result == 0 && !self.process.launched.remove(&call.correlation) {
            self.process.launches.insert(call.correlation);
        }
        let row = params![start, end, class, ids.thread(call.thread), call.correlation, name, call.result];
        self.calls.insert(database, &schema::CALL, row)
    }

    fn sync(&mut self, sync: &Sync, database: &'d Connection) -> rusqlite::Result<()> {
        let Some((start, end)) = self.times_of(&sync.at) else { return Ok(()) };
        let (at, ids) = (&sync.at, self.ids());
        let device = self.targets.device_of(ids.pid, at.context);
        let row = params![
            start,
            end,
            device,
            at.context,
            at.stream,
            at.correlation,
            ids.process(),
            sync.kind,
            sync.event
        ];
        self.syncs.insert(database, &schema::SYNC, row)
    }

    fn graph(&mut self, graph: &Graph, database: &'d Connection) -> rusqlite::Result<()> {
        let Some((start, end)) = self.times_of(&graph.at) else { return Ok(()) };
        let (at, process) = (&graph.at, self.ids().process());
        let row = params![start, end, at.device, at.context, at.stream, at.correlation, process, graph.graph];
        self.graphs.insert(database, &schema::GRAPH, row)
    }

    fn overhead(
        &mut self,
        overhead: &Overhead,
        strings: &mut Strings,
        database: &'d Connection,
    ) -> rusqlite::Result<()> {
        let ids = self.ids();
        let name = strings.id(database, kind_of_overhead(overhead.kind))?;
        let thread = overhead.thread.map(|thread| ids.thread(thread));
        let row = params![ids.time(overhead.start), ids.time(overhead.end), thread, name];
        self.overheads.insert(database, &schema::OVERHEAD, row)
    }

    /// What the process that was read last says about times.
    pub(super) fn times(&self) -> Times {
        let launches_alone = self.process.launches.len() as u64;
        Times { launches_alone, ..self.process.times }
    }

    /// The end of the last record.
    pub(super) fn last(&self) -> i64 {
        self.last
    }

    /// What the process counted. Returns how many of its kernels are known, and how many are not.
    pub(super) fn write_counts(
        &mut self,
        strings: &mut Strings,
        database: &'d Connection,
    ) -> rusqlite::Result<(u64, u64)> {
        let ids = self.process.ids;
        self.counts.write(database, strings, (ids.process(), self.targets.capability(ids.pid)))
    }

    /// The numbers of GPUs by UUID.
    pub(super) fn gpus(&self) -> FxHashMap<String, i64> {
        self.targets.numbers_by_text()
    }

    /// Devices, contexts and streams.
    pub(super) fn write_targets(&self, database: &'d Connection) -> rusqlite::Result<()> {
        self.targets.write(database)
    }
}

/// The node of a graph that it ran as.
fn node(at: &At) -> Option<i64> {
    (at.node != 0).then_some(at.node.cast_signed())
}

/// A kind of memory as nsys numbers it.
fn memory(kind: u8) -> u8 {
    (kind % KINDS_OF_MEMORY + KINDS_OF_MEMORY - 1) % KINDS_OF_MEMORY
}

/// Kinds of overhead, as CUPTI numbers them.
fn kind_of_overhead(kind: u32) -> &'static str {
    match kind {
        1 => "CUPTI driver compiler",
        0x1_0000 => "CUPTI Buffer flush",
        0x2_0000 => "CUPTI Instrumentation",
        0x3_0000 => "CUPTI Resource Management",
        0x4_0000 => "CUPTI runtime triggered module loading",
        0x5_0000 => "CUPTI lazy function loading",
        0x6_0000 => "CUPTI command buffer full",
        0x7_0000 => "CUPTI activity buffer request",
        0x8_0000 => "CUPTI unified memory initialization",
        _ => "Unknown",
    }
}

//! Nsight Systems exports of any size: the tables, names and rows of a recorded one, its kernels
//! and calls played again on three threads that train in step.

use std::error::Error;
use std::fs;
use std::path::Path;

use rusqlite::{Connection, Statement, params};

/// Three training steps of a small transformer on an H200, exported by nsys 2025.3.
const RECORDED: &[u8] = include_bytes!("../../fixtures/nsys/small_training_step.sqlite.zst");

/// The host threads of the recording that play, and the stream that each launches to.
const THREADS: [(i64, i64); 3] =
    [(281_486_938_866_377, 7), (281_486_938_866_387, 13), (281_486_938_866_388, 12)];

const PHASES: [&str; 3] = ["forward", "backward", "optimizer"];
const LAYERS: usize = 12;
const MODULES: [(&str, [&str; 4]); 4] = [
    ("attention", ["aten::linear", "aten::matmul", "aten::softmax", "aten::bmm"]),
    ("norm", ["aten::mean", "aten::rsqrt", "aten::mul", "aten::add"]),
    ("mlp", ["aten::mm", "aten::silu", "aten::addmm", "aten::copy_"]),
    ("embedding", ["aten::embedding", "aten::index_select", "aten::fill_", "aten::cat"]),
];
const KERNELS_PER_OP: usize = 2;

/// The domain of the modules' ranges, whose names are registered strings.
const MODULE_DOMAIN: i64 = 1;
/// The id of the first string that the recording does not have.
const FIRST_NEW_STRING: i64 = 1_000;
/// When the first call starts, in nanoseconds since the session did.
const FIRST_CALL: i64 = 7_000_000_000;

/// How many rows of each kind a generated export holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RowCounts {
    /// Kernels.
    pub kernels: u64,
    /// CUDA API calls: one for each kernel, copy, memset and synchronization, and some that put
    /// nothing on the GPU.
    pub calls: u64,
    /// Memory copies.
    pub copies: u64,
    /// Memsets.
    pub sets: u64,
    /// Synchronizations.
    pub syncs: u64,
    /// NVTX push/pop ranges, at most five deep.
    pub ranges: u64,
}

/// Writes an export of `kernels` kernels to `path`; the same bytes each time.
///
/// Within a step each thread runs 3 phases of 12 layers of 4 modules of 4 operators of 2 kernels,
/// one range around each; a copy, a memset, a synchronization and a call that launches nothing
/// follow every layer, and a kernel outside all ranges every step.
///
/// # Errors
/// When the file cannot be written, or the fixture is damaged.
pub fn write_nsys_export(kernels: u64, path: &Path) -> Result<RowCounts, Box<dyn Error>> {
    fs::write(path, zstd::decode_all(RECORDED)?)?;
    let connection = Connection::open(path)?;
    connection
        .execute_batch("PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; PRAGMA temp_store = MEMORY;")?;
    remember(&connection)?;
    connection.execute_batch("VACUUM; BEGIN")?;
    let mut writer = Writer::new(&connection)?;
    writer.strings()?;
    let mut threads = THREADS.map(|(tid, stream)| Thread { tid, stream, now: FIRST_CALL, gpu_free: 0 });
    writer.left = kernels;
    while writer.left > 0 {
        for lane in 0..threads.len() {
            writer.step(&mut threads, lane);
        }
        writer.flush()?;
        // The threads reduce their gradients: they begin the next step together, and rows stay in
        // the order of their starts.
        let together =
            threads.iter().map(|thread| thread.now.max(thread.gpu_free)).max().unwrap_or(FIRST_CALL);
        for thread in &mut threads {
            thread.now = together;
        }
    }
    let counts = writer.counts;
    drop(writer);
    connection.execute_batch("COMMIT")?;
    Ok(counts)
}

/// What each recorded table is kept as, in the order of [`Activity`].
const ACTIVITIES: [(&str, &str); 4] = [
    ("CUPTI_ACTIVITY_KIND_KERNEL", "kernel"),
    ("CUPTI_ACTIVITY_KIND_MEMCPY", "copy"),
    ("CUPTI_ACTIVITY_KIND_MEMSET", "memset"),
    ("CUPTI_ACTIVITY_KIND_SYNCHRONIZATION", "sync"),
];
const CALLS: &str = "CUPTI_ACTIVITY_KIND_RUNTIME";

/// Moves the recorded events to temporary tables, each activity next to the calls that caused it.
fn remember(connection: &Connection) -> rusqlite::Result<()> {
    for (table, kept) in ACTIVITIES {
        connection.execute_batch(&format!(
            "CREATE TEMP TABLE {kept} AS SELECT a.* FROM {table} a JOIN {CALLS} c USING (correlationId) ORDER BY a.start;
             CREATE TEMP TABLE {kept}_call AS SELECT c.* FROM {table} a JOIN {CALLS} c USING (correlationId) ORDER BY a.start;"
        ))?;
    }
    connection.execute_batch(&format!(
        "CREATE TEMP TABLE other_call AS SELECT c.* FROM {CALLS} c
         JOIN StringIds s ON s.id = c.nameId WHERE s.value LIKE 'cudaStreamIsCapturing%' ORDER BY c.start;
         DELETE FROM {CALLS}; DELETE FROM NVTX_EVENTS;"
    ))?;
    for (table, _) in ACTIVITIES {
        connection.execute_batch(&format!("DELETE FROM {table}"))?;
    }
    Ok(())
}

/// What a call puts on the GPU, if anything: an index into the writer's replays.
#[derive(Clone, Copy)]
enum Activity {
    Kernel,
    Copy,
    Memset,
    Sync,
    Nothing,
}

/// Recorded rows of one table that are inserted again at other times.
struct Replay<'a> {
    insert: Statement<'a>,
    durations: Vec<i64>,
}

impl<'a> Replay<'a> {
    /// `set` names the columns that do not keep their recorded value; [`Statement::execute`] takes
    /// them after the row's number.
    fn new(
        connection: &'a Connection,
        table: &str,
        kept: &str,
        set: &[&str],
    ) -> rusqlite::Result<Replay<'a>> {
        let columns = connection.prepare(&format!("SELECT * FROM {table}"))?;
        let columns: Vec<String> = (columns.column_names().into_iter())
            .map(|name| {
                let place = set.iter().position(|&replaced| replaced == name);
                place.map_or_else(|| format!("\"{name}\""), |place| format!("?{}", place + 2))
            })
            .collect();
        let sql =
            format!("INSERT INTO {table} SELECT {} FROM temp.{kept} WHERE rowid = ?1", columns.join(", "));
        let durations = connection
            .prepare(&format!("SELECT \"end\" - start FROM temp.{kept} ORDER BY rowid"))?
            .query_map([], |row| row.get(0))?
            .collect::<rusqlite::Result<_>>()?;
        Ok(Replay { insert: connection.prepare(&sql)?, durations })
    }
}

/// A row to insert, times in nanoseconds.
struct Event {
    start: i64,
    end: i64,
    /// What it is, or what it puts on the GPU.
    activity: Activity,
    /// Which recorded row, from 0.
    template: usize,
    /// The thread of a call, the stream of an activity.
    lane: i64,
    correlation: i64,
}

struct Range {
    start: i64,
    end: i64,
    name: RangeName,
    tid: i64,
}

#[derive(Clone, Copy)]
enum RangeName {
    Text(&'static str),
    Layer(usize),
    /// A registered string in a domain of its own.
    Module(usize, usize),
}

struct Thread {
    tid: i64,
    stream: i64,
    now: i64,
    gpu_free: i64,
}

struct Writer<'a> {
    connection: &'a Connection,
    activities: Vec<Replay<'a>>,
    calls: Vec<Replay<'a>>,
    nvtx: Statement<'a>,
    /// Rows of the step being made.
    pending_calls: Vec<Event>,
    pending_activities: Vec<Event>,
    ranges: Vec<Range>,
    /// The next recorded row of each activity.
    next: [usize; 5],
    correlation: i64,
    left: u64,
    counts: RowCounts,
}

impl<'a> Writer<'a> {
    fn new(connection: &'a Connection) -> rusqlite::Result<Writer<'a>> {
        let times = ["start", "end", "correlationId"];
        let mut activities = Vec::new();
        let mut calls = Vec::new();
        for (table, kept) in ACTIVITIES {
            let set = [times[0], times[1], times[2], "streamId"];
            activities.push(Replay::new(connection, table, kept, &set)?);
            let set = [times[0], times[1], times[2], "globalTid"];
            calls.push(Replay::new(connection, CALLS, &format!("{kept}_call"), &set)?);
        }
        calls.push(Replay::new(
            connection,
            CALLS,
            "other_call",
            &[times[0], times[1], times[2], "globalTid"],
        )?);
        let nvtx = connection.prepare(
            "INSERT INTO NVTX_EVENTS (start, \"end\", eventType, text, globalTid, textId, domainId)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
        )?;
        Ok(Writer {
            connection,
            activities,
            calls,
            nvtx,
            pending_calls: Vec::new(),
            pending_activities: Vec::new(),
            ranges: Vec::new(),
            next: [0; 5],
            correlation: 0,
            left: 0,
            counts: RowCounts::default(),
        })
    }

    /// The modules' names, and the row that creates their domain.
    fn strings(&mut self) -> rusqlite::Result<()> {
        let mut insert = self.connection.prepare("INSERT INTO StringIds (id, value) VALUES (?1, ?2)")?;
        for layer in 0..LAYERS {
            for (at, (module, _)) in MODULES.iter().enumerate() {
                insert.execute(params![module_string(layer, at), format!("layers.{layer}.{module}")])?;
            }
        }
        let nothing = None::<i64>;
        let values = params![FIRST_CALL - 1, nothing, 75, "model", THREADS[0].0, nothing, MODULE_DOMAIN];
        self.nvtx.execute(values)?;
        Ok(())
    }

    /// One training step of one thread, as far as there are kernels left.
    fn step(&mut self, threads: &mut [Thread; 3], lane: usize) {
        let thread = &mut threads[lane];
        let step = self.push(thread, lane, RangeName::Text("train_step"));
        for phase in PHASES {
            let phase = self.push(thread, lane, RangeName::Text(phase));
            for layer in 0..LAYERS {
                if self.left == 0 {
                    break;
                }
                self.layer(thread, lane, layer);
            }
            self.pop(thread, lane, phase);
        }
        self.pop(thread, lane, step);
        self.call(thread, lane, Activity::Kernel);
    }

    fn layer(&mut self, thread: &mut Thread, lane: usize, layer: usize) {
        let range = self.push(thread, lane, RangeName::Layer(layer));
        for (at, (_, operators)) in MODULES.iter().enumerate() {
            let module = self.push(thread, lane, RangeName::Module(layer, at));
            for operator in operators {
                let operator = self.push(thread, lane, RangeName::Text(operator));
                for _ in 0..KERNELS_PER_OP {
                    self.call(thread, lane, Activity::Kernel);
                }
                self.pop(thread, lane, operator);
            }
            self.pop(thread, lane, module);
        }
        for activity in [Activity::Copy, Activity::Memset, Activity::Nothing, Activity::Sync] {
            self.call(thread, lane, activity);
        }
        self.pop(thread, lane, range);
    }

    fn push(&mut self, thread: &mut Thread, lane: usize, name: RangeName) -> usize {
        thread.now = after(thread.now + 150, lane);
        self.ranges.push(Range { start: thread.now, end: 0, name, tid: thread.tid });
        self.ranges.len() - 1
    }

    fn pop(&mut self, thread: &mut Thread, lane: usize, range: usize) {
        thread.now = after(thread.now + 150, lane);
        self.ranges[range].end = thread.now;
    }

    fn call(&mut self, thread: &mut Thread, lane: usize, activity: Activity) {
        if matches!(activity, Activity::Kernel) {
            if self.left == 0 {
                return;
            }
            self.left -= 1;
        }
        let kind = activity as usize;
        let durations = &self.calls[kind].durations;
        let template = self.next[kind] % durations.len();
        // The recording comes round with slightly other times, so that medians and deviations have
        // something to do.
        let jitter = i64::try_from(self.next[kind] / durations.len() % 97).unwrap_or(0);
        self.next[kind] += 1;
        self.correlation += 1;

        let start = after(thread.now + 800, lane);
        let mut end = start + durations[template] + jitter;
        let event =
            |start, end, lane, correlation| Event { start, end, activity, template, lane, correlation };
        match activity {
            Activity::Nothing => {}
            Activity::Sync => {
                end = end.max(thread.gpu_free + 400);
                self.pending_activities.push(event(start + 100, end - 50, thread.stream, self.correlation));
            }
            Activity::Kernel | Activity::Copy | Activity::Memset => {
                let gpu_start = after((end + 1_200).max(thread.gpu_free + 600), lane);
                let gpu_end = gpu_start + self.activities[kind].durations[template] + jitter;
                thread.gpu_free = gpu_end;
                self.pending_activities.push(event(gpu_start, gpu_end, thread.stream, self.correlation));
            }
        }
        self.pending_calls.push(event(start, end, thread.tid, self.correlation));
        thread.now = end;
    }

    /// Writes what the step has gathered, in the order of the starts.
    fn flush(&mut self) -> Result<(), Box<dyn Error>> {
        self.pending_calls.sort_unstable_by_key(|event| event.start);
        self.pending_activities.sort_unstable_by_key(|event| event.start);
        self.ranges.sort_unstable_by_key(|range| range.start);
        let pairs = [
            (&mut self.pending_calls, &mut self.calls),
            (&mut self.pending_activities, &mut self.activities),
        ];
        for (events, replays) in pairs {
            for event in events.drain(..) {
                let row = i64::try_from(event.template)? + 1;
                let values = params![row, event.start, event.end, event.correlation, event.lane];
                let inserted = replays[event.activity as usize].insert.execute(values)?;
                debug_assert_eq!(inserted, 1, "a recorded row");
            }
        }
        let layers: Vec<String> = (0..LAYERS).map(|layer| format!("layers.{layer}")).collect();
        for range in self.ranges.drain(..) {
            self.counts.ranges += 1;
            let (text, string, domain) = match range.name {
                RangeName::Text(text) => (Some(text), None, 0),
                RangeName::Layer(layer) => (Some(layers[layer].as_str()), None, 0),
                RangeName::Module(layer, module) => (None, Some(module_string(layer, module)), MODULE_DOMAIN),
            };
            self.nvtx.execute(params![range.start, range.end, 59, text, range.tid, string, domain])?;
        }
        let made = |kind: Activity| self.next[kind as usize] as u64;
        self.counts.kernels = made(Activity::Kernel);
        self.counts.copies = made(Activity::Copy);
        self.counts.sets = made(Activity::Memset);
        self.counts.syncs = made(Activity::Sync);
        self.counts.calls = self.next.iter().map(|&made| made as u64).sum();
        Ok(())
    }
}

/// The id of a module's name.
fn module_string(layer: usize, module: usize) -> i64 {
    FIRST_NEW_STRING + i64::try_from(layer * MODULES.len() + module).unwrap_or(0)
}

/// The next nanosecond after `time` that belongs to a thread: no two rows of a table start at once,
/// so sorting has one outcome.
fn after(time: i64, lane: usize) -> i64 {
    time - time.rem_euclid(3) + 3 + i64::try_from(lane).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use flopgap_nsys::{CsvSink, Trace, Units};

    use super::*;

    fn report(trace: &Trace, name: &str) -> Vec<Vec<String>> {
        let mut sink = CsvSink::new(Vec::new(), Units::default());
        trace.report(name.parse().unwrap(), &mut sink).unwrap();
        let bytes = sink.into_inner();
        let mut reader = csv::Reader::from_reader(bytes.as_slice());
        let header: Vec<String> = reader.headers().unwrap().iter().map(str::to_owned).collect();
        let rows = reader.records().map(|row| row.unwrap().iter().map(str::to_owned).collect());
        std::iter::once(header).chain(rows).collect()
    }

    fn total(table: &[Vec<String>], column: &str) -> u64 {
        let at = table[0].iter().position(|name| name == column).unwrap();
        table[1..].iter().map(|row| row[at].parse::<u64>().unwrap()).sum()
    }

    #[test]
    fn reports_count_what_was_written() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("generated.sqlite");
        let counts = write_nsys_export(5_000, &path).unwrap();
        assert_eq!(counts.kernels, 5_000);
        assert_eq!(counts.calls, 5_000 + counts.copies + 2 * counts.syncs + counts.sets);
        let trace = Trace::open(&path).unwrap();
        assert_eq!(total(&report(&trace, "cuda_gpu_kern_sum"), "Instances"), counts.kernels);
        assert_eq!(total(&report(&trace, "cuda_api_sum"), "Num Calls"), counts.calls);
        assert_eq!(total(&report(&trace, "nvtx_sum"), "Instances"), counts.ranges);
        assert_eq!(total(&report(&trace, "cuda_kern_exec_sum"), "Count"), counts.kernels);
        let operations = counts.kernels + counts.copies + counts.sets;
        assert_eq!(report(&trace, "cuda_gpu_trace").len() as u64, 1 + operations);
        let tree = report(&trace, "nvtx_pushpop_trace");
        assert_eq!(tree.len() as u64, 1 + counts.ranges);
        let level = tree[0].iter().position(|name| name == "Lvl").unwrap();
        assert_eq!(tree[1..].iter().map(|row| row[level].as_str()).max(), Some("4"), "five levels from 0");
        assert_eq!(trace.warnings(), []);
        // Whole steps end with a kernel outside all ranges: 5000 = 4 whole steps of 1153, and a
        // part.
        let inside = report(&trace, "nvtx_kern_sum");
        let in_steps: Vec<Vec<String>> =
            inside.into_iter().filter(|row| row[0] == "NVTX Range" || row[0] == ":train_step").collect();
        assert_eq!(total(&in_steps, "Kern Inst"), counts.kernels - 4);
    }

    #[test]
    fn the_same_bytes_each_time() {
        let folder = tempfile::tempdir().unwrap();
        let bytes = ["a.sqlite", "b.sqlite"].map(|name| {
            let path = folder.path().join(name);
            write_nsys_export(2_000, &path).unwrap();
            fs::read(path).unwrap()
        });
        assert!(bytes[0] == bytes[1]);
    }
}

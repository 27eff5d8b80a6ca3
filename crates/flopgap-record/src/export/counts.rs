//! What was counted of launches before the recording, and which kernels of the recording it is of.
//!
//! A kernel is known by what was counted of launches that are like it: the same kernel with the
//! same sizes, after the same launches on its stream, as many of them as were seen.

use std::borrow::Cow;
use std::collections::BTreeMap;

use flopgap_kernels::{classify, demangle_nvidia};
use flopgap_ncu::{
    Arithmetic, FlopCounter, Launch, LaunchView, Metric, OperationType, Strings as NcuStrings, Symbol, Value,
};
use rusqlite::{Connection, params};
use rustc_hash::{FxHashMap, FxHashSet};

use super::names::Strings;
use super::schema::COUNTS;
use crate::format::counted::WORKS;
use crate::reader::{Event, Kernel, Work};

/// Counts of all processes.
#[derive(Debug, Default)]
pub(super) struct Counts {
    metrics: Vec<Vec<String>>,
    works: FxHashMap<Work<'static>, u32>,
    /// By group and works, of each depth.
    counted: FxHashMap<(u32, Likeness), Values>,
    kernels: Vec<Launched>,
    /// Of whole steps, by group, and what they are called.
    steps: (Vec<Values>, String),
    /// The last row of the table.
    last: i64,
}

/// The work and some of those before it; zeros stand for the others.
type Likeness = [u32; WORKS];

/// What launches are like, of each group that counted any like them.
type ByGroup = Vec<Option<Likeness>>;

/// How many launches before are compared, those that say most first.
const DEPTHS: [usize; 5] = [8, 4, 2, 1, 0];

/// Values of a group's metrics, of launches that are alike.
#[derive(Debug, Clone, Default)]
struct Values {
    times: u32,
    least: Vec<f64>,
    most: Vec<f64>,
    sum: Vec<f64>,
}

/// A kernel of the recording.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Launched {
    context: u32,
    stream: u32,
    /// Of a graph: its launch.
    graph_launch: u32,
    start: u64,
    row: i64,
    work: u32,
    graph: u32,
}

/// One metric of launches that are alike.
struct MetricOf {
    metric: String,
    least: f64,
    most: f64,
    mean: f64,
    times: u32,
}

impl Values {
    fn add(&mut self, values: &[f64]) {
        if self.times == 0 {
            (self.least, self.most, self.sum) = (values.to_vec(), values.to_vec(), values.to_vec());
        } else {
            for (at, &value) in values.iter().enumerate().take(self.sum.len()) {
                self.least[at] = self.least[at].min(value);
                self.most[at] = self.most[at].max(value);
                self.sum[at] += value;
            }
        }
        self.times += 1;
    }

    /// Whether all operations repeat.
    fn repeats(&self, metrics: &[String]) -> bool {
        let bounds = self.least.iter().zip(&self.most).zip(metrics);
        bounds.filter(|(_, metric)| is_of_operations(metric)).all(|((least, most), _)| least >= most)
    }
}

/// Whether as many values as metrics make sense as counts.
fn are_counts(values: &[f64], metrics: usize) -> bool {
    values.len() == metrics && values.iter().all(|value| value.is_finite() && *value >= 0.0)
}

/// Bytes depend on what the caches have; operations do not.
fn is_of_operations(metric: &str) -> bool {
    metric.contains("__ops_path_") || metric.contains("__sass_")
}

/// The last works, as many as the depth says.
fn likeness(works: &Likeness, depth: usize) -> Option<Likeness> {
    let mut alike = [0; WORKS];
    let from = WORKS - 1 - depth;
    alike[from..].copy_from_slice(&works[from..]);
    (!alike[from..].contains(&0)).then_some(alike)
}

impl Counts {
    /// Takes what a process counted.
    pub(super) fn define(&mut self, event: Event<'_>) {
        match event {
            Event::Metrics { group, names } => {
                let group = group as usize;
                // A file that says otherwise is damaged.
                if group < 64 {
                    self.metrics.resize(self.metrics.len().max(group + 1), Vec::new());
                    self.metrics[group] = names.split(' ').map(str::to_owned).collect();
                }
            }
            Event::Work { number, work } => {
                self.works.insert(work.into_owned(), number);
            }
            Event::Counted { group, works, values } => {
                let metrics = self.metrics.get(group as usize).map_or(0, Vec::len);
                if !are_counts(&values, metrics) {
                    return;
                }
                for alike in DEPTHS.into_iter().filter_map(|depth| likeness(&works, depth)) {
                    self.counted.entry((group, alike)).or_default().add(&values);
                }
            }
            Event::Step { group, values, range } => {
                let group = group as usize;
                let metrics = self.metrics.get(group).map_or(0, Vec::len);
                if metrics == 0 || !are_counts(&values, metrics) {
                    return;
                }
                let (steps, name) = &mut self.steps;
                steps.resize(self.metrics.len(), Values::default());
                steps[group].add(&values);
                *name = range.into_owned();
            }
            _ => {}
        }
    }

    /// Takes a kernel of the recording, which has this row.
    pub(super) fn kernel(&mut self, kernel: &Kernel, name: Option<&str>, row: u64) {
        if self.counted.is_empty() {
            return;
        }
        let Kernel { at, grid, block, dynamic_shared: shared, graph, .. } = *kernel;
        // Of this lifetime, a name is found without a copy of it.
        let works: &FxHashMap<Work<'_>, u32> = &self.works;
        let work = name
            .and_then(|name| works.get(&Work::Kernel { name: name.into(), grid, block, shared }).copied());
        let is_of_graph = at.node != 0;
        self.kernels.push(Launched {
            context: at.context,
            stream: at.stream,
            graph_launch: if is_of_graph { at.correlation } else { 0 },
            start: at.start,
            row: i64::try_from(row).unwrap_or(i64::MAX),
            work: work.unwrap_or(u32::MAX),
            graph: if is_of_graph { graph } else { 0 },
        });
    }

    /// Writes the tables of a process, if it counted, and forgets it. Returns of how many kernels
    /// the operations are known, and of how many they are not.
    pub(super) fn write(
        &mut self,
        database: &Connection,
        strings: &mut Strings,
        (global_pid, capability): (i64, Option<(u32, u32)>),
    ) -> rusqlite::Result<(u64, u64)> {
        let of_process = Counts { last: self.last, ..Counts::default() };
        let mut process = std::mem::replace(self, of_process);
        if process.counted.is_empty() && process.steps.0.is_empty() {
            return Ok((0, 0));
        }
        if self.last == 0 {
            database.execute_batch(COUNTS)?;
        }
        process.kernels.sort_unstable_by_key(|it| (it.context, it.stream, it.start, it.row));
        let (counts, known_rows) = (&process, FxHashMap::default());
        let mut writer = Alike { counts, database, strings, capability, known: known_rows, last: self.last };
        let mut insert = database.prepare("INSERT INTO FLOPGAP_KERNEL VALUES (?1, ?2)")?;
        let (mut known, mut unknown) = (0, 0);
        let mut before: FxHashMap<(u32, u32, u32), Likeness> = FxHashMap::default();
        let mut graphs = FxHashSet::default();
        for kernel in &process.kernels {
            // Kernels of a graph follow each other, and the launch of the graph is one work.
            if kernel.graph_launch != 0 && graphs.insert(kernel.graph_launch) {
                let graph = process.works.get(&Work::Graph(kernel.graph)).copied().unwrap_or(u32::MAX);
                shift(before.entry((kernel.context, kernel.stream, 0)).or_default(), graph);
            }
            let works = before.entry((kernel.context, kernel.stream, kernel.graph_launch)).or_default();
            shift(works, kernel.work);
            let works = *works;
            match writer.row(&works)? {
                Some((alike, is_known)) => {
                    insert.execute(params![kernel.row, alike])?;
                    known += u64::from(is_known);
                    unknown += u64::from(!is_known);
                }
                None => unknown += 1,
            }
        }
        for (work, &number) in &process.works {
            if let Work::Graph(_) = work {
                let mut works = [0; WORKS];
                works[WORKS - 1] = number;
                writer.row(&works)?;
            }
        }
        writer.steps(&process.steps, global_pid)?;
        self.last = writer.last;
        Ok((known, unknown))
    }
}

fn shift(works: &mut Likeness, next: u32) {
    works.copy_within(1.., 0);
    works[WORKS - 1] = next;
}

/// Writes each set of counts once.
struct Alike<'c> {
    counts: &'c Counts,
    database: &'c Connection,
    strings: &'c mut Strings,
    capability: Option<(u32, u32)>,
    /// The row of the counts of launches that are alike, by group, and whether their operations
    /// are known.
    known: FxHashMap<(u32, ByGroup), (i64, bool)>,
    last: i64,
}

impl Alike<'_> {
    /// The row of what is known of a launch after others.
    fn row(&mut self, works: &Likeness) -> rusqlite::Result<Option<(i64, bool)>> {
        let work = works[WORKS - 1];
        let groups = 0..u32::try_from(self.counts.metrics.len()).unwrap_or(0);
        let found: ByGroup = groups.map(|group| self.counts.best(group, works)).collect();
        if found.iter().all(Option::is_none) {
            return Ok(None);
        }
        let key = (work, found);
        if let Some(&row) = self.known.get(&key) {
            return Ok(Some(row));
        }
        let counted = &self.counts.counted;
        let values = (0..).zip(&key.1).map(|(group, alike)| counted.get(&(group, (*alike)?)));
        let values: Vec<Option<&Values>> = values.collect();
        let known = self.counts.works.iter().find(|(_, number)| **number == work).map(|(work, _)| work);
        let is_known = self.write_row(known, &values)?;
        self.known.insert(key, (self.last, is_known));
        Ok(Some((self.last, is_known)))
    }

    /// The rows of whole steps, if any were counted.
    fn steps(&mut self, (steps, range): &(Vec<Values>, String), process: i64) -> rusqlite::Result<()> {
        if steps.is_empty() {
            return Ok(());
        }
        let values = steps.iter().map(|values| Some(values).filter(|it| it.times > 0));
        self.write_row(None, &values.collect::<Vec<_>>())?;
        let name = self.strings.id(self.database, range)?;
        let row = params![self.last, process, name];
        self.database.execute("INSERT INTO FLOPGAP_STEP VALUES (?1, ?2, ?3)", row)?;
        Ok(())
    }

    /// Writes the next row, of what each group counted. Returns whether the operations are known.
    fn write_row(
        &mut self,
        work: Option<&Work<'static>>,
        by_group: &[Option<&Values>],
    ) -> rusqlite::Result<bool> {
        self.last += 1;
        let Alike { counts, database, ref mut strings, capability, last: row, .. } = *self;
        let values = counts.values(by_group);
        let (name, graph, sizes) = match work {
            Some(Work::Kernel { name, grid, block, shared }) => (
                Some(demangle_nvidia(name).map_or(Cow::Borrowed(&**name), |it| it.full)),
                None,
                Some((grid, block, shared)),
            ),
            Some(Work::Graph(graph)) => (None, Some(graph), None),
            None => (None, None, None),
        };
        let arithmetic =
            name.as_deref().map(|name| flopgap_phases::arithmetic(&classify(name))).unwrap_or_default();
        let name = name.map(|name| strings.id(database, &name)).transpose()?;
        let is_whole = by_group.iter().all(Option::is_some);
        let flops = |value: fn(&MetricOf) -> f64| operations(&values, value, &arithmetic, capability);
        let [least, most] = [flops(|it| it.least), flops(|it| it.most)];
        let total = |flops: &Operations| if is_whole { flops.total } else { None };
        let once = values.iter().filter(|it| is_of_operations(&it.metric)).map(|it| it.times).min();
        database.execute(
            "INSERT INTO FLOPGAP_COUNTED VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14)",
            params![
                row,
                name,
                graph,
                sizes.map(|(grid, ..)| grid[0]),
                sizes.map(|(grid, ..)| grid[1]),
                sizes.map(|(grid, ..)| grid[2]),
                sizes.map(|(_, block, _)| block[0]),
                sizes.map(|(_, block, _)| block[1]),
                sizes.map(|(_, block, _)| block[2]),
                sizes.map(|(.., shared)| shared),
                once,
                total(&least),
                total(&most),
                dram_bytes(&values),
            ],
        )?;
        let mut insert =
            database.prepare_cached("INSERT INTO FLOPGAP_METRIC VALUES (?1, ?2, ?3, ?4, ?5, ?6)")?;
        for it in &values {
            let metric = strings.id(database, &it.metric)?;
            insert.execute(params![row, metric, it.times, it.least, it.most, it.mean])?;
        }
        let mut insert = database.prepare_cached("INSERT INTO FLOPGAP_OPERATIONS VALUES (?1, ?2, ?3, ?4)")?;
        for (kind, least) in &least.by_type {
            let most = most.by_type.iter().find(|(other, _)| other == kind).map_or(*least, |(_, most)| *most);
            insert.execute(params![row, kind.as_str(), least.cast_signed(), most.cast_signed()])?;
        }
        Ok(total(&least).is_some())
    }
}

impl Counts {
    /// The launches that are most alike and whose operations repeat; without such, all that are the
    /// same work.
    fn best(&self, group: u32, works: &Likeness) -> Option<Likeness> {
        let metrics = self.metrics.get(group as usize)?;
        let mut once = None;
        for alike in DEPTHS.into_iter().filter_map(|depth| likeness(works, depth)) {
            let Some(values) = self.counted.get(&(group, alike)) else { continue };
            let repeats = values.repeats(metrics);
            if values.times > 1 || !repeats {
                return Some(alike);
            }
            once = Some(alike);
        }
        once
    }

    /// The metrics of all groups, those that several groups have once.
    fn values(&self, by_group: &[Option<&Values>]) -> Vec<MetricOf> {
        let mut all: Vec<MetricOf> = Vec::new();
        for (values, metrics) in by_group.iter().zip(&self.metrics) {
            let Some(values) = values else { continue };
            for (at, metric) in metrics.iter().enumerate() {
                let (least, most, times) = (values.least[at], values.most[at], values.times);
                match all.iter_mut().find(|it| it.metric == *metric) {
                    Some(known) => {
                        let before = known.mean * f64::from(known.times);
                        known.times += times;
                        known.mean = (before + values.sum[at]) / f64::from(known.times);
                        known.least = known.least.min(least);
                        known.most = known.most.max(most);
                    }
                    None => all.push(MetricOf {
                        metric: metric.clone(),
                        least,
                        most,
                        mean: values.sum[at] / f64::from(times),
                        times,
                    }),
                }
            }
        }
        all
    }
}

/// Floating-point operations of a launch.
struct Operations {
    total: Option<i64>,
    by_type: Vec<(OperationType, u64)>,
}

/// The operations that counters say, by the rules for reports of Nsight Compute.
fn operations(
    values: &[MetricOf],
    value: fn(&MetricOf) -> f64,
    arithmetic: &Arithmetic,
    capability: Option<(u32, u32)>,
) -> Operations {
    let mut strings = NcuStrings::default();
    let mut launch = Launch::default();
    launch.compute_capability = capability;
    let mut sums: BTreeMap<String, u64> = BTreeMap::new();
    for it in values.iter().filter(|it| is_of_operations(&it.metric)) {
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "counts, which are exact")]
        let count = value(it) as u64;
        *sums.entry(of_type(&it.metric)).or_default() += count;
    }
    let metrics = sums.into_iter().map(|(metric, count)| Metric {
        name: strings.intern(&metric),
        section: Symbol::EMPTY,
        unit: Symbol::EMPTY,
        value: Value::U64(count),
        spread: None,
    });
    launch.metrics = metrics.collect();
    let view = LaunchView { launch: &launch, strings: &strings };
    let flops = FlopCounter::new().count_as(view, arithmetic);
    let total = flops.total().and_then(|count| i64::try_from(count.value).ok());
    let counted = |(kind, measurement): (OperationType, flopgap_ncu::Measurement)| {
        Some((kind, measurement.count()?.value)).filter(|(_, count)| *count > 0)
    };
    Operations { total, by_type: flops.iter().filter_map(counted).collect() }
}

/// The counter of a type that a counter of one kind of instructions, or of sums of one type, is a
/// part of.
fn of_type(metric: &str) -> String {
    let part = metric.split_once("__ops_path_tensor_").and_then(|(unit, part)| {
        let (_, source) = part.split_once("src_")?;
        let source = source.trim_end_matches(".sum");
        let source = source.split_once("_dst_").map_or(source, |(source, _)| source);
        Some(format!("{unit}__ops_path_tensor_src_{source}.sum"))
    });
    part.unwrap_or_else(|| metric.to_owned())
}

/// Bytes read from and written to the memory, on average.
fn dram_bytes(values: &[MetricOf]) -> Option<i64> {
    let of = |name: &str| values.iter().find(|it| it.metric == name).map(|it| it.mean);
    #[allow(clippy::cast_possible_truncation, reason = "bytes of one launch")]
    Some((of("dram__bytes_read.sum")? + of("dram__bytes_write.sum")?).round() as i64)
}

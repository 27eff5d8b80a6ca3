//! What the programs that make tables of PyTorch's calls share.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "parts of programs")]

use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;
use std::path::Path;

use flopgap_calibration::accuracy;
use flopgap_graph::{Layer, Op};
use flopgap_roofline::machines;
use flopgap_roofline::pytorch::{
    About, Arithmetic, Call, CallEstimate, Computed, Costs, Errors, Estimate, Kind, NAMES, Peaks, Phase,
    PyTorch, Reach, Row, UNJUDGED, Way, to_bytes,
};
use serde::Deserialize;
use serde::de::DeserializeOwned;

/// What programs end with.
pub type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// The first line of the rows.
#[derive(Deserialize)]
pub struct Head {
    /// The GPU.
    pub device: String,
    /// PyTorch's version.
    pub torch: String,
    /// cuDNN's version.
    pub cudnn: u64,
}

/// The head and the runs of a file of JSON lines.
pub fn recorded<R: DeserializeOwned>(path: &Path) -> Result<(Head, Vec<R>)> {
    let text = std::fs::read_to_string(path)?;
    let mut lines = text.lines();
    let head = serde_json::from_str(lines.next().ok_or("no rows")?)?;
    let runs: std::result::Result<Vec<R>, _> = lines.map(serde_json::from_str).collect();
    Ok((head, runs?))
}

/// What each run has, whatever was measured of it.
#[derive(Deserialize)]
pub struct Steps {
    /// The model.
    pub model: String,
    /// The model, batch and precision.
    pub label: String,
    /// Microseconds of a step in a loop that is waited for, where a process that profiled nothing
    /// timed it.
    loop_us: Option<f64>,
    /// Why it was not measured.
    failed: Option<String>,
}

impl Steps {
    /// Nanoseconds of an eager step.
    pub fn nanoseconds(&self) -> Option<f64> {
        Some(self.loop_us? * 1e3)
    }

    /// Whether it was measured; otherwise why not is printed.
    pub fn is_measured(&self) -> bool {
        if let Some(why) = &self.failed {
            eprintln!("{}: not measured: {why}", self.label);
        }
        self.failed.is_none()
    }
}

/// The family of models that one is left out with: `swinv2` of `tv_swinv2_tiny`.
fn architecture(model: &str) -> String {
    let prefixes = ["tv_", "hf_", "tf_"];
    let name = prefixes.iter().fold(model, |name, prefix| name.strip_prefix(prefix).unwrap_or(name));
    name.chars().take_while(char::is_ascii_alphabetic).collect()
}

/// The architecture of models that are single layers, which nobody runs: tables have their calls,
/// but nothing is judged by them.
const LAYERS: &str = "layers";

/// Whether a model is single layers.
pub fn is_layers(steps: &Steps) -> bool {
    architecture(&steps.model) == LAYERS
}

/// The arithmetic of a run's products.
pub fn arithmetic(kind: &str, tf32: bool) -> Arithmetic {
    match (kind, tf32) {
        ("float32", true) => Arithmetic::Tf32,
        ("float32", false) => Arithmetic::Fp32,
        _ => Arithmetic::Half,
    }
}

/// The node of a layer: a recurrent one is as many layers as it has.
pub fn node(layer: &Layer) -> &str {
    let name = layer.name.as_str();
    if matches!(layer.op, Some(Op::Recurrent(_))) { name.split('.').next().unwrap_or_default() } else { name }
}

/// The mean; 0 of nothing.
pub fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len().max(1) as f64
}

/// What a node and a replay cost beside the kernels, of graphs whose time is measured: nanoseconds
/// and number of their kernels.
pub fn graph_costs(graphs: impl Iterator<Item = (f64, [f64; 2])>) -> [f64; 2] {
    let graphs: Vec<(f64, [f64; 2])> = graphs.collect();
    least([300.0, 8_000.0], |[node, replay]| {
        let of = |(time, [kernels, count]): &(f64, [f64; 2])| (time / (kernels + node * count + replay)).ln();
        mean(&graphs.iter().map(|graph| of(graph).abs()).collect::<Vec<_>>())
    })
}

/// What each of several counts costs a host, of steps that wait for it: their times and counts. Of
/// what several starts lead to, the best.
pub fn host_costs<const N: usize>(hosts: &[(f64, [f64; N])]) -> [f64; N] {
    let error = |costs: [f64; N]| {
        let host =
            |counts: &[f64; N]| costs.iter().zip(counts).map(|(cost, count)| cost * count).sum::<f64>();
        let errors = hosts.iter().map(|(time, counts)| (host(counts) / time - 1.0).abs());
        mean(&errors.collect::<Vec<_>>())
    };
    let mut starts = vec![[0.0; N]];
    for place in 0..N {
        let with = |start: &[f64; N], cost: f64| {
            let mut start = *start;
            start[place] = cost;
            start
        };
        let costs = [2_000.0, 8_000.0, 25_000.0];
        starts = starts.iter().flat_map(|start| costs.map(|cost| with(start, cost))).collect();
    }
    let found = starts.into_iter().map(|start| least(start, error));
    found.min_by(|a, b| error(*a).total_cmp(&error(*b))).unwrap_or([0.0; N])
}

/// The values of a few numbers that make a function least, by steps along each.
pub fn least<const N: usize>(mut at: [f64; N], of: impl Fn([f64; N]) -> f64) -> [f64; N] {
    let mut best = of(at);
    let mut step = 0.5;
    while step > 0.01 {
        let mut moved = false;
        for place in 0..N {
            for factor in [1.0 + step, 1.0 / (1.0 + step)] {
                let mut other = at;
                other[place] *= factor;
                let found = of(other);
                if found < best {
                    (at, best, moved) = (other, found, true);
                }
            }
        }
        if !moved {
            step /= 2.0;
        }
    }
    at
}

/// A model that was measured in one precision, with its graph.
pub trait Measured {
    /// The model and its steps.
    fn steps(&self) -> &Steps;
    /// How it computes.
    fn computed(&self) -> Computed;
    /// How its products are computed, as tables name it.
    fn precision(&self) -> &'static str {
        self.computed().products.name()
    }
    /// Its calls by layer.
    fn calls(&self) -> &[(usize, Row)];
    /// How many of its calls are of a kind.
    fn count(&self, kind: Kind) -> f64 {
        self.calls().iter().filter(|(_, row)| row.call.kind == kind).count() as f64
    }
    /// What tables have of it.
    fn rows(&self) -> Vec<Row>;
    /// Nanoseconds of all kernels, and what lies between them.
    fn kernels(&self) -> [f64; 2];
    /// Nanoseconds of a run, if it was measured in that way.
    fn nanoseconds(&self, way: Way) -> Option<f64>;
    /// What tables say of it.
    fn estimate(&self, by: &PyTorch, way: Way) -> Option<Estimate>;
}

/// A GPU, and what was measured on it.
pub struct Gpu<R> {
    name: &'static str,
    /// See [`About`].
    pub about: About,
    /// The runs.
    pub runs: Vec<R>,
}

/// What `read` finds in the folder of each GPU, measured on `host`.
pub fn gpus<R: Measured>(
    folder: &Path,
    host: &str,
    read: impl Fn(&Path) -> Result<(Head, Vec<R>)>,
) -> Result<Vec<Gpu<R>>> {
    let gpus = NAMES.iter().map(|name| {
        let folder = folder.join(name);
        let (head, runs) = read(&folder)?;
        let models = runs.iter().map(Measured::steps).filter(|steps| !is_layers(steps));
        let models = models.map(|steps| &steps.model).collect::<BTreeSet<_>>().len();
        Ok(Gpu { name, about: about(name, &head, host, models)?, runs })
    });
    gpus.collect()
}

/// A whole model: architecture, what was measured, what was estimated.
pub struct Judged<'a, R> {
    architecture: String,
    run: &'a R,
    nanoseconds: f64,
    estimate: Estimate,
    /// Whether the interval covers it whose tails come from other architectures.
    is_covered: bool,
}

impl<R: Measured> Judged<'_, R> {
    /// Whether its step waited for the host, by the estimate.
    fn is_launched(&self) -> bool {
        self.estimate.host_ns > self.estimate.gpu_ns
    }

    /// The logarithm of measured over estimated.
    fn off(&self) -> f64 {
        (self.nanoseconds / self.estimate.nanoseconds).ln()
    }

    fn error(&self) -> f64 {
        (self.estimate.nanoseconds / self.nanoseconds - 1.0).abs()
    }

    /// The calls whose estimates are the furthest from their measured times.
    fn cause(&self) -> String {
        let mut off: BTreeMap<(Kind, Phase), f64> = BTreeMap::new();
        let mut layers: BTreeMap<usize, (Kind, Phase)> = BTreeMap::new();
        for (layer, row) in self.run.calls() {
            let key = (row.call.kind, row.call.phase);
            *off.entry(key).or_default() -= row.nanoseconds;
            layers.entry(*layer).or_insert(key);
        }
        let mut seen: BTreeMap<usize, usize> = BTreeMap::new();
        for call in &self.estimate.calls {
            // The calls of a layer come in the order of its rows.
            let place = seen.entry(call.layer).or_default();
            let of = self.run.calls().iter().filter(|(layer, _)| *layer == call.layer).nth(*place);
            *place += 1;
            let key = of.map(|(_, row)| (row.call.kind, row.call.phase)).or(layers.get(&call.layer).copied());
            if let Some(key) = key {
                *off.entry(key).or_default() += call.nanoseconds;
            }
        }
        let most = off.iter().max_by(|a, b| a.1.abs().total_cmp(&b.1.abs()));
        most.map_or_else(String::new, |((kind, phase), time)| {
            format!("{}{}: {:+.0} µs", kind.name(), phase.name(), time / 1e3)
        })
    }
}

/// The runs of a GPU in each way, and its calls by kind.
pub type OfGpu<'a, R, const N: usize> = ([Vec<Judged<'a, R>>; N], ByKind);

/// Every run of a GPU in each way, estimated from other architectures on all GPUs.
fn judge<R: Measured, const N: usize>(gpus: &[Gpu<R>], own: usize, ways: [Way; N]) -> OfGpu<'_, R, N> {
    let mut by_way = [(); N].map(|()| Vec::new());
    let mut by_kind: ByKind = BTreeMap::new();
    let architectures: BTreeSet<String> =
        gpus[own].runs.iter().map(|run| architecture(&run.steps().model)).collect();
    for name in architectures.iter().filter(|name| *name != LAYERS) {
        let measured = gpus.iter().map(|gpu| {
            let others = gpu.runs.iter().filter(|run| architecture(&run.steps().model) != *name);
            (gpu.about.clone(), others.flat_map(Measured::rows).collect())
        });
        let others = &PyTorch::together(&measured.collect::<Vec<_>>())[own];
        for run in gpus[own].runs.iter().filter(|run| architecture(&run.steps().model) == *name) {
            judge_calls(&run.rows(), others, &mut by_kind);
            for (way, judged) in ways.into_iter().zip(&mut by_way) {
                let Some(estimate) = run.estimate(others, way) else { continue };
                if !estimate.missing.is_empty() {
                    eprintln!("{}, {way:?}: without {:?}", run.steps().label, estimate.missing);
                } else if let Some(nanoseconds) = run.nanoseconds(way) {
                    let architecture = name.clone();
                    judged.push(Judged { architecture, run, nanoseconds, estimate, is_covered: false });
                }
            }
        }
    }
    (by_way, by_kind)
}

/// Calls, estimated from those of others.
fn judge_calls(rows: &[Row], others: &PyTorch, by_kind: &mut ByKind) {
    let mut known: BTreeMap<&Call, Option<CallEstimate>> = BTreeMap::new();
    for row in rows.iter().filter(|row| row.kernels > 0.0) {
        let call = known.entry(&row.call).or_insert_with(|| others.call(0, &row.call));
        if let Some(call) = call.as_ref().filter(|call| call.nanoseconds > 0.0) {
            judge_call(by_kind, row, call);
        }
    }
}

/// Estimates every run from other architectures, which says how wide the intervals of calls are and
/// then those of models; gives the runs of each GPU, and the tails of each way on it.
pub fn judged<R: Measured, const N: usize>(
    gpus: &mut [Gpu<R>],
    ways: [Way; N],
) -> (&[Gpu<R>], Vec<OfGpu<'_, R, N>>, OfWays<N>) {
    for own in 0..gpus.len() {
        gpus[own].about.reaches = reaches(&judge(gpus, own, []).1);
    }
    let gpus = &*gpus;
    let mut judged: Vec<_> = (0..gpus.len()).map(|own| judge(gpus, own, ways)).collect();
    let tails = judged.iter_mut().map(|(by_way, _)| by_way.each_mut().map(|runs| cover(runs)));
    let tails = tails.collect();
    (gpus, judged, tails)
}

/// A quantile of values in any order.
fn quantile(mut values: Vec<f64>, at: f64) -> f64 {
    values.sort_by(f64::total_cmp);
    accuracy::quantile(&values, at).unwrap_or(f64::NAN)
}

/// The 5th and 95th percentiles of scores; 0 of nothing. All architectures have the same weight,
/// however many runs each has. A new architecture is equally likely to fall between any two of
/// these, so the percentiles lie further out the fewer there are (conformal prediction).
fn tails(scores: &[(&str, f64)]) -> [f64; 2] {
    let mut runs: BTreeMap<&str, f64> = BTreeMap::new();
    for (name, _) in scores {
        *runs.entry(name).or_default() += 1.0;
    }
    let count = runs.len() as f64;
    [-1.0, 1.0].map(|side| {
        let mut sorted: Vec<(f64, f64)> =
            scores.iter().map(|(name, score)| (side * score, 1.0 / runs[name])).collect();
        sorted.sort_by(|a, b| a.0.total_cmp(&b.0));
        let mut left = 0.95 * (count + 1.0);
        let found = sorted.iter().find(|(_, weight)| {
            left -= weight;
            left <= 1e-9
        });
        side * found.or(sorted.last()).map_or(0.0, |(score, _)| *score)
    })
}

/// What the intervals of a way are made of: tails of runs whose time the GPU decides, and of those
/// that wait for their host ([`Errors`]).
pub type Tails = [[f64; 2]; 2];

/// Those of each way on each GPU.
pub type OfWays<const N: usize> = Vec<[Tails; N]>;

/// Which runs of a way are covered by intervals that other architectures give; the tails that all
/// of them give.
fn cover<R: Measured>(runs: &mut [Judged<'_, R>]) -> Tails {
    let scores: Vec<(String, bool, f64)> = runs
        .iter()
        .map(|one| {
            let unit = if one.is_launched() { 1.0 } else { one.estimate.deviation };
            (one.architecture.clone(), one.is_launched(), one.off() / unit)
        })
        .collect();
    let without = |name: &str| {
        [false, true].map(|launched| {
            let others = scores.iter().filter(|score| score.0 != name && score.1 == launched);
            tails(&others.map(|score| (score.0.as_str(), score.2)).collect::<Vec<_>>())
        })
    };
    let mut known: BTreeMap<String, Tails> = BTreeMap::new();
    for one in runs {
        let own = one.architecture.as_str();
        let [tails, waits] = *known.entry(own.to_owned()).or_insert_with(|| without(own));
        let [low, high] = one.estimate.interval(tails, waits);
        one.is_covered = (low..=high).contains(&one.nanoseconds);
    }
    without("")
}

/// Errors of runs, beside the tails of all.
pub fn errors<R: Measured>(judged: &[Judged<'_, R>], tails: Tails) -> Errors {
    errors_of(&judged.iter().collect::<Vec<_>>(), tails)
}

/// How far hosts of one kind are apart: of ln(time), half the width that has nine tenths of them.
/// On five machines, steps took 0.83, 0.97, 1.05, 1.09 and 1.23 times what one fit to three of
/// them says; all of them were timed after profiles.
const HOSTS: f64 = 0.235;

/// Errors of a way whose steps may wait for their host, `place` among the ways, on a GPU that
/// takes what `graph` says where it decides. Where no such step was timed, those of another GPU.
/// Intervals have the scatter of hosts, too.
pub fn launched<R: Measured, const N: usize>(
    judged: &[OfGpu<'_, R, N>],
    tails: &[[Tails; N]],
    [own, place]: [usize; 2],
    graph: &Errors,
) -> Errors {
    let has_runs = |gpu: &usize| !judged[*gpu].0[place].is_empty();
    let Some(of) = std::iter::once(own).chain(0..judged.len()).find(has_runs) else {
        return *graph;
    };
    let found = errors(&judged[of].0[place], tails[of][place]);
    let waits = found.waits.map(|tail| HOSTS.hypot(tail).copysign(tail));
    let own = if of == own { found } else { Errors { runs: 0, ..found } };
    Errors { tails: graph.tails, waits, ..own }
}

fn errors_of<R: Measured>(judged: &[&Judged<'_, R>], [tails, waits]: Tails) -> Errors {
    let all: Vec<f64> = judged.iter().map(|one| one.error()).collect();
    Errors {
        runs: judged.len(),
        mape: mean(&all),
        median: quantile(all.clone(), 0.5),
        p90: quantile(all, 0.9),
        coverage: judged.iter().filter(|one| one.is_covered).count() as f64 / judged.len().max(1) as f64,
        tails,
        waits,
    }
}

/// A share in percent.
fn percent(fraction: f64) -> String {
    format!("{:.1}", 100.0 * fraction)
}

/// Lines about the runs of a way: all of them, and by precision.
fn print_way<R: Measured>(name: &str, judged: &[Judged<'_, R>]) {
    print_whole(name, &judged.iter().collect::<Vec<_>>());
    for arithmetic in [Arithmetic::Fp32, Arithmetic::Tf32, Arithmetic::Half] {
        let of: Vec<_> = judged.iter().filter(|one| one.run.computed().products == arithmetic).collect();
        if let Some(first) = of.first() {
            print_whole(&format!("{name}, {}", first.run.precision()), &of);
        }
    }
}

/// A line about runs.
fn print_whole<R: Measured>(name: &str, judged: &[&Judged<'_, R>]) {
    if judged.is_empty() {
        return;
    }
    let found = errors_of(judged, Tails::default());
    println!(
        "| {name} | {} | {} | {} | {} | {} |",
        found.runs,
        percent(found.mape),
        percent(found.median),
        percent(found.p90),
        percent(found.coverage)
    );
}

/// The tables of a GPU, whose first two ways are graphs and eager mode; `more` adds lines to the
/// first.
pub fn print_gpu<R: Measured, const N: usize>(
    what: &str,
    gpu: &Gpu<R>,
    (names, (by_way, by_kind)): ([&str; N], &OfGpu<'_, R, N>),
) {
    println!("\n{}, {} models\n", gpu.about.device, gpu.about.models);
    println!("| {what} as | runs | MAPE, % | median | p90 | covered |\n|---|---:|---:|---:|---:|---:|");
    for (name, judged) in names.into_iter().zip(by_way) {
        print_way(name, judged);
    }
    let on_gpu: Vec<_> = by_way[1].iter().filter(|one| !one.is_launched()).collect();
    print_whole("eager, where the GPU decides", &on_gpu);
    print_sums(&by_way[0], &gpu.about.costs);
    print_calls(by_kind);
    print_worst("as a graph", &by_way[0], true);
}

/// The runs of a way that are furthest off; causes are by the calls of a run that is not compiled.
pub fn print_worst<R: Measured>(title: &str, judged: &[Judged<'_, R>], has_causes: bool) {
    if judged.is_empty() {
        return;
    }
    let [head, rule] = if has_causes { [" what errs most |", "---|"] } else { [""; 2] };
    println!("\n| worst {title} | measured, µs | estimated |{head}\n|---|---:|---:|{rule}");
    let mut worst: Vec<_> = judged.iter().collect();
    worst.sort_by(|a, b| b.off().abs().total_cmp(&a.off().abs()));
    for one in worst.into_iter().take(12) {
        let [measured, estimated] = [one.nanoseconds, one.estimate.nanoseconds].map(|time| time / 1e3);
        let cause = if has_causes { format!(" {} |", one.cause()) } else { String::new() };
        let (label, precision) = (&one.run.steps().label, one.run.precision());
        println!("| {label}, {precision} | {measured:.0} | {estimated:.0} |{cause}");
    }
}

/// A line about errors of what has no intervals.
pub fn print_errors(name: &str, errors: &[f64]) {
    let (count, mean) = (errors.len(), percent(mean(errors)));
    let [median, p90] = [0.5, 0.9].map(|at| percent(quantile(errors.to_vec(), at)));
    println!("| {name} | {count} | {mean} | {median} | {p90} | - |");
}

/// A line about whole graphs by their measured kernels: what the costs beside them leave.
fn print_sums<R: Measured>(judged: &[Judged<'_, R>], costs: &Costs) {
    let error = |one: &Judged<'_, R>| {
        let [kernels, count] = one.run.kernels();
        ((kernels + costs.node * count + costs.replay) / one.nanoseconds - 1.0).abs()
    };
    print_errors("graph, by its measured kernels", &judged.iter().map(error).collect::<Vec<_>>());
}

/// Adds the error of a call, and how many deviations it is.
fn judge_call(by_kind: &mut ByKind, row: &Row, call: &CallEstimate) {
    let error = (call.nanoseconds / row.nanoseconds - 1.0).abs();
    let off = (row.nanoseconds / call.nanoseconds).ln().abs();
    let score = off / (call.high / call.nanoseconds).ln();
    by_kind.entry((row.call.phase, row.call.kind, row.call.arithmetic)).or_default().push((error, score));
}

/// Errors of calls by kind, and how many deviations they are.
pub type ByKind = BTreeMap<(Phase, Kind, Arithmetic), Vec<(f64, f64)>>;

/// The widths of intervals that nine tenths of the calls are in. Those that scores are taken of are
/// as wide as a table that nobody judged has.
fn reaches(by_kind: &ByKind) -> Vec<Reach> {
    let tables = by_kind.iter().map(|((phase, kind, arithmetic), judged)| {
        let scores = judged.iter().map(|(_, score)| *score).collect();
        Reach { phase: *phase, kind: *kind, arithmetic: *arithmetic, reach: UNJUDGED * quantile(scores, 0.9) }
    });
    tables.collect()
}

/// A table of errors by kind.
fn print_calls(by_kind: &ByKind) {
    println!(
        "\n| calls | arithmetic | calls judged | MAPE, % | median | p90 |\n|---|---|---:|---:|---:|---:|"
    );
    for ((phase, kind, arithmetic), judged) in by_kind {
        let errors: Vec<f64> = judged.iter().map(|(error, _)| *error).collect();
        let mean = mean(&errors);
        println!(
            "| {}{} | {} | {} | {} | {} | {} |",
            kind.name(),
            phase.name(),
            arithmetic.name(),
            errors.len(),
            percent(mean),
            percent(quantile(errors.clone(), 0.5)),
            percent(quantile(errors, 0.9))
        );
    }
}

/// What was measured on a GPU, before it is judged.
fn about(gpu: &str, head: &Head, host: &str, models: usize) -> Result<About> {
    // What the drivers have for programs; data sheets say more.
    let memory_bytes = if gpu == "h100" { 85_520_809_984 } else { 150_109_880_320 };
    let torch = head.torch.split('+').next().unwrap_or_default();
    let known = &machines::named(gpu).ok_or_else(|| format!("{gpu}: no such machine"))?.peaks;
    Ok(About {
        device: head.device.clone(),
        software: format!("PyTorch {torch}, cuDNN {}.{}", head.cudnn / 10_000, head.cudnn / 100 % 100),
        host: host.to_owned(),
        memory_bytes,
        // NVIDIA's data sheets of H100 SXM and H200 SXM differ in the memory alone.
        peaks: Peaks {
            bytes_per_second: known.bytes_per_second,
            fp32: 66.9e12,
            tf32: 494.5e12,
            half: 989e12,
            units: 132.0,
        },
        costs: Costs::default(),
        models,
        eager: Errors::default(),
        graph: Errors::default(),
        compiled: None,
        reaches: Vec::new(),
    })
}

/// Writes the file of calls of a GPU into a folder.
pub fn write<R: Measured>(gpu: &Gpu<R>, about: &About, folder: &Path, extension: &str) -> Result<()> {
    let output = folder.join(gpu.name).with_extension(extension);
    let rows = gpu.runs.iter().flat_map(Measured::rows);
    // A call that was measured several times has one row: its median.
    let mut by_call: BTreeMap<Call, Vec<Row>> = BTreeMap::new();
    for row in rows {
        by_call.entry(row.call.clone()).or_default().push(row);
    }
    let rows: Vec<Row> = by_call
        .into_values()
        .filter_map(|mut rows| {
            rows.sort_by(|a, b| a.nanoseconds.total_cmp(&b.nanoseconds));
            let middle = rows.len() / 2;
            rows.into_iter().nth(middle)
        })
        .collect();
    let bytes = zstd::encode_all(&to_bytes(about, &rows)?[..], 22)?;
    eprintln!("{}: {} calls, {} bytes", output.display(), rows.len(), bytes.len());
    std::fs::write(&output, bytes)?;
    Ok(())
}

//! What the programs that make tables of PyTorch's calls share.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "parts of programs")]

use std::collections::BTreeMap;
use std::error::Error;
use std::path::{Path, PathBuf};

use flopgap_calibration::accuracy;
use flopgap_graph::{Graph, Layer, Op};
use flopgap_roofline::machines;
use flopgap_roofline::pytorch::{
    About, Arithmetic, Call, CallEstimate, Costs, Errors, Estimate, Kind, NAMES, Peaks, Phase, Reach, Row,
    UNJUDGED, to_text,
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

/// What each run has: how long a step took, timed in two ways.
#[derive(Deserialize)]
pub struct Steps {
    /// The model, batch and precision.
    pub label: String,
    /// Microseconds of a step that is waited for.
    #[serde(default)]
    step_us: f64,
    /// Microseconds of a step in a loop that is waited for.
    #[serde(default)]
    loop_us: f64,
    /// Why it was not measured.
    failed: Option<String>,
}

impl Steps {
    /// Nanoseconds of a step: the faster of both ways, which others disturb.
    pub fn nanoseconds(&self) -> f64 {
        self.loop_us.min(self.step_us) * 1e3
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
pub fn architecture(model: &str) -> String {
    let prefixes = ["tv_", "hf_", "tf_"];
    let name = prefixes.iter().fold(model, |name, prefix| name.strip_prefix(prefix).unwrap_or(name));
    name.chars().take_while(char::is_ascii_alphabetic).collect()
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
    if is_recurrent(layer) { name.split('.').next().unwrap_or_default() } else { name }
}

/// Whether the kernels of a layer run beside those of others of its node.
pub fn is_recurrent(layer: &Layer) -> bool {
    matches!(layer.op, Some(Op::Recurrent(_)))
}

/// How many layers each recurrent node has.
pub fn recurrent_layers(graph: &Graph) -> BTreeMap<&str, f64> {
    let mut all = BTreeMap::new();
    for layer in graph.layers.iter().filter(|layer| is_recurrent(layer)) {
        *all.entry(node(layer)).or_default() += 1.0;
    }
    all
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

/// What each of several counts costs a host, of steps that wait for it: their times and counts.
pub fn host_costs<const N: usize>(hosts: &[(f64, [f64; N])], start: [f64; N]) -> [f64; N] {
    least(start, |costs| {
        let host =
            |counts: &[f64; N]| costs.iter().zip(counts).map(|(cost, count)| cost * count).sum::<f64>();
        let errors = hosts.iter().map(|(time, counts)| (time / host(counts)).ln().abs());
        mean(&errors.collect::<Vec<_>>())
    })
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

/// A whole model: architecture, what was measured, what was estimated.
pub struct Judged<'a, R> {
    /// What it was left out with.
    pub architecture: &'a str,
    /// The run.
    pub run: &'a R,
    /// What was measured.
    pub nanoseconds: f64,
    /// What was estimated.
    pub estimate: Estimate,
    /// Whether the interval covers it whose tails come from other architectures.
    pub is_covered: bool,
}

impl<R> Judged<'_, R> {
    /// Whether its step waited for the host, by the estimate.
    pub fn is_launched(&self) -> bool {
        self.estimate.host_ns > self.estimate.gpu_ns
    }

    /// The logarithm of measured over estimated.
    fn off(&self) -> f64 {
        (self.nanoseconds / self.estimate.nanoseconds).ln()
    }

    /// The error, as large for half as for twice the time.
    pub fn score_of_error(&self) -> f64 {
        self.off().abs()
    }

    fn error(&self) -> f64 {
        (self.estimate.nanoseconds / self.nanoseconds - 1.0).abs()
    }
}

/// A quantile of values in any order.
pub fn quantile(mut values: Vec<f64>, at: f64) -> f64 {
    values.sort_by(f64::total_cmp);
    accuracy::quantile(&values, at).unwrap_or(f64::NAN)
}

/// The 5th and 95th percentile; 0 of nothing.
fn tails(scores: impl Iterator<Item = f64>) -> [f64; 2] {
    let scores: Vec<f64> = scores.collect();
    if scores.is_empty() { [0.0; 2] } else { [0.05, 0.95].map(|at| quantile(scores.clone(), at)) }
}

/// What the intervals of a way are made of: tails of runs whose time the GPU decides, and of those
/// that wait for their host ([`Errors`]).
pub type Tails = [[f64; 2]; 2];

/// Which runs of a way, on all GPUs, are covered by intervals that other architectures give; the
/// tails that all of them give.
pub fn cover<'r, 'a: 'r, R: 'a>(runs: impl Iterator<Item = &'r mut Judged<'a, R>>) -> Tails {
    let mut runs: Vec<_> = runs.collect();
    let scores: Vec<(&str, bool, f64)> = runs
        .iter()
        .map(|one| {
            let unit = if one.is_launched() { 1.0 } else { one.estimate.deviation };
            (one.architecture, one.is_launched(), one.off() / unit)
        })
        .collect();
    let without = |name: &str| {
        [false, true].map(|launched| {
            let others = scores.iter().filter(|score| score.0 != name && score.1 == launched);
            tails(others.map(|score| score.2))
        })
    };
    let mut known: BTreeMap<&str, Tails> = BTreeMap::new();
    for one in &mut runs {
        let [tails, waits] = *known.entry(one.architecture).or_insert_with(|| without(one.architecture));
        let [low, high] = one.estimate.interval(tails, waits);
        one.is_covered = (low..=high).contains(&one.nanoseconds);
    }
    without("")
}

/// Errors of runs, beside the tails of all.
pub fn errors<R>(judged: &[&Judged<'_, R>], [tails, waits]: Tails) -> Errors {
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

/// Those of a table that nobody judged yet.
pub const UNKNOWN: Errors =
    Errors { runs: 0, mape: 0.0, median: 0.0, p90: 0.0, coverage: 0.0, tails: [0.0; 2], waits: [0.0; 2] };

/// A share in percent.
pub fn percent(fraction: f64) -> String {
    format!("{:.1}", 100.0 * fraction)
}

/// A line about runs.
pub fn print_whole<R>(name: &str, judged: &[&Judged<'_, R>]) {
    if judged.is_empty() {
        return;
    }
    let found = errors(judged, Tails::default());
    println!(
        "| {name} | {} | {} | {} | {} | {} |",
        found.runs,
        percent(found.mape),
        percent(found.median),
        percent(found.p90),
        percent(found.coverage)
    );
}

/// A line about errors of what has no intervals.
pub fn print_errors(name: &str, errors: &[f64]) {
    let (count, mean) = (errors.len(), percent(mean(errors)));
    let [median, p90] = [0.5, 0.9].map(|at| percent(quantile(errors.to_vec(), at)));
    println!("| {name} | {count} | {mean} | {median} | {p90} | - |");
}

/// A line about whole graphs by their measured kernels, nanoseconds and number: what the costs
/// beside them leave.
pub fn print_sums<R>(judged: &[Judged<'_, R>], kernels: impl Fn(&R) -> [f64; 2], costs: &Costs) {
    let error = |one: &Judged<'_, R>| {
        let [kernels, count] = kernels(one.run);
        ((kernels + costs.node * count + costs.replay) / one.nanoseconds - 1.0).abs()
    };
    print_errors("graph, by its measured kernels", &judged.iter().map(error).collect::<Vec<_>>());
}

/// Adds the error of a call, and how many deviations it is.
pub fn judge_call(by_kind: &mut ByKind, row: &Row, call: &CallEstimate) {
    let error = (call.nanoseconds / row.nanoseconds - 1.0).abs();
    let off = (row.nanoseconds / call.nanoseconds).ln().abs();
    let score = off / (call.high / call.nanoseconds).ln();
    by_kind.entry((row.call.phase, row.call.kind, row.call.arithmetic)).or_default().push((error, score));
}

/// Errors of calls by kind, and how many deviations they are.
pub type ByKind = BTreeMap<(Phase, Kind, Arithmetic), Vec<(f64, f64)>>;

/// The widths of intervals that nine tenths of the calls are in. Those that scores are taken of are
/// as wide as a table that nobody judged has.
pub fn reaches(by_kind: &ByKind) -> Vec<Reach> {
    let tables = by_kind.iter().map(|((phase, kind, arithmetic), judged)| {
        let scores = judged.iter().map(|(_, score)| *score).collect();
        Reach { phase: *phase, kind: *kind, arithmetic: *arithmetic, reach: UNJUDGED * quantile(scores, 0.9) }
    });
    tables.collect()
}

/// A table of errors by kind.
pub fn print_calls(by_kind: &ByKind) {
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
pub fn about(gpu: &str, head: &Head, host: &str, models: usize) -> Result<About> {
    let torch = head.torch.split('+').next().unwrap_or_default();
    let known = &machines::named(gpu).ok_or_else(|| format!("{gpu}: no such machine"))?.peaks;
    Ok(About {
        device: head.device.clone(),
        software: format!("PyTorch {torch}, cuDNN {}.{}", head.cudnn / 10_000, head.cudnn / 100 % 100),
        host: host.to_owned(),
        memory_bytes: known.memory_bytes,
        // NVIDIA's data sheets of H100 SXM and H200 SXM differ in the memory alone.
        peaks: Peaks {
            bytes_per_second: known.bytes_per_second,
            fp32: 66.9e12,
            tf32: 494.5e12,
            half: 989e12,
            units: 132.0,
        },
        costs: Costs {
            node: 0.0,
            replay: 0.0,
            operator: 0.0,
            module: 0.0,
            launch: 0.0,
            gradient: 0.0,
            tensor: 0.0,
        },
        models,
        eager: UNKNOWN,
        graph: UNKNOWN,
        compiled: None,
        reaches: Vec::new(),
    })
}

/// The folder of a GPU's recordings, of each GPU.
pub fn folders(folder: &Path) -> impl Iterator<Item = (&'static str, PathBuf)> + '_ {
    NAMES.iter().map(move |name| (*name, folder.join(name)))
}

/// Writes the file of calls.
pub fn write(about: &About, rows: Vec<Row>, output: &Path) -> Result<()> {
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
        .map(|row| Row { nanoseconds: row.nanoseconds.round(), ..row })
        .collect();
    let bytes = zstd::encode_all(to_text(about, &rows)?.as_bytes(), 22)?;
    eprintln!("{}: {} calls, {} bytes", output.display(), rows.len(), bytes.len());
    std::fs::write(output, bytes)?;
    Ok(())
}

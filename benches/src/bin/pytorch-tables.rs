//! Makes the file of calls that PyTorch makes, and the tables of errors in
//! `docs/measurements/calibration.md`, from what `benches/pytorch/measure.py` wrote.
//!
//! ```sh
//! cargo run --release -p flopgap-benches --bin pytorch-tables FOLDER \
//!     crates/flopgap-roofline/machines/h100.pytorch.zst
//! ```
//!
//! Every model is estimated by the models of other architectures. Without a file, nothing is
//! written.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a program")]

use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;
use std::path::Path;
use std::process::ExitCode;

use flopgap_calibration::accuracy;
use flopgap_graph::{Graph, Op, Shapes, read};
use flopgap_roofline::pytorch::{
    About, Arithmetic, Call, CallEstimate, Computed, Costs, Errors, Estimate, Kind, Peaks, PyTorch, Reach,
    Row, UNJUDGED, Way, launches, to_text,
};
use serde::Deserialize;

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// The first line of the rows.
#[derive(Deserialize)]
struct Head {
    device: String,
    torch: String,
    cudnn: u64,
}

/// A model in one precision.
#[derive(Deserialize)]
struct Run {
    model: String,
    label: String,
    #[serde(default)]
    kind: String,
    #[serde(default)]
    tf32: bool,
    #[serde(default)]
    step_us: f64,
    #[serde(default)]
    loop_us: f64,
    graph_us: Option<f64>,
    /// Kernels of each node: name and nanoseconds.
    #[serde(default)]
    nodes: Vec<(String, Vec<(String, f64)>)>,
    failed: Option<String>,
}

/// A run with its graph and what was measured of each call.
struct Measured {
    run: Run,
    graph: Graph,
    computed: Computed,
    /// Layer, call, kernels, nanoseconds.
    calls: Vec<(usize, Row)>,
}

impl Run {
    /// The family of models that it is left out with: `swinv2` of `tv_swinv2_tiny`.
    fn architecture(&self) -> String {
        let name = ["tv_", "hf_", "tf_"]
            .iter()
            .fold(self.model.as_str(), |name, prefix| name.strip_prefix(prefix).unwrap_or(name));
        name.chars().take_while(char::is_ascii_alphabetic).collect()
    }

    fn arithmetic(&self) -> Arithmetic {
        match (self.kind.as_str(), self.tf32) {
            ("float32", true) => Arithmetic::Tf32,
            ("float32", false) => Arithmetic::Fp32,
            _ => Arithmetic::Half,
        }
    }
}

impl Measured {
    fn new(run: Run, graph: Graph) -> Self {
        let computed = Computed { products: run.arithmetic(), cudnn: run.arithmetic() };
        let nodes: BTreeMap<&str, &[(String, f64)]> =
            run.nodes.iter().map(|(name, kernels)| (name.as_str(), kernels.as_slice())).collect();
        // A recurrent node is as many layers as it has.
        let node = |name: &str| name.split('.').next().unwrap_or_default().to_owned();
        let mut shared: BTreeMap<String, f64> = BTreeMap::new();
        for layer in graph.layers.iter().filter(|layer| matches!(layer.op, Some(Op::Recurrent(_)))) {
            *shared.entry(node(&layer.name)).or_default() += 1.0;
        }
        let mut calls = Vec::new();
        for (place, layer) in graph.layers.iter().enumerate() {
            let Some(call) = Call::of(&graph, layer, computed) else { continue };
            let (name, parts) = if matches!(layer.op, Some(Op::Recurrent(_))) {
                let name = node(&layer.name);
                let parts = shared[&name];
                (name, parts)
            } else {
                (layer.name.clone(), 1.0)
            };
            let kernels = nodes.get(name.as_str()).copied().unwrap_or_default();
            let nanoseconds = kernels.iter().map(|(_, nanoseconds)| nanoseconds).sum::<f64>() / parts;
            // Kernels of a recurrent layer run beside each other.
            let is_recurrent = call.kind == Kind::Recurrent && !kernels.is_empty();
            let kernels = if is_recurrent { 1.0 } else { kernels.len() as f64 };
            calls.push((place, Row { call, kernels, nanoseconds }));
        }
        Self { run, graph, computed, calls }
    }

    /// Nanoseconds of a step: the faster of two ways to time it, which others disturb.
    fn eager(&self) -> f64 {
        self.run.loop_us.min(self.run.step_us) * 1e3
    }

    fn kernels(&self) -> [f64; 2] {
        let sum = |of: fn(&Row) -> f64| self.calls.iter().map(|(_, row)| of(row)).sum();
        [sum(|row| row.nanoseconds), sum(|row| row.kernels)]
    }
}

fn measured(folder: &Path) -> Result<(Head, Vec<Measured>)> {
    let text = std::fs::read_to_string(folder.join("rows.jsonl"))?;
    let mut lines = text.lines();
    let head: Head = serde_json::from_str(lines.next().ok_or("no rows")?)?;
    let mut all = Vec::new();
    for line in lines {
        let run: Run = serde_json::from_str(line)?;
        if let Some(why) = &run.failed {
            eprintln!("{}: not measured: {why}", run.label);
            continue;
        }
        let graph = read(&folder.join(&run.label).with_extension("pt2"), &Shapes::default())?;
        all.push(Measured::new(run, graph));
    }
    Ok((head, all))
}

/// The values of a few numbers that make a function least, by steps along each.
fn least<const N: usize>(mut at: [f64; N], of: impl Fn([f64; N]) -> f64) -> [f64; N] {
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

/// What is paid beside the kernels: of graphs by all of them, of hosts by steps that wait for one.
fn costs(runs: &[Measured]) -> Costs {
    let graphs: Vec<(f64, [f64; 2])> =
        runs.iter().filter_map(|run| Some((run.run.graph_us? * 1e3, run.kernels()))).collect();
    let mean = |errors: Vec<f64>| errors.iter().sum::<f64>() / errors.len().max(1) as f64;
    let [node, replay] = least([300.0, 8_000.0], |[node, replay]| {
        mean(
            graphs
                .iter()
                .map(|(time, [kernels, count])| (time / (kernels + node * count + replay)).ln().abs())
                .collect(),
        )
    });
    let hosts: Vec<(f64, [f64; 2])> = runs
        .iter()
        .filter(|run| run.eager() > 1.5 * run.kernels()[0])
        .map(|run| (run.eager(), launches(&run.graph)))
        .collect();
    let [operator, module] = least([10_000.0, 5_000.0], |[operator, module]| {
        let host = |[operators, modules]: [f64; 2]| operator * operators + module * modules;
        mean(hosts.iter().map(|(time, counts)| (time / host(*counts)).ln().abs()).collect())
    });
    Costs { node, replay, operator, module }
}

/// A whole model: architecture, what was measured, what was estimated.
struct Judged<'a> {
    architecture: String,
    run: &'a Measured,
    nanoseconds: f64,
    estimate: Estimate,
}

impl Judged<'_> {
    /// Tails of 1 stood in for those that are wanted.
    fn score(&self) -> f64 {
        self.off() / self.deviation()
    }

    /// The logarithm of measured over estimated.
    fn off(&self) -> f64 {
        (self.nanoseconds / self.estimate.nanoseconds).ln()
    }

    fn deviation(&self) -> f64 {
        (self.estimate.high / self.estimate.nanoseconds).ln()
    }

    /// The error, as large for half as for twice the time.
    fn score_of_error(&self) -> f64 {
        self.off().abs()
    }

    fn error(&self) -> f64 {
        (self.estimate.nanoseconds / self.nanoseconds - 1.0).abs()
    }
}

fn quantile(mut values: Vec<f64>, at: f64) -> f64 {
    values.sort_by(f64::total_cmp);
    accuracy::quantile(&values, at).unwrap_or(f64::NAN)
}

fn tails(scores: Vec<f64>) -> [f64; 2] {
    [quantile(scores.clone(), 0.05), quantile(scores, 0.95)]
}

fn errors(judged: &[&Judged<'_>]) -> Errors {
    let all: Vec<f64> = judged.iter().map(|one| one.error()).collect();
    let inside = judged.iter().filter(|one| {
        let others = judged.iter().filter(|other| other.architecture != one.architecture);
        let [low, high] = tails(others.map(|other| other.score()).collect());
        (low..=high).contains(&one.score())
    });
    Errors {
        runs: judged.len(),
        mape: all.iter().sum::<f64>() / all.len().max(1) as f64,
        median: quantile(all.clone(), 0.5),
        p90: quantile(all, 0.9),
        coverage: inside.count() as f64 / judged.len().max(1) as f64,
        tails: tails(judged.iter().map(|one| one.score()).collect()),
    }
}

const UNKNOWN: Errors =
    Errors { runs: 0, mape: 0.0, median: 0.0, p90: 0.0, coverage: 0.0, tails: [-1.0, 1.0] };

fn percent(fraction: f64) -> String {
    format!("{:.1}", 100.0 * fraction)
}

fn print_whole(name: &str, judged: &[&Judged<'_>]) {
    let found = errors(judged);
    println!(
        "| {name} | {} | {} | {} | {} | {} |",
        found.runs,
        percent(found.mape),
        percent(found.median),
        percent(found.p90),
        percent(found.coverage)
    );
}

/// Measured calls, of all architectures but one.
fn rows(runs: &[Measured], left_out: Option<&str>) -> Vec<Row> {
    let kept = runs.iter().filter(|run| left_out.is_none_or(|name| run.run.architecture() != name));
    kept.flat_map(|run| &run.calls).map(|(_, row)| row).filter(|row| row.kernels > 0.0).cloned().collect()
}

/// Errors of calls by kind, and how many deviations they are.
type ByKind = BTreeMap<(Kind, Arithmetic), Vec<(f64, f64)>>;

/// Every run as a graph and in eager mode, estimated from other architectures.
fn judge<'a>(runs: &'a [Measured], about: &About) -> ([Vec<Judged<'a>>; 2], ByKind) {
    let architectures: BTreeSet<String> = runs.iter().map(|run| run.run.architecture()).collect();
    let mut by_way: [Vec<Judged<'_>>; 2] = [Vec::new(), Vec::new()];
    let mut by_kind: ByKind = BTreeMap::new();
    for architecture in &architectures {
        let others = PyTorch::new(about.clone(), &rows(runs, Some(architecture)));
        for run in runs.iter().filter(|run| run.run.architecture() == *architecture) {
            for (way, judged) in [Way::Graph, Way::Eager].into_iter().zip(&mut by_way) {
                let Some(estimate) = others.estimate(&run.graph, run.computed, way) else { continue };
                if way == Way::Graph {
                    let known: BTreeMap<usize, &CallEstimate> =
                        estimate.calls.iter().map(|call| (call.layer, call)).collect();
                    for (layer, row) in run.calls.iter().filter(|(_, row)| row.kernels > 0.0) {
                        if let Some(call) = known.get(layer) {
                            let error = (call.nanoseconds / row.nanoseconds - 1.0).abs();
                            let off = (row.nanoseconds / call.nanoseconds).ln().abs();
                            let score = off / (call.high / call.nanoseconds).ln();
                            let errors = by_kind.entry((row.call.kind, row.call.arithmetic)).or_default();
                            errors.push((error, score));
                        }
                    }
                }
                if !estimate.missing.is_empty() {
                    eprintln!("{}: without {:?}", run.run.label, estimate.missing);
                    continue;
                }
                let nanoseconds = match way {
                    Way::Graph => run.run.graph_us.map(|time| time * 1e3),
                    Way::Eager => Some(run.eager()),
                };
                let Some(nanoseconds) = nanoseconds else { continue };
                judged.push(Judged { architecture: architecture.clone(), run, nanoseconds, estimate });
            }
        }
    }
    (by_way, by_kind)
}

/// Whole models by their measured kernels: what the costs beside them leave.
fn print_sums(judged: &[Judged<'_>], costs: &Costs) {
    let error = |one: &Judged<'_>| {
        let [kernels, count] = one.run.kernels();
        ((kernels + costs.node * count + costs.replay) / one.nanoseconds - 1.0).abs()
    };
    let errors: Vec<f64> = judged.iter().map(error).collect();
    let mean = errors.iter().sum::<f64>() / errors.len().max(1) as f64;
    let [median, p90] = [0.5, 0.9].map(|at| percent(quantile(errors.clone(), at)));
    println!(
        "| graph, by its measured kernels | {} | {} | {median} | {p90} | - |",
        errors.len(),
        percent(mean)
    );
}

/// The widths of intervals that nine tenths of the calls are in. Those that scores are taken of are
/// as wide as a table that nobody judged has.
fn reaches(by_kind: &ByKind) -> Vec<Reach> {
    let tables = by_kind.iter().map(|((kind, arithmetic), judged)| {
        let scores = judged.iter().map(|(_, score)| *score).collect();
        Reach { kind: *kind, arithmetic: *arithmetic, reach: UNJUDGED * quantile(scores, 0.9) }
    });
    tables.collect()
}

fn print(by_way: &[Vec<Judged<'_>>; 2], by_kind: &ByKind, costs: &Costs) {
    println!("| model as | runs | MAPE, % | median | p90 | covered |\n|---|---:|---:|---:|---:|---:|");
    for (name, judged) in ["graph", "eager"].iter().zip(by_way) {
        print_whole(name, &judged.iter().collect::<Vec<_>>());
        for arithmetic in [Arithmetic::Fp32, Arithmetic::Tf32, Arithmetic::Half] {
            let of: Vec<_> = judged.iter().filter(|one| one.run.run.arithmetic() == arithmetic).collect();
            print_whole(&format!("{name}, {}", arithmetic.name()), &of);
        }
    }
    let on_gpu: Vec<_> = by_way[1].iter().filter(|one| one.estimate.gpu_ns > one.estimate.host_ns).collect();
    print_whole("eager, where the GPU decides", &on_gpu);
    print_sums(&by_way[0], costs);
    println!(
        "\n| calls | arithmetic | calls judged | MAPE, % | median | p90 |\n|---|---|---:|---:|---:|---:|"
    );
    for ((kind, arithmetic), judged) in by_kind {
        let errors: Vec<f64> = judged.iter().map(|(error, _)| *error).collect();
        let mean = errors.iter().sum::<f64>() / errors.len() as f64;
        println!(
            "| {} | {} | {} | {} | {} | {} |",
            kind.name(),
            arithmetic.name(),
            errors.len(),
            percent(mean),
            percent(quantile(errors.clone(), 0.5)),
            percent(quantile(errors, 0.9))
        );
    }
    println!("\n| worst as a graph | measured, µs | estimated | what errs most |\n|---|---:|---:|---|");
    let mut worst: Vec<&Judged<'_>> = by_way[0].iter().collect();
    worst.sort_by(|a, b| b.score_of_error().total_cmp(&a.score_of_error()));
    for one in worst.iter().take(12) {
        let measured: BTreeMap<usize, f64> =
            one.run.calls.iter().map(|(layer, row)| (*layer, row.nanoseconds)).collect();
        let mut off: BTreeMap<Kind, f64> = BTreeMap::new();
        let kinds: BTreeMap<usize, Kind> =
            one.run.calls.iter().map(|(layer, row)| (*layer, row.call.kind)).collect();
        for call in &one.estimate.calls {
            *off.entry(kinds[&call.layer]).or_default() += call.nanoseconds - measured[&call.layer];
        }
        let most = off.iter().max_by(|a, b| a.1.abs().total_cmp(&b.1.abs()));
        println!(
            "| {}, {} | {:.0} | {:.0} | {} |",
            one.run.run.label,
            one.run.run.arithmetic().name(),
            one.nanoseconds / 1e3,
            one.estimate.nanoseconds / 1e3,
            most.map_or_else(String::new, |(kind, time)| format!("{}: {:+.0} µs", kind.name(), time / 1e3))
        );
    }
}

fn run(folder: &Path, output: Option<&Path>) -> Result<()> {
    let (head, runs) = measured(folder)?;
    let torch = head.torch.split('+').next().unwrap_or_default();
    let about = About {
        device: head.device,
        software: format!("PyTorch {torch}, cuDNN {}.{}", head.cudnn / 10_000, head.cudnn / 100 % 100),
        host: "16 threads of an Intel Xeon (Sapphire Rapids), virtual".to_owned(),
        memory_bytes: 85_520_809_984,
        // NVIDIA's data sheet of H100 SXM.
        peaks: Peaks { bytes_per_second: 3.35e12, fp32: 66.9e12, tf32: 494.5e12, half: 989e12, units: 132.0 },
        costs: costs(&runs),
        models: runs.iter().map(|run| run.run.model.as_str()).collect::<BTreeSet<_>>().len(),
        eager: UNKNOWN,
        graph: UNKNOWN,
        reaches: Vec::new(),
    };
    let (by_way, by_kind) = judge(&runs, &about);
    print(&by_way, &by_kind, &about.costs);
    let [graph, eager] = by_way.each_ref().map(|judged| errors(&judged.iter().collect::<Vec<_>>()));
    let reaches = reaches(&by_kind);
    let about = About { graph, eager, reaches, ..about };
    eprintln!("{:?}, {:?}, {:?}", about.costs, about.graph.tails, about.eager.tails);
    if let Some(output) = output {
        // A call that was measured several times has one row: its median.
        let mut by_call: BTreeMap<Call, Vec<Row>> = BTreeMap::new();
        for row in rows(&runs, None) {
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
        let bytes = zstd::encode_all(to_text(&about, &rows)?.as_bytes(), 22)?;
        eprintln!("{}: {} calls, {} bytes", output.display(), rows.len(), bytes.len());
        std::fs::write(output, bytes)?;
    }
    Ok(())
}

fn main() -> ExitCode {
    flopgap_benches::run_on_folder("pytorch-tables", run)
}

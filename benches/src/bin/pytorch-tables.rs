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
use std::path::Path;
use std::process::ExitCode;

use flopgap_benches::pytorch::{
    ByKind, Head, Judged, Result, about, architecture, arithmetic, errors, graph_costs, is_recurrent,
    judge_call, least, mean, node, print_calls, print_sums, print_whole, reaches, recurrent_layers, write,
};
use flopgap_graph::{Graph, Shapes, read};
use flopgap_roofline::pytorch::{
    About, Arithmetic, Call, CallEstimate, Computed, Costs, Kind, PyTorch, Row, Way, launches,
};
use serde::Deserialize;

const HOST: &str = "16 threads of an Intel Xeon (Sapphire Rapids), virtual";

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
    fn arithmetic(&self) -> Arithmetic {
        arithmetic(&self.kind, self.tf32)
    }
}

impl Measured {
    fn new(run: Run, graph: Graph) -> Self {
        let computed = Computed { products: run.arithmetic(), cudnn: run.arithmetic() };
        let nodes: BTreeMap<&str, &[(String, f64)]> =
            run.nodes.iter().map(|(name, kernels)| (name.as_str(), kernels.as_slice())).collect();
        let shared = recurrent_layers(&graph);
        let mut calls = Vec::new();
        for (place, layer) in graph.layers.iter().enumerate() {
            let Some(call) = Call::of(&graph, layer, computed) else { continue };
            let parts = if is_recurrent(layer) { shared[node(layer)] } else { 1.0 };
            let kernels = nodes.get(node(layer)).copied().unwrap_or_default();
            let nanoseconds = kernels.iter().map(|(_, nanoseconds)| nanoseconds).sum::<f64>() / parts;
            // Kernels of a recurrent layer run beside each other.
            let are_beside = call.kind == Kind::Recurrent && !kernels.is_empty();
            let kernels = if are_beside { 1.0 } else { kernels.len() as f64 };
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

/// What is paid beside the kernels: of graphs by all of them, of hosts by steps that wait for one.
fn costs(runs: &[Measured]) -> Costs {
    let graphs = runs.iter().filter_map(|run| Some((run.run.graph_us? * 1e3, run.kernels())));
    let [node, replay] = graph_costs(graphs);
    let hosts: Vec<(f64, [f64; 2])> = runs
        .iter()
        .filter(|run| run.eager() > 1.5 * run.kernels()[0])
        .map(|run| (run.eager(), launches(&run.graph)))
        .collect();
    let [operator, module] = least([10_000.0, 5_000.0], |[operator, module]| {
        let host = |[operators, modules]: [f64; 2]| operator * operators + module * modules;
        let errors: Vec<f64> = hosts.iter().map(|(time, counts)| (time / host(*counts)).ln().abs()).collect();
        mean(&errors)
    });
    Costs { node, replay, operator, module, gradient: 0.0, tensor: 0.0 }
}

/// Measured calls, of all architectures but one.
fn rows(runs: &[Measured], left_out: Option<&str>) -> Vec<Row> {
    let kept = runs.iter().filter(|run| left_out.is_none_or(|name| architecture(&run.run.model) != name));
    kept.flat_map(|run| &run.calls).map(|(_, row)| row).filter(|row| row.kernels > 0.0).cloned().collect()
}

/// Every run as a graph and in eager mode, estimated from other architectures.
fn judge<'a>(runs: &'a [Measured], about: &About) -> ([Vec<Judged<'a, Measured>>; 2], ByKind) {
    let architectures: BTreeSet<String> = runs.iter().map(|run| architecture(&run.run.model)).collect();
    let mut by_way: [Vec<Judged<'_, Measured>>; 2] = [Vec::new(), Vec::new()];
    let mut by_kind: ByKind = BTreeMap::new();
    for name in &architectures {
        let others = PyTorch::new(about.clone(), &rows(runs, Some(name)));
        for run in runs.iter().filter(|run| architecture(&run.run.model) == *name) {
            for (way, judged) in [Way::Graph, Way::Eager].into_iter().zip(&mut by_way) {
                let Some(estimate) = others.estimate(&run.graph, run.computed, way) else { continue };
                if way == Way::Graph {
                    let known: BTreeMap<usize, &CallEstimate> =
                        estimate.calls.iter().map(|call| (call.layer, call)).collect();
                    for (layer, row) in run.calls.iter().filter(|(_, row)| row.kernels > 0.0) {
                        if let Some(call) = known.get(layer) {
                            judge_call(&mut by_kind, row, call);
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
                judged.push(Judged { architecture: name.clone(), run, nanoseconds, estimate });
            }
        }
    }
    (by_way, by_kind)
}

fn print(by_way: &[Vec<Judged<'_, Measured>>; 2], by_kind: &ByKind, costs: &Costs) {
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
    print_sums(&by_way[0], Measured::kernels, costs);
    print_calls(by_kind);
    println!("\n| worst as a graph | measured, µs | estimated | what errs most |\n|---|---:|---:|---|");
    let mut worst: Vec<&Judged<'_, Measured>> = by_way[0].iter().collect();
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
    let models = runs.iter().map(|run| run.run.model.as_str()).collect::<BTreeSet<_>>().len();
    let about = about(&head, HOST, costs(&runs), models);
    let (by_way, by_kind) = judge(&runs, &about);
    print(&by_way, &by_kind, &about.costs);
    let [graph, eager] = by_way.each_ref().map(|judged| errors(&judged.iter().collect::<Vec<_>>()));
    let reaches = reaches(&by_kind);
    let about = About { graph, eager, reaches, ..about };
    eprintln!("{:?}, {:?}, {:?}", about.costs, about.graph.tails, about.eager.tails);
    if let Some(output) = output {
        write(&about, rows(&runs, None), output)?;
    }
    Ok(())
}

fn main() -> ExitCode {
    flopgap_benches::run_on_folder("pytorch-tables", run)
}

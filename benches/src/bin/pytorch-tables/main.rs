//! Makes the files of calls that PyTorch makes, and the tables of errors in
//! `docs/measurements/calibration.md`, from what `benches/pytorch/measure.py` wrote on each GPU.
//!
//! ```sh
//! cargo run --release -p flopgap-benches --bin pytorch-tables FOLDER crates/flopgap-roofline/machines
//! ```
//!
//! The folder has one for each GPU, `h100` and `h200`. Every model is estimated by the models of
//! other architectures on all of them. Without a second folder, nothing is written.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a program")]

mod compiled;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::ExitCode;

use flopgap_benches::pytorch::{
    ByKind, Head, Judged, Result, Steps, about, architecture, arithmetic, cover, errors, folders,
    graph_costs, host_costs, is_recurrent, judge_call, node, print_calls, print_sums, print_whole, reaches,
    recorded, recurrent_layers, write,
};
use flopgap_graph::{Graph, Shapes, read};
use flopgap_roofline::pytorch::{
    About, Arithmetic, Call, CallEstimate, Compilation, Computed, Costs, Kind, PyTorch, Row, Way, launches,
};
use serde::Deserialize;

use crate::compiled::CompiledRun;

const HOST: &str = "16 threads of an Intel Xeon (Sapphire Rapids), three virtual machines";

/// A model in one precision.
#[derive(Deserialize)]
struct Run {
    model: String,
    #[serde(flatten)]
    steps: Steps,
    #[serde(default)]
    kind: String,
    #[serde(default)]
    tf32: bool,
    graph_us: Option<f64>,
    /// Kernels of each node: name and nanoseconds.
    #[serde(default)]
    nodes: Vec<(String, Vec<(String, f64)>)>,
}

/// A run with its graph and what was measured of each call.
struct Measured {
    run: Run,
    graph: Graph,
    computed: Computed,
    /// Layer, call, kernels, nanoseconds.
    calls: Vec<(usize, Row)>,
    compiled: Option<CompiledRun>,
    compiled_rows: Vec<Row>,
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
            calls.push((place, Row { call, kernels: kernels.len() as f64 / parts, nanoseconds }));
        }
        Self { run, graph, computed, calls, compiled: None, compiled_rows: Vec::new() }
    }

    fn eager(&self) -> f64 {
        self.run.steps.nanoseconds()
    }

    fn sum(&self, of: fn(&Row) -> f64) -> f64 {
        self.calls.iter().map(|(_, row)| of(row)).sum()
    }

    /// Nanoseconds of all kernels, and what lies between them.
    fn kernels(&self) -> [f64; 2] {
        [self.sum(|row| row.nanoseconds), self.sum(|row| row.call.kind.gaps(row.kernels))]
    }
}

fn measured(folder: &Path) -> Result<(Head, Vec<Measured>)> {
    let (head, runs) = recorded::<Run>(&folder.join("rows.jsonl"))?;
    let mut all = Vec::new();
    for run in runs.into_iter().filter(|run| run.steps.is_measured()) {
        let graph = read(&folder.join(&run.steps.label).with_extension("pt2"), &Shapes::default())?;
        all.push(Measured::new(run, graph));
    }
    Ok((head, all))
}

/// What is paid beside the kernels on all GPUs: of graphs by all of them, of hosts by steps that
/// wait for one.
fn costs(runs: &[&Measured]) -> Costs {
    let graphs = runs.iter().filter_map(|run| Some((run.run.graph_us? * 1e3, run.kernels())));
    let [node, replay] = graph_costs(graphs);
    let hosts = runs.iter().filter(|run| run.eager() > 1.5 * run.kernels()[0]);
    let hosts = hosts.map(|run| {
        let [operators, modules] = launches(&run.graph);
        (run.eager(), [operators, modules, run.sum(|row| row.kernels)])
    });
    let [operator, module, launch] = host_costs(&hosts.collect::<Vec<_>>(), [15_000.0, 4_000.0, 8_000.0]);
    Costs { node, replay, operator, module, launch, gradient: 0.0, tensor: 0.0 }
}

/// Measured calls, of all architectures but one.
fn rows(runs: &[Measured], left_out: Option<&str>) -> Vec<Row> {
    let kept = runs.iter().filter(|run| left_out.is_none_or(|name| architecture(&run.run.model) != name));
    let own = |run: &'_ Measured| {
        let calls = run.calls.iter().map(|(_, row)| row).filter(|row| row.kernels > 0.0);
        calls.chain(&run.compiled_rows).cloned().collect::<Vec<_>>()
    };
    kept.flat_map(own).collect()
}

/// The ways that are judged.
const WAYS: [(&str, Way); 4] = [
    ("graph", Way::Graph),
    ("eager", Way::Eager),
    ("compiled", Way::Compiled),
    ("compiled, graph", Way::CompiledGraph),
];

/// Runs by way.
type ByWay<'a> = [Vec<Judged<'a, Measured>>; 4];

/// A GPU: what was measured on it.
struct Gpu {
    name: &'static str,
    about: About,
    runs: Vec<Measured>,
}

/// Every run of a GPU in every way, estimated from other architectures.
fn judge<'a>(gpus: &'a [Gpu], own: usize, architectures: &'a BTreeSet<String>) -> (ByWay<'a>, ByKind) {
    let mut by_way: ByWay<'_> = Default::default();
    let mut by_kind: ByKind = BTreeMap::new();
    for name in architectures {
        let runs = gpus[own].runs.iter().filter(|run| architecture(&run.run.model) == *name);
        let mut runs = runs.peekable();
        if runs.peek().is_none() {
            continue;
        }
        let measured = gpus.iter().map(|gpu| (gpu.about.clone(), rows(&gpu.runs, Some(name))));
        let others = &PyTorch::together(&measured.collect::<Vec<_>>())[own];
        for run in runs {
            for ((_, way), judged) in WAYS.into_iter().zip(&mut by_way) {
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
                if way == Way::Compiled {
                    for row in &run.compiled_rows {
                        if let Some(call) = others.call(0, &row.call) {
                            judge_call(&mut by_kind, row, &call);
                        }
                    }
                }
                if !estimate.missing.is_empty() {
                    eprintln!("{}, {way:?}: without {:?}", run.run.steps.label, estimate.missing);
                    continue;
                }
                let nanoseconds = match way {
                    Way::Graph => run.run.graph_us.map(|time| time * 1e3),
                    Way::Eager => Some(run.eager()),
                    Way::Compiled => run.compiled.as_ref().map(CompiledRun::time),
                    Way::CompiledGraph => run.compiled.as_ref().and_then(CompiledRun::graph),
                };
                let Some(nanoseconds) = nanoseconds else { continue };
                judged.push(Judged { architecture: name, run, nanoseconds, estimate, is_covered: false });
            }
        }
    }
    (by_way, by_kind)
}

/// The runs that are furthest off.
fn worst<'a>(judged: &'a [Judged<'a, Measured>]) -> impl Iterator<Item = &'a Judged<'a, Measured>> {
    let mut worst: Vec<_> = judged.iter().collect();
    worst.sort_by(|a, b| b.score_of_error().total_cmp(&a.score_of_error()));
    worst.into_iter().take(12)
}

fn print(by_way: &ByWay<'_>, by_kind: &ByKind, costs: &Costs) {
    println!("| model as | runs | MAPE, % | median | p90 | covered |\n|---|---:|---:|---:|---:|---:|");
    for ((name, _), judged) in WAYS.iter().zip(by_way) {
        print_whole(name, &judged.iter().collect::<Vec<_>>());
        for arithmetic in [Arithmetic::Fp32, Arithmetic::Tf32, Arithmetic::Half] {
            let of: Vec<_> = judged.iter().filter(|one| one.run.run.arithmetic() == arithmetic).collect();
            print_whole(&format!("{name}, {}", arithmetic.name()), &of);
        }
    }
    let on_gpu: Vec<_> = by_way[1].iter().filter(|one| !one.is_launched()).collect();
    print_whole("eager, where the GPU decides", &on_gpu);
    print_sums(&by_way[0], Measured::kernels, costs);
    print_calls(by_kind);
    println!("\n| worst as a graph | measured, µs | estimated | what errs most |\n|---|---:|---:|---|");
    for one in worst(&by_way[0]) {
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
            one.run.run.steps.label,
            one.run.run.arithmetic().name(),
            one.nanoseconds / 1e3,
            one.estimate.nanoseconds / 1e3,
            most.map_or_else(String::new, |(kind, time)| format!("{}: {:+.0} µs", kind.name(), time / 1e3))
        );
    }
    if by_way[3].is_empty() {
        return;
    }
    println!("\n| worst compiled, as a graph | measured, µs | estimated |\n|---|---:|---:|");
    for one in worst(&by_way[3]) {
        let (label, arithmetic) = (&one.run.run.steps.label, one.run.run.arithmetic().name());
        let [measured, estimated] = [one.nanoseconds, one.estimate.nanoseconds].map(|time| time / 1e3);
        println!("| {label}, {arithmetic} | {measured:.0} | {estimated:.0} |");
    }
}

fn run(folder: &Path, output: Option<&Path>) -> Result<()> {
    let mut gpus = Vec::new();
    for (name, folder) in folders(folder) {
        let (head, mut runs) = measured(&folder)?;
        compiled::add(&folder, &mut runs)?;
        let models = runs.iter().map(|run| run.run.model.as_str()).collect::<BTreeSet<_>>().len();
        gpus.push(Gpu { name, about: about(name, &head, HOST, models)?, runs });
    }
    let runs: Vec<&Measured> = gpus.iter().flat_map(|gpu| &gpu.runs).collect();
    let architectures: BTreeSet<String> = runs.iter().map(|run| architecture(&run.run.model)).collect();
    let (costs, compilation) = (costs(&runs), compiled::fitted(&runs));
    for gpu in &mut gpus {
        let compiled = compilation.filter(|_| gpu.runs.iter().any(|run| run.compiled.is_some()));
        gpu.about = About { costs, compiled, ..gpu.about.clone() };
    }
    // How far calls are off decides how uncertain models are.
    for own in 0..gpus.len() {
        gpus[own].about.reaches = reaches(&judge(&gpus, own, &architectures).1);
    }
    let mut judged: Vec<_> = (0..gpus.len()).map(|own| judge(&gpus, own, &architectures)).collect();
    let tails = [0, 1, 2, 3].map(|way| cover(judged.iter_mut().flat_map(|(by_way, _)| &mut by_way[way])));
    eprintln!("{costs:?}, {compilation:?}, {tails:?}");
    for (gpu, (by_way, by_kind)) in gpus.iter().zip(&judged) {
        let about = &gpu.about;
        println!("\n{}, {} models\n", about.device, about.models);
        print(by_way, by_kind, &about.costs);
        let [graph, eager, launched, replayed] =
            [0, 1, 2, 3].map(|way| errors(&by_way[way].iter().collect::<Vec<_>>(), tails[way]));
        let compiled = about.compiled.map(|of| Compilation { launched, graph: replayed, ..of });
        let about = About { graph, eager, compiled, ..about.clone() };
        if let Some(output) = output {
            let output = output.join(gpu.name).with_extension("pytorch.zst");
            write(&about, rows(&gpu.runs, None), &output)?;
        }
    }
    Ok(())
}

fn main() -> ExitCode {
    flopgap_benches::run_on_folder("pytorch-tables", run)
}

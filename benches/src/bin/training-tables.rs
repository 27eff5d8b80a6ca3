//! Makes the files of calls of training steps, and their tables of errors in
//! `docs/measurements/calibration.md`, from what `benches/pytorch/train.py` wrote on each GPU and
//! the graphs beside it.
//!
//! ```sh
//! cargo run --release -p flopgap-benches --bin training-tables FOLDER crates/flopgap-roofline/machines
//! ```
//!
//! The folder has one for each GPU, `h100` and `h200`. Every model is estimated by the models of
//! other architectures on all of them. Without a second folder, nothing is written.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a program")]

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use flopgap_benches::pytorch::{
    ByKind, Head, Judged, Result, Steps, about, architecture, arithmetic, cover, errors, folders,
    graph_costs, host_costs, is_recurrent, judge_call, least, mean, node, print_calls, print_errors,
    print_sums, print_whole, reaches, recorded, recurrent_layers, write,
};
use flopgap_graph::{Graph, Op, Shapes, read_training};
use flopgap_roofline::pytorch::{
    About, Arithmetic, Call, CallEstimate, Computed, Costs, Gradients, Kind, Phase, PyTorch, Row, Way, adamw,
    launches,
};
use serde::Deserialize;

const HOST: &str = "16 and 64 threads of virtual machines";

/// Kernels: number of the name, nanoseconds.
type Kernels = Vec<(usize, f64)>;

/// A node of the exported graph: name, kernels and nanoseconds forward, kernels backward, and
/// kernels that add gradients behind it.
type Node = (String, (f64, f64), Kernels, Kernels);

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
    #[serde(default)]
    forward_us: f64,
    #[serde(default)]
    backward_us: f64,
    #[serde(default)]
    optimizer_us: f64,
    graph_us: Option<f64>,
    #[serde(default)]
    optimizer: Optimizer,
    #[serde(default)]
    nodes: Vec<Node>,
}

#[derive(Default, Clone, Deserialize)]
struct Optimizer {
    tensors: u64,
    elements: u64,
    fused: Option<Fused>,
}

#[derive(Clone, Copy, Deserialize)]
struct Fused {
    kernels: f64,
    ns: f64,
}

/// A run with its graph and what was measured of each call.
struct Measured {
    run: Run,
    graph: Graph,
    computed: Computed,
    /// Layer and call.
    calls: Vec<(usize, Row)>,
    gradients: Gradients,
}

impl Run {
    fn arithmetic(&self) -> Arithmetic {
        arithmetic(&self.kind, self.tf32)
    }

    /// Convolutions were computed as PyTorch does by default.
    fn computed(&self) -> Computed {
        let products = self.arithmetic();
        let cudnn = if products == Arithmetic::Fp32 { Arithmetic::Tf32 } else { products };
        Computed { products, cudnn }
    }

    fn eager(&self) -> f64 {
        self.steps.nanoseconds()
    }

    /// The way of its products in tables.
    fn name(&self) -> &'static str {
        match self.arithmetic() {
            Arithmetic::Fp32 => "fp32, convolutions in tf32",
            other => other.name(),
        }
    }
}

fn sum(kernels: &Kernels) -> f64 {
    kernels.iter().map(|(_, nanoseconds)| nanoseconds).sum()
}

impl Measured {
    fn new(run: Run, graph: Graph) -> Self {
        let computed = run.computed();
        let gradients = Gradients::of(&graph);
        let nodes: BTreeMap<&str, &Node> = run.nodes.iter().map(|node| (node.0.as_str(), node)).collect();
        let shared = recurrent_layers(&graph);
        let absent: Node = (String::new(), (0.0, 0.0), Vec::new(), Vec::new());
        let mut calls = Vec::new();
        for (place, layer) in graph.layers.iter().enumerate() {
            let parts = if is_recurrent(layer) { shared[node(layer)] } else { 1.0 };
            let (_, (kernels, nanoseconds), backward, sums) =
                nodes.get(node(layer)).copied().unwrap_or(&absent);
            if *kernels > 0.0 {
                if let Some(call) = Call::of(&graph, layer, computed) {
                    let (kernels, nanoseconds) = (kernels / parts, nanoseconds / parts);
                    calls.push((place, Row { call, kernels, nanoseconds }));
                }
            } else if !matches!(layer.op, Some(Op::View)) {
                // It is in a graph within the graph, whose nodes are not known.
                continue;
            }
            let (added, own): (Vec<Call>, Vec<Call>) = gradients
                .calls(&graph, place, computed)
                .into_iter()
                .partition(|call| call.operator == "sum of gradients");
            for call in own {
                let (kernels, nanoseconds) = (backward.len() as f64 / parts, sum(backward) / parts);
                calls.push((place, Row { call, kernels, nanoseconds }));
            }
            let bytes: u64 = added.iter().map(|call| call.bytes).sum();
            if added.len() == sums.len() && bytes > 0 {
                for call in added {
                    let nanoseconds = sum(sums) * call.bytes as f64 / bytes as f64;
                    calls.push((place, Row { call, kernels: 1.0, nanoseconds }));
                }
            }
        }
        let Optimizer { tensors, elements, fused } = run.optimizer;
        if let Some(Fused { kernels, ns }) = fused {
            let width = if run.arithmetic() == Arithmetic::Half { 2 } else { 4 };
            let call = adamw(tensors, elements, width, elements * width * 7);
            calls.push((graph.layers.len(), Row { call, kernels, nanoseconds: ns }));
        }
        let trained = gradients.trained(&graph).count() as u64;
        if trained != tensors {
            eprintln!("{}: {tensors} tensors were trained, {trained} by the graph", run.steps.label);
        }
        Self { run, graph, computed, calls, gradients }
    }

    /// Nanoseconds and number of all kernels, those of no call included.
    fn kernels(&self) -> [f64; 2] {
        let Fused { kernels, ns } = self.run.optimizer.fused.unwrap_or(Fused { kernels: 0.0, ns: 0.0 });
        let mut all = [ns, kernels];
        for (_, (count, nanoseconds), backward, sums) in &self.run.nodes {
            all[0] += nanoseconds + sum(backward) + sum(sums);
            all[1] += count + (backward.len() + sums.len()) as f64;
        }
        all
    }

    /// How many kernels the host launches forward and backward.
    fn launched(&self) -> [f64; 2] {
        let nodes = self.run.nodes.iter();
        nodes.fold([0.0; 2], |[forward, all], (_, (count, _), backward, sums)| {
            [forward + count, all + (backward.len() + sums.len()) as f64]
        })
    }

    fn host(&self) -> [f64; 4] {
        let [operators, modules] = launches(&self.graph);
        let [layers, tensors] = self.gradients.launches(&self.graph);
        [operators, modules, layers, tensors]
    }
}

fn measured(folder: &Path) -> Result<(Head, Vec<Measured>)> {
    let (head, runs) = recorded::<Run>(&folder.join("train.jsonl"))?;
    let mut all: Vec<Measured> = Vec::new();
    let mut optimizers: BTreeMap<String, Optimizer> = BTreeMap::new();
    for mut run in runs.into_iter().filter(|run| run.steps.is_measured()) {
        // The optimizer does not depend on how products are computed and was measured once.
        if run.optimizer.fused.is_some() {
            optimizers.insert(run.steps.label.clone(), run.optimizer.clone());
        } else if let Some(optimizer) = optimizers.get(&run.steps.label) {
            run.optimizer = optimizer.clone();
        }
        let graph = read_training(&folder.join(&run.steps.label).with_extension("pt2"), &Shapes::default())?;
        all.push(Measured::new(run, graph));
    }
    Ok((head, all))
}

/// What is paid beside the kernels on all GPUs: of graphs by all of them, of hosts by steps that
/// wait for one.
fn costs(runs: &[&Measured]) -> Costs {
    let graphs = runs.iter().filter_map(|run| Some((run.run.graph_us? * 1e3, run.kernels())));
    let [node, replay] = graph_costs(graphs);
    // Each part was waited for, so that the host's time of each is known.
    let hosts: Vec<&&Measured> = runs.iter().filter(|run| run.run.eager() > 1.5 * run.kernels()[0]).collect();
    let forward = hosts.iter().map(|run| {
        let [operators, modules, ..] = run.host();
        (run.run.forward_us * 1e3, [operators, modules, run.launched()[0]])
    });
    let [operator, module, launch] = host_costs(&forward.collect::<Vec<_>>(), [15_000.0, 10_000.0, 8_000.0]);
    let backward =
        hosts.iter().map(|run| (run.run.backward_us * 1e3, run.host()[2], launch * run.launched()[1]));
    let backward: Vec<(f64, f64, f64)> = backward.collect();
    let [gradient] = least([10_000.0], |[gradient]| {
        let off =
            backward.iter().map(|(time, layers, kernels)| (time / (gradient * layers + kernels)).ln().abs());
        mean(&off.collect::<Vec<_>>())
    });
    let optimizers = hosts.iter().map(|run| (run.run.optimizer_us * 1e3, [run.host()[3]]));
    let [tensor] = host_costs(&optimizers.collect::<Vec<_>>(), [5_000.0]);
    Costs { node, replay, operator, module, launch, gradient, tensor }
}

/// Measured calls, of all architectures but one.
fn rows(runs: &[Measured], left_out: Option<&str>) -> Vec<Row> {
    let kept = runs.iter().filter(|run| left_out.is_none_or(|name| architecture(&run.run.model) != name));
    kept.flat_map(|run| &run.calls).map(|(_, row)| row.clone()).collect()
}

/// A GPU: what was measured on it.
struct Gpu {
    name: &'static str,
    folder: PathBuf,
    about: About,
    runs: Vec<Measured>,
}

/// Runs as a graph and in eager mode.
type ByWay<'a> = [Vec<Judged<'a, Measured>>; 2];

/// Every run of a GPU in both ways, estimated from other architectures.
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
            calls(run, others, &mut by_kind);
            for (way, judged) in [Way::Graph, Way::Eager].into_iter().zip(&mut by_way) {
                let estimate = others.training_step(&run.graph, run.computed, way);
                let Some(estimate) = estimate else { continue };
                if !estimate.missing.is_empty() {
                    if way == Way::Eager {
                        eprintln!("{}: without {:?}", run.run.steps.label, estimate.missing);
                    }
                    continue;
                }
                let nanoseconds = match way {
                    Way::Graph => run.run.graph_us.map(|time| time * 1e3),
                    Way::Eager | Way::Compiled | Way::CompiledGraph => Some(run.run.eager()),
                };
                let Some(nanoseconds) = nanoseconds else { continue };
                judged.push(Judged { architecture: name, run, nanoseconds, estimate, is_covered: false });
            }
        }
    }
    (by_way, by_kind)
}

/// The calls of a run, estimated from others.
fn calls(run: &Measured, others: &PyTorch, by_kind: &mut ByKind) {
    let mut known: BTreeMap<&Call, Option<CallEstimate>> = BTreeMap::new();
    for (layer, row) in run.calls.iter().filter(|(_, row)| row.kernels > 0.0) {
        let call = known.entry(&row.call).or_insert_with(|| others.call(*layer, &row.call));
        let Some(call) = call.as_ref().filter(|call| call.nanoseconds > 0.0) else { continue };
        judge_call(by_kind, row, call);
    }
}

/// The steps that were timed again on another host, by one process alone: how far apart two
/// measurements are.
fn print_again(folder: &Path, runs: &[Measured]) -> Result<()> {
    let path = folder.join("times.jsonl");
    if !path.is_file() {
        return Ok(());
    }
    let (_, again) = recorded::<Run>(&path)?;
    let again: BTreeMap<&str, &Run> = again.iter().map(|run| (run.steps.label.as_str(), run)).collect();
    let mut errors = Vec::new();
    for run in runs.iter().filter(|run| !run.run.tf32) {
        if let Some(other) = again.get(run.run.steps.label.as_str()).filter(|other| other.steps.is_measured())
        {
            errors.push((other.eager() / run.run.eager() - 1.0).abs());
        }
    }
    print_errors("eager, measured again", &errors);
    Ok(())
}

fn print(
    (folder, runs): (&Path, &[Measured]),
    by_way: &ByWay<'_>,
    by_kind: &ByKind,
    costs: &Costs,
) -> Result<()> {
    println!("| step as | runs | MAPE, % | median | p90 | covered |\n|---|---:|---:|---:|---:|---:|");
    for (name, judged) in ["graph", "eager"].iter().zip(by_way) {
        print_whole(name, &judged.iter().collect::<Vec<_>>());
        for arithmetic in [Arithmetic::Fp32, Arithmetic::Tf32, Arithmetic::Half] {
            let of: Vec<_> = judged.iter().filter(|one| one.run.run.arithmetic() == arithmetic).collect();
            let Some(first) = of.first() else { continue };
            print_whole(&format!("{name}, {}", first.run.run.name()), &of);
        }
    }
    let on_gpu: Vec<_> = by_way[1].iter().filter(|one| !one.is_launched()).collect();
    print_whole("eager, where the GPU decides", &on_gpu);
    print_sums(&by_way[0], Measured::kernels, costs);
    print_again(folder, runs)?;
    print_calls(by_kind);
    println!("\n| worst as a graph | measured, µs | estimated | what errs most |\n|---|---:|---:|---|");
    let mut worst: Vec<&Judged<'_, Measured>> = by_way[0].iter().collect();
    worst.sort_by(|a, b| b.score_of_error().total_cmp(&a.score_of_error()));
    for one in worst.iter().take(12) {
        println!(
            "| {}, {} | {:.0} | {:.0} | {} |",
            one.run.run.steps.label,
            one.run.run.name(),
            one.nanoseconds / 1e3,
            one.estimate.nanoseconds / 1e3,
            cause(one)
        );
    }
    Ok(())
}

/// The calls whose estimates are the furthest from their measured times.
fn cause(one: &Judged<'_, Measured>) -> String {
    let mut off: BTreeMap<(Kind, Phase), f64> = BTreeMap::new();
    let mut layers: BTreeMap<usize, (Kind, Phase)> = BTreeMap::new();
    for (layer, row) in &one.run.calls {
        let key = (row.call.kind, row.call.phase);
        *off.entry(key).or_default() -= row.nanoseconds;
        layers.entry(*layer).or_insert(key);
    }
    let mut seen: BTreeMap<usize, usize> = BTreeMap::new();
    for call in &one.estimate.calls {
        // The calls of a layer come in the order of its rows.
        let place = seen.entry(call.layer).or_default();
        let of = one.run.calls.iter().filter(|(layer, _)| *layer == call.layer).nth(*place);
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

fn run(folder: &Path, output: Option<&Path>) -> Result<()> {
    let mut gpus = Vec::new();
    for (name, folder) in folders(folder) {
        let (head, runs) = measured(&folder)?;
        let models = runs.iter().map(|run| run.run.model.as_str()).collect::<BTreeSet<_>>().len();
        gpus.push(Gpu { name, about: about(name, &head, HOST, models)?, folder, runs });
    }
    let runs: Vec<&Measured> = gpus.iter().flat_map(|gpu| &gpu.runs).collect();
    let architectures: BTreeSet<String> = runs.iter().map(|run| architecture(&run.run.model)).collect();
    let costs = costs(&runs);
    for gpu in &mut gpus {
        gpu.about.costs = costs;
    }
    // How far calls are off decides how uncertain models are.
    for own in 0..gpus.len() {
        gpus[own].about.reaches = reaches(&judge(&gpus, own, &architectures).1);
    }
    let mut judged: Vec<_> = (0..gpus.len()).map(|own| judge(&gpus, own, &architectures)).collect();
    let tails = [0, 1].map(|way| cover(judged.iter_mut().flat_map(|(by_way, _)| &mut by_way[way])));
    eprintln!("{costs:?}, {tails:?}");
    for (gpu, (by_way, by_kind)) in gpus.iter().zip(&judged) {
        println!("\n{}, {} models\n", gpu.about.device, gpu.about.models);
        print((&gpu.folder, &gpu.runs), by_way, by_kind, &costs)?;
        let [graph, eager] = [0, 1].map(|way| errors(&by_way[way].iter().collect::<Vec<_>>(), tails[way]));
        let about = About { graph, eager, ..gpu.about.clone() };
        if let Some(output) = output {
            let output = output.join(gpu.name).with_extension("training.zst");
            write(&about, rows(&gpu.runs, None), &output)?;
        }
    }
    Ok(())
}

fn main() -> ExitCode {
    flopgap_benches::run_on_folder("training-tables", run)
}

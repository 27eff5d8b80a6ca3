//! Makes the file of calls of training steps, and their tables of errors in
//! `docs/measurements/calibration.md`, from what `benches/pytorch/train.py` wrote and the graphs
//! beside it.
//!
//! ```sh
//! cargo run --release -p flopgap-benches --bin training-tables FOLDER \
//!     crates/flopgap-roofline/machines/h100.training.zst
//! ```
//!
//! Every model is estimated by the models of other architectures. Without a file, nothing is
//! written.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a program")]

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::ExitCode;

use flopgap_benches::pytorch::{
    ByKind, Head, Judged, Result, Steps, about, architecture, arithmetic, errors, graph_costs, is_recurrent,
    judge_call, least, mean, node, print_calls, print_errors, print_sums, print_whole, reaches, recorded,
    recurrent_layers, write,
};
use flopgap_graph::{Graph, Op, Shapes, read_training};
use flopgap_roofline::pytorch::{
    About, Arithmetic, Call, CallEstimate, Computed, Costs, Gradients, Kind, Phase, PyTorch, Row, Way, adamw,
    launches,
};
use serde::Deserialize;

const HOST: &str = "64 threads of a virtual machine that trained on four GPUs at a time";

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
            let is_recurrent = is_recurrent(layer);
            let parts = if is_recurrent { shared[node(layer)] } else { 1.0 };
            let (_, (kernels, nanoseconds), backward, sums) =
                nodes.get(node(layer)).copied().unwrap_or(&absent);
            // Kernels of a recurrent layer run beside each other.
            let count = |kernels: f64| if is_recurrent { kernels.min(1.0) } else { kernels };
            if *kernels > 0.0 {
                if let Some(call) = Call::of(&graph, layer, computed) {
                    let (kernels, nanoseconds) = (count(*kernels), nanoseconds / parts);
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
                let kernels = count(backward.len() as f64);
                calls.push((place, Row { call, kernels, nanoseconds: sum(backward) / parts }));
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

/// What is paid beside the kernels: of graphs by all of them, of hosts by steps that wait for one.
fn costs(runs: &[Measured]) -> Costs {
    let graphs = runs.iter().filter_map(|run| Some((run.run.graph_us? * 1e3, run.kernels())));
    let [node, replay] = graph_costs(graphs);
    // Each part was waited for, so that the host's time of each is known.
    let hosts: Vec<&Measured> = runs.iter().filter(|run| run.run.eager() > 1.5 * run.kernels()[0]).collect();
    let off = |time: f64, host: f64| (time * 1e3 / host).ln().abs();
    let mean = |of: &dyn Fn(&Measured) -> f64| mean(&hosts.iter().map(|run| of(run)).collect::<Vec<_>>());
    let [operator, module] = least([20_000.0, 10_000.0], |[operator, module]| {
        mean(&|run| {
            let [operators, modules, ..] = run.host();
            off(run.run.forward_us, operator * operators + module * modules)
        })
    });
    let [gradient] =
        least([10_000.0], |[gradient]| mean(&|run| off(run.run.backward_us, gradient * run.host()[2])));
    let [tensor] =
        least([5_000.0], |[tensor]| mean(&|run| off(run.run.optimizer_us, tensor * run.host()[3])));
    Costs { node, replay, operator, module, gradient, tensor }
}

/// Measured calls, of all architectures but one.
fn rows(runs: &[Measured], left_out: Option<&str>) -> Vec<Row> {
    let kept = runs.iter().filter(|run| left_out.is_none_or(|name| architecture(&run.run.model) != name));
    kept.flat_map(|run| &run.calls).map(|(_, row)| row.clone()).collect()
}

/// Every run as a graph and in eager mode, estimated from other architectures.
fn judge<'a>(runs: &'a [Measured], about: &About) -> ([Vec<Judged<'a, Measured>>; 2], ByKind) {
    let architectures: BTreeSet<String> = runs.iter().map(|run| architecture(&run.run.model)).collect();
    let mut by_way: [Vec<Judged<'_, Measured>>; 2] = [Vec::new(), Vec::new()];
    let mut by_kind: ByKind = BTreeMap::new();
    for name in &architectures {
        let others = PyTorch::new(about.clone(), &rows(runs, Some(name)));
        for run in runs.iter().filter(|run| architecture(&run.run.model) == *name) {
            calls(run, &others, &mut by_kind);
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
                judged.push(Judged { architecture: name.clone(), run, nanoseconds, estimate });
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
    by_way: &[Vec<Judged<'_, Measured>>; 2],
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
    let on_gpu: Vec<_> = by_way[1].iter().filter(|one| one.estimate.gpu_ns > one.estimate.host_ns).collect();
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
    let (head, runs) = measured(folder)?;
    let models = runs.iter().map(|run| run.run.model.as_str()).collect::<BTreeSet<_>>().len();
    let about = about(&head, HOST, costs(&runs), models);
    let (by_way, by_kind) = judge(&runs, &about);
    print((folder, &runs), &by_way, &by_kind, &about.costs)?;
    let [graph, eager] = by_way.each_ref().map(|judged| errors(&judged.iter().collect::<Vec<_>>()));
    let about = About { graph, eager, reaches: reaches(&by_kind), ..about };
    eprintln!("{:?}, {:?}, {:?}", about.costs, about.graph.tails, about.eager.tails);
    if let Some(output) = output {
        write(&about, rows(&runs, None), output)?;
    }
    Ok(())
}

fn main() -> ExitCode {
    flopgap_benches::run_on_folder("training-tables", run)
}

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

#![expect(clippy::print_stderr, reason = "a program")]

use std::collections::BTreeMap;
use std::path::Path;
use std::process::ExitCode;

use flopgap_benches::pytorch::{
    self, Head, Measured as _, Result, Steps, arithmetic, errors, graph_costs, host_costs, is_layers,
    launched, node, print_gpu, recorded, write,
};
use flopgap_graph::{Graph, Op, Shapes, read_training};
use flopgap_roofline::pytorch::{
    About, Arithmetic, Call, Computed, Costs, Estimate, Gradients, Kind, PyTorch, Row, Way, adamw, launches,
    stacked,
};
use serde::Deserialize;

const HOST: &str = "16 threads of an Intel Xeon (Sapphire Rapids), a virtual machine";

/// Kernels: number of the name, nanoseconds.
type Kernels = Vec<(usize, f64)>;

/// A node of the exported graph: name, kernels and nanoseconds forward, kernels backward, and
/// kernels that add gradients behind it.
type Node = (String, (f64, f64), Kernels, Kernels);

/// A model in one precision.
#[derive(Deserialize)]
struct Run {
    #[serde(flatten)]
    steps: Steps,
    #[serde(default)]
    kind: String,
    #[serde(default)]
    tf32: bool,
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
    /// Convolutions were computed as PyTorch does by default.
    fn computed(&self) -> Computed {
        let products = arithmetic(&self.kind, self.tf32);
        let cudnn = if products == Arithmetic::Fp32 { Arithmetic::Tf32 } else { products };
        Computed { products, cudnn }
    }

    fn eager(&self) -> Option<f64> {
        self.steps.nanoseconds()
    }
}

fn sum(kernels: &Kernels) -> f64 {
    kernels.iter().map(|(_, nanoseconds)| nanoseconds).sum()
}

impl Measured {
    fn new(run: Run, graph: Graph) -> Self {
        let computed = run.computed();
        let gradients = Gradients::new(&graph);
        let nodes: BTreeMap<&str, &Node> = run.nodes.iter().map(|node| (node.0.as_str(), node)).collect();
        let absent: Node = (String::new(), (0.0, 0.0), Vec::new(), Vec::new());
        let mut calls = Vec::new();
        for (place, layer) in graph.layers.iter().enumerate() {
            let parts = stacked(&graph, layer) as f64;
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
            let width = if computed.products == Arithmetic::Half { 2 } else { 4 };
            let call = adamw(tensors, elements, width, elements * width * 7);
            calls.push((graph.layers.len(), Row { call, kernels, nanoseconds: ns }));
        }
        let trained = gradients.trained(&graph).count() as u64;
        if trained != tensors {
            eprintln!("{}: {tensors} tensors were trained, {trained} by the graph", run.steps.label);
        }
        Self { run, graph, computed, calls, gradients }
    }

    /// How many kernels the host launches forward and backward.
    fn launched(&self) -> f64 {
        let of = |(_, (count, _), backward, sums): &Node| count + (backward.len() + sums.len()) as f64;
        self.run.nodes.iter().map(of).sum()
    }
}

impl pytorch::Measured for Measured {
    fn steps(&self) -> &Steps {
        &self.run.steps
    }

    fn computed(&self) -> Computed {
        self.computed
    }

    fn precision(&self) -> &'static str {
        match self.computed.products {
            Arithmetic::Fp32 => "fp32, convolutions in tf32",
            other => other.name(),
        }
    }

    fn calls(&self) -> &[(usize, Row)] {
        &self.calls
    }

    fn rows(&self) -> Vec<Row> {
        self.calls.iter().map(|(_, row)| row.clone()).collect()
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

    fn nanoseconds(&self, way: Way) -> Option<f64> {
        if way == Way::Graph { Some(self.run.graph_us? * 1e3) } else { self.run.eager() }
    }

    fn estimate(&self, by: &PyTorch, way: Way) -> Option<Estimate> {
        by.training_step(&self.graph, self.computed, way)
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
    let models = runs.iter().filter(|run| !is_layers(run.steps()));
    let graphs = models.clone().filter_map(|run| Some((run.run.graph_us? * 1e3, run.kernels())));
    let [node, replay] = graph_costs(graphs);
    let hosts = models.filter_map(|run| {
        let eager = run.run.eager().filter(|time| *time > 1.5 * run.kernels()[0])?;
        let [operators, views, _] = launches(&run.graph.eager(), false);
        let [views_backward, tensors] = run.gradients.launches(&run.graph);
        let [attention, recurrent] = [Kind::FusedAttention, Kind::Recurrent].map(|kind| run.count(kind));
        let views = views + views_backward;
        Some((eager, [1.0, operators, views, run.launched(), tensors, attention, recurrent]))
    });
    // A cost is among these if architectures that are left out are estimated better with it.
    let [step, operator, view, launch, tensor, attention, recurrent] = host_costs(&hosts.collect::<Vec<_>>());
    Costs { node, replay, operator, view, launch, attention, recurrent, tensor, step, ..Costs::default() }
}

fn run(folder: &Path, output: Option<&Path>) -> Result<()> {
    let mut gpus = pytorch::gpus(folder, HOST, measured)?;
    let costs = costs(&gpus.iter().flat_map(|gpu| &gpu.runs).collect::<Vec<_>>());
    for gpu in &mut gpus {
        gpu.about.costs = costs;
    }
    let (gpus, judged, tails) = pytorch::judged(&mut gpus, [Way::Graph, Way::Eager]);
    eprintln!("{costs:?}, {tails:?}");
    for (own, gpu) in gpus.iter().enumerate() {
        print_gpu("step", gpu, (["graph", "eager"], &judged[own]));
        let graph = errors(&judged[own].0[0], tails[own][0]);
        let eager = launched(&judged, &tails, [own, 1], &graph);
        if let Some(output) = output {
            write(gpu, &About { graph, eager, ..gpu.about.clone() }, output, "training.zst")?;
        }
    }
    Ok(())
}

fn main() -> ExitCode {
    flopgap_benches::run_on_folder("training-tables", run)
}

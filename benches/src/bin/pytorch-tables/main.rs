//! Makes the files of calls that PyTorch makes, and the tables of errors in
//! `docs/measurements/calibration.md`, from what `benches/pytorch/measure.py` wrote on each GPU.
//!
//! ```sh
//! cargo run --release -p flopgap-benches --bin pytorch-tables FOLDER crates/flopgap-roofline/machines
//! ```
//!
//! The folder has one for each GPU, `h100` and `h200`. Every model is estimated by the models of
//! other architectures on all of them. Without a second folder, nothing is written.

#![expect(clippy::print_stderr, reason = "a program")]

mod compiled;

use std::collections::BTreeMap;
use std::path::Path;
use std::process::ExitCode;

use flopgap_benches::pytorch::{
    self, Head, Measured as _, Result, Steps, arithmetic, errors, graph_costs, host_costs, is_layers,
    launched, node, print_gpu, print_worst, recorded, write,
};
use flopgap_graph::{Graph, Op, Shapes, read};
use flopgap_roofline::pytorch::{
    About, Call, Compilation, Computed, Costs, Estimate, Kind, PyTorch, Row, Way, launches, stacked,
};
use serde::Deserialize;

use crate::compiled::CompiledRun;

const HOST: &str = "16 threads of an Intel Xeon (Sapphire Rapids), a virtual machine";

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
    /// Microseconds of a replay of each layer, of single layers.
    layers_us: Option<Vec<f64>>,
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

impl Measured {
    fn new(run: Run, graph: Graph) -> Self {
        let products = arithmetic(&run.kind, run.tf32);
        let computed = Computed { products, cudnn: products };
        let nodes: BTreeMap<&str, &[(String, f64)]> =
            run.nodes.iter().map(|(name, kernels)| (name.as_str(), kernels.as_slice())).collect();
        let mut calls = Vec::new();
        for (place, layer) in graph.layers.iter().enumerate() {
            let Some(call) = Call::of(&graph, layer, computed) else { continue };
            let parts = stacked(&graph, layer) as f64;
            let kernels = nodes.get(node(layer)).copied().unwrap_or_default();
            let nanoseconds = kernels.iter().map(|(_, nanoseconds)| nanoseconds).sum::<f64>() / parts;
            calls.push((place, Row { call, kernels: kernels.len() as f64 / parts, nanoseconds }));
        }
        Self { run, graph, computed, calls, compiled: None, compiled_rows: Vec::new() }
    }

    fn eager(&self) -> Option<f64> {
        self.run.steps.nanoseconds()
    }

    /// Kernels that run beside each other take less than their sum: what a replay takes beyond all
    /// others. Where nothing was replayed, their calls are left out.
    fn replay(&mut self, costs: &Costs) {
        let is_concurrent = |row: &Row| row.call.is_concurrent(row.kernels);
        if let Some(times) = &self.run.layers_us {
            let layers = self.calls.iter_mut().map(|(_, row)| row).filter(|row| row.call.kind != Kind::Map);
            for (row, time) in layers.zip(times).filter(|(row, _)| is_concurrent(row)) {
                row.nanoseconds = (time * 1e3 - costs.replay).max(0.1 * row.nanoseconds);
            }
            return;
        }
        let all = self.run.nodes.iter().flat_map(|(_, kernels)| kernels);
        let all = all.fold([0.0; 2], |[time, count], (_, kernel)| [time + kernel, count + 1.0]);
        match self.run.graph_us {
            Some(graph) => beside_others(self.calls.iter_mut().map(|(_, row)| row), graph * 1e3, all, costs),
            None => self.calls.retain(|(_, row)| !is_concurrent(row)),
        }
        if let Some((graph, all)) = self.compiled.as_ref().and_then(CompiledRun::replayed) {
            beside_others(self.compiled_rows.iter_mut(), graph, all, costs);
        }
    }

    fn sum(&self, of: fn(&Row) -> f64) -> f64 {
        self.calls.iter().map(|(_, row)| of(row)).sum()
    }
}

impl pytorch::Measured for Measured {
    fn steps(&self) -> &Steps {
        &self.run.steps
    }

    fn computed(&self) -> Computed {
        self.computed
    }

    fn calls(&self) -> &[(usize, Row)] {
        &self.calls
    }

    fn rows(&self) -> Vec<Row> {
        let of_layers = is_layers(self.steps());
        let calls = self.calls.iter().filter(|(_, row)| row.kernels > 0.0);
        // The function that wrote what a layer reads is none of its calls.
        let calls = calls.filter(|(_, row)| !of_layers || row.call.operator != "relu");
        calls.map(|(_, row)| row).chain(&self.compiled_rows).cloned().collect()
    }

    fn kernels(&self) -> [f64; 2] {
        [self.sum(|row| row.nanoseconds), self.sum(|row| row.call.waits(row.kernels))]
    }

    fn nanoseconds(&self, way: Way) -> Option<f64> {
        match way {
            Way::Graph => Some(self.run.graph_us? * 1e3),
            Way::Eager => self.eager(),
            Way::Compiled => self.compiled.as_ref().and_then(CompiledRun::time),
            Way::CompiledGraph => self.compiled.as_ref().and_then(CompiledRun::graph),
        }
    }

    fn estimate(&self, by: &PyTorch, way: Way) -> Option<Estimate> {
        by.estimate(&self.graph, self.computed, way)
    }
}

/// Gives the rows whose kernels run beside each other what a replay took beyond all other kernels;
/// `all` is the nanoseconds and the number of all of them.
fn beside_others<'a>(rows: impl Iterator<Item = &'a mut Row>, graph: f64, all: [f64; 2], costs: &Costs) {
    let concurrent: Vec<&mut Row> = rows.filter(|row| row.call.is_concurrent(row.kernels)).collect();
    let sum = |of: fn(&Row) -> f64| concurrent.iter().map(|row| of(row)).sum::<f64>();
    let (own, kernels) = (sum(|row| row.nanoseconds), sum(|row| row.kernels));
    let others = all[1] - kernels + sum(|row| row.call.waits(row.kernels));
    let left = graph - (all[0] - own) - costs.node * others - costs.replay;
    let share = left.max(0.1 * own) / own;
    for row in concurrent {
        row.nanoseconds *= share;
    }
}

fn measured(folder: &Path) -> Result<(Head, Vec<Measured>)> {
    let (head, mut runs) = recorded::<Run>(&folder.join("rows.jsonl"))?;
    let layers = folder.join("layers.jsonl");
    if layers.exists() {
        runs.extend(recorded::<Run>(&layers)?.1);
    }
    let mut all = Vec::new();
    for run in runs.into_iter().filter(|run| run.steps.is_measured()) {
        let graph = read(&folder.join(&run.steps.label).with_extension("pt2"), &Shapes::default())?;
        all.push(Measured::new(run, graph));
    }
    compiled::add(folder, &mut all)?;
    Ok((head, all))
}

/// What is paid beside the kernels on all GPUs: of graphs by all of them, of hosts by steps that
/// wait for one.
fn costs(runs: &[&Measured]) -> Costs {
    let is_concurrent = |(_, row): &(usize, Row)| row.call.is_concurrent(row.kernels);
    let plain = runs.iter().filter(|run| !run.calls.iter().any(is_concurrent));
    let graphs = plain.filter_map(|run| Some((run.run.graph_us? * 1e3, run.kernels())));
    let [node, replay] = graph_costs(graphs);
    let hosts = runs.iter().filter_map(|run| {
        let eager = run.eager().filter(|time| *time > 1.5 * run.kernels()[0])?;
        let graph = run.graph.eager();
        let [operators, views, modules] = launches(&graph, true);
        let runs = |place: usize| !matches!(graph.layers[place].op, Some(Op::View));
        let own = run.calls.iter().filter(|(place, _)| runs(*place));
        let kernels = own.map(|(_, row)| row.call.launches(row.kernels)).sum();
        let [norms, attention] = [Kind::Norm, Kind::FusedAttention].map(|kind| run.count(kind));
        Some((eager, [operators, views, modules, kernels, norms, attention]))
    });
    // A cost is among these if architectures that are left out are estimated better with it.
    let [operator, view, module, launch, norm, attention] = host_costs(&hosts.collect::<Vec<_>>());
    Costs { node, replay, operator, view, module, launch, norm, attention, ..Costs::default() }
}

fn run(folder: &Path, output: Option<&Path>) -> Result<()> {
    let mut gpus = pytorch::gpus(folder, HOST, measured)?;
    let runs: Vec<&Measured> = gpus.iter().flat_map(|gpu| &gpu.runs).collect();
    let (costs, compilation) = (costs(&runs), compiled::fitted(&runs));
    for gpu in &mut gpus {
        gpu.runs.iter_mut().for_each(|run| run.replay(&costs));
        let compiled = compilation.filter(|_| gpu.runs.iter().any(|run| run.compiled.is_some()));
        gpu.about = About { costs, compiled, ..gpu.about.clone() };
    }
    let ways = [Way::Graph, Way::Eager, Way::Compiled, Way::CompiledGraph];
    let (gpus, judged, tails) = pytorch::judged(&mut gpus, ways);
    eprintln!("{costs:?}, {compilation:?}, {tails:?}");
    for (own, gpu) in gpus.iter().enumerate() {
        let names = ["graph", "eager", "compiled", "compiled, graph"];
        print_gpu("model", gpu, (names, &judged[own]));
        let by_way = &judged[own].0;
        print_worst("compiled, as a graph", &by_way[3], false);
        let [graph, replayed] = [0, 3].map(|way| errors(&by_way[way], tails[own][way]));
        let eager = launched(&judged, &tails, [own, 1], &graph);
        let in_default_mode = launched(&judged, &tails, [own, 2], &replayed);
        let compiled =
            gpu.about.compiled.map(|of| Compilation { launched: in_default_mode, graph: replayed, ..of });
        if let Some(output) = output {
            let about = About { graph, eager, compiled, ..gpu.about.clone() };
            write(gpu, &about, output, "pytorch.zst")?;
        }
    }
    Ok(())
}

fn main() -> ExitCode {
    flopgap_benches::run_on_folder("pytorch-tables", run)
}

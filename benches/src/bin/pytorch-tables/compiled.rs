//! Models that `torch.compile` compiled: what their calls of libraries and their fused kernels
//! take.

use std::collections::{BTreeMap, VecDeque};
use std::path::Path;

use flopgap_benches::pytorch::{Result, Steps, host_costs, is_layers, recorded};
use flopgap_graph::{Layer, Op};
use flopgap_roofline::pytorch::{
    Arithmetic, Call, Compilation, Compiled, Errors, Fused, Kind, Pattern, Row, compiled, launches,
};
use serde::Deserialize;

use crate::Measured;

/// A model that was compiled.
#[derive(Deserialize)]
pub(crate) struct CompiledRun {
    #[serde(flatten)]
    steps: Steps,
    tf32: bool,
    graph_us: Option<f64>,
    /// In the order of launches, where each of three steps launched the same.
    #[serde(default)]
    kernels: Option<Vec<Operator>>,
}

/// An operator or a fused kernel: name, sizes of its inputs, their steps and types, kernels with
/// their nanoseconds.
#[derive(Deserialize)]
struct Operator(String, Vec<Sizes>, Vec<Sizes>, Vec<String>, Vec<(String, f64)>);

/// Sizes of a tensor; other arguments have none, or those of a list of tensors.
#[derive(Deserialize)]
#[serde(untagged)]
enum Sizes {
    Tensor(Vec<u64>),
    Other(serde::de::IgnoredAny),
}

impl Sizes {
    fn of_tensor(&self) -> &[u64] {
        match self {
            Self::Tensor(sizes) => sizes,
            Self::Other(_) => &[],
        }
    }
}

impl Operator {
    fn nanoseconds(&self) -> f64 {
        self.4.iter().map(|(_, nanoseconds)| nanoseconds).sum()
    }

    fn sizes(&self, place: usize) -> &[u64] {
        self.1.get(place).map_or(&[], Sizes::of_tensor)
    }

    /// Whether its first operand lies with channels last.
    fn is_channels_last(&self) -> bool {
        matches!((self.2.first(), self.sizes(0)), (Some(Sizes::Tensor(steps)), sizes)
            if steps.len() > 2 && steps[1] == 1 && sizes[1] > 1)
    }

    /// Sizes of its tensors, the last first.
    fn tensors_backward(&self) -> impl Iterator<Item = &[u64]> {
        (0..self.1.len()).rev().map(|place| self.sizes(place)).filter(|sizes| !sizes.is_empty())
    }

    /// Whether it takes statistics of groups of channels: it writes several of the same sizes, one
    /// for each group of each image, or for parts of it. Long names lack what it computes.
    fn takes_statistics(&self) -> bool {
        let mut tensors = self.tensors_backward();
        let written = [tensors.next(), tensors.next()].map(Option::unwrap_or_default);
        let is_of_groups = matches!(written[0], &[_, _, 1, 1, ..]) && written[0] == written[1];
        is_of_groups && !self.0.starts_with("triton_poi")
    }

    /// Channels of a group of images, if they lie with channels last.
    fn channels_of_group(&self) -> u64 {
        match (self.sizes(0), self.tensors_backward().next()) {
            (&[_, channels, _, _], Some(&[_, groups, ..])) if self.is_channels_last() => {
                channels / groups.max(1)
            }
            _ => 0,
        }
    }

    fn is_fused(&self) -> bool {
        self.0.starts_with("triton_")
    }

    /// Its call, where it is a fused kernel. What picks rows out of tables reads less than them.
    fn fused(&self) -> Option<Call> {
        let reads_all = !["embedding", "index", "gather"].iter().any(|part| self.0.contains(part));
        if !self.is_fused() || !reads_all {
            return None;
        }
        let width = |name: &str| match name {
            "float" | "int" => 4,
            "c10::Half" | "c10::BFloat16" => 2,
            "long int" | "double" => 8,
            _ => 1,
        };
        let tensors: Vec<(u64, u64)> = (0..self.1.len())
            .map(|place| (self.sizes(place), width(&self.3[place])))
            .filter(|(sizes, _)| !sizes.is_empty())
            .map(|(sizes, width)| (sizes.iter().product::<u64>() * width, width))
            .collect();
        let (largest, width) = tensors.iter().copied().max()?;
        let pattern = if self.0.contains("softmax") {
            Pattern::Softmax
        } else if self.takes_statistics() {
            Pattern::Statistics
        } else if !self.0.starts_with("triton_poi") {
            Pattern::Reduction
        } else if self.0.contains("_cat_") || self.0.contains("_stack_") {
            Pattern::Concatenation
        } else {
            Pattern::Map
        };
        let fused = Fused {
            layers: Vec::new(),
            bytes: tensors.iter().map(|(bytes, _)| bytes).sum(),
            largest,
            tensors: tensors.iter().filter(|(bytes, _)| *bytes > 8).count() as u64,
            width,
            pattern,
            channels: if pattern == Pattern::Statistics { self.channels_of_group() } else { 0 },
        };
        Some(fused.call())
    }

    /// By what it is found again among the layers of a graph.
    fn key(&self) -> Option<Vec<u64>> {
        let product = |a: &[u64], b: &[u64]| match (a, b) {
            (&[m, k], &[_, n]) => Some(vec![1, m, n, k]),
            (&[batch, m, k], &[_, _, n]) => Some(vec![batch, m, n, k]),
            _ => None,
        };
        match self.0.as_str() {
            "aten::convolution" => Some([self.sizes(0), self.sizes(1)].concat()),
            "aten::mm" | "aten::bmm" => product(self.sizes(0), self.sizes(1)),
            "aten::addmm" => product(self.sizes(1), self.sizes(2)),
            name if name.contains("attention") => Some([self.sizes(0), self.sizes(1)].concat()),
            _ => None,
        }
    }
}

impl CompiledRun {
    /// Nanoseconds of a step; see [`Steps::nanoseconds`].
    pub(crate) fn time(&self) -> Option<f64> {
        self.steps.nanoseconds()
    }

    /// Nanoseconds of a replay, if nothing disturbed it.
    pub(crate) fn graph(&self) -> Option<f64> {
        let found = self.replayed().map(|(graph, _)| graph);
        if found.is_none() && self.graph_us.is_some() && self.kernels.is_some() {
            eprintln!("{}: its replays were disturbed", self.steps.label);
        }
        found
    }

    /// The same, with nanoseconds and number of its kernels. Of six, another process had the GPU
    /// meanwhile: they took up to three times as long as their kernels, which no other replay does.
    pub(crate) fn replayed(&self) -> Option<(f64, [f64; 2])> {
        let [kernels, count] = self.kernels()?;
        let graph = self.graph_us? * 1e3;
        (graph <= 1.4 * (kernels + 500.0 * count + 7_000.0)).then_some((graph, [kernels, count]))
    }

    /// Whether another process had the GPU meanwhile, by what equal calls take in all as a multiple
    /// of the fastest of them: 1.3 to 2.6 in five of 387 runs, at most 1.18 in the others.
    fn is_disturbed(&self) -> bool {
        let mut equal: BTreeMap<_, Vec<f64>> = BTreeMap::new();
        for operator in self.kernels.iter().flatten() {
            let [sizes, steps] =
                [&operator.1, &operator.2].map(|all| all.iter().map(Sizes::of_tensor).collect::<Vec<_>>());
            for (place, (_, nanoseconds)) in operator.4.iter().enumerate() {
                let call = (&operator.0, sizes.clone(), steps.clone(), operator.4.len(), place);
                equal.entry(call).or_default().push(*nanoseconds);
            }
        }
        let [mut sum, mut least] = [0.0; 2];
        for times in equal.values().filter(|times| times.len() > 1) {
            sum += times.iter().sum::<f64>();
            least += times.len() as f64 * times.iter().copied().fold(f64::INFINITY, f64::min);
        }
        sum > 1.2 * least
    }

    /// Nanoseconds of all kernels, and their number.
    fn kernels(&self) -> Option<[f64; 2]> {
        let all = self.kernels.as_ref()?;
        let count = all.iter().map(|operator| operator.4.len()).sum::<usize>();
        Some([all.iter().map(Operator::nanoseconds).sum(), count as f64])
    }
}

/// Adds the runs in `compiled.jsonl`, if it is there, and their calls.
pub(crate) fn add(folder: &Path, runs: &mut [Measured]) -> Result<()> {
    let path = folder.join("compiled.jsonl");
    if !path.exists() {
        return Ok(());
    }
    let (_, all) = recorded::<CompiledRun>(&path)?;
    let all = all.into_iter().filter(|run| run.steps.is_measured()).filter(|run| {
        let is_disturbed = run.is_disturbed();
        if is_disturbed {
            eprintln!("{}: its kernels were disturbed", run.steps.label);
        }
        !is_disturbed
    });
    let mut by_label: BTreeMap<(String, bool), CompiledRun> =
        all.map(|run| ((run.steps.label.clone(), run.tf32), run)).collect();
    for run in runs.iter_mut() {
        let key = (run.run.steps.label.clone(), run.computed.products == Arithmetic::Tf32);
        if let Some(compiled) = by_label.remove(&key) {
            run.compiled_rows = rows(run, &compiled);
            run.compiled = Some(compiled);
        }
    }
    Ok(())
}

/// The calls of a compiled model, as far as they are found again in its graph.
fn rows(run: &Measured, compiled: &CompiledRun) -> Vec<Row> {
    let mut layers: BTreeMap<Vec<u64>, VecDeque<&Layer>> = BTreeMap::new();
    for layer in &run.graph.layers {
        let tensor = |place: usize| {
            layer.inputs.get(place).map_or(&[][..], |&input| run.graph.tensors[input].shape.as_slice())
        };
        let key = match &layer.op {
            Some(Op::Gemm(gemm)) => vec![gemm.batch, gemm.m, gemm.n, gemm.k],
            Some(Op::Conv(_) | Op::Attention(_)) => [tensor(0), tensor(1)].concat(),
            _ => continue,
        };
        layers.entry(key).or_default().push_back(layer);
    }
    let mut rows = Vec::new();
    let mut lost = 0.0;
    for operator in compiled.kernels.iter().flatten() {
        let call = operator.fused().or_else(|| {
            let own = layers.get_mut(&operator.key()?)?;
            // Layers of the same sizes take turns.
            let layer = own.pop_front()?;
            own.push_back(layer);
            let call = Call::of(&run.graph, layer, run.computed)?;
            let call = call.compiled(operator.is_channels_last(), operator.0 == "aten::addmm");
            // Attention that is spelled out is products and fused kernels.
            (call.kind != Kind::MathAttention).then_some(call)
        });
        match call {
            Some(call) => {
                let (kernels, nanoseconds) = (operator.4.len() as f64, operator.nanoseconds());
                rows.push(Row { call, kernels, nanoseconds });
            }
            None => lost += operator.nanoseconds(),
        }
    }
    let [all, _] = compiled.kernels().unwrap_or_default();
    if lost > 0.1 * all {
        eprintln!(
            "{}: {:.0} % of its compiled kernels are in no row",
            compiled.steps.label,
            100.0 * lost / all
        );
    }
    rows
}

/// What the host of compiled models takes; `None` where nothing was compiled.
pub(crate) fn fitted(runs: &[&Measured]) -> Option<Compilation> {
    let models = runs.iter().filter(|run| !is_layers(&run.run.steps));
    let hosts = models.filter_map(|run| {
        let own = run.compiled.as_ref()?;
        let time = own.time().filter(|time| *time > 1.5e3 * own.graph_us.unwrap_or(f64::INFINITY))?;
        let [.., modules] = launches(&run.graph, false);
        // A call of a library launches as many kernels as it does without `torch.compile`.
        let launched = |kernel: &Compiled| match kernel {
            Compiled::Library { layer, .. } => {
                let own = run.calls.iter().find(|(place, _)| place == layer);
                own.map_or(1.0, |(_, row)| row.call.launches(row.kernels))
            }
            Compiled::Fused(_) => 1.0,
        };
        Some((time, [1.0, compiled(&run.graph).iter().map(launched).sum(), modules]))
    });
    let hosts: Vec<(f64, [f64; 3])> = hosts.collect();
    if hosts.is_empty() {
        return None;
    }
    let [step, launch, module] = host_costs(&hosts);
    Some(Compilation { step, launch, module, launched: Errors::default(), graph: Errors::default() })
}

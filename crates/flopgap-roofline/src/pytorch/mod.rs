//! What PyTorch takes for a model, from the operators that it calls: times of kernels measured in
//! models drawn at random, interpolated for others.
//!
//! ```
//! use std::path::Path;
//! use flopgap_graph::{Shapes, read};
//! use flopgap_roofline::pytorch::{self, Arithmetic, Computed, Way};
//!
//! let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/models/resnet50.pt2");
//! let graph = read(Path::new(path), &Shapes::default())?;
//! let computed = Computed { products: Arithmetic::Half, cudnn: Arithmetic::Half };
//! let estimate = pytorch::named("h100").unwrap().estimate(&graph, computed, Way::Graph).unwrap();
//! assert!(estimate.low < estimate.nanoseconds && estimate.nanoseconds < estimate.high);
//! # Ok::<(), flopgap_graph::GraphError>(())
//! ```

mod backward;
mod call;
mod compiled;
mod coordinates;
mod file;
mod fusion;
mod table;
mod training;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::OnceLock;

use flopgap_graph::{Graph, Op};
use serde::{Deserialize, Serialize};

pub use self::backward::{Gradients, adamw};
use self::call::Key;
pub use self::call::{Arithmetic, Call, Computed, Kind, Phase};
pub use self::compiled::{Compiled, Fused, Pattern, channels_last, compiled};
pub use self::file::{PyTorchError, to_text};
use self::table::Table;
pub use self::training::training;
use crate::machines::{self, Bound};

/// How a model runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Way {
    /// Operator by operator from Python, on the host that was measured.
    Eager,
    /// The same kernels replayed as a CUDA graph.
    Graph,
    /// By `torch.compile` in its default mode, on the host that was measured.
    Compiled,
    /// By `torch.compile`, its kernels replayed as a CUDA graph (`mode="reduce-overhead"`).
    CompiledGraph,
}

/// What the GPU can do at most, by its data sheet.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Peaks {
    /// Bytes per second of the memory.
    pub bytes_per_second: f64,
    /// FLOP/s in fp32, without tensor cores.
    pub fp32: f64,
    /// Dense FLOP/s in TF32.
    pub tf32: f64,
    /// Dense FLOP/s in 16 bits.
    pub half: f64,
    /// Multiprocessors, by which tiles are divided into waves.
    pub units: f64,
}

/// Nanoseconds beside the kernels.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Costs {
    /// Between two nodes of a graph.
    pub node: f64,
    /// Of a replay.
    pub replay: f64,
    /// Of the host for an operator that computes; views cost too little to be measured.
    pub operator: f64,
    /// Of the host for a module.
    pub module: f64,
    /// Of the host for the backward of an operator that computes; 0 of inference.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub gradient: f64,
    /// Of the host for a tensor that the optimizer changes; 0 of inference.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub tensor: f64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "as serde calls it")]
fn is_zero(cost: &f64) -> bool {
    *cost == 0.0
}

/// Errors on models of architectures that were left out.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Errors {
    /// Runs: models, each in several precisions.
    pub runs: usize,
    /// Mean relative error.
    pub mape: f64,
    /// Median relative error.
    pub median: f64,
    /// The error that a tenth exceeds.
    pub p90: f64,
    /// The share within intervals of 90 %, whose widths come from other architectures.
    pub coverage: f64,
    /// The 5th and 95th percentile of ln(measured / estimated), in deviations of the estimate.
    pub tails: [f64; 2],
}

/// What was measured, where.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct About {
    /// The GPU as the driver calls it.
    pub device: String,
    /// `PyTorch 2.11.0, cuDNN 9.19`.
    pub software: String,
    /// The host that launched.
    pub host: String,
    /// Bytes of the GPU's memory.
    pub memory_bytes: u64,
    /// Peaks of the GPU.
    pub peaks: Peaks,
    /// What is paid beside the kernels.
    pub costs: Costs,
    /// Models that were measured.
    pub models: usize,
    /// Errors of whole models, in eager mode and as a graph.
    pub eager: Errors,
    /// See `eager`.
    pub graph: Errors,
    /// What `torch.compile` takes, where that was measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub compiled: Option<Compilation>,
    /// How wide intervals of calls are, by table.
    pub reaches: Vec<Reach>,
}

/// What `torch.compile` takes beside the calls that are in the tables.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Compilation {
    /// Nanoseconds of the host for a call of a library or a fused kernel.
    pub launch: f64,
    /// Nanoseconds of the host for a step: guards, and what is around the kernels.
    pub step: f64,
    /// Errors of whole models in the default mode.
    pub launched: Errors,
    /// Errors of whole models as a graph.
    pub graph: Errors,
}

/// How wide the intervals of a table are.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Reach {
    /// The table.
    pub kind: Kind,
    /// See `kind`.
    #[serde(default, skip_serializing_if = "Phase::is_forward")]
    pub phase: Phase,
    /// See `kind`.
    pub arithmetic: Arithmetic,
    /// Standard deviations of an estimate within which nine tenths of the calls of architectures
    /// that were left out are.
    pub reach: f64,
}

/// The GPU that times are for.
#[derive(Debug, Clone, PartialEq)]
pub struct Target {
    /// As the driver calls it.
    pub device: String,
    /// Bytes of its memory.
    pub memory_bytes: u64,
    /// Its peaks.
    pub peaks: Peaks,
    /// Of a GPU that was not measured: ln of the lowest and the highest time over what the share of
    /// the peaks suggests.
    pub moved: Option<[f64; 2]>,
}

/// How wide intervals are of a table whose calls no other architecture has, so that nobody judged
/// it: as [`Reach::reach`].
pub const UNJUDGED: f64 = 3.0;

/// A measured call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// The call.
    #[serde(flatten)]
    pub call: Call,
    /// Kernels, copies and memory sets that it launched.
    pub kernels: f64,
    /// Nanoseconds of all of them.
    pub nanoseconds: f64,
}

/// Measured calls, as they are or would be on a GPU.
#[derive(Debug, Clone)]
pub struct PyTorch {
    /// What was measured.
    pub about: About,
    /// The GPU that times are for.
    pub target: Target,
    /// Numbers that stand for the operators.
    names: BTreeMap<String, f64>,
    tables: BTreeMap<Key, Table>,
}

/// The estimate of a call.
#[derive(Debug, Clone, PartialEq)]
pub struct CallEstimate {
    /// Index of the layer.
    pub layer: usize,
    /// Nanoseconds of its kernels.
    pub nanoseconds: f64,
    /// Lower bound of the interval of 90 %.
    pub low: f64,
    /// Upper bound.
    pub high: f64,
    /// Kernels.
    pub kernels: f64,
    /// What bounds it.
    pub bound: Bound,
    /// Nanoseconds of its roofline.
    pub roofline_ns: f64,
    /// FLOPs.
    pub flops: u64,
    /// Bytes of operands and results.
    pub bytes: u64,
    /// Relative standard deviation, in units of that of its table.
    deviation: f64,
}

/// The estimate of a model.
#[derive(Debug, Clone, PartialEq)]
pub struct Estimate {
    /// Nanoseconds of a run.
    pub nanoseconds: f64,
    /// Lower bound of the interval of 90 %.
    pub low: f64,
    /// Upper bound.
    pub high: f64,
    /// Nanoseconds of the GPU: its kernels and what lies between them.
    pub gpu_ns: f64,
    /// Nanoseconds of the host, which launches them one by one; 0 of a graph.
    pub host_ns: f64,
    /// Each call.
    pub calls: Vec<CallEstimate>,
    /// What of it was never measured, such as `recurrent layers`: it is in no sum.
    pub missing: BTreeSet<String>,
    /// Nanoseconds of the GPU in each part of a training step.
    pub parts: Option<Parts>,
}

/// Nanoseconds of the GPU in the parts of a training step.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Parts {
    /// Forward.
    pub forward: f64,
    /// Backward.
    pub backward: f64,
    /// The optimizer's step.
    pub optimizer: f64,
}

/// Calls that are estimated one by one.
struct Sum<'a> {
    pytorch: &'a PyTorch,
    known: BTreeMap<Call, Option<CallEstimate>>,
    calls: Vec<CallEstimate>,
    missing: BTreeSet<String>,
    parts: Parts,
}

impl<'a> Sum<'a> {
    fn new(pytorch: &'a PyTorch) -> Self {
        let (known, calls, missing) = (BTreeMap::new(), Vec::new(), BTreeSet::new());
        Self { pytorch, known, calls, missing, parts: Parts::default() }
    }

    /// The estimate of a call, which is interpolated once; a call that was never measured is noted.
    fn find(&mut self, layer: usize, call: Call) -> Option<CallEstimate> {
        let what = call.what();
        let found = self.known.entry(call).or_insert_with_key(|call| self.pytorch.call(layer, call));
        if found.is_none() {
            self.missing.insert(what);
        }
        found.clone().map(|found| CallEstimate { layer, ..found })
    }

    fn add(&mut self, layer: usize, call: Call) {
        let (kind, phase) = (call.kind, call.phase);
        let Some(found) = self.find(layer, call) else { return };
        let part = match (kind, phase) {
            (Kind::Optimizer, _) => &mut self.parts.optimizer,
            (_, Phase::Forward) => &mut self.parts.forward,
            _ => &mut self.parts.backward,
        };
        *part += found.nanoseconds + self.pytorch.about.costs.node * found.kernels;
        self.calls.push(found);
    }

    /// The calls of a graph forward.
    fn forward(&mut self, graph: &Graph, computed: Computed) {
        for (layer, of) in graph.layers.iter().enumerate() {
            if let Some(what) = of.op.as_ref().and_then(never_measured) {
                self.missing.insert(what.to_owned());
            } else if let Some(call) = Call::of(graph, of, computed) {
                self.add(layer, call);
            }
        }
    }

    /// The kernels of a compiled graph: how many a host launches.
    fn compiled(&mut self, graph: &Graph, computed: Computed) -> usize {
        let last = channels_last(graph);
        let kernels = compiled(graph);
        for kernel in &kernels {
            match kernel {
                Compiled::Library(layer) => {
                    let of = &graph.layers[*layer];
                    if let Some(what) = of.op.as_ref().and_then(never_measured) {
                        self.missing.insert(what.to_owned());
                    } else if let Some(call) = Call::of(graph, of, computed) {
                        for call in compiled::calls(call, computed.products) {
                            self.add(*layer, self.pytorch.of_compiled(call, last));
                        }
                    }
                }
                Compiled::Fused(fused) => {
                    let Some(found) = self.find(fused.layers[0], fused.call()) else { continue };
                    for (layer, share) in fused.shares(graph) {
                        self.calls.push(CallEstimate {
                            layer,
                            nanoseconds: share * found.nanoseconds,
                            low: share * found.low,
                            high: share * found.high,
                            kernels: share,
                            roofline_ns: share * found.roofline_ns,
                            ..found
                        });
                    }
                }
            }
        }
        kernels.len()
    }

    /// All of them, with what `host_ns` of a host are for.
    fn whole(self, way: Way, host_ns: f64) -> Option<Estimate> {
        let Self { pytorch, calls, missing, parts, .. } = self;
        if calls.is_empty() {
            return None;
        }
        let costs = &pytorch.about.costs;
        let sum = |of: fn(&CallEstimate) -> f64| calls.iter().map(of).sum::<f64>();
        let kernels = sum(|call| call.nanoseconds);
        let gpu_ns = kernels + costs.node * sum(|call| call.kernels) + costs.replay;
        let (host_ns, errors) = match way {
            Way::Graph => (0.0, &pytorch.about.graph),
            Way::Eager => (host_ns, &pytorch.about.eager),
            Way::Compiled => (host_ns, &pytorch.about.compiled.as_ref()?.launched),
            Way::CompiledGraph => (0.0, &pytorch.about.compiled.as_ref()?.graph),
        };
        let nanoseconds = gpu_ns.max(host_ns);
        let deviation = sum(|call| call.nanoseconds * call.deviation) / kernels;
        // What a host takes does not move with the GPU, but the other machine has another host.
        let moved = match pytorch.target.moved {
            Some(_) if host_ns > gpu_ns => [OTHER_HOST; 2],
            moved => moved.unwrap_or_default(),
        };
        // Errors of the tables and of the move are independent.
        let tail = |place: usize| (errors.tails[place] * deviation).hypot(moved[place]);
        let [low, high] = [(-tail(0)).exp(), tail(1).exp()].map(|factor| nanoseconds * factor);
        Some(Estimate { nanoseconds, low, high, gpu_ns, host_ns, calls, missing, parts: Some(parts) })
    }
}

impl PyTorch {
    /// Tables of measured calls. A call that several rows have takes their median.
    pub fn new(about: About, rows: &[Row]) -> Self {
        let operators: BTreeSet<&str> = rows.iter().map(|row| row.call.operator.as_ref()).collect();
        let names = operators.into_iter().zip(1_u32..);
        let names = names.map(|(name, number)| (name.to_owned(), f64::from(number))).collect();
        let target = Target {
            device: about.device.clone(),
            memory_bytes: about.memory_bytes,
            peaks: about.peaks,
            moved: None,
        };
        let mut pytorch = Self { about, target, names, tables: BTreeMap::new() };
        let mut by_call: BTreeMap<&Call, Vec<&Row>> = BTreeMap::new();
        for row in rows.iter().filter(|row| row.call.sizes.len() == row.call.kind.sizes()) {
            by_call.entry(&row.call).or_default().push(row);
        }
        for (call, rows) in by_call {
            let point = pytorch.point(call);
            let floor = 1e9 * call.floor(&pytorch.about.peaks).seconds();
            let table = pytorch.tables.entry(call.key());
            table.or_insert_with(|| Table::new(call.kind.scales())).push(&point, &rows, floor);
        }
        pytorch
    }

    fn point(&self, call: &Call) -> Vec<f64> {
        // A name that was never measured is like no other.
        let name = self.names.get(call.operator.as_ref()).copied().unwrap_or(0.0);
        call.coordinates(name, self.about.peaks.units)
    }

    /// The same calls on another GPU, where they take the same share of their floors.
    #[must_use]
    pub fn on(&self, target: Target) -> Self {
        Self { target, ..self.clone() }
    }

    /// Measured calls by kind.
    pub fn rows(&self) -> impl Iterator<Item = (Kind, Arithmetic, usize)> + '_ {
        self.tables.iter().map(|((_, kind, arithmetic), table)| (*kind, *arithmetic, table.len()))
    }

    /// The time of a call; `None` where nothing of its kind was measured.
    pub fn call(&self, layer: usize, call: &Call) -> Option<CallEstimate> {
        let table = self.tables.get(&call.key()).filter(|table| table.forms.contains(&call.form()))?;
        let point = self.point(call);
        let floor = call.floor(&self.target.peaks);
        let (bound, flops, bytes) = (Bound::of(floor), call.flops, call.bytes);
        let roofline_ns = floor.compute.max(floor.bytes) * 1e9;
        if !matches!(call.phase, Phase::Forward | Phase::Compiled)
            && !table.launches(&call.operator, &point)?
        {
            let [nanoseconds, low, high, kernels, deviation, roofline_ns] = [0.0; 6];
            let nothing = CallEstimate {
                layer,
                nanoseconds,
                low,
                high,
                kernels,
                bound,
                roofline_ns,
                flops: 0,
                bytes: 0,
                deviation,
            };
            return Some(nothing);
        }
        let found = table.at(&point)?;
        let at = |logarithm: f64| 1e9 * floor.seconds() * logarithm.exp();
        let is_own = |own: &&Reach| (own.phase, own.kind, own.arithmetic) == call.key();
        let reach = self.about.reaches.iter().find(is_own).map_or(UNJUDGED, |own| own.reach);
        let wide = reach * table.spread() * found.deviation;
        Some(CallEstimate {
            layer,
            nanoseconds: at(found.value),
            low: at(found.value - wide),
            high: at(found.value + wide),
            kernels: found.kernels,
            bound,
            roofline_ns,
            flops,
            bytes,
            deviation: found.deviation,
        })
    }

    /// The time of a model, as far as there is one.
    pub fn estimate(&self, graph: &Graph, computed: Computed, way: Way) -> Option<Estimate> {
        let mut sum = Sum::new(self);
        let host_ns = match way {
            Way::Eager | Way::Graph => {
                sum.forward(graph, computed);
                self.host(graph)
            }
            Way::Compiled | Way::CompiledGraph => {
                let costs = self.about.compiled.as_ref()?;
                costs.step + costs.launch * sum.compiled(graph, computed) as f64
            }
        };
        sum.whole(way, host_ns).map(|estimate| Estimate { parts: None, ..estimate })
    }

    /// The call of a compiled model, where such calls were measured: others run as they do without
    /// `torch.compile`.
    fn of_compiled(&self, call: Call, channels_last: bool) -> Call {
        let compiled = call.clone().compiled(channels_last);
        let is_known =
            self.tables.get(&compiled.key()).is_some_and(|table| table.forms.contains(&compiled.form()));
        if is_known { compiled } else { call }
    }

    /// Nanoseconds of the host that calls every operator of a model.
    fn host(&self, graph: &Graph) -> f64 {
        let costs = &self.about.costs;
        let [operators, modules] = launches(graph);
        costs.operator * operators + costs.module * modules
    }
}

/// The operations that no table has: what they take depends on where their operands point.
fn never_measured(op: &Op) -> Option<&'static str> {
    match op {
        Op::GridSample(_) => Some("grid samples"),
        Op::EmbeddingBag(_) => Some("embedding bags"),
        _ => None,
    }
}

/// What a host runs: operators that compute, and modules.
pub fn launches(graph: &Graph) -> [f64; 2] {
    let operators = graph.layers.iter().filter(|layer| !matches!(layer.op, Some(Op::View)));
    let modules: BTreeSet<&str> = graph.layers.iter().map(|layer| layer.module.as_str()).collect();
    [operators.count(), modules.len()].map(|count| count as f64)
}

/// The names of the GPUs whose calls are known: measured on the first, and moved to the others by
/// their peaks.
pub const NAMES: &[&str] = &["h100", "h200"];

/// The calls of a GPU, ignoring case.
pub fn named(name: &str) -> Option<&'static PyTorch> {
    static TABLES: Tables = Tables::new(include_bytes!("../../machines/h100.pytorch.zst"));
    TABLES.named(name)
}

/// How far another host is off, as ln, in nine of ten: on three virtual machines of one kind the
/// median step that waits for its host took 1, 1.07 and 0.83 times as long; Student's t of these.
const OTHER_HOST: f64 = 0.45;

/// The tables of one file: of the GPU on which they were measured, and moved to another.
struct Tables {
    bytes: &'static [u8],
    h100: OnceLock<Option<PyTorch>>,
    h200: OnceLock<Option<PyTorch>>,
}

impl Tables {
    const fn new(bytes: &'static [u8]) -> Self {
        Self { bytes, h100: OnceLock::new(), h200: OnceLock::new() }
    }

    fn named(&'static self, name: &str) -> Option<&'static PyTorch> {
        let h100 = || self.h100.get_or_init(|| PyTorch::parse(self.bytes, "h100").ok()).as_ref();
        match name.to_ascii_lowercase().as_str() {
            "h100" => h100(),
            "h200" => self.h200.get_or_init(|| on_h200(h100()?)).as_ref(),
            _ => None,
        }
    }
}

/// The same multiprocessors with a faster memory. How far times are off is how far NVIDIA's tables
/// of both GPUs are from each other's share of the peaks, the other way around.
fn on_h200(h100: &PyTorch) -> Option<PyTorch> {
    let (there, here) = (machines::named("h100")?, machines::named("h200")?);
    let [_, low, high] = there.transfer(Bound::Memory)?.ratio;
    let peaks = Peaks { bytes_per_second: here.peaks.bytes_per_second, ..h100.target.peaks };
    let (device, memory_bytes) = (here.device.clone(), here.peaks.memory_bytes);
    Some(h100.on(Target { device, memory_bytes, peaks, moved: Some([high.ln(), -low.ln()]) }))
}

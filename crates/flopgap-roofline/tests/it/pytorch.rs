//! Calls of PyTorch.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use flopgap_flops::AttentionMask;
use flopgap_graph::{Graph, Layer, Op, Shapes, read, read_training};
use flopgap_roofline::pytorch::{
    About, Arithmetic, Call, Compiled, Computed, Estimate, Gradients, Kind, NAMES, Pattern, Phase, PyTorch,
    Row, Way, compiled, launches, named, parse, to_bytes, training,
};

use serde::de::IgnoredAny;
use tempfile::TempDir;

const HALF: Computed = Computed { products: Arithmetic::Half, cudnn: Arithmetic::Half };
const FP32: Computed = Computed { products: Arithmetic::Fp32, cudnn: Arithmetic::Fp32 };

fn model(name: &str) -> Graph {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/models");
    read(&folder.join(name), &Shapes::default()).unwrap()
}

const MODELS: [&str; 8] = [
    "resnet18.pt2",
    "resnet50.pt2",
    "densenet121.pt2",
    "efficientnet_b0.pt2",
    "vit_b_16.pt2",
    "bert.pt2",
    "llama.pt2",
    "unet.pt2",
];

#[test]
fn tables_have_as_many_calls_as_the_readme_says() {
    let count = |name: &str| named(name).unwrap().rows().map(|(.., calls)| calls).sum::<usize>();
    for name in NAMES {
        assert_eq!(count(name), 60_507);
    }
}

#[test]
fn a_model_is_its_calls_and_what_lies_between_them() {
    for name in NAMES {
        let pytorch = named(name).unwrap();
        let costs = &pytorch.about.costs;
        for model in MODELS.map(|name| model(name).eager().into_owned()) {
            let [graph, eager] =
                [Way::Graph, Way::Eager].map(|way| pytorch.estimate(&model, FP32, way).unwrap());
            let sum = |of: fn(&Estimate) -> f64| of(&graph);
            let kernels: f64 = graph.calls.iter().map(|call| call.nanoseconds).sum();
            let nodes: f64 = graph.calls.iter().map(|call| call.waits).sum();
            let expected = kernels + costs.node * nodes + costs.replay;
            assert!((sum(|graph| graph.nanoseconds) / expected - 1.0).abs() < 1e-9, "{}", model.name);
            assert!((graph.host_ns).abs() < f64::EPSILON);
            let [operators, views, modules] = launches(&model, true);
            let launched: f64 = eager.calls.iter().map(|call| call.kernels).sum();
            let of = |kind| eager.calls.iter().filter(|call| call.kind == kind).count() as f64;
            let host = costs.operator * operators
                + costs.view * views
                + costs.module * modules
                + costs.norm * of(Kind::Norm)
                + costs.attention * of(Kind::FusedAttention)
                + costs.launch * launched;
            assert!((eager.host_ns / host - 1.0).abs() < 1e-9);
            assert!((eager.nanoseconds - eager.host_ns.max(graph.nanoseconds)).abs() < 1.0);
            for estimate in [graph, eager] {
                assert!(estimate.missing.is_empty(), "{}: {:?}", model.name, estimate.missing);
                assert!(0.0 < estimate.low && estimate.low < estimate.nanoseconds);
                assert!(estimate.nanoseconds < estimate.high);
                for call in &estimate.calls {
                    assert!(0.0 < call.low && call.low <= call.nanoseconds && call.nanoseconds <= call.high);
                }
            }
        }
    }
}

#[test]
fn a_compiled_model_is_its_kernels_and_what_lies_between_them() {
    let pytorch = named("h100").unwrap();
    let costs = &pytorch.about.costs;
    let compilation = pytorch.about.compiled.unwrap();
    for model in MODELS.map(model) {
        let [graph, launched] =
            [Way::CompiledGraph, Way::Compiled].map(|way| pytorch.estimate(&model, HALF, way).unwrap());
        assert!(graph.missing.is_empty(), "{}: {:?}", model.name, graph.missing);
        let kernels: f64 = graph.calls.iter().map(|call| call.nanoseconds).sum();
        let nodes: f64 = graph.calls.iter().map(|call| call.kernels).sum();
        let expected = kernels + costs.node * nodes + costs.replay;
        assert!((graph.nanoseconds / expected - 1.0).abs() < 1e-9, "{}", model.name);
        let [.., modules] = launches(&model, false);
        let host = compilation.step + compilation.module * modules + compilation.launch * nodes;
        assert!((launched.host_ns / host - 1.0).abs() < 1e-9);
        assert!((launched.nanoseconds - host.max(graph.nanoseconds)).abs() < 1.0);
        assert!(graph.low < graph.nanoseconds && graph.nanoseconds < graph.high);
    }
}

fn layers_of(kernel: &Compiled) -> Vec<usize> {
    match kernel {
        Compiled::Fused(fused) => fused.layers.clone(),
        Compiled::Library { layer, .. } => vec![*layer],
    }
}

#[test]
fn layers_are_fused_with_what_computes_their_operands() {
    let kernels = |name: &str| {
        let graph = model(name);
        let all = compiled(&graph);
        let libraries = all.iter().filter(|kernel| matches!(kernel, Compiled::Library { .. })).count();
        let fused = all.iter().filter_map(|kernel| match kernel {
            Compiled::Fused(fused) => Some(fused.layers.len()),
            Compiled::Library { .. } => None,
        });
        // Each layer that computes is in a kernel, and in no second one but for what is around a
        // convolution.
        let computes = |layer: &&flopgap_graph::Layer| !matches!(layer.op, Some(Op::View | Op::Conv(_)));
        let layers: usize = all
            .iter()
            .flat_map(layers_of)
            .filter(|layer| !matches!(graph.layers[*layer].op, Some(Op::Conv(_))))
            .count();
        assert_eq!(layers, graph.layers.iter().filter(computes).count(), "{name}");
        (libraries, fused.collect::<Vec<_>>())
    };
    // Convolution, norm and activation: 16 of blocks and the first, with the sums at the ends of
    // the blocks and the norms beside them, and with the last the mean; the pool; the weights of 17
    // convolutions and the image in another order.
    let (libraries, fused) = kernels("resnet18.pt2");
    assert_eq!((libraries, fused.len()), (21, 17 + 1 + 18));
}

/// What `benches/pytorch/compiled.py` saw of a model.
struct Seen {
    label: String,
    libraries: usize,
    /// Products that add a bias themselves.
    with_bias: usize,
    fused: usize,
    /// Kernels that take statistics of groups of channels.
    statistics: usize,
    /// Bytes of the tensors that fused kernels got; `None` where some pick rows out of tables.
    bytes: Option<f64>,
}

/// Whether a fused kernel writes several values for each group of each image, or for parts of it.
fn takes_statistics(name: &str, sizes: &[serde_json::Value]) -> bool {
    let tensors = sizes.iter().filter_map(serde_json::Value::as_array);
    let tensors: Vec<_> =
        tensors.filter(|sizes| sizes.first().is_some_and(serde_json::Value::is_u64)).collect();
    let [.., before, last] = tensors.as_slice() else { return false };
    let is_of_groups = last.len() > 3 && last[2..4].iter().all(|size| *size == 1) && last == before;
    is_of_groups && !name.starts_with("triton_poi")
}

fn seen_kernels() -> Vec<Seen> {
    /// Name, sizes and types of operands.
    type Kernel = (String, Vec<serde_json::Value>, IgnoredAny, Vec<String>, IgnoredAny);
    #[derive(serde::Deserialize)]
    struct Run {
        label: String,
        tf32: bool,
        kernels: Vec<Kernel>,
    }
    let lines = unpacked("compiled.jsonl.zst");
    let runs = std::str::from_utf8(&lines).unwrap().lines().skip(1);
    let runs = runs.map(|line| serde_json::from_str::<Run>(line).unwrap()).filter(|run| !run.tf32);
    let seen = runs.map(|run| {
        let [libraries, with_bias, fused, statistics] = [0; 4];
        let mut seen = Seen { label: run.label, libraries, with_bias, fused, statistics, bytes: Some(0.0) };
        for (name, sizes, _, types, _) in run.kernels {
            if !name.starts_with("triton_") {
                seen.libraries += 1;
                seen.with_bias += usize::from(name == "aten::addmm");
                continue;
            }
            seen.fused += 1;
            seen.statistics += usize::from(takes_statistics(&name, &sizes));
            if ["embedding", "index", "gather"].iter().any(|part| name.contains(part)) {
                seen.bytes = None;
            }
            for (sizes, element) in sizes.iter().zip(&types) {
                let width = match element.as_str() {
                    "c10::Half" | "c10::BFloat16" => 2.0,
                    "long int" | "double" => 8.0,
                    "float" | "int" => 4.0,
                    "bool" => 1.0,
                    _ => 0.0,
                };
                let elements = sizes.as_array().unwrap().iter().map(|size| size.as_f64().unwrap_or(0.0));
                let bytes = width * elements.product::<f64>();
                seen.bytes = seen.bytes.map(|sum| sum + bytes);
            }
        }
        seen
    });
    seen.collect()
}

fn unpacked(name: &str) -> Vec<u8> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/pytorch").join(name);
    zstd::decode_all(&std::fs::read(path).unwrap()[..]).unwrap()
}

/// The files of an archive.
fn archived(name: &str) -> TempDir {
    let archive = unpacked(name);
    let folder = tempfile::tempdir().unwrap();
    // Headers of 512 bytes: the name, and from byte 124 on the size in octal digits.
    let mut rest = &archive[..];
    while rest.len() > 512 && rest[0] != 0 {
        let text = |from: usize, to: usize| rest[from..to].split(|byte| *byte == 0).next().unwrap();
        let name = String::from_utf8(text(0, 100).to_vec()).unwrap();
        let size = std::str::from_utf8(text(124, 136)).unwrap().trim();
        let size = usize::from_str_radix(size, 8).unwrap();
        if let Some(name) = Path::new(&name).file_name().filter(|_| size > 0) {
            std::fs::write(folder.path().join(name), &rest[512..512 + size]).unwrap();
        }
        rest = &rest[512 + size.next_multiple_of(512)..];
    }
    folder
}

/// Every layer is in a kernel but for what is empty, tensors that nothing is written beside, and
/// what no kernel reads.
fn no_layer_is_lost(label: &str, graph: &Graph, in_kernels: &BTreeSet<usize>) {
    let is_empty = |tensor: &usize| graph.tensors[*tensor].elements() == Ok(0);
    for (place, layer) in graph.layers.iter().enumerate() {
        let is_alone = layer.operator.contains("cat")
            && layer.inputs.iter().filter(|input| !is_empty(input)).count() == 1;
        let computes = layer.op.as_ref().is_some_and(|op| !matches!(op, Op::View | Op::Empty));
        if !computes || in_kernels.contains(&place) || is_alone || layer.outputs.iter().all(is_empty) {
            continue;
        }
        let mut shown: BTreeSet<usize> = layer.outputs.iter().copied().collect();
        for (reader, other) in graph.layers.iter().enumerate() {
            if other.inputs.iter().any(|input| shown.contains(input)) {
                assert!(!in_kernels.contains(&reader), "{label}: {} reads {}", other.name, layer.name);
                shown.extend(&other.outputs);
            }
        }
    }
}

#[test]
fn kernels_of_compiled_models_are_about_as_many_as_were_measured() {
    let folder = archived("models.tar.zst");
    let mut errors = [const { Vec::new() }; 4];
    // Runs whose number of products with a bias is another one, and the same.
    let mut with_bias = [0; 2];
    for seen in seen_kernels().into_iter().filter(|seen| seen.fused > 0) {
        let graph = read(&folder.path().join(format!("{}.pt2", seen.label)), &Shapes::default()).unwrap();
        let found = compiled(&graph);
        let fused = found.iter().filter_map(|kernel| match kernel {
            Compiled::Fused(fused) => Some(fused.bytes as f64),
            Compiled::Library { .. } => None,
        });
        let fused: Vec<f64> = fused.collect();
        let in_kernels: BTreeSet<usize> = found.iter().flat_map(layers_of).collect();
        no_layer_is_lost(&seen.label, &graph, &in_kernels);
        // Attention that is spelled out: two products instead of a kernel, a softmax and copies.
        let is_spelled_out = |kernel: &&Compiled| match kernel {
            Compiled::Library { layer, .. } => Call::of(&graph, &graph.layers[*layer], FP32)
                .is_some_and(|call| call.kind == Kind::MathAttention),
            Compiled::Fused(_) => false,
        };
        let spelled_out = found.iter().filter(is_spelled_out).count();
        let adds_bias = |kernel: &Compiled| match *kernel {
            Compiled::Library { layer, adds_bias } => {
                let layer = &graph.layers[layer];
                adds_bias && matches!(layer.op, Some(Op::Gemm(_))) && layer.inputs.len() > 2
            }
            Compiled::Fused(_) => false,
        };
        if seen.with_bias > 0 {
            let is_equal = found.iter().filter(|kernel| adds_bias(kernel)).count() == seen.with_bias;
            with_bias[usize::from(is_equal)] += 1;
        }
        let off = |known: usize, measured: usize| (known as f64 / measured as f64 - 1.0).abs();
        errors[0].push(off(found.len() - fused.len() + spelled_out, seen.libraries));
        errors[1].push(off(fused.len() + 5 * spelled_out, seen.fused));
        if seen.statistics > 0 {
            let is_one = |kernel: &&Compiled| matches!(kernel, Compiled::Fused(of) if of.pattern == Pattern::Statistics);
            errors[3].push(off(found.iter().filter(is_one).count(), seen.statistics));
        }
        if let Some(bytes) = seen.bytes {
            errors[2].push((fused.iter().sum::<f64>() / bytes - 1.0).abs());
        }
    }
    let runs = errors[0].len();
    let [libraries, fused, bytes, statistics] = errors.map(|mut errors| {
        errors.sort_by(f64::total_cmp);
        [errors[errors.len() / 2], errors[errors.len() * 9 / 10]]
    });
    assert_eq!(runs, 126);
    assert_eq!(with_bias, [11, 89]);
    // Half of the models and nine tenths of them, as docs/measurements/calibration.md says.
    assert!(libraries[0] < 0.001 && libraries[1] < 0.02, "{libraries:?}");
    assert!(fused[0] < 0.09 && fused[1] < 0.28, "{fused:?}");
    assert!(bytes[0] < 0.105 && bytes[1] < 0.36, "{bytes:?}");
    assert!(statistics[0] < 0.16, "{statistics:?}");
}

/// A run of a model on an H200.
#[derive(serde::Deserialize)]
struct Run {
    label: String,
    kind: String,
    tf32: bool,
    /// Where an eager step was timed, too.
    loop_us: Option<f64>,
    graph_us: Option<f64>,
    /// Kernels of each node, with their nanoseconds.
    #[serde(default)]
    nodes: Vec<(String, Vec<(String, f64)>)>,
}

impl Run {
    fn computed(&self, trains: bool) -> Computed {
        let (products, cudnn) = match (self.kind.as_str(), self.tf32) {
            ("float32", true) => (Arithmetic::Tf32, Arithmetic::Tf32),
            // PyTorch's default.
            ("float32", false) if trains => (Arithmetic::Fp32, Arithmetic::Tf32),
            ("float32", false) => (Arithmetic::Fp32, Arithmetic::Fp32),
            _ => (Arithmetic::Half, Arithmetic::Half),
        };
        Computed { products, cudnn }
    }

    fn archive(&self, folder: &TempDir) -> PathBuf {
        folder.path().join(format!("{}.pt2", self.label))
    }
}

/// Runs, but for those that failed.
fn runs(name: &str) -> Vec<Run> {
    let lines = unpacked(name);
    let runs = std::str::from_utf8(&lines).unwrap().lines();
    let runs = runs.filter(|line| line.contains("\"label\"") && !line.contains("\"failed\""));
    runs.map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Errors of estimates and how many are covered.
#[derive(Default)]
struct Found {
    errors: Vec<f64>,
    covered: usize,
}

impl Found {
    fn add(&mut self, estimate: &Estimate, measured_us: f64) {
        self.covered += usize::from((estimate.low..=estimate.high).contains(&(1e3 * measured_us)));
        self.errors.push((estimate.nanoseconds / (1e3 * measured_us) - 1.0).abs());
    }

    /// The median, and the share that is covered.
    fn summary(mut self) -> [f64; 2] {
        self.errors.sort_by(f64::total_cmp);
        let count = self.errors.len();
        assert!(count > 15, "{count} runs");
        [self.errors[count / 2], self.covered as f64 / count as f64]
    }
}

/// Models that no table has, measured on an H200 that no table has: every fourth run of
/// `docs/measurements/calibration.md`, every second of training and of compiled models.
#[test]
fn models_that_nobody_fitted_are_within_their_intervals() {
    let (h200, trained) = (named("h200").unwrap(), training("h200").unwrap());
    let folder = archived("judged-models.tar.zst");
    let mut found: [Found; 5] = Default::default();
    for run in runs("judged.jsonl.zst").iter().step_by(4) {
        let graph = read(&run.archive(&folder), &Shapes::default()).unwrap();
        for (place, way, measured) in [(0, Way::Graph, run.graph_us), (1, Way::Eager, run.loop_us)] {
            let Some(measured) = measured else { continue };
            let estimate = h200.estimate(&graph, run.computed(false), way).unwrap();
            assert!(estimate.missing.is_empty(), "{}: {:?}", run.label, estimate.missing);
            found[place].add(&estimate, measured);
        }
    }
    for run in runs("judged-compiled.jsonl.zst").iter().step_by(2) {
        let graph = read(&run.archive(&folder), &Shapes::default()).unwrap();
        let estimate = h200.estimate(&graph, run.computed(false), Way::CompiledGraph).unwrap();
        if let Some(measured) = run.graph_us.filter(|_| estimate.missing.is_empty()) {
            found[2].add(&estimate, measured);
        }
    }
    for run in runs("judged-train.jsonl.zst").iter().step_by(2) {
        let graph = read_training(&run.archive(&folder), &Shapes::default()).unwrap();
        for (place, way, measured) in [(3, Way::Graph, run.graph_us), (4, Way::Eager, run.loop_us)] {
            let estimate = trained.training_step(&graph, run.computed(true), way).unwrap();
            if let Some(measured) = measured.filter(|_| estimate.missing.is_empty()) {
                found[place].add(&estimate, measured);
            }
        }
    }
    let summaries = found.map(Found::summary);
    for ([median, covered], bar) in summaries.into_iter().zip([0.06, 0.12, 0.12, 0.15, 0.2]) {
        assert!(median < bar && covered > 0.8, "{summaries:?}");
    }
}

/// The arguments of every call of attention, as a hook saw them where the models ran
/// (`benches/pytorch/attention.py`), beside those that an export has.
#[test]
fn attention_runs_without_the_masks_and_copies_that_exports_alone_have() {
    let folder = archived("judged-models.tar.zst");
    let (mut models, mut masks) = (0, 0);
    for line in std::str::from_utf8(&unpacked("judged-attention.jsonl.zst")).unwrap().lines() {
        let (label, seen): (String, Vec<(bool, bool, u64)>) = serde_json::from_str(line).unwrap();
        let path = folder.path().join(format!("{label}_float32.pt2"));
        let graph = read(&path, &Shapes::default()).unwrap();
        let called = |graph: &Graph| -> Vec<(bool, bool, u64)> {
            let calls = graph.layers.iter().filter_map(|layer| match &layer.op {
                Some(Op::Attention(of)) => Some((layer, of.mask == AttentionMask::Causal)),
                _ => None,
            });
            let heads = |layer: &Layer| graph.tensors[layer.inputs[1]].shape[1];
            calls.map(|(layer, causal)| (layer.inputs.len() > 3, causal, heads(layer))).collect()
        };
        assert_eq!(called(&graph.eager()), seen, "{label}");
        models += 1;
        masks += usize::from(called(&graph) != seen);
    }
    assert_eq!((models, masks), (18, 14));
}

/// Steps of language models on an H200 that no table has; no table has such a model.
#[test]
fn prefill_and_decode_of_language_models_are_within_a_tenth() {
    let h200 = named("h200").unwrap();
    let folder = archived("language-models.tar.zst");
    let mut errors = Vec::new();
    for run in runs("h200-language.jsonl.zst") {
        let measured = 1e3 * run.graph_us.unwrap();
        let graph = read(&run.archive(&folder), &Shapes::default()).unwrap();
        let found = h200.estimate(&graph, HALF, Way::Graph).unwrap();
        assert!((found.low..=found.high).contains(&measured), "{}: {found:?}", run.label);
        errors.push((found.nanoseconds / measured - 1.0).abs());
    }
    assert_eq!(errors.len(), 24);
    assert!(errors.iter().sum::<f64>() / 24.0 < 0.06, "{errors:?}");
}

#[test]
fn a_call_is_estimated_for_each_gpu_by_its_own_and_by_others() {
    let about = named("h100").unwrap().about.clone();
    let mut faster = about.clone();
    faster.peaks.bytes_per_second *= 2.0;
    let rows = |operator, powers: std::ops::Range<u32>, ns: f64| -> Vec<Row> {
        let row = |power: u32| {
            let call = call(operator, 1 << power, 1 << power);
            Row { kernels: 1.0, nanoseconds: ns * call.bytes as f64, call }
        };
        powers.map(row).collect()
    };
    let memory = 1e9 / about.peaks.bytes_per_second;
    // On both, and on the slower alone.
    let slow = [rows("both", 20..30, 2.0 * memory), rows("one", 20..30, 2.0 * memory)].concat();
    let fast = rows("both", 20..30, 3.0 * memory / 2.0);
    let gpus = PyTorch::together(&[(about, slow), (faster, fast)]);
    for (operator, shares) in [("both", [2.0, 3.0]), ("one", [2.0, 2.0])] {
        let asked = call(operator, 3 << 24, 3 << 24);
        for ((gpu, share), faster) in gpus.iter().zip(shares).zip([1.0, 2.0]) {
            let found = gpu.call(0, &asked).unwrap();
            let expected = share * memory * asked.bytes as f64 / faster;
            assert!((found.nanoseconds / expected - 1.0).abs() < 0.25, "{operator}: {found:?}, {expected}");
            assert!(found.low < found.nanoseconds && found.nanoseconds < found.high);
        }
    }
}

/// Files keep whole nanoseconds, so that a part of a kernel may take none.
#[test]
fn a_call_without_a_time_leaves_others_as_they_are() {
    let about = named("h100").unwrap().about.clone();
    let row = |power: u32| {
        let call = call("one", 1 << power, 1 << power);
        Row { kernels: 1.0, nanoseconds: call.bytes as f64, call }
    };
    let mut rows: Vec<Row> = (20..30).map(row).collect();
    let asked = call("one", 3 << 24, 3 << 24);
    let of = |rows: &[Row]| alone(about.clone(), rows.to_vec()).call(0, &asked).unwrap().nanoseconds;
    let before = of(&rows);
    assert!(before > 0.0 && before.is_finite(), "{before}");
    rows.push(Row { nanoseconds: 0.0, ..row(25) });
    rows.push(Row { nanoseconds: 0.0, call: asked.clone(), ..row(25) });
    assert!((of(&rows) - before).abs() < 1e-9, "{before}");
}

/// An interval has both ends of what lasts longer; it does not jump where the GPU and the host take
/// equally long.
#[test]
fn intervals_are_of_the_longer_of_gpu_and_host() {
    let model = model("bert.pt2");
    let eager = named("h100").unwrap().estimate(&model, HALF, Way::Eager).unwrap();
    let at = |gpu_ns: f64, host: f64| {
        let estimate = Estimate { gpu_ns, host_ns: host, deviation: 0.5, ..eager.clone() };
        estimate.interval([-1.0, 1.0], [-0.3, 0.4])
    };
    let [low, high] = at(1000.0, 900.0);
    assert!((low - 900.0 * (-0.3_f64).exp()).abs() < 1e-9 && (high - 1000.0 * 0.5_f64.exp()).abs() < 1e-9);
    let [[low, high], [other_low, other_high]] = [at(1000.0, 999.9), at(1000.0, 1000.1)];
    assert!((low / other_low - 1.0).abs() < 1e-3 && (high / other_high - 1.0).abs() < 1e-3);
}

/// cuDNN computes a sequence as one kernel or as many at each place: which, sizes and types tell.
/// It launches a kernel for each group of channels, on several streams: a replay takes less than
/// their sum.
#[test]
fn kernels_of_recurrent_layers_and_groups_are_as_many_as_were_measured() {
    let folder = archived("h200-models.tar.zst");
    let (mut ways, mut groups) = ([0, 0], 0);
    for run in runs("h200.jsonl.zst") {
        let (is_recurrent, is_grouped) =
            (run.label.starts_with("gru_"), run.label == "regnetx_006_b8_float32");
        if !is_recurrent && !is_grouped {
            continue;
        }
        let computed = run.computed(false);
        let graph = read(&run.archive(&folder), &Shapes::default()).unwrap();
        let found = named("h200").unwrap().estimate(&graph, computed, Way::Graph).unwrap();
        if is_recurrent {
            let own = found.calls.iter().filter(|call| call.kind == Kind::Recurrent);
            let estimated: f64 = own.map(|call| call.kernels).sum();
            let nodes = run.nodes.iter().filter(|(name, _)| name.starts_with("gru"));
            let measured = nodes.map(|(_, kernels)| kernels.len()).sum::<usize>() as f64;
            ways[usize::from(measured > 20.0)] += 1;
            assert!((estimated / measured).ln().abs() < 0.7, "{}: {estimated}, {measured}", run.label);
            continue;
        }
        groups += 1;
        let kernels = run.nodes.iter().flat_map(|(_, kernels)| kernels);
        let sum: f64 = kernels.map(|(_, nanoseconds)| nanoseconds).sum();
        let measured = 1e3 * run.graph_us.unwrap();
        assert!((found.nanoseconds / measured).ln().abs() < 0.5, "{}, {measured}", found.nanoseconds);
        if computed.cudnn == Arithmetic::Fp32 {
            assert!(measured < 0.6 * sum && found.nanoseconds < 0.6 * sum, "{}, {sum}", found.nanoseconds);
        }
    }
    assert!(ways[0] > 4 && ways[1] > 4 && groups == 2, "{ways:?}, {groups}");
}

/// Orders, random numbers, samples of images and products of experts, measured alone: the kernels
/// of each layer add up to about what the tables have of them. Compiled, they were not measured.
#[test]
fn operators_like_no_other_are_estimated_by_their_own_calls() {
    let folder = archived("h200-models.tar.zst");
    let labels = ["layers_rare_13_7_b1_bfloat16", "layers_experts_13_3_b1_bfloat16"];
    let mut measured = runs("h200-layers.jsonl.zst");
    measured.retain(|run| labels.contains(&run.label.as_str()));
    assert_eq!(measured.len(), 2);
    for run in measured {
        let graph = read(&run.archive(&folder), &Shapes::default()).unwrap();
        let found = named("h200").unwrap().estimate(&graph, HALF, Way::Graph).unwrap();
        assert!(found.missing.is_empty(), "{}: {:?}", run.label, found.missing);
        let estimated: f64 = found.calls.iter().map(|call| call.nanoseconds).sum();
        let measured: f64 = run.nodes.iter().flat_map(|(_, kernels)| kernels).map(|kernel| kernel.1).sum();
        assert!((estimated / measured).ln().abs() < 0.15, "{}: {estimated}, {measured}", run.label);
        let compiled = named("h200").unwrap().estimate(&graph, HALF, Way::CompiledGraph).unwrap();
        let is_rare = run.label.contains("rare");
        assert_eq!(compiled.missing.contains("calls of argsort"), is_rare, "{:?}", compiled.missing);
    }
}

#[test]
fn bits_decide_where_arithmetic_does() {
    let pytorch = named("h100").unwrap();
    let model = model("vit_b_16.pt2");
    let time = |arithmetic| {
        let computed = Computed { products: arithmetic, cudnn: arithmetic };
        pytorch.estimate(&model, computed, Way::Graph).unwrap().nanoseconds
    };
    assert!(time(Arithmetic::Fp32) > 1.5 * time(Arithmetic::Tf32));
}

fn call(operator: &'static str, read: u64, written: u64) -> Call {
    let sizes = vec![read, written, 4, 1024, 0, 0, 0];
    let (operator, bytes) = (Cow::Borrowed(operator), read + written);
    let (kind, phase, arithmetic) = (Kind::Map, Phase::Forward, Arithmetic::Fp32);
    Call { kind, phase, arithmetic, operator, sizes, flops: 0, bytes }
}

/// A layer of `nn.TransformerEncoder` runs as one operator in inference; its export has fourteen.
#[test]
fn an_encoder_runs_its_fast_path_unless_it_trains() {
    let folder = archived("h200-models.tar.zst");
    let path = folder.path().join("encoder_512x5_512_b64_float16.pt2");
    let graph = read(&path, &Shapes::default()).unwrap();
    let class = graph.classes.get("layers.4").map(String::as_str);
    assert_eq!(class, Some("torch.nn.modules.transformer.TransformerEncoderLayer"));
    let counts = launches(&graph, true).map(|count| count.to_string());
    assert_eq!(counts, ["5", "0", "5"], "a layer is one operator");
    let [operators, _, modules] = launches(&graph, false);
    assert!(operators >= 5.0 * 10.0 && modules > 5.0 * 5.0, "{operators}, {modules}");
    let h200 = named("h200").unwrap();
    let found = h200.estimate(&graph, HALF, Way::Graph).unwrap();
    let operator =
        |call: &&flopgap_roofline::pytorch::CallEstimate| graph.layers[call.layer].operator.clone();
    let operators: Vec<String> = found.calls.iter().map(|call| operator(&call)).collect();
    assert!(
        !operators.iter().any(|name| name.contains("relu") || name.contains("contiguous")),
        "{operators:?}"
    );
    assert_eq!(operators.iter().filter(|name| name.contains("linear")).count(), 5 * 4);
    // Measured: 3,008 µs as a graph; the kernels of the exported graph take 4,919 µs.
    assert!((found.nanoseconds / 3.008e6 - 1.0).abs() < 0.15, "{}", found.nanoseconds);
    // `torch.compile` leaves it as it is: 3,191 µs a step.
    let compiled = h200.estimate(&graph, HALF, Way::CompiledGraph).unwrap();
    assert!((compiled.nanoseconds / 3.191e6 - 1.0).abs() < 0.15, "{}", compiled.nanoseconds);
    let exported = {
        let slow = Graph { classes: std::collections::BTreeMap::new(), ..graph };
        h200.estimate(&slow, HALF, Way::Graph).unwrap().nanoseconds
    };
    assert!((exported / 4.919e6 - 1.0).abs() < 0.15, "{exported}");
}

/// A made-up GPU that copies 1 byte a nanosecond, and takes twice as long for `slow`.
fn made_up() -> PyTorch {
    let mut rows = Vec::new();
    for (operator, factor) in [("copy", 1.0), ("slow", 2.0)] {
        for power in 10..26 {
            let call = call(operator, 1 << power, 1 << power);
            let nanoseconds = factor * (1500.0 + call.bytes as f64);
            rows.push(Row { call, kernels: factor, nanoseconds });
        }
    }
    let mut about = named("h100").unwrap().about.clone();
    about.peaks.bytes_per_second = 1e9;
    alone(about, rows)
}

fn alone(about: About, rows: Vec<Row>) -> PyTorch {
    PyTorch::together(&[(about, rows)]).remove(0)
}

#[test]
fn operators_are_distinguished_and_sizes_interpolated() {
    let pytorch = made_up();
    for (operator, factor) in [("copy", 1.0), ("slow", 2.0)] {
        let asked = call(operator, 3 << 16, 3 << 16);
        let found = pytorch.call(0, &asked).unwrap();
        let expected = factor * (1500.0 + asked.bytes as f64);
        assert!((found.nanoseconds / expected - 1.0).abs() < 0.05, "{operator}: {found:?}");
        assert!((found.kernels - factor).abs() < f64::EPSILON);
    }
    let unknown = pytorch.call(0, &call("never measured", 3 << 16, 3 << 16)).unwrap();
    let known = pytorch.call(0, &call("copy", 3 << 16, 3 << 16)).unwrap();
    assert!(unknown.high / unknown.low > known.high / known.low, "another operator is less certain");
}

#[test]
fn what_was_never_measured_is_not_estimated() {
    let pytorch = made_up();
    let product = Call { kind: Kind::Product, sizes: vec![1, 64, 64, 64, 0, 1, 0], ..call("", 64, 64) };
    assert_eq!(pytorch.call(0, &product), None);
    let found = pytorch.estimate(&model("resnet18.pt2"), FP32, Way::Graph).unwrap();
    assert!(found.missing.contains("convolutions of 2-D images"), "{:?}", found.missing);
}

/// cuDNN has no fast kernel for dilated ones: this one took 276.7 µs in
/// `lraspp_mobilenet_v3_large`.
#[test]
fn dilated_depthwise_convolutions_are_distinguished() {
    let time = |dilation: u64| {
        let sizes = vec![16, 196, 196, 25, 960, 960, 960, 1, dilation, 2, 0, 0, 1, 0];
        let (read, written) = (2 * (16 * 960 * 196 + 960 * 25), 2 * 16 * 960 * 196);
        let (kind, arithmetic, flops) =
            (Kind::DepthwiseConvolution, Arithmetic::Half, 2 * 16 * 960 * 196 * 25);
        let phase = Phase::Compiled;
        let call = Call { kind, phase, arithmetic, sizes, flops, ..call("", read, written) };
        named("h200").unwrap().call(0, &call).unwrap().nanoseconds / 1e3
    };
    assert!((200.0..350.0).contains(&time(4)), "{}", time(4));
    assert!(time(1) < 30.0, "{}", time(1));
}

/// Convolutions of images and volumes were measured; of four dimensions, none was.
#[test]
fn dimensions_of_convolutions_are_distinguished() {
    let pytorch = named("h100").unwrap();
    let mut sizes = vec![8, 56 * 56, 56 * 56, 9, 64, 64, 1, 1, 1, 2, 0, 0, 0, 0];
    let convolution = |sizes: &[u64]| Call {
        kind: Kind::Convolution,
        sizes: sizes.to_vec(),
        flops: 1 << 30,
        ..call("", 1 << 20, 1 << 20)
    };
    assert!(pytorch.call(0, &convolution(&sizes)).is_some());
    sizes[9] = 3;
    assert!(pytorch.call(0, &convolution(&sizes)).is_some());
    sizes[9] = 4;
    assert_eq!(pytorch.call(0, &convolution(&sizes)), None);
}

#[test]
fn a_file_is_read_as_it_was_written_and_damage_is_named() {
    let pytorch = made_up();
    let row = |call, kernels, nanoseconds| Row { call, kernels, nanoseconds };
    let (first, second) = (row(call("copy", 64, 64), 1.0, 2000.0), row(call("copy", 64, 1 << 62), 1.5, 7.0));
    let bytes = to_bytes(&pytorch.about, &[second.clone(), first.clone()]).unwrap();
    let (about, read) = parse(&bytes, "a").unwrap();
    assert_eq!((&about, &read[..]), (&pytorch.about, &[first, second][..]));
    assert_eq!(alone(about, read).rows().collect::<Vec<_>>(), [(Kind::Map, Arithmetic::Fp32, 2)]);
    let text = String::from_utf8_lossy(&bytes).replace("\"kind\":\"map\"", "\"kind\":\"norm\"");
    for (bytes, message) in [
        (b"flopgap-pytorch 2\n{}\n".to_vec(), "a: not a file of measured calls in version 1"),
        (b"flopgap-pytorch 1\n".to_vec(), "a: EOF while parsing a value"),
        (bytes[..bytes.len() - 1].to_vec(), "a: damaged calls: "),
        (text.into_bytes(), "a: "),
    ] {
        let error = parse(&bytes, "a").unwrap_err().to_string();
        assert!(error.starts_with(message), "{error}");
    }
    for end in 0..bytes.len() {
        assert!(parse(&bytes[..end], "a").is_err(), "{end}");
    }
    let other = Call { sizes: vec![1], ..call("copy", 64, 64) };
    assert!(to_bytes(&pytorch.about, &[row(other, 1.0, 1.0)]).is_err());
}

/// What PyTorch does by default.
const DEFAULT: Computed = Computed { products: Arithmetic::Fp32, cudnn: Arithmetic::Tf32 };

fn trained(name: &str) -> Graph {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/models");
    read_training(&folder.join(name), &Shapes::default()).unwrap()
}

/// Keys and values lead to the output through the cache that they are put into.
#[test]
fn gradients_pass_what_is_changed_in_place() {
    let graph = trained("static_cache.pt2");
    let gradients = Gradients::new(&graph);
    let names: Vec<&str> = gradients.trained(&graph).map(|tensor| tensor.name.as_str()).collect();
    for layer in ["q_proj", "k_proj", "v_proj", "o_proj"] {
        assert!(names.iter().any(|name| name.contains(layer)), "{layer}: {names:?}");
    }
}

fn backward(graph: &Graph) -> Vec<Call> {
    let gradients = Gradients::new(graph);
    (0..graph.layers.len()).flat_map(|layer| gradients.calls(graph, layer, DEFAULT)).collect()
}

#[test]
fn gradients_flow_to_the_parameters_and_meet_at_residuals() {
    let graph = trained("resnet18.pt2");
    let calls = backward(&graph);
    let count = |is: &dyn Fn(&Call) -> bool| calls.iter().filter(|call| is(call)).count();
    // Of twenty convolutions, the first reads the image, which has no gradient.
    assert_eq!(count(&|call| call.kind == Kind::Convolution), 20);
    assert_eq!(count(&|call| call.phase == Phase::BackwardToWeights), 1);
    // Eight blocks read their input twice: the tensors are as large as those that they add to.
    let sums: Vec<&Call> = calls.iter().filter(|call| call.operator == "sum of gradients").collect();
    assert_eq!(sums.len(), 8);
    assert!(sums.iter().all(|call| call.sizes[0] == 2 * call.sizes[1]));
    assert_eq!(sums[0].sizes[1] % (64 * 56 * 56 * 4), 0);
    let gradients = Gradients::new(&graph);
    assert_eq!(gradients.trained(&graph).count(), 62);
    assert_eq!(gradients.trained(&graph).map(|tensor| tensor.elements().unwrap()).sum::<u64>(), 11_689_512);
    // Two products and twice the operands of the first fully connected layer that has both.
    let product = calls.iter().find(|call| call.kind == Kind::Product).unwrap();
    let layer = graph.layers.iter().find(|layer| layer.operator.contains("linear")).unwrap();
    assert_eq!(product.flops, 2 * layer.work.unwrap().flops);
}

#[test]
fn a_training_step_is_its_parts() {
    for name in NAMES {
        let pytorch = training(name).unwrap();
        let costs = &pytorch.about.costs;
        for graph in ["resnet50.pt2", "vit_b_16.pt2", "bert.pt2", "mlp.pt2"]
            .map(|name| trained(name).eager().into_owned())
        {
            let [replayed, eager] =
                [Way::Graph, Way::Eager].map(|way| pytorch.training_step(&graph, DEFAULT, way).unwrap());
            assert!(replayed.missing.is_empty(), "{}: {:?}", graph.name, replayed.missing);
            let calls = &replayed.calls;
            let kernels: f64 = calls.iter().map(|call| call.nanoseconds + costs.node * call.kernels).sum();
            assert!((replayed.nanoseconds / (kernels + costs.replay) - 1.0).abs() < 1e-9);
            let parts = replayed.parts.unwrap();
            let sum = parts.forward + parts.backward + parts.optimizer;
            assert!((sum / kernels - 1.0).abs() < 1e-9, "{}: {parts:?}", graph.name);
            let [operators, views, modules] = launches(&graph, false);
            let [views_backward, tensors] = Gradients::new(&graph).launches(&graph);
            let launched: f64 = eager.calls.iter().map(|call| call.kernels).sum();
            let attention = eager.calls.iter().filter(|call| call.kind == Kind::FusedAttention).count();
            let host = costs.step
                + costs.operator * operators
                + costs.view * (views + views_backward)
                + costs.module * modules
                + costs.launch * launched
                + costs.attention * attention as f64
                + costs.tensor * tensors;
            assert!((eager.host_ns / host - 1.0).abs() < 1e-9);
            assert!((eager.nanoseconds - eager.host_ns.max(replayed.nanoseconds)).abs() < 1.0);
            assert!(replayed.low < replayed.nanoseconds && replayed.nanoseconds < replayed.high);
            let forward = named(name).unwrap().estimate(&graph, DEFAULT, Way::Graph).unwrap();
            assert!(replayed.nanoseconds > 1.5 * forward.nanoseconds, "{}", graph.name);
        }
    }
}

/// The optimizer moves seven times the parameters: at least as long as the memory needs.
#[test]
fn the_optimizer_is_no_faster_than_the_memory() {
    let pytorch = training("h100").unwrap();
    let graph = trained("vit_b_16.pt2");
    let bytes: u64 = Gradients::new(&graph).trained(&graph).map(|tensor| tensor.bytes().unwrap()).sum();
    let least = 7.0 * bytes as f64 / pytorch.about.peaks.bytes_per_second * 1e9;
    let parts = pytorch.training_step(&graph, DEFAULT, Way::Graph).unwrap().parts.unwrap();
    assert!(least < parts.optimizer && parts.optimizer < 3.0 * least, "{parts:?}, {least}");
}

#[test]
fn a_backward_that_was_never_measured_is_not_estimated() {
    let made_up = |backward: &[(&'static str, f64)]| {
        let mut rows = Vec::new();
        for power in 10..26 {
            let forward = call("copy", 1 << power, 1 << power);
            rows.push(Row { call: forward.clone(), kernels: 1.0, nanoseconds: 1500.0 });
            for (operator, kernels) in backward {
                let phase = Phase::Backward;
                let call = Call { phase, operator: Cow::Borrowed(operator), ..forward.clone() };
                rows.push(Row { call, kernels: *kernels, nanoseconds: kernels * 3000.0 });
            }
        }
        alone(named("h100").unwrap().about.clone(), rows)
    };
    let pytorch = made_up(&[("copy", 1.0), ("view", 0.0)]);
    let asked = |operator| Call { phase: Phase::Backward, ..call(operator, 1 << 12, 1 << 12) };
    assert_eq!(pytorch.call(0, &asked("never measured")), None);
    let view = pytorch.call(0, &asked("view")).unwrap();
    assert_eq!((view.nanoseconds, view.kernels), (0.0, 0.0), "its backward launches nothing");
    assert!(pytorch.call(0, &asked("copy")).unwrap().nanoseconds > 1000.0);
    let found = pytorch.training_step(&trained("resnet18.pt2"), DEFAULT, Way::Graph).unwrap();
    let missing = "the backward of convolutions of 2-D images";
    assert!(found.missing.contains(missing), "{:?}", found.missing);
}

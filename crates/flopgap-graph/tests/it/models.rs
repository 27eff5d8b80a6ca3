//! Real models: what `PyTorch` exports, against what its own counter says.

use flopgap_files::Hint as _;
use flopgap_graph::op::{GroupedGemm, NormFunction};
use flopgap_graph::{Graph, Op, plan, read, read_training};

use crate::support::{fixture, load, products, shapes};

/// FLOPs that `torch.utils.flop_counter` counted (`fixtures/models/ORIGIN.md`), where it counts all
/// products.
const COUNTED: [(&str, u64); 9] = [
    ("mlp", 34_242_560),
    ("resnet18", 3_628_146_688),
    ("resnet50", 8_178_368_512),
    ("mobilenet_v3_small", 113_020_800),
    ("efficientnet_b0", 771_629_504),
    ("densenet121", 5_668_323_328),
    ("convnext_tiny", 8_911_062_528),
    ("swin_t", 8_981_133_312),
    ("unet", 577_241_088),
];

/// The same, of models whose attention it does not see on a CPU.
const WITHOUT_ATTENTION: [(&str, u64); 3] =
    [("bert", 1_813_118_976), ("gpt2", 6_752_403_456), ("llama", 1_266_683_904)];

#[test]
fn multiply_adds_are_those_that_pytorch_counts() {
    for (name, flops) in COUNTED.into_iter().chain(WITHOUT_ATTENTION) {
        assert_eq!(2 * products(&load(&format!("{name}.pt2"))), flops, "{name}");
    }
    for (name, flops) in COUNTED {
        if fixture(&format!("{name}.onnx")).exists() {
            assert_eq!(2 * products(&load(&format!("{name}.onnx"))), flops, "{name}.onnx");
        }
    }
}

/// What the storages of live tensors took at most where `PyTorch` ran the exported graph
/// (`fixtures/models/peak.py`).
const PEAKS: [(&str, u64); 8] = [
    ("resnet18", 53_821_248),
    ("resnet50", 112_676_936),
    ("densenet121", 41_282_664),
    ("mobilenet_v3_small", 12_628_592),
    ("swin_t", 124_824_220),
    ("vit_b_16", 352_319_392),
    ("convnext_tiny", 125_796_640),
    ("efficientnet_b0", 31_558_552),
];

#[test]
fn tensors_take_the_memory_that_they_take_in_pytorch() {
    for (name, bytes) in PEAKS {
        assert_eq!(load(&format!("{name}.pt2")).peak_bytes().unwrap(), bytes, "{name}");
    }
}

/// Parameters, batch norms and dropouts were counted in the archives' JSON with Python.
#[test]
fn a_training_step_takes_statistics_and_drops() {
    let inference = |graph: &Graph| {
        let given = |op: &Op| matches!(op, Op::Norm(norm) if norm.function == NormFunction::BatchInference);
        graph.layers.iter().filter_map(|layer| layer.op.as_ref()).filter(|op| given(op)).count()
    };
    let dropping = |graph: &Graph| {
        let dropouts = graph.layers.iter().filter(|layer| layer.operator.starts_with("aten.dropout"));
        dropouts.filter(|layer| matches!(layer.op, Some(Op::Elementwise(_)))).count()
    };
    for (name, trained, norms, dropouts) in
        [("bert", 39, 0, 5), ("resnet18", 62, 20, 0), ("efficientnet_b0", 213, 49, 1)]
    {
        let plain = load(&format!("{name}.pt2"));
        let training = read_training(&fixture(&format!("{name}.pt2")), &shapes(&[])).unwrap();
        assert_eq!((inference(&plain), dropping(&plain)), (norms, 0), "{name}");
        assert_eq!((inference(&training), dropping(&training)), (0, dropouts), "{name}");
        assert_eq!(training.tensors.iter().filter(|tensor| tensor.trained).count(), trained, "{name}");
        assert_eq!(products(&training), products(&plain), "{name}");
    }
}

/// Exported by torch with dimensions left open, and counted by its counter at other sizes than
/// those of the export (`fixtures/models/ORIGIN.md`).
#[test]
fn dynamic_models_are_counted_at_any_size() {
    let at = |name: &str, stated: &[&str]| {
        let graph = read(&fixture(&format!("dynamic/{name}.pt2")), &shapes(stated));
        graph.unwrap_or_else(|error| panic!("{name}: {error}"))
    };
    for (name, stated, flops) in [
        ("conv", "x=5x3x61x44", 1_691_360),
        ("up", "x=3x3x58x66", 19_061_568),
        ("attention", "x=7x33x16", 473_088),
        ("pad", "x=3x23x8", 9_216),
    ] {
        assert_eq!(2 * products(&at(name, &[stated])), flops, "{name}");
    }
    assert_eq!(2 * products(&at("cat", &["x=3x21x16", "y=3x8x16"])), 80_736);
    // The last dimension of the image is twice a symbol.
    let named = at("conv", &["s77=5", "s53=61", "s94=22"]);
    assert_eq!(named, at("conv", &["x=5x3x61x44"]));
    let error = read(&fixture("dynamic/conv.pt2"), &shapes(&[])).unwrap_err();
    assert!(error.to_string().ends_with("the file leaves the sizes of `s53`, `s77`, `s94` open"), "{error}");
    assert_eq!(error.hint().as_deref(), Some("specify the sizes, such as `x=2x3x32x32`"));
    let error = read(&fixture("dynamic/conv.pt2"), &shapes(&["x=5x3x61x45"])).unwrap_err();
    let expected = "input `x` is s77x3xs53xMul(Integer(2), Symbol('s94', positive=True, integer=True)) in \
                    the file, but 5x3x61x45 was given";
    assert!(error.to_string().ends_with(expected), "{error}");
}

/// 4 queries over 9 keys, 6 heads of 8: torch's mask begins at the first key, so that the Jacobian
/// has 10 pairs in each head. With more queries than keys it has no formula, and is listed.
#[test]
fn causal_attention_begins_at_the_first_key() {
    let graph = load("dynamic/causal_wide.pt2");
    assert_eq!(graph.multiply_adds().unwrap(), 2 * 6 * 8 * 10);
    assert_eq!(graph.unknown().count(), 0);
    let graph = load("dynamic/causal_tall.pt2");
    assert_eq!((graph.multiply_adds().unwrap(), graph.unknown().count()), (0, 1));
}

/// `fixtures/models/ORIGIN.md`: cells, whose products the counter of `PyTorch` sees; samples, bags
/// and complex numbers, by hand; and what has no formula.
#[test]
fn cells_samples_and_complex_numbers_are_counted() {
    let graph = load("dynamic/cells.pt2");
    assert_eq!(2 * graph.multiply_adds().unwrap(), 1_914);
    let unknown: Vec<&str> = graph.unknown().map(|layer| layer.name.as_str()).collect();
    assert_eq!(unknown, ["matmul", "matmul_1", "fft_rfft", "stft"]);
    let flops = |name: &str| {
        let layers = graph.layers.iter().filter(|layer| layer.name.starts_with(name));
        layers.map(|layer| layer.work.unwrap().flops).sum::<u64>()
    };
    // Two products with biases, and the gates of three by four units.
    assert_eq!(flops("lstm_cell"), 2 * (288 + 192) + 2 * 48 + 12 * 30);
    assert_eq!(flops("rnn_relu_cell"), 2 * (45 + 27) + 2 * 9 + 9 * 2, "a sum and a comparison");
    // Two images of 35 points of two coordinates, and three values of a point.
    assert_eq!(flops("grid_sampler"), 70 * (2 * (4 + 1 + 3) + 4) + 210 * 7);
    // A mean of 20 rows of eight in five bags.
    assert_eq!(flops("embedding_bag"), 20 * 8 + 5 * 8);
    assert_eq!((flops("mul"), flops("add")), (6 * 240, 2 * 240));
}

/// A token of three sequences after a hundred others, two heads of 16 repeated for four
/// (`fixtures/models/ORIGIN.md`): a static cache is changed where it lies, by as many elements as a
/// token has, and what is repeated is read once.
#[test]
fn a_static_cache_is_changed_in_place() {
    let graph = load("static_cache.pt2");
    assert_eq!(graph.unknown().count(), 0);
    let moved = |name: &str| {
        let layer = graph.layers.iter().find(|layer| layer.name == name).unwrap();
        let work = layer.work.unwrap();
        [work.bytes_read, work.bytes_written]
    };
    let token = 3 * 2 * 16 * 2;
    assert_eq!(moved("index_copy_"), [token; 2]);
    assert_eq!(moved("index_copy_.whole"), [0, 0]);
    // 101 tokens.
    assert_eq!(moved("reshape"), [101 * token, 2 * 101 * token]);
}

/// `fixtures/models/ORIGIN.md`: the counter of `PyTorch` does not see into the products of experts,
/// 48 rows of 64 by 64 and of 32 by 64; the width of values is 16 where that of keys is 24.
#[test]
fn mixtures_of_experts_and_latent_attention_are_counted() {
    let graph = load("dynamic/mixture.pt2");
    let attention = 2 * 4 * 12 * 12 * (16 + 16);
    let others = graph.multiply_adds().unwrap() - attention;
    assert_eq!(2 * others, 614_400 + 192 + 2 * 48 * 64 * (64 + 32));
    let experts: Vec<&Op> = graph.layers.iter().filter_map(|layer| layer.op.as_ref()).collect();
    let grouped = |n, k| Op::GroupedGemm(GroupedGemm { groups: 8, m: 48, n, k });
    assert!(experts.contains(&&grouped(64, 64)) && experts.contains(&&grouped(64, 32)), "{experts:?}");
    let unknown: Vec<&str> = graph.unknown().map(|layer| layer.operator.as_str()).collect();
    assert_eq!(unknown, ["aten.topk.default", "aten.sort.default", "aten.histc.default"]);
    let graph = load("latent.pt2");
    assert_eq!(2 * graph.multiply_adds().unwrap(), 1_437_696 + 92_256);
    assert_eq!(graph.unknown().count(), 0);
}

#[test]
fn attention_is_counted_where_pytorch_does_not() {
    // Two layers, twelve heads of 64, 64 tokens: two products each.
    let attention = 2 * 2 * 12 * 64 * 64 * 64;
    for name in ["bert", "gpt2"] {
        let graph = load(&format!("{name}.pt2"));
        assert_eq!(graph.multiply_adds().unwrap() - products(&graph), attention, "{name}");
        // ONNX spells attention out, as products.
        assert_eq!(
            load(&format!("{name}.onnx")).multiply_adds().unwrap(),
            graph.multiply_adds().unwrap(),
            "{name}"
        );
    }
    // The fused layers of the vision transformer: 17.56 G multiply-adds, as torchvision's
    // documentation says.
    assert_eq!(load("vit_b_16.pt2").multiply_adds().unwrap(), 17_563_828_224);
}

#[test]
fn recurrent_layers_are_counted_where_pytorch_does_not() {
    // Two layers of 128 units on 8 sequences of 20 steps, 64 features; then a fully connected
    // layer.
    let layers = 8 * 20 * 4 * 128 * ((64 + 128) + (128 + 128));
    for name in ["lstm.pt2", "lstm.onnx"] {
        let graph = load(name);
        assert_eq!(graph.multiply_adds().unwrap() - products(&graph), layers, "{name}");
        assert_eq!(products(&graph), 20_480 / 2, "{name}");
    }
}

#[test]
fn every_operator_of_these_models_has_a_formula() {
    let mut read = 0;
    for entry in std::fs::read_dir(fixture("")).unwrap() {
        let path = entry.unwrap().path();
        if !path.extension().is_some_and(|extension| extension == "pt2" || extension == "onnx") {
            continue;
        }
        let open = path.to_string_lossy().ends_with("_old.onnx");
        let stated = if open { shapes(&["batch=2"]) } else { shapes(&[]) };
        let graph = flopgap_graph::read(&path, &stated).unwrap();
        let unknown: Vec<_> = graph.unknown().map(|layer| &layer.operator).collect();
        assert!(unknown.is_empty(), "{}: {unknown:?}", path.display());
        // Each layer reads what was written before it.
        let mut written = vec![false; graph.tensors.len()];
        for (index, tensor) in graph.tensors.iter().enumerate() {
            written[index] = tensor.parameter || graph.inputs.contains(&index);
        }
        for layer in &graph.layers {
            assert!(layer.inputs.iter().all(|&input| written[input]), "{}: {}", path.display(), layer.name);
            layer.outputs.iter().for_each(|&output| written[output] = true);
        }
        assert!(graph.outputs.iter().all(|&output| written[output]), "{}", path.display());
        assert!(!plan(&graph).unwrap().is_empty());
        read += 1;
    }
    assert!(read > 25, "{read} models");
}

#[test]
fn exporters_and_decompositions_agree() {
    for (a, b) in
        [("mlp", "mlp_core"), ("resnet18", "resnet18_core"), ("transformer_layer", "transformer_layer_core")]
    {
        let (a, b) = (load(&format!("{a}.pt2")), load(&format!("{b}.pt2")));
        assert_eq!(a.multiply_adds().unwrap(), b.multiply_adds().unwrap());
    }
    let old = flopgap_graph::read(&fixture("resnet18_old.onnx"), &shapes(&["input=3x3x224x224"])).unwrap();
    assert_eq!(old.multiply_adds().unwrap(), 3 * 1_814_073_344);
    let by_name = flopgap_graph::read(&fixture("resnet18_old.onnx"), &shapes(&["batch=3"])).unwrap();
    assert_eq!(by_name.work().unwrap(), old.work().unwrap());
}

/// Whatever wrote the file, engines run the same steps.
#[test]
fn residual_networks_plan_to_the_steps_of_the_family() {
    use flopgap_graph::{ResnetSpec, Workload};
    let family = Workload::Resnet(ResnetSpec { depth: 18, batch: 1, image: 224 }).steps().unwrap();
    let sorted = |mut labels: Vec<String>| {
        labels.sort();
        labels
    };
    // Which of two convolutions a sum is fused with, and whether a bias of zeros was left out, is
    // the exporter's choice.
    let bare = |label: String| {
        // The decomposition makes a mean of the last pool.
        let label = label.replace("reduce 25088 to 512", "pool average 512x7x7 by 7x7");
        label.replace(" +residual", "").replace(" +relu", "").replace(" +bias", "")
    };
    let expected = sorted(family.iter().map(|step| bare(step.label())).collect());
    for name in ["resnet18.pt2", "resnet18_core.pt2", "resnet18.onnx", "resnet18_old.onnx"] {
        let stated = if name.contains("old") { shapes(&["batch=1"]) } else { shapes(&[]) };
        let graph = flopgap_graph::read(&fixture(name), &stated).unwrap();
        let steps = plan(&graph).unwrap();
        let found = sorted(steps.iter().map(|planned| bare(planned.step.label())).collect());
        assert_eq!(found, expected, "{name}");
        assert_eq!(steps.iter().filter(|planned| planned.step.epilogue.residual).count(), 8, "{name}");
    }
}

/// Two layers with a norm before each half, and one at the end; the older operator sets spell them
/// out.
#[test]
fn norms_of_a_language_model_are_steps() {
    for name in ["llama.pt2", "llama.onnx"] {
        let steps = plan(&load(name)).unwrap();
        let norms = steps.iter().filter(|planned| planned.step.label().starts_with("norm rms 64x")).count();
        assert_eq!(norms, 5, "{name}");
    }
}

#[test]
fn layers_know_their_modules() {
    let module = |name: &str, operator: &str| {
        let stated = if name.contains("old") { shapes(&["batch=1"]) } else { shapes(&[]) };
        let graph = flopgap_graph::read(&fixture(name), &stated).unwrap();
        let layers = graph.layers.iter().filter(|layer| layer.operator.contains(operator));
        layers.map(|layer| layer.module.clone()).nth(1).unwrap()
    };
    assert_eq!(module("resnet18.pt2", "conv2d"), "layer1.0.conv1");
    assert_eq!(module("resnet18_old.onnx", "Conv"), "layer1.0.conv1");
    // The exporter folds batch norms and names the node after them.
    assert_eq!(module("resnet18.onnx", "Conv"), "layer1.0.bn1");
    let names: Vec<String> = load("resnet18.pt2")
        .tensors
        .iter()
        .filter(|tensor| tensor.parameter && tensor.shape.len() == 4)
        .map(|tensor| tensor.name.clone())
        .collect();
    assert!(names.contains(&"layer1.0.conv1.weight".to_owned()));
}

/// A reshape after a change of dimensions copies; where strides allow it, nothing moves.
#[test]
fn copies_are_distinguished_from_views() {
    let graph = load("swin_t.pt2");
    let reshapes = graph.layers.iter().filter(|layer| layer.operator == "aten.reshape.default");
    assert!(reshapes.clone().any(|layer| matches!(layer.op, Some(Op::Copy { .. }))));
    assert!(reshapes.clone().any(|layer| layer.op == Some(Op::View)));
    let views = graph.layers.iter().filter(|layer| layer.operator == "aten.transpose.int");
    assert!(views.clone().count() > 0 && views.clone().all(|layer| layer.op == Some(Op::View)));
}

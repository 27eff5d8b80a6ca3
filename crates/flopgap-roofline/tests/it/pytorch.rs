//! Calls of PyTorch.

use std::borrow::Cow;
use std::path::Path;

use flopgap_graph::{Graph, Shapes, read};
use flopgap_roofline::pytorch::{
    Arithmetic, Call, Computed, Estimate, Kind, NAMES, PyTorch, Row, Way, launches, named, to_text,
};

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
fn a_model_is_its_calls_and_what_lies_between_them() {
    for name in NAMES {
        let pytorch = named(name).unwrap();
        let costs = &pytorch.about.costs;
        for model in MODELS.map(model) {
            let [graph, eager] =
                [Way::Graph, Way::Eager].map(|way| pytorch.estimate(&model, FP32, way).unwrap());
            let sum = |of: fn(&Estimate) -> f64| of(&graph);
            let kernels: f64 = graph.calls.iter().map(|call| call.nanoseconds).sum();
            let nodes: f64 = graph.calls.iter().map(|call| call.kernels).sum();
            let expected = kernels + costs.node * nodes + costs.replay;
            assert!((sum(|graph| graph.nanoseconds) / expected - 1.0).abs() < 1e-9, "{}", model.name);
            assert!((graph.host_ns).abs() < f64::EPSILON);
            let [operators, modules] = launches(&model);
            let host = costs.operator * operators + costs.module * modules;
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
fn a_faster_memory_makes_nothing_slower_and_arithmetic_no_faster() {
    let [h100, h200] = ["h100", "H200"].map(|name| named(name).unwrap());
    assert!(h100.target.moved.is_none() && h200.target.moved.is_some());
    for model in MODELS.map(model) {
        let [there, here] = [h100, h200].map(|gpu| gpu.estimate(&model, HALF, Way::Graph).unwrap());
        assert!(here.nanoseconds <= there.nanoseconds && here.nanoseconds > 0.69 * there.nanoseconds);
        assert!(here.high / here.low > there.high / there.low, "what was not measured is less certain");
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
    Call { kind: Kind::Map, arithmetic: Arithmetic::Fp32, operator, sizes, flops: 0, bytes }
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
    PyTorch::new(about, &rows)
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

/// Convolutions of images were measured; of transposed ones of volumes, none was.
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
    (sizes[9], sizes[10]) = (3, 1);
    assert_eq!(pytorch.call(0, &convolution(&sizes)), None);
}

#[test]
fn a_file_is_read_as_it_was_written_and_damage_is_named() {
    let pytorch = made_up();
    let rows = [Row { call: call("copy", 64, 64), kernels: 1.0, nanoseconds: 2000.0 }];
    let text = to_text(&pytorch.about, &rows).unwrap();
    let read = PyTorch::parse(text.as_bytes(), "a").unwrap();
    assert_eq!(read.about, pytorch.about);
    assert_eq!(read.rows().collect::<Vec<_>>(), [(Kind::Map, Arithmetic::Fp32, 1)]);
    for (text, message) in [
        ("flopgap-pytorch 2\n{}\n".to_owned(), "a: not a file of measured calls in version 1"),
        (text.replace("\"kernels\"", "\"kernel\""), "a: missing field `kernels`"),
        ("flopgap-pytorch 1\n".to_owned(), "a: EOF while parsing a value"),
    ] {
        let error = PyTorch::parse(text.as_bytes(), "a").unwrap_err().to_string();
        assert!(error.starts_with(message), "{error}");
    }
}

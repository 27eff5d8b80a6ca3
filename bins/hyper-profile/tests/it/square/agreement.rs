//! The network computes what the 64-bit reference computes.

use hyper_profile::square::cuda::Network;
use hyper_profile::square::{Shape, SquareError};
use proptest::prelude::*;

use super::{edge_shapes, engine, on_networks, reference, shape};

/// Runs a network on these numbers and checks everything it hands out.
fn check(name: &str, network: &mut Network<'_>, weights: &[f32], input: &[f32]) {
    let shape = network.shape();
    let expected = reference::run(shape, weights, input);
    network.forward().unwrap();
    let output = network.output().unwrap();
    let error = reference::relative_error(&output, &expected.output);
    assert!(error < 1e-5, "{name}: output {error}");
    network.backward().unwrap();
    let gradients = network.gradients().unwrap();
    // Layer by layer: a small gradient must not hide behind a large one.
    let layers = gradients.chunks(shape.matrix()).zip(expected.gradients.chunks(shape.matrix()));
    for (layer, (found, expected)) in layers.enumerate() {
        let error = reference::relative_error(found, expected);
        assert!(error < 1e-4, "{name}: gradient of layer {layer} {error}");
    }
    let error = (f64::from(network.loss().unwrap()) - expected.loss).abs() / expected.loss;
    assert!(error < 1e-5, "{name}: loss {error}");
    assert_eq!(network.weights().unwrap(), weights, "{name}: weights");
    assert_eq!(network.input().unwrap(), input, "{name}: input");
}

#[test]
fn uploaded_numbers_at_the_edges() {
    on_networks(&edge_shapes(), |name, network| {
        // Twice, with other numbers: nothing of the first may be left.
        for seed in [1, 2] {
            let (weights, input) =
                (reference::weights(network.shape(), seed), reference::input(network.shape(), seed));
            network.upload(&weights, &input).unwrap();
            check(name, network, &weights, &input);
        }
    });
}

#[test]
fn a_seed_gives_the_bits_of_its_sequence() {
    on_networks(&[shape(2, 33, 7), shape(1, 64, 4), shape(3, 1, 1)], |name, network| {
        for seed in [0, 1, u64::MAX] {
            network.initialize(seed).unwrap();
            assert_eq!(network.weights().unwrap(), reference::weights(network.shape(), seed), "{name}");
            assert_eq!(network.input().unwrap(), reference::input(network.shape(), seed), "{name}");
        }
    });
}

#[test]
fn a_pass_gives_the_same_bits_again() {
    on_networks(&[shape(3, 130, 65), shape(2, 128, 16)], |name, network| {
        let mut run = || {
            network.initialize(5).unwrap();
            network.forward().unwrap();
            network.backward().unwrap();
            (network.output().unwrap(), network.gradients().unwrap(), network.loss().unwrap().to_bits())
        };
        assert!(run() == run(), "{name}");
    });
}

#[test]
fn large_weights_saturate_and_do_not_overflow() {
    on_networks(&[shape(2, 5, 3)], |name, network| {
        let weights: Vec<f32> =
            reference::weights(network.shape(), 1).iter().map(|weight| weight * 1e30).collect();
        network.upload(&weights, &reference::input(network.shape(), 1)).unwrap();
        network.forward().unwrap();
        network.backward().unwrap();
        let output = network.output().unwrap();
        assert!(output.iter().all(|y| (0.0..=1.0).contains(y)), "{name}: {output:?}");
        assert!(network.gradients().unwrap().iter().all(|gradient| gradient.is_finite()), "{name}");
    });
}

#[test]
fn passes_can_be_captured_as_a_graph() {
    let Some(engine) = engine() else { return };
    let shape = shape(3, 100, 40);
    let mut network = engine.network(shape).unwrap();
    // What is loaded at first use must be loaded before the capture.
    network.initialize(1).unwrap();
    network.forward().unwrap();
    network.backward().unwrap();
    let (weights, input) = (reference::weights(shape, 2), reference::input(shape, 2));
    network.upload(&weights, &input).unwrap();
    let graph = engine.stream().capture(|| network.forward().and_then(|()| network.backward())).unwrap();
    graph.launch().unwrap();
    let expected = reference::run(shape, &weights, &input);
    assert!(reference::relative_error(&network.gradients().unwrap(), &expected.gradients) < 1e-4);
}

#[test]
fn sizes_of_a_real_network_on_the_gpu() {
    let Some(engine) = engine() else { return };
    // With split-K and without; sizes that no tile divides; more tiles than multiprocessors.
    for shape in [
        shape(2, 512, 64),
        shape(2, 1024, 128),
        shape(2, 520, 300),
        shape(2, 1022, 190),
        shape(1, 1100, 1100),
        shape(4, 640, 100),
        shape(3, 1024, 520),
        shape(2, 512, 1000),
        shape(1, 640, 132),
    ] {
        let mut network = engine.network(shape).unwrap();
        network.initialize(9).unwrap();
        check(&shape.to_string(), &mut network, &reference::weights(shape, 9), &reference::input(shape, 9));
    }
}

#[test]
fn what_does_not_fit_is_an_error_that_says_so() {
    let Some(engine) = engine() else { return };
    let huge = shape(1 << 20, 1 << 12, 1);
    assert!(hyper_profile::square::cuda::bytes_needed(huge) > engine.context().memory().unwrap().total);
    let error = engine.network(huge).unwrap_err();
    assert!(matches!(error, SquareError::Gpu(flopgap_gpu::GpuError::OutOfMemory { .. })), "{error}");
    // And the engine still works.
    let small = shape(2, 8, 8);
    let mut network = engine.network(small).unwrap();
    network.initialize(1).unwrap();
    check("after an error", &mut network, &reference::weights(small, 1), &reference::input(small, 1));
}

fn any_shape() -> impl Strategy<Value = Shape> {
    (1_u64..5, 1_u64..90, 1_u64..90).prop_map(|(layers, width, samples)| shape(layers, width, samples))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, ..ProptestConfig::default() })]

    #[test]
    fn any_sizes_and_any_seed(shape in any_shape(), seed: u64) {
        on_networks(&[shape], |name, network| {
            network.initialize(seed).unwrap();
            check(name, network, &reference::weights(shape, seed), &reference::input(shape, seed));
        });
    }
}

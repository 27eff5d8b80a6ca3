//! What a network refuses.

use hyper_profile::square::SquareError;

use super::{on_networks, reference, shape};

#[test]
fn nothing_is_handed_out_before_it_is_there() {
    on_networks(&[shape(2, 3, 4)], |name, network| {
        let refused = |result: Result<(), SquareError>, missing: &str| {
            let error = result.expect_err(name).to_string();
            assert!(error.ends_with(&format!("needs {missing} first")), "{name}: {error}");
        };
        refused(network.forward(), "weights and input");
        refused(network.backward(), "a forward pass");
        refused(network.weights().map(drop), "weights and input");
        network.initialize(1).unwrap();
        refused(network.backward(), "a forward pass");
        refused(network.output().map(drop), "a forward pass");
        network.forward().unwrap();
        refused(network.gradients().map(drop), "a backward pass");
        refused(network.loss().map(drop), "a backward pass");
        network.backward().unwrap();
        assert!(network.loss().unwrap() > 0.0);
        // New weights: the old results are no longer those of this network.
        network.initialize(2).unwrap();
        refused(network.output().map(drop), "a forward pass");
    });
}

#[test]
fn weights_and_input_of_another_size_are_refused() {
    on_networks(&[shape(2, 3, 4)], |name, network| {
        let (weights, input) = (reference::weights(network.shape(), 1), reference::input(network.shape(), 1));
        let error = network.upload(&weights[1..], &input).unwrap_err();
        assert_eq!(error, SquareError::Length { what: "weights", expected: 18, found: 17 }, "{name}");
        let error = network.upload(&weights, &[]).unwrap_err();
        assert_eq!(error.to_string(), "input: expected 12 numbers, found 0", "{name}");
    });
}

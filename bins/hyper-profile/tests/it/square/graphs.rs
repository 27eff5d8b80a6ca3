//! CUDA graphs compute what stream launches compute.

use hyper_profile::square::cuda::Work;
use hyper_profile::square::{Backend as _, SquareError, init, reference};

use super::{edge_shapes, engine};

#[test]
fn a_graph_computes_the_network_for_new_numbers() {
    let Some(engine) = engine() else { return };
    for shape in edge_shapes() {
        let mut network = engine.network(shape).unwrap();
        network.initialize(1).unwrap();
        let mut both = network.record(Work::Both, 2).unwrap();
        assert!(both.nodes() > 2 * shape.layers());
        // Other numbers than those that were there while it was recorded.
        both.initialize(2).unwrap();
        both.launch().unwrap();
        let expected = reference::run(shape, &init::weights(shape, 2), &init::input(shape, 2)).unwrap();
        let error = reference::relative_error(&both.network().output().unwrap(), &expected.output);
        assert!(error < 1e-5, "{shape}: output {error}");
        let error = reference::relative_error(&both.network().gradients().unwrap(), &expected.gradients);
        assert!(error < 1e-4, "{shape}: gradients {error}");
        let loss = f64::from(both.network().loss().unwrap());
        assert!((loss - expected.loss).abs() < 1e-5 * expected.loss, "{shape}: loss");
    }
}

#[test]
fn passes_are_recorded_one_by_one_in_their_order() {
    let Some(engine) = engine() else { return };
    let shape = super::shape(3, 40, 9);
    let mut network = engine.network(shape).unwrap();
    assert!(matches!(network.record(Work::Forward, 1).unwrap_err(), SquareError::Order { .. }));
    network.initialize(1).unwrap();
    assert!(matches!(network.record(Work::Backward, 1).unwrap_err(), SquareError::Order { .. }));
    network.record(Work::Forward, 1).unwrap().launch().unwrap();
    let mut backward = network.record(Work::Backward, 1).unwrap();
    backward.launch().unwrap();
    let found = backward.network().gradients().unwrap();
    let expected = reference::run(shape, &init::weights(shape, 1), &init::input(shape, 1)).unwrap();
    assert!(reference::relative_error(&found, &expected.gradients) < 1e-4);
    backward.initialize(2).unwrap();
    assert!(matches!(backward.launch().unwrap_err(), SquareError::Order { .. }));
}

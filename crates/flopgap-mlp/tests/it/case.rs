//! A batch with its true results, and the check of what was found.

use flopgap_mlp::numerics::uniform;
use flopgap_mlp::reference::{self, Errors, Reference, relative_error};
use flopgap_mlp::{Element, Network, Parameters};

/// What a model is asked, and what is right.
pub(crate) struct Case<T> {
    pub(crate) network: Network,
    pub(crate) parameters: Parameters,
    pub(crate) x: Vec<T>,
    pub(crate) dy: Vec<T>,
    pub(crate) truth: Reference,
    pub(crate) allowed: Errors,
}

impl<T: Element> Case<T> {
    pub(crate) fn new(network: &Network, batch: usize, seed: u64) -> Self {
        let parameters = Parameters::he(network, seed).rounded::<T>();
        let numbers = |first: u64, length: usize| -> Vec<T> {
            (0..length as u64).map(|index| T::narrow(uniform(seed, first + index))).collect()
        };
        let wide = |numbers: &[T]| -> Vec<f32> { numbers.iter().map(|&number| number.widen()).collect() };
        let x = numbers(1 << 40, batch * network.inputs());
        let wide_x = wide(&x);
        let mut wide_dy = wide(&numbers(1 << 41, batch * network.outputs()));
        // At a kink, one slope is as good as the other, and one sample's weighs more than all that
        // rounding costs.
        let truth = reference::run_off_kinks(&parameters, &wide_x, &mut wide_dy).unwrap();
        let dy = wide_dy.iter().map(|&number| T::narrow(number)).collect();
        let allowed = Errors::allowed(T::PRECISION, &parameters, &wide_x, &wide_dy, &truth).unwrap();
        Case { network: network.clone(), parameters, x, dy, truth, allowed }
    }
}

/// Outputs and gradients of a model, as they are stored.
pub(crate) struct Found<T> {
    pub(crate) y: Vec<T>,
    pub(crate) dx: Vec<T>,
    pub(crate) gradients: Vec<f32>,
}

/// Compares everything with what is right.
pub(crate) fn check<T: Element>(what: &str, case: &Case<T>, found: &Found<T>) {
    let wide = |numbers: &[T]| -> Vec<f32> { numbers.iter().map(|&number| number.widen()).collect() };
    for (part, found, expected, allowed) in [
        ("outputs", wide(&found.y), &case.truth.outputs, case.allowed.outputs),
        ("input gradients", wide(&found.dx), &case.truth.input_gradients, case.allowed.input_gradients),
        ("gradients", found.gradients.clone(), &case.truth.gradients, case.allowed.gradients),
    ] {
        let error = relative_error(&found, expected);
        assert!(error <= allowed, "{what}: {part}: relative error {error:.2e}, {allowed:.2e} allowed");
    }
}

//! Each activation is another function than the identity, in every implementation: one that is
//! forgotten somewhere would be the identity there.
//!
//! The reference is held to tables of the functions in its own tests; here every implementation is
//! held to the reference, one activation at a time, hidden and at the output, and then to differ
//! from what it makes of the identity.

use std::num::NonZero;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use flopgap_gpu::{Context, Stream};
use flopgap_mlp::cuda::{Implementation, Model, Options};
use flopgap_mlp::numerics::uniform;
use flopgap_mlp::reference::{self, Errors, Reference, Rounding, relative_error};
use flopgap_mlp::{Activation, Cpu, Element, MlpError, Network, Parameters, Precision};
use half::{bf16, f16};

use crate::gpu;

/// Outputs, gradients by the inputs, gradients by the parameters.
type Found = [Vec<f32>; 3];

/// How far another activation is from the identity at least, as a relative error: farther than
/// rounding to 16 bits takes a right one.
const APART: f64 = 0.1;

/// The activation in one place, the identity in the other.
fn networks(widths: &[usize], activation: Activation) -> [Network; 2] {
    let network = Network::new(widths).unwrap().with_activation(Activation::Identity);
    [network.clone().with_activation(activation), network.with_output_activation(activation)]
}

/// Inputs and gradients by the outputs, as they are stored.
fn numbers<T: Element>(network: &Network, batch: usize) -> (Vec<f32>, Vec<f32>) {
    let uniform = |first: u64, length: usize| -> Vec<f32> {
        (0..length as u64).map(|index| T::narrow(uniform(3, first + index)).widen()).collect()
    };
    (uniform(1 << 40, batch * network.inputs()), uniform(1 << 41, batch * network.outputs()))
}

/// Every activation but the identity: right, and far from what the identity gives. `compute` makes
/// outputs and gradients of a network.
fn each_is_itself<T: Element>(
    what: &str,
    widths: &[usize],
    batch: usize,
    mut compute: impl FnMut(&Parameters, &[f32], &[f32]) -> Option<Found>,
) {
    for place in 0..2 {
        let of = |activation| {
            let network = &networks(widths, activation)[place];
            Parameters::he(network, 5).rounded::<T>()
        };
        for activation in Activation::ALL.into_iter().filter(|a| *a != Activation::Identity) {
            let parameters = of(activation);
            let (x, mut dy) = numbers::<T>(parameters.network(), batch);
            let truth = reference::run_off_kinks(&parameters, &x, &mut dy).unwrap();
            let allowed = Errors::allowed(T::PRECISION, &parameters, &x, &dy, &truth).unwrap();
            let Some(identity) = compute(&of(Activation::Identity), &x, &dy) else { return };
            let found = compute(&parameters, &x, &dy).expect("as there is for the identity");
            let Reference { outputs, input_gradients, gradients, .. } = &truth;
            let parts = [
                ("outputs", outputs, allowed.outputs),
                ("gradients by the inputs", input_gradients, allowed.input_gradients),
                ("gradients by the parameters", gradients, allowed.gradients),
            ];
            for (((part, truth, allowed), found), identity) in parts.into_iter().zip(&found).zip(&identity) {
                let what = format!("{what} {} {activation} at {place}, {part}", T::PRECISION);
                let error = relative_error(found, truth);
                assert!(error <= allowed, "{what}: relative error {error:.1e}, {allowed:.1e} allowed");
                let identity: Vec<f64> = identity.iter().copied().map(f64::from).collect();
                let apart = relative_error(found, &identity);
                assert!(apart > APART, "{what}: as the identity, but for {apart:.1e}");
            }
        }
    }
}

#[test]
fn on_the_cpu() {
    each_is_itself::<f32>("CPU", &[16, 32, 24, 8], 100, |parameters, x, dy| {
        let cpu = Cpu::with_threads(parameters, NonZero::new(2).unwrap());
        let (mut y, mut dx) = (vec![f32::NAN; dy.len()], vec![f32::NAN; x.len()]);
        let mut gradients = vec![f32::NAN; parameters.values().len()];
        let mut tape = cpu.tape(x.len() / cpu.network().inputs());
        cpu.forward_train(x, &mut y, &mut tape).unwrap();
        cpu.backward(x, &y, dy, &tape, Some(&mut dx), &mut gradients).unwrap();
        Some([y, dx, gradients])
    });
}

/// What 16 bits may cost is far less than the difference between two activations.
#[test]
fn rounding_does_not_hide_them() {
    for activation in Activation::ALL.into_iter().filter(|a| *a != Activation::Identity) {
        for network in networks(&[64, 64, 16], activation) {
            let parameters = Parameters::he(&network, 5).rounded::<bf16>();
            let (x, dy) = numbers::<bf16>(&network, 40);
            let truth = reference::run(&parameters, &x, &dy, Rounding::None).unwrap();
            let allowed = Errors::allowed(Precision::Bf16, &parameters, &x, &dy, &truth).unwrap();
            let most = allowed.outputs.max(allowed.input_gradients).max(allowed.gradients);
            assert!(most < APART, "{network}: {most:.1e}");
        }
    }
}

fn on_gpu<T: Element>(context: &Context, implementation: Implementation, widths: &[usize], batch: usize) {
    let stream = context.stream().unwrap();
    let what = format!("{implementation} {widths:?}, {batch} samples,");
    each_is_itself::<T>(&what, widths, batch, |parameters, x, dy| {
        let model = Model::<T>::new(context, parameters.network(), Options::new(implementation));
        match model {
            Ok(model) => Some(passes(&stream, model, parameters, x, dy).unwrap()),
            Err(error @ MlpError::Unsupported { .. }) => {
                eprintln!("{what} {error}");
                None
            }
            Err(error) => panic!("{what} {error}"),
        }
    });
}

fn passes<T: Element>(
    stream: &Stream,
    mut model: Model<T>,
    parameters: &Parameters,
    x: &[f32],
    dy: &[f32],
) -> Result<Found, MlpError> {
    let narrow = |numbers: &[f32]| -> Vec<T> { numbers.iter().copied().map(T::narrow).collect() };
    let wide = |numbers: Vec<T>| -> Vec<f32> { numbers.into_iter().map(T::widen).collect() };
    model.upload(stream, parameters)?;
    let batch = x.len() / parameters.network().inputs();
    let (x, dy) = (stream.upload(&narrow(x))?, stream.upload(&narrow(dy))?);
    let (mut y, mut dx) = (stream.zeros(dy.len())?, stream.zeros(x.len())?);
    let mut gradients = stream.zeros(parameters.values().len())?;
    let mut tape = model.tape(stream, batch)?;
    model.forward_train(stream, &x, &mut y, &mut tape)?;
    model.backward(stream, &x, &y, &dy, &mut tape, Some(dx.as_view_mut()), &mut gradients)?;
    Ok([wide(stream.download(&y)?), wide(stream.download(&dx)?), stream.download(&gradients)?])
}

/// [`on_gpu`] in a precision.
type OnGpu = fn(&Context, Implementation, &[usize], usize);

/// Networks and batches for the different kernels of each implementation: one hidden layer and
/// several, few samples and many.
#[test]
fn on_a_gpu_in_every_implementation() {
    let Some((context, _guard)) = gpu() else { return };
    let cases: [(&[usize], usize); 3] =
        [(&[64, 64, 16], 40), (&[64, 64, 16], 3_000), (&[256, 256, 64, 32], 700)];
    let precisions: [OnGpu; 3] = [on_gpu::<f32>, on_gpu::<f16>, on_gpu::<bf16>];
    let mut jobs = Vec::new();
    for implementation in Implementation::ALL {
        for (widths, batch) in cases {
            jobs.extend(precisions.map(|run| (run, implementation, widths, batch)));
        }
    }
    let next = AtomicUsize::new(0);
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(1, NonZero::get) {
            scope.spawn(|| {
                while let Some(&(run, implementation, widths, batch)) =
                    jobs.get(next.fetch_add(1, Ordering::Relaxed))
                {
                    run(&context, implementation, widths, batch);
                }
            });
        }
    });
}

//! Derivatives along a direction, on a GPU, against the 64-bit reference.

use std::num::NonZero;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use flopgap_gpu::{Context, Stream};
use flopgap_mlp::cuda::tangent::{Along, Derivatives, Tangents};
use flopgap_mlp::cuda::{Gradients, Implementation, Model, Options};
use flopgap_mlp::numerics::uniform;
use flopgap_mlp::reference::{self, Reference, Rounding, relative_error};
use flopgap_mlp::{Activation, Element, MlpError, Network, Parameters, Precision};
use half::{bf16, f16};

use super::networks;
use crate::gpu;

/// Inputs, directions, gradients by the outputs and their directions, as they are stored.
fn arrays<T: Element>(network: &Network, batch: usize, seed: u64) -> [Vec<T>; 4] {
    let numbers = |first: u64, width: usize| -> Vec<T> {
        (0..(batch * width) as u64).map(|index| T::narrow(uniform(seed, (first << 40) + index))).collect()
    };
    let (inputs, outputs) = (network.inputs(), network.outputs());
    [numbers(1, inputs), numbers(2, inputs), numbers(3, outputs), numbers(4, outputs)]
}

fn wide<T: Element>(numbers: &[T]) -> Vec<f32> {
    numbers.iter().map(|&number| number.widen()).collect()
}

/// The truth, and what rounding to what is stored costs of outputs, gradients by inputs and by
/// parameters.
fn expected<T: Element>(
    parameters: &Parameters,
    [x, v, dy, dv]: &mut [Vec<T>; 4],
    constant_dy: bool,
) -> (Reference, [f64; 3]) {
    let network = parameters.network();
    if constant_dy {
        dv.fill(T::narrow(0.0));
    }
    let near = reference::run(parameters, &wide(x), &wide(dy), Rounding::None).unwrap().near_kinks;
    // At a kink, one slope is as good as the other.
    for sample in near {
        v[sample * network.inputs()..][..network.inputs()].fill(T::narrow(0.0));
        for of in [&mut *dy, &mut *dv] {
            of[sample * network.outputs()..][..network.outputs()].fill(T::narrow(0.0));
        }
    }
    let run = |rounding| {
        let [x, v, dy, dv] = [&*x, &*v, &*dy, &*dv].map(|numbers| wide(numbers));
        reference::tangents(parameters, &x, &v, &dy, &dv, rounding).unwrap()
    };
    let truth = run(Rounding::None);
    let layers = network.layers() as f64;
    if T::PRECISION == Precision::F32 {
        return (truth, [4e-6, 2e-5, 2e-5].map(|allowed| allowed * (layers / 2.0).sqrt()));
    }
    let stored = run(Rounding::Stored(T::PRECISION));
    // As `Errors::allowed`, with two roundings a layer forward, of a number and of a slope, and two
    // backward.
    let twice = |found: &[f64], truth: &[f64], roundings: f64| {
        let on_average = T::PRECISION.unit_roundoff() * (roundings / 3.0).sqrt();
        2.0 * relative_error(found, truth).max(on_average)
    };
    let allowed = [
        twice(&stored.outputs, &truth.outputs, 2.0 * layers),
        twice(&stored.input_gradients, &truth.input_gradients, 4.0 * layers + 1.0),
        twice(&stored.gradients, &truth.gradients, 4.0 * layers),
    ];
    (truth, allowed)
}

fn one<T: Element>(context: &Context, network: &Network) {
    let stream = context.stream().unwrap();
    let options = Options::new(Implementation::Forloop);
    let mut model = Model::<T>::new(context, network, options).unwrap();
    let parameters = Parameters::he(network, 7).rounded::<T>();
    model.upload(&stream, &parameters).unwrap();
    // From 1,025 samples on, the kernels for many rows; the 64-bit reference of wide networks would
    // take long.
    let most = if network.parameters() < 100_000 { 1030 } else { 300 };
    let mut tangents = Tangents::new(&stream, &model, most).unwrap();
    for (index, batch) in [1, 31, most].into_iter().enumerate() {
        let constant_dy = index == 1;
        let mut arrays = arrays::<T>(network, batch, 50 + index as u64);
        let (truth, allowed) = expected(&parameters, &mut arrays, constant_dy);
        let found = run(&stream, &model, &mut tangents, &arrays, constant_dy).unwrap();
        let of_truth = [&truth.outputs, &truth.input_gradients, &truth.gradients];
        for (part, what) in ["outputs", "input gradients", "gradients"].into_iter().enumerate() {
            let (error, allowed) = (relative_error(&found[part], of_truth[part]), allowed[part]);
            let of = format!("{} {network} batch {batch}: {what}", T::PRECISION);
            assert!(error <= allowed, "{of}: relative error {error:.2e}, {allowed:.2e} allowed");
        }
        let again = run(&stream, &model, &mut tangents, &arrays, constant_dy).unwrap();
        assert_eq!(found, again, "{network} batch {batch}: the same bits again");
    }
}

/// Outputs, gradients by inputs, gradients by parameters.
fn run<T: Element>(
    stream: &Stream,
    model: &Model<T>,
    tangents: &mut Tangents<T>,
    arrays: &[Vec<T>; 4],
    constant_dy: bool,
) -> Result<[Vec<f32>; 3], MlpError> {
    let [x, v, dy, dv] = arrays.each_ref().map(|numbers| stream.upload(numbers).unwrap());
    let nothing = T::narrow(f32::NAN);
    let mut y = stream.upload(&vec![nothing; dy.len()])?;
    let mut dx = stream.upload(&vec![nothing; x.len()])?;
    let mut gradients = stream.upload(&vec![f32::NAN; model.network().parameters()])?;
    let along = Along {
        x: x.as_view(),
        direction: v.as_view(),
        dy: dy.as_view(),
        dy_direction: (!constant_dy).then(|| dv.as_view()),
    };
    let all = Derivatives {
        y: Some(y.as_view_mut()),
        dx: Some(dx.as_view_mut()),
        gradients: Some(gradients.as_view_mut()),
    };
    tangents.queue(stream, model, &along, all)?;
    Ok([wide(&stream.download(&y)?), wide(&stream.download(&dx)?), stream.download(&gradients)?])
}

#[test]
fn tangents_are_the_reference_within_their_precision() {
    let Some((context, _guard)) = gpu() else { return };
    let mut networks = networks();
    // One code for all layers, and every activation with curvature after both kinds of layers.
    networks.push(Network::new(&[64; 25]).unwrap().with_activation(Activation::Tanh));
    for activation in [Activation::Sigmoid, Activation::Silu, Activation::Gelu, Activation::GeluTanh] {
        let network = Network::new(&[3, 72, 40, 2]).unwrap();
        networks.push(network.with_activation(activation).with_output_activation(activation));
    }
    let (next, networks) = (AtomicUsize::new(0), &networks);
    let checks = [one::<f32>, one::<f16>, one::<bf16>];
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(1, NonZero::get) {
            scope.spawn(|| {
                loop {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    let Some(network) = networks.get(index / checks.len()) else { break };
                    checks[index % checks.len()](&context, network);
                }
            });
        }
    });
}

/// A loss of the gradient by the inputs: half the squared distance of its length from 1, summed
/// over the samples, as for a signed distance.
#[test]
fn a_loss_of_gradients_by_inputs_has_its_gradients_by_parameters() {
    let Some((context, _guard)) = gpu() else { return };
    let stream = context.stream().unwrap();
    let network = Network::new(&[3, 32, 32, 1]).unwrap().with_activation(Activation::Silu);
    let options = Options { gradients: Gradients::Add, ..Options::new(Implementation::Auto) };
    let mut model = Model::<f32>::new(&context, &network, options).unwrap();
    let parameters = Parameters::he(&network, 11);
    model.upload(&stream, &parameters).unwrap();
    let batch = 200;
    let [x, _, dy, _] = arrays::<f32>(&network, batch, 3);
    let ones = vec![1.0; dy.len()];
    let loss = |parameters: &Parameters| -> (f64, Vec<f32>) {
        let slopes = reference::run(parameters, &x, &ones, Rounding::None).unwrap().input_gradients;
        let mut direction = Vec::new();
        let mut sum = 0.0;
        for slope in slopes.chunks(3) {
            let length = slope.iter().map(|s| s * s).sum::<f64>().sqrt();
            sum += 0.5 * (length - 1.0) * (length - 1.0);
            #[expect(clippy::cast_possible_truncation, reason = "as a kernel gets it")]
            direction.extend(slope.iter().map(|s| (s * (length - 1.0) / length) as f32));
        }
        (sum, direction)
    };
    let direction = stream.upload(&loss(&parameters).1).unwrap();
    let mut tangents = Tangents::new(&stream, &model, batch).unwrap();
    let (x_buffer, dy_buffer) = (stream.upload(&x).unwrap(), stream.upload(&ones).unwrap());
    let mut gradients = stream.upload(&vec![0.5f32; network.parameters()]).unwrap();
    let along = Along {
        x: x_buffer.as_view(),
        direction: direction.as_view(),
        dy: dy_buffer.as_view(),
        dy_direction: None,
    };
    let wanted = Derivatives { gradients: Some(gradients.as_view_mut()), ..Derivatives::default() };
    tangents.queue(&stream, &model, &along, wanted).unwrap();
    let found = stream.download(&gradients).unwrap();
    let size = found.iter().map(|g| f64::from(*g - 0.5).abs()).fold(0.0, f64::max);
    for index in (0..network.parameters()).step_by(53) {
        let moved = |by: f32| {
            let mut values = parameters.values().to_vec();
            values[index] += by;
            let at = f64::from(values[index]);
            (loss(&Parameters::from_values(&network, values).unwrap()).0, at)
        };
        let ((above, high), (below, low)) = (moved(1.0 / 1024.0), moved(-1.0 / 1024.0));
        let expected = (above - below) / (high - low);
        let found = f64::from(found[index]) - 0.5;
        assert!((found - expected).abs() < 1e-4 * size, "{index}: {found} {expected}");
    }
}

#[test]
fn arrays_of_another_size_are_refused() {
    let Some((context, _guard)) = gpu() else { return };
    let stream = context.stream().unwrap();
    let network = Network::new(&[3, 8, 2]).unwrap();
    let model = Model::<f32>::new(&context, &network, Options::new(Implementation::Auto)).unwrap();
    let mut tangents = Tangents::new(&stream, &model, 4).unwrap();
    let (x, dy) = (stream.zeros::<f32>(30).unwrap(), stream.zeros::<f32>(20).unwrap());
    let mut queue = |samples: usize, directions: usize| {
        let along = Along {
            x: x.slice(..3 * samples),
            direction: x.slice(..directions),
            dy: dy.slice(..2 * samples),
            dy_direction: None,
        };
        tangents.queue(&stream, &model, &along, Derivatives::default())
    };
    assert_eq!(queue(4, 12), Ok(()));
    assert_eq!(queue(5, 15), Err(MlpError::Batch { found: 5, most: 4 }));
    let refused = queue(4, 9).unwrap_err();
    assert_eq!(refused.to_string(), "directions of the inputs: expected 12 numbers, found 9");
}

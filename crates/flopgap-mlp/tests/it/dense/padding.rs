//! Networks that kernels compute padded, gradients that are added, views, and a context and stream
//! of the calling program.

use flopgap_gpu::cudarc::driver::CudaContext;
use flopgap_gpu::{Buffer, Context, Stream};
use flopgap_mlp::cuda::train::{AdamW, MeanSquaredError};
use flopgap_mlp::cuda::{Gradients, Implementation, Model, Options};
use flopgap_mlp::numerics::uniform;
use flopgap_mlp::reference::{self, Rounding, relative_error};
use flopgap_mlp::{Activation, AdamWSettings, Network, Parameters};

use crate::gpu;

fn numbers(first: u64, length: usize) -> Vec<f32> {
    (0..length as u64).map(|index| uniform(11, first + index)).collect()
}

fn color() -> Network {
    Network::new(&[3, 64, 3]).unwrap().with_activation(Activation::Sigmoid)
}

fn model(context: &Context, stream: &Stream, network: &Network, options: Options) -> Model<f32> {
    let mut model = Model::new(context, network, options).unwrap();
    model.upload(stream, &Parameters::he(network, 3)).unwrap();
    model
}

/// One training pass: outputs, gradients by the inputs, gradients by the parameters (added to
/// `before`).
fn pass(stream: &Stream, model: &Model<f32>, batch: usize, before: &[f32]) -> [Vec<f32>; 3] {
    let network = model.network();
    let x = stream.upload(&numbers(0, batch * network.inputs())).unwrap();
    let dy = stream.upload(&numbers(1 << 20, batch * network.outputs())).unwrap();
    let (mut y, mut dx) = (stream.zeros(dy.len()).unwrap(), stream.zeros(x.len()).unwrap());
    let mut gradients = stream.upload(before).unwrap();
    let mut tape = model.tape(stream, batch).unwrap();
    model.forward_train(stream, &x, &mut y, &mut tape).unwrap();
    model.backward(stream, &x, &y, &dy, &mut tape, Some(dx.as_view_mut()), &mut gradients).unwrap();
    [&y, &dx, &gradients].map(|array| stream.download(array).unwrap())
}

#[test]
fn gradients_are_added_to_bit_for_bit() {
    let Some((context, _guard)) = gpu() else { return };
    let stream = context.stream().unwrap();
    let even = Network::new(&[16, 32, 8]).unwrap();
    let mixed = even.clone().with_biases(&[false, true]).unwrap();
    for network in [even, mixed, color(), color().with_bias(false)] {
        for implementation in [Implementation::Forloop, Implementation::Coopmat] {
            let overwrite = Options::new(implementation);
            let add = Options { gradients: Gradients::Add, ..overwrite };
            let before = numbers(1 << 30, network.parameters());
            let alone = pass(&stream, &model(&context, &stream, &network, overwrite), 77, &before);
            let added = pass(&stream, &model(&context, &stream, &network, add), 77, &before);
            assert!(alone[0] == added[0] && alone[1] == added[1], "{implementation} {network}");
            let sums: Vec<f32> = before.iter().zip(&alone[2]).map(|(a, b)| a + b).collect();
            assert!(sums == added[2], "{implementation} {network}");
        }
    }
}

#[test]
fn arrays_may_be_parts_of_larger_ones() {
    let Some((context, _guard)) = gpu() else { return };
    let stream = context.stream().unwrap();
    for network in [Network::new(&[16, 32, 8]).unwrap(), color()] {
        let model = model(&context, &stream, &network, Options::new(Implementation::Auto));
        let (batch, parameters) = (50, network.parameters());
        let [_, dx_alone, gradients_alone] = pass(&stream, &model, batch, &vec![0.0; parameters]);
        let (inputs, outputs) = (batch * network.inputs(), batch * network.outputs());
        let x = stream.upload(&numbers(0, inputs)).unwrap();
        let dy = stream.upload(&numbers(1 << 20, outputs)).unwrap();
        let mut y = stream.zeros(outputs).unwrap();
        let mut dx = stream.upload(&vec![7.0_f32; inputs + 16]).unwrap();
        let mut gradients = stream.upload(&vec![7.0_f32; parameters + 16]).unwrap();
        let mut tape = model.tape(&stream, batch).unwrap();
        model.forward_train(&stream, &x, &mut y, &mut tape).unwrap();
        let of_dx = dx.slice_mut(8..8 + inputs);
        let mut of_gradients = gradients.slice_mut(8..8 + parameters);
        model.backward(&stream, &x, &y, &dy, &mut tape, Some(of_dx), &mut of_gradients).unwrap();
        for (whole, part) in [(&dx, &dx_alone), (&gradients, &gradients_alone)] {
            let whole = stream.download(whole).unwrap();
            assert!(whole[8..8 + part.len()] == part[..], "{network}");
            assert!(
                whole[..8].iter().chain(&whole[8 + part.len()..]).all(|n| n.to_bits() == 7.0_f32.to_bits()),
                "{network}"
            );
        }
    }
}

#[test]
fn a_padded_network_is_captured_and_trained() {
    let Some((context, _guard)) = gpu() else { return };
    let stream = context.stream().unwrap();
    let (network, batch) = (color().with_output_activation(Activation::Sigmoid), 256);
    let mut model = model(&context, &stream, &network, Options::new(Implementation::Auto));
    let x = stream.upload(&numbers(0, batch * 3)).unwrap();
    let targets = stream.upload(&vec![0.25_f32; batch * 3]).unwrap();
    let (mut y, mut dy) = (stream.zeros(batch * 3).unwrap(), stream.zeros(batch * 3).unwrap());

    // Without a tape, the first pass of a batch allocates: a capture says so, and works afterwards.
    let refused = stream.capture(|| model.forward(&stream, &x, &mut y)).unwrap_err();
    assert!(refused.to_string().contains("allocate memory"), "{refused}");
    model.forward(&stream, &x, &mut y).unwrap();
    let first = stream.download(&y).unwrap();
    stream.fill(&mut y, 0xff).unwrap();
    stream.capture(|| model.forward(&stream, &x, &mut y)).unwrap().launch().unwrap();
    assert!(stream.download(&y).unwrap() == first);

    let settings = AdamWSettings { learning_rate: 1e-2, ..AdamWSettings::default() };
    let mut optimizer = AdamW::new(&stream, &model, settings).unwrap();
    let mut error = MeanSquaredError::new(&stream, &network, 3).unwrap();
    let (mut gradients, mut loss) =
        (stream.zeros(network.parameters()).unwrap(), stream.zeros::<f32>(1).unwrap());
    let mut tape = model.tape(&stream, batch).unwrap();
    let step = stream
        .capture(|| {
            model.forward_train(&stream, &x, &mut y, &mut tape)?;
            error.queue(&stream, &y, &targets, 1.0, &mut dy, &mut loss)?;
            model.backward(&stream, &x, &y, &dy, &mut tape, None, &mut gradients)?;
            optimizer.step(&stream, &mut model, &gradients)
        })
        .unwrap();
    step.launch().unwrap();
    let before = stream.download(&loss).unwrap()[0];
    (0..200).try_for_each(|_| step.launch()).unwrap();
    let after = stream.download(&loss).unwrap()[0];
    assert!(after < 0.1 * before, "{before} {after}");

    // What was trained is what the model computes with, and what is downloaded.
    model.forward(&stream, &x, &mut y).unwrap();
    let parameters = model.download(&stream).unwrap();
    let truth =
        reference::run(&parameters, &numbers(0, batch * 3), &vec![0.0; batch * 3], Rounding::None).unwrap();
    let found = stream.download(&y).unwrap();
    assert!(relative_error(&found, &truth.outputs) < 2e-6, "{}", relative_error(&found, &truth.outputs));
}

#[test]
fn a_model_works_on_the_context_and_stream_of_the_program() {
    let Some((ours, _guard)) = gpu() else { return };
    let network = Network::new(&[16, 32, 8]).unwrap();
    let expected = {
        let stream = ours.stream().unwrap();
        let model = model(&ours, &stream, &network, Options::new(Implementation::Auto));
        pass(&stream, &model, 100, &vec![0.0; network.parameters()])
    };
    let theirs = CudaContext::new(0).unwrap().new_stream().unwrap();
    let stream = Stream::from_cudarc(theirs.clone()).unwrap();
    let model = model(stream.context(), &stream, &network, Options::new(Implementation::Auto));
    assert!(pass(&stream, &model, 100, &vec![0.0; network.parameters()]) == expected);
    // Inputs that `cudarc` allocated.
    let x = Buffer::from_cudarc(theirs.clone_htod(&numbers(0, 100 * 16)).unwrap()).unwrap();
    let mut y = stream.zeros::<f32>(100 * 8).unwrap();
    model.forward(&stream, &x, &mut y).unwrap();
    assert!(stream.download(&y).unwrap() == expected[0]);
    // Our own stream, which waits for theirs.
    let other = ours.stream().unwrap();
    model.forward(&other, &x, &mut y).unwrap();
    assert!(other.download(&y).unwrap() == expected[0]);
}

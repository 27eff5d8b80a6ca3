//! Networks whose layers have biases in some layers alone, as PyTorch's `nn.Sequential` with
//! `bias=False` in some of its `Linear` layers.

use std::path::Path;

use flopgap_gpu::Stream;
use flopgap_mlp::cuda::train::{self, MeanSquaredError};
use flopgap_mlp::cuda::{Gradients, Implementation, Model, Options};
use flopgap_mlp::numerics::uniform;
use flopgap_mlp::reference::{self, Rounding, relative_error};
use flopgap_mlp::{Activation, AdamWSettings, Cpu, MlpError, Network, Parameters, Precision, cpu};

use crate::gpu;

/// What PyTorch computed in 64 bits for `mixed.safetensors`: see `fixtures/dense/make.py`.
struct Expected(serde_json::Value);

impl Expected {
    fn read() -> Self {
        Expected(serde_json::from_str(include_str!("../../../../../fixtures/dense/mixed.json")).unwrap())
    }

    fn get(&self, key: &str) -> Vec<f64> {
        self.0[key].as_array().unwrap().iter().map(|number| number.as_f64().unwrap()).collect()
    }

    #[expect(clippy::cast_possible_truncation, reason = "written from 32 bits")]
    fn narrow(&self, key: &str) -> Vec<f32> {
        self.get(key).into_iter().map(|number| number as f32).collect()
    }
}

fn of_pytorch() -> Parameters {
    let path = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/dense/mixed.safetensors"));
    Parameters::load_with_activations(path, Activation::Tanh, Activation::Sigmoid).unwrap()
}

/// Those of `make.py`.
const SETTINGS: AdamWSettings = AdamWSettings {
    learning_rate: 0.01,
    betas: (0.9, 0.999),
    epsilon: 1e-8,
    weight_decay: 0.1,
    loss_scale: 1.0,
    skip_not_finite: true,
};

fn assert_close(what: &str, found: &[f32], expected: &[f64], allowed: f64) {
    assert_eq!(found.len(), expected.len(), "{what}");
    let error = relative_error(found, expected);
    assert!(error < allowed, "{what}: relative error {error:.2e}");
}

#[test]
fn a_file_of_pytorch_computes_and_trains_as_pytorch_does() {
    let (parameters, expected) = (of_pytorch(), Expected::read());
    let network = parameters.network();
    assert_eq!(network.to_string(), "3-12-9-5 tanh/sigmoid without bias in layer 0, 2");
    assert_eq!(network.parameters(), 3 * 12 + 12 * 9 + 9 + 9 * 5);

    let (x, dy) = (expected.narrow("x"), expected.narrow("dy"));
    let truth = reference::run(&parameters, &x, &dy, Rounding::None).unwrap();
    for (found, key) in
        [(&truth.outputs, "y"), (&truth.input_gradients, "dx"), (&truth.gradients, "gradients")]
    {
        assert!(reference::relative_error(found, &expected.get(key)) < 1e-12, "{key}");
    }

    let mut cpu = Cpu::new(&parameters);
    let (mut y, mut dx) = (vec![f32::NAN; dy.len()], vec![f32::NAN; x.len()]);
    let mut gradients = vec![f32::NAN; network.parameters()];
    let mut tape = cpu.tape(6);
    cpu.forward_train(&x, &mut y, &mut tape).unwrap();
    cpu.backward(&x, &y, &dy, &tape, Some(&mut dx), &mut gradients).unwrap();
    assert_close("y", &y, &expected.get("y"), 1e-6);
    assert_close("dx", &dx, &expected.get("dx"), 1e-6);
    assert_close("gradients", &gradients, &expected.get("gradients"), 1e-6);

    let mut optimizer = cpu::AdamW::new(network, SETTINGS);
    for _ in 0..5 {
        let squares = |_, y: &[f32], dy: &mut [f32]| {
            y.iter().zip(dy).for_each(|(y, dy)| *dy = 2.0 * (y - 0.25) / 30.0);
            0.0
        };
        cpu.train(&x, None, &mut gradients, squares).unwrap();
        assert!(optimizer.step(&mut cpu, &gradients).unwrap());
    }
    assert_close("trained", cpu.parameters().values(), &expected.get("trained"), 1e-5);
}

/// Every choice of layers, against the network with zeros for the biases that are missing.
#[test]
fn a_missing_bias_is_a_zero_that_has_no_gradient() {
    let whole = Network::new(&[5, 9, 8, 3]).unwrap().with_activation(Activation::Gelu);
    let numbers = |first: u64, length: usize| -> Vec<f32> {
        (0..length as u64).map(|index| uniform(4, first + index)).collect()
    };
    let (x, dy) = (numbers(0, 40 * 5), numbers(1 << 20, 40 * 3));
    for flags in 0..8_u32 {
        let biases = [0, 1, 2].map(|layer| flags >> layer & 1 == 1);
        let network = whole.clone().with_biases(&biases).unwrap();
        let parameters = Parameters::he(&network, 7);
        let mut values = vec![0.0; whole.parameters()];
        let mut places = Vec::new();
        for layer in 0..3 {
            let of_layer = [(network.weights(layer), whole.weights(layer))];
            let of_layer = of_layer.into_iter().chain([(network.biases(layer), whole.biases(layer))]);
            for (own, all) in of_layer.filter(|(own, _)| !own.is_empty()) {
                values[all.clone()].copy_from_slice(&parameters.values()[own]);
                places.extend(all);
            }
        }
        let of_whole = Parameters::from_values(&whole, values).unwrap();
        let truth = reference::run(&of_whole, &x, &dy, Rounding::None).unwrap();
        let gradients: Vec<f64> = places.iter().map(|&place| truth.gradients[place]).collect();

        let own = reference::run(&parameters, &x, &dy, Rounding::None).unwrap();
        assert_eq!((&own.outputs, &own.gradients), (&truth.outputs, &gradients), "{network}");
        let cpu = Cpu::new(&parameters);
        let (mut y, mut dx) = (vec![f32::NAN; dy.len()], vec![f32::NAN; x.len()]);
        let mut found = vec![f32::NAN; network.parameters()];
        let mut tape = cpu.tape(40);
        cpu.forward_train(&x, &mut y, &mut tape).unwrap();
        cpu.backward(&x, &y, &dy, &tape, Some(&mut dx), &mut found).unwrap();
        assert_close(&format!("{network}: y"), &y, &truth.outputs, 1e-6);
        assert_close(&format!("{network}: dx"), &dx, &truth.input_gradients, 1e-6);
        assert_close(&format!("{network}: gradients"), &found, &gradients, 1e-6);
    }
}

#[test]
fn an_optimizer_of_biases_in_other_layers_is_refused() {
    let network = |biases: [bool; 2]| Network::new(&[8, 8, 8]).unwrap().with_biases(&biases).unwrap();
    let (first, second) = (network([true, false]), network([false, true]));
    let mut cpu = Cpu::new(&Parameters::he(&first, 1));
    let before = cpu.parameters().clone();
    let gradients = vec![1.0; first.parameters()];
    let mut optimizer = cpu::AdamW::new(&second, SETTINGS);
    let error = optimizer.step(&mut cpu, &gradients).unwrap_err();
    assert!(matches!(error, MlpError::OtherNetwork { .. }), "{error}");
    assert_eq!((cpu.parameters(), optimizer.steps()), (&before, (0, 0)));
    assert!(cpu.set_parameters(&Parameters::he(&second, 1)).is_err());
    // Activations play no part.
    assert!(
        cpu::AdamW::new(&first.with_activation(Activation::Tanh), SETTINGS)
            .step(&mut cpu, &gradients)
            .unwrap()
    );
}

#[test]
fn files_say_which_layers_have_biases() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("mixed.safetensors");
    let network = of_pytorch().network().clone();
    for (biases, entry) in [
        ([false, true, false], " bias=1"),
        ([true, false, true], " bias=0,2"),
        ([false; 3], " bias=none"),
        ([true; 3], ""),
    ] {
        let parameters = Parameters::he(&network.clone().with_biases(&biases).unwrap(), 3);
        parameters.save(&path, Precision::F32).unwrap();
        let bytes = std::fs::read(&path).unwrap();
        let (_, header) = safetensors::SafeTensors::read_metadata(&bytes).unwrap();
        let found = &header.metadata().as_ref().unwrap()["flopgap"];
        assert_eq!(found, &format!("version=1 activation=tanh output_activation=sigmoid{entry}"));
        let read = Parameters::load(&path).unwrap();
        assert_eq!(read, parameters);
        read.save(&path, Precision::F32).unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), bytes);
    }
}

/// Outputs, gradients by the inputs, gradients by the parameters and trained parameters of PyTorch.
fn as_pytorch(stream: &Stream, options: Options) {
    let (parameters, expected) = (of_pytorch(), Expected::read());
    let what = |key: &str| format!("{} {key}", options.implementation);
    let mut model = Model::<f32>::new(stream.context(), parameters.network(), options).unwrap();
    model.upload(stream, &parameters).unwrap();
    let (x, dy) = (expected.narrow("x"), expected.narrow("dy"));
    let x = stream.upload(&x).unwrap();
    let dy = stream.upload(&dy).unwrap();
    let (mut y, mut dx) = (stream.zeros(dy.len()).unwrap(), stream.zeros(x.len()).unwrap());
    let mut gradients = stream.zeros(parameters.values().len()).unwrap();
    let mut tape = model.tape(stream, 6).unwrap();
    model.forward_train(stream, &x, &mut y, &mut tape).unwrap();
    model.backward(stream, &x, &y, &dy, &mut tape, Some(dx.as_view_mut()), &mut gradients).unwrap();
    for (found, key) in [(&y, "y"), (&dx, "dx"), (&gradients, "gradients")] {
        assert_close(&what(key), &stream.download(found).unwrap(), &expected.get(key), 1e-5);
    }

    let mut optimizer = train::AdamW::new(stream, &model, SETTINGS).unwrap();
    let mut error = MeanSquaredError::new(stream, parameters.network(), 5).unwrap();
    let targets = stream.upload(&[0.25_f32; 30]).unwrap();
    let (mut dy, mut loss) = (stream.zeros(30).unwrap(), stream.zeros::<f32>(1).unwrap());
    for _ in 0..5 {
        model.forward_train(stream, &x, &mut y, &mut tape).unwrap();
        error.queue(stream, &y, &targets, 1.0, &mut dy, &mut loss).unwrap();
        stream.fill(&mut gradients, 0).unwrap();
        model.backward(stream, &x, &y, &dy, &mut tape, None, &mut gradients).unwrap();
        optimizer.step(stream, &mut model, &gradients).unwrap();
    }
    let trained = model.download(stream).unwrap();
    assert_close(&what("trained"), trained.values(), &expected.get("trained"), 1e-5);
    // Kernels compute with these parameters and with no biases beside them.
    model.forward(stream, &x, &mut y).unwrap();
    let truth = reference::run(&trained, &expected.narrow("x"), &[0.0; 30], Rounding::None).unwrap();
    assert_close(&what("after training"), &stream.download(&y).unwrap(), &truth.outputs, 1e-5);
}

#[test]
fn gpus_compute_and_train_as_pytorch_does() {
    let Some((context, _guard)) = gpu() else { return };
    let stream = context.stream().unwrap();
    for implementation in Implementation::ALL {
        as_pytorch(&stream, Options::new(implementation));
    }
    as_pytorch(&stream, Options { gradients: Gradients::Add, ..Options::new(Implementation::Auto) });

    // An optimizer of another network with as many parameters.
    let network = |biases: [bool; 2]| Network::new(&[8, 8, 8]).unwrap().with_biases(&biases).unwrap();
    let [first, mut second] = [[true, false], [false, true]].map(|biases| {
        Model::<f32>::new(&context, &network(biases), Options::new(Implementation::Naive)).unwrap()
    });
    let mut optimizer = train::AdamW::new(&stream, &first, SETTINGS).unwrap();
    let gradients = stream.zeros::<f32>(first.network().parameters()).unwrap();
    let error = optimizer.step(&stream, &mut second, &gradients).unwrap_err();
    assert!(matches!(error, MlpError::OtherNetwork { .. }), "{error}");
}

//! Training of a table with its network on a GPU.

use flopgap_gpu::Stream;
use flopgap_mlp::cuda::encoding::Encoder;
use flopgap_mlp::cuda::train::{AdamW, ArrayAdamW, MeanSquaredError};
use flopgap_mlp::cuda::{Implementation, Model, Options};
use flopgap_mlp::encoding::HashGridSettings;
use flopgap_mlp::numerics::uniform;
use flopgap_mlp::{AdamWSettings, Element, Network, Parameters};
use half::f16;

use crate::gpu;

#[test]
fn a_hash_grid_and_its_network_learn_a_picture() {
    let Some((context, _guard)) = gpu() else { return };
    let stream = context.stream().unwrap();
    for error in [learn::<f32>(&stream), learn::<f16>(&stream)] {
        assert!(error < 1e-3, "mean squared error {error:.2e} of a picture with variance 0.125");
    }
}

/// Bands that are narrower towards one side. A step is a graph.
fn learn<T: Element>(stream: &Stream) -> f32 {
    const BATCH: usize = 4_099;
    const SCALE: f32 = 1024.0;
    let encoding = super::grid(HashGridSettings {
        dimensions: 2,
        levels: 8,
        log2_entries: 12,
        growth: 1.4,
        ..HashGridSettings::default()
    });
    let network = Network::new(&[encoding.width(), 32, 8]).unwrap();
    let (table, parameters) = (encoding.initial_table(1), Parameters::he(&network, 2));
    let mut encoder = Encoder::<T>::new(stream.context(), &encoding).unwrap();
    let mut model =
        Model::<T>::new(stream.context(), &network, Options::new(Implementation::Forloop)).unwrap();
    encoder.upload(stream, &table).unwrap();
    model.upload(stream, &parameters).unwrap();
    let settings = AdamWSettings {
        learning_rate: 0.01,
        weight_decay: 0.0,
        loss_scale: f64::from(SCALE),
        ..AdamWSettings::default()
    };
    let mut of_table = ArrayAdamW::new(stream, &table, AdamWSettings { epsilon: 1e-15, ..settings }).unwrap();
    let mut of_network = AdamW::with_master(stream, &model, &parameters, settings).unwrap();
    let mut error = MeanSquaredError::new(stream, &network, 1).unwrap();

    let places: Vec<f32> = (0..2 * BATCH as u64).map(|i| 0.5 + 0.5 * uniform(3, i)).collect();
    let bands = |place: &[f32]| 0.5 + 0.5 * (40.0 * (place[0] + place[1] * place[1])).sin();
    let targets: Vec<f32> = places.chunks_exact(2).map(bands).collect();
    let (positions, targets) = (stream.upload(&places).unwrap(), stream.upload(&targets).unwrap());
    let mut x = stream.zeros::<T>(BATCH * network.inputs()).unwrap();
    let mut dx = stream.zeros::<T>(BATCH * network.inputs()).unwrap();
    let (mut y, mut dy) = (stream.zeros(BATCH * 8).unwrap(), stream.zeros(BATCH * 8).unwrap());
    let (mut loss, mut gradients) = (stream.zeros(1).unwrap(), stream.zeros(network.parameters()).unwrap());
    let mut table_gradients = stream.zeros(encoding.parameters()).unwrap();
    let mut tape = model.tape(stream, BATCH).unwrap();
    let step = stream.capture(|| {
        encoder.forward(stream, &positions, &mut x)?;
        model.forward_train(stream, &x, &mut y, &mut tape)?;
        error.queue(stream, &y, &targets, SCALE, &mut dy, &mut loss)?;
        model.backward(stream, &x, &y, &dy, &mut tape, Some(dx.as_view_mut()), &mut gradients)?;
        encoder.backward(stream, &positions, &dx, Some(table_gradients.as_view_mut()), None)?;
        of_network.step(stream, &mut model, &gradients)?;
        of_table.step(stream, &mut encoder.table_mut(), &table_gradients)
    });
    let step = step.unwrap();
    (0..400).try_for_each(|_| step.launch()).unwrap();
    assert_eq!(of_table.steps(stream).unwrap(), (400, 0));
    let values = of_table.values(stream, encoder.table()).unwrap();
    let rounded: Vec<f32> = values.iter().map(|&value| T::narrow(value).widen()).collect();
    assert_eq!(encoder.download(stream).unwrap(), rounded, "the encoder has the rounded table");
    stream.download(&loss).unwrap()[0]
}

//! Loss and optimizer against their formulas in 64 bits.

use flopgap_gpu::Stream;
use flopgap_kernels::{KernelClass, classify};
use flopgap_mlp::cuda::train::{self, MeanSquaredError};
use flopgap_mlp::cuda::{Implementation, Model, Options};
use flopgap_mlp::numerics::uniform;
use flopgap_mlp::reference::relative_error;
use flopgap_mlp::{AdamWSettings, Cpu, Element, MlpError, Network, Parameters, cpu};
use half::{bf16, f16};

use crate::gpu;

const SETTINGS: AdamWSettings = AdamWSettings {
    learning_rate: 0.01,
    betas: (0.9, 0.999),
    epsilon: 1e-8,
    weight_decay: 0.1,
    loss_scale: 64.0,
    skip_not_finite: true,
};

fn network() -> Network {
    Network::new(&[24, 64, 40, 8]).unwrap()
}

/// The gradients of a step, of very different sizes.
fn gradients(length: usize, step: u64) -> Vec<f32> {
    let number = |index: u64| uniform(step, index) * 10.0_f32.powi(i32::try_from(index % 7).unwrap() - 5);
    (0..length as u64).map(number).collect()
}

/// Loshchilov and Hutter's formula in 64 bits.
struct Reference {
    settings: AdamWSettings,
    values: Vec<f64>,
    first: Vec<f64>,
    second: Vec<f64>,
    step: i32,
}

impl Reference {
    fn new(settings: AdamWSettings, values: &[f32]) -> Self {
        let zeros = vec![0.0; values.len()];
        let values = values.iter().copied().map(f64::from).collect();
        Reference { settings, values, first: zeros.clone(), second: zeros, step: 0 }
    }

    fn step(&mut self, gradients: &[f32]) {
        self.step += 1;
        let AdamWSettings { learning_rate, betas, epsilon, weight_decay, loss_scale, .. } = self.settings;
        for (index, &gradient) in gradients.iter().enumerate() {
            let gradient = f64::from(gradient) / loss_scale;
            let (m, v) = (&mut self.first[index], &mut self.second[index]);
            *m = betas.0 * *m + (1.0 - betas.0) * gradient;
            *v = betas.1 * *v + (1.0 - betas.1) * gradient * gradient;
            let (m, v) = (*m / (1.0 - betas.0.powi(self.step)), *v / (1.0 - betas.1.powi(self.step)));
            let value = &mut self.values[index];
            *value -= learning_rate * weight_decay * *value + learning_rate * m / (v.sqrt() + epsilon);
        }
    }
}

#[test]
fn adamw_on_the_cpu_is_the_formula() {
    let network = network();
    let parameters = Parameters::he(&network, 1);
    let (mut found, mut optimizer) = (Cpu::new(&parameters), cpu::AdamW::new(&network, SETTINGS));
    let mut expected = Reference::new(SETTINGS, parameters.values());
    for step in 0..20 {
        let gradients = gradients(network.parameters(), step);
        assert!(optimizer.step(&mut found, &gradients).unwrap());
        expected.step(&gradients);
        let mut broken = gradients;
        broken[17] = f32::INFINITY;
        assert!(!optimizer.step(&mut found, &broken).unwrap());
    }
    assert_eq!(optimizer.steps(), (20, 20));
    let error = relative_error(found.parameters().values(), &expected.values);
    assert!(error < 1e-6, "{error:.2e}");
    // The passes use the new parameters, too.
    let (x, mut y, mut again) = (vec![0.5; 24], vec![0.0; 8], vec![0.0; 8]);
    found.forward(&x, &mut y).unwrap();
    Cpu::new(found.parameters()).forward(&x, &mut again).unwrap();
    assert!(y == again && y != [0.0; 8]);
}

#[test]
fn adamw_is_that_of_pytorch() {
    let expected: Vec<f64> =
        serde_json::from_str(include_str!("../../../../../fixtures/dense/adamw.json")).unwrap();
    let numbers = |of: &dyn Fn(usize) -> usize, half: f32| -> Vec<f32> {
        (0..144).map(|index| of(index) as f32 / half - 1.0).collect()
    };
    let network = Network::new(&[8, 8, 8]).unwrap();
    let values = numbers(&|index| index * 37 % 101, 50.0);
    let settings = AdamWSettings { loss_scale: 1.0, ..SETTINGS };
    let mut found = Cpu::new(&Parameters::from_values(&network, values).unwrap());
    let mut optimizer = cpu::AdamW::new(&network, settings);
    let mut reference = Reference::new(settings, found.parameters().values());
    for step in 0..5 {
        let gradients = numbers(&|index| (index * 53 + step * 29) % 97, 48.0);
        optimizer.step(&mut found, &gradients).unwrap();
        reference.step(&gradients);
    }
    let error = relative_error(found.parameters().values(), &expected);
    assert!(error < 1e-6, "{error:.2e}");
    assert!(reference.values.iter().zip(&expected).all(|(found, expected)| (found - expected).abs() < 1e-6));
}

#[test]
fn adamw_on_a_gpu_is_the_formula() {
    let Some((context, _guard)) = gpu() else { return };
    let stream = context.stream().unwrap();
    optimize::<f32>(&stream);
    optimize::<f16>(&stream);
    optimize::<bf16>(&stream);
}

/// Steps as a graph that is launched again and again, some of them with a gradient that is not
/// finite, and a learning rate that changes.
fn optimize<T: Element>(stream: &Stream) {
    let network = network();
    let parameters = Parameters::he(&network, 1);
    let mut model = Model::<T>::new(stream.context(), &network, Options::new(Implementation::Naive)).unwrap();
    model.upload(stream, &parameters).unwrap();
    let mut optimizer = train::AdamW::with_master(stream, &model, &parameters, SETTINGS).unwrap();
    let mut expected = Reference::new(SETTINGS, parameters.values());
    let mut buffer = stream.zeros::<f32>(network.parameters()).unwrap();
    let graph = stream.capture(|| optimizer.step(stream, &mut model, &buffer)).unwrap();
    for step in 0..20 {
        let mut gradients = gradients(network.parameters(), step);
        stream.write(&gradients, &mut buffer).unwrap();
        graph.launch().unwrap();
        expected.step(&gradients);
        gradients[4_321 % network.parameters()] = if step % 2 == 0 { f32::NAN } else { f32::NEG_INFINITY };
        stream.synchronize().unwrap();
        stream.write(&gradients, &mut buffer).unwrap();
        graph.launch().unwrap();
        if step == 10 {
            optimizer.set_learning_rate(stream, 0.002).unwrap();
            expected.settings.learning_rate = 0.002;
        }
        stream.synchronize().unwrap();
    }
    assert_eq!(optimizer.steps(stream).unwrap(), (20, 20), "{}", T::PRECISION);
    let found = optimizer.parameters(stream, &model).unwrap();
    let error = relative_error(found.values(), &expected.values);
    assert!(error < 1e-6, "{}: {error:.2e}", T::PRECISION);
    assert_eq!(model.download(stream).unwrap(), found.rounded::<T>(), "the model has the rounded parameters");
}

#[test]
fn the_mean_squared_error_is_the_formula() {
    let Some((context, _guard)) = gpu() else { return };
    let stream = context.stream().unwrap();
    for batch in [1, 31, 256, 4_097, 100_000] {
        for columns in [1, 3, 8] {
            loss::<f32>(&stream, batch, columns, 1e-6);
            loss::<f16>(&stream, batch, columns, 6e-4);
            loss::<bf16>(&stream, batch, columns, 5e-3);
        }
    }
}

fn loss<T: Element>(stream: &Stream, batch: usize, columns: usize, allowed: f64) {
    const SCALE: f32 = 256.0;
    let network = network();
    let mut error = MeanSquaredError::<T>::new(stream, &network, columns).unwrap();
    let numbers = |first: u64, length: usize| -> Vec<f32> {
        (0..length as u64).map(|index| uniform(9, first + index)).collect()
    };
    let y: Vec<T> = numbers(0, batch * 8).into_iter().map(T::narrow).collect();
    let targets = numbers(1 << 40, batch * columns);
    let (on_gpu, target_buffer) = (stream.upload(&y).unwrap(), stream.upload(&targets).unwrap());
    let mut dy = stream.upload(&vec![T::narrow(f32::NAN); y.len()]).unwrap();
    let mut found = stream.upload(&[f32::NAN]).unwrap();
    // Where the batch is large, gradients are divided by it; a scale keeps them in the range of
    // half precision.
    let scale = SCALE * batch as f32;
    let mut runs = Vec::new();
    for _ in 0..2 {
        error.queue(stream, &on_gpu, &target_buffer, scale, &mut dy, &mut found).unwrap();
        runs.push(stream.download(&found).unwrap()[0].to_bits());
    }
    assert_eq!(runs[0], runs[1], "the same bits again");

    let (mut sum, mut gradients) = (0.0, Vec::new());
    for (y, targets) in y.chunks(8).zip(targets.chunks(columns)) {
        for (column, y) in y.iter().enumerate() {
            let difference =
                targets.get(column).map_or(0.0, |target| f64::from(y.widen()) - f64::from(*target));
            sum += difference * difference;
            gradients.push(2.0 * difference * f64::from(SCALE) / columns as f64);
        }
    }
    let expected = sum / (batch * columns) as f64;
    let what = format!("{} batch {batch}, {columns} columns", T::PRECISION);
    assert!((f64::from(f32::from_bits(runs[0])) / expected - 1.0).abs() < 1e-6, "{what}: loss");
    let dy: Vec<f32> = stream.download(&dy).unwrap().into_iter().map(T::widen).collect();
    let found = relative_error(&dy, &gradients);
    assert!(found < allowed, "{what}: gradients: {found:.2e}");
}

#[test]
fn lengths_are_checked() {
    let Some((context, _guard)) = gpu() else { return };
    let stream = context.stream().unwrap();
    let network = network();
    let refused = MeanSquaredError::<f32>::new(&stream, &network, 9).unwrap_err();
    assert_eq!(refused.to_string(), "outputs that count: expected 8 numbers, found 9");
    let mut error = MeanSquaredError::<f32>::new(&stream, &network, 3).unwrap();
    let (y, targets) = (stream.zeros::<f32>(16).unwrap(), stream.zeros::<f32>(7).unwrap());
    let (mut dy, mut loss) = (stream.zeros::<f32>(16).unwrap(), stream.zeros::<f32>(1).unwrap());
    let refused = error.queue(&stream, &y, &targets, 1.0, &mut dy, &mut loss).unwrap_err();
    assert_eq!(refused.to_string(), "targets: expected 6 numbers, found 7");
    let mut model = Model::<f32>::new(&context, &network, Options::new(Implementation::Naive)).unwrap();
    let mut optimizer = train::AdamW::new(&stream, &model, SETTINGS).unwrap();
    let refused = optimizer.step(&stream, &mut model, &targets).unwrap_err();
    assert!(matches!(refused, MlpError::Length { found: 7, .. }));
}

#[test]
fn kernels_have_their_class() {
    for (name, class) in [
        ("adamw_step", KernelClass::Optimizer),
        ("adamw_finite_reduce", KernelClass::Reduction),
        ("mean_squared_error_reduce", KernelClass::Reduction),
    ] {
        assert_eq!(classify(name).class, class, "{name}");
    }
}

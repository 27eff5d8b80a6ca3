//! What a model refuses: with an error that says what is wrong, before anything is written.

use flopgap_files::Hint as _;
use flopgap_gpu::GpuError;
use flopgap_mlp::cuda::{Accumulate, Implementation, Model, Options, Target, compile_all};
use flopgap_mlp::{Activation, AdamWSettings, Cpu, MlpError, Network, Parameters, Precision, Size, cpu};
use half::f16;

use super::kernels::compiler;
use crate::gpu;

#[test]
fn a_tape_of_another_network_is_refused_on_cores() {
    let [small, medium] =
        [Size::Small, Size::Medium].map(|size| Cpu::new(&Parameters::he(&size.network(), 1)));
    let (x, mut y) = (vec![0.5; 10 * 64], vec![0.0; 10 * 16]);
    let mut tape = small.tape(10);
    small.forward_train(&x, &mut y, &mut tape).unwrap();
    let (x, y, mut gradients) = (vec![0.5; 10 * 128], vec![0.0; 10 * 32], vec![0.0; 20_640]);
    let error = medium.backward(&x, &y, &y, &tape, None, &mut gradients).unwrap_err();
    assert!(error.to_string().contains("a forward pass of the same network and batch"), "{error}");
}

#[test]
fn an_optimizer_that_cannot_work_is_refused_on_cores() {
    let network = Network::new(&[8, 16, 8]).unwrap();
    let parameters = Parameters::he(&network, 1);
    let mut cpu = Cpu::new(&parameters);
    let gradients = vec![1.0; network.parameters()];
    let settings = AdamWSettings { loss_scale: 0.0, ..AdamWSettings::default() };
    let error = cpu::AdamW::new(&network, settings).step(&mut cpu, &gradients).unwrap_err();
    assert!(matches!(error, MlpError::Setting { what: "loss_scale", .. }), "{error}");
    let mut optimizer = cpu::AdamW::new(&network, AdamWSettings::default());
    optimizer.set_learning_rate(f64::NAN);
    let error = optimizer.step(&mut cpu, &gradients).unwrap_err();
    assert_eq!(error.to_string(), "invalid learning_rate NaN of the optimizer; expected a number from 0 on");
    assert_eq!((cpu.parameters(), optimizer.steps()), (&parameters, (0, 0)));
}

/// The widest and the deepest networks, and what there are no kernels for at all: an answer,
/// without a GPU.
#[test]
fn networks_at_the_limits_are_compiled_or_refused_with_the_alternative() {
    let Some(compiler) = compiler() else { return };
    let refusal = |widths: &[usize], precision, options, capability: &str| {
        let network = Network::new(widths).unwrap();
        let architecture: flopgap_gpu::compile::Architecture = capability.parse().unwrap();
        let target = Target::nominal(architecture.capability);
        let error = compile_all(&compiler, &network, precision, options, target).unwrap_err();
        assert!(matches!(error, MlpError::Unsupported { .. }), "{error}");
        assert!(error.is_absence());
        error.to_string()
    };
    let of = Options::new;
    let wide = [8, 16_384, 8];
    for (implementation, precision, instead) in [
        (Implementation::Forloop, Precision::F32, "naive takes wider ones"),
        (Implementation::Coopvec, Precision::F16, "coopmat keeps them in shared memory"),
        (Implementation::Coopmat, Precision::F16, "naive takes wider ones"),
        (Implementation::Coopmat, Precision::F32, "do not fit the shared memory"),
    ] {
        let message = refusal(&wide, precision, of(implementation), "sm_90");
        assert!(message.contains(instead), "{message}");
        assert!(message.contains(implementation.name()) && message.contains("sm_90"), "{message}");
    }
    let message = refusal(&[16_384, 16_384, 8], Precision::F16, of(Implementation::Naive), "sm_90");
    assert!(message.contains("32776 numbers, and at most 32768 fit"), "{message}");
    let half = Options { accumulate: Accumulate::F16, ..of(Implementation::Coopmat) };
    let message = refusal(&[64, 64, 16], Precision::Bf16, half, "sm_90");
    assert!(message.contains("sums in 16 bits are there for fp16 alone"), "{message}");
    for implementation in [Implementation::Coopvec, Implementation::Coopmat] {
        let message = refusal(&[64, 64, 16], Precision::Bf16, of(implementation), "sm_75");
        assert!(message.contains("fp16 is there"), "{message}");
    }
}

#[test]
fn wrong_arrays_batches_and_tapes_are_refused_on_a_gpu() {
    let Some((context, _guard)) = gpu() else { return };
    let stream = context.stream().unwrap();
    let model = |network: Network, implementation| {
        Model::<f16>::new(&context, &network, Options::new(implementation)).unwrap()
    };
    let mut small = model(Size::Small.network(), Implementation::Forloop);
    let naive = model(Size::Small.network(), Implementation::Naive);
    let tanh = model(Size::Small.network().with_activation(Activation::Tanh), Implementation::Forloop);

    // Parameters.
    let mut values = Parameters::he(&Size::Small.network(), 1).values().to_vec();
    values[4096 + 7] = 1e5;
    let beyond = Parameters::from_values(&Size::Small.network(), values).unwrap();
    let message = small.upload(&stream, &beyond).unwrap_err().to_string();
    assert_eq!(message, "layer 0: bias 7 is inf");
    let other = Parameters::he(&Size::Medium.network(), 1);
    let message = small.upload(&stream, &other).unwrap_err().to_string();
    assert_eq!(message, "parameters: expected 5200 numbers, found 20640");
    small.upload(&stream, &Parameters::he(&Size::Small.network(), 1)).unwrap();

    // Arrays.
    let x = stream.zeros::<f16>(10 * 64).unwrap();
    let mut y = stream.zeros::<f16>(10 * 16).unwrap();
    let message = small.forward(&stream, &x.slice(..9 * 64), &mut y).unwrap_err().to_string();
    assert_eq!(message, "outputs: expected 144 numbers, found 160");
    let message = small.forward(&stream, &x.slice(..100), &mut y).unwrap_err().to_string();
    assert_eq!(message, "inputs: expected 64 numbers, found 100");
    let message = small.forward(&stream, &x.slice(4..4 + 9 * 64), &mut y.slice_mut(..9 * 16)).unwrap_err();
    assert_eq!(message.to_string(), "inputs: the view is not aligned to 16 bytes");

    // Tapes.
    let tape_of = |model: &Model<f16>, batch| model.tape(&stream, batch).unwrap();
    let mut few = tape_of(&small, 9);
    let message = small.forward_train(&stream, &x, &mut y, &mut few).unwrap_err().to_string();
    assert_eq!(message, "invalid batch of 10 samples; supported: 1 to 9");
    for mut other in [tape_of(&naive, 10), tape_of(&tanh, 10)] {
        let error = small.forward_train(&stream, &x, &mut y, &mut other).unwrap_err();
        assert!(matches!(error, MlpError::Tape { .. }), "{error}");
        let mut gradients = stream.zeros::<f32>(5_200).unwrap();
        let error = small.backward(&stream, &x, &y, &y, &mut other, None, &mut gradients).unwrap_err();
        assert!(error.to_string().contains("forloop 64-64-16 leaky_relu/leaky_relu"), "{error}");
    }
    for batch in [0, 1 << 31, usize::MAX] {
        let error = small.tape(&stream, batch).unwrap_err();
        assert!(matches!(error, MlpError::Batch { found, .. } if found == batch), "{error}");
    }
    // More than any GPU has.
    let error = small.tape(&stream, (1 << 31) - 1).map(|tape| tape.bytes()).unwrap_err();
    assert!(matches!(error, MlpError::Gpu(GpuError::OutOfMemory { .. })), "{error}");

    // And what is right still works.
    let mut tape = tape_of(&small, 10);
    small.forward_train(&stream, &x, &mut y, &mut tape).unwrap();
    stream.synchronize().unwrap();
}

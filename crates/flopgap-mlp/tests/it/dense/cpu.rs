//! On the CPU: outputs and gradients against the 64-bit reference.

use std::num::NonZero;

use flopgap_mlp::numerics::uniform;
use flopgap_mlp::reference::{self, Reference, Rounding, relative_error};
use flopgap_mlp::{Activation, Cpu, MlpError, Network, Parameters};

use super::{BATCHES, networks};

/// Outputs, gradients by the inputs, gradients by the parameters.
type Found = [Vec<f32>; 3];

fn numbers(network: &Network, batch: usize, seed: u64) -> (Vec<f32>, Vec<f32>) {
    let uniform = |first: u64, length: usize| -> Vec<f32> {
        (0..length as u64).map(|index| uniform(seed, first + index)).collect()
    };
    (uniform(1 << 40, batch * network.inputs()), uniform(1 << 41, batch * network.outputs()))
}

/// Everything that is written is poisoned before.
fn compute(cpu: &Cpu, x: &[f32], dy: &[f32]) -> Found {
    let batch = x.len() / cpu.network().inputs();
    let poison = |length: usize| vec![f32::NAN; length];
    let mut inference = poison(dy.len());
    cpu.forward(x, &mut inference).unwrap();
    let (mut y, mut dx) = (poison(dy.len()), poison(x.len()));
    let mut gradients = poison(cpu.network().parameters());
    let mut tape = cpu.tape(batch);
    // Twice: nothing of the first pass is left in the second.
    for _ in 0..2 {
        cpu.forward_train(x, &mut y, &mut tape).unwrap();
        cpu.backward(x, &y, dy, &tape, Some(&mut dx), &mut gradients).unwrap();
    }
    assert_eq!(bits(&inference), bits(&y), "with and without a tape");
    // Without the gradients by the inputs, and in one pass.
    let mut again = poison(cpu.network().parameters());
    cpu.backward(x, &y, dy, &tape, None, &mut again).unwrap();
    assert_eq!(bits(&again), bits(&gradients));
    let (mut again_dx, outputs) = (poison(x.len()), cpu.network().outputs());
    let loss = cpu.train(x, Some(&mut again_dx), &mut again, |samples, found, room| {
        let range = samples.start * outputs..samples.end * outputs;
        assert_eq!(bits(found), bits(&y[range.clone()]));
        room.copy_from_slice(&dy[range]);
        samples.len() as f64
    });
    assert_eq!(loss.unwrap().to_bits(), (batch as f64).to_bits());
    assert!(bits(&again) == bits(&gradients) && bits(&again_dx) == bits(&dx), "in one pass");
    [y, dx, gradients]
}

fn bits(numbers: &[f32]) -> Vec<u32> {
    numbers.iter().map(|number| number.to_bits()).collect()
}

fn check(what: &str, found: &Found, truth: &Reference) {
    let Reference { outputs, input_gradients, gradients, .. } = truth;
    let parts = [
        ("outputs", outputs, 1e-6),
        ("input gradients", input_gradients, 1e-5),
        ("gradients", gradients, 1e-5),
    ];
    for ((part, expected, allowed), found) in parts.into_iter().zip(found) {
        let error = relative_error(found, expected);
        assert!(error <= allowed, "{what}: {part}: relative error {error:.2e}");
    }
}

/// Half of the networks on three threads, the others on one.
#[test]
fn the_cpu_is_the_reference() {
    let mut networks = networks();
    for activation in Activation::ALL {
        let network = Network::new(&[16, 32, 24, 8]).unwrap();
        networks.push(network.with_activation(activation).with_output_activation(activation));
    }
    for widths in [&[1, 1][..], &[3, 7], &[100, 1], &[5, 9, 17, 33, 2], &[65, 10, 129]] {
        networks.push(Network::of_any_widths(widths).unwrap().with_activation(Activation::GeluTanh));
        networks.push(Network::of_any_widths(widths).unwrap().with_output_activation(Activation::Relu));
    }
    for (index, network) in networks.iter().enumerate() {
        // Large networks take the 64-bit reference long.
        let batches = if network.parameters() > 50_000 { &BATCHES[..3] } else { &BATCHES };
        for (seed, &batch) in (100..).zip(batches) {
            // The numbers that the GPU is checked with.
            let parameters = Parameters::he(network, seed);
            let (x, dy) = numbers(network, batch, seed);
            let truth = reference::run(&parameters, &x, &dy, Rounding::None).unwrap();
            let cpu = Cpu::with_threads(&parameters, NonZero::new(1 + 2 * (index % 2)).unwrap());
            check(&format!("{network} batch {batch}"), &compute(&cpu, &x, &dy), &truth);
        }
    }
}

#[test]
fn the_number_of_threads_changes_no_more_than_rounding() {
    let network = Network::new(&[64, 64, 16]).unwrap();
    let parameters = Parameters::he(&network, 1);
    let (x, dy) = numbers(&network, 3_001, 2);
    let truth = reference::run(&parameters, &x, &dy, Rounding::None).unwrap();
    for threads in [1, 2, 5, 64] {
        let cpu = Cpu::with_threads(&parameters, NonZero::new(threads).unwrap());
        assert_eq!(cpu.threads(), threads);
        let found = compute(&cpu, &x, &dy);
        check(&format!("{threads} threads"), &found, &truth);
        let same = compute(&Cpu::with_threads(&parameters, NonZero::new(threads).unwrap()), &x, &dy);
        assert!(found.iter().zip(&same).all(|(a, b)| bits(a) == bits(b)), "{threads} threads: the same bits");
    }
}

#[test]
fn other_parameters_can_be_set() {
    let network = Network::new(&[8, 16, 8]).unwrap();
    let mut cpu = Cpu::new(&Parameters::he(&network, 1));
    let (x, _) = numbers(&network, 5, 3);
    let mut found = [vec![0.0; 40], vec![0.0; 40]];
    cpu.set_parameters(&Parameters::he(&network, 2)).unwrap();
    assert_eq!(cpu.parameters(), &Parameters::he(&network, 2));
    cpu.forward(&x, &mut found[0]).unwrap();
    Cpu::new(&Parameters::he(&network, 2)).forward(&x, &mut found[1]).unwrap();
    assert_eq!(bits(&found[0]), bits(&found[1]));
    let other = Network::new(&[8, 24, 8]).unwrap();
    assert!(matches!(cpu.set_parameters(&Parameters::he(&other, 2)), Err(MlpError::Length { .. })));
    // Other widths with as many parameters.
    let mut cpu = Cpu::new(&Parameters::he(&other, 1));
    let as_many = Parameters::he(&Network::new(&[8, 16, 16]).unwrap(), 2);
    assert!(matches!(cpu.set_parameters(&as_many), Err(MlpError::OtherNetwork { .. })));
    // Activations are not among the parameters.
    cpu.set_parameters(&Parameters::he(&other.clone().with_activation(Activation::Tanh), 2)).unwrap();
    assert_eq!(cpu.parameters(), &Parameters::he(&other, 2));
}

#[test]
fn lengths_are_checked() {
    let network = Network::new(&[8, 16, 24]).unwrap();
    let cpu = Cpu::new(&Parameters::he(&network, 1));
    let (mut y, mut gradients) = (vec![0.0; 48], vec![0.0; network.parameters()]);
    let message = |result: Result<(), MlpError>| result.unwrap_err().to_string();
    assert_eq!(message(cpu.forward(&[0.0; 15], &mut y)), "inputs: expected 8 numbers, found 15");
    assert_eq!(message(cpu.forward(&[0.0; 24], &mut y)), "outputs: expected 72 numbers, found 48");
    assert!(message(cpu.forward(&[], &mut [])).starts_with("invalid batch of 0 samples"));
    let mut tape = cpu.tape(2);
    assert_eq!(tape.bytes(), 2 * 16 * 4);
    let dy = vec![0.0; 48];
    let before = cpu.backward(&[0.0; 16], &y, &dy, &tape, None, &mut gradients);
    assert!(matches!(before, Err(MlpError::Order { .. })), "{before:?}");
    let larger = cpu.forward_train(&[0.0; 24], &mut [0.0; 72], &mut tape);
    assert_eq!(larger.unwrap_err(), MlpError::Batch { found: 3, most: 2 });
    cpu.forward_train(&[0.0; 16], &mut y, &mut tape).unwrap();
    let short = cpu.backward(&[0.0; 16], &y, &dy[..24], &tape, None, &mut gradients);
    assert_eq!(message(short), "gradients by the outputs: expected 48 numbers, found 24");
    let short = cpu.backward(&[0.0; 16], &y, &dy, &tape, Some(&mut [0.0; 8]), &mut gradients);
    assert_eq!(message(short), "gradients by the inputs: expected 16 numbers, found 8");
    let short = cpu.backward(&[0.0; 16], &y, &dy, &tape, None, &mut gradients[..5]);
    assert!(message(short).starts_with("gradients by the parameters: expected 552"));
}

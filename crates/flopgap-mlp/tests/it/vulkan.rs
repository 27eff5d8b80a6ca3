//! On a Vulkan device: outputs and gradients against the 64-bit reference. Mesa's lavapipe is one.

use std::sync::MutexGuard;

use flopgap_gpu::timing::Repetitions;
use flopgap_mlp::cuda::Implementation;
use flopgap_mlp::vulkan::{Device, Model, Pass};
use flopgap_mlp::{Element, MlpError, Network, Parameters, Size};
use half::{bf16, f16};

use crate::case::{Case, Found, check};
use crate::dense::networks;

/// The first device, for one test at a time.
fn device() -> Option<(Device, MutexGuard<'static, ()>)> {
    flopgap_testing::turn("vulkan", || Device::new(0))
}

/// Narrow ones, which a processor compiles in seconds: one and several hidden layers, padded,
/// without biases, with each way of keeping what a slope needs.
const FEW: [&[usize]; 3] = [&[16, 60, 33, 24], &[5, 20, 1], &[3, 64, 64, 3]];
/// Around the edges of workgroups.
const BATCHES: [usize; 4] = [1, 31, 129, 1000];

/// Every array that a pass writes is filled with NaN before it.
fn compute<T: Element>(model: &Model<T>, case: &Case<T>) -> Found<T> {
    const POISON: u8 = 0xff;
    let samples = case.x.len() / case.network.inputs();
    let mut inference = model.batch(samples, false).unwrap();
    inference.write_inputs(&case.x).unwrap();
    inference.fill_results(Pass::Forward, POISON).unwrap();
    model.forward(&mut inference).unwrap();
    let mut batch = model.batch(samples, true).unwrap();
    batch.write_inputs(&case.x).unwrap();
    batch.write_output_gradients(&case.dy).unwrap();
    let mut gradients = Vec::new();
    for _ in 0..2 {
        batch.fill_results(Pass::Train, POISON).unwrap();
        model.run(&mut batch, Pass::Train).unwrap();
        gradients.push(batch.gradients().unwrap());
    }
    let found = Found {
        y: batch.outputs().unwrap(),
        dx: batch.input_gradients().unwrap(),
        gradients: gradients.pop().unwrap(),
    };
    let bits = |numbers: &[f32]| -> Vec<u32> { numbers.iter().map(|number| number.to_bits()).collect() };
    assert_eq!(bits(&found.gradients), bits(&gradients[0]), "twice the same");
    let bits = |numbers: &[T]| -> Vec<u32> { numbers.iter().map(|n| n.widen().to_bits()).collect() };
    assert_eq!(bits(&inference.outputs().unwrap()), bits(&found.y), "with and without what is kept");
    found
}

/// Every network and batch by an implementation; on a processor, which compiles a shader for each
/// network and is slow, a few. What the device does not have is said.
fn every_network<T: Element>(device: &Device, implementation: Implementation) {
    let (few, batches) =
        (device.is_processor(), if device.is_processor() { &BATCHES[2..3] } else { &BATCHES });
    let mut computed = 0;
    // What a device does not have at all is skipped once.
    let small = Size::Small.network();
    if let Err(error @ MlpError::Unsupported { .. }) = Model::<T>::new(device, &small, implementation) {
        return flopgap_testing::skip("such Vulkan device", error);
    }
    for network in networks().into_iter().filter(|network| !few || FEW.contains(&network.widths())) {
        let mut model = match Model::<T>::new(device, &network, implementation) {
            Ok(model) => model,
            Err(error @ MlpError::Unsupported { .. }) => {
                flopgap_testing::skip("such network on Vulkan", format!("{network}: {error}"));
                continue;
            }
            Err(error) => panic!("{network}: {error}"),
        };
        for &batch in batches {
            let mut case = Case::<T>::new(&network, batch, 7);
            if implementation == Implementation::Coopvec {
                // The driver sums as it likes, in 16 bits, too.
                case.allowed = case.allowed.of_16_bit_sums();
            }
            model.upload(&case.parameters).unwrap();
            let what = format!("{implementation} {} {network}, batch {batch}", T::PRECISION);
            check(&what, &case, &compute(&model, &case));
            computed += 1;
        }
    }
    eprintln!("{implementation} {}: {computed} batches", T::PRECISION);
}

#[test]
fn forloop_is_the_reference_within_its_precision() {
    let Some((device, _turn)) = device() else { return };
    every_network::<f32>(&device, Implementation::Forloop);
    every_network::<f16>(&device, Implementation::Forloop);
}

#[test]
fn coopvec_is_the_reference_within_its_precision() {
    let Some((device, _turn)) = device() else { return };
    every_network::<f16>(&device, Implementation::Coopvec);
}

#[test]
fn coopmat_is_the_reference_within_its_precision() {
    let Some((device, _turn)) = device() else { return };
    every_network::<f16>(&device, Implementation::Coopmat);
}

#[test]
fn what_a_device_does_not_have_names_what_it_has() {
    let Some((device, _turn)) = device() else { return };
    let network = Size::Small.network();
    let error = Model::<bf16>::new(&device, &network, Implementation::Forloop).err().unwrap().to_string();
    assert!(error.ends_with("(Vulkan): there are shaders for fp32 and fp16"), "{error}");
    let error = Model::<f32>::new(&device, &network, Implementation::Coopmat).err().unwrap().to_string();
    assert!(error.ends_with("use fp16 or forloop"), "{error}");
    let wide = Network::new(&[16, 4096, 16]).unwrap();
    let error = Model::<f32>::new(&device, &wide, Implementation::Auto).err().unwrap().to_string();
    assert!(error.contains("wider than 2048"), "{error}");
    assert!(matches!(
        Device::new(1000).err(),
        Some(flopgap_mlp::vulkan::VulkanError::NoSuchDevice { asked: 1000, .. })
    ));
}

#[test]
fn passes_and_arrays_in_the_wrong_order_are_refused() {
    let Some((device, _turn)) = device() else { return };
    let network = Size::Small.network();
    let model = Model::<f32>::new(&device, &network, Implementation::Forloop).unwrap();
    let mut batch = model.batch(5, true).unwrap();
    let order = |error: MlpError| assert!(matches!(error, MlpError::Order { .. }), "{error}");
    order(model.backward(&mut batch).unwrap_err());
    batch.write_inputs(&[0.5; 5 * 64]).unwrap();
    model.forward(&mut batch).unwrap();
    order(model.backward(&mut batch).unwrap_err());
    model.forward_train(&mut batch).unwrap();
    model.backward(&mut batch).unwrap();
    // Other inputs: what was kept is not theirs.
    batch.write_inputs(&[0.25; 5 * 64]).unwrap();
    order(model.backward(&mut batch).unwrap_err());
    assert!(matches!(batch.write_inputs(&[0.5; 7]), Err(MlpError::Length { expected: 320, found: 7, .. })));
    let mut inference = model.batch(5, false).unwrap();
    order(model.forward_train(&mut inference).unwrap_err());
    order(inference.gradients().unwrap_err());
    assert!(matches!(model.batch(0, false).err(), Some(MlpError::Batch { found: 0, .. })));
    let other = Model::<f32>::new(&device, &network, Implementation::Forloop).unwrap();
    assert!(matches!(other.forward(&mut batch), Err(MlpError::Tape { .. })));
}

#[test]
fn times_are_those_of_the_passes() {
    let Some((device, _turn)) = device() else { return };
    let network = Network::new(&[32, 64, 64, 16]).unwrap();
    let mut model = Model::<f32>::new(&device, &network, Implementation::Forloop).unwrap();
    let case = Case::<f32>::new(&network, 1000, 3);
    model.upload(&case.parameters).unwrap();
    let mut batch = model.batch(1000, true).unwrap();
    batch.write_inputs(&case.x).unwrap();
    batch.write_output_gradients(&case.dy).unwrap();
    let repetitions = Repetitions { warmup: 1, measured: 5 };
    let by_device = model.time(&mut batch, Pass::Train, repetitions, 3).unwrap();
    let by_host = model.time_calls(&mut batch, Pass::Train, repetitions).unwrap();
    assert_eq!((by_device.len(), by_host.len()), (5, 5));
    assert!(by_device.sorted()[0] > 0.0 && by_host.sorted()[0] > 0.0);
    let found = Found {
        y: batch.outputs().unwrap(),
        dx: batch.input_gradients().unwrap(),
        gradients: batch.gradients().unwrap(),
    };
    check("timed", &case, &found);
    // Parameters that half precision does not have.
    let mut half = Model::<f16>::new(&device, &network, Implementation::Forloop).unwrap();
    let large = Parameters::from_values(&network, vec![1e6; network.parameters()]).unwrap();
    assert!(matches!(half.upload(&large), Err(MlpError::NotFinite { .. })));
}

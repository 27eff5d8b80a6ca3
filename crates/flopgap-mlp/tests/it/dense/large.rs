//! On a GPU: batches whose arrays have more elements than 32 bits count. `FLOPGAP_LARGE=1` asks for
//! it: it takes 40 GiB of its memory.

use flopgap_gpu::Context;
use flopgap_mlp::cuda::{Implementation, Model, Options};
use flopgap_mlp::numerics::uniform;
use flopgap_mlp::reference::{self, Errors, Rounding, relative_error};
use flopgap_mlp::{Element, MlpError, Network, Parameters};
use half::f16;

use crate::gpu;

const WIDE: usize = 512;
/// The last rows of the wide array begin beyond the 2^32nd element.
const BATCH: usize = (1 << 32) / WIDE + 37;
const NEEDED: u64 = 40 << 30;

/// Some samples, where counting with a sign and without one ends; all others are zero, and have no
/// gradients by their outputs.
const ROWS: [usize; 8] = [
    0,
    1,
    (1 << 31) / WIDE - 1,
    (1 << 31) / WIDE,
    (1 << 32) / WIDE - 1,
    (1 << 32) / WIDE,
    BATCH - 2,
    BATCH - 1,
];

fn check(context: &Context, network: &Network, implementation: Implementation) {
    let (inputs, outputs) = (network.inputs(), network.outputs());
    let parameters = Parameters::he(network, 5).rounded::<f16>();
    let numbers = |first: u64, length: usize| -> Vec<f16> {
        (0..length as u64).map(|index| f16::narrow(uniform(5, first + index))).collect()
    };
    let (x, dy) = (numbers(1 << 40, ROWS.len() * inputs), numbers(1 << 41, ROWS.len() * outputs));
    let wide = |numbers: &[f16]| -> Vec<f32> { numbers.iter().map(|&number| number.widen()).collect() };
    let truth = reference::run(&parameters, &wide(&x), &wide(&dy), Rounding::None).unwrap();
    let allowed = Errors::allowed(f16::PRECISION, &parameters, &wide(&x), &wide(&dy), &truth).unwrap();
    let of_zero = vec![0.0; inputs];
    let of_zero = reference::run(&parameters, &of_zero, &vec![0.0; outputs], Rounding::None).unwrap();

    let stream = context.stream().unwrap();
    let mut model = match Model::<f16>::new(context, network, Options::new(implementation)) {
        Ok(model) => model,
        Err(error @ MlpError::Unsupported { .. }) => return eprintln!("{network}: {error}"),
        Err(error) => panic!("{network}: {error}"),
    };
    model.upload(&stream, &parameters).unwrap();
    let mut all_x = stream.zeros::<f16>(BATCH * inputs).unwrap();
    let mut all_dy = stream.zeros::<f16>(BATCH * outputs).unwrap();
    for (index, row) in ROWS.into_iter().enumerate() {
        let place = &mut all_x.slice_mut(row * inputs..(row + 1) * inputs);
        stream.write(&x[index * inputs..(index + 1) * inputs], place).unwrap();
        let place = &mut all_dy.slice_mut(row * outputs..(row + 1) * outputs);
        stream.write(&dy[index * outputs..(index + 1) * outputs], place).unwrap();
    }
    let mut y = stream.zeros::<f16>(BATCH * outputs).unwrap();
    let mut dx = stream.zeros::<f16>(BATCH * inputs).unwrap();
    let mut gradients = stream.zeros::<f32>(network.parameters()).unwrap();
    let mut tape = model.tape(&stream, BATCH).unwrap();
    stream.fill(&mut y, 0xff).unwrap();
    stream.fill(&mut dx, 0xff).unwrap();
    stream.fill(&mut gradients, 0xff).unwrap();
    model.forward_train(&stream, &all_x, &mut y, &mut tape).unwrap();
    model.backward(&stream, &all_x, &y, &all_dy, &mut tape, Some(dx.as_view_mut()), &mut gradients).unwrap();

    let what = format!("{implementation} {network}");
    let rows = |buffer: &flopgap_gpu::Buffer<f16>, rows: &[usize], width: usize| -> Vec<f32> {
        let row = |&row: &usize| stream.download(&buffer.slice(row * width..(row + 1) * width)).unwrap();
        rows.iter().flat_map(row).map(f16::widen).collect()
    };
    // Few numbers: more or less by chance.
    let error = relative_error(&rows(&y, &ROWS, outputs), &truth.outputs);
    assert!(error <= 2.0 * allowed.outputs, "{what}: outputs: {error:.2e}");
    let error = relative_error(&rows(&dx, &ROWS, inputs), &truth.input_gradients);
    assert!(error <= 2.0 * allowed.input_gradients, "{what}: gradients by the inputs: {error:.2e}");
    let error = relative_error(&stream.download(&gradients).unwrap(), &truth.gradients);
    assert!(error <= 2.0 * allowed.gradients, "{what}: gradients by the parameters: {error:.2e}");
    for row in ROWS.map(|row| (row + 2) % BATCH).into_iter().filter(|row| !ROWS.contains(row)) {
        let error = relative_error(&rows(&y, &[row], outputs), &of_zero.outputs);
        assert!(error < 0.01, "{what}: outputs of row {row}: {error:.2e}");
        assert!(rows(&dx, &[row], inputs).iter().all(|&dx| dx == 0.0), "{what}: row {row}");
    }
    eprintln!("{what}: as the reference");
}

#[test]
fn arrays_of_more_than_four_billion_elements_are_computed() {
    if std::env::var_os("FLOPGAP_LARGE").is_none() {
        return flopgap_testing::skip("FLOPGAP_LARGE=1", "it takes most of a GPU's memory");
    }
    let Some((context, _guard)) = gpu() else { return };
    let free = context.memory().unwrap().free;
    if free < NEEDED {
        let reason = format!("{} GiB of the GPU's memory are free, {} are needed", free >> 30, NEEDED >> 30);
        return flopgap_testing::skip("memory", reason);
    }
    for widths in [[WIDE, 16, 8], [8, WIDE, 8], [8, 16, WIDE]] {
        let network = Network::new(&widths).unwrap();
        for implementation in
            [Implementation::Forloop, Implementation::Coopvec, Implementation::Coopmat, Implementation::Naive]
        {
            check(&context, &network, implementation);
        }
    }
}

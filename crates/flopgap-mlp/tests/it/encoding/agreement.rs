//! On a GPU: inputs of a network and gradients against the 64-bit reference.

use flopgap_gpu::{Context, Stream};
use flopgap_mlp::cuda::encoding::Encoder;
use flopgap_mlp::encoding::{Encoding, EncodingGradients};
use flopgap_mlp::numerics::{relative_error, uniform};
use flopgap_mlp::{Element, MlpError, Precision};
use half::{bf16, f16};

use super::encodings;
use crate::gpu;

/// Every byte of an array before a pass writes it: not a number in all three types.
const POISON: u8 = 0xff;

/// Batches around the edges of warps and blocks.
const BATCHES: [usize; 5] = [1, 31, 33, 256, 4_097];

struct Case<T> {
    table: Vec<f32>,
    positions: Vec<f32>,
    dx: Vec<T>,
    x: Vec<f64>,
    gradients: EncodingGradients,
}

impl<T: Element> Case<T> {
    fn new(encoding: &Encoding, batch: usize, seed: u64) -> Self {
        let round = |value: f32| T::narrow(value).widen();
        let numbers = |first: u64, length: usize| (first..first + length as u64).map(|i| uniform(seed, i));
        let table: Vec<f32> = numbers(0, encoding.parameters()).map(round).collect();
        let mut positions: Vec<f32> =
            numbers(1 << 40, batch * encoding.dimensions()).map(|x| 0.5 + 0.5 * x).collect();
        // The corners of the cube, vertices, both sides of a border, and outside.
        let edges = [0.0, 1.0, 0.5, 0.5_f32.next_down(), 1.0_f32.next_down(), 0.25, -0.25, 1.5];
        for (index, position) in positions.iter_mut().enumerate().filter(|(index, _)| index % 3 == 0) {
            *position = *edges.get(index / 3 % 24).unwrap_or(position);
        }
        let dx: Vec<T> = numbers(1 << 41, batch * encoding.width()).map(T::narrow).collect();
        let wide: Vec<f32> = dx.iter().map(|dx| dx.widen()).collect();
        let x = encoding.encode(&table, &positions).unwrap();
        let gradients = encoding.gradients(&table, &positions, &wide).unwrap();
        Case { table, positions, dx, x, gradients }
    }
}

fn agree<T: Element>(stream: &Stream, encoding: &Encoding) {
    let mut encoder = Encoder::<T>::new(stream.context(), encoding).unwrap();
    for (seed, batch) in (1..).zip(BATCHES) {
        let case = Case::<T>::new(encoding, batch, seed);
        let what = format!("{} {encoding}, batch {batch}", T::PRECISION);
        encoder.upload(stream, &case.table).unwrap();
        assert_eq!(encoder.download(stream).unwrap(), case.table, "{what}");
        let positions = stream.upload(&case.positions).unwrap();
        let dx = stream.upload(&case.dx).unwrap();
        let mut x = stream.zeros::<T>(case.dx.len()).unwrap();
        let mut of_table = stream.zeros::<f32>(encoding.parameters().max(1)).unwrap();
        let mut of_positions = stream.zeros::<f32>(case.positions.len()).unwrap();

        stream.fill(&mut x, POISON).unwrap();
        encoder.forward(stream, &positions, &mut x).unwrap();
        let found: Vec<f32> = stream.download(&x).unwrap().into_iter().map(T::widen).collect();
        // A sum of eight products of four factors, then rounded once.
        let rounding = 8.0 * Precision::F32.unit_roundoff() + T::PRECISION.unit_roundoff();
        let error = relative_error(&found, &case.x);
        assert!(error < rounding, "{what}: inputs: {error:.2e}");

        // Both gradients together, and each alone.
        for (wants_table, wants_positions) in [(true, true), (true, false), (false, true), (false, false)] {
            stream.fill(&mut of_table, POISON).unwrap();
            stream.fill(&mut of_positions, POISON).unwrap();
            let table = wants_table.then(|| of_table.slice_mut(..encoding.parameters()));
            let place = wants_positions.then(|| of_positions.as_view_mut());
            encoder.backward(stream, &positions, &dx, table, place).unwrap();
            let table = stream.download(&of_table.slice(..encoding.parameters())).unwrap();
            let place = stream.download(&of_positions).unwrap();
            for (part, is_wanted, found, expected) in [
                ("table", wants_table, table, &case.gradients.table),
                ("positions", wants_positions, place, &case.gradients.positions),
            ] {
                if is_wanted {
                    let error = relative_error(&found, expected);
                    assert!(error < 1e-5, "{what}: gradients by the {part}: {error:.2e}");
                } else {
                    assert!(found.iter().all(|value| value.is_nan()), "{what}: {part} was written");
                }
            }
        }
        // A part of the batch, through views: the same bits.
        if batch > 32 {
            let (dimensions, width) = (encoding.dimensions(), encoding.width());
            let part = &mut x.slice_mut(..16 * width);
            stream.fill(part, POISON).unwrap();
            encoder.forward(stream, &positions.slice(16 * dimensions..32 * dimensions), part).unwrap();
            let bits = |numbers: &[f32]| -> Vec<u32> { numbers.iter().map(|n| n.to_bits()).collect() };
            let part: Vec<f32> = stream.download(part).unwrap().into_iter().map(T::widen).collect();
            assert_eq!(bits(&part), bits(&found[16 * width..32 * width]), "{what}: a view");
        }
    }
}

#[test]
fn encodings_are_the_reference_within_their_precision() {
    let Some((context, _guard)) = gpu() else { return };
    let stream = context.stream().unwrap();
    for encoding in encodings() {
        agree::<f32>(&stream, &encoding);
        agree::<f16>(&stream, &encoding);
        agree::<bf16>(&stream, &encoding);
    }
}

#[test]
fn wrong_arrays_are_refused() {
    let Some((context, _guard)) = gpu() else { return };
    refusals(&context);
}

fn refusals(context: &Context) {
    let stream = context.stream().unwrap();
    let encoding = &encodings()[4];
    let mut encoder = Encoder::<f16>::new(context, encoding).unwrap();
    let message = encoder.upload(&stream, &[0.0; 5]).unwrap_err().to_string();
    assert!(message.starts_with("the table of an encoding: expected"), "{message}");
    let (positions, mut x) = (stream.zeros::<f32>(20).unwrap(), stream.zeros::<f16>(160).unwrap());
    let message = encoder.forward(&stream, &positions.slice(..19), &mut x).unwrap_err().to_string();
    assert_eq!(message, "positions: expected 18 numbers, found 19");
    let message = encoder.forward(&stream, &positions.slice(..18), &mut x).unwrap_err().to_string();
    assert_eq!(message, "inputs: expected 144 numbers, found 160");
    let view = &mut x.slice_mut(4..148);
    let message = encoder.forward(&stream, &positions.slice(..18), view).unwrap_err().to_string();
    assert_eq!(message, "inputs: the view is not aligned to 16 bytes");
    let mut gradients = stream.zeros::<f32>(21).unwrap();
    let wrong = Some(gradients.as_view_mut());
    let error = encoder.backward(&stream, &positions, &x, None, wrong).unwrap_err();
    assert_eq!(error.to_string(), "gradients by the positions: expected 20 numbers, found 21");
    let error = encoder.backward(&stream, &positions, &x, Some(gradients.as_view_mut()), None).unwrap_err();
    assert!(matches!(error, MlpError::Length { what: "gradients by the table of an encoding", .. }));
    encoder.forward(&stream, &positions, &mut x).unwrap();
    stream.synchronize().unwrap();
}

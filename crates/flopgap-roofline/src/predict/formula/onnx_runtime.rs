//! The memory that a library holds on a CPU, by the rules of ONNX Runtime 1.30.
//!
//! Fitted factors correct them: other libraries keep parameters twice, or work in panels.

use flopgap_flops::{Activation, Precision};
use flopgap_graph::Op;
use flopgap_graph::op::{Conv, PoolFunction};

use crate::predict::inputs::point::Point;
use crate::predict::inputs::shape::{Family, Shape};

/// Channels, and columns of packed weights, go by so many.
const BLOCK: u64 = 16;
/// Channels of an input that is read by blocks are a multiple of this.
const BY: u64 = 4;
/// Bytes of what is computed in: 32 bits, whatever a file stores it in.
const WIDE: f64 = 4.0;
/// Terms of a run.
pub(crate) const TERMS: usize = 6;

/// Terms, in bytes: what the rules say; the vectors of all columns; 8-bit inputs, results and sums
/// in 32 bits, which are converted and added up in addition to the rest; what is unrolled of one
/// image.
pub(crate) fn terms(points: &[Point<'_>]) -> [f64; TERMS] {
    let kept: Vec<&Point<'_>> = points.iter().filter(|point| !Shape::vanishes(point.step)).collect();
    let (Some(first), Some(last)) = (kept.first(), kept.last()) else { return [0.0; TERMS] };
    let vectors = kept.iter().map(|point| columns(point)).sum::<f64>() * WIDE;
    if first.precision != Precision::Int8 {
        return [wide(&kept), vectors, 0.0, 0.0, 0.0, 0.0];
    }
    let widest = kept.iter().map(|point| point.shape.outputs).fold(0.0, f64::max);
    let image = kept.iter().map(|point| unrolled(&point.shape)).fold(0.0, f64::max);
    let converted = last.shape.outputs * WIDE;
    [narrow(&kept), vectors, read(first), converted, widest * WIDE, image]
}

/// In 32 bits: weights are packed by columns, convolutions read and write blocks of channels.
fn wide(points: &[&Point<'_>]) -> f64 {
    let stored: f64 = points.iter().map(|point| packed(point)).sum();
    if let [point] = points {
        return WIDE * (stored + alone(point));
    }
    let mut between: Vec<f64> = Vec::new();
    for (place, point) in points.iter().enumerate() {
        let is_last = place + 1 == points.len();
        let copies = usize::from(is_separate(point)) + usize::from(!is_last);
        between.extend(std::iter::repeat_n(written(point), copies));
    }
    let out = points.last().map_or(0.0, |point| point.shape.outputs);
    // What is added lies where the sum is written.
    WIDE * (stored + pair(&between).max(2.0 * widest_sum(points)) + out)
}

/// Elements that a step by itself holds apart from its parameters.
fn alone(point: &Point<'_>) -> f64 {
    let shape = &point.shape;
    let out = shape.outputs;
    match (&point.step.op, shape.family) {
        (Op::Conv(conv), _) if is_by_blocks(conv) => {
            // Few channels are read as they are.
            let read = if conv.inputs >= BLOCK { read(point) * filled(conv.inputs) } else { 0.0 };
            // What is added lies where the input was, if it fits there.
            let residual = if point.step.epilogue.residual && read < out { out } else { 0.0 };
            read + written(point) + out + residual
        }
        // Planes are the channels of all samples.
        (Op::Pool(pool), _) if pool.planes.is_multiple_of(BLOCK) => read(point) + 2.0 * out,
        (Op::Gather { .. }, _) => 2.0 * out,
        (Op::Norm(norm), _) => out + norm.parameters as f64,
        _ if is_separate(point) => 2.0 * out,
        _ => out,
    }
}

/// In 8 bits: parameters are there twice while they are packed, and results are converted at the
/// end.
fn narrow(points: &[&Point<'_>]) -> f64 {
    let mut stored = 0.0;
    let mut loading: f64 = 0.0;
    for point in points {
        let weights = point.shape.weights;
        stored += weights;
        loading = loading.max(stored + weights);
    }
    let (Some(first), Some(last)) = (points.first(), points.last()) else { return 0.0 };
    let (input, out) = (read(first), last.shape.outputs);
    if let [point] = points {
        match &point.step.op {
            // Channels last, there and back.
            Op::Conv(_) => return stored + (8.0 * out).max(2.0 * input + WIDE * out),
            Op::Pool(pool) if pool.function == PoolFunction::Average => return (1.0 + WIDE) * input + out,
            Op::Pool(_) => return input + (1.0 + WIDE) * out,
            _ => {}
        }
    }
    let mut lives = vec![input];
    lives.extend(points.iter().map(|point| point.shape.outputs));
    let image = points.iter().map(|point| unrolled(&point.shape)).fold(0.0, f64::max);
    // Sums of products are in 32 bits, and activations with their inputs and results.
    let sums = points.iter().map(|point| {
        let times = if is_separate(point) { 3.0 } else { 1.0 };
        if point.shape.family == Family::Conv { 0.0 } else { times * WIDE * point.shape.outputs }
    });
    let sums = sums.fold(WIDE * out, f64::max);
    loading.max(stored + pair(&lives).max(3.0 * widest_sum(points)) + sums + image)
}

/// Elements that a step reads of the activation before it.
fn read(point: &Point<'_>) -> f64 {
    let added = if point.step.epilogue.residual { point.shape.outputs } else { 0.0 };
    point.shape.inputs - added
}

/// Elements of the largest result that another is added to.
fn widest_sum(points: &[&Point<'_>]) -> f64 {
    let added = points.iter().filter(|point| point.step.epilogue.residual);
    added.map(|point| written(point)).fold(0.0, f64::max)
}

/// Most of what two neighbors take together.
fn pair(elements: &[f64]) -> f64 {
    let pairs = elements.windows(2).map(|pair| pair[0] + pair[1]).fold(0.0, f64::max);
    pairs.max(elements.first().copied().unwrap_or(0.0))
}

/// Whether an activation is a step of its own, and not a part of the product.
fn is_separate(point: &Point<'_>) -> bool {
    !matches!(point.step.epilogue.activation, Activation::Identity | Activation::Relu)
}

/// Elements of parameters as they are kept.
fn packed(point: &Point<'_>) -> f64 {
    let weights = point.shape.weights;
    match &point.step.op {
        Op::Gemm(gemm) if gemm.batch == 1 => weights * filled(gemm.n),
        Op::Conv(conv) if is_by_blocks(conv) => {
            let read = if conv.inputs >= BLOCK { filled(conv.inputs) } else { 1.0 };
            weights * read * filled(conv.outputs)
        }
        _ => weights,
    }
}

/// Elements that a step writes: a convolution whole blocks of channels.
fn written(point: &Point<'_>) -> f64 {
    match &point.step.op {
        Op::Conv(conv) if is_by_blocks(conv) => point.shape.outputs * filled(conv.outputs),
        _ => point.shape.outputs,
    }
}

/// How many times larger whole blocks are than so many columns or channels.
fn filled(size: u64) -> f64 {
    let size = size.max(1);
    (size.div_ceil(BLOCK).saturating_mul(BLOCK)) as f64 / size as f64
}

/// Whether ONNX Runtime computes a convolution by blocks of channels: each group has whole ones, or
/// one channel.
fn is_by_blocks(conv: &Conv) -> bool {
    let groups = conv.groups.max(1);
    let (inputs, outputs) = (conv.inputs / groups, conv.outputs / groups);
    let whole = |channels: u64| channels > 0 && channels.is_multiple_of(BLOCK);
    if conv.transposed || conv.image.len() != 2 {
        return false;
    }
    if groups > 1 {
        return (inputs == 1 && outputs == 1) || (whole(inputs) && whole(outputs));
    }
    inputs < BLOCK || inputs.is_multiple_of(BY)
}

/// Bytes for one image of a convolution: its windows unrolled, and its sums in 32 bits.
fn unrolled(shape: &Shape) -> f64 {
    if shape.family != Family::Conv {
        return 0.0;
    }
    let pixels = shape.m / shape.images.max(1.0);
    let windows = if shape.window > 1.0 { pixels * shape.k * shape.batch } else { 0.0 };
    windows + WIDE * pixels * shape.n * shape.batch
}

/// Columns of a step's weights: biases, scales, sums.
fn columns(point: &Point<'_>) -> f64 {
    if point.shape.weights > 0.0 { point.shape.n * point.shape.batch } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use flopgap_graph::op::Gemm;
    use flopgap_graph::{Epilogue, MlpSpec, Mode, ResnetSpec, Step, Workload};

    use super::*;
    use crate::predict::formula::baseline::Fitted;
    use crate::predict::inputs::machine::Machine;

    /// How far the rules are from what ONNX Runtime 1.30 held.
    fn error(workload: &Workload, precision: Precision, measured: f64) -> f64 {
        let machine = Machine::new(None, None, &[]);
        let constants = Fitted::new(&machine, &[]);
        let steps = workload.steps().unwrap();
        let points: Vec<Point<'_>> = steps
            .iter()
            .map(|step| Point::new((&machine, &constants), step, (precision, Mode::Call), None))
            .collect();
        terms(&points)[0] / measured - 1.0
    }

    fn mlp(input: u64, hidden: &[u64], output: u64, batch: u64, activation: Activation) -> Workload {
        Workload::Mlp(MlpSpec { input, hidden: hidden.to_vec(), output, batch, activation })
    }

    fn conv([batch, inputs, outputs, groups]: [u64; 4], side: u64, kernel: u64, residual: bool) -> Workload {
        let op = Op::Conv(Conv { groups, ..Conv::new(batch, [inputs, outputs], &[side; 2], kernel, 1) });
        Workload::Step(Step { op, epilogue: Epilogue { bias: true, residual, activation: Activation::Relu } })
    }

    #[test]
    fn layers_hold_packed_weights_and_two_results() {
        for (workload, measured) in [
            (mlp(512, &[128], 64, 16, Activation::Relu), 307_968.0),
            (mlp(1024, &[1024; 3], 10, 128, Activation::Relu), 13_714_512.0),
            (mlp(2800, &[248], 280, 76, Activation::GeluTanh), 3_391_296.0),
        ] {
            let error = error(&workload, Precision::Fp32, measured);
            assert!(error.abs() < 1e-3, "{error}: {}", workload.label());
        }
        // Both operands of a batched product are the caller's.
        let op = Op::Gemm(Gemm { batch: 295, m: 128, n: 128, k: 64 });
        let batched = Workload::Step(Step { op, epilogue: Epilogue::default() });
        assert!(error(&batched, Precision::Fp32, 19_333_120.0).abs() < 1e-6);
        // In 8 bits: as large as while the widest layer is packed, or when its sums are there.
        let wide = mlp(2048, &[2048; 4], 64, 4, Activation::Relu);
        assert!(error(&wide, Precision::Int8, 21_037_444.0).abs() < 0.01);
        let long = mlp(128, &[1952], 144, 512, Activation::Relu);
        assert!(error(&long, Precision::Int8, 5_684_161.0).abs() < 0.05);
    }

    #[test]
    fn convolutions_go_by_blocks_of_channels() {
        for (sizes, side, kernel, residual, measured) in [
            ([7, 64, 64, 1], 56, 3, false, 17_006_848.0),
            ([64, 64, 256, 1], 56, 1, true, 668_009_472.0),
            // Three channels are read as they are; 1,656 are 104 blocks.
            ([1, 3, 1656, 1], 112, 1, false, 166_604_288.0),
            // 670 channels are no multiple of 4, groups of 8 no blocks: no copies.
            ([24, 670, 24, 1], 14, 1, true, 516_096.0),
        ] {
            let error = error(&conv(sizes, side, kernel, residual), Precision::Fp32, measured);
            assert!(error.abs() < 0.01, "{error}: {sizes:?}");
        }
        let narrow = error(&conv([8, 16, 256, 1], 28, 3, false), Precision::Int8, 12_882_984.0);
        assert!(narrow.abs() < 0.01, "{narrow}");
    }

    #[test]
    fn networks_hold_what_lives_at_one_time() {
        let resnet = |depth, batch| Workload::Resnet(ResnetSpec { depth, batch, image: 224 });
        assert!(error(&resnet(18, 8), Precision::Fp32, 78_899_904.0).abs() < 0.01);
        assert!(error(&resnet(50, 4), Precision::Fp32, 127_893_696.0).abs() < 0.01);
        assert!(error(&resnet(50, 4), Precision::Int8, 42_831_386.0).abs() < 0.1);
    }
}

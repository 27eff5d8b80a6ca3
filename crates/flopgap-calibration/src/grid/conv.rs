//! Convolutions as in image networks.

use flopgap_flops::Activation;
use flopgap_graph::op::{Conv, Pool, PoolFunction};
use flopgap_graph::{Epilogue, Op, ResnetSpec, Step, Workload};

use super::random::Random;
use super::samples::samples;

/// Sizes that images have within networks.
const IMAGES: [u64; 14] = [7, 8, 14, 14, 16, 28, 28, 32, 56, 56, 64, 112, 128, 224];

/// Convolutions of residual networks in percent.
const RESIDUAL: u64 = 35;

/// A convolution of two dimensions: a residual network's, or one as in VGG, depthwise as in
/// `MobileNets`, grouped as in `ResNeXt`. Three of four have multiples of 8 for channels.
pub(super) fn convolution(random: &mut Random, batches: &[u64]) -> Step {
    let batch = samples(random, batches, 7);
    if random.percent(RESIDUAL)
        && let Some(step) = residual(random, batch)
    {
        return step;
    }
    let image = if random.percent(88) { random.pick(&IMAGES) } else { random.octave(2, 8) };
    let kernel = random.weighted(&[(42, 1), (48, 3), (6, 5), (4, 7)]);
    let stride = if random.percent(75) { 1 } else { 2 };
    let dilation = if kernel > 1 && random.percent(3) { 2 } else { 1 };
    let channels = |random: &mut Random| match random.below(20) {
        0..9 => random.power(4, 11),
        9..16 => random.octave(3, 11).next_multiple_of(8),
        _ => random.octave(2, 10),
    };
    let (inputs, outputs, groups) = match random.below(100) {
        0..8 => {
            let channels = random.octave(4, 10).next_multiple_of(8);
            (channels, channels, channels)
        }
        8..11 => {
            let groups = random.pick(&[2, 4, 32]);
            let of_group = random.power(2, 5);
            (groups * of_group, groups * of_group, groups)
        }
        11..15 => (3, channels(random), 1),
        _ => (channels(random), channels(random), 1),
    };
    let padding = dilation * (kernel - 1) / 2;
    let op = Op::Conv(Conv {
        groups,
        dilation: vec![dilation; 2],
        padding: vec![[padding; 2]; 2],
        ..Conv::new(batch, [inputs, outputs], &[image; 2], kernel, stride)
    });
    let (bias, residual, activation) = random.weighted(&[
        (20, (false, false, Activation::Identity)),
        (10, (true, false, Activation::Identity)),
        (55, (true, false, Activation::Relu)),
        (15, (true, true, Activation::Relu)),
    ]);
    Step { op, epilogue: Epilogue { bias, residual, activation } }
}

/// A convolution of a residual network, also for images of other sizes than the usual.
fn residual(random: &mut Random, batch: u64) -> Option<Step> {
    let depth = random.pick(&[18, 34, 50]);
    let image = random.pick(&[128, 160, 192, 224, 224, 256]);
    let steps = Workload::Resnet(ResnetSpec { depth, batch, image }).steps().ok()?;
    let all: Vec<&Step> = steps.iter().filter(|step| matches!(step.op, Op::Conv(_))).collect();
    Some(random.pick(&all).clone())
}

/// A pooling: as in front of a residual network's stages, between VGG's, and over the whole image
/// at the end.
pub(super) fn pooling(random: &mut Random, batches: &[u64]) -> Step {
    let batch = samples(random, batches, 7);
    let channels = random.octave(4, 11).next_multiple_of(8);
    let image = random.pick(&IMAGES);
    let (function, kernel, stride, padding) = match random.below(4) {
        0 => (PoolFunction::Average, image, image, 0),
        1 => (PoolFunction::Max, 3, 2, 1),
        2 => (PoolFunction::Max, 2, 2, 0),
        _ => (PoolFunction::Average, 2, 2, 0),
    };
    let output = (image + 2 * padding - kernel) / stride + 1;
    let op = Op::Pool(Pool {
        function,
        planes: batch * channels,
        image: vec![image; 2],
        output: vec![output; 2],
        kernel: vec![kernel; 2],
        stride: vec![stride; 2],
        padding: vec![[padding; 2]; 2],
    });
    Step { op, epilogue: Epilogue::default() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(count: usize) -> Vec<Conv> {
        let mut random = Random::new(5, "convolutions");
        let conv = |step: Step| match step.op {
            Op::Conv(conv) => conv,
            other => panic!("{other:?}"),
        };
        (0..count).map(|_| conv(convolution(&mut random, &[]))).collect()
    }

    #[test]
    fn convolutions_are_possible() {
        for conv in all(2000) {
            assert_eq!(conv.inputs % conv.groups, 0, "{conv:?}");
            assert_eq!(conv.outputs % conv.groups, 0, "{conv:?}");
            let window = conv.dilation[0] * (conv.kernel[0] - 1) + 1;
            assert!(conv.image[0] + 2 * conv.padding[0][0] >= window, "{conv:?}");
        }
    }

    #[test]
    fn channels_are_multiples_of_8_and_others_and_groups_of_every_kind() {
        let all = all(1000);
        let share = |what: fn(&Conv) -> bool| all.iter().filter(|conv| what(conv)).count() / 10;
        assert!((65..85).contains(&share(|conv| conv.inputs % 8 == 0 && conv.outputs % 8 == 0)));
        assert!((3..9).contains(&share(|conv| conv.groups == conv.inputs)));
        assert!((1..5).contains(&share(|conv| conv.groups > 1 && conv.groups < conv.inputs)));
        assert!((30..55).contains(&share(|conv| conv.kernel == [1, 1])));
    }

    #[test]
    fn windows_of_poolings_lie_in_their_images() {
        let mut random = Random::new(5, "poolings");
        for _ in 0..500 {
            let Op::Pool(pool) = pooling(&mut random, &[]).op else { panic!() };
            assert!(pool.output[0] >= 1, "{pool:?}");
            assert!((pool.output[0] - 1) * pool.stride[0] < pool.image[0] + 2, "{pool:?}");
        }
    }
}

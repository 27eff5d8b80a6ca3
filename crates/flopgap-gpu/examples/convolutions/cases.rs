//! What is run.

use flopgap_gpu::dnn::{Activation, Arithmetic, Convolution, Fusion, Layout, PoolFunction, Pooling};

/// A convolution with what follows, in any arithmetic.
pub(crate) struct Case {
    pub(crate) name: &'static str,
    pub(crate) convolution: Convolution,
    pub(crate) fusion: Fusion,
}

/// Of two spatial dimensions: batch, channels in and out, image, kernel, stride, padding.
fn square(sizes: [usize; 7]) -> Convolution {
    let [batch, inputs, outputs, image, kernel, stride, padding] = sizes;
    Convolution {
        arithmetic: Arithmetic::Fp32,
        layout: Layout::ChannelsLast,
        batch,
        inputs,
        outputs,
        groups: 1,
        image: vec![image; 2],
        kernel: vec![kernel; 2],
        stride: vec![stride; 2],
        dilation: vec![1; 2],
        padding: vec![[padding; 2]; 2],
        transposed: false,
        output_padding: vec![0; 2],
    }
}

pub(crate) fn cases() -> Vec<Case> {
    let relu = Fusion { bias: true, activation: Activation::Relu, ..Fusion::NONE };
    let bias = Fusion { bias: true, ..Fusion::NONE };
    let residual = Fusion { residual: true, ..relu };
    let silu = Fusion { activation: Activation::Silu, ..relu };
    let sigmoid = Fusion { activation: Activation::Sigmoid, ..relu };
    let line = Convolution {
        image: vec![1024],
        kernel: vec![5],
        stride: vec![1],
        dilation: vec![1],
        padding: vec![[2, 2]],
        output_padding: vec![0],
        ..square([8, 64, 128, 1, 1, 1, 0])
    };
    let volume = Convolution {
        image: vec![16, 28, 28],
        kernel: vec![3; 3],
        stride: vec![1; 3],
        dilation: vec![1; 3],
        padding: vec![[1, 1]; 3],
        output_padding: vec![0; 3],
        ..square([2, 32, 64, 1, 1, 1, 0])
    };
    let transposed = Convolution { transposed: true, ..square([8, 128, 64, 28, 2, 2, 0]) };
    let uneven = Convolution { padding: vec![[0, 1]; 2], ..square([8, 64, 64, 56, 3, 2, 0]) };
    let list = [
        ("first 7x7 b32", square([32, 3, 64, 224, 7, 2, 3]), relu),
        ("1x1 64-64 56 b32", square([32, 64, 64, 56, 1, 1, 0]), relu),
        ("3x3 64-64 56 b32", square([32, 64, 64, 56, 3, 1, 1]), relu),
        ("3x3 64-64 56 b32 residual", square([32, 64, 64, 56, 3, 1, 1]), residual),
        ("1x1 64-256 56 b32 residual", square([32, 64, 256, 56, 1, 1, 0]), residual),
        ("1x1 s2 256-512 56 b32 bias", square([32, 256, 512, 56, 1, 2, 0]), bias),
        ("3x3 s2 128-128 56 b32", square([32, 128, 128, 56, 3, 2, 1]), relu),
        ("3x3 256-256 14 b32", square([32, 256, 256, 14, 3, 1, 1]), relu),
        ("3x3 512-512 7 b32 residual", square([32, 512, 512, 7, 3, 1, 1]), residual),
        ("1x1 512-2048 7 b32 residual", square([32, 512, 2048, 7, 1, 1, 0]), residual),
        ("3x3 256-256 14 b1", square([1, 256, 256, 14, 3, 1, 1]), relu),
        ("1x1 512-2048 7 b1 residual", square([1, 512, 2048, 7, 1, 1, 0]), residual),
        ("3x3 64-64 224 b8", square([8, 64, 64, 224, 3, 1, 1]), relu),
        ("3x3 64-64 56 b16 alone", square([16, 64, 64, 56, 3, 1, 1]), Fusion::NONE),
        ("odd 31-51 28 b16", square([16, 31, 51, 28, 3, 1, 1]), relu),
        ("odd 30-50 28 b16", square([16, 30, 50, 28, 3, 1, 1]), relu),
        ("4-multiples 36-52 28 b16", square([16, 36, 52, 28, 3, 1, 1]), relu),
        ("5x5 48-64 28 b16", square([16, 48, 64, 28, 5, 1, 2]), relu),
        ("depthwise 144 56 b32", Convolution { groups: 144, ..square([32, 144, 144, 56, 3, 1, 1]) }, relu),
        (
            "depthwise 144 56 b32 alone",
            Convolution { groups: 144, ..square([32, 144, 144, 56, 3, 1, 1]) },
            Fusion::NONE,
        ),
        ("groups 32 128 28 b32", Convolution { groups: 32, ..square([32, 128, 128, 28, 3, 1, 1]) }, relu),
        (
            "dilated 64 28 b16",
            Convolution { dilation: vec![2; 2], ..square([16, 64, 64, 28, 3, 1, 2]) },
            relu,
        ),
        ("silu 3x3 64 56 b16", square([16, 64, 64, 56, 3, 1, 1]), silu),
        ("sigmoid 3x3 64 56 b16", square([16, 64, 64, 56, 3, 1, 1]), sigmoid),
        ("uneven padding 64 56 b8", uneven, relu),
        ("one dimension 64-128 b8", line, relu),
        ("three dimensions 32-64 b2", volume, relu),
        ("transposed 128-64 28 b8 alone", transposed, Fusion::NONE),
    ];
    list.into_iter().map(|(name, convolution, fusion)| Case { name, convolution, fusion }).collect()
}

pub(crate) fn poolings() -> Vec<(&'static str, Pooling)> {
    let mut list = Vec::new();
    for arithmetic in Arithmetic::ALL {
        if arithmetic == Arithmetic::Tf32 {
            continue;
        }
        let max = Pooling {
            function: PoolFunction::Max,
            arithmetic,
            layout: Layout::ChannelsLast,
            batch: 32,
            channels: 64,
            image: vec![112; 2],
            output: vec![56; 2],
            kernel: vec![3; 2],
            stride: vec![2; 2],
            padding: vec![1; 2],
        };
        let mean = Pooling {
            function: PoolFunction::Mean,
            channels: 2048,
            image: vec![7; 2],
            output: vec![1; 2],
            kernel: vec![7; 2],
            stride: vec![7; 2],
            padding: vec![0; 2],
            ..max.clone()
        };
        let first = Layout::ChannelsFirst;
        list.push(("max 3x3 pool", max.clone()));
        list.push(("global mean pool", mean.clone()));
        list.push(("max 3x3 pool", Pooling { layout: first, ..max }));
        list.push(("global mean pool", Pooling { layout: first, ..mean }));
    }
    list
}

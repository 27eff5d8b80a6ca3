//! cuDNN: convolutions and pooling on a real GPU, and the library alone.

use flopgap_files::Hint as _;
use flopgap_gpu::dnn::{
    self, Activation, Arithmetic, Convolution, ConvolutionAddresses, Dnn, Fusion, Layout, PoolFunction,
    Pooling,
};
use flopgap_gpu::{Context, GpuError, Stream};

use crate::gpu;

/// 3 x 3 over one sample of 6 x 5 pixels with 2 channels, to 4.
fn small(layout: Layout) -> Convolution {
    Convolution {
        arithmetic: Arithmetic::Fp32,
        layout,
        batch: 1,
        inputs: 2,
        outputs: 4,
        groups: 1,
        image: vec![6, 5],
        kernel: vec![3, 3],
        stride: vec![1, 1],
        dilation: vec![1, 1],
        padding: vec![[1, 1]; 2],
        transposed: false,
        output_padding: vec![0, 0],
    }
}

/// Small whole numbers, of which every sum is exact.
fn whole(count: usize, most: usize) -> Vec<f32> {
    (0..count).map(|index| (index * 7 % most) as f32 - (most / 2) as f32).collect()
}

/// The result by the definition.
fn expected(convolution: &Convolution, [x, w, bias, residual]: [&[f32]; 4]) -> Vec<f32> {
    let [height, width] = [convolution.image[0], convolution.image[1]];
    let (channels, outputs) = (convolution.inputs, convolution.outputs);
    let at = |row: usize, column: usize, channel: usize, all: usize| match convolution.layout {
        Layout::ChannelsLast => (row * width + column) * all + channel,
        Layout::ChannelsFirst => (channel * height + row) * width + column,
    };
    let tap = |output: usize, row: usize, column: usize, channel: usize| match convolution.layout {
        Layout::ChannelsLast => ((output * 3 + row) * 3 + column) * channels + channel,
        Layout::ChannelsFirst => ((output * channels + channel) * 3 + row) * 3 + column,
    };
    let mut y = vec![0.0; height * width * outputs];
    for (row, column, output) in (0..height).flat_map(|row| {
        (0..width).flat_map(move |column| (0..outputs).map(move |output| (row, column, output)))
    }) {
        let mut sum = bias[output] + residual[at(row, column, output, outputs)];
        for (down, right) in (0..9).map(|tap| (tap / 3, tap % 3)) {
            let (Some(from_row), Some(from_column)) =
                ((row + down).checked_sub(1), (column + right).checked_sub(1))
            else {
                continue;
            };
            if from_row < height && from_column < width {
                sum += (0..channels)
                    .map(|channel| {
                        x[at(from_row, from_column, channel, channels)] * w[tap(output, down, right, channel)]
                    })
                    .sum::<f32>();
            }
        }
        y[at(row, column, output, outputs)] = sum.max(0.0);
    }
    y
}

/// cuDNN on the GPU; skips where it is not there.
fn open(context: &Context) -> Option<(Stream, Dnn)> {
    match Dnn::new(context) {
        Ok(dnn) => Some((context.stream().unwrap(), dnn)),
        Err(error) if error.is_absence() => flopgap_testing::none("cudnn", error),
        Err(error) => panic!("{error}"),
    }
}

const ALL: Fusion = Fusion { residual: true, bias: true, activation: Activation::Relu, ..Fusion::NONE };

#[test]
fn the_library_reports_its_version_or_how_to_get_it() {
    match dnn::version() {
        Ok(version) => assert!(version >= (9, 0, 0), "{version:?}"),
        Err(error) => {
            assert!(error.is_absence(), "{error}");
            assert!(error.hint().unwrap().contains("pip install nvidia-cu"), "{error}");
        }
    }
}

#[test]
fn a_graph_keeps_what_a_convolution_needs() {
    let Some((context, _guard)) = gpu() else { return };
    let Some((stream, dnn)) = open(&context) else { return };
    for layout in [Layout::ChannelsLast, Layout::ChannelsFirst] {
        let convolution = small(layout);
        let output = convolution.output_len().unwrap();
        let (x, w) = (whole(convolution.input_len(), 11), whole(convolution.weight_len(), 5));
        let (bias, residual) = (whole(4, 9), whole(output, 13));
        let mut y = stream.zeros::<f32>(output).unwrap();
        let graph = {
            let plan = dnn.convolution(&stream, &convolution, &ALL).unwrap();
            let buffers = [&x, &w, &bias, &residual].map(|values| stream.upload(values).unwrap());
            let mut workspace = stream.zeros::<u8>(plan.workspace()).unwrap();
            let mut queue = || {
                let memory = stream.submission();
                let at = ConvolutionAddresses {
                    input: memory.read(&buffers[0])?,
                    weights: memory.read(&buffers[1])?,
                    bias: memory.read(&buffers[2])?,
                    residual: memory.read(&buffers[3])?,
                    output: memory.write(&mut y)?,
                    workspace: memory.write(&mut workspace)?,
                };
                // SAFETY: the buffers were made for this convolution.
                unsafe { plan.queue_at(&stream, &at) }
            };
            // What is loaded at first use must be loaded before the capture.
            queue().unwrap();
            stream.synchronize().unwrap();
            stream.capture(queue).unwrap()
        };
        stream.fill(&mut y, 0xff).unwrap();
        assert!(!graph.kernels().unwrap().is_empty());
        graph.launch().unwrap();
        let (found, expected) =
            (stream.download(&y).unwrap(), expected(&convolution, [&x, &w, &bias, &residual]));
        // Whole numbers; engines that transform are a little off.
        let close = |(found, expected): (&f32, &f32)| (found - expected).abs() < 1e-3;
        assert!(found.iter().zip(&expected).all(close), "{found:?} {expected:?}");
    }
}

#[test]
fn a_factor_is_for_integers_alone() {
    let Some((context, _guard)) = gpu() else { return };
    let Some((stream, dnn)) = open(&context) else { return };
    let scaled = Fusion { scale: 0.5, ..ALL };
    let error = dnn.convolution(&stream, &small(Layout::ChannelsLast), &scaled).unwrap_err();
    assert!(matches!(error, GpuError::Shape { .. }), "{error}");
}

#[test]
fn windows_become_maxima_and_means() {
    let Some((context, _guard)) = gpu() else { return };
    let Some((stream, dnn)) = open(&context) else { return };
    let x = stream.upload(&[1.0_f32, -2.0, 3.0, 4.0, -5.0, 6.0, 7.0, 8.0, -9.0]).unwrap();
    for (function, expected) in [
        (PoolFunction::Max, [1.0_f32, 3.0, 7.0, 8.0]),
        // Of what lies within the image.
        (PoolFunction::Mean, [1.0, 0.5, 5.5, 0.0]),
    ] {
        let pooling = Pooling {
            function,
            arithmetic: Arithmetic::Fp32,
            layout: Layout::ChannelsFirst,
            batch: 1,
            channels: 1,
            image: vec![3, 3],
            output: vec![2, 2],
            kernel: vec![2, 2],
            stride: vec![2, 2],
            padding: vec![1, 1],
        };
        let mut y = stream.zeros::<f32>(4).unwrap();
        let plan = dnn.pooling(&pooling).unwrap();
        let memory = stream.submission();
        let (from, to) = (memory.read(&x).unwrap(), memory.write(&mut y).unwrap());
        // SAFETY: both arrays have the sizes of the pooling.
        unsafe { plan.queue_at(&stream, from, to) }.unwrap();
        drop(memory);
        assert_eq!(stream.download(&y).unwrap(), expected);
    }
}

//! The same convolutions by cuDNN's older API, for comparison: `cudnnGetConvolutionForwardAlgorithm_v7` ranks, and
//! `cudnnConvolutionBiasActivationForward` computes.

use std::ffi::c_void;

use flopgap_gpu::cudarc::cudnn::{result, sys};
use flopgap_gpu::dnn::{Activation, Arithmetic, Convolution, Fusion, Layout};
use flopgap_gpu::timing::{Repetitions, replays};
use flopgap_gpu::{GpuError, Stream};
use sys::cudnnDataType_t as Type;
use sys::cudnnMathType_t as Math;
use sys::cudnnTensorFormat_t as Format;

use crate::Arrays;
use crate::elements::Element;

/// Nanoseconds on the device and the algorithm; otherwise why it is not timed.
#[expect(clippy::too_many_lines, reason = "one description after the other")]
pub(crate) fn time<T: Element>(
    stream: &Stream,
    convolution: &Convolution,
    fusion: &Fusion,
    arrays: &mut Arrays<T>,
) -> Result<(f64, String), String> {
    if convolution.transposed || convolution.image.len() != 2 || fusion.activation != Activation::Relu {
        return Err("not written for this".to_owned());
    }
    let failed = |error: result::CudnnError| format!("{:?}", error.0);
    let (stored, sums) = match convolution.arithmetic {
        Arithmetic::Fp32 | Arithmetic::Tf32 => (Type::CUDNN_DATA_FLOAT, Type::CUDNN_DATA_FLOAT),
        Arithmetic::Fp16 => (Type::CUDNN_DATA_HALF, Type::CUDNN_DATA_FLOAT),
        Arithmetic::Bf16 => (Type::CUDNN_DATA_BFLOAT16, Type::CUDNN_DATA_FLOAT),
        Arithmetic::Int8 => (Type::CUDNN_DATA_INT8, Type::CUDNN_DATA_INT32),
    };
    let bias_type = if convolution.arithmetic == Arithmetic::Int8 { Type::CUDNN_DATA_FLOAT } else { stored };
    let math = match convolution.arithmetic {
        Arithmetic::Fp32 => Math::CUDNN_FMA_MATH,
        Arithmetic::Tf32 => Math::CUDNN_DEFAULT_MATH,
        _ => Math::CUDNN_TENSOR_OP_MATH,
    };
    let format = match convolution.layout {
        Layout::ChannelsLast => Format::CUDNN_TENSOR_NHWC,
        Layout::ChannelsFirst => Format::CUDNN_TENSOR_NCHW,
    };
    let int = |value: usize| i32::try_from(value).map_err(|error| error.to_string());
    let image = convolution.output_image().map_err(|error| error.to_string())?;
    let four = |sizes: [usize; 4]| -> Result<[i32; 4], String> {
        Ok([int(sizes[0])?, int(sizes[1])?, int(sizes[2])?, int(sizes[3])?])
    };
    let x = four([convolution.batch, convolution.inputs, convolution.image[0], convolution.image[1]])?;
    let y = four([convolution.batch, convolution.outputs, image[0], image[1]])?;
    let w = four([
        convolution.outputs,
        convolution.inputs / convolution.groups,
        convolution.kernel[0],
        convolution.kernel[1],
    ])?;
    let pair = |values: [usize; 2]| -> Result<[i32; 2], String> { Ok([int(values[0])?, int(values[1])?]) };
    let padding = pair([convolution.padding[0][0], convolution.padding[1][0]])?;
    if convolution.padding.iter().any(|pair| pair[0] != pair[1]) {
        return Err("padding is even there".to_owned());
    }
    let (steps, gaps) = (
        pair([convolution.stride[0], convolution.stride[1]])?,
        pair([convolution.dilation[0], convolution.dilation[1]])?,
    );
    // Descriptions are not destroyed: the program ends soon.
    // SAFETY: descriptions live from here on; addresses come from buffers that live as long as `arrays`.
    unsafe {
        let handle = result::create_handle().map_err(failed)?;
        result::set_stream(handle, stream.handle().cast()).map_err(failed)?;
        let tensor = |kind: Type, sizes: [i32; 4], format: Format| {
            let made = result::create_tensor_descriptor()?;
            result::set_tensor4d_descriptor(made, format, kind, sizes)?;
            Ok(made)
        };
        let input = tensor(stored, x, format).map_err(failed)?;
        let output = tensor(stored, y, format).map_err(failed)?;
        let bias = tensor(bias_type, [1, y[1], 1, 1], format).map_err(failed)?;
        let weights = result::create_filter_descriptor().map_err(failed)?;
        result::set_filter4d_descriptor(weights, stored, format, w).map_err(failed)?;
        let window = result::create_convolution_descriptor().map_err(failed)?;
        let mode = sys::cudnnConvolutionMode_t::CUDNN_CROSS_CORRELATION;
        result::set_convolution2d_descriptor(
            window, padding[0], padding[1], steps[0], steps[1], gaps[0], gaps[1], mode, sums,
        )
        .map_err(failed)?;
        sys::cudnnSetConvolutionMathType(window, math).result().map_err(failed)?;
        sys::cudnnSetConvolutionGroupCount(window, int(convolution.groups)?).result().map_err(failed)?;
        let function = result::create_activation_descriptor().map_err(failed)?;
        let relu = sys::cudnnActivationMode_t::CUDNN_ACTIVATION_RELU;
        let nan = sys::cudnnNanPropagation_t::CUDNN_NOT_PROPAGATE_NAN;
        result::set_activation_descriptor(function, relu, nan, 0.0).map_err(failed)?;
        let mut ranked = [std::mem::zeroed::<sys::cudnnConvolutionFwdAlgoPerf_t>(); 8];
        let mut count = 0;
        sys::cudnnGetConvolutionForwardAlgorithm_v7(
            handle,
            input,
            weights,
            window,
            output,
            8,
            &raw mut count,
            ranked.as_mut_ptr(),
        )
        .result()
        .map_err(failed)?;
        let (one, zero) = (1.0_f32, 0.0_f32);
        let residual = if fusion.residual { one } else { zero };
        let submission = stream.submission();
        let wrong = |error: GpuError| error.to_string();
        let from = submission.read(&arrays.x).map_err(wrong)? as *const c_void;
        let by = submission.read(&arrays.w).map_err(wrong)? as *const c_void;
        let add = submission.read(&arrays.bias).map_err(wrong)? as *const c_void;
        let z = submission.read(&arrays.residual).map_err(wrong)? as *const c_void;
        let to = submission.write(&mut arrays.y).map_err(wrong)? as *mut c_void;
        drop(submission);
        let mut reasons = Vec::new();
        for found in &ranked[..usize::try_from(count).unwrap_or(0)] {
            if found.status != sys::cudnnStatus_t::CUDNN_STATUS_SUCCESS || found.memory > 1 << 30 {
                continue;
            }
            if sys::cudnnSetConvolutionMathType(window, found.mathType).result().is_err() {
                continue;
            }
            // 32-bit floats without TF32 are what was asked for.
            if convolution.arithmetic == Arithmetic::Fp32 && found.mathType != Math::CUDNN_FMA_MATH {
                continue;
            }
            let mut memory = stream.zeros::<u8>(found.memory.max(1)).map_err(wrong)?;
            let workspace = stream.submission().write(&mut memory).map_err(wrong)? as *mut c_void;
            let run = || {
                let status = sys::cudnnConvolutionBiasActivationForward(
                    handle,
                    (&raw const one).cast(),
                    input,
                    from,
                    weights,
                    by,
                    window,
                    found.algo,
                    workspace,
                    found.memory,
                    (&raw const residual).cast(),
                    output,
                    z,
                    bias,
                    add,
                    function,
                    output,
                    to,
                );
                status.result().map_err(|error| GpuError::Cudnn {
                    action: "run a convolution",
                    status: format!("{:?}", error.0),
                })
            };
            match replays(stream, Repetitions { warmup: 3, measured: 12 }, run) {
                Ok(samples) => return Ok((samples.median(), format!("{:?}", found.algo))),
                Err(error) => reasons.push(format!("{:?}: {error}", found.algo)),
            }
        }
        Err(format!("no algorithm: {}", reasons.join(", ")))
    }
}

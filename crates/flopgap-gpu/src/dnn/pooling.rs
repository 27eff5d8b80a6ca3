//! Maxima and means over windows.

use std::ffi::{c_int, c_void};
use std::sync::Arc;

use cudarc::cudnn::sys;
use sys::cudnnDataType_t as Type;
use sys::cudnnPoolingMode_t as Mode;

use super::api::{Api, Object};
use super::convolution::{Arithmetic, Layout, spatial, strides};
use super::plan::{Dnn, Handle};
use crate::captured::Kept;
use crate::error::GpuError;
use crate::stream::Stream;

/// The result of a window.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum PoolFunction {
    /// Its maximum; zeros that pad an image do not count.
    Max,
    /// Its mean, of what lies within the image.
    Mean,
}

/// Sizes of a pooling over one, two or three spatial dimensions.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Pooling {
    /// The result of a window.
    pub function: PoolFunction,
    /// How elements are stored; sums are in 32 bits.
    pub arithmetic: Arithmetic,
    /// Of both tensors.
    pub layout: Layout,
    /// Samples.
    pub batch: usize,
    /// Channels.
    pub channels: usize,
    /// Sizes of the input image.
    pub image: Vec<usize>,
    /// Sizes of the result's image.
    pub output: Vec<usize>,
    /// Sizes of the window.
    pub kernel: Vec<usize>,
    /// Steps of the window.
    pub stride: Vec<usize>,
    /// Elements before each dimension that the first window reaches beyond the image.
    pub padding: Vec<usize>,
}

impl Pooling {
    fn dimensions(&self, image: &[usize]) -> Vec<usize> {
        [self.batch, self.channels].into_iter().chain(spatial(image, 1)).collect()
    }

    /// Elements of the input.
    pub fn input_len(&self) -> usize {
        self.dimensions(&self.image).iter().product()
    }

    /// Elements of the result.
    pub fn output_len(&self) -> usize {
        self.dimensions(&self.output).iter().product()
    }

    fn validate(&self) -> Result<(), GpuError> {
        let wrong = |message: String| Err(GpuError::Shape { what: "a pooling", message });
        let rank = self.image.len();
        let sizes = [&self.image, &self.output, &self.kernel, &self.stride];
        if !(1..=3).contains(&rank) || sizes.iter().any(|sizes| sizes.len() != rank || sizes.contains(&0)) {
            return wrong(format!("1 to 3 dimensions with sizes of at least 1 are needed: {self:?}"));
        }
        if self.padding.len() != rank || self.batch == 0 || self.channels == 0 {
            return wrong(format!("batch, channels and a padding for each dimension are needed: {self:?}"));
        }
        for dimension in 0..rank {
            let start = (self.output[dimension] - 1) * self.stride[dimension];
            if self.padding[dimension] >= self.kernel[dimension]
                || start >= self.image[dimension] + self.padding[dimension]
            {
                return wrong(format!("dimension {dimension}: a window lies outside the image: {self:?}"));
            }
        }
        Ok(())
    }
}

/// A pooling that is ready to run.
#[derive(Debug)]
pub struct PoolingPlan {
    pooling: Pooling,
    shared: Arc<Shared>,
}

/// The library's descriptors of a pooling.
#[derive(Debug)]
pub(crate) struct Shared {
    handle: Arc<Handle>,
    input: Described,
    output: Described,
    window: Described,
}

/// An object of the library with the function that destroys it.
#[derive(Debug)]
struct Described {
    object: Object,
    destroy: unsafe extern "C" fn(Object) -> u32,
}

// SAFETY: nothing changes the object after it was made, and it belongs to no thread.
unsafe impl Send for Described {}
// SAFETY: as above.
unsafe impl Sync for Described {}

impl Drop for Described {
    fn drop(&mut self) {
        // SAFETY: it was created by the library and is destroyed once.
        unsafe { (self.destroy)(self.object) };
    }
}

impl Dnn {
    /// Makes a pooling ready to run.
    ///
    /// # Errors
    /// [`GpuError::Shape`] when the sizes do not go together; what cuDNN returns.
    pub fn pooling(&self, pooling: &Pooling) -> Result<PoolingPlan, GpuError> {
        pooling.validate()?;
        let api = self.handle.api;
        let input = tensor(api, &pooling.dimensions(&pooling.image), pooling)?;
        let output = tensor(api, &pooling.dimensions(&pooling.output), pooling)?;
        let window = window(api, pooling)?;
        let shared = Shared { handle: self.handle.clone(), input, output, window };
        Ok(PoolingPlan { pooling: pooling.clone(), shared: Arc::new(shared) })
    }
}

fn ints(sizes: &[usize]) -> Result<Vec<c_int>, GpuError> {
    let one = |&size| {
        c_int::try_from(size).map_err(|_| GpuError::TooLarge { what: "a size of a tensor", value: size })
    };
    sizes.iter().map(one).collect()
}

fn tensor(api: &'static Api, dimensions: &[usize], pooling: &Pooling) -> Result<Described, GpuError> {
    let mut object = std::ptr::null_mut();
    // SAFETY: the pointer is valid for the call.
    api.check("describe a tensor to cuDNN", unsafe { (api.create_tensor)(&raw mut object) })?;
    let made = Described { object, destroy: api.destroy_tensor };
    let stored = match pooling.arithmetic {
        Arithmetic::Fp32 | Arithmetic::Tf32 => Type::CUDNN_DATA_FLOAT,
        Arithmetic::Fp16 => Type::CUDNN_DATA_HALF,
        Arithmetic::Bf16 => Type::CUDNN_DATA_BFLOAT16,
        Arithmetic::Int8 => Type::CUDNN_DATA_INT8,
    };
    let (sizes, steps) = (ints(dimensions)?, ints(&strides(dimensions, pooling.layout))?);
    let rank = c_int::try_from(sizes.len()).unwrap_or(c_int::MAX);
    // SAFETY: so many numbers lie in both arrays.
    let status =
        unsafe { (api.set_tensor)(made.object, stored as u32, rank, sizes.as_ptr(), steps.as_ptr()) };
    api.check("describe a tensor to cuDNN", status)?;
    Ok(made)
}

fn window(api: &'static Api, pooling: &Pooling) -> Result<Described, GpuError> {
    let mut object = std::ptr::null_mut();
    // SAFETY: the pointer is valid for the call.
    api.check("describe a pooling to cuDNN", unsafe { (api.create_pooling)(&raw mut object) })?;
    let made = Described { object, destroy: api.destroy_pooling };
    let function = match pooling.function {
        PoolFunction::Max => Mode::CUDNN_POOLING_MAX,
        PoolFunction::Mean => Mode::CUDNN_POOLING_AVERAGE_COUNT_EXCLUDE_PADDING,
    };
    let propagate = sys::cudnnNanPropagation_t::CUDNN_PROPAGATE_NAN;
    let sizes = ints(&spatial(&pooling.kernel, 1))?;
    let (before, steps) = (ints(&spatial(&pooling.padding, 0))?, ints(&spatial(&pooling.stride, 1))?);
    let rank = c_int::try_from(sizes.len()).unwrap_or(c_int::MAX);
    // SAFETY: so many numbers lie in the three arrays.
    let status = unsafe {
        (api.set_pooling)(
            made.object,
            function as u32,
            propagate as u32,
            rank,
            sizes.as_ptr(),
            before.as_ptr(),
            steps.as_ptr(),
        )
    };
    api.check("describe a pooling to cuDNN", status)?;
    Ok(made)
}

impl PoolingPlan {
    /// The pooling.
    pub fn pooling(&self) -> &Pooling {
        &self.pooling
    }

    /// Queues the pooling. In a capture, the graph owns the plan.
    ///
    /// # Errors
    /// What cuDNN returns.
    ///
    /// # Safety
    /// As [`ConvolutionPlan::queue_at`](super::ConvolutionPlan::queue_at).
    pub unsafe fn queue_at(&self, stream: &Stream, input: u64, output: u64) -> Result<(), GpuError> {
        let submission = stream.submission();
        let Shared { handle, input: from, output: to, window } = &*self.shared;
        submission.keep(|| Kept::owner(self.shared.clone()))?;
        let (one, zero) = (1.0_f32, 0.0_f32);
        handle.on(stream, |object| {
            // SAFETY: handle and descriptions are alive, the factors are read in the call; the rest
            // is the caller's promise.
            let status = unsafe {
                (handle.api.pooling_forward)(
                    object,
                    window.object,
                    (&raw const one).cast(),
                    from.object,
                    input as *const c_void,
                    (&raw const zero).cast(),
                    to.object,
                    output as *mut c_void,
                )
            };
            handle.api.check("run a pooling", status)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_outside_the_image_are_refused() {
        let good = Pooling {
            function: PoolFunction::Max,
            arithmetic: Arithmetic::Fp16,
            layout: Layout::ChannelsLast,
            batch: 2,
            channels: 3,
            image: vec![112, 112],
            output: vec![56, 56],
            kernel: vec![3, 3],
            stride: vec![2, 2],
            padding: vec![1, 1],
        };
        good.validate().unwrap();
        assert_eq!((good.input_len(), good.output_len()), (2 * 3 * 112 * 112, 2 * 3 * 56 * 56));
        for wrong in [
            Pooling { output: vec![58, 56], ..good.clone() },
            Pooling { padding: vec![3, 1], ..good.clone() },
            Pooling { kernel: vec![3], ..good.clone() },
            Pooling { stride: vec![0, 2], ..good.clone() },
            Pooling { channels: 0, ..good },
        ] {
            assert!(matches!(wrong.validate(), Err(GpuError::Shape { .. })), "{wrong:?}");
        }
    }
}

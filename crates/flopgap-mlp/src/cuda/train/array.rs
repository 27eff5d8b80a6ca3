//! The optimizer of an array.

use std::marker::PhantomData;

use flopgap_gpu::{Buffer, DeviceSlice, DeviceSliceMut, GpuError, Kernel, Stream};

use crate::error::check;
use crate::{AdamWSettings, Element, MlpError, Precision};

use super::super::launch::{Arguments, Launch};
use super::super::target::Target;
use crate::cuda::source::Binaries;

use super::{THREADS, adamw_source};

/// `AdamW` for an array on a GPU that is stored as `T`, such as the table of an
/// [`Encoder`](crate::cuda::encoding::Encoder): numbers and moments in 32 bits, from which the
/// array is rounded. See [`AdamWSettings`] for the formula, and [`AdamW`](super::AdamW) for
/// networks.
///
/// ```no_run
/// use flopgap_gpu::Context;
/// use flopgap_mlp::{AdamWSettings, cuda::train::ArrayAdamW};
/// use half::f16;
///
/// let stream = Context::new(0)?.stream()?;
/// let values = [0.5; 1000];
/// let mut array = stream.upload(&values.map(f16::from_f32))?;
/// let gradients = stream.upload(&[1.0_f32; 1000])?;
/// let mut optimizer = ArrayAdamW::new(&stream, &values, AdamWSettings::default())?;
/// optimizer.step(&stream, &mut array, &gradients)?;
/// # Ok::<(), flopgap_mlp::MlpError>(())
/// ```
#[derive(Debug)]
pub struct ArrayAdamW<T: Element> {
    settings: AdamWSettings,
    finite: Kernel,
    step: Kernel,
    /// The numbers in 32 bits, where the array has fewer.
    master: Option<Buffer<f32>>,
    first: Buffer<f32>,
    second: Buffer<f32>,
    /// As `State` in `adamw.cu`.
    state: Buffer<u64>,
    count: u32,
    stored: PhantomData<T>,
}

/// Where the learning rate lies in the state.
const LEARNING_RATE: usize = 4;

impl<T: Element> ArrayAdamW<T> {
    /// For an array that holds `values`, rounded to `T`.
    ///
    /// # Errors
    /// [`MlpError::Setting`] for a setting that cannot work; when NVRTC is missing; when there is
    /// not enough memory.
    pub fn new(stream: &Stream, values: &[f32], settings: AdamWSettings) -> Result<Self, MlpError> {
        settings.check()?;
        let length = values.len();
        let too_large = GpuError::TooLarge { what: "parameters of an optimizer", value: length };
        let count = u32::try_from(length).map_err(|_| too_large)?;
        let context = stream.context();
        let source = adamw_source(T::PRECISION, Target::new(context.device()));
        let program = source.load(&Binaries::default(), context)?;
        let one = 1.0_f64.to_bits();
        let state = [one, one, 0, 0, settings.learning_rate.to_bits(), 0];
        let optimizer = ArrayAdamW {
            settings,
            finite: program.kernel("adamw_finite_reduce", 0)?,
            step: program.kernel("adamw_step", 0)?,
            master: (T::PRECISION != Precision::F32).then(|| stream.upload(values)).transpose()?,
            first: stream.zeros(length)?,
            second: stream.zeros(length)?,
            state: stream.upload(&state)?,
            count,
            stored: PhantomData,
        };
        stream.synchronize()?;
        Ok(optimizer)
    }

    /// Queues a step of `array` with these gradients, which are divided by
    /// [`AdamWSettings::loss_scale`] on the way.
    ///
    /// # Errors
    /// [`MlpError::Length`]; the driver's.
    pub fn step(
        &mut self,
        stream: &Stream,
        array: &mut impl DeviceSliceMut<T>,
        gradients: &impl DeviceSlice<f32>,
    ) -> Result<(), MlpError> {
        check("the array of an optimizer", self.first.len(), array.len())?;
        self.check_gradients(gradients)?;
        Ok(self.queue(stream, array, gradients)?)
    }

    pub(super) fn check_gradients(&self, gradients: &impl DeviceSlice<f32>) -> Result<(), MlpError> {
        check("gradients by the parameters", self.first.len(), gradients.len())
    }

    /// As [`ArrayAdamW::step`], for arrays whose lengths were checked.
    pub(super) fn queue(
        &mut self,
        stream: &Stream,
        array: &mut impl DeviceSliceMut<T>,
        gradients: &impl DeviceSlice<f32>,
    ) -> Result<(), GpuError> {
        let count = self.count;
        if self.settings.skip_not_finite {
            let launch = Launch::new(count.div_ceil(8 * THREADS), THREADS);
            let arguments = Arguments::default().read(gradients).write(&mut self.state).u32(count);
            // SAFETY: these are the kernel's arguments; the caller checked the lengths.
            unsafe { launch.queue(stream, &self.finite, arguments) }?;
        }
        let rounded = self.settings.rounded();
        let arguments = Arguments::default().write(array);
        let arguments = match &mut self.master {
            Some(master) => arguments.write(master),
            None => arguments.addresses([0]),
        };
        let mut arguments =
            arguments.read(gradients).write(&mut self.first).write(&mut self.second).write(&mut self.state);
        for number in [self.settings.betas.0, self.settings.betas.1, self.settings.weight_decay] {
            arguments = arguments.u64(number.to_bits());
        }
        let numbers =
            [rounded.beta1, rounded.rest1, rounded.beta2, rounded.rest2, rounded.epsilon, rounded.scale];
        let arguments = numbers.into_iter().fold(arguments, Arguments::f32).u32(count);
        // SAFETY: as above; where the array has 32 bits itself, the kernel takes its numbers for
        // the address 0.
        unsafe { Launch::new(count.div_ceil(THREADS), THREADS).queue(stream, &self.step, arguments) }
    }

    /// Sets the learning rate of the steps that are queued (or launched as a graph) from here on.
    ///
    /// # Errors
    /// [`MlpError::Setting`]; the driver's.
    pub fn set_learning_rate(&mut self, stream: &Stream, learning_rate: f64) -> Result<(), MlpError> {
        AdamWSettings { learning_rate, ..self.settings }.check()?;
        let mut place = self.state.slice_mut(LEARNING_RATE..=LEARNING_RATE);
        Ok(stream.write(&[learning_rate.to_bits()], &mut place)?)
    }

    /// Waits, and returns the steps that were done and those that were left out because a gradient
    /// was not finite.
    ///
    /// # Errors
    /// The error of a kernel that failed before.
    pub fn steps(&self, stream: &Stream) -> Result<(u64, u64), MlpError> {
        let state = stream.download(&self.state)?;
        Ok((state[2], state[3]))
    }

    /// Waits, and returns the numbers of `array` in 32 bits.
    ///
    /// # Errors
    /// The error of a kernel that failed before.
    pub fn values(&self, stream: &Stream, array: &impl DeviceSlice<T>) -> Result<Vec<f32>, MlpError> {
        match &self.master {
            Some(master) => Ok(stream.download(master)?),
            None => Ok(stream.download(array)?.into_iter().map(T::widen).collect()),
        }
    }
}

//! The optimizer.

use flopgap_gpu::{Buffer, DeviceSlice, GpuError, Kernel, Stream};

use crate::{AdamWSettings, Element, MlpError, Network, Parameters, Precision};

use super::super::launch::{Arguments, Launch};
use super::super::model::{Model, check};
use super::super::target::Target;
use crate::cuda::source::Binaries;

use super::{THREADS, adamw_source, request};

/// `AdamW` for a [`Model`] on a GPU: parameters and moments in 32 bits, whatever the model stores.
/// See [`AdamWSettings`] for the formula.
///
/// The number of steps and the learning rate lie on the device, so that a graph of a step can be
/// launched again and again, and the learning rate changed in between.
///
/// ```no_run
/// use flopgap_gpu::Context;
/// use flopgap_mlp::cuda::{Implementation, Model, Options, train::{AdamW, MeanSquaredError}};
/// use flopgap_mlp::{AdamWSettings, Parameters, Size};
/// use half::f16;
///
/// let (context, network, batch) = (Context::new(0)?, Size::Small.network(), 4096);
/// let stream = context.stream()?;
/// let mut model = Model::<f16>::new(&context, &network, Options::new(Implementation::Naive))?;
/// let parameters = Parameters::he(&network, 42);
/// model.upload(&stream, &parameters)?;
/// let settings = AdamWSettings { loss_scale: 1024.0, ..AdamWSettings::default() };
/// let mut optimizer = AdamW::new(&stream, &model, settings)?;
/// let mut error = MeanSquaredError::new(&stream, &network, network.outputs())?;
///
/// let x = stream.upload(&vec![f16::ONE; batch * network.inputs()])?;
/// let targets = stream.upload(&vec![0.5_f32; batch * network.outputs()])?;
/// let (mut y, mut dy) = (stream.zeros(targets.len())?, stream.zeros(targets.len())?);
/// let (mut gradients, mut loss) = (stream.zeros(network.parameters())?, stream.zeros(1)?);
/// let mut tape = model.tape(&stream, batch)?;
/// let graph = stream.capture(|| {
///     model.forward_train(&stream, &x, &mut y, &mut tape)?;
///     error.queue(&stream, &y, &targets, 1024.0, &mut dy, &mut loss)?;
///     model.backward(&stream, &x, &y, &dy, &mut tape, None, &mut gradients)?;
///     optimizer.step(&stream, &mut model, &gradients)
/// })?;
/// (0..100).try_for_each(|_| graph.launch())?;
/// let loss = stream.download(&loss)?[0];
/// # Ok::<(), flopgap_mlp::MlpError>(())
/// ```
#[derive(Debug)]
pub struct AdamW<T: Element> {
    settings: AdamWSettings,
    network: Network,
    finite: Kernel,
    step: Kernel,
    /// The parameters in 32 bits, where the model has fewer.
    master: Option<Buffer<f32>>,
    first: Buffer<f32>,
    second: Buffer<f32>,
    /// As `State` in `adamw.cu`.
    state: Buffer<u64>,
    stored: std::marker::PhantomData<T>,
}

/// Where the learning rate lies in the state.
const LEARNING_RATE: usize = 4;

impl<T: Element> AdamW<T> {
    /// For the parameters that the model has now.
    ///
    /// # Errors
    /// [`MlpError::Setting`] for a setting that cannot work; when NVRTC is missing; when there is
    /// not enough memory.
    pub fn new(stream: &Stream, model: &Model<T>, settings: AdamWSettings) -> Result<Self, MlpError> {
        let parameters = model.download(stream)?;
        Self::with_master(stream, model, &parameters, settings)
    }

    /// The same with parameters of which the model has the rounded numbers.
    ///
    /// # Errors
    /// [`MlpError::Length`] or [`MlpError::OtherNetwork`] when they are of another network;
    /// otherwise as [`AdamW::new`].
    pub fn with_master(
        stream: &Stream,
        model: &Model<T>,
        parameters: &Parameters,
        settings: AdamWSettings,
    ) -> Result<Self, MlpError> {
        settings.check()?;
        let length = model.network().parameters();
        parameters.check_widths(model.network())?;
        let context = stream.context();
        let request = request(model.network(), T::PRECISION, Target::of(context.device()));
        let program = adamw_source(&request).load(&Binaries::default(), context)?;
        let master =
            (T::PRECISION != Precision::F32).then(|| stream.upload(parameters.values())).transpose()?;
        let one = 1.0_f64.to_bits();
        let state = [one, one, 0, 0, settings.learning_rate.to_bits(), 0];
        let optimizer = AdamW {
            settings,
            network: model.network().clone(),
            finite: program.kernel("adamw_finite_reduce", 0)?,
            step: program.kernel("adamw_step", 0)?,
            master,
            first: stream.zeros(length)?,
            second: stream.zeros(length)?,
            state: stream.upload(&state)?,
            stored: std::marker::PhantomData,
        };
        stream.synchronize()?;
        Ok(optimizer)
    }

    /// Queues a step with these gradients, which are divided by [`AdamWSettings::loss_scale`] on
    /// the way.
    ///
    /// # Errors
    /// [`MlpError::Length`] or [`MlpError::OtherNetwork`] when model or gradients are others; the
    /// driver's.
    pub fn step(
        &mut self,
        stream: &Stream,
        model: &mut Model<T>,
        gradients: &impl DeviceSlice<f32>,
    ) -> Result<(), MlpError> {
        self.network.check_parameters_of(model.network())?;
        check("gradients by the parameters", self.first.len(), gradients.len())?;
        let count = u32::try_from(self.first.len()).map_err(|_| GpuError::TooLarge {
            what: "parameters of an optimizer",
            value: self.first.len(),
        })?;
        if self.settings.skip_not_finite {
            let launch = Launch::new(count.div_ceil(8 * THREADS), THREADS);
            let arguments = Arguments::default().read(gradients).write(&mut self.state);
            // SAFETY: these are the kernel's arguments; the lengths were checked.
            unsafe { launch.queue(stream, &self.finite, arguments) }?;
        }
        model.update(stream, |parameters| self.queue_step(stream, parameters, gradients, count))
    }

    fn queue_step(
        &mut self,
        stream: &Stream,
        parameters: &mut Buffer<T>,
        gradients: &impl DeviceSlice<f32>,
        count: u32,
    ) -> Result<(), GpuError> {
        let rounded = self.settings.rounded();
        let arguments = Arguments::default().write(parameters);
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
        for number in numbers {
            arguments = arguments.u32(number.to_bits());
        }
        // SAFETY: as above; where the model has 32 bits itself, the kernel takes its parameters for
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

    /// Waits, and returns the parameters in 32 bits.
    ///
    /// # Errors
    /// The error of a kernel that failed before; [`MlpError::NotFinite`].
    pub fn parameters(&self, stream: &Stream, model: &Model<T>) -> Result<Parameters, MlpError> {
        match &self.master {
            Some(master) => Parameters::from_values(model.network(), stream.download(master)?),
            None => model.download(stream),
        }
    }
}

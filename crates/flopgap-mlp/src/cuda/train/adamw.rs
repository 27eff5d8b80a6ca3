//! The optimizer of a network.

use flopgap_gpu::{DeviceSlice, Stream};

use crate::{AdamWSettings, Element, MlpError, Network, Parameters};

use super::super::model::Model;
use super::ArrayAdamW;

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
    network: Network,
    array: ArrayAdamW<T>,
}

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
        parameters.check_widths(model.network())?;
        let array = ArrayAdamW::new(stream, parameters.values(), settings)?;
        Ok(AdamW { network: model.network().clone(), array })
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
        self.array.check_gradients(gradients)?;
        model.update(stream, |parameters| self.array.queue(stream, parameters, gradients))
    }

    /// Sets the learning rate of the steps that are queued (or launched as a graph) from here on.
    ///
    /// # Errors
    /// [`MlpError::Setting`]; the driver's.
    pub fn set_learning_rate(&mut self, stream: &Stream, learning_rate: f64) -> Result<(), MlpError> {
        self.array.set_learning_rate(stream, learning_rate)
    }

    /// Waits, and returns the steps that were done and those that were left out because a gradient
    /// was not finite.
    ///
    /// # Errors
    /// The error of a kernel that failed before.
    pub fn steps(&self, stream: &Stream) -> Result<(u64, u64), MlpError> {
        self.array.steps(stream)
    }

    /// Waits, and returns the parameters in 32 bits.
    ///
    /// # Errors
    /// The error of a kernel that failed before; [`MlpError::NotFinite`].
    pub fn parameters(&self, stream: &Stream, model: &Model<T>) -> Result<Parameters, MlpError> {
        Parameters::from_values(model.network(), self.array.values(stream, model.parameters())?)
    }
}

//! A network with its parameters on a GPU.

use flopgap_gpu::compile::Compiler;
use flopgap_gpu::{Buffer, Context, DeviceSlice, DeviceSliceMut, GpuError, Stream, Submission, ViewMut};

use crate::error::check;
use crate::{Element, MlpError, Network, Parameters};

use super::dispatch;
use super::kernels::{BackwardCall, ForwardCall, KernelFacts, Kernels};
use super::options::Options;
use super::padding::{GradientAdder, Padding, Staging};
use super::request::Request;
use super::source::Compiled;
use super::target::Target;

/// A network on a GPU: compiled kernels and parameters, stored as `T` ([`f32`], [`half::f16`] or
/// [`half::bf16`]).
///
/// Inputs, outputs and gradients lie in memory of the caller, row-major, a sample a row. Passes are
/// queued on a stream of the caller, and can be captured in a graph ([`Stream::capture`]): they
/// allocate nothing. Passes of one model may be queued on several streams, each with a [`Tape`] of
/// its own. Arrays, tapes and the model may be dropped as soon as a pass is queued or captured: see
/// [`Buffer`].
///
/// Context and stream may be the program's own: see [`Context::from_cudarc`] and
/// [`Stream::from_raw`].
///
/// Where a width is no multiple of 8, or a layer has no biases, kernels compute a padded network
/// ([`Network::is_padded`]), and inputs, outputs and gradients are copied on the way, the model's
/// arrays included. A forward pass without a tape then works in memory of the model: it is
/// allocated by the first pass of a batch of that size, which cannot be captured, and passes on
/// several streams wait for each other.
///
/// Memory that the crate does not own, such as a slice of `cudarc`, is refused by the compiler: it
/// could be freed while a kernel reads it.
///
/// ```compile_fail,E0277
/// # use flopgap_gpu::{Buffer, Stream, cudarc::driver::CudaSlice};
/// # use flopgap_mlp::cuda::Model;
/// # fn f(model: &Model<f32>, stream: &Stream, foreign: &CudaSlice<f32>, y: &mut Buffer<f32>) {
/// model.forward(stream, foreign, y);
/// # }
/// ```
///
/// ```no_run
/// use flopgap_gpu::Context;
/// use flopgap_mlp::cuda::{Implementation, Model, Options};
/// use flopgap_mlp::{Parameters, Size};
/// use half::f16;
///
/// let (context, network) = (Context::new(0)?, Size::Small.network());
/// let stream = context.stream()?;
/// let mut model = Model::<f16>::new(&context, &network, Options::new(Implementation::Auto))?;
/// model.upload(&stream, &Parameters::he(&network, 42))?;
///
/// let x = stream.upload(&vec![f16::ONE; 256 * network.inputs()])?;
/// let mut y = stream.zeros::<f16>(256 * network.outputs())?;
/// model.forward(&stream, &x, &mut y)?;
/// let outputs = stream.download(&y)?;
/// # Ok::<(), flopgap_mlp::MlpError>(())
/// ```
#[derive(Debug)]
pub struct Model<T: Element> {
    network: Network,
    options: Options,
    context: Context,
    kernels: Kernels,
    parameters: Buffer<T>,
    /// Where kernels compute another network.
    pub(super) padding: Option<Padding<T>>,
    /// Where kernels do not write to the caller's gradients.
    pub(super) gradients: Option<GradientAdder>,
}

/// What the forward pass keeps for the backward pass, and the memory that the backward pass works
/// in: for batches of up to a number of samples.
#[derive(Debug)]
pub struct Tape<T: Element> {
    kept: Buffer<T>,
    workspace: Buffer<u8>,
    /// Arrays of padded widths.
    staging: Option<Staging<T>>,
    /// The gradients by the parameters that kernels write, where they are not the caller's.
    gradients: Option<Buffer<f32>>,
    batch: usize,
    /// Of the model that it was made for.
    network: Network,
    options: Options,
}

impl<T: Element> Tape<T> {
    /// Bytes on the device.
    pub fn bytes(&self) -> usize {
        self.kept.num_bytes()
            + self.workspace.len()
            + self.staging.as_ref().map_or(0, Staging::bytes)
            + self.gradients.as_ref().map_or(0, Buffer::num_bytes)
    }

    /// Refuses a larger batch than it was made for, and another model's: kernels would write beyond
    /// it.
    fn check(&self, model: &Model<T>, batch: usize) -> Result<(), MlpError> {
        let (network, options) = (&model.network, model.options);
        if self.network != *network || self.options != options {
            let describe =
                |network: &Network, options: Options| format!("{} {network}", options.implementation);
            return Err(MlpError::Tape {
                made_for: describe(&self.network, self.options),
                model: describe(network, options),
            });
        }
        check_tape(self.batch, batch)
    }
}

impl<T: Element> Model<T> {
    /// Compiles the kernels, all at once (or takes them from the user's cache). The parameters are
    /// zero until [`Model::upload`].
    ///
    /// # Errors
    /// [`MlpError::Unsupported`] where there are no such kernels for this GPU; when NVRTC is
    /// missing.
    pub fn new(context: &Context, network: &Network, options: Options) -> Result<Self, MlpError> {
        Self::observed(context, network, options, &|_| ())
    }

    /// The same, and calls `observe` after each source that was compiled, on the thread that
    /// compiled it: for a program that says how far it is.
    ///
    /// # Errors
    /// As [`Model::new`].
    pub fn observed(
        context: &Context,
        network: &Network,
        options: Options,
        observe: &(dyn Fn(Compiled<'_>) + Sync),
    ) -> Result<Self, MlpError> {
        let compiler = Compiler::new()?;
        let target = options.target(Target::new(context.device()))?;
        let of_kernels = network.for_kernels()?;
        let request = Request { network: &of_kernels, precision: T::PRECISION, options, target };
        let request = dispatch::resolve(request)?;
        let (kernels, binaries) = dispatch::load(network, &request, &compiler, context, observe)?;
        let stream = context.stream()?;
        let model = Model {
            options: request.options,
            context: context.clone(),
            kernels,
            parameters: stream.zeros(network.parameters())?,
            padding: Padding::load(network, &request, &binaries, context, &stream)?,
            gradients: GradientAdder::load(network, &request, &binaries, context)?,
            network: network.clone(),
        };
        stream.synchronize()?;
        Ok(model)
    }

    /// The network.
    pub fn network(&self) -> &Network {
        &self.network
    }

    /// How it is computed; instead of [`Implementation::Auto`](super::Implementation::Auto), what
    /// that stands for.
    pub fn options(&self) -> Options {
        self.options
    }

    /// The GPU.
    pub fn context(&self) -> &Context {
        &self.context
    }

    /// The parameters on the device, in the order that [`Network`] documents.
    pub fn parameters(&self) -> &Buffer<T> {
        &self.parameters
    }

    /// Bytes on the device: the parameters; for a padded network also those that kernels read, and
    /// arrays of padded widths that forward passes have allocated so far. Compiled kernels are not
    /// in it.
    pub fn bytes(&self) -> usize {
        self.parameters.num_bytes() + self.padding.as_ref().map_or(0, Padding::bytes)
    }

    /// Calls `write` with the parameters on the device, in the order that [`Network`] documents,
    /// for an optimizer: `write` queues what it does on `stream`. Passes that are queued afterwards
    /// see it.
    ///
    /// # Errors
    /// The error of `write`; the driver's.
    pub fn update(
        &mut self,
        stream: &Stream,
        write: impl FnOnce(&mut Buffer<T>) -> Result<(), GpuError>,
    ) -> Result<(), MlpError> {
        write(&mut self.parameters)?;
        if let Some(padding) = &mut self.padding {
            padding.place(stream, &self.parameters)?;
        }
        Ok(())
    }

    /// The parameters that kernels read.
    pub(super) fn parameters_of_kernels(&self) -> &Buffer<T> {
        self.padding.as_ref().map_or(&self.parameters, Padding::parameters)
    }

    /// Takes parameters, rounded to `T`. The model's activations stay, whatever those of the
    /// parameters' network are.
    ///
    /// # Errors
    /// [`MlpError::Length`] or [`MlpError::OtherNetwork`] when they are of another network;
    /// [`MlpError::NotFinite`] when one is beyond the range of `T`.
    pub fn upload(&mut self, stream: &Stream, parameters: &Parameters) -> Result<(), MlpError> {
        parameters.check_widths(&self.network)?;
        // A weight of 1e5 is infinite in half precision.
        Parameters::from_values(&self.network, parameters.rounded::<T>().values().to_vec())?;
        let values = parameters.narrow::<T>();
        self.update(stream, |buffer| stream.write(&values, buffer))?;
        Ok(stream.synchronize()?)
    }

    /// The parameters as they are now.
    ///
    /// # Errors
    /// The error of a kernel that failed before; [`MlpError::NotFinite`].
    pub fn download(&self, stream: &Stream) -> Result<Parameters, MlpError> {
        let values = stream.download(&self.parameters)?;
        Parameters::from_values(&self.network, values.into_iter().map(T::widen).collect())
    }

    /// Memory for the training passes of this model on batches of up to `batch` samples.
    ///
    /// # Errors
    /// When there is not enough memory.
    pub fn tape(&self, stream: &Stream, batch: usize) -> Result<Tape<T>, MlpError> {
        let samples = samples(batch)?;
        let keeps = self.kernels.backward.keeps_up_to(samples);
        let of_kernels = self.network.padded();
        let kept = if keeps { batch * of_kernels.kept_of_sample() } else { 0 };
        let workspace = self.kernels.backward.workspace(samples);
        Ok(Tape {
            // An empty buffer has no address.
            kept: stream.zeros(kept.max(1))?,
            workspace: stream.zeros(workspace.max(1))?,
            staging: self.padding.as_ref().map(|padding| padding.for_training(stream, batch)).transpose()?,
            gradients: self.gradients.as_ref().map(|_| stream.zeros(of_kernels.parameters())).transpose()?,
            batch,
            network: self.network.clone(),
            options: self.options,
        })
    }

    /// Queues the outputs of `x` (`batch x inputs`) into `y` (`batch x outputs`).
    ///
    /// # Errors
    /// [`MlpError::Length`]; [`MlpError::Unaligned`] for a view that does not begin at a multiple
    /// of 16 bytes; the driver's.
    pub fn forward(
        &self,
        stream: &Stream,
        x: &impl DeviceSlice<T>,
        y: &mut impl DeviceSliceMut<T>,
    ) -> Result<(), MlpError> {
        self.queue_forward(stream, x, y, None)
    }

    /// The same, and keeps what [`Model::backward`] needs in `tape`.
    ///
    /// # Errors
    /// As [`Model::forward`]; [`MlpError::Batch`] when the batch is larger than the tape's;
    /// [`MlpError::Tape`] when it is of another model.
    pub fn forward_train(
        &self,
        stream: &Stream,
        x: &impl DeviceSlice<T>,
        y: &mut impl DeviceSliceMut<T>,
        tape: &mut Tape<T>,
    ) -> Result<(), MlpError> {
        self.queue_forward(stream, x, y, Some(tape))
    }

    fn queue_forward(
        &self,
        stream: &Stream,
        x: &impl DeviceSlice<T>,
        y: &mut impl DeviceSliceMut<T>,
        tape: Option<&mut Tape<T>>,
    ) -> Result<(), MlpError> {
        let batch = self.batch_of(x.len())?;
        check("outputs", batch * self.network.outputs(), y.len())?;
        let samples = samples(batch)?;
        let mut tape = tape;
        if let Some(tape) = &tape {
            tape.check(self, batch)?;
        }
        let Some(padding) = &self.padding else {
            // Until the kernels are queued: see `ForwardCall`.
            let submission = stream.submission();
            let x = aligned("inputs", submission.read(x)?)?;
            let y = aligned("outputs", submission.write(y)?)?;
            let kept = tape.as_mut().map(|tape| &mut tape.kept);
            return self.queue_forward_kernels(&submission, stream, samples, [x, y], kept);
        };
        let (mut of_model, kept);
        // `Tape::check` saw that a tape is this model's, which has staging.
        let staging = if let Some(Tape { kept: of_tape, staging: Some(staging), .. }) = tape {
            kept = Some(of_tape);
            staging
        } else {
            kept = None;
            of_model = padding.staging(stream, batch)?;
            &mut *of_model
        };
        padding.before_forward(stream, samples, x, staging)?;
        {
            let submission = stream.submission();
            let x = match &staging.x {
                Some(x) => submission.read(x)?,
                None => aligned("inputs", submission.read(x)?)?,
            };
            let to = match &mut staging.y {
                Some(y) => submission.write(y)?,
                None => aligned("outputs", submission.write(y)?)?,
            };
            self.queue_forward_kernels(&submission, stream, samples, [x, to], kept)?;
        }
        Ok(padding.after_forward(stream, samples, staging, y)?)
    }

    /// `x` and `y` are addresses of the submission; `kept` is memory of a tape.
    fn queue_forward_kernels(
        &self,
        submission: &Submission<'_>,
        stream: &Stream,
        batch: u32,
        [x, y]: [u64; 2],
        kept: Option<&mut Buffer<T>>,
    ) -> Result<(), MlpError> {
        let keeps = self.kernels.backward.keeps(batch);
        let tape = kept.filter(|_| keeps).map(|kept| submission.write(kept)).transpose()?;
        let parameters = submission.read(self.parameters_of_kernels())?;
        let call = ForwardCall { stream, batch, parameters, x, y, tape };
        Ok(self.kernels.forward.queue(&call)?)
    }

    /// Queues the gradients of the loss whose gradient by the outputs is `dy`, after
    /// [`Model::forward_train`] of the same `x`, `y` and `tape`: by the inputs into `dx` (`batch x
    /// inputs`) if it is given, by the parameters, summed over the batch, into `gradients`, which
    /// is overwritten or added to ([`Options::gradients`](super::Options::gradients)).
    ///
    /// All arrays may be views ([`Buffer::slice_mut`]), for example `dx` a part of a larger array.
    ///
    /// # Errors
    /// As [`Model::forward_train`].
    #[expect(clippy::too_many_arguments, reason = "a backward pass has these")]
    pub fn backward(
        &self,
        stream: &Stream,
        x: &impl DeviceSlice<T>,
        y: &impl DeviceSlice<T>,
        dy: &impl DeviceSlice<T>,
        tape: &mut Tape<T>,
        dx: Option<ViewMut<'_, T>>,
        gradients: &mut impl DeviceSliceMut<f32>,
    ) -> Result<(), MlpError> {
        let batch = self.batch_of(x.len())?;
        check("outputs", batch * self.network.outputs(), y.len())?;
        check("gradients by the outputs", batch * self.network.outputs(), dy.len())?;
        check("gradients by the parameters", self.network.parameters(), gradients.len())?;
        if let Some(dx) = &dx {
            check("gradients by the inputs", x.len(), dx.len())?;
        }
        tape.check(self, batch)?;
        let samples = samples(batch)?;
        let mut dx = dx;
        let mut none = Staging::empty();
        let staging = tape.staging.as_mut().unwrap_or(&mut none);
        if let Some(padding) = &self.padding {
            padding.before_backward(stream, samples, dy, staging)?;
        }
        {
            // Until the kernels are queued: see `BackwardCall`.
            let submission = stream.submission();
            let call = BackwardCall {
                stream,
                batch: samples,
                parameters: submission.read(self.parameters_of_kernels())?,
                x: match &staging.x {
                    // What the forward pass with this tape left there.
                    Some(x) => submission.read(x)?,
                    None => aligned("inputs", submission.read(x)?)?,
                },
                y: match &staging.y {
                    Some(y) => submission.read(y)?,
                    None => aligned("outputs", submission.read(y)?)?,
                },
                dy: match &staging.dy {
                    Some(dy) => submission.read(dy)?,
                    None => aligned("gradients by the outputs", submission.read(dy)?)?,
                },
                tape: submission.read(&tape.kept)?,
                dx: match (&mut dx, &mut staging.dx) {
                    (None, _) => None,
                    (Some(_), Some(dx)) => Some(submission.write(dx)?),
                    (Some(dx), None) => Some(aligned("gradients by the inputs", submission.write(dx)?)?),
                },
                gradients: match &mut tape.gradients {
                    Some(gradients) => submission.write(gradients)?,
                    None => aligned("gradients by the parameters", submission.write(gradients)?)?,
                },
                workspace: submission.write(&mut tape.workspace)?,
            };
            self.kernels.backward.queue(&call)?;
        }
        let places = self.padding.as_ref().map(Padding::places);
        if let (Some(adder), Some(from)) = (&self.gradients, &tape.gradients) {
            adder.queue(stream, from, places.as_ref(), gradients)?;
        }
        if let (Some(padding), Some(dx)) = (&self.padding, &mut dx) {
            padding.after_backward(stream, samples, staging, dx)?;
        }
        Ok(())
    }

    /// The kernels of the forward and the backward pass, and what each takes of a multiprocessor.
    ///
    /// # Errors
    /// When the driver refuses.
    pub fn facts(&self) -> Result<Vec<KernelFacts>, MlpError> {
        let mut facts = self.kernels.forward.facts()?;
        facts.extend(self.kernels.backward.facts()?);
        Ok(facts)
    }

    pub(super) fn batch_of(&self, inputs: usize) -> Result<usize, MlpError> {
        let batch = inputs / self.network.inputs();
        check("inputs", batch.max(1) * self.network.inputs(), inputs)?;
        Ok(batch)
    }
}

/// The batch as kernels take it.
pub(super) fn samples(batch: usize) -> Result<u32, MlpError> {
    const MOST: u32 = i32::MAX as u32;
    match u32::try_from(batch) {
        Ok(samples @ 1..=MOST) => Ok(samples),
        _ => Err(MlpError::Batch { found: batch, most: MOST as usize }),
    }
}

/// Kernels read and write 16 bytes at a time: a view that begins elsewhere than at such a place is
/// refused.
pub(super) fn aligned(what: &'static str, address: u64) -> Result<u64, MlpError> {
    if address.is_multiple_of(16) { Ok(address) } else { Err(MlpError::Unaligned { what }) }
}

fn check_tape(made_for: usize, batch: usize) -> Result<(), MlpError> {
    if batch <= made_for { Ok(()) } else { Err(MlpError::Batch { found: batch, most: made_for }) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn views_begin_at_sixteen_bytes() {
        assert_eq!(aligned("inputs", 4096), Ok(4096));
        let error = aligned("inputs", 4104).unwrap_err();
        assert_eq!(error.to_string(), "inputs: the view is not aligned to 16 bytes");
    }
}

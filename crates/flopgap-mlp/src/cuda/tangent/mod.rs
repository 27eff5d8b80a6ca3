//! Second derivatives by the inputs: both passes along a direction.

use flopgap_gpu::compile::Compiler;
use flopgap_gpu::{Buffer, DeviceSlice, DeviceSliceMut, Kernel, Stream, View, ViewMut};

use crate::error::check;
use crate::{Element, MlpError, Network, Precision};

use super::budget;
use super::forloop::{self, Plan};
use super::gradients::Gradients;
use super::kernels::BackwardCall;
use super::launch::Arguments;
use super::model::{Model, aligned, samples};
use super::options::{Implementation, Options};
use super::padding;
use super::request::Request;
use super::source::{Binaries, Program, Source};
use super::target::Target;

const FORWARD: &str = "tangent_mlp_forward";
const BACKWARD: &str = "tangent_mlp_backward";

/// Where derivatives are taken, and along what. Arrays are row-major, a sample a row.
#[derive(Debug)]
pub struct Along<'a, T: Element> {
    /// Inputs, `batch x inputs`.
    pub x: View<'a, T>,
    /// The direction in which they move, of the same size.
    pub direction: View<'a, T>,
    /// The gradients by the outputs, `batch x outputs`.
    pub dy: View<'a, T>,
    /// The direction in which those move; none if they are constant.
    pub dy_direction: Option<View<'a, T>>,
}

/// Where results are written; what is not wanted is left out.
#[derive(Debug, Default)]
pub struct Derivatives<'a, T: Element> {
    /// Of the outputs along the direction, `batch x outputs`: the Jacobian times the direction.
    pub y: Option<ViewMut<'a, T>>,
    /// Of the gradients by the inputs, `batch x inputs`: the Hessian, of the sum of the outputs
    /// weighted by `dy`, times the direction, plus the gradients that the direction of `dy` gives.
    pub dx: Option<ViewMut<'a, T>>,
    /// Of the gradients by the parameters, summed over the batch, overwritten or added to as
    /// [`Options::gradients`] of the model says.
    pub gradients: Option<ViewMut<'a, f32>>,
}

/// Derivatives of a model's two passes along directions of its inputs: second derivatives, forward
/// over reverse, in one more pass each way instead of a Hessian.
///
/// They are Hessian-vector products: along the unit vectors, the Hessian itself, whose diagonal
/// sums to a Laplacian. And they train losses that contain the gradient by the inputs, as the
/// eikonal equation of a signed distance or a differential equation of first order does: along the
/// derivative of the loss by that gradient, [`Derivatives::gradients`] are the gradients of the
/// loss by the parameters.
///
/// Kernels are scalar multiply-adds as those of [`Implementation::Forloop`], whatever computes the
/// model. Their sums come in the same order in every run.
///
/// ```no_run
/// use flopgap_gpu::Context;
/// use flopgap_mlp::cuda::tangent::{Along, Derivatives, Tangents};
/// use flopgap_mlp::cuda::{Implementation, Model, Options};
/// use flopgap_mlp::{Activation, Network, Parameters};
///
/// let (context, batch) = (Context::new(0)?, 4096);
/// let stream = context.stream()?;
/// let network = Network::new(&[3, 64, 64, 1])?.with_activation(Activation::Silu);
/// let mut model = Model::<f32>::new(&context, &network, Options::new(Implementation::Auto))?;
/// model.upload(&stream, &Parameters::he(&network, 42))?;
///
/// let mut tangents = Tangents::new(&stream, &model, batch)?;
/// let x = stream.zeros::<f32>(batch * 3)?;
/// let direction = stream.upload(&[1.0, 0.0, 0.0].repeat(batch))?;
/// let dy = stream.upload(&vec![1.0; batch])?;
/// let mut row_of_hessian = stream.zeros::<f32>(batch * 3)?;
/// tangents.queue(
///     &stream,
///     &model,
///     &Along { x: x.as_view(), direction: direction.as_view(), dy: dy.as_view(), dy_direction: None },
///     Derivatives { dx: Some(row_of_hessian.as_view_mut()), ..Derivatives::default() },
/// )?;
/// # Ok::<(), flopgap_mlp::MlpError>(())
/// ```
#[derive(Debug)]
pub struct Tangents<T: Element> {
    network: Network,
    /// For few rows and for many.
    passes: [Passes; 2],
    gradients: Gradients<Kernel>,
    /// To and from rows of pairs.
    place: [Kernel; 2],
    take: [Kernel; 2],
    x: Buffer<T>,
    y: Buffer<T>,
    dy: Buffer<T>,
    dx: Buffer<T>,
    tape: Buffer<T>,
    slopes: Buffer<T>,
    workspace: Buffer<u8>,
    gradients_of_kernels: Option<Buffer<f32>>,
    batch: usize,
}

#[derive(Debug)]
struct Passes {
    plan: Plan,
    forward: Kernel,
    backward: Kernel,
}

/// The sources of the kernels of a network, for a device that need not be here.
///
/// # Errors
/// [`MlpError::Unsupported`] where a layer is too wide; [`MlpError::Widths`].
pub fn sources(network: &Network, precision: Precision, target: Target) -> Result<Vec<Source>, MlpError> {
    let padded = network.for_kernels()?;
    let request = request(&padded, precision, target);
    let mut sources: Vec<Source> =
        plans(&request)?.iter().map(|plan| source(network, &request, plan)).collect();
    sources.push(Gradients::of_pairs(&request).source(&request));
    Ok(sources)
}

fn request(padded: &Network, precision: Precision, target: Target) -> Request<'_> {
    Request { network: padded, precision, options: Options::new(Implementation::Forloop), target }
}

fn plans(request: &Request<'_>) -> Result<[Plan; 2], MlpError> {
    Plan::few_and_many(request).map_err(|reason| request.unsupported(reason))
}

fn source(own: &Network, request: &Request<'_>, plan: &Plan) -> Source {
    // An activation, its slope and its curvature take twice what an activation and a slope do, or
    // less.
    let alike = forloop::instructions(request) > budget::KERNEL;
    let copies = [
        ("COPY_THREADS", padding::THREADS as usize),
        ("OWN_INPUTS", own.inputs()),
        ("OWN_OUTPUTS", own.outputs()),
    ];
    request.kernel("tangent/tangent.cu", "", &[&plan.constants(alike)[..], &copies].concat())
}

impl<T: Element> Tangents<T> {
    /// Compiles the kernels for a model (or takes them from the user's cache), and allocates memory
    /// for batches of up to `batch` samples.
    ///
    /// # Errors
    /// [`MlpError::Unsupported`] where a layer is too wide; [`MlpError::Batch`]; when there is not
    /// enough memory or NVRTC is missing.
    pub fn new(stream: &Stream, model: &Model<T>, batch: usize) -> Result<Self, MlpError> {
        let (context, network) = (model.context(), model.network());
        let rows = samples(batch.saturating_mul(2))
            .map_err(|_| MlpError::Batch { found: batch, most: i32::MAX as usize / 2 })?;
        let padded = network.for_kernels()?;
        let target = model.options().target(Target::new(context.device()))?;
        let request = request(&padded, T::PRECISION, target);
        let binaries =
            Binaries::compile(&Compiler::new()?, sources(network, T::PRECISION, target)?, &|_| ())?;
        let load = |plan: Plan| -> Result<(Program, Passes), MlpError> {
            let program = source(network, &request, &plan).load(&binaries, context)?;
            let kernel = |name| program.kernel(name, plan.shared());
            let passes = Passes { forward: kernel(FORWARD)?, backward: kernel(BACKWARD)?, plan };
            Ok((program, passes))
        };
        let [few, many] = plans(&request)?;
        let ((program, few), (_, many)) = (load(few)?, load(many)?);
        let copies = |kind: &str| -> Result<[Kernel; 2], MlpError> {
            let kernel = |what: &str| program.kernel(&format!("mlp_copy_{kind}_pairs_of_{what}"), 0);
            Ok([kernel("inputs")?, kernel("outputs")?])
        };
        let gradients = Gradients::of_pairs(&request);
        let gradients = gradients.load(&gradients.source(&request).load(&binaries, context)?)?;
        let all: usize = padded.widths()[1..].iter().sum();
        let array = |width: usize| stream.zeros::<T>(2 * batch * width);
        Ok(Tangents {
            network: network.clone(),
            passes: [few, many],
            place: copies("to")?,
            take: copies("from")?,
            x: array(padded.inputs())?,
            y: array(padded.outputs())?,
            dy: array(padded.outputs())?,
            dx: array(padded.inputs())?,
            tape: array(all - padded.outputs())?,
            slopes: array(all)?,
            workspace: stream.zeros(gradients.workspace(rows))?,
            gradients,
            gradients_of_kernels: model
                .gradients
                .as_ref()
                .map(|_| stream.zeros(padded.parameters()))
                .transpose()?,
            batch,
        })
    }

    /// Bytes on the device.
    pub fn bytes(&self) -> usize {
        let arrays = [&self.x, &self.y, &self.dy, &self.dx, &self.tape, &self.slopes];
        arrays.into_iter().map(Buffer::num_bytes).sum::<usize>()
            + self.workspace.len()
            + self.gradients_of_kernels.as_ref().map_or(0, Buffer::num_bytes)
    }

    /// Queues the derivatives of the passes of `model` along a direction.
    ///
    /// # Errors
    /// [`MlpError::Length`]; [`MlpError::Batch`] when the batch is larger than this was made for;
    /// [`MlpError::OtherNetwork`] when it was made for another; [`MlpError::Unaligned`] for
    /// gradients that do not begin at a multiple of 16 bytes; the driver's.
    pub fn queue(
        &mut self,
        stream: &Stream,
        model: &Model<T>,
        along: &Along<'_, T>,
        derivatives: Derivatives<'_, T>,
    ) -> Result<(), MlpError> {
        let Along { x, direction, dy, dy_direction } = along;
        let network = model.network();
        if *network != self.network {
            let (expected, found) = (self.network.to_string(), network.to_string());
            return Err(MlpError::OtherNetwork { found, expected });
        }
        let batch = model.batch_of(x.len())?;
        let (inputs, outputs) = (batch * network.inputs(), batch * network.outputs());
        let Derivatives { y: y_along, dx: dx_along, gradients } = derivatives;
        for (what, expected, found) in [
            ("directions of the inputs", inputs, Some(direction.len())),
            ("gradients by the outputs", outputs, Some(dy.len())),
            (
                "directions of the gradients by the outputs",
                outputs,
                dy_direction.as_ref().map(DeviceSlice::len),
            ),
            ("derivatives of the outputs", outputs, y_along.as_ref().map(DeviceSlice::len)),
            ("derivatives of the gradients by the inputs", inputs, dx_along.as_ref().map(DeviceSlice::len)),
            (
                "derivatives of the gradients by the parameters",
                network.parameters(),
                gradients.as_ref().map(DeviceSlice::len),
            ),
        ] {
            check(what, expected, found.unwrap_or(expected))?;
        }
        if batch > self.batch {
            return Err(MlpError::Batch { found: batch, most: self.batch });
        }
        let count = samples(batch)?;
        let padded = network.padded();
        let [inputs, outputs] = [padded.inputs(), padded.outputs()];
        let [place_inputs, place_outputs] = &self.place;
        place(stream, place_inputs, count, inputs, 0, Some(x), &mut self.x)?;
        place(stream, place_inputs, count, inputs, 1, Some(direction), &mut self.x)?;
        place(stream, place_outputs, count, outputs, 0, Some(dy), &mut self.dy)?;
        place(stream, place_outputs, count, outputs, 1, dy_direction.as_ref(), &mut self.dy)?;

        let rows = 2 * count;
        let Passes { plan, forward, backward } = forloop::of_batch(&self.passes, rows);
        let arguments = Arguments::default()
            .read(model.parameters_of_kernels())
            .read(&self.x)
            .write(&mut self.y)
            .write(&mut self.tape)
            .write(&mut self.slopes)
            .u32(rows);
        // SAFETY: these are the kernel's arguments; arrays have two rows for each sample of the
        // largest batch.
        unsafe { plan.launch(rows).queue(stream, forward, arguments) }?;
        if let Some(mut to) = y_along {
            take(stream, &self.take[1], count, outputs, &self.y, &mut to)?;
        }
        if dx_along.is_none() && gradients.is_none() {
            return Ok(());
        }
        let arguments =
            Arguments::default().read(model.parameters_of_kernels()).read(&self.dy).read(&self.slopes);
        let arguments = match dx_along {
            Some(_) => arguments.write(&mut self.dx),
            None => arguments.addresses([0]),
        };
        // SAFETY: as above; deltas lie where the workspace begins, and `dx` may be at address 0.
        unsafe { plan.launch(rows).queue(stream, backward, arguments.write(&mut self.workspace).u32(rows)) }?;
        if let Some(mut to) = dx_along {
            take(stream, &self.take[0], count, inputs, &self.dx, &mut to)?;
        }
        gradients.map_or(Ok(()), |to| self.gradients(stream, model, rows, to))
    }

    /// Sums what the backward pass left in the workspace.
    fn gradients(
        &mut self,
        stream: &Stream,
        model: &Model<T>,
        rows: u32,
        mut to: ViewMut<'_, f32>,
    ) -> Result<(), MlpError> {
        {
            let submission = stream.submission();
            self.gradients.queue(&BackwardCall {
                stream,
                batch: rows,
                parameters: submission.read(model.parameters_of_kernels())?,
                x: submission.read(&self.x)?,
                y: submission.read(&self.y)?,
                dy: submission.read(&self.dy)?,
                tape: submission.read(&self.tape)?,
                dx: None,
                gradients: match &mut self.gradients_of_kernels {
                    Some(gradients) => submission.write(gradients)?,
                    None => aligned("gradients by the parameters", submission.write(&mut to)?)?,
                },
                workspace: submission.write(&mut self.workspace)?,
            })?;
        }
        if let (Some(adder), Some(from)) = (&model.gradients, &self.gradients_of_kernels) {
            let places = model.padding.as_ref().map(padding::Padding::places);
            adder.queue(stream, from, places.as_ref(), &mut to)?;
        }
        Ok(())
    }
}

/// Queues the copy of the caller's rows, or of zeros, to every second of the pairs, from the
/// `first` of those on.
fn place<T: Element>(
    stream: &Stream,
    kernel: &Kernel,
    rows: u32,
    width: usize,
    first: usize,
    from: Option<&View<'_, T>>,
    to: &mut Buffer<T>,
) -> Result<(), MlpError> {
    let mut to = to.slice_mut(first * width..);
    let arguments = match from {
        Some(from) => Arguments::default().read(from),
        None => Arguments::default().addresses([0]),
    };
    // SAFETY: these are the kernel's arguments; pairs have so many rows of that width.
    unsafe {
        let arguments = arguments.write(&mut to).u32(rows);
        Ok(padding::launch(rows as usize * width).queue(stream, kernel, arguments)?)
    }
}

/// Queues the copy of the tangents among the pairs to the caller's rows.
fn take<T: Element>(
    stream: &Stream,
    kernel: &Kernel,
    rows: u32,
    width: usize,
    from: &Buffer<T>,
    to: &mut impl DeviceSliceMut<T>,
) -> Result<(), MlpError> {
    let from = from.slice(width..);
    let launch = padding::launch(to.len());
    // SAFETY: as above.
    unsafe { Ok(launch.queue(stream, kernel, Arguments::default().read(&from).write(to).u32(rows))?) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flopgap_gpu::ComputeCapability;

    #[test]
    fn layers_that_do_not_fit_a_block_are_refused() {
        let target = Target::nominal(ComputeCapability { major: 9, minor: 0 });
        let of = |width| {
            let network = Network::new(&[width, width, width]).unwrap();
            sources(&network, Precision::F16, target).map(|sources| sources.len())
        };
        assert_eq!(of(2048), Ok(3));
        let Err(MlpError::Unsupported { reason, .. }) = of(8192) else { panic!("it fits") };
        assert_eq!(reason, "the layers of 8 samples take 557056 bytes of shared memory, a block has 232448");
    }
}

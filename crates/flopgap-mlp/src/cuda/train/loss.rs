//! The loss.

use std::marker::PhantomData;

use flopgap_gpu::{Buffer, DeviceSlice, DeviceSliceMut, Kernel, Stream};

use crate::error::check;
use crate::{Element, MlpError, Network};

use super::super::launch::{Arguments, Launch};
use super::super::model::samples;
use super::super::target::Target;
use crate::cuda::source::Binaries;

use super::{THREADS, loss_source, request};

/// The mean squared error on a GPU: the mean of `(y - target)^2` over samples and outputs, and its
/// gradient by the outputs. The sum comes in the same order in every run. See
/// [`AdamW`](super::AdamW) for an example.
#[derive(Debug)]
pub struct MeanSquaredError<T: Element> {
    kernel: Kernel,
    outputs: usize,
    columns: usize,
    partial: Buffer<f64>,
    done: Buffer<u32>,
    stored: PhantomData<T>,
}

/// Blocks at most: so many partial sums.
const MOST_BLOCKS: u32 = 1024;

impl<T: Element> MeanSquaredError<T> {
    /// For outputs of `network`, of which the first `columns` count: widths are multiples of 8, and
    /// colors, say, are three. The gradient by the others is 0.
    ///
    /// # Errors
    /// [`MlpError::Length`] when there are not so many outputs, or `columns` is 0; when NVRTC is
    /// missing.
    pub fn new(stream: &Stream, network: &Network, columns: usize) -> Result<Self, MlpError> {
        network.check_for_gpu()?;
        let outputs = network.outputs();
        if columns == 0 || columns > outputs {
            return Err(MlpError::Length { what: "outputs that count", expected: outputs, found: columns });
        }
        let context = stream.context();
        let request = request(network, T::PRECISION, Target::new(context.device()));
        let program = loss_source(&request, columns).load(&Binaries::default(), context)?;
        let error = MeanSquaredError {
            kernel: program.kernel("mean_squared_error_reduce", 0)?,
            outputs,
            columns,
            partial: stream.zeros(MOST_BLOCKS as usize)?,
            done: stream.zeros(1)?,
            stored: PhantomData,
        };
        stream.synchronize()?;
        Ok(error)
    }

    /// Queues the mean squared error of `y` (`batch x outputs`) from `targets` (`batch x columns`)
    /// into `loss`, one number, and its gradient by `y`, times `scale`, into `dy`. In half
    /// precision a scale like 1,024 keeps small gradients from vanishing; give it to the optimizer,
    /// too.
    ///
    /// # Errors
    /// [`MlpError::Length`]; [`MlpError::Batch`]; the driver's.
    #[expect(clippy::cast_possible_truncation, reason = "rounded once, from 64 bits")]
    pub fn queue(
        &mut self,
        stream: &Stream,
        y: &impl DeviceSlice<T>,
        targets: &impl DeviceSlice<f32>,
        scale: f32,
        dy: &mut impl DeviceSliceMut<T>,
        loss: &mut impl DeviceSliceMut<f32>,
    ) -> Result<(), MlpError> {
        let batch = y.len() / self.outputs;
        check("outputs", batch * self.outputs, y.len())?;
        check("targets", batch * self.columns, targets.len())?;
        check("gradients by the outputs", y.len(), dy.len())?;
        check("the loss", 1, loss.len())?;
        let count = samples(batch)?;
        let factor = 2.0 * f64::from(scale) / (batch as f64 * self.columns as f64);
        let blocks = y.len().div_ceil(THREADS as usize * 4).min(MOST_BLOCKS as usize);
        let arguments = Arguments::default()
            .read(y)
            .read(targets)
            .write(dy)
            .write(&mut self.partial)
            .write(&mut self.done)
            .write(loss)
            .u32(count)
            .u32((factor as f32).to_bits());
        let launch = Launch::new(u32::try_from(blocks).unwrap_or(MOST_BLOCKS), THREADS);
        // SAFETY: these are the kernel's arguments; the lengths were checked, and there is a
        // partial sum for every block.
        unsafe { launch.queue(stream, &self.kernel, arguments) }?;
        Ok(())
    }
}

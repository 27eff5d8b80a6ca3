//! What is queued around the kernels of a network whose arrays are not those of the caller: widths
//! that are no multiples of 8, layers without biases, gradients that are added.
//!
//! A bias that a layer does not have is a zero for the kernels. Its gradient is theirs alone: the
//! caller's array, and so an optimizer, has no place for it.
//!
//! Padding adds exact zeros to every sum. Only numbers that are not finite see it: zero times
//! infinity is not a number.

use std::sync::{Mutex, MutexGuard, PoisonError};

use flopgap_gpu::{Buffer, Context, DeviceSlice, DeviceSliceMut, GpuError, Kernel, Stream, View};

use crate::{Element, MlpError, Network};

use super::launch::{Arguments, Launch};
use super::options::Gradients;
use super::request::Request;
use super::source::{Binaries, Program, Source};

/// Threads of a block.
pub(super) const THREADS: u32 = 256;
/// Blocks of a copy of rows, at most: enough for every multiprocessor of any GPU.
const MOST_BLOCKS: u32 = 2048;

/// The source, if the network needs it. `request` is of the padded network.
pub(super) fn source(own: &Network, request: &Request<'_>) -> Option<Source> {
    let add = request.options.gradients == Gradients::Add;
    (add || own.is_padded()).then(|| {
        let constants = [
            ("COPY_THREADS", THREADS as usize),
            ("OWN_INPUTS", own.inputs()),
            ("OWN_OUTPUTS", own.outputs()),
            ("OWN_PARAMETERS", own.parameters()),
            ("ADD_GRADIENTS", usize::from(add)),
        ];
        request.source("padding.cu", include_str!("padding.cu"), &constants)
    })
}

/// Rows of one width in the caller's arrays and of a larger one in those of the kernels.
#[derive(Debug)]
struct Rows {
    own: usize,
    padded: usize,
    pad: Kernel,
    cut: Kernel,
}

impl Rows {
    fn load(program: &Program, what: &str, own: usize, padded: usize) -> Result<Self, GpuError> {
        let kernel = |kind| program.kernel(&format!("mlp_copy_{kind}_{what}"), 0);
        Ok(Rows { own, padded, pad: kernel("padded")?, cut: kernel("cut")? })
    }

    fn staging<T: Element>(&self, stream: &Stream, batch: usize) -> Result<Option<Buffer<T>>, GpuError> {
        (self.own != self.padded).then(|| stream.zeros(batch * self.padded)).transpose()
    }

    /// Copies rows of the caller to where kernels read them.
    fn pad<T>(
        &self,
        stream: &Stream,
        rows: u32,
        from: &impl DeviceSlice<T>,
        to: &mut Buffer<T>,
    ) -> Result<(), GpuError> {
        debug_assert!(from.len() == rows as usize * self.own && to.len() >= rows as usize * self.padded);
        let arguments = Arguments::default().read(from).write(to).u32(rows);
        // SAFETY: these are the kernel's arguments; both arrays have so many rows.
        unsafe { launch(rows as usize * self.padded).queue(stream, &self.pad, arguments) }
    }

    /// Copies rows that kernels wrote to the caller.
    fn cut<T>(
        &self,
        stream: &Stream,
        rows: u32,
        from: &Buffer<T>,
        to: &mut impl DeviceSliceMut<T>,
    ) -> Result<(), GpuError> {
        debug_assert!(to.len() == rows as usize * self.own && from.len() >= rows as usize * self.padded);
        let arguments = Arguments::default().read(from).write(to).u32(rows);
        // SAFETY: as above.
        unsafe { launch(rows as usize * self.own).queue(stream, &self.cut, arguments) }
    }
}

/// For copies of so many numbers.
pub(super) fn launch(numbers: usize) -> Launch {
    let blocks = numbers.div_ceil(THREADS as usize).clamp(1, MOST_BLOCKS as usize);
    Launch::new(u32::try_from(blocks).unwrap_or(MOST_BLOCKS), THREADS)
}

/// A thread for every parameter.
fn launch_for_parameters(parameters: usize) -> Result<Launch, GpuError> {
    let too_large = GpuError::TooLarge { what: "parameters of a network", value: parameters };
    let blocks = u32::try_from(parameters.div_ceil(THREADS as usize)).map_err(|_| too_large)?;
    Ok(Launch::new(blocks, THREADS))
}

/// Arrays of the padded widths, where those differ from the caller's.
#[derive(Debug, Default)]
pub(super) struct Staging<T: Element> {
    pub(super) x: Option<Buffer<T>>,
    pub(super) y: Option<Buffer<T>>,
    pub(super) dy: Option<Buffer<T>>,
    pub(super) dx: Option<Buffer<T>>,
    batch: usize,
}

impl<T: Element> Staging<T> {
    /// For a network that needs none.
    pub(super) fn empty() -> Self {
        Staging { x: None, y: None, dy: None, dx: None, batch: 0 }
    }

    /// Bytes on the device.
    pub(super) fn bytes(&self) -> usize {
        [&self.x, &self.y, &self.dy, &self.dx].into_iter().flatten().map(Buffer::num_bytes).sum()
    }
}

/// The padded network that kernels compute for another one.
#[derive(Debug)]
pub(super) struct Padding<T: Element> {
    inputs: Rows,
    outputs: Rows,
    place: Kernel,
    /// Where each parameter lies among those of the padded network.
    places: Buffer<u32>,
    parameters: Buffer<T>,
    /// For passes without a tape, on any stream: buffers order those.
    forward: Mutex<Staging<T>>,
}

impl<T: Element> Padding<T> {
    /// For a network of the caller; `request` is of the padded one.
    pub(super) fn load(
        own: &Network,
        request: &Request<'_>,
        binaries: &Binaries,
        context: &Context,
        stream: &Stream,
    ) -> Result<Option<Self>, MlpError> {
        let Some(source) = source(own, request).filter(|_| own.is_padded()) else { return Ok(None) };
        let program = source.load(binaries, context)?;
        let padded = request.network;
        let place = |place: usize| {
            u32::try_from(place)
                .map_err(|_| GpuError::TooLarge { what: "parameters of a network", value: place })
        };
        let places = own.places_in_padded().into_iter().map(place).collect::<Result<Vec<_>, _>>()?;
        Ok(Some(Padding {
            inputs: Rows::load(&program, "inputs", own.inputs(), padded.inputs())?,
            outputs: Rows::load(&program, "outputs", own.outputs(), padded.outputs())?,
            place: program.kernel("mlp_copy_parameters", 0)?,
            places: stream.upload(&places)?,
            parameters: stream.zeros(padded.parameters())?,
            forward: Mutex::new(Staging::empty()),
        }))
    }

    /// Bytes on the device.
    pub(super) fn bytes(&self) -> usize {
        // What is in it has no meaning between passes, also after a panic.
        let forward = self.forward.lock().unwrap_or_else(PoisonError::into_inner);
        self.places.num_bytes() + self.parameters.num_bytes() + forward.bytes()
    }

    /// The parameters as kernels read them.
    pub(super) fn parameters(&self) -> &Buffer<T> {
        &self.parameters
    }

    /// Queues the parameters of the caller's network to where kernels read them.
    pub(super) fn place(&mut self, stream: &Stream, own: &Buffer<T>) -> Result<(), GpuError> {
        let arguments = Arguments::default().read(own).write(&mut self.parameters).read(&self.places);
        // SAFETY: these are the kernel's arguments; there is a place for each parameter.
        unsafe { launch_for_parameters(own.len())?.queue(stream, &self.place, arguments) }
    }

    /// Staging for training passes on up to `batch` samples.
    pub(super) fn for_training(&self, stream: &Stream, batch: usize) -> Result<Staging<T>, GpuError> {
        let (dy, dx) = (self.outputs.staging(stream, batch)?, self.inputs.staging(stream, batch)?);
        Ok(Staging { dy, dx, ..self.for_forward(stream, batch)? })
    }

    fn for_forward(&self, stream: &Stream, batch: usize) -> Result<Staging<T>, GpuError> {
        let (x, y) = (self.inputs.staging(stream, batch)?, self.outputs.staging(stream, batch)?);
        Ok(Staging { x, y, dy: None, dx: None, batch })
    }

    /// Staging for a forward pass without a tape, made larger where it must be.
    pub(super) fn staging(
        &self,
        stream: &Stream,
        batch: usize,
    ) -> Result<MutexGuard<'_, Staging<T>>, GpuError> {
        // What is in it has no meaning between passes, also after a panic.
        let mut staging = self.forward.lock().unwrap_or_else(PoisonError::into_inner);
        if staging.batch < batch {
            *staging = self.for_forward(stream, batch)?;
        }
        Ok(staging)
    }

    /// Queues the copies before a forward pass.
    pub(super) fn before_forward(
        &self,
        stream: &Stream,
        rows: u32,
        x: &impl DeviceSlice<T>,
        staging: &mut Staging<T>,
    ) -> Result<(), GpuError> {
        staging.x.as_mut().map_or(Ok(()), |to| self.inputs.pad(stream, rows, x, to))
    }

    /// Queues the copies after a forward pass.
    pub(super) fn after_forward(
        &self,
        stream: &Stream,
        rows: u32,
        staging: &Staging<T>,
        y: &mut impl DeviceSliceMut<T>,
    ) -> Result<(), GpuError> {
        staging.y.as_ref().map_or(Ok(()), |from| self.outputs.cut(stream, rows, from, y))
    }

    /// Queues the copies before a backward pass.
    pub(super) fn before_backward(
        &self,
        stream: &Stream,
        rows: u32,
        dy: &impl DeviceSlice<T>,
        staging: &mut Staging<T>,
    ) -> Result<(), GpuError> {
        staging.dy.as_mut().map_or(Ok(()), |to| self.outputs.pad(stream, rows, dy, to))
    }

    /// Queues the copies after a backward pass whose gradients by the inputs are wanted.
    pub(super) fn after_backward(
        &self,
        stream: &Stream,
        rows: u32,
        staging: &Staging<T>,
        dx: &mut impl DeviceSliceMut<T>,
    ) -> Result<(), GpuError> {
        staging.dx.as_ref().map_or(Ok(()), |from| self.inputs.cut(stream, rows, from, dx))
    }

    /// Where each parameter lies among those of the padded network.
    pub(super) fn places(&self) -> View<'_, u32> {
        self.places.as_view()
    }
}

/// Takes the gradients of the kernels to the caller's array, where they do not lie there already.
#[derive(Debug)]
pub(super) struct GradientAdder {
    kernel: Kernel,
}

impl GradientAdder {
    /// For a network of the caller; `request` is of the padded one.
    pub(super) fn load(
        own: &Network,
        request: &Request<'_>,
        binaries: &Binaries,
        context: &Context,
    ) -> Result<Option<Self>, MlpError> {
        let Some(source) = source(own, request) else { return Ok(None) };
        let kernel = source.load(binaries, context)?.kernel("flat_mlp_gradients_add", 0)?;
        Ok(Some(GradientAdder { kernel }))
    }

    /// Queues the addition (or the copy, see [`Gradients`]) of `from` to `to`.
    pub(super) fn queue(
        &self,
        stream: &Stream,
        from: &Buffer<f32>,
        places: Option<&View<'_, u32>>,
        to: &mut impl DeviceSliceMut<f32>,
    ) -> Result<(), GpuError> {
        let launch = launch_for_parameters(to.len())?;
        let arguments = Arguments::default().read(from).write(to);
        let arguments = match places {
            Some(places) => arguments.read(places),
            None => arguments.addresses([0]),
        };
        // SAFETY: these are the kernel's arguments; `Model` checked that `to` has a number for each
        // parameter, and made `from` for those of the network that kernels compute.
        unsafe { launch.queue(stream, &self.kernel, arguments) }
    }
}

#[cfg(test)]
mod tests {
    use crate::reference::{self, Rounding, numbers};
    use crate::{Activation, Network, Parameters};

    /// Rows of `width` numbers, with zeros up to `wide`.
    fn pad(rows: &[f32], width: usize, wide: usize) -> Vec<f32> {
        let mut padded = vec![0.0; rows.len() / width * wide];
        for (row, padded) in rows.chunks(width).zip(padded.chunks_mut(wide)) {
            padded[..width].copy_from_slice(row);
        }
        padded
    }

    fn cut(rows: &[f64], wide: usize, width: usize) -> Vec<f64> {
        rows.chunks(wide).flat_map(|row| &row[..width]).copied().collect()
    }

    /// What the kernels do, in 64 bits: the sums are the same, apart from zeros.
    #[test]
    fn a_padded_network_computes_the_same() {
        let odd = Network::new(&[3, 12, 5, 2]).unwrap().with_output_activation(Activation::Gelu);
        let mixed = odd.clone().with_biases(&[false, true, false]).unwrap();
        for network in [odd.clone(), mixed, odd.with_bias(false).with_activation(Activation::Sigmoid)] {
            let parameters = Parameters::he(&network, 5);
            let (x, dy) = numbers(&network, 9, 6);
            let expected = reference::run(&parameters, &x, &dy, Rounding::None).unwrap();

            let (padded, places) = (network.padded(), network.places_in_padded());
            let mut values = vec![0.0; padded.parameters()];
            places.iter().zip(parameters.values()).for_each(|(&place, &value)| values[place] = value);
            let values = Parameters::from_values(&padded, values).unwrap();
            let (x, dy) = (pad(&x, 3, padded.inputs()), pad(&dy, 2, padded.outputs()));
            let found = reference::run(&values, &x, &dy, Rounding::None).unwrap();
            let gradients: Vec<f64> = places.iter().map(|&place| found.gradients[place]).collect();
            for (found, expected) in [
                (cut(&found.outputs, padded.outputs(), 2), &expected.outputs),
                (cut(&found.input_gradients, padded.inputs(), 3), &expected.input_gradients),
                (gradients, &expected.gradients),
            ] {
                assert_eq!(found.len(), expected.len());
                assert!(reference::relative_error(&found, expected) < 1e-14, "{network}");
            }
        }
    }
}

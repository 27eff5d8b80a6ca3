//! Encodings on a GPU: the inputs of a [`Model`](super::Model) from positions, and the way back.

use std::fmt::Write as _;

use flopgap_gpu::launch::{Arguments, Launch};
use flopgap_gpu::{Buffer, Context, DeviceSlice, DeviceSliceMut, GpuError, Kernel, Stream, ViewMut};

use crate::encoding::{Encoding, HashGrid, Level};
use crate::error::check;
use crate::{Element, MlpError, Precision};

use super::model::{aligned, samples};
use super::source::{Binaries, Source};
use super::target::Target;

/// Threads of a block of [`Encoding::Frequency`].
const THREADS: u32 = 256;
/// Samples of a block of [`Encoding::HashGrid`]: a lane has one.
const SAMPLES: u32 = 32;
/// Warps of such a block, at most. They share the levels.
const MOST_WARPS: usize = 8;

/// An encoding on a GPU: compiled kernels and the table, stored as `T`.
///
/// It writes the inputs of a [`Model`](super::Model) from positions in 32 bits, and takes the
/// gradients by these inputs back to the table and the positions. As a model's, passes are queued
/// on a stream of the caller, and can be captured in a graph: they allocate nothing.
///
/// A training step of a network with a hash grid:
///
/// ```no_run
/// use flopgap_gpu::Context;
/// use flopgap_mlp::cuda::encoding::Encoder;
/// use flopgap_mlp::cuda::train::{AdamW, ArrayAdamW, MeanSquaredError};
/// use flopgap_mlp::cuda::{Implementation, Model, Options};
/// use flopgap_mlp::encoding::{Encoding, HashGrid, HashGridSettings};
/// use flopgap_mlp::{AdamWSettings, Network, Parameters};
/// use half::f16;
///
/// let (context, batch) = (Context::new(0)?, 65_536);
/// let stream = context.stream()?;
/// let encoding = Encoding::from(HashGrid::new(HashGridSettings::default())?);
/// let network = Network::new(&[encoding.width(), 64, 64, 8])?;
/// let (table, parameters) = (encoding.initial_table(1), Parameters::he(&network, 2));
/// let mut encoder = Encoder::<f16>::new(&context, &encoding)?;
/// let mut model = Model::<f16>::new(&context, &network, Options::new(Implementation::Auto))?;
/// encoder.upload(&stream, &table)?;
/// model.upload(&stream, &parameters)?;
/// let settings = AdamWSettings { loss_scale: 4096.0, weight_decay: 0.0, ..AdamWSettings::default() };
/// let mut of_table = ArrayAdamW::new(&stream, &table, AdamWSettings { epsilon: 1e-15, ..settings })?;
/// let mut of_network = AdamW::with_master(&stream, &model, &parameters, settings)?;
/// let mut error = MeanSquaredError::new(&stream, &network, 1)?;
///
/// let (positions, targets) = (stream.zeros::<f32>(batch * 3)?, stream.zeros::<f32>(batch)?);
/// let (mut x, mut dx) = (stream.zeros(batch * network.inputs())?, stream.zeros(batch * network.inputs())?);
/// let (mut y, mut dy) = (stream.zeros(batch * 8)?, stream.zeros(batch * 8)?);
/// let (mut loss, mut gradients) = (stream.zeros(1)?, stream.zeros(network.parameters())?);
/// let mut table_gradients = stream.zeros(encoding.parameters())?;
/// let mut tape = model.tape(&stream, batch)?;
/// let step = stream.capture(|| {
///     encoder.forward(&stream, &positions, &mut x)?;
///     model.forward_train(&stream, &x, &mut y, &mut tape)?;
///     error.queue(&stream, &y, &targets, 4096.0, &mut dy, &mut loss)?;
///     model.backward(&stream, &x, &y, &dy, &mut tape, Some(dx.as_view_mut()), &mut gradients)?;
///     encoder.backward(&stream, &positions, &dx, Some(table_gradients.as_view_mut()), None)?;
///     of_network.step(&stream, &mut model, &gradients)?;
///     of_table.step(&stream, &mut encoder.table_mut(), &table_gradients)
/// })?;
/// (0..1000).try_for_each(|_| step.launch())?;
/// # Ok::<(), flopgap_mlp::MlpError>(())
/// ```
#[derive(Debug)]
pub struct Encoder<T: Element> {
    encoding: Encoding,
    forward: Kernel,
    backward: Kernel,
    /// At least one number: an empty buffer has no address.
    table: Buffer<T>,
}

impl<T: Element> Encoder<T> {
    /// Compiles the kernels, or takes them from the user's cache. The table is zero until
    /// [`Encoder::upload`].
    ///
    /// # Errors
    /// When NVRTC is missing; when there is not enough memory.
    pub fn new(context: &Context, encoding: &Encoding) -> Result<Self, MlpError> {
        let source = source(encoding, T::PRECISION, Target::new(context.device()));
        let program = source.load(&Binaries::default(), context)?;
        let [forward, backward] = match encoding {
            Encoding::Frequency(_) => {
                ["frequency_encoding_elementwise", "frequency_encoding_elementwise_backward"]
            }
            Encoding::HashGrid(_) => ["hash_grid_encoding_gather", "hash_grid_encoding_scatter"],
        };
        let stream = context.stream()?;
        let encoder = Encoder {
            encoding: encoding.clone(),
            forward: program.kernel(forward, 0)?,
            backward: program.kernel(backward, 0)?,
            table: stream.zeros(encoding.parameters().max(1))?,
        };
        stream.synchronize()?;
        Ok(encoder)
    }

    /// The encoding.
    pub fn encoding(&self) -> &Encoding {
        &self.encoding
    }

    /// The table on the device; of an encoding without one, one number that nothing reads.
    pub fn table(&self) -> &Buffer<T> {
        &self.table
    }

    /// The table, for an optimizer. Passes that are queued afterwards see what it writes.
    pub fn table_mut(&mut self) -> ViewMut<'_, T> {
        self.table.as_view_mut()
    }

    /// Takes a table, rounded to `T`.
    ///
    /// # Errors
    /// [`MlpError::Length`]; the driver's.
    pub fn upload(&mut self, stream: &Stream, table: &[f32]) -> Result<(), MlpError> {
        check("the table of an encoding", self.encoding.parameters(), table.len())?;
        let narrow: Vec<T> = table.iter().copied().map(T::narrow).collect();
        stream.write(&narrow, &mut self.table)?;
        Ok(stream.synchronize()?)
    }

    /// The table as it is now.
    ///
    /// # Errors
    /// The error of a kernel that failed before.
    pub fn download(&self, stream: &Stream) -> Result<Vec<f32>, MlpError> {
        let table = stream.download(&self.table.slice(..self.encoding.parameters()))?;
        Ok(table.into_iter().map(T::widen).collect())
    }

    /// Queues what a network takes of `positions` (`batch x dimensions`) into `x` (`batch x
    /// width`).
    ///
    /// # Errors
    /// [`MlpError::Length`]; [`MlpError::Batch`]; [`MlpError::Unaligned`] for a view of `x` that
    /// does not begin at a multiple of 16 bytes; the driver's.
    pub fn forward(
        &self,
        stream: &Stream,
        positions: &impl DeviceSlice<f32>,
        x: &mut impl DeviceSliceMut<T>,
    ) -> Result<(), MlpError> {
        let (batch, launch) = self.batch(positions.len(), self.encoding.width() / 2)?;
        check("inputs", batch as usize * self.encoding.width(), x.len())?;
        let submission = stream.submission();
        let table = self.table_address(submission.read(&self.table)?);
        let positions = submission.read(positions)?;
        let x = aligned("inputs", submission.write(x)?)?;
        let arguments = table.addresses([positions, x]).u32(batch);
        // SAFETY: these are the kernel's arguments; the lengths were checked, and the submission
        // lives until the kernel is queued.
        Ok(unsafe { launch.queue(stream, &self.forward, arguments) }?)
    }

    /// Queues the gradients of the loss whose gradient by the inputs of the network is `dx` (`batch
    /// x width`, from [`Model::backward`](super::Model::backward)): by the table, summed over the
    /// batch, into `table_gradients`, and by the positions into `position_gradients` (`batch x
    /// dimensions`). Both are overwritten, where they are given. A loss scale in `dx` is in them,
    /// too.
    ///
    /// Gradients by the table are atomic additions in 32 bits, in no fixed order: their last bits
    /// differ between runs. Those by the positions are the same bits in every run.
    ///
    /// # Errors
    /// [`MlpError::Length`], where an encoding without a table has gradients of length 0;
    /// [`MlpError::Batch`]; [`MlpError::Unaligned`]; the driver's.
    pub fn backward(
        &self,
        stream: &Stream,
        positions: &impl DeviceSlice<f32>,
        dx: &impl DeviceSlice<T>,
        table_gradients: Option<ViewMut<'_, f32>>,
        position_gradients: Option<ViewMut<'_, f32>>,
    ) -> Result<(), MlpError> {
        let (mut table_gradients, mut position_gradients) = (table_gradients, position_gradients);
        let (batch, launch) = self.batch(positions.len(), self.encoding.dimensions())?;
        check("gradients by the inputs", batch as usize * self.encoding.width(), dx.len())?;
        if let Some(gradients) = &mut table_gradients {
            check("gradients by the table of an encoding", self.encoding.parameters(), gradients.len())?;
            stream.fill(gradients, 0)?;
        }
        if let Some(gradients) = &position_gradients {
            check("gradients by the positions", positions.len(), gradients.len())?;
        }
        let has_table = self.encoding.parameters() > 0;
        let of_table = table_gradients.as_mut().filter(|_| has_table);
        if of_table.is_none() && position_gradients.is_none() {
            return Ok(());
        }
        let submission = stream.submission();
        let table = self.table_address(submission.read(&self.table)?);
        let positions = submission.read(positions)?;
        let dx = aligned("gradients by the inputs", submission.read(dx)?)?;
        let arguments = table.addresses([positions, dx]);
        let arguments = match of_table {
            Some(gradients) => {
                let address = submission.write(gradients)?;
                arguments.addresses([aligned("gradients by the table of an encoding", address)?])
            }
            None if has_table => arguments.addresses([0]),
            None => arguments,
        };
        let of_positions =
            position_gradients.as_mut().map_or(Ok(0), |gradients| submission.write(gradients))?;
        let arguments = arguments.addresses([of_positions]).u32(batch);
        // SAFETY: these are the kernel's arguments; it skips gradients at address 0. The rest is as
        // in `forward`.
        Ok(unsafe { launch.queue(stream, &self.backward, arguments) }?)
    }

    /// Kernels of an encoding without a table take none.
    fn table_address(&self, address: u64) -> Arguments<'static> {
        let arguments = Arguments::default();
        if self.encoding.parameters() > 0 { arguments.addresses([address]) } else { arguments }
    }

    /// The samples of so many numbers of positions, and how a kernel is launched for them; that of
    /// a frequency encoding with so many threads for a sample.
    fn batch(&self, length: usize, of_sample: usize) -> Result<(u32, Launch), MlpError> {
        let batch = length / self.encoding.dimensions();
        check("positions", batch.max(1) * self.encoding.dimensions(), length)?;
        let samples = samples(batch)?;
        let launch = match &self.encoding {
            Encoding::Frequency(_) => {
                let threads = batch * of_sample;
                let blocks = i32::try_from(threads.div_ceil(THREADS as usize))
                    .map_err(|_| GpuError::TooLarge { what: "blocks of an encoding", value: threads })?;
                Launch::new(blocks.cast_unsigned(), THREADS)
            }
            Encoding::HashGrid(grid) => Launch::new(samples.div_ceil(SAMPLES), hash_grid_threads(grid)),
        };
        Ok((samples, launch))
    }
}

/// As few warps as take the levels in as few rounds.
fn hash_grid_threads(grid: &HashGrid) -> u32 {
    let levels = grid.levels().len();
    let warps = levels.div_ceil(levels.div_ceil(MOST_WARPS));
    u32::try_from(32 * warps).unwrap_or(32)
}

/// What device code knows of an encoding: macros and constants, before `tile/encoding.cuh`.
pub(super) fn definitions(encoding: &Encoding) -> String {
    let kind = match encoding {
        Encoding::Frequency(_) => "FREQUENCY",
        Encoding::HashGrid(_) => "HASH_GRID",
    };
    let mut text = format!(
        "#define ENCODING_FREQUENCY 0\n#define ENCODING_HASH_GRID 1\n#define ENCODING ENCODING_{kind}\n\
         constexpr int ENCODING_DIMENSIONS = {}, ENCODING_WIDTH = {};\n",
        encoding.dimensions(),
        encoding.width()
    );
    let _ = match encoding {
        Encoding::Frequency(frequency) => writeln!(text, "constexpr int OCTAVES = {};", frequency.octaves()),
        Encoding::HashGrid(grid) => {
            let level = |level: &Level| {
                let mask = if level.is_dense { 0 } else { level.entries - 1 };
                format!("{{{}u, {}u, {mask}u}}", level.resolution, level.first)
            };
            let levels: Vec<String> = grid.levels().iter().map(level).collect();
            let (count, features) = (levels.len(), grid.settings().features);
            writeln!(
                text,
                "constexpr int LEVELS = {count}, FEATURES = {features};\n#define GRID_LEVELS {}",
                levels.join(", ")
            )
        }
    };
    text
}

/// The source of an encoding's kernels, for a device that need not be here.
pub fn source(encoding: &Encoding, precision: Precision, target: Target) -> Source {
    let (path, threads) = match encoding {
        Encoding::Frequency(_) => ("encoding/frequency.cu", THREADS),
        Encoding::HashGrid(grid) => ("encoding/hash_grid.cu", hash_grid_threads(grid)),
    };
    let constants = [("THREADS", threads as usize)];
    Source::without_network(path, &definitions(encoding), precision, target, &constants)
}

//! A network as a function of the device, for kernels of someone else.

use crate::encoding::Encoding;
use crate::error::check;
use crate::{Element, MlpError, Network, Parameters, Precision};

use super::coopvec;
use super::encoding::definitions;
use super::options::{Implementation, Options};
use super::request::Request;
use super::source::Source;
use super::target::Target;

/// Threads of a warp, and vectors that it computes together.
const WARP: usize = 32;

/// A network that a kernel calls, as shaders call one with cooperative vectors: every thread gives
/// a vector of its own, and a warp multiplies its 32 vectors by the weights together, on tensor
/// cores in 16 bits.
///
/// The class `Mlp` of the source is the interface ([`DeviceFunction::INTERFACE`] documents it).
/// Weights lie in shared memory, so a network of at most some 100 kB of parameters is for it.
///
/// ```no_run
/// use flopgap_gpu::launch::{Arguments, Launch};
/// use flopgap_gpu::{Context, compile::Compiler};
/// use flopgap_mlp::cuda::{DeviceFunction, Target};
/// use flopgap_mlp::{Network, Parameters};
/// use half::f16;
///
/// const KERNEL: &str = r#"extern "C" __global__ void shade(const Storage *parameters, float *colors) {
///     extern __shared__ uint4 memory[];
///     Mlp mlp(memory, parameters);             // all threads of the block
///     const unsigned pixel = blockIdx.x * blockDim.x + threadIdx.x;
///     const float x[2] = {pixel % 256 / 256.0f, pixel / 256 / 256.0f};
///     float y[3];
///     mlp(x, y);                               // all threads of a warp, a vector each
///     for (int i = 0; i < 3; ++i) colors[3 * pixel + i] = y[i];
/// }"#;
///
/// let (context, network) = (Context::new(0)?, Network::new(&[2, 64, 3])?);
/// let mlp = DeviceFunction::new::<f16>(&network, 128, Target::new(context.device()))?;
/// let binary = mlp.kernel("shade.cu", KERNEL).compile(&Compiler::new()?)?;
/// let shade = context.load(&binary)?.kernel_with_shared("shade", mlp.shared_bytes())?;
///
/// let stream = context.stream()?;
/// let parameters = stream.upload(&mlp.parameters::<f16>(&Parameters::he(&network, 1))?)?;
/// let mut colors = stream.zeros::<f32>(3 * 256 * 256)?;
/// let launch = Launch { shared: mlp.shared_bytes(), ..Launch::new(256 * 256 / 128, 128) };
/// // SAFETY: these are the kernel's arguments, and there are three numbers for every thread.
/// unsafe { launch.queue(&stream, &shade, Arguments::default().read(&parameters).write(&mut colors)) }?;
/// # Ok::<(), flopgap_mlp::MlpError>(())
/// ```
#[derive(Debug, Clone)]
pub struct DeviceFunction {
    network: Network,
    precision: Precision,
    source: Source,
    shared_bytes: usize,
}

impl DeviceFunction {
    /// The interface in CUDA C, with its documentation.
    pub const INTERFACE: &str = include_str!("device.cuh");

    /// A network whose parameters are stored as `T`, for kernels with blocks of `threads` threads
    /// along x.
    ///
    /// # Errors
    /// [`MlpError::Unsupported`] when `threads` is no multiple of 32 from 32 to 1,024, or the
    /// network needs more registers or shared memory than there are; [`MlpError::Widths`].
    pub fn new<T: Element>(network: &Network, threads: u32, target: Target) -> Result<Self, MlpError> {
        Self::with_definitions::<T>(network, threads, target, "", "")
    }

    /// The same with a function that encodes a position, whose numbers the network takes:
    ///
    /// ```cuda
    /// float x[MLP_INPUTS];                 // as many as ENCODING_WIDTH
    /// encode(table, position, x);          // `position` has ENCODING_DIMENSIONS numbers
    /// mlp(x, y);
    /// ```
    ///
    /// The table is stored as `T`, as an [`Encoder`](super::encoding::Encoder) has it, at a
    /// multiple of 16 bytes; of a frequency encoding, nothing is read there.
    ///
    /// # Errors
    /// As [`DeviceFunction::new`]; [`MlpError::Length`] when the network does not have as many
    /// inputs as the encoding has numbers.
    pub fn encoded<T: Element>(
        network: &Network,
        encoding: &Encoding,
        threads: u32,
        target: Target,
    ) -> Result<Self, MlpError> {
        check("inputs of a network after an encoding", encoding.width(), network.inputs())?;
        let after = "#include \"tile/encoding.cuh\"\n";
        Self::with_definitions::<T>(network, threads, target, &definitions(encoding), after)
    }

    /// With code before and after the interface.
    fn with_definitions<T: Element>(
        network: &Network,
        threads: u32,
        target: Target,
        before: &str,
        after: &str,
    ) -> Result<Self, MlpError> {
        let padded = network.for_kernels()?;
        let request = Request {
            network: &padded,
            precision: T::PRECISION,
            options: Options::new(Implementation::Coopvec),
            target,
        };
        let threads = threads as usize;
        if !(WARP..=1024).contains(&threads) || !threads.is_multiple_of(WARP) {
            return Err(request.unsupported(format!(
                "a block of {threads} threads; blocks of a multiple of 32 from 32 to 1024 are supported"
            )));
        }
        let resident = coopvec::resident(&request)?;
        let biases: usize = padded.widths()[1..].iter().sum();
        let vectors = threads * (padded.inputs() + padded.outputs());
        let shared_bytes = biases * size_of::<f32>() + (resident.weights + vectors) * size_of::<T>();
        if shared_bytes > target.shared_bytes {
            return Err(request.unsupported(format!(
                "weights and vectors take {shared_bytes} bytes of shared memory, a block has {}",
                target.shared_bytes
            )));
        }
        let constants = [
            ("ROWS", resident.rows),
            ("WARPS", threads / WARP),
            ("THREADS", threads),
            ("BLOCKS", 1),
            ("STAGES", 0),
            ("AHEAD", 0),
            ("CUT", 32),
            ("PARKED", 0),
            ("ROLLED", resident.rolled),
            ("WEIGHTS", resident.weights),
            ("OWN_INPUTS", network.inputs()),
            ("OWN_OUTPUTS", network.outputs()),
            ("SHARED_BYTES", shared_bytes),
        ];
        // None of the kernels of the file that it includes.
        let body = format!("#define KERNEL -1\n{before}#include \"device/device.cuh\"\n{after}");
        let source = request.source("device/device.cuh", &body, &constants);
        Ok(DeviceFunction { network: network.clone(), precision: T::PRECISION, source, shared_bytes })
    }

    /// The source of a kernel (or several) that calls the network: `code` in CUDA C after the
    /// interface, with `name` in the compiler's messages. [`Source::compile`] has the options that
    /// it needs.
    #[must_use]
    pub fn kernel(&self, name: &str, code: &str) -> Source {
        self.source.followed_by(name, code)
    }

    /// The text of the interface and of everything that it includes, for a compiler of the
    /// program's own: NVRTC with `--device-as-default-execution-space`, for the architecture of the
    /// target.
    pub fn text(&self) -> &str {
        self.source.text()
    }

    /// Shared memory that the network takes of a block, in bytes: `MLP_SHARED_BYTES`.
    pub fn shared_bytes(&self) -> usize {
        self.shared_bytes
    }

    /// The network.
    pub fn network(&self) -> &Network {
        &self.network
    }

    /// Parameters as the device function reads them: padded where the network is.
    ///
    /// # Errors
    /// [`MlpError::Length`] or [`MlpError::OtherNetwork`] for those of another network;
    /// [`MlpError::Precision`] when `T` is not what the function was made for.
    pub fn parameters<T: Element>(&self, parameters: &Parameters) -> Result<Vec<T>, MlpError> {
        parameters.check_widths(&self.network)?;
        if T::PRECISION != self.precision {
            return Err(MlpError::Precision { expected: self.precision, found: T::PRECISION });
        }
        let mut padded = vec![T::narrow(0.0); self.network.padded().parameters()];
        let values = parameters.narrow::<T>();
        for (place, value) in self.network.places_in_padded().into_iter().zip(values) {
            padded[place] = value;
        }
        Ok(padded)
    }
}

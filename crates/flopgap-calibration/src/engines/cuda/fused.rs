//! flopgap's own kernels for fully connected networks on a GPU: all layers in one launch.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::{Check, Origin, Timing};
use flopgap_flops::Precision;
use flopgap_gpu::compile::{CompileError, Compiler};
use flopgap_gpu::{Buffer, Context, Stream};
use flopgap_graph::{Algorithm, MlpSpec, Mode, Workload};
use flopgap_mlp::MlpError;
use flopgap_mlp::cuda::{Implementation, Model, Options};
use flopgap_mlp::numerics::uniform;
use flopgap_mlp::{Element, Network, Parameters};
use half::{bf16, f16};

use crate::engines::cpu::{Chain, chain_rows, fp32_bound, largest_difference};
use crate::engines::engine::{Engine, Repetition, Session};
use crate::engines::error::EngineError;

use super::clock::Clock;
use super::counted::counted_flops;
use super::kernel::Numbers;
use super::launches::Launches;
use super::own::OwnKernels;
use super::session::lost;

const NAME: &str = "fused";

/// The seed of parameters and inputs.
const SEED: u64 = 42;

/// The batch's numbers begin here in the sequence of the seed, far behind those of the parameters.
const FIRST_INPUT: u64 = 1 << 40;

/// The engine `fused`: [`flopgap_mlp::cuda`] on cooperative matrices, in fp32, fp16 and
/// bf16.
///
/// Widths that are not multiples of 8 are padded by the model: times, memory and counted FLOPs of
/// such a row include the padding, and a remark states how much it is.
///
/// Kernels are compiled for each network, which takes seconds the first time.
#[derive(Debug)]
pub struct Fused {
    context: Context,
    stream: Stream,
    launches: Launches,
    origin: Origin,
}

impl Fused {
    /// Opens the GPU with this number.
    ///
    /// # Errors
    /// [`EngineError::Gpu`] when the driver, the GPU or NVRTC is missing.
    pub fn new(device: usize) -> Result<Self, EngineError> {
        Self::with_references(device, None)
    }

    /// The same with the unit of launched times that an earlier session found
    /// ([`Engine::references`]); without it, a quarter of a second is spent to find one.
    ///
    /// # Errors
    /// As [`Fused::new`].
    pub fn with_references(
        device: usize,
        references: Option<&BTreeMap<String, f64>>,
    ) -> Result<Self, EngineError> {
        let context = Context::new(device)?;
        let compiler = Compiler::new().map_err(|error| failed(MlpError::from(error)))?;
        let mut origin = super::origin_of(context.device())?;
        let (major, minor) = compiler.version();
        origin.versions.insert("nvrtc".to_owned(), format!("{major}.{minor}"));
        let stream = context.stream()?;
        let own = OwnKernels::new(&context, &compiler, Numbers::F32)?;
        let launches = Launches::new(&stream, &own, references)?;
        Ok(Fused { context, stream, launches, origin })
    }
}

fn failed(error: MlpError) -> EngineError {
    match error {
        MlpError::Gpu(error) => EngineError::Gpu(error),
        MlpError::Compile(CompileError::Library(error)) => EngineError::Gpu(error.into()),
        error => EngineError::Failed {
            action: "run a network on the GPU".to_owned(),
            message: flopgap_files::chain(&error).to_string(),
        },
    }
}

/// An error for an unsupported workload.
fn refused(workload: &Workload, reason: impl Into<String>) -> EngineError {
    EngineError::Unsupported { engine: NAME, what: workload.label(), reason: reason.into() }
}

/// The network of a workload and its samples.
fn network(workload: &Workload) -> Result<(Network, usize), EngineError> {
    let Workload::Mlp(MlpSpec { input, hidden, output, batch, activation }) = workload else {
        return Err(refused(workload, "it only supports fully connected networks"));
    };
    let widths: Option<Vec<usize>> =
        [input].into_iter().chain(hidden).chain([output]).map(|&width| usize::try_from(width).ok()).collect();
    let widths = widths.ok_or_else(|| refused(workload, "a width is too large"))?;
    let network = Network::new(&widths).map_err(|error| refused(workload, error.to_string()))?;
    let batch = usize::try_from(*batch).ok().filter(|&batch| batch > 0);
    let batch = batch.ok_or_else(|| refused(workload, "the batch must be at least 1"))?;
    Ok((network.with_activation(*activation), batch))
}

/// Bytes of a forward pass on the device at least.
fn bytes_needed<T: Element>(network: &Network, batch: usize) -> u64 {
    let arrays =
        |network: &Network, widths: usize| network.parameters().saturating_add(batch.saturating_mul(widths));
    let mut numbers = arrays(network, network.inputs().saturating_add(network.outputs()));
    if network.is_padded() {
        // Inputs and outputs again, where their widths differ.
        let padded = network.padded();
        let staged = [(network.inputs(), padded.inputs()), (network.outputs(), padded.outputs())];
        let staged = staged.iter().filter(|(own, padded)| own != padded).map(|(_, padded)| padded).sum();
        numbers = numbers.saturating_add(arrays(&padded, staged));
    }
    (numbers as u64).saturating_mul(size_of::<T>() as u64)
}

/// FLOPs of the products of a forward pass.
fn products(network: &Network, batch: usize) -> u64 {
    let multiply_adds = network.widths().windows(2).map(|pair| pair[0] as u64 * pair[1] as u64).sum();
    (batch as u64).saturating_mul(2).saturating_mul(multiply_adds)
}

/// What a reader must know of a padded network: the workload's FLOPs are those of the network.
fn padding(network: &Network, batch: usize) -> Option<String> {
    let padded = network.padded();
    (padded != *network).then(|| {
        let widths = padded.widths().iter().map(usize::to_string).collect::<Vec<_>>().join("-");
        let (own, all) = (products(network, batch), products(&padded, batch));
        format!(
            "computed as {widths}, padded to multiples of 8: products of {all} FLOPs instead of {own}, \
             and copies of what is padded"
        )
    })
}

impl Engine for Fused {
    fn name(&self) -> &'static str {
        NAME
    }

    fn origin(&self) -> &Origin {
        &self.origin
    }

    fn modes(&self) -> &[Mode] {
        &[Mode::Stream, Mode::Graph]
    }

    fn references(&self) -> BTreeMap<String, f64> {
        self.launches.references()
    }

    fn supports(&self, workload: &Workload, precision: Precision) -> Result<(), EngineError> {
        network(workload)?;
        match precision {
            Precision::Fp32 | Precision::Fp16 | Precision::Bf16 => Ok(()),
            Precision::Tf32 | Precision::Int8 => {
                Err(refused(workload, "it only supports fp32, fp16 and bf16"))
            }
        }
    }

    fn open<'a>(
        &'a self,
        workload: &Workload,
        precision: Precision,
        mode: Mode,
    ) -> Result<Box<dyn Session + 'a>, EngineError> {
        self.supports(workload, precision)?;
        if !self.modes().contains(&mode) {
            return Err(refused(workload, "it only supports streams and graphs"));
        }
        match precision {
            Precision::Fp16 => self.session::<f16>(workload, mode),
            Precision::Bf16 => self.session::<bf16>(workload, mode),
            _ => self.session::<f32>(workload, mode),
        }
    }
}

impl Fused {
    fn session<'a, T: Element>(
        &'a self,
        workload: &Workload,
        mode: Mode,
    ) -> Result<Box<dyn Session + 'a>, EngineError> {
        let (network, batch) = network(workload)?;
        self.context.synchronize()?;
        let free = self.context.memory()?.free;
        let needed = bytes_needed::<T>(&network, batch);
        if needed > free {
            return Err(EngineError::Memory { what: workload.label(), needed, free });
        }
        let options = Options::new(Implementation::Coopmat);
        let mut model = Model::<T>::new(&self.context, &network, options).map_err(|error| match error {
            MlpError::Unsupported { reason, .. } => refused(workload, reason),
            error => failed(error),
        })?;
        let parameters = Parameters::he(&network, SEED);
        model.upload(&self.stream, &parameters).map_err(failed)?;
        let inputs = (0..(batch * network.inputs()) as u64)
            .map(|index| T::narrow(uniform(SEED, FIRST_INPUT + index)))
            .collect::<Vec<T>>();
        let x = self.stream.upload(&inputs)?;
        let y = self.stream.zeros::<T>(batch * network.outputs())?;
        let clock = Clock::new(&self.stream, mode, &self.launches);
        let mut opened = Opened { engine: self, model, parameters, x, y, inputs, clock, device_bytes: None };
        opened.run()?;
        self.stream.synchronize()?;
        opened.device_bytes = lost(free, self.context.memory()?.free);
        Ok(Box::new(opened))
    }
}

/// A network with its batch.
struct Opened<'a, T: Element> {
    engine: &'a Fused,
    model: Model<T>,
    parameters: Parameters,
    x: Buffer<T>,
    y: Buffer<T>,
    /// What is in `x`.
    inputs: Vec<T>,
    clock: Clock<'a>,
    device_bytes: Option<u64>,
}

impl<T: Element> Opened<'_, T> {
    fn run(&mut self) -> Result<(), EngineError> {
        self.model.forward(&self.engine.stream, &self.x, &mut self.y).map_err(failed)
    }
}

/// The tolerance of a type, relative to the largest output: between layers numbers stay in the
/// type, or in 32 bits.
fn bound<T: Element>(network: &Network) -> f64 {
    use flopgap_mlp::Precision;
    let rounding = match T::PRECISION {
        Precision::F32 => 0.0,
        Precision::F16 => 2.0_f64.powi(-10),
        Precision::Bf16 => 2.0_f64.powi(-7),
    };
    // Products round inputs, too: a few units of the last place in each layer.
    fp32_bound(network) + 2.0 * rounding * (network.layers() as f64).sqrt()
}

impl<T: Element> Session for Opened<'_, T> {
    fn check(&mut self) -> Result<Check, EngineError> {
        let stream = &self.engine.stream;
        // NaN in all three types.
        stream.fill(&mut self.y, 0xff)?;
        self.run()?;
        let found: Vec<f32> = self.engine.stream.download(&self.y)?.into_iter().map(Element::widen).collect();
        let x: Vec<f32> = self.inputs.iter().map(|&number| number.widen()).collect();
        let network = self.model.network();
        let truth = chain_rows(Chain { parameters: &self.parameters.rounded::<T>(), x: &x });
        let error = largest_difference(&found, network.outputs(), &truth);
        Ok(Check { reference: "fp64".to_owned(), error, bound: bound::<T>(network) })
    }

    fn time(&mut self, limit: &Repetition) -> Result<Timing, EngineError> {
        let Opened { engine, model, x, y, clock, .. } = self;
        clock.time(limit, &mut || model.forward(&engine.stream, x, y).map_err(failed))
    }

    fn run_for(&mut self, duration: Duration) -> Result<u64, EngineError> {
        let Opened { engine, model, x, y, clock, .. } = self;
        clock.run_for(duration, &mut || model.forward(&engine.stream, x, y).map_err(failed))
    }

    fn memory_bytes(&self) -> Option<u64> {
        let bytes = self.x.num_bytes() + self.y.num_bytes() + self.model.bytes();
        u64::try_from(bytes).ok()
    }

    fn device_memory_bytes(&self) -> Option<u64> {
        self.device_bytes
    }

    fn counted_flops(&mut self) -> Result<Option<u64>, EngineError> {
        use flopgap_mlp::Precision as Stored;
        let Opened { engine, model, x, y, .. } = self;
        let precision = match T::PRECISION {
            Stored::F32 => Precision::Fp32,
            Stored::F16 => Precision::Fp16,
            Stored::Bf16 => Precision::Bf16,
        };
        counted_flops(&engine.context, (1, precision), &mut || {
            model.forward(&engine.stream, x, y).map_err(failed)
        })
    }

    fn algorithms(&self) -> Vec<Algorithm> {
        let facts = self.model.facts().unwrap_or_default();
        let forward = facts.into_iter().next().map(|fact| fact.name);
        let id = forward.unwrap_or_else(|| Implementation::Coopmat.name().to_owned());
        vec![Algorithm { id, ..Algorithm::default() }]
    }

    fn remarks(&self) -> Vec<String> {
        let network = self.model.network();
        padding(network, self.x.len() / network.inputs()).into_iter().collect()
    }
}

#[cfg(test)]
mod tests {
    use flopgap_flops::Activation;

    use super::*;

    fn mlp(input: u64, hidden: u64, output: u64) -> Workload {
        Workload::Mlp(MlpSpec { input, hidden: vec![hidden], output, batch: 4, activation: Activation::Relu })
    }

    #[test]
    fn widths_that_no_kernel_has_are_refused_by_name() {
        let (network, batch) = network(&mlp(64, 128, 64)).unwrap();
        assert_eq!((network.widths(), batch), (&[64, 128, 64][..], 4));
        let error = super::network(&mlp(64, 20_000, 8)).unwrap_err().to_string();
        assert!(error.contains("number 2 is 20000"), "{error}");
    }

    #[test]
    fn padding_is_stated_and_its_memory_counted() {
        let (even, batch) = network(&mlp(64, 128, 64)).unwrap();
        assert_eq!(padding(&even, batch), None);
        assert_eq!(bytes_needed::<f16>(&even, 4), 2 * (64 * 128 + 128 + 128 * 64 + 64 + 4 * 128));

        let (odd, batch) = network(&mlp(3, 20, 16)).unwrap();
        let own = 2 * 4 * (3 * 20 + 20 * 16);
        let all = 2 * 4 * (8 * 24 + 24 * 16);
        let remark = padding(&odd, batch).unwrap();
        assert!(remark.starts_with("computed as 8-24-16, padded"), "{remark}");
        assert!(remark.contains(&format!("products of {all} FLOPs instead of {own}, ")), "{remark}");
        let own = (3 * 20 + 20 + 20 * 16 + 16) + 4 * (3 + 16);
        let padded = (8 * 24 + 24 + 24 * 16 + 16) + 4 * 8;
        assert_eq!(bytes_needed::<f32>(&odd, 4), 4 * (own + padded));
        assert_eq!(bytes_needed::<f32>(&odd, usize::MAX), u64::MAX);
    }
}

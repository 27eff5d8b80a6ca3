//! flopgap's own networks on the CPU: always available, nothing to install.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::{Check, Origin, Timing};
use flopgap_flops::{Activation, Precision};
use flopgap_graph::op::Gemm;
use flopgap_graph::{Mode, Op, Step, Workload};
use flopgap_mlp::MlpError;
use flopgap_mlp::numerics::uniform;
use flopgap_mlp::{Cpu, Network, Parameters};

use crate::engines::cpu::{
    self, Chain, CpuSettings, Peak, References, Stopwatch, available_memory, chain_rows, fp32_bound,
    largest_difference,
};
use crate::engines::engine::{Engine, Repetition, Session};
use crate::engines::error::EngineError;

const NAME: &str = "native";
/// The batch's numbers begin here in the sequence of the seed, far behind those of the parameters.
const FIRST_INPUT: u64 = 1 << 40;

/// Fully connected networks and single layers in fp32, computed by `flopgap-mlp` with the crate
/// `gemm`.
///
/// ```
/// use flopgap_calibration::engines::cpu::CpuSettings;
/// use flopgap_calibration::engines::{Engine as _, Native};
/// use flopgap_flops::{Activation, Precision};
/// use flopgap_graph::{MlpSpec, Mode, Workload};
///
/// let native = Native::new(&CpuSettings::default());
/// let mlp = Workload::Mlp(MlpSpec {
///     input: 32,
///     hidden: vec![64, 64],
///     output: 10,
///     batch: 16,
///     activation: Activation::Relu,
/// });
/// let mut session = native.open(&mlp, Precision::Fp32, Mode::Call)?;
/// let check = session.check()?;
/// assert!(check.error <= check.bound);
/// # Ok::<(), flopgap_calibration::engines::EngineError>(())
/// ```
#[derive(Debug)]
pub struct Native {
    settings: CpuSettings,
    origin: Origin,
    references: References,
}

/// The workload: products one after the other, each with separate operands, or one network.
struct Shape {
    network: Network,
    products: usize,
    samples: usize,
    remarks: Vec<String>,
}

impl Native {
    /// On this machine's CPU. Takes a second to find the unit of times unless it is given.
    pub fn new(settings: &CpuSettings) -> Self {
        let mut origin = cpu::origin();
        origin.versions.insert("flopgap".to_owned(), env!("CARGO_PKG_VERSION").to_owned());
        let references = References::new(settings.references.as_ref());
        Native { settings: settings.clone(), origin, references }
    }

    /// Its settings.
    pub fn settings(&self) -> &CpuSettings {
        &self.settings
    }

    fn shape(workload: &Workload, precision: Precision) -> Result<Shape, EngineError> {
        let refuse = |reason: &str| EngineError::Unsupported {
            engine: NAME,
            what: workload.label(),
            reason: reason.to_owned(),
        };
        if precision != Precision::Fp32 {
            return Err(refuse("it only supports fp32"));
        }
        let size = |size: u64| {
            usize::try_from(size).map_err(|_| refuse("a size exceeds the address space of this machine"))
        };
        let network = |widths: &[u64]| -> Result<Network, EngineError> {
            let widths = widths.iter().map(|&width| size(width)).collect::<Result<Vec<usize>, _>>()?;
            Network::of_any_widths(&widths).map_err(|error| refuse(&error.to_string()))
        };
        let shape = match workload {
            Workload::Mlp(mlp) => {
                let widths: Vec<u64> =
                    [mlp.input].iter().chain(&mlp.hidden).chain([&mlp.output]).copied().collect();
                let network = network(&widths)?.with_activation(mlp.activation);
                Shape { network, products: 1, samples: size(mlp.batch)?, remarks: Vec::new() }
            }
            Workload::Step(Step { op: Op::Gemm(Gemm { batch, m, n, k }), epilogue }) => {
                if epilogue.residual {
                    return Err(refuse("it has no residual connections"));
                }
                let network = network(&[*k, *n])?.with_output_activation(epilogue.activation);
                let remarks =
                    if epilogue.bias { vec![] } else { vec!["a bias of zeros is added".to_owned()] };
                Shape { network, products: size(*batch)?, samples: size(*m)?, remarks }
            }
            Workload::Step(Step { op: Op::Empty, .. }) => {
                let remarks = vec!["a call is measured by the smallest one: one product".to_owned()];
                let network = network(&[1, 1])?.with_output_activation(Activation::Identity);
                Shape { network, products: 1, samples: 1, remarks }
            }
            _ => {
                return Err(refuse(
                    "it only supports fully connected layers; engine `ort` supports the others",
                ));
            }
        };
        if shape.samples == 0 || shape.products == 0 {
            return Err(refuse("the batch is empty"));
        }
        Ok(shape)
    }
}

impl Engine for Native {
    fn name(&self) -> &'static str {
        NAME
    }

    fn origin(&self) -> &Origin {
        &self.origin
    }

    fn modes(&self) -> &[Mode] {
        &[Mode::Call]
    }

    fn threads(&self) -> u32 {
        u32::try_from(self.settings.threads.get()).unwrap_or(u32::MAX)
    }

    fn references(&self) -> BTreeMap<String, f64> {
        self.references.best()
    }

    fn supports(&self, workload: &Workload, precision: Precision) -> Result<(), EngineError> {
        Self::shape(workload, precision).map(|_| ())
    }

    fn open<'a>(
        &'a self,
        workload: &Workload,
        precision: Precision,
        mode: Mode,
    ) -> Result<Box<dyn Session + 'a>, EngineError> {
        let Shape { network, products, samples, remarks } = Self::shape(workload, precision)?;
        if mode != Mode::Call {
            return Err(EngineError::Unsupported {
                engine: NAME,
                what: workload.label(),
                reason: "a CPU only supports calls; streams and graphs need a GPU".to_owned(),
            });
        }
        // Parameters twice, and each sample's input, output and layers; sizes were checked to be
        // far from the limits.
        let numbers = (2 * network.parameters() as u64).saturating_mul(products as u64).saturating_add(
            (samples as u64)
                .saturating_mul(products as u64)
                .saturating_mul((network.inputs() + network.outputs()) as u64),
        );
        let needed = numbers.saturating_mul(size_of::<f32>() as u64);
        if let Some(free) = available_memory().filter(|free| *free < needed) {
            return Err(EngineError::Memory { what: workload.label(), needed, free });
        }

        let peak = Peak::begin();
        let models = (0..products as u64)
            .map(|product| {
                let parameters = Parameters::he(&network, self.settings.seed.wrapping_add(product));
                Cpu::with_threads(&parameters, self.settings.threads)
            })
            .collect();
        let (inputs, outputs) = (samples * network.inputs(), samples * network.outputs());
        let x = (0..(inputs * products) as u64).map(|index| uniform(self.settings.seed, FIRST_INPUT + index));
        let mut opened = Opened {
            stopwatch: Stopwatch::new(&self.references, self.settings.threads.get()),
            models,
            x: x.collect(),
            y: vec![f32::NAN; outputs * products],
            inputs,
            outputs,
            peak: None,
            remarks,
        };
        opened.run()?;
        opened.peak = peak.growth();
        Ok(Box::new(opened))
    }
}

/// A network with its batch.
struct Opened<'a> {
    stopwatch: Stopwatch<'a>,
    /// One for each product.
    models: Vec<Cpu>,
    x: Vec<f32>,
    y: Vec<f32>,
    /// Numbers of a product's input and result.
    inputs: usize,
    outputs: usize,
    /// Bytes that the process grew by.
    peak: Option<u64>,
    remarks: Vec<String>,
}

impl Opened<'_> {
    fn run(&mut self) -> Result<(), EngineError> {
        let parts = self.x.chunks_exact(self.inputs).zip(self.y.chunks_exact_mut(self.outputs));
        for (model, (x, y)) in self.models.iter().zip(parts) {
            model.forward(x, y).map_err(failed)?;
        }
        Ok(())
    }
}

#[expect(clippy::needless_pass_by_value, reason = "handed to map_err")]
fn failed(error: MlpError) -> EngineError {
    EngineError::Failed {
        action: "running a network on the CPU".to_owned(),
        message: flopgap_files::chain(&error).to_string(),
    }
}

impl Session for Opened<'_> {
    fn check(&mut self) -> Result<Check, EngineError> {
        self.y.fill(f32::NAN);
        self.run()?;
        let parts = self.x.chunks_exact(self.inputs).zip(self.y.chunks_exact(self.outputs));
        let (mut error, mut bound) = (0.0_f64, 0.0_f64);
        for (model, (x, y)) in self.models.iter().zip(parts) {
            let truth = chain_rows(Chain { parameters: model.parameters(), x });
            let found = largest_difference(y, model.network().outputs(), &truth);
            // `max` would drop NaN.
            error = if found.is_nan() || error.is_nan() { f64::NAN } else { error.max(found) };
            bound = fp32_bound(model.network());
        }
        Ok(Check { reference: "fp64".to_owned(), error, bound })
    }

    fn time(&mut self, limit: &Repetition) -> Result<Timing, EngineError> {
        let stopwatch = self.stopwatch;
        stopwatch.time(limit, || self.run())
    }

    fn run_for(&mut self, duration: Duration) -> Result<u64, EngineError> {
        cpu::run_for(duration, || self.run())
    }

    fn memory_bytes(&self) -> Option<u64> {
        let models: usize = self.models.iter().map(Cpu::bytes).sum();
        u64::try_from(models + size_of_val(&*self.x) + size_of_val(&*self.y)).ok()
    }

    /// `None` where the process grew by less than was allocated: memory that was free in it served,
    /// and nothing was measured.
    fn device_memory_bytes(&self) -> Option<u64> {
        self.peak.filter(|growth| *growth > 0 && Some(*growth) >= self.memory_bytes())
    }

    fn remarks(&self) -> Vec<String> {
        self.remarks.clone()
    }
}

//! The GPUs of this machine: networks of `square` under the counters of `flopgap-gpu`.

mod counting;
#[cfg(test)]
mod fake;
mod fault;
mod repeats;

use crate::square::Shape;
use crate::square::cuda::{Engine, Network, bytes_needed};
use flopgap_gpu::compile::Compiler;
use flopgap_gpu::counters::{CounterSession, cupti_version};
use flopgap_gpu::{Context, Marks, blas, driver_version};
use flopgap_phases::Phase;
use flopgap_phases::sweep::{Config, Meter, MeterError, Quantity, Record};

use crate::hardware::{Counted, Device, Hardware, mark};
use counting::{count, expected_launches, record};
use repeats::Repeats;

/// The seed of weights and input. Counts of instructions do not depend on it.
const SEED: u64 = 0;

/// The driver allocates from blocks of 2 MiB, and cuBLAS and CUPTI take memory when they first need
/// it.
const SPARE_BYTES: u64 = 256 << 20;

/// The GPUs of this machine.
#[derive(Debug, Clone, Copy)]
pub struct Gpu;

impl Hardware for Gpu {
    fn device(&self, index: u32) -> Result<Device, MeterError> {
        let device = flopgap_gpu::Device::get(index as usize).map_err(|error| fault::of_gpu(&error))?;
        let driver = driver_version().map_err(|error| fault::of_gpu(&error))?;
        let (major, minor, patch) = blas::version().map_err(|error| fault::of_gpu(&error))?;
        let nvrtc = Compiler::new().map_err(|error| fault::of_compiler(&error))?.version();
        let cupti = cupti_version().map_err(fault::of_counters)?;
        let cuda = format!("CUDA {}.{}", driver.cuda.0, driver.cuda.1);
        Ok(Device {
            name: device.name,
            compute_capability: (device.compute_capability.major, device.compute_capability.minor),
            driver: driver.module.map_or(cuda.clone(), |module| format!("{module} ({cuda})")),
            // The name of the network in the manifests of all runs: another one would end them.
            framework: format!(
                "flopgap-square {}, cuBLAS {major}.{minor}.{patch}, NVRTC {}.{}",
                env!("CARGO_PKG_VERSION"),
                nvrtc.0,
                nvrtc.1
            ),
            counters: format!("CUPTI {cupti}"),
        })
    }

    fn meter(&self, index: u32, counted: Counted) -> Result<Box<dyn Meter + '_>, MeterError> {
        let engine = open(index)?;
        let capability = engine.context().device().compute_capability;
        let quantities = Quantity::fp32((capability.major, capability.minor));
        let metrics: Vec<&str> = quantities.iter().map(|quantity| quantity.metric()).collect();
        let session = CounterSession::new(engine.context(), &metrics).map_err(fault::of_counters)?;
        let repeats = (counted == Counted::AlikeOnce).then(Repeats::default);
        Ok(Box::new(Counters { session, engine, quantities, repeats }))
    }

    fn run(&self, index: u32, config: Config) -> Result<(), MeterError> {
        let engine = open(index)?;
        let compiler = Compiler::new().map_err(|error| fault::of_compiler(&error))?;
        let names = Phase::ALL.map(mark);
        let marks = Marks::new(&compiler, engine.context(), &names.each_ref().map(String::as_str))
            .map_err(|error| fault::of_marks(&error))?;
        let mut network = network(&engine, config)?;
        for (index, phase) in Phase::ALL.into_iter().enumerate() {
            marks.launch(engine.stream(), index).map_err(|error| fault::of_gpu(&error))?;
            run(&mut network, phase).map_err(|error| fault::of_network(&error))?;
        }
        network.synchronize().map_err(|error| fault::of_network(&error))
    }
}

/// Opens a GPU for networks whose products and activations are launches of their own.
fn open(index: u32) -> Result<Engine, MeterError> {
    let context = Context::new(index as usize).map_err(|error| fault::of_gpu(&error))?;
    Engine::new(&context).map_err(|error| fault::of_network(&error))
}

/// The network of a configuration, without weights, if there is memory for it.
fn network(engine: &Engine, config: Config) -> Result<Network<'_>, MeterError> {
    let shape = Shape::new(config.n, config.d, config.m).map_err(|error| fault::of_network(&error))?;
    // The memory of the previous network is freed when the stream reaches that point.
    engine.stream().synchronize().map_err(|error| fault::of_gpu(&error))?;
    let memory = engine.context().memory().map_err(|error| fault::of_gpu(&error))?;
    let needed = bytes_needed(shape).saturating_add(SPARE_BYTES);
    if needed > memory.free {
        return Err(MeterError::DoesNotFit { needed, available: memory.free });
    }
    engine.network(shape).map_err(|error| fault::of_network(&error))
}

/// Queues one phase.
fn run(network: &mut Network<'_>, phase: Phase) -> Result<(), crate::square::SquareError> {
    match phase {
        Phase::Setup => network.initialize(SEED),
        Phase::Forward => network.forward(),
        Phase::Backward => network.backward(),
    }
}

/// Counters in this process, on one GPU.
struct Counters {
    // Fields are dropped in this order: the session must end before the context.
    session: CounterSession,
    engine: Engine,
    quantities: &'static [Quantity],
    /// What was counted, where launches that are alike are counted once.
    repeats: Option<Repeats>,
}

impl Meter for Counters {
    fn measure(&mut self, config: Config) -> Result<Record, MeterError> {
        let Counters { session, engine, quantities, repeats } = self;
        let mut open =
            |config| network(engine, config).map(|mut network| move |phase| run(&mut network, phase));
        let rows = match repeats {
            Some(repeats) => repeats.measure(session, config, &mut open),
            None => {
                open(config).and_then(|mut run| Ok((count(session, expected_launches(config), &mut run)?, 0)))
            }
        };
        let result = rows.and_then(|(rows, taken_over)| {
            Ok(record(config, quantities, &rows)?.with_taken_over(taken_over))
        });
        result.map_err(|error| match error {
            // An error of a kernel is sticky: everything after it in this context fails, too.
            MeterError::Failed { message } if self.engine.context().synchronize().is_err() => {
                MeterError::Lost { message }
            }
            error => error,
        })
    }
}

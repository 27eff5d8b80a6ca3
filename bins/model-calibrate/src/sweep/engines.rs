//! The engines of a sweep.

use std::collections::BTreeMap;

use flopgap_calibration::Origin;
use flopgap_calibration::engines::cpu::{CpuSettings, Rapl};
use flopgap_calibration::engines::cuda::{Cuda, Fused};
use flopgap_calibration::engines::{
    Engine, EngineError, Monitor, Native, Nvml, Ort, Torch, TorchMode, TorchSettings, Unwatched,
};
use flopgap_cli::{Device, Exit, Failure};

use super::arguments::Options;
use super::models::UserModel;
use crate::PROGRAM;

/// Engines on one device.
pub(crate) struct Engines {
    pub(crate) all: Vec<Box<dyn Engine>>,
    /// The device, with properties and versions from all engines.
    pub(crate) origin: Origin,
}

impl Engines {
    /// Opens the requested engines, or the available ones among the device's usual engines.
    ///
    /// # Errors
    /// A requested engine is not on this machine, or not for this device; two see different
    /// devices.
    pub(crate) fn open(
        options: &Options,
        device: Device,
        models: &[UserModel],
        references: Option<BTreeMap<String, f64>>,
    ) -> Result<Engines, Failure> {
        let mut settings =
            CpuSettings { references: references.filter(|best| !best.is_empty()), ..CpuSettings::default() };
        if let Some(threads) = options.threads {
            settings.threads = threads;
        }
        let requested: Vec<&str> = options.engine.iter().map(String::as_str).collect();
        let usual: &[&str] = match device {
            // `native` has no models from files.
            Device::Cpu if !options.is_drawn() && !options.model.is_empty() => &["ort"],
            Device::Cpu if options.full => &["native", "ort"],
            Device::Cpu => &["native"],
            Device::Cuda(_) => &["cuda"],
        };
        let names = if requested.is_empty() { usual } else { &requested };
        let mut all: Vec<Box<dyn Engine>> = Vec::new();
        for (place, &name) in names.iter().enumerate() {
            if names[..place].contains(&name) {
                let message = format!("--engine: `{name}` is given twice");
                return Err(Failure::new(message).exit(Exit::Usage));
            }
            match open(name, device, &settings, models) {
                Ok(engine) => {
                    // One unit of time for all engines on the cores.
                    if settings.references.is_none() {
                        settings.references = Some(engine.references()).filter(|best| !best.is_empty());
                    }
                    all.push(engine);
                }
                Err(Opening::Engine(error @ EngineError::Missing { .. }))
                    if requested.is_empty() && place > 0 =>
                {
                    flopgap_cli::note(
                        PROGRAM,
                        format_args!("without engine {name}: {}", flopgap_files::chain(&error)),
                    );
                }
                Err(Opening::Engine(error)) => return Err(Failure::of(&error)),
                Err(Opening::Name(failure)) => return Err(failure),
            }
        }
        let origin = joined(&all)?;
        Ok(Engines { all, origin })
    }

    /// The engine of a name.
    pub(crate) fn get(&self, name: &str) -> Option<&dyn Engine> {
        self.all.iter().find(|engine| engine.name() == name).map(AsRef::as_ref)
    }

    /// Best times of the reference kernels, if any.
    pub(crate) fn references(&self) -> BTreeMap<String, f64> {
        self.all.first().map(|engine| engine.references()).unwrap_or_default()
    }
}

/// Why an engine was not opened.
enum Opening {
    Engine(EngineError),
    Name(Failure),
}

impl From<EngineError> for Opening {
    fn from(error: EngineError) -> Self {
        Opening::Engine(error)
    }
}

fn open(
    name: &str,
    device: Device,
    settings: &CpuSettings,
    models: &[UserModel],
) -> Result<Box<dyn Engine>, Opening> {
    match (name, device) {
        ("native", Device::Cpu) => Ok(Box::new(Native::new(settings))),
        ("ort", Device::Cpu) => {
            let ort = Ort::new(settings)?;
            let with = |ort: Ort, model: &UserModel| ort.with_file(model.spec.sha256.clone(), model.file());
            Ok(Box::new(models.iter().fold(ort, with)))
        }
        ("cuda", Device::Cuda(index)) => {
            Ok(Box::new(Cuda::with_references(index, settings.references.as_ref())?))
        }
        ("fused", Device::Cuda(index)) => {
            Ok(Box::new(Fused::with_references(index, settings.references.as_ref())?))
        }
        ("torch-eager", _) => torch(TorchMode::Eager, device, settings, models),
        ("torch-compile", _) => torch(TorchMode::Compile, device, settings, models),
        ("torch-graph", Device::Cuda(_)) => torch(TorchMode::Graph, device, settings, models),
        ("native" | "ort" | "cuda" | "fused" | "torch-graph", _) => {
            let message = format!("--engine {name} does not run on {device}");
            Err(Opening::Name(Failure::new(message).exit(Exit::Usage)))
        }
        _ => {
            let message = format!("--engine: unknown engine `{name}`");
            let hint = "choose native, ort, cuda, fused, torch-eager, torch-compile or torch-graph";
            Err(Opening::Name(Failure::new(message).exit(Exit::Usage).hint(hint)))
        }
    }
}

/// PyTorch of `FLOPGAP_PYTHON`, of the virtual environment, or of `python3`.
fn torch(
    mode: TorchMode,
    device: Device,
    settings: &CpuSettings,
    models: &[UserModel],
) -> Result<Box<dyn Engine>, Opening> {
    let gpu = match device {
        Device::Cpu => None,
        Device::Cuda(index) => Some(index),
    };
    let torch = Torch::new(&TorchSettings { mode, gpu, cpu: settings.clone(), python: None })?;
    let with = |torch: Torch, model: &UserModel| torch.with_file(model.spec.sha256.clone(), model.file());
    Ok(Box::new(models.iter().fold(torch, with)))
}

/// The engines' descriptions of one device, combined: its properties and all versions.
fn joined(all: &[Box<dyn Engine>]) -> Result<Origin, Failure> {
    let mut engines = all.iter();
    let Some(first) = engines.next() else { return Err(Failure::new("no engine").exit(Exit::Absent)) };
    let mut origin = first.origin().clone();
    for engine in engines {
        let other = engine.origin();
        if (&other.device, &other.kind) != (&origin.device, &origin.kind) {
            let message = format!(
                "engines {} and {} are on different devices, `{}` and `{}`; a run supports one device",
                first.name(),
                engine.name(),
                origin.device,
                other.device
            );
            return Err(Failure::new(message).exit(Exit::Usage));
        }
        for (name, value) in &other.properties {
            origin.properties.entry(name.clone()).or_insert_with(|| value.clone());
        }
        for (name, value) in &other.versions {
            match origin.versions.get(name) {
                Some(ours) if ours != value => {
                    origin.versions.insert(format!("{name} of {}", engine.name()), value.clone());
                }
                Some(_) => {}
                None => {
                    origin.versions.insert(name.clone(), value.clone());
                }
            }
        }
    }
    Ok(origin)
}

/// The monitor of the device. If energy was requested but is unavailable, a single warning says so.
pub(crate) fn monitor(device: Device, energy: bool) -> Box<dyn Monitor> {
    let opened: Result<Box<dyn Monitor>, EngineError> = match device {
        Device::Cpu => Rapl::open().map(|rapl| Box::new(rapl) as Box<dyn Monitor>),
        Device::Cuda(index) => flopgap_gpu::Device::get(index)
            .map_err(EngineError::from)
            .and_then(|gpu| Nvml::open(&gpu.uuid))
            .map(|nvml| Box::new(nvml) as Box<dyn Monitor>),
    };
    opened.unwrap_or_else(|error| {
        // On a GPU, clocks and throttling are missing, too; on a CPU, RAPL reports energy alone.
        if energy || device != Device::Cpu {
            flopgap_cli::note(PROGRAM, format_args!("without energy: {}", flopgap_files::chain(&error)));
        }
        Box::new(Unwatched)
    })
}

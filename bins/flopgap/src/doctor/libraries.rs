//! The driver, the GPUs and the libraries of CUDA that flopgap loads.

use flopgap_files::Hint;
use flopgap_gpu::counters::{Chip, CounterError, cupti_version};
use flopgap_gpu::library::{Library, probe};
use flopgap_gpu::{Context, Device, GpuError, blas, compile, dnn, driver_version};

use super::{Finding, Machine, State, counters};

const MEASURES: &str = "measuring on GPUs: flopgap profile, validate, bench and calibrate";

pub(super) fn findings(machine: &Machine) -> Vec<Finding> {
    let mut findings = vec![Finding { item: "NVIDIA driver".to_owned(), state: driver(), enables: MEASURES }];
    let devices = Device::all();
    match &devices {
        Ok(devices) => findings.extend(devices.iter().map(|device| {
            let gib = device.memory_bytes as f64 / f64::from(1 << 30);
            let capability = device.compute_capability;
            let what = format!("{}, compute capability {capability}, {gib:.1} GiB", device.name);
            Finding { item: format!("GPU {}", device.index), state: State::Found(what), enables: MEASURES }
        })),
        Err(error) => {
            let state = match error {
                GpuError::Library(_) => {
                    State::missing("not asked: there is no driver", "see the NVIDIA driver")
                }
                error => missing(error),
            };
            findings.push(Finding { item: "GPU".to_owned(), state, enables: MEASURES });
        }
    }
    let first = devices.as_ref().ok().and_then(|devices| devices.first());
    #[cfg(feature = "calibrate")]
    findings.push(Finding {
        item: "NVML".to_owned(),
        state: nvml(first),
        enables: "energy, clocks and throttling of measured networks: flopgap calibrate sweep",
    });
    let library = |item: &str, library, version: Result<String, State>, enables| {
        let state = version.map_or_else(|state| state, |version| at(library, &version));
        Finding { item: item.to_owned(), state, enables }
    };
    let cupti = match probe(Library::Driver) {
        Ok(_) => cupti_version().map(|version| version.to_string()).map_err(|error| missing(&error)),
        Err(_) => Ok("its version is not known without a driver".to_owned()),
    };
    let enables = "recording: flopgap record; counters of this process: flopgap profile and validate, and \
                   flopgap.count of Python";
    findings.push(library("CUPTI", Library::Cupti, cupti, enables));
    findings.push(counters::finding(permission(machine, first)));
    let nvrtc = compile::Compiler::without_cache().map_err(|error| missing(&error));
    let nvrtc = nvrtc.map(|compiler| format!("{}.{}", compiler.version().0, compiler.version().1));
    let enables =
        "kernels of flopgap, which are compiled when they run: flopgap profile, bench and calibrate";
    findings.push(library("NVRTC", Library::Nvrtc, nvrtc, enables));
    let three = |(major, minor, patch)| format!("{major}.{minor}.{patch}");
    let cublas = blas::version().map(three).map_err(|error| missing(&error));
    findings.push(library(
        "cuBLAS",
        Library::Cublas,
        cublas,
        "its matrix products as a reference and an engine",
    ));
    let cudnn = dnn::version().map(three).map_err(|error| missing(&error));
    findings.push(library("cuDNN", Library::Cudnn, cudnn, "convolutions: flopgap calibrate"));
    findings
}

fn driver() -> State {
    match driver_version() {
        Ok(version) => {
            let (major, minor) = version.cuda;
            let module = version.module.unwrap_or_else(|| "of unknown version".to_owned());
            at(Library::Driver, &format!("{module}, for CUDA up to {major}.{minor}"))
        }
        Err(error) => missing(&error),
    }
}

/// A version of a library, and where it was loaded from.
fn at(library: Library, version: &str) -> State {
    match probe(library) {
        Ok(loaded) => State::Found(format!("{version} ({})", loaded.path().display())),
        Err(error) => missing(&error),
    }
}

fn missing(error: &impl Hint) -> State {
    let remedy = error.hint().map(|hint| hint.to_string());
    State::missing(
        flopgap_files::chain(error).to_string(),
        remedy.unwrap_or_else(|| "see the error".to_owned()),
    )
}

/// Whether CUPTI lets this process count; without a GPU, what the driver's setting says.
fn permission(machine: &Machine, device: Option<&Device>) -> State {
    let chip = device.and_then(|device| Context::new(device.index).ok()).map(|context| Chip::new(&context));
    match chip {
        Some(Ok(chip)) => {
            State::Found(format!("CUPTI reads {} counters of {}", chip.counters().len(), chip.name()))
        }
        Some(Err(error @ (CounterError::Privileges { .. } | CounterError::Unsupported { .. }))) => {
            missing(&error)
        }
        // What is missing has a finding of its own.
        Some(Err(_)) | None => counters::by_setting(&machine.root),
    }
}

#[cfg(feature = "calibrate")]
fn nvml(device: Option<&Device>) -> State {
    use flopgap_calibration::engines::Nvml;

    let Some(device) = device else {
        return State::missing("not asked: there is no GPU", "see the GPU");
    };
    match Nvml::open(&device.uuid) {
        Ok(_) => State::Found(format!("knows {}", device.name)),
        Err(error) => missing(&error),
    }
}

//! The state and energy of a GPU, from NVML.

use std::ffi::OsStr;

use crate::{DeviceState, EnergySource};
use nvml_wrapper::bitmasks::device::ThrottleReasons;
use nvml_wrapper::enum_wrappers::device::{Clock, TemperatureSensor};
use nvml_wrapper::error::NvmlError;

use crate::engines::error::EngineError;
use crate::engines::measure::Monitor;

/// Names of the library: drivers bring the first, the second comes with the toolkit's headers.
const NAMES: [&str; 2] = ["libnvidia-ml.so.1", "libnvidia-ml.so"];

/// NVML, watching one GPU.
///
/// The energy counter is in millijoules and moves about ten times per second, so that the energy
/// of a window of 2 s is known within about 2 %. GPUs before Volta, virtual ones and those of Tegra
/// have none: [`Nvml::energy`] says so, and [`Monitor::joules`] is `None` then, never 0.
#[derive(Debug)]
pub struct Nvml {
    nvml: nvml_wrapper::Nvml,
    index: u32,
}

impl Nvml {
    /// Watches the GPU with this identity ([`flopgap_gpu::Device::uuid`]).
    ///
    /// # Errors
    /// [`EngineError::Missing`] without the library, its driver, or the GPU among those that NVML
    /// knows; [`EngineError::Failed`] where it refuses.
    pub fn open(uuid: &str) -> Result<Self, EngineError> {
        let nvml = init().map_err(|error| refused("start NVML", &error))?;
        let index = nvml
            .device_by_uuid(uuid)
            .and_then(|device| device.index())
            .map_err(|error| refused("find the GPU in NVML", &error))?;
        Ok(Nvml { nvml, index })
    }

    /// Joules that the GPU has used since the driver was loaded.
    ///
    /// # Errors
    /// [`EngineError::Missing`] where the GPU has no such counter, [`EngineError::Failed`] where
    /// NVML refuses.
    pub fn energy(&self) -> Result<f64, EngineError> {
        let millijoules = self
            .nvml
            .device_by_index(self.index)
            .and_then(|device| device.total_energy_consumption())
            .map_err(|error| refused("read the energy counter of NVML", &error))?;
        Ok(millijoules as f64 * 1e-3)
    }

    /// Clocks, temperature and what holds the clocks down. What NVML does not tell is absent.
    ///
    /// # Errors
    /// Where NVML refuses everything.
    pub fn state(&self) -> Result<DeviceState, EngineError> {
        let device =
            self.nvml.device_by_index(self.index).map_err(|error| refused("find the GPU in NVML", &error))?;
        Ok(DeviceState {
            clock_mhz: device.clock_info(Clock::SM).ok(),
            memory_clock_mhz: device.clock_info(Clock::Memory).ok(),
            temperature_c: device.temperature(TemperatureSensor::Gpu).ok(),
            throttle: device.current_throttle_reasons().map(throttle).unwrap_or_default(),
        })
    }
}

impl Monitor for Nvml {
    fn state(&mut self) -> Option<DeviceState> {
        Nvml::state(self).ok()
    }

    fn joules(&mut self) -> Option<(f64, EnergySource)> {
        self.energy().ok().map(|joules| (joules, EnergySource::Nvml))
    }
}

fn init() -> Result<nvml_wrapper::Nvml, NvmlError> {
    let [first, second] = NAMES.map(OsStr::new);
    let start = |name| nvml_wrapper::Nvml::builder().lib_path(name).init();
    match start(first) {
        // The first error says more: the second library is rarely there.
        Err(error @ NvmlError::LibloadingError(_)) => start(second).map_err(|_| error),
        started => started,
    }
}

/// NVML's names of what holds the clocks down. That a GPU is idle is none of it.
fn throttle(reasons: ThrottleReasons) -> Vec<String> {
    let holding = reasons.difference(ThrottleReasons::GPU_IDLE);
    holding.iter_names().map(|(name, _)| name.to_owned()).collect()
}

fn refused(action: &str, error: &NvmlError) -> EngineError {
    let (what, hint) = match error {
        NvmlError::LibloadingError(_) => {
            ("NVML", "install NVIDIA's driver; start a container with the capability `utility`")
        }
        NvmlError::DriverNotLoaded => ("NVIDIA's driver", "check `nvidia-smi`"),
        NvmlError::NotFound => ("the GPU in NVML's list", "check `nvidia-smi -L` and CUDA_VISIBLE_DEVICES"),
        NvmlError::NotSupported => (
            "the reading of NVML",
            "measure without energy: GPUs before Volta, virtual GPUs and Tegra have no energy counter",
        ),
        _ => return EngineError::Failed { action: action.to_owned(), message: error.to_string() },
    };
    EngineError::Missing { what, reason: format!("{action}: {error}"), hint }
}

#[cfg(test)]
mod tests {
    use flopgap_files::Hint as _;

    use flopgap_gpu::{Device, GpuError};

    use super::*;

    #[test]
    fn an_idle_gpu_is_not_held_down() {
        assert!(throttle(ThrottleReasons::GPU_IDLE).is_empty());
        assert!(throttle(ThrottleReasons::empty()).is_empty());
        let both = ThrottleReasons::GPU_IDLE | ThrottleReasons::SW_POWER_CAP;
        assert_eq!(throttle(both), ["SW_POWER_CAP"]);
    }

    #[test]
    fn what_is_not_there_is_missing_and_what_is_refused_has_failed() {
        let missing = refused("read the energy counter of NVML", &NvmlError::NotSupported);
        assert!(matches!(missing, EngineError::Missing { .. }), "{missing}");
        let failed = refused("start NVML", &NvmlError::NoPermission);
        assert_eq!(
            failed.to_string(),
            "start NVML: the current user does not have permission to perform this operation"
        );
    }

    #[test]
    fn nvml_is_missing_without_the_library_and_reports_with_it() {
        let device = match Device::get(0) {
            Ok(device) => device,
            Err(error) => {
                assert!(error.is_absence() || matches!(error, GpuError::Driver { .. }), "{error}");
                if let Err(error) = Nvml::open("GPU-00000000-0000-0000-0000-000000000000") {
                    assert!(matches!(error, EngineError::Missing { .. }), "{error}");
                }
                return flopgap_testing::skip("gpu", error);
            }
        };
        let nvml = Nvml::open(&device.uuid).unwrap();
        let state = nvml.state().unwrap();
        assert!(state.clock_mhz.is_some_and(|clock| clock > 100), "{state:?}");
        assert!(state.temperature_c.is_some_and(|degrees| (10..110).contains(&degrees)), "{state:?}");
        match nvml.energy() {
            Ok(joules) => assert!(joules > 0.0),
            Err(error) => assert!(matches!(error, EngineError::Missing { .. }), "{error}"),
        }
    }
}

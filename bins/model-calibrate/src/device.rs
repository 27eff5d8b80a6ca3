//! The device of a command.

use std::fmt;
use std::str::FromStr;

use flopgap_calibration::engines::cpu;
use flopgap_calibration::grid::{Caches, Target};
use flopgap_cli::{DeviceArg, Failure};
use flopgap_files::Hint as _;

/// The CPU, or one of its GPUs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Device {
    /// The cores.
    Cpu,
    /// A GPU by its number.
    Cuda(usize),
}

impl Device {
    /// The first GPU if there is one, otherwise the CPU.
    ///
    /// # Errors
    /// When there is a GPU that cannot be used, which differs from having none.
    pub(crate) fn find() -> Result<Device, Failure> {
        match flopgap_gpu::Device::count() {
            Ok(_) => Ok(Device::Cuda(0)),
            Err(error) if error.is_absence() => Ok(Device::Cpu),
            Err(error) => Err(error.into()),
        }
    }

    /// What plans are made for.
    pub(crate) fn target(self) -> Target {
        match self {
            Device::Cpu => Target::Cpu,
            Device::Cuda(_) => Target::Cuda,
        }
    }

    /// The device's caches, as far as it reports them.
    ///
    /// # Errors
    /// When there is no such GPU.
    pub(crate) fn caches(self) -> Result<Caches, Failure> {
        match self {
            Device::Cpu => Ok(Caches::of(&cpu::origin())),
            Device::Cuda(index) => {
                let device = flopgap_gpu::Device::get(index)?;
                let known = |bytes: u64| (bytes > 0).then_some(bytes);
                let l1 = known(device.shared_bytes_per_multiprocessor);
                Ok(Caches { l1, l2: known(device.l2_bytes), l3: None })
            }
        }
    }
}

impl fmt::Display for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Device::Cpu => f.write_str("cpu"),
            Device::Cuda(index) => write!(f, "cuda:{index}"),
        }
    }
}

impl FromStr for Device {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        text.parse().map(|device| match device {
            DeviceArg::Cpu => Device::Cpu,
            DeviceArg::Gpu(number) => Device::Cuda(number),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_by_name() {
        assert_eq!("cpu".parse(), Ok(Device::Cpu));
        assert_eq!("cuda".parse(), Ok(Device::Cuda(0)));
        assert_eq!("cuda:3".parse(), Ok(Device::Cuda(3)));
        assert_eq!("3".parse(), Ok(Device::Cuda(3)));
        for wrong in ["gpu", "cuda:", "cuda:-1", "cpu:0", ""] {
            assert!(wrong.parse::<Device>().unwrap_err().contains("expected cpu, cuda, or a GPU"), "{wrong}");
        }
        assert_eq!(Device::Cuda(3).to_string(), "cuda:3");
    }
}

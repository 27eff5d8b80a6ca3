//! The device of a command.

use flopgap_calibration::engines::cpu;
use flopgap_calibration::grid::{Caches, Target};
use flopgap_cli::{Device, Failure};
use flopgap_files::Hint as _;

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
pub(crate) fn target(device: Device) -> Target {
    match device {
        Device::Cpu => Target::Cpu,
        Device::Cuda(_) => Target::Cuda,
    }
}

/// The device's caches, as far as it reports them.
///
/// # Errors
/// When there is no such GPU.
pub(crate) fn caches(device: Device) -> Result<Caches, Failure> {
    match device {
        Device::Cpu => Ok(Caches::new(&cpu::origin())),
        Device::Cuda(index) => {
            let device = flopgap_gpu::Device::get(index)?;
            let known = |bytes: u64| (bytes > 0).then_some(bytes);
            let l1 = known(device.shared_bytes_per_multiprocessor);
            Ok(Caches { l1, l2: known(device.l2_bytes), l3: None })
        }
    }
}

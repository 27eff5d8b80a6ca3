//! Where networks are computed.

use std::str::FromStr;

use flopgap_cli::device_number;

/// A device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Device {
    /// The cores.
    Cpu,
    /// A GPU by its number, through CUDA.
    Cuda(usize),
    /// A device by its number, through Vulkan.
    Vulkan(usize),
}

impl FromStr for Device {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let device = match text.strip_prefix("vulkan") {
            Some("") => Some(Device::Vulkan(0)),
            Some(number) => number.strip_prefix(':').and_then(device_number).map(Device::Vulkan),
            // The number of a GPU without a prefix is one of CUDA's.
            None => text.parse().ok().map(|device| match device {
                flopgap_cli::Device::Cpu => Device::Cpu,
                flopgap_cli::Device::Cuda(number) => Device::Cuda(number),
            }),
        };
        device.ok_or_else(|| {
            "expected cpu, cuda, vulkan, or one of several by its number: 1, cuda:1 or vulkan:1".to_owned()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_by_name_and_number() {
        for (name, device) in [
            ("cpu", Device::Cpu),
            ("cuda", Device::Cuda(0)),
            ("cuda:3", Device::Cuda(3)),
            ("2", Device::Cuda(2)),
            ("vulkan", Device::Vulkan(0)),
            ("vulkan:1", Device::Vulkan(1)),
        ] {
            assert_eq!(name.parse(), Ok(device));
        }
        for wrong in ["gpu", "vulkan:", "vulkan:-1", "vulkan:x", "vulkan1", "vulkan:cuda:1", "cuda:", ""] {
            assert!(wrong.parse::<Device>().is_err(), "{wrong}");
        }
    }
}

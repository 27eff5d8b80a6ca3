//! Where networks are computed.

use std::str::FromStr;

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
        if text == "vulkan" {
            return Ok(Device::Vulkan(0));
        }
        // The number of a GPU without a prefix is one of CUDA's.
        let shared = text.strip_prefix("vulkan:").map(|number| format!("cuda:{number}"));
        match (shared.as_deref().unwrap_or(text).parse(), &shared) {
            (Ok(flopgap_cli::Device::Cpu), _) => Ok(Device::Cpu),
            (Ok(flopgap_cli::Device::Cuda(number)), None) => Ok(Device::Cuda(number)),
            (Ok(flopgap_cli::Device::Cuda(number)), Some(_)) => Ok(Device::Vulkan(number)),
            (Err(_), _) => {
                Err("expected cpu, cuda, vulkan, or one of several by its number: 1, cuda:1 or vulkan:1"
                    .to_owned())
            }
        }
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

//! Errors of Vulkan.

use ash::vk;
use flopgap_files::{ErrorKind, Hint, Text};

/// What Vulkan refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum VulkanError {
    /// The Vulkan loader was not found.
    #[error("the Vulkan loader cannot be opened: {0}")]
    Loader(String),
    /// No driver reports a device of Vulkan 1.3.
    #[error("no device of Vulkan 1.3")]
    NoDevice,
    /// This machine has no such device.
    #[error("no Vulkan device {asked}: this machine has {count}, numbered from 0")]
    NoSuchDevice {
        /// The number requested.
        asked: usize,
        /// How many there are.
        count: usize,
    },
    /// The device has not enough memory.
    #[error("out of memory of the Vulkan device: {wanted} bytes requested")]
    OutOfMemory {
        /// Bytes requested.
        wanted: u64,
    },
    /// A call failed.
    #[error("{call} failed: {result}")]
    Call {
        /// The function.
        call: &'static str,
        /// What it returned.
        result: String,
    },
}

impl VulkanError {
    /// For [`Result::map_err`]: of this call.
    pub(super) fn of(call: &'static str) -> impl FnOnce(vk::Result) -> Self {
        move |result| VulkanError::Call { call, result: format!("{result:?}") }
    }

    /// Whether there is no device, rather than one that fails.
    pub fn is_absence(&self) -> bool {
        matches!(self, VulkanError::Loader(_) | VulkanError::NoDevice | VulkanError::NoSuchDevice { .. })
    }
}

impl Hint for VulkanError {
    fn hint(&self) -> Option<Text<'_>> {
        match self {
            VulkanError::Loader(_) => {
                Some("install the loader (Debian and Ubuntu: libvulkan1) and a driver for Vulkan".into())
            }
            VulkanError::NoDevice => Some(
                "NVIDIA's driver brings Vulkan; in a container, NVIDIA_DRIVER_CAPABILITIES needs `graphics`"
                    .into(),
            ),
            _ => None,
        }
    }

    fn kind(&self) -> ErrorKind {
        if self.is_absence() { ErrorKind::Absent } else { ErrorKind::Failed }
    }
}

//! Errors of GPUs.

use cudarc::cublas::result::CublasError;
use cudarc::driver::{DriverError, sys};

use crate::compile::CompileError;
use crate::library::LibraryError;
use flopgap_files::{ErrorKind, Hint, Text};

/// Why a device could not be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum GpuError {
    /// A library of CUDA is missing or too old.
    #[error(transparent)]
    Library(#[from] LibraryError),
    /// The driver reports no GPU.
    #[error("no NVIDIA GPU: the driver reports no devices")]
    NoDevice,
    /// The driver does not start.
    #[error("the NVIDIA driver does not start: {message} (error {code})")]
    DriverBroken {
        /// The driver's error code.
        code: u32,
        /// The driver's message.
        message: String,
    },
    /// The driver is older than this crate needs.
    #[error("the NVIDIA driver supports CUDA {}.{}, flopgap needs {}.{} or newer", have.0, have.1, need.0, need.1)]
    DriverTooOld {
        /// The CUDA version of the driver.
        have: (u32, u32),
        /// The oldest that works.
        need: (u32, u32),
    },
    /// This machine has no such device.
    #[error("no GPU {asked}: this machine has {count}, numbered from 0")]
    NoSuchDevice {
        /// The number requested.
        asked: usize,
        /// How many there are.
        count: usize,
    },
    /// The device has not enough free memory.
    #[error("out of GPU memory: {wanted} bytes requested, {free} of {total} free")]
    OutOfMemory {
        /// Bytes requested.
        wanted: u64,
        /// Bytes free at that moment.
        free: u64,
        /// Bytes that the device has.
        total: u64,
    },
    /// A buffer and the host's slice, or two buffers, do not have the lengths that the operation
    /// needs.
    #[error("{what}: expected {needed} elements, the buffer has {found}")]
    Length {
        /// The operation.
        what: &'static str,
        /// Elements needed.
        needed: usize,
        /// Elements found.
        found: usize,
    },
    /// A size exceeds the range of a library.
    #[error("{what}: {value} is too large")]
    TooLarge {
        /// The kind of size.
        what: &'static str,
        /// Its value.
        value: usize,
    },
    /// Memory of one context was passed to work in another.
    #[error("memory and stream belong to different contexts")]
    OtherDevice,
    /// The default stream of each thread: another one wherever it is used.
    #[error("the per-thread default stream cannot be shared between threads")]
    PerThreadStream,
    /// An operation that is not possible while a stream is captured.
    #[error("cannot {action}")]
    Capturing {
        /// The operation, and what is captured.
        action: &'static str,
    },
    /// The driver refused a call, or an earlier kernel failed.
    #[error("{action}: {message} (CUDA error {code})")]
    Driver {
        /// The operation.
        action: &'static str,
        /// The driver's error code.
        code: u32,
        /// The driver's message.
        message: String,
    },
    /// Sizes that do not fit together.
    #[error("{what}: {message}")]
    Shape {
        /// The subject.
        what: &'static str,
        /// The sizes, and the problem.
        message: String,
    },
    /// cuDNN refused a call.
    #[error("{action}: {status}")]
    Cudnn {
        /// The operation.
        action: &'static str,
        /// cuDNN's name for the error and its message.
        status: String,
    },
    /// cuDNN has no engine for an operation.
    #[error("cuDNN has no engine for {what}{}", reason.as_ref().map(|text| format!(": {text}")).unwrap_or_default())]
    NoEngine {
        /// The operation.
        what: &'static str,
        /// Why the first engine that a heuristic named does not work, where it named one.
        reason: Option<String>,
    },
    /// cuBLAS refused a call.
    #[error("{action}: {status}")]
    Cublas {
        /// The operation.
        action: &'static str,
        /// cuBLAS's name for the error.
        status: String,
    },
}

impl Hint for GpuError {
    fn hint(&self) -> Option<Text<'_>> {
        let hint = match self {
            GpuError::Library(error) => return error.hint(),
            GpuError::NoDevice => {
                "check nvidia-smi and CUDA_VISIBLE_DEVICES; in a container, start it with the GPUs"
            }
            GpuError::DriverBroken { .. } => {
                "check nvidia-smi and dmesg: kernel module and libcuda must have the same version"
            }
            GpuError::DriverTooOld { .. } => "install a newer driver: CUDA 12.8 came with driver 570",
            GpuError::NoSuchDevice { .. } => {
                "list the GPUs with nvidia-smi -L; CUDA_VISIBLE_DEVICES renumbers them"
            }
            GpuError::Capturing { .. } => "do it before the capture begins, or after it has ended",
            GpuError::PerThreadStream => "create a stream, or use the default stream of the context",
            GpuError::OtherDevice => "copy the memory first (Stream::copy copies between GPUs)",
            GpuError::OutOfMemory { .. } => {
                "choose a smaller size, or end other programs on this GPU (nvidia-smi lists them)"
            }
            _ => return None,
        };
        Some(hint.into())
    }

    fn kind(&self) -> ErrorKind {
        match self {
            GpuError::Library(_)
            | GpuError::NoDevice
            | GpuError::NoSuchDevice { .. }
            | GpuError::DriverTooOld { .. }
            | GpuError::DriverBroken { .. } => ErrorKind::Absent,
            _ => ErrorKind::Failed,
        }
    }
}

impl GpuError {
    /// An error of the driver. `action` says what was attempted.
    pub(crate) fn driver(action: &'static str, error: DriverError) -> Self {
        let code = error.0 as u32;
        let message = match (error.error_name(), error.error_string()) {
            (Ok(name), Ok(text)) => format!("{}: {}", name.to_string_lossy(), text.to_string_lossy()),
            _ => format!("{:?}", error.0),
        };
        if error.0 == sys::CUresult::CUDA_ERROR_NO_DEVICE {
            GpuError::NoDevice
        } else {
            GpuError::Driver { action, code, message }
        }
    }
}

/// Says what was attempted where a library refused a call.
pub(crate) trait During<T> {
    /// The result, or the library's error with the operation.
    fn during(self, action: &'static str) -> Result<T, GpuError>;
}

impl<T> During<T> for Result<T, DriverError> {
    fn during(self, action: &'static str) -> Result<T, GpuError> {
        self.map_err(|error| GpuError::driver(action, error))
    }
}

impl<T> During<T> for Result<T, CublasError> {
    fn during(self, action: &'static str) -> Result<T, GpuError> {
        self.map_err(|error| GpuError::Cublas { action, status: format!("{:?}", error.0) })
    }
}

/// The errors of cuBLASLt have the names of those of cuBLAS.
impl<T> During<T> for Result<T, cudarc::cublaslt::result::CublasError> {
    fn during(self, action: &'static str) -> Result<T, GpuError> {
        self.map_err(|error| GpuError::Cublas { action, status: format!("{:?}", error.0) })
    }
}

/// Why a kernel of this crate is not available.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum KernelError {
    /// It could not be compiled.
    #[error(transparent)]
    Compile(#[from] CompileError),
    /// It could not be loaded, or there is not enough memory for what it works on.
    #[error(transparent)]
    Gpu(#[from] GpuError),
}

impl Hint for KernelError {
    fn hint(&self) -> Option<Text<'_>> {
        match self {
            KernelError::Compile(error) => error.hint(),
            KernelError::Gpu(error) => error.hint(),
        }
    }

    fn kind(&self) -> ErrorKind {
        match self {
            KernelError::Compile(error) => error.kind(),
            KernelError::Gpu(error) => error.kind(),
        }
    }
}

/// What a launch through [`cudarc`] returns.
impl From<DriverError> for GpuError {
    fn from(error: DriverError) -> Self {
        GpuError::driver("launch a kernel", error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_on_this_machine_is_an_absence() {
        assert!(GpuError::NoDevice.is_absence());
        assert!(GpuError::NoSuchDevice { asked: 3, count: 1 }.is_absence());
        assert!(!GpuError::OutOfMemory { wanted: 2, free: 1, total: 1 }.is_absence());
    }

    #[test]
    fn messages_name_the_numbers() {
        let error = GpuError::DriverTooOld { have: (12, 4), need: (12, 8) };
        assert_eq!(error.to_string(), "the NVIDIA driver supports CUDA 12.4, flopgap needs 12.8 or newer");
        let error = GpuError::Length { what: "copy to the GPU", needed: 8, found: 4 };
        assert_eq!(error.to_string(), "copy to the GPU: expected 8 elements, the buffer has 4");
    }
}

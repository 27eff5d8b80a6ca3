//! The interface between a run directory and a counter backend: CUPTI in this process, `ncu` on
//! another, or a fake in tests.

use flopgap_files::{ErrorKind, Hint, Text};
use serde::{Deserialize, Serialize};

use crate::sweep::{Config, Origin, Record};

/// A way to count the work of a GPU.
///
/// A run opens one [`Meter`] for each device, on the thread that will use it.
pub trait Backend: Sync {
    /// A description of the counters on this device, for the manifest. A run can be resumed only if
    /// this is unchanged, so it names everything that decides which kernels run: device, driver,
    /// profiler, library versions. Cheap: it starts nothing.
    ///
    /// # Errors
    /// [`MeterError::Unavailable`] when there is no such device, or a library or a privilege is
    /// missing.
    fn origin(&self, device: u32) -> Result<Origin, MeterError>;

    /// Opens a device for counting.
    ///
    /// # Errors
    /// As [`Backend::origin`].
    fn open(&self, device: u32) -> Result<Box<dyn Meter + '_>, MeterError>;
}

/// Counts configurations on one device, one at a time.
pub trait Meter {
    /// Runs setup, forward and backward pass of a network and returns every launch with its counts.
    ///
    /// # Errors
    /// [`MeterError::DoesNotFit`] and [`MeterError::Failed`] concern this configuration alone;
    /// after any other error the device is not used again.
    fn measure(&mut self, config: Config) -> Result<Record, MeterError>;
}

/// Why something was not counted. It is serialized as JSON between the process that runs a network
/// and the one that counts.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
#[serde(tag = "error", rename_all = "snake_case")]
#[non_exhaustive]
pub enum MeterError {
    /// There is no such device on this machine, or a library, a program or a privilege is missing.
    #[error("{what}")]
    Unavailable {
        /// What is missing.
        what: String,
        /// What to do about it.
        hint: Option<String>,
    },
    /// The configuration needs more memory than the device has.
    #[error("does not fit: it needs {} on the device, which has {}", binary(*needed), binary(*available))]
    DoesNotFit {
        /// Bytes that it needs.
        needed: u64,
        /// Bytes that the device has.
        available: u64,
    },
    /// This configuration could not be measured; others may.
    #[error("{message}")]
    Failed {
        /// What happened.
        message: String,
    },
    /// The device or the profiler is gone: nothing more can be measured.
    #[error("{message}")]
    Lost {
        /// What happened.
        message: String,
    },
}

impl Hint for MeterError {
    fn hint(&self) -> Option<Text<'_>> {
        match self {
            MeterError::Unavailable { hint, .. } => hint.as_deref().map(Text::from),
            MeterError::DoesNotFit { .. } | MeterError::Failed { .. } | MeterError::Lost { .. } => None,
        }
    }

    fn kind(&self) -> ErrorKind {
        match self {
            MeterError::Unavailable { .. } => ErrorKind::Absent,
            MeterError::DoesNotFit { .. } | MeterError::Failed { .. } | MeterError::Lost { .. } => {
                ErrorKind::Failed
            }
        }
    }
}

/// `1.5 GiB`, or a smaller unit for less than one.
fn binary(bytes: u64) -> String {
    let (unit, name) = match bytes {
        0..0x400 => return format!("{bytes} bytes"),
        0x400..0x10_0000 => (1 << 10, "KiB"),
        0x10_0000..0x4000_0000 => (1 << 20, "MiB"),
        _ => (1 << 30, "GiB"),
    };
    format!("{:.1} {name}", bytes as f64 / f64::from(unit))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_in_words() {
        let message = |needed, available| MeterError::DoesNotFit { needed, available }.to_string();
        assert_eq!(
            message(3 << 29, 0x10_0000),
            "does not fit: it needs 1.5 GiB on the device, which has 1.0 MiB"
        );
        assert_eq!(
            message(u64::MAX, 17),
            "does not fit: it needs 17179869184.0 GiB on the device, which has 17 bytes"
        );
    }
}

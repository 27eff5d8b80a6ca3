//! The seam to the GPU: counters within this process are a [`Backend`] of `flopgap-sweep`, the same that fills run directories.

use flopgap_sweep::{Backend, Meter, MeterError, Origin};

/// A machine without a GPU that this program could use.
#[derive(Clone, Copy, Debug)]
pub struct Absent;

impl Absent {
    fn error() -> MeterError {
        MeterError::Unavailable {
            what: "this build of mlp-validate reaches no GPU".to_owned(),
            hint: Some("give recorded counters: --counters with ncu reports or a run directory".to_owned()),
        }
    }
}

impl Backend for Absent {
    fn origin(&self, _device: u32) -> Result<Origin, MeterError> {
        Err(Absent::error())
    }

    fn open(&self, _device: u32) -> Result<Box<dyn Meter + '_>, MeterError> {
        Err(Absent::error())
    }
}

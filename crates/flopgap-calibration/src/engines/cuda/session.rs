//! A workload on the device, checked and timed.

use std::time::Duration;

use crate::{Check, Timing};
use flopgap_flops::Precision;
use flopgap_graph::{Algorithm, Mode};

use crate::engines::engine::{Repetition, Session};
use crate::engines::error::EngineError;

use super::clock::Clock;
use super::counted::counted_flops;
use super::kernel::Numbers;
use super::program::Program;
use super::tools::Tools;

/// An open workload.
pub(super) struct CudaSession<'a> {
    tools: &'a Tools,
    program: Program,
    precision: Precision,
    clock: Clock<'a>,
    algorithms: Vec<Algorithm>,
    /// Bytes of device memory that the program took.
    device_bytes: Option<u64>,
}

impl<'a> CudaSession<'a> {
    /// Runs the program once.
    ///
    /// # Errors
    /// The libraries', the driver's.
    pub(super) fn new(
        tools: &'a Tools,
        mut program: Program,
        (precision, mode): (Precision, Mode),
        free_before: u64,
    ) -> Result<Self, EngineError> {
        program.run()?;
        tools.stream.synchronize()?;
        let device_bytes = lost(free_before, tools.context.memory()?.free);
        let algorithms = program.algorithms(tools);
        let clock = Clock::new(&tools.stream, mode, &tools.launches);
        Ok(CudaSession { tools, program, precision, clock, algorithms, device_bytes })
    }
}

/// What the device has less than before; absent where it has as much, because the driver gave what
/// it had in reserve.
pub(super) fn lost(before: u64, after: u64) -> Option<u64> {
    before.checked_sub(after).filter(|&bytes| bytes > 0)
}

impl Session for CudaSession<'_> {
    fn check(&mut self) -> Result<Check, EngineError> {
        self.program.check(self.tools, Numbers::of(self.precision))
    }

    fn time(&mut self, limit: &Repetition) -> Result<Timing, EngineError> {
        let CudaSession { program, clock, .. } = self;
        clock.time(limit, &mut || program.run())
    }

    fn run_for(&mut self, duration: Duration) -> Result<u64, EngineError> {
        let CudaSession { program, clock, .. } = self;
        clock.run_for(duration, &mut || program.run())
    }

    fn memory_bytes(&self) -> Option<u64> {
        Some(self.program.bytes())
    }

    fn device_memory_bytes(&self) -> Option<u64> {
        self.device_bytes
    }

    fn counted_flops(&mut self) -> Result<Option<u64>, EngineError> {
        let CudaSession { tools, program, precision, .. } = self;
        counted_flops(&tools.context, (program.len(), *precision), &mut || program.run())
    }

    fn algorithms(&self) -> Vec<Algorithm> {
        self.algorithms.clone()
    }

    fn remarks(&self) -> Vec<String> {
        let mut remarks = Vec::new();
        if !self.program.flows() && self.program.len() > 1 {
            let text = "each step reads what the step before it wrote last, not what the model's file says";
            remarks.push(text.to_owned());
        }
        remarks
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_that_was_in_reserve_is_not_lost() {
        assert_eq!(lost(100, 60), Some(40));
        assert_eq!(lost(100, 100), None);
        assert_eq!(lost(100, 120), None);
    }
}

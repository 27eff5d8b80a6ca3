//! Converts errors of the GPU to errors of a run.

use std::error::Error;

use crate::square::SquareError;
use flopgap_files::{Hint as _, chain};
use flopgap_gpu::compile::CompileError;
use flopgap_gpu::counters::CounterError;
use flopgap_gpu::{GpuError, MarkError};
use flopgap_phases::sweep::MeterError;

fn unavailable(error: &dyn Error, hint: Option<impl Into<String>>) -> MeterError {
    MeterError::Unavailable { what: chain(error).to_string(), hint: hint.map(Into::into) }
}

fn failed(error: &dyn Error) -> MeterError {
    MeterError::Failed { message: chain(error).to_string() }
}

pub(super) fn of_gpu(error: &GpuError) -> MeterError {
    match error {
        error if error.is_absence() => unavailable(error, error.hint()),
        GpuError::OutOfMemory { wanted, free, .. } => {
            MeterError::DoesNotFit { needed: *wanted, available: *free }
        }
        error => failed(error),
    }
}

pub(super) fn of_compiler(error: &CompileError) -> MeterError {
    match error {
        CompileError::Library(_) | CompileError::UnknownArchitecture { .. } => {
            unavailable(error, error.hint())
        }
        error => failed(error),
    }
}

pub(super) fn of_marks(error: &MarkError) -> MeterError {
    match error {
        MarkError::Compile(error) => of_compiler(error),
        MarkError::Gpu(error) => of_gpu(error),
        error => failed(error),
    }
}

pub(super) fn of_network(error: &SquareError) -> MeterError {
    match error {
        SquareError::Gpu(error) => of_gpu(error),
        SquareError::Compile(error) => of_compiler(error),
        error => failed(error),
    }
}

pub(super) fn of_counters(error: CounterError) -> MeterError {
    match error {
        CounterError::Gpu(error) => of_gpu(&error),
        // The other program that counts must end first.
        error if error.is_absence() || matches!(error, CounterError::Busy { .. }) => {
            unavailable(&error, error.hint())
        }
        CounterError::Work(error) => match error.downcast::<SquareError>() {
            Ok(error) => of_network(&error),
            Err(error) => failed(&*error),
        },
        error => failed(&error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_ends_a_run_and_what_fails_alone_does_not() {
        let hint = |error| match error {
            MeterError::Unavailable { hint, .. } => hint,
            other => panic!("{other:?}"),
        };
        assert!(hint(of_gpu(&GpuError::NoDevice)).unwrap().contains("CUDA_VISIBLE_DEVICES"));
        let refused = CounterError::Privileges { function: "cuptiRangeProfilerEnable" };
        assert!(hint(of_counters(refused)).unwrap().contains("CAP_SYS_ADMIN"));
        let busy = CounterError::Busy { function: "cuptiSubscribe", message: "in use".to_owned() };
        assert!(hint(of_counters(busy)).unwrap().contains("ncu"));
        let memory = GpuError::OutOfMemory { wanted: 9, free: 8, total: 10 };
        let of_work = CounterError::Work(Box::new(SquareError::Gpu(memory)));
        assert_eq!(of_counters(of_work), MeterError::DoesNotFit { needed: 9, available: 8 });
        let shape = crate::square::Shape::new(1, 1 << 31, 1).unwrap_err();
        assert!(matches!(of_network(&shape), MeterError::Failed { .. }));
        let rows = CounterError::Mismatch { launches: 3, ranges: 2 };
        assert_eq!(
            of_counters(rows),
            MeterError::Failed { message: "3 launches or regions, but 2 rows of counts".to_owned() }
        );
    }
}

//! What needs a library or a GPU that is not there is skipped, and says so.
//! `FLOPGAP_REQUIRE=nvrtc,gpu` turns the skips of those into failures.

#![expect(clippy::print_stderr, reason = "tests say what they skip")]

mod dense;

use std::sync::{Mutex, MutexGuard, PoisonError};

use flopgap_gpu::Context;
use flopgap_hint::Hint as _;

/// The first GPU, for one test at a time: the tests measure memory against each other otherwise.
fn gpu() -> Option<(Context, MutexGuard<'static, ()>)> {
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    let guard = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    match Context::new(0) {
        Ok(context) => Some((context, guard)),
        Err(error) => {
            assert!(error.is_absence(), "{error}");
            flopgap_skip::none("gpu", error)
        }
    }
}

//! Tests of the crate from outside. What needs a library or a GPU that is not there is skipped, and
//! says so.
//!
//! `FLOPGAP_REQUIRE=nvrtc,cupti,gpu` turns the skips of those into failures.

mod chips;
mod compiler;
mod convolutions;
mod counting;
mod fake;
mod foreign;
mod lifetimes;
mod products;
mod tracing;
mod work;

use std::sync::{Mutex, MutexGuard, PoisonError};

use flopgap_gpu::Context;
use flopgap_gpu::compile::Compiler;
use flopgap_gpu::library::{Library, probe};
use flopgap_hint::Hint as _;
use flopgap_skip::none;

fn compiler() -> Option<Compiler> {
    Compiler::without_cache().map_or_else(|error| none("nvrtc", error), Some)
}

fn has_cupti() -> bool {
    probe(Library::Cupti).map_or_else(|error| none("cupti", error), Some).is_some()
}

/// The first GPU, for one test at a time: a GPU has one counter session.
fn gpu() -> Option<(Context, MutexGuard<'static, ()>)> {
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    let guard = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    match Context::new(0) {
        Ok(context) => Some((context, guard)),
        Err(error) => {
            assert!(error.is_absence(), "{error}");
            none("gpu", error)
        }
    }
}

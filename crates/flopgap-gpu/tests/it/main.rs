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

use std::sync::MutexGuard;

use flopgap_gpu::Context;
use flopgap_gpu::compile::Compiler;
use flopgap_gpu::library::{Library, probe};
use flopgap_testing::{none, turn};

fn compiler() -> Option<Compiler> {
    Compiler::without_cache().map_or_else(|error| none("nvrtc", error), Some)
}

fn has_cupti() -> bool {
    probe(Library::Cupti).map_or_else(|error| none("cupti", error), Some).is_some()
}

/// The first GPU, for one test at a time: a GPU has one counter session.
fn gpu() -> Option<(Context, MutexGuard<'static, ()>)> {
    turn("gpu", || Context::new(0))
}

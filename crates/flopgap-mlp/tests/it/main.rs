//! What needs a library or a GPU that is not there is skipped, and says so.
//! `FLOPGAP_REQUIRE=nvrtc,gpu,vulkan` turns the skips of those into failures.

#![expect(clippy::print_stderr, reason = "tests say what they skip")]

mod case;
mod dense;
mod encoding;
#[cfg(feature = "vulkan")]
mod vulkan;

use std::sync::MutexGuard;

use flopgap_gpu::Context;

/// The first GPU, for one test at a time: the tests measure memory against each other otherwise.
fn gpu() -> Option<(Context, MutexGuard<'static, ()>)> {
    flopgap_testing::turn("gpu", || Context::new(0))
}

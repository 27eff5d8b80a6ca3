//! The library that is injected into programs: it records what CUPTI and NVTX say into a file.
//!
//! `build.rs` compiles this module as the root of a crate of its own; the driver and NVTX call the
//! two functions below. It uses nothing but the standard library, and refers to
//! its modules by `super`, so that the tests of the crate can have it as a module.
//!
//! A recorder must not end the program that it records: what can panic is caught where C calls in,
//! a full disk refuses buffers instead of raising a signal, and no signal handler is touched.

mod activity;
mod c;
mod count;
mod cupti;
mod devices;
mod file;
#[path = "../format.rs"]
#[allow(dead_code, clippy::duplicate_mod, reason = "the reader has a copy of its own")]
mod format;
mod launch;
mod life;
mod nvtx;
mod plan;
mod profiler;
mod range;
mod recorder;
mod step;

use std::ffi::c_void;
use std::panic::catch_unwind;

/// What the driver calls when it initializes, after it loaded this library because
/// `CUDA_INJECTION64_PATH` names it. The result is not used by it.
#[unsafe(no_mangle)]
#[allow(unreachable_pub, reason = "the root of a library of its own")]
pub extern "C" fn InitializeInjection() -> i32 {
    i32::from(catch_unwind(activity::start).is_ok())
}

/// What NVTX calls with the first range, after it loaded this library because
/// `NVTX_INJECTION64_PATH` names it. Returns 1 where its functions were replaced.
///
/// # Safety
/// The argument is NVTX's.
#[unsafe(no_mangle)]
#[allow(unreachable_pub, reason = "the root of a library of its own")]
pub unsafe extern "C" fn InitializeInjectionNvtx2(
    export: Option<unsafe extern "C" fn(u32) -> *const c_void>,
) -> i32 {
    if catch_unwind(life::recorder).ok().flatten().is_none() {
        return 0;
    }
    // SAFETY: as the caller says.
    catch_unwind(|| unsafe { nvtx::attach(export) }).unwrap_or(0)
}

//! An arena whose bytes in use are those that a model asks for.
//!
//! ONNX Runtime's own arena grows by powers of two and hands out what it has: 54 MiB may be taken
//! from a piece of 64, and all 64 count as in use. What a model holds would depend on how the arena
//! happened to grow.

use std::ptr;
use std::sync::{Mutex, MutexGuard, PoisonError};

use ort::AsPointer as _;
use ort::environment::Environment;
use ort::memory::{AllocationDevice, AllocatorType, MemoryInfo, MemoryType};
use ort::sys::OrtArenaCfg;

/// `kSameAsRequested`: it grows by what is requested.
const AS_REQUESTED: i32 = 1;
/// All allocations are multiples of this many bytes.
const ALIGNMENT: i32 = 256;
/// Bytes of a piece that may stay unused when it is handed out; 0 would stand for the default, 128
/// MiB.
const UNUSED: i32 = 1;

/// An environment has one such arena at a time: sessions that would share it would be counted
/// together.
static ONE: Mutex<()> = Mutex::new(());

/// The arena of the sessions that are made with `session.use_env_allocators` as long as it lives.
pub(super) struct ExactArena<'a> {
    environment: &'a Environment,
    info: MemoryInfo<'static>,
    _one: MutexGuard<'static, ()>,
}

impl<'a> ExactArena<'a> {
    /// A fresh one. Waits for the one before it to go.
    #[expect(unsafe_code, reason = "the crate has no call for it")]
    pub(super) fn register(environment: &'a Environment) -> ort::Result<Self> {
        let one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
        let info = MemoryInfo::new(AllocationDevice::CPU, 0, AllocatorType::Arena, MemoryType::Default)?;
        let mut settings: *mut OrtArenaCfg = ptr::null_mut();
        let api = ort::api();
        // SAFETY: the library is loaded, since there is an environment; `settings` is written where
        // the status is a success.
        unsafe {
            ort::Error::result_from_status((api.CreateArenaCfg)(
                0,
                AS_REQUESTED,
                ALIGNMENT,
                UNUSED,
                &raw mut settings,
            ))?;
        }
        // SAFETY: the environment and the description outlive the call, which copies what it needs;
        // the settings were made above, and are released once.
        let registered = unsafe {
            let environment = environment.ptr().cast_mut();
            let status = (api.CreateAndRegisterAllocator)(environment, info.ptr(), settings);
            (api.ReleaseArenaCfg)(settings);
            ort::Error::result_from_status(status)
        };
        registered.map(|()| ExactArena { environment, info, _one: one })
    }
}

impl Drop for ExactArena<'_> {
    #[expect(unsafe_code, reason = "the crate has no call for it")]
    fn drop(&mut self) {
        // SAFETY: it was registered under this description; sessions hold what they use by shared
        // pointers.
        let status = unsafe {
            let environment = self.environment.ptr().cast_mut();
            ort::Error::result_from_status((ort::api().UnregisterAllocator)(environment, self.info.ptr()))
        };
        // One that could not be taken back makes the next registration fail, which is reported.
        drop(status);
    }
}

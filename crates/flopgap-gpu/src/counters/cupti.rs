//! The functions of CUPTI that the counters need, with their errors made typed.
//!
//! They are looked up here and not through `cudarc`, which would panic where one is missing, and
//! whose error type is a Rust enum: a code that a newer CUPTI returns must not be undefined
//! behavior. Only its C structs are used. `structSize` is the C macro's value, which is smaller
//! than the Rust struct where the last member is padded.

use std::ffi::{c_char, c_void};
use std::sync::{Mutex, OnceLock, PoisonError};

use cudarc::cupti::sys;

use super::CounterError;
use crate::device::copy_c_string;
use crate::library::{Library, LibraryError, Loaded, probe};

/// The version of this machine's CUPTI as it numbers itself: 130001 came with CUDA 13.0. No GPU is
/// needed, but its driver is.
///
/// # Errors
/// When CUPTI or the driver is missing.
pub fn cupti_version() -> Result<u32, CounterError> {
    // Without one, `cuptiGetVersion` of CUPTI 13 recurses until the stack overflows.
    probe(Library::Driver)?;
    let cupti = Cupti::get()?;
    let mut version = 0;
    // SAFETY: the pointer is valid for the call.
    let code = unsafe { (cupti.version)(&raw mut version) };
    cupti.check("cuptiGetVersion", code)?;
    Ok(version)
}

/// A function of CUPTI that takes one struct of parameters.
pub(super) type Call<P> = unsafe extern "C" fn(*mut P) -> u32;

/// A callback of CUPTI, with its enums as the integers that they are in C.
pub(super) type Callback = unsafe extern "C" fn(*mut c_void, u32, u32, *const c_void);

/// A subscriber of callbacks: opaque.
pub(super) type Subscriber = *mut c_void;

pub(super) const SUCCESS: u32 = 0;

/// `CUPTI_ERROR_{MIG,SLI,WSL}_DEVICE_NOT_SUPPORTED`.
const NOT_SUPPORTED_SINCE_13: [u32; 3] = [43, 44, 45];

/// `CUPTI_ERROR_NOT_INITIALIZED`.
const NOT_INITIALIZED: u32 = sys::CUptiResult::CUPTI_ERROR_NOT_INITIALIZED as u32;

/// Held during [`Cupti::call_alone`].
static ALONE: Mutex<()> = Mutex::new(());

/// The functions.
#[derive(Debug)]
pub(super) struct Cupti {
    pub(super) initialize: Call<sys::CUpti_Profiler_Initialize_Params>,
    pub(super) chip_name: Call<sys::CUpti_Device_GetChipName_Params>,
    pub(super) availability: Call<sys::CUpti_Profiler_GetCounterAvailability_Params>,
    pub(super) host_initialize: Call<sys::CUpti_Profiler_Host_Initialize_Params>,
    pub(super) host_deinitialize: Call<sys::CUpti_Profiler_Host_Deinitialize_Params>,
    pub(super) base_metrics: Call<sys::CUpti_Profiler_Host_GetBaseMetrics_Params>,
    pub(super) add_metrics: Call<sys::CUpti_Profiler_Host_ConfigAddMetrics_Params>,
    pub(super) config_size: Call<sys::CUpti_Profiler_Host_GetConfigImageSize_Params>,
    pub(super) config_image: Call<sys::CUpti_Profiler_Host_GetConfigImage_Params>,
    pub(super) passes: Call<sys::CUpti_Profiler_Host_GetNumOfPasses_Params>,
    pub(super) evaluate: Call<sys::CUpti_Profiler_Host_EvaluateToGpuValues_Params>,
    pub(super) enable: Call<sys::CUpti_RangeProfiler_Enable_Params>,
    pub(super) disable: Call<sys::CUpti_RangeProfiler_Disable_Params>,
    pub(super) data_size: Call<sys::CUpti_RangeProfiler_GetCounterDataSize_Params>,
    pub(super) data_initialize: Call<sys::CUpti_RangeProfiler_CounterDataImage_Initialize_Params>,
    pub(super) set_config: Call<sys::CUpti_RangeProfiler_SetConfig_Params>,
    pub(super) start: Call<sys::CUpti_RangeProfiler_Start_Params>,
    pub(super) stop: Call<sys::CUpti_RangeProfiler_Stop_Params>,
    pub(super) push_range: Call<sys::CUpti_RangeProfiler_PushRange_Params>,
    pub(super) pop_range: Call<sys::CUpti_RangeProfiler_PopRange_Params>,
    pub(super) decode: Call<sys::CUpti_RangeProfiler_DecodeData_Params>,
    pub(super) data_info: Call<sys::CUpti_RangeProfiler_GetCounterDataInfo_Params>,
    pub(super) range_info: Call<sys::CUpti_RangeProfiler_CounterData_GetRangeInfo_Params>,
    pub(super) subscribe: unsafe extern "C" fn(*mut Subscriber, Callback, *mut c_void) -> u32,
    pub(super) unsubscribe: unsafe extern "C" fn(Subscriber) -> u32,
    finalize: unsafe extern "C" fn() -> u32,
    pub(super) enable_callback: unsafe extern "C" fn(u32, Subscriber, u32, u32) -> u32,
    version: unsafe extern "C" fn(*mut u32) -> u32,
    result_string: unsafe extern "C" fn(u32, *mut *const c_char) -> u32,
}

impl Cupti {
    /// The functions of this machine's CUPTI.
    pub(super) fn get() -> Result<&'static Cupti, LibraryError> {
        static CUPTI: OnceLock<Cupti> = OnceLock::new();
        if let Some(cupti) = CUPTI.get() {
            return Ok(cupti);
        }
        let cupti = Cupti::look_up(probe(Library::Cupti)?)?;
        // CUPTI opens it by name on first use, and only says that it is "not initialized" if it is
        // missing.
        probe(Library::NvperfHost)?;
        Ok(CUPTI.get_or_init(|| cupti))
    }

    fn look_up(library: &Loaded) -> Result<Self, LibraryError> {
        // SAFETY: each function has the signature that `cupti_*.h` of CUDA 12.6 and newer gives it;
        // `CUptiResult` and the enums are C enums of 32 bits. The lookups only read addresses.
        unsafe {
            Ok(Cupti {
                initialize: library.symbol("cuptiProfilerInitialize")?,
                chip_name: library.symbol("cuptiDeviceGetChipName")?,
                availability: library.symbol("cuptiProfilerGetCounterAvailability")?,
                host_initialize: library.symbol("cuptiProfilerHostInitialize")?,
                host_deinitialize: library.symbol("cuptiProfilerHostDeinitialize")?,
                base_metrics: library.symbol("cuptiProfilerHostGetBaseMetrics")?,
                add_metrics: library.symbol("cuptiProfilerHostConfigAddMetrics")?,
                config_size: library.symbol("cuptiProfilerHostGetConfigImageSize")?,
                config_image: library.symbol("cuptiProfilerHostGetConfigImage")?,
                passes: library.symbol("cuptiProfilerHostGetNumOfPasses")?,
                evaluate: library.symbol("cuptiProfilerHostEvaluateToGpuValues")?,
                enable: library.symbol("cuptiRangeProfilerEnable")?,
                disable: library.symbol("cuptiRangeProfilerDisable")?,
                data_size: library.symbol("cuptiRangeProfilerGetCounterDataSize")?,
                data_initialize: library.symbol("cuptiRangeProfilerCounterDataImageInitialize")?,
                set_config: library.symbol("cuptiRangeProfilerSetConfig")?,
                start: library.symbol("cuptiRangeProfilerStart")?,
                stop: library.symbol("cuptiRangeProfilerStop")?,
                push_range: library.symbol("cuptiRangeProfilerPushRange")?,
                pop_range: library.symbol("cuptiRangeProfilerPopRange")?,
                decode: library.symbol("cuptiRangeProfilerDecodeData")?,
                data_info: library.symbol("cuptiRangeProfilerGetCounterDataInfo")?,
                range_info: library.symbol("cuptiRangeProfilerCounterDataGetRangeInfo")?,
                subscribe: library.symbol("cuptiSubscribe")?,
                unsubscribe: library.symbol("cuptiUnsubscribe")?,
                finalize: library.symbol("cuptiFinalize")?,
                enable_callback: library.symbol("cuptiEnableCallback")?,
                version: library.symbol("cuptiGetVersion")?,
                result_string: library.symbol("cuptiGetResultString")?,
            })
        }
    }

    /// Starts the profiler's side of CUPTI. Nothing happens where it runs already.
    pub(super) fn start(&self) -> Result<(), CounterError> {
        let mut initialize = sys::CUpti_Profiler_Initialize_Params {
            structSize: sys::Profiler_Initialize_Params_STRUCT_SIZE as usize,
            pPriv: std::ptr::null_mut(),
        };
        let mut initialized = || {
            // SAFETY: filled as `cupti_profiler_target.h` says.
            unsafe { self.call_alone("cuptiProfilerInitialize", self.initialize, &mut initialize) }
        };
        match initialized() {
            // After `cuptiFinalize`, a subscription attaches CUPTI again (13.0, on an H200); this
            // function alone does not.
            Err(CounterError::Cupti { code: NOT_INITIALIZED, .. }) => {
                self.attach()?;
                initialized()
            }
            other => other,
        }
    }

    /// Subscribes, and unsubscribes.
    fn attach(&self) -> Result<(), CounterError> {
        unsafe extern "C" fn nothing(_: *mut c_void, _: u32, _: u32, _: *const c_void) {}
        let mut subscriber: Subscriber = std::ptr::null_mut();
        // SAFETY: the pointer is valid for the call; the callback is a function of this program.
        let code = unsafe { (self.subscribe)(&raw mut subscriber, nothing, std::ptr::null_mut()) };
        self.check("cuptiSubscribe", code)?;
        // SAFETY: the subscriber is alive and is not used again.
        self.check("cuptiUnsubscribe", unsafe { (self.unsubscribe)(subscriber) })
    }

    /// Removes CUPTI from the process: its callbacks, subscribers and kernel patches end.
    pub(super) fn finalize(&self) -> Result<(), CounterError> {
        let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        // SAFETY: no session of this crate is alive, as the callers ensure.
        self.check("cuptiFinalize", unsafe { (self.finalize)() })
    }

    /// Calls a function that takes a struct.
    ///
    /// # Safety
    /// The struct has its `structSize`, a null `pPriv`, and members that are valid for this
    /// function, and `call` is one of `self`.
    pub(super) unsafe fn call<P>(
        &self,
        function: &'static str,
        call: Call<P>,
        params: &mut P,
    ) -> Result<(), CounterError> {
        // SAFETY: the caller's promise.
        let code = unsafe { call(std::ptr::from_mut(params)) };
        self.check(function, code)
    }

    /// [`Cupti::call`] for the functions that plan: they are not safe to call from two threads
    /// (CUPTI 13.0 fails with an unknown error).
    ///
    /// # Safety
    /// As [`Cupti::call`].
    pub(super) unsafe fn call_alone<P>(
        &self,
        function: &'static str,
        call: Call<P>,
        params: &mut P,
    ) -> Result<(), CounterError> {
        let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        // SAFETY: the caller's promise.
        unsafe { self.call(function, call, params) }
    }

    /// Converts an error of CUPTI.
    pub(super) fn check(&self, function: &'static str, code: u32) -> Result<(), CounterError> {
        if code == SUCCESS {
            return Ok(());
        }
        let mut text = std::ptr::null();
        // SAFETY: the pointer is valid for the call; CUPTI knows which codes it has and fails for
        // others.
        let known = unsafe { (self.result_string)(code, &raw mut text) } == SUCCESS;
        // SAFETY: a text that CUPTI returned with success is a C string of its own.
        let message = known.then(|| unsafe { copy_c_string(text) }).flatten();
        let message = message.unwrap_or_else(|| "unknown error".to_owned());
        Err(error(function, code, message))
    }
}

fn error(function: &'static str, code: u32, message: String) -> CounterError {
    use sys::CUptiResult as Code;
    let is = |known: Code| known as u32 == code;
    if is(Code::CUPTI_ERROR_INSUFFICIENT_PRIVILEGES)
        || is(Code::CUPTI_ERROR_VIRTUALIZED_DEVICE_INSUFFICIENT_PRIVILEGES)
    {
        CounterError::Privileges { function }
    } else if is(Code::CUPTI_ERROR_HARDWARE_BUSY) || is(Code::CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED)
    {
        CounterError::Busy { function, message }
    } else if is(Code::CUPTI_ERROR_NOT_SUPPORTED)
        || is(Code::CUPTI_ERROR_VIRTUALIZED_DEVICE_NOT_SUPPORTED)
        || is(Code::CUPTI_ERROR_CONFIDENTIAL_COMPUTING_NOT_SUPPORTED)
        || is(Code::CUPTI_ERROR_CMP_DEVICE_NOT_SUPPORTED)
        || NOT_SUPPORTED_SINCE_13.contains(&code)
    {
        CounterError::Unsupported { function, message }
    } else {
        CounterError::Cupti { function, code, message }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_become_what_the_user_can_act_on() {
        let of = |code| error("f", code, "words".to_owned());
        assert!(matches!(of(35), CounterError::Privileges { .. }));
        assert!(matches!(of(40), CounterError::Privileges { .. }));
        assert!(matches!(of(26), CounterError::Busy { .. }));
        assert!(matches!(of(39), CounterError::Busy { .. }));
        assert!(matches!(of(41), CounterError::Unsupported { .. }));
        assert!(matches!(of(43), CounterError::Unsupported { .. }));
        assert!(matches!(of(4711), CounterError::Cupti { code: 4711, .. }), "a code that no header has");
    }

    #[test]
    fn struct_sizes_are_those_of_the_c_macros() {
        // offsetof(last) + sizeof(last): 90 and 41, where Rust's struct is padded to 96 and 48.
        assert_eq!(sys::RangeProfiler_SetConfig_Params_STRUCT_SIZE, 90);
        assert_eq!(sys::RangeProfiler_Stop_Params_STRUCT_SIZE, 41);
        assert_eq!(size_of::<sys::CUpti_RangeProfiler_SetConfig_Params>(), 96);
        assert_eq!(size_of::<sys::CUpti_RangeProfiler_Stop_Params>(), 48);
    }
}

//! The range profiler of the fake: what kernels execute is made up, and a rule that tests know.

use std::ffi::{CStr, CString, c_char, c_void};
use std::ptr;
use std::sync::{Mutex, PoisonError};

use super::{KERNEL, fault, state};

type Callback = extern "C" fn(*mut c_void, u32, u32, *const c_void);

/// What a launch executes.
#[derive(Clone, Copy, Default)]
struct Executed {
    multiply_adds: u32,
    tensor: u32,
    bytes: u32,
}

struct Profiler {
    callback: Option<Callback>,
    follows: bool,
    /// A counter is at work.
    is_enabled: bool,
    is_open: bool,
    ranges: Vec<(Executed, CString)>,
    /// The kernel before.
    last: String,
    launches: u32,
}

static PROFILER: Mutex<Profiler> = Mutex::new(Profiler {
    callback: None,
    follows: false,
    is_enabled: false,
    is_open: false,
    ranges: Vec::new(),
    last: String::new(),
    launches: 0,
});

fn profiler() -> std::sync::MutexGuard<'static, Profiler> {
    PROFILER.lock().unwrap_or_else(PoisonError::into_inner)
}

const DRIVER: u32 = 1;
const LAUNCH_KERNEL: u32 = 307;
const LAUNCH_GRAPH: u32 = 514;
const BEGIN_CAPTURE: u32 = 495;
const END_CAPTURE: u32 = 497;
const INSUFFICIENT_PRIVILEGES: u32 = 35;
/// Ranges are found in another order than they were counted in, or not at all.
const INVALID: u32 = 1;

#[repr(C)]
struct Call {
    site: u32,
    function: *const c_char,
    parameters: *const c_void,
    result: *const u32,
    symbol: *const c_char,
    context: *mut c_void,
    context_number: u32,
    word: *mut u64,
    correlation: u32,
}

#[repr(C)]
struct Parameters {
    function: *const c_void,
    grid: [u32; 3],
    block: [u32; 3],
    shared: u32,
    stream: *const c_void,
}

pub(super) fn subscribed(callback: Callback) {
    profiler().callback = Some(callback);
}

pub(super) fn enabled(on: bool, domain: u32, number: u32) {
    if (domain, number) == (DRIVER, LAUNCH_KERNEL) {
        profiler().follows = on;
    }
}

/// Calls the subscriber before and after a kernel is launched.
pub(super) fn launched(name: &CStr, grid: [u32; 3], block: [u32; 3], launch: impl FnOnce()) {
    let (function, stream) = (ptr::null(), ptr::null());
    let parameters = Parameters { function, grid, block, shared: 0, stream };
    called(LAUNCH_KERNEL, ptr::from_ref(&parameters).cast(), name.as_ptr(), || {
        profiler().count(name);
        launch();
    });
}

/// And before and after a graph is.
pub(super) fn launched_graph(launch: impl FnOnce()) {
    called(LAUNCH_GRAPH, ptr::null(), ptr::null(), launch);
}

/// And before and after both ends of a capture. A counter that is at work then ends the program.
pub(super) fn captured() {
    called(BEGIN_CAPTURE, ptr::null(), ptr::null(), || {
        if profiler().is_enabled {
            std::process::abort();
        }
    });
    called(END_CAPTURE, ptr::null(), ptr::null(), || ());
}

fn called(number: u32, parameters: *const c_void, symbol: *const c_char, launch: impl FnOnce()) {
    let callback = {
        let profiler = profiler();
        profiler.callback.filter(|_| profiler.follows)
    };
    let (result, mut word) = (0, 0);
    let mut call = Call {
        site: 0,
        function: c"a function of the driver".as_ptr(),
        parameters,
        result: &raw const result,
        symbol,
        context: ptr::dangling_mut::<u8>().cast(),
        context_number: 1,
        word: &raw mut word,
        correlation: 0,
    };
    let call_it = |call: &Call| {
        if let Some(callback) = callback {
            callback(ptr::null_mut(), DRIVER, number, ptr::from_ref(call).cast());
        }
    };
    call_it(&call);
    launch();
    call.site = 1;
    call_it(&call);
}

impl Profiler {
    /// `foo` executes by what ran before it, `varies` never the same.
    fn count(&mut self, name: &CStr) {
        let name = name.to_str().unwrap_or_default();
        self.launches += 1;
        let executed = match (name, self.last.as_str()) {
            ("_Z3fooPf", "bar") => Executed { multiply_adds: 100, tensor: 4096, bytes: 512 },
            ("_Z3fooPf", _) => Executed { multiply_adds: 400, tensor: 8192, bytes: 512 },
            ("varies", _) => Executed { multiply_adds: 1000 + self.launches, tensor: 0, bytes: 64 },
            _ => Executed { multiply_adds: 10, tensor: 0, bytes: 32 },
        };
        name.clone_into(&mut self.last);
        if self.is_open
            && let Some((sum, _)) = self.ranges.last_mut()
        {
            sum.multiply_adds += executed.multiply_adds;
            sum.tensor += executed.tensor;
            sum.bytes += executed.bytes;
        }
    }
}

/// Functions that do nothing here.
macro_rules! nothing {
    ($($name:ident),*) => {$(
        #[unsafe(no_mangle)]
        pub extern "C" fn $name(_members: *mut u64) -> u32 {
            0
        }
    )*};
}

nothing!(
    cuptiProfilerInitialize,
    cuptiProfilerHostDeinitialize,
    cuptiProfilerHostConfigAddMetrics,
    cuptiProfilerHostGetConfigImage,
    cuptiRangeProfilerCounterDataImageInitialize,
    cuptiRangeProfilerStart,
    cuptiRangeProfilerStop,
    cuptiRangeProfilerDecodeData
);

/// Functions that set one member, a word of their struct.
macro_rules! answers {
    ($($name:ident: $word:literal = $value:expr;)*) => {$(
        /// # Safety
        /// As in CUPTI.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(members: *mut u64) -> u32 {
            // SAFETY: the struct has this word.
            unsafe { *members.add($word) = $value };
            0
        }
    )*};
}

answers! {
    cuptiProfilerGetCounterAvailability: 3 = 8;
    cuptiProfilerHostInitialize: 5 = 1;
    cuptiProfilerHostGetConfigImageSize: 3 = 8;
    cuptiRangeProfilerGetCounterDataSize: 7 = 8;
    cuptiRangeProfilerGetCounterDataInfo: 4 = profiler().ranges.len() as u64;
}

/// # Safety
/// As in CUPTI.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuptiRangeProfilerEnable(members: *mut u64) -> u32 {
    if fault("privileges") {
        return INSUFFICIENT_PRIVILEGES;
    }
    profiler().is_enabled = true;
    // SAFETY: the struct has this word.
    unsafe { *members.add(3) = 1 };
    0
}

#[unsafe(no_mangle)]
pub extern "C" fn cuptiRangeProfilerDisable(_members: *mut u64) -> u32 {
    profiler().is_enabled = false;
    0
}

#[unsafe(no_mangle)]
pub extern "C" fn cuptiRangeProfilerSetConfig(_members: *mut u64) -> u32 {
    profiler().ranges.clear();
    0
}

/// # Safety
/// As in CUPTI.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuptiRangeProfilerPushRange(members: *mut u64) -> u32 {
    // SAFETY: the struct has the pointer to the name there.
    let name = unsafe { CStr::from_ptr((*members.add(3) as usize as *const c_char).cast()) };
    let mut profiler = profiler();
    profiler.is_open = true;
    profiler.ranges.push((Executed::default(), name.to_owned()));
    0
}

#[unsafe(no_mangle)]
pub extern "C" fn cuptiRangeProfilerPopRange(_members: *mut u64) -> u32 {
    profiler().is_open = false;
    0
}

/// # Safety
/// As in CUPTI.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuptiRangeProfilerCounterDataGetRangeInfo(members: *mut u64) -> u32 {
    // SAFETY: the struct has the row and the pointer to the name there.
    unsafe {
        let row = usize::try_from(*members.add(4)).unwrap_or(usize::MAX);
        let Some(name) = profiler().ranges.get(row).map(|(_, name)| name.clone()) else { return INVALID };
        *members.add(6) = name.into_raw() as u64;
    }
    0
}

/// # Safety
/// As in CUPTI.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuptiProfilerHostEvaluateToGpuValues(members: *mut u64) -> u32 {
    // As on a GPU: kernels that are patched for their times have no counts of instructions.
    let traced = state().enabled & 1 << KERNEL != 0;
    // SAFETY: the struct has the row, the names, their number and the room for values there.
    unsafe {
        let row = usize::try_from(*members.add(5)).unwrap_or(usize::MAX);
        let Some((executed, _)) = profiler().ranges.get(row).cloned() else { return INVALID };
        let names = *members.add(6) as usize as *const *const c_char;
        let values = *members.add(8) as usize as *mut f64;
        for at in 0..usize::try_from(*members.add(7)).unwrap_or(0) {
            let value = match CStr::from_ptr(*names.add(at)).to_str() {
                Ok(name) if name.contains("ffma") && !traced => executed.multiply_adds,
                Ok(name) if name.contains("hgmma_src_bf16") => executed.tensor,
                Ok(name) if name.starts_with("dram__bytes_read") => executed.bytes,
                _ => 0,
            };
            *values.add(at) = f64::from(value);
        }
    }
    0
}

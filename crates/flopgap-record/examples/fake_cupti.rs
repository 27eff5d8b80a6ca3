//! A CUPTI for tests on machines without a GPU: the functions that the recorder calls, and one by
//! which a program launches kernels.
//!
//! Records have the sizes of the version that `FAKE_VERSION` names. `FAKE_FAULT` makes one of the
//! faults that real ones make: `dropped`, `untimed`, `reversed`, `subscribed`, `unfinished`,
//! `privileges`.

#![allow(missing_docs, reason = "the functions are CUPTI's")]
#![allow(clippy::cast_ptr_alignment, reason = "records are aligned to eight bytes")]

#[path = "fake_cupti/profiler.rs"]
#[allow(non_snake_case, unreachable_pub, reason = "the functions are CUPTI's")]
#[allow(clippy::cast_possible_truncation, reason = "words that are pointers")]
mod profiler;

use std::ffi::{CStr, c_char, c_void};
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

type Requested = extern "C" fn(*mut *mut u8, *mut usize, *mut usize);
type Completed = extern "C" fn(*mut c_void, u32, *mut u8, usize, usize);

/// A buffer that is being filled.
struct Buffer {
    at: *mut u8,
    size: usize,
    used: usize,
}

// SAFETY: it is used under a lock.
unsafe impl Send for Buffer {}

struct State {
    callbacks: Option<(Requested, Completed)>,
    buffer: Option<Buffer>,
    enabled: u64,
}

static STATE: Mutex<State> = Mutex::new(State { callbacks: None, buffer: None, enabled: 0 });
static CORRELATION: AtomicU32 = AtomicU32::new(0);
static DROPPED: AtomicU64 = AtomicU64::new(0);
static SUBSCRIBED: AtomicBool = AtomicBool::new(false);

const RUNTIME: u32 = 5;
const DEVICE: u32 = 8;
const KERNEL: u32 = 10;
const GRAPH: u32 = 51;
const GRAPH_LAUNCH: u32 = 311;
const LAUNCH: u32 = 211;
const MAX_LIMIT_REACHED: u32 = 12;
const INVALID_KIND: u32 = 21;
const MULTIPLE_SUBSCRIBERS: u32 = 39;

fn fault(name: &str) -> bool {
    std::env::var("FAKE_FAULT").is_ok_and(|fault| fault == name)
}

fn version() -> u32 {
    std::env::var("FAKE_VERSION").ok().and_then(|version| version.parse().ok()).unwrap_or(130_000)
}

/// The bytes of a record, as they have grown.
fn stride(kind: u32) -> usize {
    match (kind, version()) {
        (RUNTIME, _) => 40,
        (GRAPH, _) => 56,
        (DEVICE, _) => 184,
        (KERNEL, ..130_000) => 208,
        (KERNEL, 130_000..130_100) => 216,
        (KERNEL, _) => 248,
        _ => 0,
    }
}

fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_nanos());
    u64::try_from(since).unwrap_or(0)
}

impl State {
    /// Adds a record, if its kind is enabled and there is a buffer.
    fn add(&mut self, kind: u32, fill: impl FnOnce(&mut [u8])) {
        if self.enabled & 1 << kind == 0 {
            return;
        }
        let stride = stride(kind);
        if self.buffer.as_ref().is_some_and(|buffer| buffer.used + stride > buffer.size) {
            self.hand_over();
        }
        if self.buffer.is_none() {
            self.buffer = self.requested();
        }
        let Some(buffer) = &mut self.buffer else {
            DROPPED.fetch_add(1, Ordering::Relaxed);
            return;
        };
        let mut record = vec![0; stride];
        fill(&mut record);
        // The kind comes last: before it, the record is not there.
        // SAFETY: the buffer has room for it.
        unsafe {
            let at = buffer.at.add(buffer.used);
            ptr::copy_nonoverlapping(record[4..].as_ptr(), at.add(4), stride - 4);
            at.cast::<u32>().write_volatile(kind);
        }
        buffer.used += stride;
    }

    /// A record of a kernel that never ends.
    fn reserve(&mut self, wanted: bool) {
        let Some(buffer) = self.buffer.as_mut().filter(|_| wanted) else { return };
        if buffer.used + stride(KERNEL) <= buffer.size {
            // SAFETY: the buffer has room for it.
            unsafe { buffer.at.add(buffer.used).cast::<u32>().write_volatile(KERNEL | 1 << 31) };
            buffer.used += stride(KERNEL);
        }
    }

    fn requested(&self) -> Option<Buffer> {
        let (mut at, mut size, mut records) = (ptr::null_mut(), 0, 0);
        self.callbacks?.0(&raw mut at, &raw mut size, &raw mut records);
        (!at.is_null()).then_some(Buffer { at, size, used: 0 })
    }

    fn hand_over(&mut self) {
        if let (Some(buffer), Some(callbacks)) = (self.buffer.take(), self.callbacks) {
            callbacks.1(ptr::null_mut(), 0, buffer.at, buffer.size, buffer.used);
        }
    }
}

fn state() -> std::sync::MutexGuard<'static, State> {
    STATE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn put(record: &mut [u8], at: usize, value: &[u8]) {
    record[at..at + value.len()].copy_from_slice(value);
}

/// Launches a kernel of this name, as this thread of the system.
///
/// # Safety
/// The name is a C string that stays valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fake_launch(name: *const c_char, thread: u32) {
    // SAFETY: as the caller says.
    profiler::launched(unsafe { CStr::from_ptr(name) }, GRID, BLOCK, || launch(name, thread));
}

const GRID: [u32; 3] = [2, 1, 1];
const BLOCK: [u32; 3] = [128, 1, 1];

/// Launches a graph of three kernels, as this thread of the system: of 2, 3 and 2 microseconds,
/// with pauses of one.
#[unsafe(no_mangle)]
pub extern "C" fn fake_launch_graph(graph: u32, thread: u32) {
    profiler::launched_graph(|| launch_graph(graph, thread));
}

/// Captures a graph of nothing.
#[unsafe(no_mangle)]
pub extern "C" fn fake_capture() {
    profiler::captured();
}

fn launch_graph(graph: u32, thread: u32) {
    let correlation = CORRELATION.fetch_add(1, Ordering::Relaxed) + 1;
    let begun = now();
    let mut state = state();
    let is_whole = state.enabled & 1 << GRAPH != 0;
    let mut at = begun + 1_000;
    for (node, (name, time)) in (1..).zip([(c"_Z3fooPf", 2_000), (c"bar", 3_000), (c"_Z3fooPf", 2_000)]) {
        if !is_whole {
            state.add(KERNEL, |record| {
                kernel(record, name.as_ptr(), [at, at + time], correlation);
                put(record, 144, &(u64::from(graph) << 32 | node).to_le_bytes());
                put(record, 156, &graph.to_le_bytes());
            });
        }
        at += time + 1_000;
    }
    state.add(GRAPH, |record| {
        put(record, 4, &correlation.to_le_bytes());
        put(record, 8, &(begun + 1_000).to_le_bytes());
        put(record, 16, &(begun + 10_000).to_le_bytes());
        put(record, 28, &graph.to_le_bytes());
        put(record, 32, &1_u32.to_le_bytes());
        put(record, 36, &7_u32.to_le_bytes());
    });
    state.add(RUNTIME, |record| call(record, GRAPH_LAUNCH, begun, thread, correlation));
}

fn kernel(record: &mut [u8], name: *const c_char, [start, end]: [u64; 2], correlation: u32) {
    put(record, 16, &start.to_le_bytes());
    put(record, 24, &end.to_le_bytes());
    put(record, 44, &1_u32.to_le_bytes());
    put(record, 48, &7_u32.to_le_bytes());
    for (at, size) in (52..76).step_by(4).zip([GRID, BLOCK].concat()) {
        put(record, at, &size.to_le_bytes());
    }
    put(record, 92, &correlation.to_le_bytes());
    put(record, 104, &name.addr().to_le_bytes());
}

fn call(record: &mut [u8], number: u32, begun: u64, thread: u32, correlation: u32) {
    put(record, 4, &number.to_le_bytes());
    put(record, 8, &begun.to_le_bytes());
    put(record, 16, &(begun + 800).to_le_bytes());
    put(record, 28, &thread.to_le_bytes());
    put(record, 32, &correlation.to_le_bytes());
}

fn launch(name: *const c_char, thread: u32) {
    let correlation = CORRELATION.fetch_add(1, Ordering::Relaxed) + 1;
    let begun = now();
    let mut state = state();
    // As CUPTI does for a kernel that runs: the record is there, and says that it is not finished.
    state.reserve(fault("unfinished") && correlation.is_multiple_of(100));
    state.add(KERNEL, |record| {
        let (mut start, mut end) = (begun + 1_000, begun + 3_000);
        if fault("untimed") && correlation == 2 {
            (start, end) = (0, 0);
        }
        if fault("reversed") && correlation == 2 {
            (start, end) = (end, start);
        }
        kernel(record, name, [start, end], correlation);
    });
    state.add(RUNTIME, |record| call(record, LAUNCH, begun, thread, correlation));
}

/// # Safety
/// As in CUPTI.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuptiGetVersion(out: *mut u32) -> u32 {
    // SAFETY: as the caller says.
    unsafe { *out = version() };
    0
}

/// # Safety
/// As in CUPTI.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuptiGetResultString(_code: u32, out: *mut *const c_char) -> u32 {
    // SAFETY: as the caller says.
    unsafe { *out = c"a fake error".as_ptr() };
    0
}

/// # Safety
/// As in CUPTI.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuptiSubscribe(
    out: *mut *mut c_void,
    call: extern "C" fn(*mut c_void, u32, u32, *const c_void),
    _data: *mut c_void,
) -> u32 {
    if fault("subscribed") || SUBSCRIBED.swap(true, Ordering::Relaxed) {
        return MULTIPLE_SUBSCRIBERS;
    }
    profiler::subscribed(call);
    // SAFETY: as the caller says.
    unsafe { *out = ptr::dangling_mut::<u8>().cast() };
    0
}

#[unsafe(no_mangle)]
pub extern "C" fn cuptiUnsubscribe(_subscriber: *mut c_void) -> u32 {
    SUBSCRIBED.store(false, Ordering::Relaxed);
    0
}

#[unsafe(no_mangle)]
pub extern "C" fn cuptiEnableCallback(on: u32, _subscriber: *mut c_void, domain: u32, number: u32) -> u32 {
    profiler::enabled(on != 0, domain, number);
    0
}

/// # Safety
/// As in CUPTI.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuptiGetCallbackName(domain: u32, number: u32, out: *mut *const c_char) -> u32 {
    let name: &CStr = match (domain, number) {
        (2, LAUNCH) => c"cudaLaunchKernel_v7000",
        (2, GRAPH_LAUNCH) => c"cudaGraphLaunch_v10000",
        (2, 16) => c"cudaGetDevice_v3020",
        _ => return 7,
    };
    // SAFETY: as the caller says.
    unsafe { *out = name.as_ptr() };
    0
}

#[unsafe(no_mangle)]
pub extern "C" fn cuptiActivityRegisterCallbacks(requested: Requested, completed: Completed) -> u32 {
    state().callbacks = Some((requested, completed));
    0
}

#[unsafe(no_mangle)]
pub extern "C" fn cuptiActivityEnable(kind: u32) -> u32 {
    let mut state = state();
    state.enabled |= 1 << kind;
    if kind == DEVICE {
        state.add(DEVICE, |record| {
            put(record, 44, &132_u32.to_le_bytes());
            put(record, 104, &9_u32.to_le_bytes());
            put(record, 120, &[0xab; 16]);
            put(record, 136, &c"NVIDIA Fake".as_ptr().addr().to_le_bytes());
        });
    }
    0
}

#[unsafe(no_mangle)]
pub extern "C" fn cuptiActivityDisable(kind: u32) -> u32 {
    state().enabled &= !(1 << kind);
    0
}

#[unsafe(no_mangle)]
pub extern "C" fn cuptiActivityFlushAll(_flag: u32) -> u32 {
    state().hand_over();
    0
}

/// # Safety
/// As in CUPTI.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuptiActivityGetNextRecord(
    buffer: *mut u8,
    valid: usize,
    record: *mut *mut u8,
) -> u32 {
    // SAFETY: as the caller says; records are walked as `State::add` wrote them.
    unsafe {
        let next = if (*record).is_null() {
            buffer
        } else {
            (*record).add(stride((*record).cast::<u32>().read() & !(1 << 31)))
        };
        let at = next.addr() - buffer.addr();
        if at >= valid {
            return MAX_LIMIT_REACHED;
        }
        if stride(next.cast::<u32>().read() & !(1 << 31)) == 0 {
            return INVALID_KIND;
        }
        *record = next;
    }
    0
}

/// # Safety
/// As in CUPTI.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuptiActivityGetNumDroppedRecords(
    _context: *mut c_void,
    _stream: u32,
    out: *mut usize,
) -> u32 {
    let own = usize::from(fault("dropped")) * 3;
    let dropped = usize::try_from(DROPPED.swap(0, Ordering::Relaxed)).unwrap_or(0);
    // SAFETY: as the caller says.
    unsafe { *out = own + dropped };
    0
}

#[unsafe(no_mangle)]
pub extern "C" fn cuptiActivitySetAttribute(_attribute: u32, _size: *mut usize, _value: *mut c_void) -> u32 {
    0
}

#[unsafe(no_mangle)]
pub extern "C" fn cuptiSetThreadIdType(_kind: u32) -> u32 {
    0
}

/// # Safety
/// As in CUPTI.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuptiGetGraphNodeId(node: *mut c_void, out: *mut u64) -> u32 {
    // SAFETY: as the caller says.
    unsafe { *out = node.addr() as u64 };
    0
}

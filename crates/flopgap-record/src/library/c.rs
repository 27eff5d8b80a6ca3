//! The functions of the C library that this library calls, safe where they can be.

use std::ffi::{CStr, CString, c_char, c_int, c_long, c_void};
use std::{mem, ptr};

unsafe extern "C" {
    fn mmap(
        at: *mut c_void,
        length: usize,
        access: c_int,
        flags: c_int,
        file: c_int,
        offset: i64,
    ) -> *mut c_void;
    fn madvise(at: *mut c_void, length: usize, advice: c_int) -> c_int;
    fn posix_fallocate(file: c_int, offset: i64, length: i64) -> c_int;
    fn pthread_atfork(
        prepare: Option<extern "C" fn()>,
        parent: Option<extern "C" fn()>,
        child: Option<extern "C" fn()>,
    ) -> c_int;
    fn atexit(call: extern "C" fn()) -> c_int;
    fn pthread_sigmask(how: c_int, set: *const SignalSet, old: *mut SignalSet) -> c_int;
    fn sigfillset(set: *mut SignalSet) -> c_int;
    fn clock_gettime(clock: c_int, time: *mut Time) -> c_int;
    fn syscall(number: c_long, ...) -> c_long;
    fn dlopen(file: *const c_char, flags: c_int) -> *mut c_void;
    fn dlsym(library: *mut c_void, name: *const c_char) -> *mut c_void;
}

/// `struct timespec` of 64-bit Linux.
#[repr(C)]
struct Time {
    seconds: i64,
    nanoseconds: i64,
}

/// `sigset_t` of Linux: 1,024 bits.
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct SignalSet([u64; 16]);

const READ_AND_WRITE: c_int = 1 | 2;
const SHARED: c_int = 1;
const POPULATE_WRITE: c_int = 23;
const LAZY: c_int = 1;
const LOADED_ALREADY: c_int = 4;
const SET_MASK: c_int = 2;
#[cfg(target_arch = "x86_64")]
const GETTID: c_long = 186;
#[cfg(not(target_arch = "x86_64"))]
const GETTID: c_long = 178;

/// Nanoseconds since 1970: the clock that CUPTI's times are on.
pub(super) fn now() -> u64 {
    let mut time = Time { seconds: 0, nanoseconds: 0 };
    // SAFETY: the pointer is valid for the call; clock 0 is CLOCK_REALTIME.
    unsafe { clock_gettime(0, &raw mut time) };
    time.seconds.cast_unsigned() * 1_000_000_000 + time.nanoseconds.cast_unsigned()
}

/// The number of this thread, as the kernel and CUPTI (asked to) give it.
pub(super) fn thread() -> u32 {
    // SAFETY: the call takes no arguments and cannot fail.
    u32::try_from(unsafe { syscall(GETTID) }).unwrap_or(0)
}

/// Makes a file `length` bytes long from `offset`, with room on the disk: writing to a mapped page
/// without would end the program.
pub(super) fn allocate(file: c_int, offset: u64, length: usize) -> bool {
    let (Ok(offset), Ok(length)) = (i64::try_from(offset), i64::try_from(length)) else { return false };
    // SAFETY: plain numbers; an invalid descriptor is an error.
    unsafe { posix_fallocate(file, offset, length) == 0 }
}

/// Maps a part of a file into memory, shared, so that what is written survives the process.
pub(super) fn map(file: c_int, offset: u64, length: usize) -> Option<*mut u8> {
    let offset = i64::try_from(offset).ok()?;
    // SAFETY: a fresh mapping at an address of the kernel's choice.
    let at = unsafe { mmap(ptr::null_mut(), length, READ_AND_WRITE, SHARED, file, offset) };
    (at.addr() != usize::MAX).then_some(at.cast())
}

/// Brings the pages into memory before somebody waits for them. Older kernels cannot.
///
/// # Safety
/// A mapping of [`map`] of at least this length.
pub(super) unsafe fn populate(at: *mut u8, length: usize) {
    // SAFETY: as the caller says; the advice changes no content.
    unsafe { madvise(at.cast(), length, POPULATE_WRITE) };
}

/// Calls this in the child after every fork.
pub(super) fn at_fork(child: extern "C" fn()) {
    // SAFETY: the handler is a function of this library, which is never unloaded.
    unsafe { pthread_atfork(None, None, Some(child)) };
}

/// Calls this when the process ends in an orderly way.
pub(super) fn at_exit(call: extern "C" fn()) {
    // SAFETY: as for `at_fork`.
    unsafe { atexit(call) };
}

/// Runs something while this thread gets no signals: a thread that it starts never will.
pub(super) fn without_signals<T>(start: impl FnOnce() -> T) -> T {
    let mut all = SignalSet([0; 16]);
    let mut old = SignalSet([0; 16]);
    // SAFETY: both sets are valid; the mask of this thread is put back below.
    unsafe {
        sigfillset(&raw mut all);
        pthread_sigmask(SET_MASK, &raw const all, &raw mut old);
    }
    let started = start();
    // SAFETY: `old` was filled above.
    unsafe { pthread_sigmask(SET_MASK, &raw const old, ptr::null_mut()) };
    started
}

/// A shared library.
#[derive(Clone, Copy)]
pub(super) struct Loaded(*mut c_void);

impl Loaded {
    /// Loads it, or finds it if `loaded_already` asks for nothing else.
    pub(super) fn open(path: &str, loaded_already: bool) -> Option<Loaded> {
        let path = CString::new(path).ok()?;
        let flags = if loaded_already { LAZY | LOADED_ALREADY } else { LAZY };
        // SAFETY: a valid string. Its initializers run, as those of any library of the program.
        let library = unsafe { dlopen(path.as_ptr(), flags) };
        (!library.is_null()).then_some(Loaded(library))
    }

    /// A function.
    ///
    /// # Safety
    /// `F` is a pointer to a function of the type that the header of the library gives it.
    pub(super) unsafe fn function<F: Copy>(self, name: &CStr) -> Option<F> {
        // SAFETY: the library is never closed.
        let symbol = unsafe { dlsym(self.0, name.as_ptr()) };
        // SAFETY: as the caller says; pointers to functions and to data have one size on Linux.
        (!symbol.is_null()).then(|| unsafe { mem::transmute_copy(&symbol) })
    }
}

//! NVTX: the functions that replace those of the header, and how they come into its table.

use std::ffi::{CStr, c_char, c_void};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::{ptr, slice};

use super::format::event;
use super::life::recorder;
use super::recorder::Recorder;
use super::{activity, c};

/// A function of NVTX, of any type.
type Function = *const c_void;
/// `NvtxExportTableCallbacks`; only the second field is called.
#[repr(C)]
struct Callbacks {
    size: usize,
    table: Option<unsafe extern "C" fn(u32, *mut *mut *mut Function, *mut u32) -> i32>,
}
type Export = unsafe extern "C" fn(u32) -> *const c_void;

const CALLBACKS: u32 = 1;
const CORE: u32 = 1;
const CORE2: u32 = 5;

/// `nvtxEventAttributes_t`, version 2: 48 bytes.
#[repr(C)]
struct Attributes {
    version: u16,
    size: u16,
    category: u32,
    color_type: u32,
    color: u32,
    payload_type: u32,
    reserved: u32,
    payload: u64,
    message_type: u32,
    message: *const c_void,
}

const ASCII: u32 = 1;
const WIDE: u32 = 2;
const REGISTERED: u32 = 3;

/// A domain or a registered string: what its handle points to.
struct Handle {
    number: u64,
}

static NUMBERS: AtomicU64 = AtomicU64::new(1);
static RANGES: AtomicU64 = AtomicU64::new(1);

/// Puts our functions into the table of a program's NVTX. Returns 1 if there is one.
///
/// # Safety
/// `export` is what NVTX passes to the initializer of an injection.
pub(super) unsafe fn attach(export: Option<Export>) -> i32 {
    let Some(export) = export else { return 0 };
    // SAFETY: as the caller says; the table lives as long as the program's NVTX.
    let callbacks = unsafe { export(CALLBACKS).cast::<Callbacks>().as_ref() };
    let Some(table) = callbacks.filter(|it| it.size >= size_of::<Callbacks>()).and_then(|it| it.table) else {
        return 0;
    };
    // SAFETY: each function has the type that `nvtxTypes.h` gives its place.
    unsafe {
        let core = replace(table, CORE, &core());
        replace(table, CORE2, &core2()) | core
    }
}

/// # Safety
/// `table` is NVTX's, and the functions have the types of their places.
unsafe fn replace(
    table: unsafe extern "C" fn(u32, *mut *mut *mut Function, *mut u32) -> i32,
    module: u32,
    functions: &[Function],
) -> i32 {
    let (mut places, mut count) = (ptr::null_mut(), 0);
    // SAFETY: both pointers are valid for the call.
    let found = unsafe { table(module, &raw mut places, &raw mut count) };
    if found == 0 || places.is_null() {
        return 0;
    }
    for (at, function) in functions.iter().enumerate().take(count as usize) {
        // SAFETY: the table has `count` places, each null or the address of a function pointer.
        unsafe {
            let place = *places.add(at);
            if !place.is_null() && !function.is_null() {
                *place = *function;
            }
        }
    }
    1
}

/// The functions of module `CORE`, at their numbers.
fn core() -> [Function; 16] {
    [
        ptr::null(),
        mark_ex as Function,
        mark_a as Function,
        mark_w as Function,
        start_ex as Function,
        start_a as Function,
        start_w as Function,
        end as Function,
        push_ex as Function,
        push_a as Function,
        push_w as Function,
        pop as Function,
        category_a as Function,
        category_w as Function,
        thread_a as Function,
        thread_w as Function,
    ]
}

/// The functions of module `CORE2`, at their numbers.
fn core2() -> [Function; 16] {
    [
        ptr::null(),
        domain_mark as Function,
        domain_start as Function,
        domain_end as Function,
        domain_push as Function,
        domain_pop as Function,
        resource_create as Function,
        resource_destroy as Function,
        domain_category_a as Function,
        domain_category_w as Function,
        register_a as Function,
        register_w as Function,
        domain_a as Function,
        domain_w as Function,
        domain_destroy as Function,
        initialize as Function,
    ]
}

/// What a range or mark is called.
enum Name<'a> {
    Text(&'a [u8]),
    Owned(String),
    Registered(u32),
}

/// The bytes of a C string, none for a null pointer.
///
/// # Safety
/// Null, or a C string that outlives the result.
unsafe fn narrow<'a>(text: *const c_char) -> &'a [u8] {
    if text.is_null() {
        return &[];
    }
    // SAFETY: as the caller says.
    unsafe { CStr::from_ptr(text) }.to_bytes()
}

/// A string of `wchar_t`, which has 32 bits.
///
/// # Safety
/// Null, or a string that ends with a zero.
unsafe fn wide(text: *const u32) -> String {
    if text.is_null() {
        return String::new();
    }
    let mut length = 0;
    // SAFETY: the string ends with a zero.
    while unsafe { *text.add(length) } != 0 {
        length += 1;
    }
    // SAFETY: so many characters were read.
    let text = unsafe { slice::from_raw_parts(text, length) };
    text.iter().map(|&code| char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER)).collect()
}

/// The number behind a handle; 0 is the default domain.
///
/// # Safety
/// Null, or a handle of this library.
unsafe fn number(handle: *const Handle) -> u64 {
    // SAFETY: as the caller says; handles are never freed.
    unsafe { handle.as_ref() }.map_or(0, |handle| handle.number)
}

/// A mark, or the beginning of a range.
fn begin(
    recorder: &Recorder,
    kind: u32,
    domain: u64,
    range: u64,
    attributes: Option<&Attributes>,
    name: &Name<'_>,
) {
    let (text, registered) = match name {
        Name::Text(text) => (*text, 0),
        Name::Owned(text) => (text.as_bytes(), 0),
        Name::Registered(number) => (&[][..], *number),
    };
    if recorder.wanted.as_ref().is_some_and(|it| it.begins(kind, domain, range, text, registered)) {
        activity::follow(recorder, false);
        activity::step_begins(recorder);
    }
    let time = c::now();
    if kind == event::PUSH && domain == 0 && registered == 0 && attributes.is_none() {
        return recorder.event(event::PUSH_TEXT, time, &[text]);
    }
    let domain = u32::try_from(domain).unwrap_or(0);
    let category = attributes.map_or(0, |it| it.category);
    let (color, color_type) = attributes.map_or((0, 0), |it| (it.color, it.color_type));
    let (payload, payload_type) = attributes.map_or((0, 0), |it| (it.payload, it.payload_type));
    // The fields of `format::mark`, in its order.
    let mut fields = [0; 40];
    fields[0..8].copy_from_slice(&range.to_le_bytes());
    fields[8..12].copy_from_slice(&domain.to_le_bytes());
    fields[12..16].copy_from_slice(&category.to_le_bytes());
    fields[16..20].copy_from_slice(&color.to_le_bytes());
    fields[20..24].copy_from_slice(&color_type.to_le_bytes());
    fields[24..32].copy_from_slice(&payload.to_le_bytes());
    fields[32..36].copy_from_slice(&payload_type.to_le_bytes());
    fields[36..40].copy_from_slice(&registered.to_le_bytes());
    recorder.event(kind, time, &[&fields, text]);
}

/// # Safety
/// Null or valid attributes, as NVTX passes them.
unsafe fn begin_ex(kind: u32, domain: *const Handle, range: u64, attributes: *const Attributes) {
    let Some(recorder) = recorder() else { return };
    // SAFETY: as the caller says. Version 1 ends where the message does, too.
    let attributes = unsafe { attributes.as_ref() };
    let name = match attributes.map(|it| (it.message_type, it.message)) {
        // SAFETY: the type says what the pointer is.
        Some((ASCII, text)) => Name::Text(unsafe { narrow(text.cast()) }),
        // SAFETY: as above.
        Some((WIDE, text)) => Name::Owned(unsafe { wide(text.cast()) }),
        Some((REGISTERED, text)) => {
            // SAFETY: as above.
            let number = unsafe { number(text.cast()) };
            Name::Registered(u32::try_from(number).unwrap_or(0))
        }
        _ => Name::Text(&[]),
    };
    // SAFETY: a domain of this library, or null.
    begin(recorder, kind, unsafe { number(domain) }, range, attributes, &name);
}

fn begin_text(kind: u32, range: u64, name: &Name<'_>) {
    if let Some(recorder) = recorder() {
        begin(recorder, kind, 0, range, None, name);
    }
}

fn finish(kind: u32, number: u64) {
    let time = c::now();
    if let Some(recorder) = recorder() {
        let bytes = number.to_le_bytes();
        recorder.event(kind, time, &[if number == 0 { &[] } else { &bytes[..] }]);
        if recorder.wanted.as_ref().is_some_and(|wanted| wanted.ends(kind, number)) {
            activity::step_ends(recorder);
        }
    }
}

fn next_range() -> u64 {
    RANGES.fetch_add(1, Ordering::Relaxed)
}

/// What a push returns: the depth is not followed.
const NOT_TRACKED: i32 = -2;

extern "C" fn mark_ex(attributes: *const Attributes) {
    // SAFETY: what a program passes to NVTX.
    unsafe { begin_ex(event::MARK, ptr::null(), 0, attributes) };
}

extern "C" fn mark_a(text: *const c_char) {
    // SAFETY: what a program passes to NVTX.
    begin_text(event::MARK, 0, &Name::Text(unsafe { narrow(text) }));
}

extern "C" fn mark_w(text: *const u32) {
    // SAFETY: what a program passes to NVTX.
    begin_text(event::MARK, 0, &Name::Owned(unsafe { wide(text) }));
}

extern "C" fn start_ex(attributes: *const Attributes) -> u64 {
    domain_start(ptr::null(), attributes)
}

extern "C" fn start_a(text: *const c_char) -> u64 {
    let range = next_range();
    // SAFETY: what a program passes to NVTX.
    begin_text(event::START, range, &Name::Text(unsafe { narrow(text) }));
    range
}

extern "C" fn start_w(text: *const u32) -> u64 {
    let range = next_range();
    // SAFETY: what a program passes to NVTX.
    begin_text(event::START, range, &Name::Owned(unsafe { wide(text) }));
    range
}

extern "C" fn end(range: u64) {
    finish(event::END, range);
}

extern "C" fn push_ex(attributes: *const Attributes) -> i32 {
    domain_push(ptr::null(), attributes)
}

extern "C" fn push_a(text: *const c_char) -> i32 {
    // SAFETY: what a program passes to NVTX.
    begin_text(event::PUSH, 0, &Name::Text(unsafe { narrow(text) }));
    NOT_TRACKED
}

extern "C" fn push_w(text: *const u32) -> i32 {
    // SAFETY: what a program passes to NVTX.
    begin_text(event::PUSH, 0, &Name::Owned(unsafe { wide(text) }));
    NOT_TRACKED
}

extern "C" fn pop() -> i32 {
    finish(event::POP, 0);
    NOT_TRACKED
}

extern "C" fn domain_mark(domain: *const Handle, attributes: *const Attributes) {
    // SAFETY: what a program passes to NVTX.
    unsafe { begin_ex(event::MARK, domain, 0, attributes) };
}

extern "C" fn domain_start(domain: *const Handle, attributes: *const Attributes) -> u64 {
    let range = next_range();
    // SAFETY: what a program passes to NVTX.
    unsafe { begin_ex(event::START, domain, range, attributes) };
    range
}

extern "C" fn domain_end(_domain: *const Handle, range: u64) {
    finish(event::END, range);
}

extern "C" fn domain_push(domain: *const Handle, attributes: *const Attributes) -> i32 {
    // SAFETY: what a program passes to NVTX.
    unsafe { begin_ex(event::PUSH, domain, 0, attributes) };
    NOT_TRACKED
}

extern "C" fn domain_pop(domain: *const Handle) -> i32 {
    // SAFETY: a domain of this library, or null.
    finish(event::POP, unsafe { number(domain) });
    NOT_TRACKED
}

/// Resources are named for debuggers: nothing of them is recorded.
extern "C" fn resource_create(_domain: *const Handle, _attributes: *const c_void) -> *const c_void {
    ptr::null()
}

extern "C" fn resource_destroy(_resource: *const c_void) {}

/// Names that the program has defined, for the recordings of children that it forks: handles are
/// valid there, too.
static DEFINED: Mutex<Vec<(u32, Vec<u8>)>> = Mutex::new(Vec::new());

/// Writes a definition, and remembers it.
fn define(kind: u32, number: u64, text: &[u8]) {
    let Some(recorder) = recorder() else { return };
    let definition = [&number.to_le_bytes(), text].concat();
    recorder.definition(kind, &[&definition]);
    DEFINED.lock().unwrap_or_else(PoisonError::into_inner).push((kind, definition));
}

/// Defines a number of a domain.
fn define_in(kind: u32, domain: u64, number: u32, text: &[u8]) {
    define(kind, domain & 0xffff_ffff | u64::from(number) << 32, text);
}

/// Writes what the parent has defined into the recording of a forked child.
pub(super) fn repeat(recorder: &Recorder) {
    // Another thread of the parent may have held it at the fork, and does not exist here.
    if let Ok(defined) = DEFINED.try_lock() {
        for (kind, definition) in defined.iter() {
            recorder.definition(*kind, &[definition]);
        }
    }
}

extern "C" fn category_a(category: u32, text: *const c_char) {
    domain_category_a(ptr::null(), category, text);
}

extern "C" fn category_w(category: u32, text: *const u32) {
    domain_category_w(ptr::null(), category, text);
}

extern "C" fn domain_category_a(domain: *const Handle, category: u32, text: *const c_char) {
    // SAFETY: what a program passes to NVTX.
    unsafe { define_in(event::CATEGORY, number(domain), category, narrow(text)) };
}

extern "C" fn domain_category_w(domain: *const Handle, category: u32, text: *const u32) {
    // SAFETY: what a program passes to NVTX.
    unsafe { define_in(event::CATEGORY, number(domain), category, wide(text).as_bytes()) };
}

fn name_thread(thread: u32, text: &[u8]) {
    if let Some(recorder) = recorder() {
        recorder.definition(event::THREAD, &[&u64::from(thread).to_le_bytes(), text]);
    }
}

extern "C" fn thread_a(thread: u32, text: *const c_char) {
    // SAFETY: what a program passes to NVTX.
    name_thread(thread, unsafe { narrow(text) });
}

extern "C" fn thread_w(thread: u32, text: *const u32) {
    // SAFETY: what a program passes to NVTX.
    name_thread(thread, unsafe { wide(text) }.as_bytes());
}

/// A handle that lives as long as the process: programs keep them in static variables.
fn handle() -> &'static Handle {
    Box::leak(Box::new(Handle { number: NUMBERS.fetch_add(1, Ordering::Relaxed) }))
}

fn register(domain: u64, text: &[u8]) -> *const Handle {
    let handle = handle();
    let number = u32::try_from(handle.number).unwrap_or(0);
    define_in(event::REGISTERED, domain, number, text);
    if let Some(wanted) = recorder().and_then(|recorder| recorder.wanted.as_ref()) {
        wanted.registers(number, text);
    }
    handle
}

extern "C" fn register_a(domain: *const Handle, text: *const c_char) -> *const Handle {
    // SAFETY: what a program passes to NVTX.
    unsafe { register(number(domain), narrow(text)) }
}

extern "C" fn register_w(domain: *const Handle, text: *const u32) -> *const Handle {
    // SAFETY: what a program passes to NVTX.
    unsafe { register(number(domain), wide(text).as_bytes()) }
}

fn create_domain(name: &[u8]) -> *const Handle {
    let handle = handle();
    define(event::DOMAIN, handle.number, name);
    handle
}

extern "C" fn domain_a(name: *const c_char) -> *const Handle {
    // SAFETY: what a program passes to NVTX.
    create_domain(unsafe { narrow(name) })
}

extern "C" fn domain_w(name: *const u32) -> *const Handle {
    // SAFETY: what a program passes to NVTX.
    create_domain(unsafe { wide(name) }.as_bytes())
}

extern "C" fn domain_destroy(_domain: *const Handle) {}

extern "C" fn initialize(_reserved: *const c_void) {}

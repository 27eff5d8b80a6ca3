//! A program that does what the CUDA driver and NVTX's header do in real ones: it loads the
//! libraries that the environment names, initializes them, and calls them.
//!
//!   `fake_program launch N` · `threads N` · `forever` · `fork` · `at-once N` · `wait N` ·
//!   `wait-pattern N` · `wait-step N` · `wait-step-graph N` · `wait-step-capture N` ·
//!   `wait-step-elsewhere N` · `around` · `graphs N` · `graphs-later N`

#![allow(clippy::print_stdout, reason = "the tests wait for its answer")]

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::sync::OnceLock;
use std::time::Duration;
use std::{env, io, mem, ptr, thread};

unsafe extern "C" {
    fn dlopen(file: *const c_char, flags: c_int) -> *mut c_void;
    fn dlsym(library: *mut c_void, name: *const c_char) -> *mut c_void;
    fn fork() -> c_int;
    fn waitpid(process: c_int, status: *mut c_int, options: c_int) -> c_int;
    fn _exit(code: c_int) -> !;
    fn gettid() -> c_int;
}

type Launch = unsafe extern "C" fn(*const c_char, u32);
type LaunchGraph = extern "C" fn(u32, u32);
type Capture = extern "C" fn();

static LAUNCH: OnceLock<Launch> = OnceLock::new();
static LAUNCH_GRAPH: OnceLock<LaunchGraph> = OnceLock::new();
static CAPTURE: OnceLock<Capture> = OnceLock::new();
/// NVTX's table: push and pop, at their numbers in module `CORE`.
static mut PUSH: Option<unsafe extern "C" fn(*const c_char) -> c_int> = None;
static mut POP: Option<unsafe extern "C" fn() -> c_int> = None;

fn symbol(variable: &str, name: &CStr) -> Option<*mut c_void> {
    let path = CString::new(env::var(variable).ok()?).ok()?;
    // SAFETY: valid strings.
    let symbol = unsafe { dlsym(dlopen(path.as_ptr(), 1), name.as_ptr()) };
    (!symbol.is_null()).then_some(symbol)
}

fn main() {
    // What cuInit does.
    if let Some(initialize) = symbol("CUDA_INJECTION64_PATH", c"InitializeInjection") {
        // SAFETY: the function has this type.
        unsafe { mem::transmute::<*mut c_void, extern "C" fn() -> c_int>(initialize)() };
    }
    if let Some(launch) = symbol("FLOPGAP_RECORD_CUPTI", c"fake_launch") {
        // SAFETY: the function has this type.
        let _ = LAUNCH.set(unsafe { mem::transmute::<*mut c_void, Launch>(launch) });
    }
    if let Some(launch) = symbol("FLOPGAP_RECORD_CUPTI", c"fake_launch_graph") {
        // SAFETY: the function has this type.
        let _ = LAUNCH_GRAPH.set(unsafe { mem::transmute::<*mut c_void, LaunchGraph>(launch) });
    }
    if let Some(capture) = symbol("FLOPGAP_RECORD_CUPTI", c"fake_capture") {
        // SAFETY: the function has this type.
        let _ = CAPTURE.set(unsafe { mem::transmute::<*mut c_void, Capture>(capture) });
    }
    if let Some(initialize) = symbol("NVTX_INJECTION64_PATH", c"InitializeInjectionNvtx2") {
        type Initialize = extern "C" fn(extern "C" fn(u32) -> *const c_void) -> c_int;
        // SAFETY: the function has this type.
        unsafe { mem::transmute::<*mut c_void, Initialize>(initialize)(export) };
    }
    let arguments: Vec<String> = env::args().skip(1).collect();
    let count = arguments.get(1).and_then(|count| count.parse().ok()).unwrap_or(10);
    match arguments.first().map_or("", String::as_str) {
        "launch" => work(count),
        "threads" => {
            let threads: Vec<_> = (0..8).map(|_| thread::spawn(move || work(count))).collect();
            for thread in threads {
                thread.join().unwrap();
            }
        }
        "forever" => loop {
            work(100);
        },
        "fork" => forked(count),
        // SAFETY: ends the process, as `os._exit` of Python does.
        "at-once" => unsafe {
            work(count);
            // Ten times as long as the recorder needs.
            thread::sleep(Duration::from_millis(1500));
            _exit(3)
        },
        mode @ ("wait"
        | "wait-pattern"
        | "wait-step"
        | "wait-step-graph"
        | "wait-step-elsewhere"
        | "wait-step-capture") => {
            // Works when a line comes, so that a test can switch recording on before.
            let (mut line, mut steps) = (String::new(), 0);
            while io::stdin().read_line(&mut line).unwrap() > 0 {
                match mode {
                    "wait" => work(count),
                    "wait-pattern" => pattern(count),
                    "wait-step-elsewhere" => {
                        thread::scope(|scope| {
                            scope.spawn(|| step(0, true, false));
                            scope.spawn(|| (0..count).for_each(|_| bar()));
                        });
                    }
                    mode => {
                        steps += 1;
                        step(count, mode == "wait-step-graph", mode == "wait-step-capture" && steps % 5 == 4);
                    }
                }
                println!("worked");
            }
        }
        "graphs" => (0..count).for_each(|at| {
            // Each of two graphs, and a kernel between.
            graph(1 + at % 2);
            bar();
        }),
        "graphs-later" => {
            range(0);
            (0..count).for_each(|_| graph(1));
        }
        "around" => {
            bar();
            (0..5).for_each(|at| range(at + 1));
            thread::sleep(Duration::from_secs(2));
            range(1);
        }
        other => panic!("{other}"),
    }
}

/// Two kernels a range.
fn work(count: u32) {
    (0..count).for_each(range);
}

fn range(at: u32) {
    // SAFETY: what NVTX's header does; nobody writes to the table any more.
    unsafe {
        if let Some(push) = PUSH {
            push(if at.is_multiple_of(2) { c"even".as_ptr() } else { c"odd".as_ptr() });
        }
    }
    foo();
    bar();
    // SAFETY: as above.
    unsafe {
        if let Some(pop) = POP {
            pop();
        }
    }
}

/// Kernels, and perhaps a graph or a capture, in one range.
fn step(count: u32, has_graph: bool, captures: bool) {
    // SAFETY: as in `range`.
    unsafe { PUSH.map(|push| push(c"step".as_ptr())) };
    for _ in 0..count {
        foo();
        bar();
    }
    if has_graph {
        graph(1);
    }
    if let Some(capture) = CAPTURE.get().filter(|_| captures) {
        capture();
    }
    // SAFETY: as in `range`.
    unsafe { POP.map(|pop| pop()) };
}

fn graph(number: u32) {
    if let Some(launch) = LAUNCH_GRAPH.get() {
        // SAFETY: takes no arguments.
        launch(number, unsafe { gettid() }.cast_unsigned());
    }
}

fn foo() {
    if let Some(launch) = LAUNCH.get() {
        // SAFETY: constants of this program.
        unsafe { launch(c"_Z3fooPf".as_ptr(), gettid().cast_unsigned()) };
    }
}

fn bar() {
    if let Some(launch) = LAUNCH.get() {
        // SAFETY: constants of this program.
        unsafe { launch(c"bar".as_ptr(), gettid().cast_unsigned()) };
    }
}

/// On two threads: kernels that are the same and not alike, one that varies, one of a collective.
fn pattern(count: u32) {
    let Some(launch) = LAUNCH.get() else { return };
    // SAFETY: constants of this program.
    let launch = |name: &'static CStr| unsafe { launch(name.as_ptr(), gettid().cast_unsigned()) };
    let names = [c"_Z3fooPf", c"bar", c"_Z3fooPf", c"baz", c"varies", c"ncclDevKernel_AllReduce"];
    for _ in 0..count {
        names.into_iter().for_each(launch);
    }
}

fn forked(count: u32) {
    work(count);
    // SAFETY: the child works on one thread and ends at once.
    unsafe {
        let child = fork();
        if child == 0 {
            work(count);
            _exit(0);
        }
        waitpid(child, ptr::null_mut(), 0);
    }
    work(count);
}

#[repr(C)]
struct Callbacks {
    size: usize,
    table: extern "C" fn(u32, *mut *mut *mut *const c_void, *mut u32) -> c_int,
}

struct Table([*mut *const c_void; 16]);
// SAFETY: written once, before threads start.
unsafe impl Sync for Table {}

static CALLBACKS: Callbacks = Callbacks { size: size_of::<Callbacks>(), table };
static mut CORE: Table = Table([ptr::null_mut(); 16]);

extern "C" fn export(number: u32) -> *const c_void {
    if number == 1 { ptr::from_ref(&CALLBACKS).cast() } else { ptr::null() }
}

extern "C" fn table(module: u32, out: *mut *mut *mut *const c_void, size: *mut u32) -> c_int {
    if module != 1 {
        return 0;
    }
    // SAFETY: only the initialization calls it, on one thread.
    unsafe {
        let core = &raw mut CORE;
        (*core).0[9] = (&raw mut PUSH).cast();
        (*core).0[11] = (&raw mut POP).cast();
        *out = (&raw mut (*core).0).cast();
        *size = 16;
    }
    1
}

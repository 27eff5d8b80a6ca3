//! Which kernels are launched, as CUPTI's callbacks of the driver's functions report it.
//!
//! One context is watched at a time: a process has one subscriber of callbacks, and with range
//! profilers on two GPUs CUPTI 13.0 crashes, also where all calls are made one after the other.

use std::collections::HashMap;
use std::ffi::{CStr, c_void};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, ThreadId};

use cudarc::cupti::sys;
use cudarc::driver::sys as driver;

use super::cupti::{Cupti, Subscriber};
use super::{CounterError, Launch};

use sys::CUpti_driver_api_trace_cbid_enum as Callback;

const DRIVER_API: u32 = sys::CUpti_CallbackDomain::CUPTI_CB_DOMAIN_DRIVER_API as u32;

const LAUNCH_KERNEL: u32 = Callback::CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel as u32;
const LAUNCH_KERNEL_PTSZ: u32 = Callback::CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel_ptsz as u32;
const LAUNCH_KERNEL_EX: u32 = Callback::CUPTI_DRIVER_TRACE_CBID_cuLaunchKernelEx as u32;
const LAUNCH_KERNEL_EX_PTSZ: u32 = Callback::CUPTI_DRIVER_TRACE_CBID_cuLaunchKernelEx_ptsz as u32;
const LAUNCH_COOPERATIVE: u32 = Callback::CUPTI_DRIVER_TRACE_CBID_cuLaunchCooperativeKernel as u32;
const LAUNCH_COOPERATIVE_PTSZ: u32 = Callback::CUPTI_DRIVER_TRACE_CBID_cuLaunchCooperativeKernel_ptsz as u32;
const LAUNCH_GRAPH: u32 = Callback::CUPTI_DRIVER_TRACE_CBID_cuGraphLaunch as u32;
const LAUNCH_GRAPH_PTSZ: u32 = Callback::CUPTI_DRIVER_TRACE_CBID_cuGraphLaunch_ptsz as u32;

/// The driver's functions that start kernels. (`_ptsz`: compiled for a default stream per thread.)
const WATCHED: [u32; 8] = [
    LAUNCH_KERNEL,
    LAUNCH_KERNEL_PTSZ,
    LAUNCH_KERNEL_EX,
    LAUNCH_KERNEL_EX_PTSZ,
    LAUNCH_COOPERATIVE,
    LAUNCH_COOPERATIVE_PTSZ,
    LAUNCH_GRAPH,
    LAUNCH_GRAPH_PTSZ,
];

/// The launches on one context while it was watched.
#[derive(Debug, Default)]
pub(super) struct Recording {
    pub(super) launches: Vec<Launch>,
    pub(super) graphs: usize,
}

/// Called before a launch, on the launching thread, with the number of earlier launches, all of
/// which have returned. It must not panic.
pub(super) type Before = Arc<dyn Fn(usize) + Send + Sync>;

/// The context that is watched.
struct Table {
    /// The context's address.
    context: usize,
    /// Where launches of several threads are made to wait for each other: what is done before each.
    before: Option<Before>,
    recording: Recording,
    /// Each name is allocated once.
    symbols: HashMap<Box<[u8]>, Arc<str>>,
}

impl Table {
    fn new(context: usize) -> Self {
        Table { context, before: None, recording: Recording::default(), symbols: HashMap::new() }
    }

    fn symbol(&mut self, name: &[u8]) -> Arc<str> {
        if let Some(known) = self.symbols.get(name) {
            return known.clone();
        }
        let symbol: Arc<str> = String::from_utf8_lossy(name).into();
        self.symbols.insert(name.into(), symbol.clone());
        symbol
    }
}

/// The state that the callbacks write. Never locked while CUPTI is called.
static TABLE: Mutex<Option<Table>> = Mutex::new(None);

fn table() -> MutexGuard<'static, Option<Table>> {
    TABLE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Who launches, where launches are made one after the other: CUPTI numbers rows of counts in the
/// order in which the driver is called, so the order in which launches are recorded must be the
/// same, whatever threads they come from.
struct Turn {
    holder: Mutex<Option<ThreadId>>,
    free: Condvar,
}

static TURN: Turn = Turn { holder: Mutex::new(None), free: Condvar::new() };

impl Turn {
    /// Waits until no other thread launches. Returns whether the turn was taken: a call of the
    /// driver within another one does not.
    fn take(&self) -> bool {
        let me = thread::current().id();
        let mut holder = self.holder.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            match *holder {
                Some(thread) if thread == me => return false,
                Some(_) => holder = self.free.wait(holder).unwrap_or_else(PoisonError::into_inner),
                None => {
                    *holder = Some(me);
                    return true;
                }
            }
        }
    }

    fn give(&self) {
        *self.holder.lock().unwrap_or_else(PoisonError::into_inner) = None;
        self.free.notify_one();
    }
}

/// Watches the launches of one context until it is dropped.
#[derive(Debug)]
pub(super) struct Watch {
    cupti: &'static Cupti,
    subscriber: Subscriber,
}

// SAFETY: a subscriber belongs to no thread: it is a number to CUPTI.
unsafe impl Send for Watch {}

impl Watch {
    /// Begins to watch, where it is requested also when another client has subscribed, which is
    /// unsubscribed then.
    ///
    /// # Errors
    /// [`CounterError::Busy`] when this process watches already, or another tool uses CUPTI.
    pub(super) fn new(
        cupti: &'static Cupti,
        context: driver::CUcontext,
        takes_over: bool,
    ) -> Result<Self, CounterError> {
        // There is one session in a process, and so one watch.
        *table() = Some(Table::new(context as usize));
        let opened = match subscribe(cupti) {
            // Only a client of this process is gone then: what nsys or ncu hold stays theirs.
            Err(CounterError::Busy { .. }) if takes_over => cupti.finalize().and_then(|()| subscribe(cupti)),
            other => other,
        };
        match opened {
            Ok(subscriber) => Ok(Watch { cupti, subscriber }),
            Err(error) => {
                *table() = None;
                Err(error)
            }
        }
    }

    /// Whether launches of several threads wait for each other from here on, and what is done
    /// before each.
    #[expect(clippy::unused_self, reason = "who has no watch may not ask")]
    pub(super) fn in_turn(&self, before: Option<Before>) {
        if let Some(table) = table().as_mut() {
            table.before = before;
        }
    }

    /// How many launches were seen since the last [`Watch::take`].
    #[expect(clippy::unused_self, reason = "as above")]
    pub(super) fn launches(&self) -> usize {
        table().as_ref().map_or(0, |table| table.recording.launches.len())
    }

    /// How many graphs were launched since the last [`Watch::take`].
    #[expect(clippy::unused_self, reason = "as above")]
    pub(super) fn graphs(&self) -> usize {
        table().as_ref().map_or(0, |table| table.recording.graphs)
    }

    /// Returns the launches seen so far, and starts again.
    #[expect(clippy::unused_self, reason = "as above")]
    pub(super) fn take(&self) -> Recording {
        table().as_mut().map(|table| std::mem::take(&mut table.recording)).unwrap_or_default()
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        // SAFETY: the subscriber is alive and is not used again. Nothing can be done about an error
        // here.
        let _ = unsafe { (self.cupti.unsubscribe)(self.subscriber) };
        // What is called before launches may end CUPTI's part: not while the table is locked.
        let gone = table().take();
        drop(gone);
    }
}

fn subscribe(cupti: &'static Cupti) -> Result<Subscriber, CounterError> {
    let mut subscriber: Subscriber = std::ptr::null_mut();
    // SAFETY: the pointer is valid for the call; the callback is a function of this program and
    // uses no user data.
    let code = unsafe { (cupti.subscribe)(&raw mut subscriber, on_driver_call, std::ptr::null_mut()) };
    cupti.check("cuptiSubscribe", code)?;
    for callback in WATCHED {
        // SAFETY: the subscriber is alive.
        let code = unsafe { (cupti.enable_callback)(1, subscriber, DRIVER_API, callback) };
        if let Err(error) = cupti.check("cuptiEnableCallback", code) {
            // SAFETY: as above; it is not used again.
            let _ = unsafe { (cupti.unsubscribe)(subscriber) };
            return Err(error);
        }
    }
    Ok(subscriber)
}

/// Called by CUPTI before and after each watched function, on the thread that called the function.
///
/// It must not panic (that would end the process).
unsafe extern "C" fn on_driver_call(_user: *mut c_void, domain: u32, callback: u32, data: *const c_void) {
    if domain != DRIVER_API || data.is_null() {
        return;
    }
    // SAFETY: for this domain, CUPTI passes this struct, valid during the callback.
    let data = unsafe { &*data.cast::<sys::CUpti_CallbackData>() };
    // What CUPTI keeps between the two calls of this function for one launch.
    let taken = data.correlationData;
    if data.callbackSite != sys::CUpti_ApiCallbackSite::CUPTI_API_EXIT {
        let watched = |table: &&Table| table.before.is_some() && table.context == data.context as usize;
        let in_turn = table().as_ref().is_some_and(|table| watched(&table));
        if in_turn && !taken.is_null() && TURN.take() {
            // SAFETY: not null; CUPTI gives each call a word of its own.
            unsafe { *taken = TAKEN };
            // What the turn was waited for may have ended the watch or added launches.
            let before = table()
                .as_ref()
                .filter(watched)
                .and_then(|table| Some((table.before.clone()?, table.recording.launches.len())));
            if let Some((before, launches)) = before {
                before(launches);
            }
        }
        return;
    }
    // SAFETY: `data` is as above.
    unsafe { record(callback, data) };
    // SAFETY: where it is not null, it is the word that was written when the function was entered.
    if !taken.is_null() && unsafe { *taken } == TAKEN {
        // SAFETY: as above.
        unsafe { *taken = 0 };
        TURN.give();
    }
}

/// Marks a call whose thread has the turn.
const TAKEN: u64 = 0x666c_6f70;

/// Records a launch after the driver's function has returned.
///
/// # Safety
/// As [`on_driver_call`].
unsafe fn record(callback: u32, data: &sys::CUpti_CallbackData) {
    if data.functionReturnValue.is_null() {
        return;
    }
    // SAFETY: after the call, this points to the function's result: a `CUresult`, an int.
    if unsafe { *data.functionReturnValue.cast::<u32>() } != 0 {
        // Nothing was launched.
        return;
    }
    let mut table = table();
    let Some(table) = table.as_mut().filter(|table| table.context == data.context as usize) else { return };
    let is_graph = callback == LAUNCH_GRAPH || callback == LAUNCH_GRAPH_PTSZ;
    let launch = if is_graph || data.functionParams.is_null() {
        None
    } else {
        // SAFETY: the parameters of the function that `callback` names; the name is a C string or
        // null.
        let shape = unsafe { shape(callback, data.functionParams) };
        let name = if data.symbolName.is_null() {
            &[][..]
        } else {
            // SAFETY: not null; CUPTI keeps the name alive during the callback.
            unsafe { CStr::from_ptr(data.symbolName) }.to_bytes()
        };
        let symbol = table.symbol(name);
        shape.map(|(grid, block, shared_bytes)| Launch { symbol, grid, block, shared_bytes })
    };
    table.recording.graphs += usize::from(is_graph);
    table.recording.launches.extend(launch);
}

/// Grid, block and dynamic shared memory.
type Shape = ([u32; 3], [u32; 3], u32);

/// The shape of a launch, from the parameters of the driver's function.
///
/// # Safety
/// `params` points to the parameters of the function that `callback` names, as
/// `generated_cuda_meta.h` defines them.
unsafe fn shape(callback: u32, params: *const c_void) -> Option<Shape> {
    match callback {
        LAUNCH_KERNEL | LAUNCH_KERNEL_PTSZ => {
            // SAFETY: the caller's promise; both forms of the function have the same parameters.
            let call = unsafe { &*params.cast::<sys::cuLaunchKernel_params>() };
            Some((
                [call.gridDimX, call.gridDimY, call.gridDimZ],
                [call.blockDimX, call.blockDimY, call.blockDimZ],
                call.sharedMemBytes,
            ))
        }
        LAUNCH_COOPERATIVE | LAUNCH_COOPERATIVE_PTSZ => {
            // SAFETY: as above.
            let call = unsafe { &*params.cast::<sys::cuLaunchCooperativeKernel_params>() };
            Some((
                [call.gridDimX, call.gridDimY, call.gridDimZ],
                [call.blockDimX, call.blockDimY, call.blockDimZ],
                call.sharedMemBytes,
            ))
        }
        LAUNCH_KERNEL_EX | LAUNCH_KERNEL_EX_PTSZ => {
            // SAFETY: as above; the driver accepted the launch, so it has a configuration.
            let config = unsafe { (*params.cast::<sys::cuLaunchKernelEx_params>()).config.as_ref() }?;
            Some((
                [config.gridDimX, config.gridDimY, config.gridDimZ],
                [config.blockDimX, config.blockDimY, config.blockDimZ],
                config.sharedMemBytes,
            ))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The table is one for the process.
    static ALONE: Mutex<()> = Mutex::new(());

    fn alone() -> MutexGuard<'static, ()> {
        ALONE.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Calls the callback as CUPTI does.
    fn call(context: usize, callback: u32, result: u32, params: *const c_void, symbol: &CStr, exit: bool) {
        call_with(context, callback, result, params, symbol, exit, &mut 0);
    }

    fn call_with(
        context: usize,
        callback: u32,
        result: u32,
        params: *const c_void,
        symbol: &CStr,
        exit: bool,
        word: &mut u64,
    ) {
        let mut result = result;
        let data = sys::CUpti_CallbackData {
            callbackSite: if exit {
                sys::CUpti_ApiCallbackSite::CUPTI_API_EXIT
            } else {
                sys::CUpti_ApiCallbackSite::CUPTI_API_ENTER
            },
            functionName: c"cuLaunch".as_ptr(),
            functionParams: params,
            functionReturnValue: (&raw mut result).cast(),
            symbolName: symbol.as_ptr(),
            context: context as driver::CUcontext,
            contextUid: 1,
            correlationData: word,
            correlationId: 1,
        };
        // SAFETY: a struct as CUPTI passes it.
        unsafe { on_driver_call(std::ptr::null_mut(), DRIVER_API, callback, (&raw const data).cast()) };
    }

    fn kernel_params(grid: [u32; 3]) -> sys::cuLaunchKernel_params {
        sys::cuLaunchKernel_params_st {
            f: std::ptr::null_mut(),
            gridDimX: grid[0],
            gridDimY: grid[1],
            gridDimZ: grid[2],
            blockDimX: 32,
            blockDimY: 2,
            blockDimZ: 1,
            sharedMemBytes: 48,
            hStream: std::ptr::null_mut(),
            kernelParams: std::ptr::null_mut(),
            extra: std::ptr::null_mut(),
        }
    }

    #[test]
    fn launches_of_the_watched_context_are_recorded_once_they_succeeded() {
        const CONTEXT: usize = 0x1000;
        let _alone = alone();
        *table() = Some(Table::new(CONTEXT));
        let params = kernel_params([7, 8, 9]);
        let params: *const c_void = (&raw const params).cast();
        call(CONTEXT, LAUNCH_KERNEL, 0, params, c"_Z1kPf", false);
        call(CONTEXT, LAUNCH_KERNEL, 0, params, c"_Z1kPf", true);
        call(CONTEXT, LAUNCH_KERNEL, 701, params, c"refused", true);
        call(0x2000, LAUNCH_KERNEL, 0, params, c"elsewhere", true);
        call(CONTEXT, LAUNCH_GRAPH, 0, std::ptr::null(), c"", true);
        let recording = table().take().unwrap().recording;
        assert_eq!(recording.graphs, 1);
        let expected =
            Launch { symbol: "_Z1kPf".into(), grid: [7, 8, 9], block: [32, 2, 1], shared_bytes: 48 };
        assert_eq!(recording.launches, [expected]);
    }

    /// Eight threads launch at once: between a launch's beginning and its end no other begins.
    #[test]
    fn launches_of_several_threads_take_turns() {
        const CONTEXT: usize = 0x3000;
        const EACH: usize = 200;
        let _alone = alone();
        *table() = Some(Table { before: Some(Arc::new(|_| {})), ..Table::new(CONTEXT) });
        // The driver's side: the order in which it is called. Without turns the two orders differ.
        let driver: Mutex<Vec<u32>> = Mutex::new(Vec::new());
        thread::scope(|scope| {
            for thread in 0..8_u32 {
                let driver = &driver;
                scope.spawn(move || {
                    let params = kernel_params([thread, 1, 1]);
                    let params: *const c_void = (&raw const params).cast();
                    for _ in 0..EACH {
                        let mut word = 0;
                        call_with(CONTEXT, LAUNCH_KERNEL, 0, params, c"k", false, &mut word);
                        // A call within the call does not wait for itself.
                        call_with(CONTEXT, LAUNCH_KERNEL_EX, 1, params, c"inner", false, &mut 0);
                        driver.lock().unwrap().push(thread);
                        thread::yield_now();
                        call_with(CONTEXT, LAUNCH_KERNEL, 0, params, c"k", true, &mut word);
                        assert_eq!(word, 0);
                    }
                });
            }
        });
        let recorded: Vec<u32> =
            table().take().unwrap().recording.launches.iter().map(|launch| launch.grid[0]).collect();
        assert_eq!(recorded.len(), 8 * EACH);
        assert_eq!(recorded, *driver.lock().unwrap());
    }

    /// A turn that was taken is given back also where the watch ended in between.
    #[test]
    fn a_turn_is_given_back_when_nothing_is_watched_any_more() {
        const CONTEXT: usize = 0x4000;
        let _alone = alone();
        *table() = Some(Table { before: Some(Arc::new(|_| {})), ..Table::new(CONTEXT) });
        let params = kernel_params([1, 1, 1]);
        let params: *const c_void = (&raw const params).cast();
        let mut word = 0;
        call_with(CONTEXT, LAUNCH_KERNEL, 0, params, c"k", false, &mut word);
        *table() = None;
        call_with(CONTEXT, LAUNCH_KERNEL, 0, params, c"k", true, &mut word);
        thread::scope(|scope| scope.spawn(|| assert!(TURN.take())).join().unwrap());
        TURN.give();
    }
}

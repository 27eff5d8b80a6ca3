//! Activities: what CUPTI records, in buffers that lie in the file.

use std::collections::{HashMap, HashSet};
use std::ffi::{CStr, c_char, c_void};
use std::panic::catch_unwind;
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};
use std::sync::{Mutex, PoisonError};
use std::{env, ptr};

use super::count::Counting;
use super::cupti::{Code, Cupti, DRIVER, SUBSCRIBED, SUCCESS};
use super::file::Chunk;
use super::format::{activity, chunk, event, followed, header, severity, variable};
use super::launch::Call;
use super::life::{self, recorder};
use super::range::Wanted;
use super::recorder::Recorder;
use super::{c, devices};

/// CUPTI in this process.
struct Session {
    cupti: Cupti,
    /// Whether graphs are to be recorded as a whole.
    wants_whole_graphs: bool,
    /// Comes before the recording, where it was asked for.
    counting: Option<Counting>,
    state: Mutex<State>,
    /// Buffers that CUPTI has given back, with their valid bytes: the recorder's thread reads them,
    /// so that no thread of the program does.
    returned: Mutex<Vec<(Chunk, usize)>>,
    /// One flush at a time: two wait for each other.
    flushing: Mutex<()>,
    /// Whether this process is to be recorded. Held while that is followed.
    asked: Mutex<bool>,
    /// Ours, while this process is counted or recorded.
    subscriber: AtomicPtr<c_void>,
    /// Whether activities are enabled.
    records: AtomicBool,
    /// Whether those of whole graphs are.
    whole_graphs: AtomicBool,
}

#[derive(Default)]
struct State {
    /// What pointers meant when they were seen last: the text and its number.
    strings: HashMap<usize, (Vec<u8>, u64)>,
    /// Functions whose names are known.
    functions: HashSet<(u32, u32)>,
    last_string: u64,
    /// The bytes of a record of each kind: only CUPTI knows them.
    strides: HashMap<u32, usize>,
}

static SESSION: AtomicPtr<Session> = AtomicPtr::new(ptr::null_mut());

const THREADS_OF_THE_SYSTEM: u32 = 1;
const ZEROED_BUFFERS: u32 = 5;
const RUNTIME: u32 = 2;
const RESOURCE: u32 = 3;
const CONTEXT_ENDS: u32 = 2;
const NODE_CREATED: u32 = 13;
const NODE_CLONED: u32 = 20;
/// Functions of an API have smaller numbers.
const FUNCTIONS: u32 = 1500;
/// Hands over records that are not complete, too.
const FORCED: u32 = 1;

fn session() -> Option<&'static Session> {
    // SAFETY: only `start` stores it, from a box that is never freed.
    unsafe { SESSION.load(Ordering::Acquire).as_ref() }
}

/// Starts recording; the user gets to know where that fails. Called while the driver initializes.
pub(super) fn start() {
    let Some(recorder) = recorder() else { return };
    if session().is_some() {
        return;
    }
    match opened(recorder) {
        Ok(session) => {
            SESSION.store(ptr::from_ref(Box::leak(Box::new(session))).cast_mut(), Ordering::Release);
            if recorder.wanted.is_some() {
                switched(recorder, followed::OFF);
            }
            follow(recorder, true);
            life::start_keeper(recorder);
        }
        Err(reason) => recorder.without_cuda(&reason),
    }
}

fn opened(recorder: &Recorder) -> Result<Session, String> {
    let cupti = Cupti::find()?;
    let mut version = 0;
    // SAFETY: the pointer is valid for the call.
    unsafe { (cupti.version)(&raw mut version) };
    recorder.file.number(header::CUPTI).store(u64::from(version), Ordering::Relaxed);
    let wants_whole_graphs = env::var(variable::GRAPH).is_ok_and(|graph| graph == "graph");
    Ok(Session {
        counting: Counting::asked(recorder, &cupti),
        cupti,
        wants_whole_graphs,
        whole_graphs: AtomicBool::new(false),
        state: Mutex::default(),
        returned: Mutex::default(),
        flushing: Mutex::new(()),
        asked: Mutex::new(false),
        subscriber: AtomicPtr::new(ptr::null_mut()),
        records: AtomicBool::new(false),
    })
}

/// The range that is recorded alone begins on this thread.
pub(super) fn step_begins(recorder: &Recorder) {
    let is_outermost = recorder.wanted.as_ref().is_some_and(Wanted::is_outermost);
    if let Some(session) = session().filter(|_| is_outermost)
        && let Some(counting) = session.counting()
    {
        counting.step_begins(recorder, &session.cupti);
    }
}

/// And ends.
pub(super) fn step_ends(recorder: &Recorder) {
    if let Some(session) = session()
        && let Some(counting) = session.counting()
    {
        counting.step_ends(recorder, &session.cupti);
    }
}

/// Begins or ends recording where the switch or a range says so. Between recordings CUPTI is free
/// for others.
pub(super) fn follow(recorder: &Recorder, during_initialization: bool) {
    let Some(session) = session() else { return };
    let mut asked = session.asked.lock().unwrap_or_else(PoisonError::into_inner);
    let on = recorder.is_on();
    if std::mem::replace(&mut *asked, on) != on {
        if !on {
            session.counting.iter().for_each(Counting::stop);
        } else if let Err(reason) = session.subscribe(recorder) {
            return refused(recorder, &reason);
        }
    }
    let counts = session.counting.as_ref().is_some_and(|counting| !counting.has_ended());
    if session.is_active() && !counts {
        if !on {
            session.end(recorder);
        } else if !session.records.load(Ordering::Acquire)
            && let Err(reason) = session.record(recorder, during_initialization)
        {
            refused(recorder, &reason);
        }
    }
}

fn switched(recorder: &Recorder, state: u64) {
    recorder.definition(event::SWITCHED, &[&state.to_le_bytes(), &c::now().to_le_bytes()]);
}

fn refused(recorder: &Recorder, reason: &str) {
    recorder.file.number(header::FOLLOWED).store(followed::REFUSED, Ordering::Release);
    recorder.without_cuda(reason);
}

impl Session {
    /// Subscribes, which also says whether somebody else has, and begins to count.
    fn subscribe(&self, recorder: &Recorder) -> Result<(), String> {
        let cupti = &self.cupti;
        let mut subscriber = ptr::null_mut();
        // SAFETY: the pointer is valid for the call; the callback is a function of this library.
        match unsafe { (cupti.subscribe)(&raw mut subscriber, called, ptr::null_mut()) } {
            SUCCESS => self.subscriber.store(subscriber, Ordering::Release),
            SUBSCRIBED => {
                let reason = "another profiler records this process (nsys, ncu or torch.profiler)";
                return Err(reason.to_owned());
            }
            code => return Err(cupti.explain(code)),
        }
        for number in [CONTEXT_ENDS, NODE_CREATED, NODE_CLONED] {
            // SAFETY: what was subscribed above.
            unsafe { (cupti.enable_callback)(1, subscriber, RESOURCE, number) };
        }
        if self.counting.as_ref().is_some_and(|counting| !counting.has_ended()) {
            recorder.file.number(header::COUNTING).store(c::now(), Ordering::Release);
            Counting::follow(cupti, subscriber, true);
        }
        Ok(())
    }

    /// Enables what is recorded.
    fn record(&self, recorder: &Recorder, during_initialization: bool) -> Result<(), String> {
        let cupti = &self.cupti;
        if !during_initialization {
            // CUPTI has records of devices only for who asks before they are used.
            devices::write(recorder);
        }
        self.records.store(true, Ordering::Release);
        if self.counting.is_some() {
            Counting::follow(cupti, self.subscriber.load(Ordering::Acquire), false);
        }
        let (mut size, mut yes) = (1_usize, 1_u8);
        // SAFETY: CUPTI copies the value; the callbacks are functions of this library.
        let code = unsafe {
            (cupti.thread_id_type)(THREADS_OF_THE_SYSTEM);
            (cupti.attribute)(ZEROED_BUFFERS, &raw mut size, (&raw mut yes).cast());
            (cupti.register)(requested, completed)
        };
        if code != SUCCESS {
            return Err(cupti.explain(code));
        }
        // CUPTI (13.0) crashes when a graph is launched as a whole that was made before this.
        self.whole_graphs.store(self.wants_whole_graphs && during_initialization, Ordering::Release);
        if self.wants_whole_graphs && !during_initialization {
            let text =
                "CUDA graphs are recorded by node: as a whole only where recording begins with the program";
            recorder.message(severity::WARNING, text);
        }
        for kind in self.kinds() {
            // SAFETY: a plain number.
            let code = unsafe { (cupti.enable)(kind) };
            if code != SUCCESS {
                let text = format!("activities of kind {kind} are not recorded: {}", cupti.explain(code));
                recorder.message(severity::WARNING, &text);
            }
        }
        // After the kinds: enabling those enables all functions.
        quiet(cupti);
        if self.counting.is_some() {
            recorder.file.number(header::COUNTED).store(c::now(), Ordering::Release);
        }
        recorder.file.number(header::FOLLOWED).store(followed::ON, Ordering::Release);
        switched(recorder, followed::ON);
        Ok(())
    }

    /// Counting, while it lasts.
    fn counting(&self) -> Option<&Counting> {
        self.counting.as_ref().filter(|counting| self.is_active() && !counting.has_ended())
    }

    fn end(&self, recorder: &Recorder) {
        if self.records.load(Ordering::Acquire) {
            switched(recorder, followed::OFF);
            for kind in self.kinds() {
                // SAFETY: a plain number.
                unsafe { (self.cupti.disable)(kind) };
            }
            flush(recorder);
            self.records.store(false, Ordering::Release);
        }
        recorder.file.number(header::FOLLOWED).store(followed::OFF, Ordering::Release);
        let subscriber = self.subscriber.swap(ptr::null_mut(), Ordering::AcqRel);
        // SAFETY: what `begin` subscribed.
        unsafe { (self.cupti.unsubscribe)(subscriber) };
    }

    /// The kinds that are recorded.
    fn kinds(&self) -> impl Iterator<Item = u32> {
        let whole_graphs = self.whole_graphs.load(Ordering::Acquire);
        activity::RECORDED.into_iter().chain(whole_graphs.then_some(activity::GRAPH))
    }

    fn is_active(&self) -> bool {
        !self.subscriber.load(Ordering::Acquire).is_null()
    }
}

/// Leaves out calls that do no work, where CUPTI can: readers leave them out in any case.
fn quiet(cupti: &Cupti) {
    for (domain, switch) in [(RUNTIME, cupti.runtime_api), (DRIVER, cupti.driver_api)] {
        let Some(switch) = switch else { continue };
        for number in 1..FUNCTIONS {
            let name = cupti.function(domain, number).and_then(|name| name.to_str().ok());
            if name.is_some_and(|name| activity::SILENT.iter().any(|silent| name.starts_with(silent))) {
                // SAFETY: plain numbers.
                unsafe { switch(number, 0) };
            }
        }
    }
}

/// Brings complete records into the file.
pub(super) fn flush(recorder: &Recorder) {
    let Some(session) = session() else { return };
    let Ok(_flushing) = session.flushing.try_lock() else { return };
    let begun = c::now();
    // Between recordings nothing is to flush, and what others record they flush themselves.
    if session.records.load(Ordering::Acquire) {
        // SAFETY: a plain number; only one flush runs at a time.
        unsafe { (session.cupti.flush)(0) };
    }
    session.read_returned(recorder);
    recorder.file.number(header::FLUSHED).store(begun, Ordering::Release);
}

/// Reads what CUPTI has given back, so that it may serve again.
pub(super) fn read_returned(recorder: &Recorder) {
    if let Some(session) = session() {
        session.read_returned(recorder);
    }
}

/// The last flush, when the process ends.
pub(super) fn end(recorder: &Recorder) {
    let Some(session) = session() else { return };
    let _flushing = session.flushing.lock().unwrap_or_else(PoisonError::into_inner);
    if session.records.load(Ordering::Acquire) {
        // SAFETY: as in `flush`.
        unsafe { (session.cupti.flush)(FORCED) };
    }
    session.read_returned(recorder);
    recorder.file.number(header::FLUSHED).store(c::now(), Ordering::Release);
}

/// In a forked child: CUDA does not work there, and CUPTI belongs to the parent.
pub(super) fn forget() {
    SESSION.store(ptr::null_mut(), Ordering::Release);
}

/// CUPTI wants a buffer.
extern "C" fn requested(buffer: *mut *mut u8, size: *mut usize, records: *mut usize) {
    let chunk = catch_unwind(|| {
        let recorder = recorder()?;
        // Without room, what has been given back may be written over once it is read.
        recorder.file.buffer().or_else(|| {
            session()?.read_returned(recorder);
            recorder.file.buffer()
        })
    });
    let chunk = chunk.ok().flatten();
    if chunk.is_none()
        && let Some(recorder) = recorder()
    {
        recorder.file.number(header::REFUSED).fetch_add(1, Ordering::Relaxed);
    }
    // SAFETY: CUPTI passes valid pointers.
    unsafe {
        *buffer = chunk.map_or(ptr::null_mut(), Chunk::records);
        *size = chunk.map_or(0, Chunk::room);
        *records = 0;
    }
}

/// CUPTI gives a buffer back.
extern "C" fn completed(_context: *mut c_void, _stream: u32, buffer: *mut u8, _size: usize, valid: usize) {
    let _ = catch_unwind(|| {
        let (Some(recorder), Some(session)) = (recorder(), session()) else { return };
        // SAFETY: CUPTI gives back what `requested` gave.
        let chunk = unsafe { Chunk::of_records(buffer) };
        let valid = valid.min(chunk.room());
        chunk.complete(valid);
        session.returned.lock().unwrap_or_else(PoisonError::into_inner).push((chunk, valid));
        life::wake_keeper();
        let mut dropped = 0;
        // SAFETY: the pointer is valid for the call.
        let code = unsafe { (session.cupti.dropped)(ptr::null_mut(), 0, &raw mut dropped) };
        if code == SUCCESS && dropped > 0 {
            recorder.file.number(header::DROPPED).fetch_add(dropped as u64, Ordering::Relaxed);
        }
    });
}

impl Session {
    /// Reads what CUPTI has given back.
    fn read_returned(&self, recorder: &Recorder) {
        let returned = std::mem::take(&mut *self.returned.lock().unwrap_or_else(PoisonError::into_inner));
        for (chunk, valid) in returned {
            let records = self.named(recorder, chunk.records(), valid);
            chunk.field(chunk::THREAD_OR_RECORDS).store(records, Ordering::Relaxed);
            recorder.file.seal(chunk, valid);
        }
    }

    /// Replaces the pointers in a buffer's records by numbers of strings, and names the functions
    /// of its calls. Returns the number of records.
    #[allow(clippy::cast_ptr_alignment, reason = "CUPTI aligns records to eight bytes")]
    fn named(&self, recorder: &Recorder, buffer: *mut u8, valid: usize) -> u64 {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let (mut records, mut record) = (0, ptr::null_mut());
        let mut last: Option<(u32, usize)> = None;
        // SAFETY: the buffer has `valid` bytes of records, and CUPTI walks through them.
        while unsafe { (self.cupti.next)(buffer, valid, &raw mut record) } == SUCCESS {
            records += 1;
            // SAFETY: every record begins with its kind.
            let kind = unsafe { record.cast::<u32>().read() } & !activity::UNFINISHED;
            if let Some((kind, at)) = last.replace((kind, record.addr())) {
                state.learn(recorder, kind, record.addr() - at);
            }
            match kind {
                activity::KERNEL | activity::KERNEL_ALONE => {
                    // SAFETY: kernels and devices have a pointer to a C string there.
                    unsafe { state.replace(recorder, record.wrapping_add(activity::KERNEL_NAME).cast()) };
                }
                activity::DEVICE => {
                    // SAFETY: as above.
                    unsafe { state.replace(recorder, record.wrapping_add(activity::DEVICE_NAME).cast()) };
                }
                activity::RUNTIME | activity::DRIVER => {
                    let domain = if kind == activity::RUNTIME { RUNTIME } else { DRIVER };
                    // SAFETY: calls have their number there.
                    let number = unsafe { record.wrapping_add(activity::CALL_NUMBER).cast::<u32>().read() };
                    state.name_function(recorder, &self.cupti, domain, number);
                }
                _ => {}
            }
        }
        if let Some((kind, at)) = last {
            state.learn(recorder, kind, buffer.addr() + valid - at);
        }
        records
    }
}

impl State {
    /// Remembers how long records of a kind are.
    fn learn(&mut self, recorder: &Recorder, kind: u32, stride: usize) {
        if self.strides.insert(kind, stride) != Some(stride) {
            let bytes = u32::try_from(stride).unwrap_or(0).to_le_bytes();
            recorder.definition(event::STRIDE, &[&kind.to_le_bytes(), &bytes]);
        }
    }

    /// # Safety
    /// `place` is in a record, aligned, and null or a pointer to a C string.
    unsafe fn replace(&mut self, recorder: &Recorder, place: *mut *const c_char) {
        // SAFETY: as the caller says.
        let pointer = unsafe { place.read() };
        let number = if pointer.is_null() {
            0
        } else {
            // SAFETY: as the caller says.
            self.string(recorder, pointer.addr(), unsafe { CStr::from_ptr(pointer) }.to_bytes())
        };
        // SAFETY: as the caller says; a number takes the eight bytes of the pointer.
        unsafe { place.cast::<u64>().write(number) };
    }

    /// The number of a string. An address may mean something else than before, when a module was
    /// unloaded meanwhile: the text itself is compared.
    fn string(&mut self, recorder: &Recorder, address: usize, text: &[u8]) -> u64 {
        if let Some((known, number)) = self.strings.get(&address)
            && known == text
        {
            return *number;
        }
        self.last_string += 1;
        let number = self.last_string;
        self.strings.insert(address, (text.to_vec(), number));
        let (number_bytes, address_bytes) = (number.to_le_bytes(), (address as u64).to_le_bytes());
        recorder.definition(event::STRING, &[&number_bytes, &address_bytes, text]);
        number
    }

    fn name_function(&mut self, recorder: &Recorder, cupti: &Cupti, domain: u32, number: u32) {
        if !self.functions.insert((domain, number)) {
            return;
        }
        if let Some(name) = cupti.function(domain, number) {
            let parts = [&domain.to_le_bytes()[..], &number.to_le_bytes(), name.to_bytes()];
            recorder.definition(event::FUNCTION, &parts);
        }
    }
}

/// `CUpti_ResourceData`.
#[repr(C)]
struct Resource {
    _context: *mut c_void,
    _handle: *mut c_void,
    descriptor: *const Node,
}

/// `CUpti_GraphData`, as far as it is read.
#[repr(C)]
struct Node {
    _graph: *mut c_void,
    _original_graph: *mut c_void,
    this: *mut c_void,
    original: *mut c_void,
}

/// A context ends, a node of a graph was made, or a launch that may be counted begins or ends.
extern "C" fn called(_user: *mut c_void, domain: u32, number: u32, data: *const c_void) {
    let _ = catch_unwind(|| {
        let (Some(recorder), Some(session)) = (recorder(), session()) else { return };
        if domain == DRIVER
            && let Some(counting) = &session.counting
        {
            // SAFETY: CUPTI passes this struct for functions of the driver.
            if let Some(call) = unsafe { data.cast::<Call>().as_ref() } {
                // SAFETY: the call and its number are CUPTI's.
                unsafe { counting.called(recorder, &session.cupti, number, call) };
            }
        }
        if domain != RESOURCE || !session.is_active() {
            return;
        }
        if number == CONTEXT_ENDS {
            flush(recorder);
            return;
        }
        // SAFETY: CUPTI passes this struct for the two events of nodes that are enabled.
        let node = unsafe { data.cast::<Resource>().as_ref().and_then(|it| it.descriptor.as_ref()) };
        let Some(node) = node else { return };
        let is_copy = number == NODE_CLONED;
        let ids = [node.this, if is_copy { node.original } else { ptr::null_mut() }];
        let [own, original] = ids.map(|node| session.cupti.node(node));
        let parts = [&own.to_le_bytes()[..], &original.to_le_bytes()];
        recorder.event(event::NODE, c::now(), &parts);
    });
}

impl Cupti {
    /// The number of a node, 0 for none.
    fn node(&self, node: *mut c_void) -> u64 {
        let mut number = 0;
        if !node.is_null() {
            // SAFETY: a node that CUPTI passed to a callback; the pointer is valid for the call.
            let _: Code = unsafe { (self.node_id)(node, &raw mut number) };
        }
        number
    }
}

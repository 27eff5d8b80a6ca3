//! The life of the recorder in a process: from the first call to the exit, through forks.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread::Thread;
use std::time::{Duration, Instant};
use std::{env, fs, ptr};

use super::file::RecordFile;
use super::format::{event, header, severity, variable};
use super::range::Wanted;
use super::recorder::{Definitions, Recorder, complain, number};
use super::{activity, c, nvtx};

static RECORDER: AtomicPtr<Recorder> = AtomicPtr::new(ptr::null_mut());
static GENERATION: AtomicU64 = AtomicU64::new(1);
static OPENING: Mutex<()> = Mutex::new(());
/// Nothing is recorded: no directory is named, or its file could not be made.
static OFF: AtomicBool = AtomicBool::new(false);
static KEEPER: Mutex<Option<Thread>> = Mutex::new(None);
static ENDED: AtomicBool = AtomicBool::new(false);

/// A disk without a bound of its own ends at what a `u64` holds.
const UNBOUNDED: u64 = u64::MAX / 2;
/// How often complete records are brought into the file.
const FLUSH_EVERY: u64 = 100;

/// The recorder, which the first call opens.
pub(super) fn recorder() -> Option<&'static Recorder> {
    let known = RECORDER.load(Ordering::Acquire);
    if known.is_null() {
        return if OFF.load(Ordering::Relaxed) { None } else { opened() };
    }
    // SAFETY: only `opened` stores it, from a box that is never freed.
    Some(unsafe { &*known })
}

#[cold]
fn opened() -> Option<&'static Recorder> {
    let _opening = OPENING.lock().unwrap_or_else(PoisonError::into_inner);
    let known = RECORDER.load(Ordering::Acquire);
    if !known.is_null() {
        // SAFETY: as in `recorder`.
        return Some(unsafe { &*known });
    }
    let recorder = directory().and_then(|directory| match create(&directory) {
        Ok(recorder) => Some(recorder),
        Err(error) => {
            complain(&format!("nothing is recorded: {}: {error}", directory.display()));
            None
        }
    });
    let Some(recorder) = recorder else {
        OFF.store(true, Ordering::Relaxed);
        return None;
    };
    let generation = recorder.generation;
    let recorder: &'static Recorder = Box::leak(Box::new(recorder));
    RECORDER.store(ptr::from_ref(recorder).cast_mut(), Ordering::Release);
    if generation == 1 {
        c::at_fork(forked);
        c::at_exit(ended);
    } else {
        nvtx::repeat(recorder);
    }
    recorder.definition(event::COMMAND, &[&fs::read("/proc/self/cmdline").unwrap_or_default()]);
    Some(recorder)
}

fn directory() -> Option<PathBuf> {
    env::var_os(variable::DIRECTORY).filter(|directory| !directory.is_empty()).map(PathBuf::from)
}

fn create(directory: &Path) -> std::io::Result<Recorder> {
    let bound = number(variable::MAX_SIZE).unwrap_or(UNBOUNDED);
    // Numbers of processes come again: the time makes the name this process's own.
    let name = format!("{}-{}.fgr", std::process::id(), c::now());
    Ok(Recorder {
        file: RecordFile::create(&directory.join(name), bound)?,
        generation: GENERATION.load(Ordering::Relaxed),
        directory: directory.to_owned(),
        wanted: Wanted::of_environment(),
        definitions: Mutex::new(Definitions::EMPTY),
    })
}

/// A forked child has its own recording, and threads of its parent are not in it.
extern "C" fn forked() {
    RECORDER.store(ptr::null_mut(), Ordering::Release);
    GENERATION.fetch_add(1, Ordering::Relaxed);
    activity::forget();
}

extern "C" fn ended() {
    if ENDED.swap(true, Ordering::AcqRel) {
        return;
    }
    // Not opened by this: a process without events has no file.
    let recorder = RECORDER.load(Ordering::Acquire);
    if recorder.is_null() {
        return;
    }
    // SAFETY: as in `recorder`.
    let recorder = unsafe { &*recorder };
    let _ = std::panic::catch_unwind(|| {
        activity::end(recorder);
        recorder.name_threads(&mut Vec::new());
        recorder.file.number(header::CLOSED).store(c::now(), Ordering::Release);
    });
}

/// Starts the thread that flushes, prepares buffers and follows the switch.
pub(super) fn start_keeper(recorder: &'static Recorder) {
    let started = c::without_signals(|| {
        std::thread::Builder::new().name("flopgap".to_owned()).spawn(move || keep(recorder))
    });
    match started {
        Ok(keeper) => *KEEPER.lock().unwrap_or_else(PoisonError::into_inner) = Some(keeper.thread().clone()),
        Err(error) => {
            recorder.message(severity::ERROR, &format!("the recorder's thread could not start: {error}"));
        }
    }
}

/// There is something to do for the recorder's thread.
pub(super) fn wake_keeper() {
    if let Some(keeper) = &*KEEPER.lock().unwrap_or_else(PoisonError::into_inner) {
        keeper.unpark();
    }
}

fn keep(recorder: &'static Recorder) {
    let every = number(variable::FLUSH).unwrap_or(FLUSH_EVERY).max(1);
    let every = Duration::from_millis(every);
    let mut named = Vec::new();
    let mut turns = 0_u64;
    let mut flushed: Option<Instant> = None;
    while !ENDED.load(Ordering::Acquire) {
        recorder.file.prepare();
        activity::read_returned(recorder);
        if flushed.is_none_or(|flushed| flushed.elapsed() >= every) {
            flushed = Some(Instant::now());
            activity::follow(recorder, false);
            activity::flush(recorder);
            if turns.is_multiple_of(10) {
                recorder.name_threads(&mut named);
            }
            turns += 1;
        }
        std::thread::park_timeout(every);
    }
}

//! The recorder of a process, and the events that it writes itself: each thread into a chunk of its
//! own.

use std::cell::Cell;
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::{env, fs, ptr};

use super::c;
use super::file::{Chunk, RecordFile};
use super::format::{SWITCH, event, header, severity};
use super::range::Wanted;

/// The recorder of a process. It is never dropped.
pub(super) struct Recorder {
    pub(super) file: RecordFile,
    /// Counts processes along forks, from 1.
    pub(super) generation: u64,
    pub(super) directory: PathBuf,
    /// The range that is recorded alone, if the user names one.
    pub(super) wanted: Option<Wanted>,
    pub(super) definitions: Mutex<Definitions>,
}

/// The chunk that a thread writes to.
#[derive(Clone, Copy)]
struct Writer {
    /// The process that it belongs to: a forked child must not write to its parent's.
    generation: u64,
    chunk: Option<Chunk>,
    written: usize,
}

/// The room of a thread's chunk.
const ROOM: usize = 60 << 10;
/// The longest event.
const LONGEST: usize = 1 << 20;

thread_local! {
    static WRITER: Cell<Writer> = const { Cell::new(Writer { generation: 0, chunk: None, written: 0 }) };
}

impl Recorder {
    fn definitions(&self) -> MutexGuard<'_, Definitions> {
        self.definitions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Says something to the user with the recording.
    pub(super) fn message(&self, severity: u64, text: &str) {
        self.definition(event::MESSAGE, &[&severity.to_le_bytes(), text.as_bytes()]);
    }

    /// Says with the recording and at once why CUDA is not recorded.
    pub(super) fn without_cuda(&self, reason: &str) {
        let text = format!("CUDA is not recorded: {reason}");
        self.message(severity::ERROR, &text);
        complain(&text);
    }

    /// Whether this process is to be recorded now: the switch says so, and the range that is
    /// recorded alone is open.
    pub(super) fn is_on(&self) -> bool {
        if self.wanted.as_ref().is_some_and(|wanted| !wanted.is_open()) {
            return false;
        }
        // A directory that is gone is not recorded to.
        let switches = fs::read_to_string(self.directory.join(SWITCH)).unwrap_or_default();
        switches.lines().last().is_some_and(|last| last.starts_with('1'))
    }

    /// Writes an event of this thread: its kind, and after the time what `parts` are one after
    /// another.
    pub(super) fn event(&self, kind: u32, time: u64, parts: &[&[u8]]) {
        let (length, padded) = size(parts);
        let place = WRITER.try_with(|writer| self.reserve(writer, padded)).ok().flatten();
        let (Some((chunk, begin)), true) = (place, length <= LONGEST) else {
            self.file.number(header::UNWRITTEN).fetch_add(1, Ordering::Relaxed);
            return;
        };
        // SAFETY: `reserve` has made room for the event in a chunk that only this thread writes to.
        unsafe { put(chunk.records().wrapping_add(begin), length, kind, time, parts) };
        chunk.commit(begin + padded);
    }

    /// Room for an event: the chunk and where it begins.
    fn reserve(&self, writer: &Cell<Writer>, length: usize) -> Option<(Chunk, usize)> {
        let Writer { generation, chunk, written } = writer.get();
        let own = chunk.filter(|_| generation == self.generation);
        if let Some(chunk) = own.filter(|chunk| written + length <= chunk.room()) {
            writer.set(Writer { generation, chunk: Some(chunk), written: written + length });
            return Some((chunk, written));
        }
        if let Some(full) = own {
            self.file.seal(full, written);
        }
        let new = self.file.events(length.max(ROOM), c::thread());
        writer.set(Writer { generation: self.generation, chunk: new, written: length });
        let first = own.is_none();
        let new = new?;
        if first {
            self.name_thread(c::thread());
        }
        Some((new, 0))
    }

    /// Writes an event that all else depends on, which is never written over: names, mostly.
    pub(super) fn definition(&self, kind: u32, parts: &[&[u8]]) {
        let (length, padded) = size(parts);
        let mut page = self.definitions();
        if page.chunk.is_none_or(|chunk| page.written + padded > chunk.room()) {
            if let Some(full) = page.chunk {
                full.commit(page.written);
            }
            page.chunk = self.file.events(padded.max(ROOM), 0);
            page.written = 0;
        }
        let Some(chunk) = page.chunk else {
            self.file.number(header::UNWRITTEN).fetch_add(1, Ordering::Relaxed);
            return;
        };
        // SAFETY: there is room, and the lock makes this thread the only writer.
        unsafe { put(chunk.records().wrapping_add(page.written), length, kind, c::now(), parts) };
        page.written += padded;
        chunk.commit(page.written);
    }

    /// Names a thread as the system does.
    fn name_thread(&self, thread: u32) {
        if let Ok(name) = fs::read(format!("/proc/self/task/{thread}/comm")) {
            let name = name.strip_suffix(b"\n").unwrap_or(&name);
            self.definition(event::THREAD, &[&u64::from(thread).to_le_bytes(), name]);
        }
    }

    /// Names the threads that have none yet. A later name replaces an earlier one.
    pub(super) fn name_threads(&self, named: &mut Vec<u32>) {
        let Ok(threads) = fs::read_dir("/proc/self/task") else { return };
        let threads = threads.flatten().filter_map(|thread| thread.file_name().to_str()?.parse().ok());
        let new: Vec<u32> = threads.filter(|thread| !named.contains(thread)).collect();
        for &thread in &new {
            self.name_thread(thread);
        }
        named.extend(new);
    }
}

/// The bytes of an event, and with those before the next one.
fn size(parts: &[&[u8]]) -> (usize, usize) {
    let length = parts.iter().map(|part| part.len()).sum::<usize>() + event::HEADER;
    (length, length.next_multiple_of(event::ALIGNMENT))
}

/// # Safety
/// `length` bytes at `at` belong to this thread; they are the header and all parts.
unsafe fn put(at: *mut u8, length: usize, kind: u32, time: u64, parts: &[&[u8]]) {
    let mut at = at;
    let length = u32::try_from(length).unwrap_or(0).to_le_bytes();
    let all = [&length[..], &kind.to_le_bytes(), &time.to_le_bytes()];
    for part in all.into_iter().chain(parts.iter().copied()) {
        // SAFETY: as the caller says.
        unsafe { ptr::copy_nonoverlapping(part.as_ptr(), at, part.len()) };
        at = at.wrapping_add(part.len());
    }
}

/// The chunk of definitions.
pub(super) struct Definitions {
    chunk: Option<Chunk>,
    written: usize,
}

impl Definitions {
    pub(super) const EMPTY: Definitions = Definitions { chunk: None, written: 0 };
}

/// A number of the environment.
pub(super) fn number(name: &str) -> Option<u64> {
    env::var(name).ok()?.parse().ok()
}

/// One line for the user where the recording cannot take it.
pub(super) fn complain(text: &str) {
    use std::io::Write as _;
    // Nothing is left to do where this fails, too.
    let _ = writeln!(std::io::stderr(), "flopgap: {text}");
}

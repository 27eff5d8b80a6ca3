//! The file of this process: grows by chunks, which are mapped into memory.

use std::collections::VecDeque;
use std::fs::{File, OpenOptions};
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::c;
use super::format::{MAGIC, PAGE, chunk, header};

/// A part of the file in memory: its header, then records.
#[derive(Clone, Copy)]
pub(super) struct Chunk {
    at: *mut u8,
    length: usize,
}

// SAFETY: a chunk has one writer at a time, and its fields are written atomically.
unsafe impl Send for Chunk {}
// SAFETY: as above.
unsafe impl Sync for Chunk {}

/// The file.
pub(super) struct RecordFile {
    file: File,
    header: Chunk,
    /// The most bytes that it may have.
    bound: u64,
    /// Its length. Held while it grows.
    end: Mutex<u64>,
    state: Mutex<State>,
}

struct State {
    sequence: u64,
    /// Chunks that nobody uses, with pages in memory.
    spare: Vec<Chunk>,
    /// Chunks that may be written over, the oldest first.
    sealed: VecDeque<Chunk>,
}

/// What CUPTI fills; also the unit in which the file grows for it.
const BUFFER: usize = 2 << 20;
/// What new pages have. It takes no memory itself, but room in every program that carries the
/// library.
static ZEROS: [u8; 128 << 10] = [0; 128 << 10];
/// The rest of a buffer that is worth keeping.
const WORTH_KEEPING: usize = 64 << 10;
/// Buffers that wait ready for CUPTI.
const READY: usize = 2;

impl Chunk {
    /// Where its records begin.
    pub(super) fn records(self) -> *mut u8 {
        self.at.wrapping_add(chunk::HEADER)
    }

    /// The room for records.
    pub(super) fn room(self) -> usize {
        self.length - chunk::HEADER
    }

    /// The chunk that has these records.
    ///
    /// # Safety
    /// What [`Chunk::records`] gave, of a chunk that is mapped.
    pub(super) unsafe fn of_records(records: *mut u8) -> Chunk {
        let at = records.wrapping_sub(chunk::HEADER);
        let length = Chunk { at, length: 0 }.field(chunk::LENGTH).load(Ordering::Relaxed);
        Chunk { at, length: usize::try_from(length).unwrap_or(0) }
    }

    /// A number in its header, or that of the file.
    pub(super) fn field(&self, offset: usize) -> &AtomicU64 {
        // SAFETY: a chunk begins with a header and on a page; it is mapped as long as the process
        // lives; all access to headers is atomic.
        unsafe { AtomicU64::from_ptr(self.at.wrapping_add(offset).cast()) }
    }

    fn label(&self, kind: u8, sequence: u64, thread: u64) {
        self.field(chunk::LENGTH).store(self.length as u64, Ordering::Relaxed);
        self.field(chunk::SEQUENCE).store(sequence, Ordering::Relaxed);
        self.field(chunk::STATE).store(chunk::OPEN, Ordering::Relaxed);
        self.field(chunk::VALID).store(0, Ordering::Relaxed);
        self.field(chunk::THREAD_OR_RECORDS).store(thread, Ordering::Relaxed);
        // Last: a chunk without it is not read.
        self.field(chunk::MARK_KIND).store(chunk::MARK | u64::from(kind), Ordering::Release);
    }

    /// Says how many bytes of it are complete.
    pub(super) fn commit(&self, valid: usize) {
        self.field(chunk::VALID).store(valid as u64, Ordering::Release);
    }

    /// Says that all of its records are there.
    pub(super) fn complete(&self, valid: usize) {
        self.commit(valid);
        self.field(chunk::STATE).store(chunk::COMPLETE, Ordering::Release);
    }

    /// Cuts off what is not used of it, if that is worth keeping.
    fn split(&mut self, used: usize) -> Option<Chunk> {
        let used = (chunk::HEADER + used).next_multiple_of(PAGE);
        if self.length < used + WORTH_KEEPING {
            return None;
        }
        let rest = Chunk { at: self.at.wrapping_add(used), length: self.length - used };
        rest.label(chunk::FREE, 0, 0);
        self.length = used;
        self.field(chunk::LENGTH).store(used as u64, Ordering::Release);
        Some(rest)
    }
}

impl RecordFile {
    /// A new file of at most so many bytes.
    pub(super) fn create(path: &Path, bound: u64) -> std::io::Result<RecordFile> {
        let file = OpenOptions::new().read(true).write(true).create_new(true).open(path)?;
        let mapped =
            c::allocate(file.as_raw_fd(), 0, PAGE).then(|| c::map(file.as_raw_fd(), 0, PAGE)).flatten();
        let at = mapped.ok_or_else(|| std::io::Error::other("the file cannot be mapped into memory"))?;
        let header = Chunk { at, length: PAGE };
        header.field(header::PID).store(u64::from(std::process::id()), Ordering::Relaxed);
        header.field(header::OPENED).store(c::now(), Ordering::Relaxed);
        header.field(header::MAGIC).store(u64::from_le_bytes(MAGIC), Ordering::Release);
        let state = State { sequence: 0, spare: Vec::new(), sealed: VecDeque::new() };
        Ok(RecordFile { file, header, bound, end: Mutex::new(PAGE as u64), state: Mutex::new(state) })
    }

    /// A number in its header.
    pub(super) fn number(&self, offset: usize) -> &AtomicU64 {
        self.header.field(offset)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A buffer for CUPTI, all zeros.
    pub(super) fn buffer(&self) -> Option<Chunk> {
        self.take(chunk::ACTIVITIES, BUFFER, 0)
    }

    /// Room for events of a thread.
    pub(super) fn events(&self, length: usize, thread: u32) -> Option<Chunk> {
        self.take(chunk::EVENTS, (chunk::HEADER + length).next_multiple_of(PAGE), u64::from(thread))
    }

    fn take(&self, kind: u8, length: usize, thread: u64) -> Option<Chunk> {
        // What is left of a buffer serves as the next one, as long as it is worth it.
        let least = if kind == chunk::ACTIVITIES { WORTH_KEEPING } else { length };
        let mut state = self.state();
        let spare = state.spare.iter().position(|spare| spare.length >= least);
        let spare = spare.map(|at| state.spare.swap_remove(at));
        drop(state);
        let grown = || self.grown(BUFFER).or_else(|| self.grown(length));
        let mut taken = spare.or_else(grown).or_else(|| self.written_over(least))?;
        let rest = if kind == chunk::EVENTS { taken.split(length - chunk::HEADER) } else { None };
        let mut state = self.state();
        state.spare.extend(rest);
        state.sequence += 1;
        taken.label(kind, state.sequence, thread);
        Some(taken)
    }

    /// A new chunk at the end of the file.
    fn grown(&self, length: usize) -> Option<Chunk> {
        let file = self.file.as_raw_fd();
        let mut end = self.end.lock().unwrap_or_else(PoisonError::into_inner);
        if *end + length as u64 > self.bound || !c::allocate(file, *end, length) {
            return None;
        }
        // Pages that were written are mapped six times as fast as pages that have only room.
        for place in (0..length.min(BUFFER)).step_by(ZEROS.len()) {
            let part = &ZEROS[..ZEROS.len().min(length - place)];
            if self.file.write_all_at(part, *end + place as u64).is_err() {
                break;
            }
        }
        let at = c::map(file, *end, length)?;
        // SAFETY: the mapping of the line above.
        unsafe { c::populate(at, length) };
        *end += length as u64;
        Some(Chunk { at, length })
    }

    /// The oldest chunk. What it had is lost.
    fn written_over(&self, length: usize) -> Option<Chunk> {
        let mut state = self.state();
        let oldest = state.sealed.iter().position(|sealed| sealed.length >= length)?;
        let chunk = state.sealed.remove(oldest)?;
        drop(state);
        let is_buffer = chunk.field(chunk::MARK_KIND).load(Ordering::Relaxed)
            == chunk::MARK | u64::from(chunk::ACTIVITIES);
        let records = chunk.field(chunk::THREAD_OR_RECORDS).load(Ordering::Relaxed);
        chunk.field(chunk::MARK_KIND).store(chunk::MARK, Ordering::Release);
        // SAFETY: the chunk is sealed, so nobody else writes to it.
        unsafe { chunk.records().write_bytes(0, chunk.room()) };
        self.number(header::OVERWRITTEN).fetch_add(1, Ordering::Relaxed);
        self.number(header::OVERWRITTEN_RECORDS)
            .fetch_add(if is_buffer { records } else { 0 }, Ordering::Relaxed);
        Some(chunk)
    }

    /// A chunk that is complete: the rest of a buffer serves again.
    pub(super) fn seal(&self, mut chunk: Chunk, valid: usize) {
        chunk.commit(valid);
        let rest = chunk.split(valid);
        chunk.field(chunk::STATE).store(chunk::SEALED, Ordering::Release);
        let mut state = self.state();
        state.spare.extend(rest);
        state.sealed.push_back(chunk);
    }

    /// Keeps buffers ready, so that no thread of the program waits for the disk or for pages.
    pub(super) fn prepare(&self) {
        for _ in 0..READY {
            let is_whole = |spare: &&Chunk| spare.length >= BUFFER / 2;
            if self.state().spare.iter().filter(is_whole).count() >= READY {
                return;
            }
            let Some(chunk) = self.grown(BUFFER) else { return };
            chunk.label(chunk::FREE, 0, 0);
            self.state().spare.push(chunk);
        }
    }
}

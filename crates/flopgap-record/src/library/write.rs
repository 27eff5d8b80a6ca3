//! Events: what the library writes itself, each thread into a chunk of its own.

use std::cell::Cell;
use std::ptr;
use std::sync::atomic::Ordering;

use super::c;
use super::file::Chunk;
use super::format::{event, header};
use super::life::{self, Recorder};

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

/// Writes an event of this thread: its kind, and after the time what `parts` are one after another.
pub(super) fn event(recorder: &Recorder, kind: u32, time: u64, parts: &[&[u8]]) {
    let (length, padded) = size(parts);
    let place = WRITER.try_with(|writer| reserve(recorder, writer, padded)).ok().flatten();
    let (Some((chunk, begin)), true) = (place, length <= LONGEST) else {
        recorder.file.number(header::UNWRITTEN).fetch_add(1, Ordering::Relaxed);
        return;
    };
    // SAFETY: `reserve` has made room for the event in a chunk that only this thread writes to.
    unsafe { put(chunk.records().wrapping_add(begin), length, kind, time, parts) };
    chunk.commit(begin + padded);
}

/// The bytes of an event, and with those before the next one.
fn size(parts: &[&[u8]]) -> (usize, usize) {
    let length = parts.iter().map(|part| part.len()).sum::<usize>() + event::HEADER;
    (length, length.next_multiple_of(event::ALIGNMENT))
}

/// Room for an event: the chunk and where it begins.
fn reserve(recorder: &Recorder, writer: &Cell<Writer>, length: usize) -> Option<(Chunk, usize)> {
    let Writer { generation, chunk, written } = writer.get();
    let own = chunk.filter(|_| generation == recorder.generation);
    if let Some(chunk) = own.filter(|chunk| written + length <= chunk.room()) {
        writer.set(Writer { generation, chunk: Some(chunk), written: written + length });
        return Some((chunk, written));
    }
    if let Some(full) = own {
        recorder.file.seal(full, written);
    }
    let new = recorder.file.events(length.max(ROOM), c::thread());
    writer.set(Writer { generation: recorder.generation, chunk: new, written: length });
    let first = own.is_none();
    let new = new?;
    if first {
        life::name_this_thread(recorder);
    }
    Some((new, 0))
}

/// Writes an event that all else depends on, which is never written over: names, mostly.
pub(super) fn definition(recorder: &Recorder, kind: u32, parts: &[&[u8]]) {
    let (length, padded) = size(parts);
    let mut page = recorder.definitions();
    if page.chunk.is_none_or(|chunk| page.written + padded > chunk.room()) {
        if let Some(full) = page.chunk {
            full.commit(page.written);
        }
        page.chunk = recorder.file.events(padded.max(ROOM), 0);
        page.written = 0;
    }
    let Some(chunk) = page.chunk else {
        recorder.file.number(header::UNWRITTEN).fetch_add(1, Ordering::Relaxed);
        return;
    };
    // SAFETY: there is room, and the lock makes this thread the only writer.
    unsafe { put(chunk.records().wrapping_add(page.written), length, kind, c::now(), parts) };
    page.written += padded;
    chunk.commit(page.written);
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

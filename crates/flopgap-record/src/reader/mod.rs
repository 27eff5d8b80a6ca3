//! Reads recordings, also of programs that were killed.
//!
//! A file is read chunk by chunk: memory does not grow with it. Everything that it says about
//! itself is checked against its length.

mod activity;
mod bytes;
mod event;

pub(crate) use activity::{Activity, Api, At, Copy, Device, Graph, Kernel, Overhead, Set, Stream, Sync};
pub(crate) use event::{Event, Mark, Payload, Text, Work};

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use rustc_hash::FxHashMap;

use crate::RecordError;
use crate::format::activity::UNFINISHED;
use crate::format::{self, MAGIC, chunk, followed, header};
use bytes::{u32_at, u64_at};

/// What is read of a file's header.
const HEADER: usize = 256;
const PAGE: u64 = format::PAGE as u64;

/// The bytes of a record of each kind, which definitions say.
pub(crate) type Strides = FxHashMap<u32, usize>;

/// The recording of one process.
#[derive(Debug)]
pub(crate) struct Process {
    path: PathBuf,
    file: File,
    header: [u8; HEADER],
    /// In the order in which they were handed out.
    chunks: Vec<ChunkAt>,
}

/// A chunk of a file.
#[derive(Debug, Clone, Copy)]
struct ChunkAt {
    offset: u64,
    length: u64,
    kind: u8,
    sequence: u64,
    is_open: bool,
    valid: u64,
    thread: u64,
}

/// What could not be read of a recording.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Unread {
    /// Records of kinds that are not recorded, or that are shorter than their kind.
    pub(crate) records: u64,
    /// Bytes after a record that has no length.
    pub(crate) bytes: u64,
}

impl Process {
    /// Opens a file of a recording.
    pub(crate) fn open(path: &Path) -> Result<Process, RecordError> {
        let mut process = Process::glance(path)?;
        let io = RecordError::io(path);
        let length = process.file.metadata().map_err(&io)?.len();
        process.chunks = chunks(&process.file, length).map_err(&io)?;
        Ok(process)
    }

    /// Reads nothing but the header: what a process does, without what it recorded.
    pub(crate) fn glance(path: &Path) -> Result<Process, RecordError> {
        let io = RecordError::io(path);
        let file = File::open(path).map_err(&io)?;
        let length = file.metadata().map_err(&io)?.len();
        let foreign = || RecordError::Foreign { path: path.to_owned() };
        if length < PAGE {
            return Err(foreign());
        }
        let mut header = [0; HEADER];
        file.read_exact_at(&mut header, 0).map_err(&io)?;
        if header[..8] != MAGIC {
            return Err(foreign());
        }
        Ok(Process { path: path.to_owned(), file, header, chunks: Vec::new() })
    }

    /// Reads the header again, of a process that may still run.
    pub(crate) fn look_again(&mut self) -> Result<(), RecordError> {
        self.file.read_exact_at(&mut self.header, 0).map_err(RecordError::io(&self.path))
    }

    /// A number of the header.
    fn number(&self, field: usize) -> u64 {
        u64_at(&self.header, field)
    }

    pub(crate) fn pid(&self) -> u64 {
        self.number(header::PID)
    }

    /// When recording began, in nanoseconds since 1970.
    pub(crate) fn opened(&self) -> u64 {
        self.number(header::OPENED)
    }

    /// When the process ended in an orderly way.
    pub(crate) fn closed(&self) -> Option<u64> {
        Some(self.number(header::CLOSED)).filter(|&time| time > 0)
    }

    /// The version of CUPTI, where the process recorded CUDA.
    pub(crate) fn cupti(&self) -> Option<u64> {
        Some(self.number(header::CUPTI)).filter(|&version| version > 0)
    }

    /// Whether the process still has the file in its memory.
    pub(crate) fn is_running(&self) -> bool {
        let maps = std::fs::read_to_string(format!("/proc/{}/maps", self.pid())).unwrap_or_default();
        self.path.file_name().and_then(|name| name.to_str()).is_some_and(|name| maps.contains(name))
    }

    /// Whether a process of this number exists. Asking for [its memory](Self::is_running) would
    /// hold it up.
    pub(crate) fn is_there(&self) -> bool {
        Path::new(&format!("/proc/{}", self.pid())).exists()
    }

    /// Until when everything that was complete is here.
    pub(crate) fn flushed(&self) -> Option<u64> {
        Some(self.number(header::FLUSHED)).filter(|&time| time > 0)
    }

    /// From when to when launches were counted, where they were; the end is absent where the
    /// process ended before.
    pub(crate) fn counting(&self) -> Option<(u64, Option<u64>)> {
        let [from, to] = [header::COUNTING, header::COUNTED].map(|field| self.number(field));
        (from > 0).then_some((from, Some(to).filter(|&to| to > 0)))
    }

    /// Whether the process has tried to count launches, and cannot.
    pub(crate) fn gave_up_counting(&self) -> bool {
        self.number(header::NOT_COUNTED) > 0
    }

    /// Whether activities are recorded now, as far as the process has said.
    pub(crate) fn is_recorded(&self) -> bool {
        self.number(header::FOLLOWED) == followed::ON
    }

    /// Whether anything was launched while it was counted.
    pub(crate) fn has_counted_work(&self) -> Result<bool, RecordError> {
        let mut has = false;
        Process::open(&self.path)?.definitions(|event| has |= matches!(event, Event::Work { .. }))?;
        Ok(has)
    }

    /// Whether the process does what the switch says, or cannot.
    pub(crate) fn follows(&self, on: bool) -> bool {
        match self.number(header::FOLLOWED) {
            followed::REFUSED => true,
            state => (state == followed::ON) == on,
        }
    }

    /// Records that CUPTI dropped.
    pub(crate) fn dropped(&self) -> u64 {
        self.number(header::DROPPED)
    }

    /// Buffers that CUPTI did not get.
    pub(crate) fn refused(&self) -> u64 {
        self.number(header::REFUSED)
    }

    /// Events that found no room.
    pub(crate) fn unwritten(&self) -> u64 {
        self.number(header::UNWRITTEN)
    }

    /// Chunks, and activity records in them, that were written over.
    pub(crate) fn overwritten(&self) -> (u64, u64) {
        (self.number(header::OVERWRITTEN), self.number(header::OVERWRITTEN_RECORDS))
    }

    /// Everything that is defined: names, mostly.
    pub(crate) fn definitions(&self, mut take: impl FnMut(Event<'_>)) -> Result<(), RecordError> {
        let definitions = |chunk: &&ChunkAt| chunk.kind == chunk::EVENTS && chunk.thread == 0;
        for chunk in self.chunks.iter().filter(definitions) {
            event::decode(&self.read(chunk)?, |_, event| take(event));
        }
        Ok(())
    }

    /// What threads wrote, each in its order: the thread, the time and the event.
    pub(crate) fn events(&self, mut take: impl FnMut(u32, u64, Event<'_>)) -> Result<(), RecordError> {
        let own = |chunk: &&ChunkAt| chunk.kind == chunk::EVENTS && chunk.thread != 0;
        for chunk in self.chunks.iter().filter(own) {
            let thread = u32::try_from(chunk.thread).unwrap_or(u32::MAX);
            event::decode(&self.read(chunk)?, |time, event| take(thread, time, event));
        }
        Ok(())
    }

    /// What CUPTI recorded. Returns what could not be read of it.
    pub(crate) fn activities<E: From<RecordError>>(
        &self,
        strides: &Strides,
        mut take: impl FnMut(Activity) -> Result<(), E>,
    ) -> Result<Unread, E> {
        let mut unread = Unread::default();
        for chunk in self.chunks.iter().filter(|chunk| chunk.kind == chunk::ACTIVITIES) {
            let bytes = self.read(chunk)?;
            let mut at = 0;
            while at + 4 <= bytes.len() {
                let kind = u32_at(&bytes, at);
                // An open buffer ends where CUPTI has not written yet.
                if kind == 0 {
                    break;
                }
                let is_unfinished = kind & UNFINISHED != 0;
                let kind = kind & !UNFINISHED;
                let stride = strides.get(&kind).copied().unwrap_or(0);
                let Some(record) = bytes.get(at..at + stride).filter(|_| stride >= 8) else {
                    unread.bytes += (bytes.len() - at) as u64;
                    break;
                };
                at += stride;
                if is_unfinished {
                    continue;
                }
                match Activity::decode(kind, record) {
                    Some(activity) => take(activity)?,
                    None => unread.records += 1,
                }
            }
        }
        Ok(unread)
    }

    fn read(&self, chunk: &ChunkAt) -> Result<Vec<u8>, RecordError> {
        let room = chunk.length - chunk::HEADER as u64;
        let is_open_buffer = chunk.kind == chunk::ACTIVITIES && chunk.is_open;
        let valid = if is_open_buffer { room } else { chunk.valid.min(room) };
        let mut bytes = vec![0; usize::try_from(valid).unwrap_or(0)];
        let from = chunk.offset + chunk::HEADER as u64;
        self.file.read_exact_at(&mut bytes, from).map_err(RecordError::io(&self.path))?;
        Ok(bytes)
    }
}

/// The chunks of a file, in the order in which they were handed out. A page that begins no chunk,
/// because the process was killed before it said so, is passed over.
fn chunks(file: &File, length: u64) -> std::io::Result<Vec<ChunkAt>> {
    let mut chunks = Vec::new();
    let mut offset = PAGE;
    let mut header = [0; chunk::HEADER];
    while offset + PAGE <= length {
        file.read_exact_at(&mut header, offset)?;
        let mark = u64_at(&header, chunk::MARK_KIND);
        let size = u64_at(&header, chunk::LENGTH);
        let fits = size >= PAGE && size.is_multiple_of(PAGE) && size <= length - offset;
        if mark & !0xff != chunk::MARK || !fits {
            offset += PAGE;
            continue;
        }
        chunks.push(ChunkAt {
            offset,
            length: size,
            kind: header[0],
            sequence: u64_at(&header, chunk::SEQUENCE),
            is_open: u64_at(&header, chunk::STATE) == chunk::OPEN,
            valid: u64_at(&header, chunk::VALID),
            thread: u64_at(&header, chunk::THREAD_OR_RECORDS),
        });
        offset += size;
    }
    chunks.sort_by_key(|chunk| chunk.sequence);
    Ok(chunks)
}

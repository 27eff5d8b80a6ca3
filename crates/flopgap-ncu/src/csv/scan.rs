//! Large reads into one buffer that is reused for the whole file, and the line count.

use std::io::{self, Read};

/// Large enough that a read's fixed cost vanishes, small enough that the bytes are still in the
/// cache when they are parsed.
const CHUNK: usize = 256 * 1024;

/// The longest row that is read. A wide page with every metric and every instance of it stays under
/// 2 MiB.
pub(super) const MAX_ROW: usize = 8 * 1024 * 1024;

/// A window over a file: the bytes from the next unread one on.
#[derive(Debug)]
pub(super) struct Scanner<R> {
    input: R,
    buffer: Vec<u8>,
    start: usize,
    end: usize,
    /// The line of the first unread byte, from 1.
    line: u64,
    ended: bool,
    /// The input broke off (a truncated `.gz`, say) instead of ending.
    broken: Option<io::Error>,
}

impl<R: Read> Scanner<R> {
    pub(super) fn new(input: R) -> Self {
        Scanner { input, buffer: vec![0; CHUNK], start: 0, end: 0, line: 1, ended: false, broken: None }
    }

    /// The unread bytes that are in memory; [`Scanner::fill`] adds more behind them.
    #[inline]
    pub(super) fn bytes(&self) -> &[u8] {
        &self.buffer[self.start..self.end]
    }

    pub(super) fn line(&self) -> u64 {
        self.line
    }

    /// Whether everything unread is already in [`Scanner::bytes`].
    pub(super) fn ended(&self) -> bool {
        self.ended
    }

    /// Why the input broke off, if it did.
    pub(super) fn take_broken(&mut self) -> Option<io::Error> {
        self.broken.take()
    }

    #[inline]
    pub(super) fn consume(&mut self, count: usize, lines: u64) {
        debug_assert!(count <= self.end - self.start);
        self.start += count;
        self.line += lines;
    }

    /// Reads more behind the unread bytes. `false`: there is nothing more, or a row is already
    /// longer than [`MAX_ROW`].
    pub(super) fn fill(&mut self) -> io::Result<bool> {
        if self.ended {
            return Ok(false);
        }
        if self.start > 0 {
            self.buffer.copy_within(self.start..self.end, 0);
            self.end -= self.start;
            self.start = 0;
        }
        if self.end == self.buffer.len() {
            if self.end >= MAX_ROW {
                return Ok(false);
            }
            self.buffer.resize(self.buffer.len() * 2, 0);
        }
        loop {
            match self.input.read(&mut self.buffer[self.end..]) {
                Ok(0) => {
                    self.ended = true;
                    return Ok(false);
                }
                Ok(count) => {
                    self.end += count;
                    return Ok(true);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                // A decoder's way to say that its file was cut off or damaged: what came before is
                // good.
                Err(error)
                    if matches!(error.kind(), io::ErrorKind::UnexpectedEof | io::ErrorKind::InvalidData) =>
                {
                    self.ended = true;
                    self.broken = Some(error);
                    return Ok(false);
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Reads until at least `target` unread bytes are in memory. `false`: there are no more, or
    /// none would fit.
    pub(super) fn fill_to(&mut self, target: usize) -> io::Result<bool> {
        let before = self.end - self.start;
        while self.end - self.start < target {
            if !self.fill()? {
                break;
            }
        }
        Ok(self.end - self.start > before)
    }

    /// The length of the next line without its line feed, and whether it has one. `None` at the end
    /// of the file.
    pub(super) fn find_line(&mut self) -> io::Result<Option<(usize, bool)>> {
        let mut searched = 0;
        loop {
            let bytes = self.bytes();
            if let Some(at) = memchr::memchr(b'\n', &bytes[searched..]) {
                return Ok(Some((searched + at, true)));
            }
            searched = bytes.len();
            if !self.fill()? {
                return Ok((searched > 0).then_some((searched, false)));
            }
        }
    }
}

//! The part of a file that is in memory.

use std::io::{self, Read};

use super::{Cursor, Stop};

/// How much is read at once.
const CHUNK: usize = 1 << 18;
/// No event is larger: the stack of a call has some kilobytes.
const LARGEST: usize = 1 << 26;

/// Where in the file something is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Position {
    /// From 1.
    pub(crate) line: usize,
    /// From 1; 0 at the end of an empty file.
    pub(crate) column: usize,
}

/// Why nothing more can be parsed.
#[derive(Debug)]
pub(crate) enum Fault {
    Io(io::Error),
    /// The file ends within a value.
    End(Position),
    Syntax(Position, &'static str),
}

/// The part of a file that is in memory.
pub(crate) struct Window<R> {
    reader: R,
    buffer: Vec<u8>,
    /// What was consumed, and what was read.
    start: usize,
    end: usize,
    at_end: bool,
    /// Lines that were consumed, and bytes of the last of them.
    lines: usize,
    columns: usize,
}

impl<R: Read> Window<R> {
    pub(crate) fn new(reader: R) -> Window<R> {
        let buffer = vec![0; CHUNK];
        Window { reader, buffer, start: 0, end: 0, at_end: false, lines: 0, columns: 0 }
    }

    /// What `parse` makes of the bytes from here on; they are consumed as far as it went. It is
    /// called again with more of the file as long as what it parses is not complete.
    ///
    /// # Errors
    /// [`Fault`].
    pub(crate) fn parse<T>(
        &mut self,
        mut parse: impl FnMut(&mut Cursor<'_>) -> Result<T, Stop>,
    ) -> Result<T, Fault> {
        loop {
            let mut cursor = Cursor::new(&self.buffer[self.start..self.end], self.at_end);
            match parse(&mut cursor) {
                Ok(value) => {
                    let used = cursor.at();
                    self.consume(used);
                    return Ok(value);
                }
                Err(Stop::Incomplete) if !self.at_end => self.more()?,
                Err(Stop::Incomplete) => return Err(Fault::End(self.position(self.end - self.start))),
                Err(Stop::Syntax(what)) => {
                    let at = cursor.at() + 1;
                    return Err(Fault::Syntax(self.position(at), what));
                }
            }
        }
    }

    fn consume(&mut self, bytes: usize) {
        let used = &self.buffer[self.start..self.start + bytes];
        self.columns = match memchr::memrchr(b'\n', used) {
            Some(last) => {
                self.lines += memchr::memchr_iter(b'\n', used).count();
                bytes - last - 1
            }
            None => self.columns + bytes,
        };
        self.start += bytes;
    }

    /// Reads on.
    fn more(&mut self) -> Result<(), Fault> {
        if self.start > 0 {
            self.buffer.copy_within(self.start..self.end, 0);
            self.end -= self.start;
            self.start = 0;
        }
        if self.end == self.buffer.len() {
            if self.end >= LARGEST {
                return Err(Fault::Syntax(self.position(0), "a value of more than 64 MiB"));
            }
            self.buffer.resize(self.end * 2, 0);
        }
        loop {
            match self.reader.read(&mut self.buffer[self.end..]) {
                Ok(read) => {
                    self.at_end = read == 0;
                    self.end += read;
                    return Ok(());
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(Fault::Io(error)),
            }
        }
    }

    /// The place of the `bytes`th byte from here, from 1.
    fn position(&self, bytes: usize) -> Position {
        let before = &self.buffer[self.start..(self.start + bytes).min(self.end)];
        let lines = memchr::memchr_iter(b'\n', before).count();
        let column = match memchr::memrchr(b'\n', before) {
            Some(last) => bytes - last - 1,
            None => self.columns + bytes,
        };
        Position { line: self.lines + lines + 1, column }
    }
}

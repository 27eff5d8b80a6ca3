//! The framing of a report: `NVR\0`, a length and the file header, then blocks up to the end of the
//! file. A block is a length, its header, and a payload of messages that each follow their own
//! length (all lengths u32, little-endian).

use std::io::{self, BufReader, Read};

use super::FormatFault;
use super::MAGIC;
use super::proto::{BlockHeader, KINDS, Kind, file_version};
use super::wire::{Damage, Message};

/// Why reading stopped.
#[derive(Debug)]
pub(super) enum Stop {
    Io(io::Error),
    Damaged(Damage),
}

impl From<Damage> for Stop {
    fn from(damage: Damage) -> Self {
        Stop::Damaged(damage)
    }
}

impl From<io::Error> for Stop {
    fn from(error: io::Error) -> Self {
        Stop::Io(error)
    }
}

/// The next item in the file.
#[derive(Debug)]
pub(super) enum Item<'a> {
    /// A block begins.
    Block(BlockHeader<'a>),
    /// A result of the block.
    Result(Kind, Message<'a>),
    /// The rest of a block's payload, of a kind that this reader does not know, was skipped.
    Unknown {
        /// Where it begins.
        at: u64,
        /// How long it is.
        bytes: u64,
    },
    /// The file ends where a block may end.
    End,
}

/// Reads a report frame by frame, holding one message at a time.
#[derive(Debug)]
pub(super) struct Blocks<R> {
    input: BufReader<R>,
    version: u32,
    offset: u64,
    /// The message or header read last.
    buffer: Vec<u8>,
    /// Sources that the current block still holds; they are skipped.
    sources: u32,
    /// Results that the current block still holds, in the order of [`KINDS`].
    results: [u32; KINDS.len()],
    graphs: u32,
    /// Where the current block's payload ends.
    end: u64,
    /// A block was met.
    begun: bool,
}

impl<R: Read> Blocks<R> {
    /// Reads the magic and the file header.
    pub(super) fn new(input: R) -> Result<Self, Stop> {
        let mut blocks = Blocks {
            input: BufReader::with_capacity(1 << 16, input),
            version: 0,
            offset: 0,
            buffer: Vec::new(),
            sources: 0,
            results: [0; KINDS.len()],
            graphs: 0,
            end: 0,
            begun: false,
        };
        blocks.fill(MAGIC.len() as u64, "the file's magic bytes")?;
        if blocks.buffer != MAGIC {
            return Err(Damage::new(0, FormatFault::NoMagic).into());
        }
        let length = blocks.length("the file header")?;
        blocks.fill(length, "the file header")?;
        blocks.version = file_version(blocks.message())?;
        blocks.end = blocks.offset;
        Ok(blocks)
    }

    /// The file's version.
    pub(super) fn version(&self) -> u32 {
        self.version
    }

    /// Reads up to the next block or result. After an error nothing more can be read.
    pub(super) fn next_item(&mut self) -> Result<Item<'_>, Stop> {
        while self.sources > 0 {
            self.sources -= 1;
            let length = self.payload_length()?;
            self.skip(length, "a kernel's code")?;
        }
        if let Some(index) = self.results.iter().position(|&left| left > 0) {
            self.results[index] -= 1;
            let length = self.payload_length()?;
            self.fill(length, "a result")?;
            return Ok(Item::Result(KINDS[index], self.message()));
        }
        if self.offset < self.end {
            let (at, bytes) = (self.offset, self.end - self.offset);
            self.skip(bytes, "a block's payload")?;
            if self.graphs == 0 {
                return Ok(Item::Unknown { at, bytes });
            }
        }
        let Some(length) = self.length_or_end("a block header")? else {
            if self.begun {
                return Ok(Item::End);
            }
            // ncu writes no report where it profiled nothing.
            return Err(Damage::new(self.offset, FormatFault::NoResults).into());
        };
        self.begun = true;
        self.fill(length, "a block header")?;
        let at = self.offset - length;
        let header = BlockHeader::parse(Message { at, bytes: &self.buffer })?;
        self.sources = header.sources;
        self.results = header.results;
        self.graphs = header.graphs;
        self.end = self.offset + u64::from(header.payload);
        Ok(Item::Block(header))
    }

    fn message(&self) -> Message<'_> {
        Message { at: self.offset - self.buffer.len() as u64, bytes: &self.buffer }
    }

    /// A length prefix inside the payload, checked against what the block header promised.
    fn payload_length(&mut self) -> Result<u64, Stop> {
        let at = self.offset;
        if self.end - at < 4 {
            return Err(Damage::new(at, FormatFault::BlockEnds).into());
        }
        let length = self.length("a message")?;
        let left = self.end - self.offset;
        if length > left {
            return Err(Damage::new(at, FormatFault::MessageTooLong { length, left }).into());
        }
        Ok(length)
    }

    fn length(&mut self, part: &'static str) -> Result<u64, Stop> {
        let at = self.offset;
        self.length_or_end(part)?.ok_or_else(|| Damage::new(at, FormatFault::EndsBefore { part }).into())
    }

    /// The length of what comes next; `None` if the file ends exactly here.
    fn length_or_end(&mut self, part: &'static str) -> Result<Option<u64>, Stop> {
        self.buffer.clear();
        let read = (&mut self.input).take(4).read_to_end(&mut self.buffer);
        if self.buffer.is_empty() && read.is_ok() {
            return Ok(None);
        }
        self.arrived(self.buffer.len() as u64, read.map(drop), 4, part)?;
        Ok(self.buffer.first_chunk().map(|&length| u32::from_le_bytes(length).into()))
    }

    /// Reads `length` bytes into the buffer, which grows as they come and not because `length` says
    /// so.
    fn fill(&mut self, length: u64, what: &'static str) -> Result<(), Stop> {
        self.buffer.clear();
        let read = (&mut self.input).take(length).read_to_end(&mut self.buffer);
        self.arrived(self.buffer.len() as u64, read.map(|_| ()), length, what)
    }

    fn skip(&mut self, length: u64, what: &'static str) -> Result<(), Stop> {
        let mut counted = Counted(0);
        let read = io::copy(&mut (&mut self.input).take(length), &mut counted);
        self.arrived(counted.0, read.map(|_| ()), length, what)
    }

    /// Accounts for `found` of `expected` bytes, whether the input ended, failed or gave them all.
    fn arrived(
        &mut self,
        found: u64,
        read: io::Result<()>,
        expected: u64,
        part: &'static str,
    ) -> Result<(), Stop> {
        self.offset += found;
        match read {
            // A decompressor under this reader reports a file that was cut short in this way.
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {}
            Err(error) => return Err(error.into()),
            Ok(()) if found == expected => return Ok(()),
            Ok(()) => {}
        }
        Err(Damage::new(self.offset, FormatFault::EndsWithin { part, found, expected }).into())
    }
}

/// Counts what is written and drops it.
struct Counted(u64);

impl io::Write for Counted {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 += bytes.len() as u64;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A length is a claim: nothing is set aside for it before the bytes are there.
    #[test]
    fn a_claimed_length_allocates_nothing() {
        let header = [&b"NVR\0"[..], &[0xff; 4], &[8, 7]].concat();
        let mut blocks = Blocks { end: 0, ..Blocks::new(&b"NVR\0\x02\0\0\0\x08\x07"[..]).unwrap() };
        assert!(matches!(Blocks::new(&header[..]), Err(Stop::Damaged(Damage { at: 10, .. }))));
        blocks.input = BufReader::new(&[0xff, 0xff, 0xff, 0xff, 1, 2, 3][..]);
        assert!(matches!(blocks.next_item(), Err(Stop::Damaged(Damage { at: 17, .. }))));
        assert!(blocks.buffer.capacity() <= 64, "{}", blocks.buffer.capacity());
    }

    /// A message cannot reach over the end of its block into the next.
    #[test]
    fn messages_stay_in_their_block() {
        // One result, six bytes of payload, and a message that claims three.
        let file = b"NVR\0\x02\0\0\0\x08\x07\x04\0\0\0\x10\x01\x28\x06\x03\0\0\0abc";
        let mut blocks = Blocks::new(&file[..]).unwrap();
        assert!(matches!(blocks.next_item(), Ok(Item::Block(_))));
        let Err(Stop::Damaged(damage)) = blocks.next_item() else { panic!("the message does not fit") };
        assert_eq!((damage.at, damage.fault), (18, FormatFault::MessageTooLong { length: 3, left: 2 }));
    }
}

//! From the bytes of a file to plain text or a plain binary report: compression and text encodings
//! are recognized by content.

use std::io::{self, Cursor, Read};
use std::path::Path;

use encoding_rs::{Encoding, UTF_16BE, UTF_16LE};
use flopgap_files::unpack::{Compression, Meter};

use crate::error::{Error, Fault, Found};
use crate::rep;

/// What the decoded bytes are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Content {
    /// An `.ncu-rep`.
    Report,
    /// UTF-8 text without a byte order mark (not validated).
    Text,
}

/// Any input, boxed once per file; all reads behind it are large.
pub(crate) type Input = Box<dyn Read + Send>;

/// Compressed files may hold compressed files (`report.csv.gz.zst`), but not without end.
const MAX_LAYERS: usize = 3;

/// Recognizes what `input` holds and unwraps it.
pub(crate) fn open(input: Input, path: &Path) -> Result<(Content, Input), Error> {
    let io_error = |source| Error::new(path, Fault::Io { source });
    let meter = Meter::default();
    let mut input: Input = Box::new(meter.packed(input));
    for _ in 0..MAX_LAYERS {
        let (head, rest) = peek(input).map_err(io_error)?;
        input = rest;
        if let Some(compression) = Compression::of(&head) {
            input = Box::new(meter.unpack(compression, input).map_err(io_error)?);
            continue;
        }
        match head.as_slice() {
            head if head.starts_with(rep::MAGIC) => return Ok((Content::Report, input)),
            [0xef, 0xbb, 0xbf, ..] => {
                skip(&mut input, 3).map_err(io_error)?;
                return Ok((Content::Text, input));
            }
            // PowerShell's `>` writes UTF-16 with a byte order mark; some editors leave the mark
            // out.
            [0xff, 0xfe, ..] | [b'!'..=b'~', 0, b'!'..=b'~', 0, ..] => {
                return Ok((Content::Text, Box::new(Utf16::new(input, UTF_16LE))));
            }
            [0xfe, 0xff, ..] | [0, b'!'..=b'~', 0, b'!'..=b'~', ..] => {
                return Ok((Content::Text, Box::new(Utf16::new(input, UTF_16BE))));
            }
            _ => return Ok((Content::Text, input)),
        }
    }
    Err(Error::new(path, Fault::NotAReport { found: Found::Nested }))
}

/// The first bytes of `input`, and an input that still begins with them.
fn peek(mut input: Input) -> io::Result<(Vec<u8>, Input)> {
    let mut head = Vec::with_capacity(8);
    input.by_ref().take(8).read_to_end(&mut head)?;
    let rest: Input = Box::new(Cursor::new(head.clone()).chain(input));
    Ok((head, rest))
}

fn skip(input: &mut Input, count: usize) -> io::Result<()> {
    let mut sink = [0; 8];
    input.read_exact(&mut sink[..count])
}

/// Reads UTF-16 as UTF-8; unpaired surrogates become U+FFFD.
struct Utf16 {
    input: Input,
    decoder: encoding_rs::Decoder,
    raw: Box<[u8]>,
    raw_range: std::ops::Range<usize>,
    text: Box<[u8]>,
    text_range: std::ops::Range<usize>,
    ended: bool,
    flushed: bool,
}

impl Utf16 {
    fn new(input: Input, encoding: &'static Encoding) -> Self {
        const CHUNK: usize = 64 * 1024;
        Utf16 {
            input,
            decoder: encoding.new_decoder_with_bom_removal(),
            raw: vec![0; CHUNK].into_boxed_slice(),
            raw_range: 0..0,
            text: vec![0; 2 * CHUNK].into_boxed_slice(),
            text_range: 0..0,
            ended: false,
            flushed: false,
        }
    }
}

impl Read for Utf16 {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        while self.text_range.is_empty() && !self.flushed {
            if self.raw_range.is_empty() && !self.ended {
                let count = self.input.read(&mut self.raw)?;
                self.raw_range = 0..count;
                self.ended = count == 0;
            }
            let (_, used, written, _) =
                self.decoder.decode_to_utf8(&self.raw[self.raw_range.clone()], &mut self.text, self.ended);
            self.raw_range.start += used;
            self.text_range = 0..written;
            // The last call consumes nothing but may write the replacement of a half character.
            self.flushed = self.ended && self.raw_range.is_empty() && written == 0;
            if self.ended && self.raw_range.is_empty() {
                self.flushed = true;
            }
        }
        let count = out.len().min(self.text_range.len());
        out[..count].copy_from_slice(&self.text[self.text_range.start..self.text_range.start + count]);
        self.text_range.start += count;
        Ok(count)
    }
}

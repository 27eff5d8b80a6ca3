//! From the bytes of a file to plain text or a plain binary report: compression and text encodings
//! are recognized by content.

use std::io::{self, Cursor, Read};
use std::path::Path;

use flopgap_files::unpack::{Compression, Meter};

use crate::error::{Error, Fault, Found};
use crate::rep;
use crate::utf16::{Order, Utf16};

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
                return Ok((Content::Text, Box::new(Utf16::new(input, Order::Little))));
            }
            [0xfe, 0xff, ..] | [0, b'!'..=b'~', 0, b'!'..=b'~', ..] => {
                return Ok((Content::Text, Box::new(Utf16::new(input, Order::Big))));
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

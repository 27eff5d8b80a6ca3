//! Files compressed with gzip or Zstandard, recognized by their first bytes and read with a bound:
//! a small file may unpack to terabytes of zeros, which nobody recorded.
//!
//! ```
//! use std::io::{self, Read as _};
//!
//! use flopgap_files::unpack::{Compression, Meter};
//!
//! fn text(file: &[u8]) -> io::Result<String> {
//!     let Some(compression) = Compression::of(file) else { return Err(io::ErrorKind::InvalidData.into()) };
//!     let meter = Meter::default();
//!     let mut text = String::new();
//!     meter.unpack(compression, meter.packed(file))?.read_to_string(&mut text)?;
//!     Ok(text)
//! }
//!
//! let hello = [
//!     0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3, 0xcb, 0x48, 0xcd, 0xc9, 0xc9, 7, 0, 0x86, 0xa6, 0x10, 0x36, 5, 0, 0,
//!     0,
//! ];
//! assert_eq!(text(&hello).unwrap(), "hello");
//! ```
//!
//! What is read may be as large as the larger of two limits: [`FREE`] (256 MiB), whatever the
//! file's size, and [`RATIO`] (500) times the bytes of the file read so far. The recordings of the
//! repository have ratios of 5 to 150. Beyond that, a read fails with
//! [`io::ErrorKind::FileTooLarge`] and a [`TooLarge`] that says how much it was. Several layers
//! (`report.csv.gz.zst`) share one meter, so they do not multiply. [`HINT`] says what a user can
//! do: unpack a file that is trusted, and give what comes out.
//!
//! Memory is constant: at most a window of Zstandard (128 MiB, where a file asks for it).

use std::error::Error;
use std::fmt;
use std::io::{self, BufReader, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Bytes that any file may unpack to.
pub const FREE: u64 = 256 << 20;

/// How many times its size a file may unpack to, beyond [`FREE`].
pub const RATIO: u64 = 500;

/// What to do about a file that is [`TooLarge`].
pub const HINT: &str = "no recording is known to be compressed so far; if you trust the file, decompress it yourself and pass the result";

/// How a file is compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compression {
    /// Any number of members, one after the other.
    Gzip,
    /// Any number of frames, one after the other.
    Zstd,
}

impl Compression {
    /// The compression of a file that begins so; none when it is neither.
    pub fn of(head: &[u8]) -> Option<Compression> {
        match head {
            [0x1f, 0x8b, ..] => Some(Compression::Gzip),
            [0x28, 0xb5, 0x2f, 0xfd, ..] => Some(Compression::Zstd),
            _ => None,
        }
    }
}

/// A file unpacks to more than its size explains: the source of an [`io::Error`] of the kind
/// [`FileTooLarge`](io::ErrorKind::FileTooLarge).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TooLarge {
    /// Bytes of the file that had been read.
    pub packed: u64,
    /// Bytes that they may unpack to.
    pub limit: u64,
}

impl fmt::Display for TooLarge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let TooLarge { packed, limit } = self;
        write!(f, "the first {packed} compressed bytes unpack to more than {limit} bytes")
    }
}

impl Error for TooLarge {}

/// Counts the bytes of one file, by which the layers of its compression are bounded.
#[derive(Clone, Debug, Default)]
pub struct Meter {
    packed: Arc<AtomicU64>,
}

impl Meter {
    /// The file itself: what is read of it is counted.
    pub fn packed<R: Read>(&self, file: R) -> Packed<R> {
        Packed { file, read: Arc::clone(&self.packed) }
    }

    /// What `packed` unpacks to: the file of [`Meter::packed`], or what another layer unpacked it
    /// to.
    ///
    /// # Errors
    /// When the decompressor cannot be made.
    pub fn unpack<R: Read>(&self, compression: Compression, packed: R) -> io::Result<Unpacking<R>> {
        let packed = BufReader::with_capacity(1 << 17, packed);
        let decoder = match compression {
            Compression::Gzip => Decoder::Gzip(Box::new(flate2::bufread::MultiGzDecoder::new(packed))),
            Compression::Zstd => Decoder::Zstd(zstd::Decoder::with_buffer(packed)?),
        };
        Ok(Unpacking { decoder, packed: Arc::clone(&self.packed), given: 0 })
    }
}

/// A file of which the bytes that are read are counted.
#[derive(Debug)]
pub struct Packed<R> {
    file: R,
    read: Arc<AtomicU64>,
}

impl<R: Read> Read for Packed<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let count = self.file.read(into)?;
        self.read.fetch_add(count as u64, Ordering::Relaxed);
        Ok(count)
    }
}

/// The content of a compressed file. A read fails when it gets larger than the file explains.
pub struct Unpacking<R: Read> {
    decoder: Decoder<R>,
    packed: Arc<AtomicU64>,
    given: u64,
}

enum Decoder<R: Read> {
    Gzip(Box<flate2::bufread::MultiGzDecoder<BufReader<R>>>),
    Zstd(zstd::Decoder<'static, BufReader<R>>),
}

impl<R: Read> fmt::Debug for Unpacking<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Unpacking")
            .field("packed", &self.packed)
            .field("given", &self.given)
            .finish_non_exhaustive()
    }
}

impl<R: Read> Read for Unpacking<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let count = match &mut self.decoder {
            Decoder::Gzip(decoder) => decoder.read(into)?,
            Decoder::Zstd(decoder) => decoder.read(into)?,
        };
        self.given = self.given.saturating_add(count as u64);
        if self.given > FREE {
            let packed = self.packed.load(Ordering::Relaxed);
            let limit = packed.saturating_mul(RATIO).max(FREE);
            if self.given > limit {
                return Err(io::Error::new(io::ErrorKind::FileTooLarge, TooLarge { packed, limit }));
            }
        }
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn gzip(content: impl Read) -> Vec<u8> {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
        io::copy(&mut { content }, &mut encoder).unwrap();
        encoder.finish().unwrap()
    }

    fn zstd(content: impl Read) -> Vec<u8> {
        ::zstd::encode_all(content, 3).unwrap()
    }

    fn zeros(count: u64) -> impl Read {
        io::repeat(0).take(count)
    }

    fn unpack(packed: &[u8]) -> io::Result<u64> {
        let meter = Meter::default();
        let compression = Compression::of(packed).unwrap();
        io::copy(&mut meter.unpack(compression, meter.packed(packed))?, &mut io::sink())
    }

    #[track_caller]
    fn is_too_large(result: io::Result<u64>, of: usize) {
        let error = result.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::FileTooLarge);
        let too_large = *error.get_ref().unwrap().downcast_ref::<TooLarge>().unwrap();
        assert!(too_large.packed <= of as u64 && too_large.limit >= FREE, "{too_large:?}");
    }

    #[test]
    fn what_no_file_of_its_size_holds_is_refused() {
        // A frame that says that it is large, and many that are not: both are bombs.
        let frame = zstd(zeros(16 << 20));
        let many = frame.repeat(20);
        assert!(many.len() < 100_000, "{}", many.len());
        is_too_large(unpack(&many), many.len());
        let member = gzip(zeros(16 << 20));
        let many = member.repeat(20);
        is_too_large(unpack(&many), many.len());
    }

    #[test]
    fn up_to_the_limit_all_is_read() {
        let packed = zstd(zeros(16 << 20)).repeat(16);
        assert_eq!(unpack(&packed).unwrap(), FREE);
    }

    #[test]
    fn layers_do_not_multiply() {
        let inner = zstd(zeros(16 << 20)).repeat(64);
        let packed = gzip(&inner[..]);
        let meter = Meter::default();
        let outer = meter.unpack(Compression::Gzip, meter.packed(&packed[..])).unwrap();
        let mut inner = meter.unpack(Compression::Zstd, outer).unwrap();
        is_too_large(io::copy(&mut inner, &mut io::sink()), packed.len());
    }

    #[test]
    fn neither_kind_is_none() {
        assert_eq!(Compression::of(b"PK\x03\x04"), None);
        assert_eq!(Compression::of(b"\x1f"), None);
    }

    proptest! {
        #[test]
        fn what_was_packed_comes_out(content in proptest::collection::vec(any::<u8>(), 0..2000), again: bool) {
            for packed in [gzip(&content[..]), zstd(&content[..])] {
                let packed = if again { packed.repeat(2) } else { packed };
                let meter = Meter::default();
                let mut read = Vec::new();
                let compression = Compression::of(&packed).unwrap();
                meter.unpack(compression, meter.packed(&packed[..])).unwrap().read_to_end(&mut read).unwrap();
                prop_assert_eq!(&read, &if again { content.repeat(2) } else { content.clone() });
            }
        }

        #[test]
        fn damaged_bytes_end(mut content in proptest::collection::vec(any::<u8>(), 4..400)) {
            content[..2].copy_from_slice(&[0x1f, 0x8b]);
            let _ = unpack(&content);
            content[..4].copy_from_slice(&[0x28, 0xb5, 0x2f, 0xfd]);
            let _ = unpack(&content);
        }
    }
}

//! Compressed databases. `SQLite` needs random access, so they are unpacked into a temporary file
//! that is deleted with its last reader.

use std::fs::File;
use std::io::{self, BufReader, Read, Write as _};
use std::path::{Path, PathBuf};

use tempfile::TempDir;

/// Magic bytes of compressed files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Compression {
    Gzip,
    Zstd,
}

impl Compression {
    /// The compression that these first bytes indicate.
    pub(crate) fn of(head: &[u8]) -> Option<Compression> {
        match head {
            [0x1f, 0x8b, ..] => Some(Compression::Gzip),
            [0x28, 0xb5, 0x2f, 0xfd, ..] => Some(Compression::Zstd),
            _ => None,
        }
    }

    /// The content of a compressed file.
    pub(crate) fn reader<'a>(self, file: impl Read + 'a) -> io::Result<Box<dyn Read + 'a>> {
        let file = BufReader::with_capacity(1 << 17, file);
        Ok(match self {
            Compression::Gzip => Box::new(flate2::bufread::MultiGzDecoder::new(file)),
            Compression::Zstd => Box::new(zstd::Decoder::with_buffer(file)?),
        })
    }
}

/// A file in a temporary directory that is deleted when this is dropped.
#[derive(Debug)]
pub(crate) struct Unpacked {
    _folder: TempDir,
    pub(crate) path: PathBuf,
}

impl Unpacked {
    /// Unpacks a file. The copy keeps the name without its compression suffix, for use in messages.
    pub(crate) fn new(path: &Path, compression: Compression) -> io::Result<Unpacked> {
        let folder = tempfile::Builder::new().prefix("flopgap-").tempdir()?;
        let unpacked = folder.path().join(path.file_stem().unwrap_or(path.as_os_str()));
        let mut file = File::create(&unpacked)?;
        io::copy(&mut compression.reader(File::open(path)?)?, &mut file)?;
        file.flush()?;
        Ok(Unpacked { _folder: folder, path: unpacked })
    }
}

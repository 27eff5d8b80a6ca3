//! Compressed databases. `SQLite` needs random access, so they are unpacked into a temporary file
//! that is deleted with its last reader.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

pub(crate) use flopgap_unpack::Compression;
use flopgap_unpack::Meter;
use tempfile::TempDir;

/// The content of a compressed file.
pub(crate) fn reader(path: &Path, compression: Compression) -> io::Result<impl Read> {
    let meter = Meter::default();
    meter.unpack(compression, meter.packed(File::open(path)?))
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
        let mut content = reader(path, compression)?;
        let elsewhere = |error: io::Error| {
            let place = std::env::temp_dir();
            io::Error::new(error.kind(), format!("it cannot be unpacked in {}: {error}", place.display()))
        };
        let folder = tempfile::Builder::new().prefix("flopgap-").tempdir().map_err(elsewhere)?;
        let unpacked = folder.path().join(path.file_stem().unwrap_or(OsStr::new("unpacked")));
        let mut file = Written { file: File::create_new(&unpacked).map_err(elsewhere)?, failed: false };
        if let Err(error) = io::copy(&mut content, &mut file) {
            return Err(if file.failed { elsewhere(error) } else { error });
        }
        Ok(Unpacked { _folder: folder, path: unpacked })
    }
}

/// A file of which it is known whether it was at fault when a copy failed.
struct Written {
    file: File,
    failed: bool,
}

impl Write for Written {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes).inspect_err(|_| self.failed = true)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush().inspect_err(|_| self.failed = true)
    }
}

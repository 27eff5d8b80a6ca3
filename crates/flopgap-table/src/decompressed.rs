//! Compressed databases. `SQLite` needs random access, so they are unpacked into a temporary file
//! that is deleted with its last reader.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

pub(crate) use flopgap_files::unpack::Compression;
use flopgap_files::unpack::Meter;
use tempfile::TempDir;

use crate::Error;

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
    pub(crate) fn new(path: &Path, compression: Compression) -> Result<Unpacked, Error> {
        let unpack = || -> io::Result<Unpacked> {
            let folder = tempfile::Builder::new().prefix("flopgap-").tempdir()?;
            let unpacked = folder.path().join(path.file_stem().unwrap_or(OsStr::new("unpacked")));
            io::copy(&mut reader(path, compression)?, &mut File::create_new(&unpacked)?)?;
            Ok(Unpacked { _folder: folder, path: unpacked })
        };
        unpack().map_err(|reason| Error::Unpack { path: path.to_owned(), reason })
    }
}

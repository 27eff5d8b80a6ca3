//! Compressed exports. `SQLite` needs random access, so they are unpacked into a temporary
//! directory.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use flopgap_files::unpack::{Compression, Meter, Unpacking};
use tempfile::TempDir;

/// How an `SQLite` file begins.
const DATABASE: &[u8] = b"SQLite format 3\0";

/// An export that was unpacked; deleted when this is dropped.
pub(crate) struct Unpacked {
    _folder: TempDir,
    /// The file it was unpacked from.
    pub(crate) packed: PathBuf,
    /// The export. It keeps its name without the suffix of the compression, since reports show it.
    pub(crate) export: PathBuf,
}

/// How an export is compressed; `None` for every other file.
fn compression_of_export(path: &Path) -> io::Result<Option<Compression>> {
    if !path.is_file() {
        return Ok(None);
    }
    let Some(compression) = Compression::of(&beginning(File::open(path)?)?) else { return Ok(None) };
    Ok((beginning(content(path, compression)?)? == DATABASE).then_some(compression))
}

/// Unpacks an export that is compressed with gzip or Zstandard; `None` for every other file.
pub(crate) fn unpack(packed: &Path) -> io::Result<Option<Unpacked>> {
    let Some(compression) = compression_of_export(packed)? else { return Ok(None) };
    let folder = tempfile::Builder::new().prefix("flopgap-").tempdir()?;
    let export = folder.path().join(packed.file_stem().unwrap_or(packed.as_os_str()));
    io::copy(&mut content(packed, compression)?, &mut File::create_new(&export)?)?;
    Ok(Some(Unpacked { _folder: folder, packed: packed.to_owned(), export }))
}

fn content(path: &Path, compression: Compression) -> io::Result<Unpacking<impl Read + use<>>> {
    let meter = Meter::default();
    meter.unpack(compression, meter.packed(File::open(path)?))
}

fn beginning(file: impl Read) -> io::Result<Vec<u8>> {
    let mut beginning = Vec::with_capacity(DATABASE.len());
    file.take(DATABASE.len() as u64).read_to_end(&mut beginning)?;
    Ok(beginning)
}

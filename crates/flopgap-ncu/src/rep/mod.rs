//! The binary report, `.ncu-rep`, and its zstd form, `.ncu-repz`.

use std::io::Read;
use std::path::PathBuf;

use crate::error::Error;
use crate::model::Launch;
use crate::source::{Context, Source};

/// The bytes that every `.ncu-rep` begins with.
pub(crate) const MAGIC: &[u8; 4] = b"NVR\0";

/// Reads a `.ncu-rep` block by block.
pub(crate) struct RepSource<R> {
    _input: R,
    _path: PathBuf,
}

impl<R: Read> RepSource<R> {
    /// `input` stands at the first byte of the file, the magic included, already decompressed.
    pub(crate) fn new(input: R, path: PathBuf) -> Result<Self, Error> {
        Ok(RepSource { _input: input, _path: path })
    }
}

impl<R: Read> Source for RepSource<R> {
    fn next_launch(&mut self, _context: &mut Context, _launch: &mut Launch) -> Result<bool, Error> {
        Ok(false)
    }
}

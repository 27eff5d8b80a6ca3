//! Checksums within a file: its columns are verified before they are decoded.
//!
//! The decoders of the `parquet` crate trust pages: some damage makes them panic, other damage
//! gives other values. So the footer has an entry `flopgap.crc32`: CRC-32 in eight hexadecimal
//! digits each, first of the footer itself with zeros in the place of these digits, then of the
//! bytes of every column chunk, row group by row group.

use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use bytes::buf::{Buf as _, Reader};
use parquet::errors::{ParquetError, Result};
use parquet::file::metadata::{ColumnChunkMetaData, KeyValue, ParquetMetaData, RowGroupMetaData};
use parquet::file::reader::{ChunkReader, Length};

/// The name of the entry.
const KEY: &str = "flopgap.crc32";
/// Hexadecimal digits of a checksum.
const DIGITS: usize = 8;
/// The length of the footer, and `PAR1`.
const TAIL: usize = 8;

/// The entry of a file with so many column chunks, without its checksums.
pub(super) fn placeholder(chunks: usize) -> KeyValue {
    KeyValue::new(KEY.to_owned(), "0".repeat((chunks + 1) * DIGITS))
}

/// Fills in the checksums of a file that was just written.
pub(super) fn seal(mut file: &File, metadata: &ParquetMetaData) -> io::Result<()> {
    let mut digits = String::new();
    let mut bytes = Vec::new();
    for (start, length) in ranges(metadata) {
        file.seek(SeekFrom::Start(start))?;
        bytes.clear();
        file.take(length).read_to_end(&mut bytes)?;
        digits += &hexadecimal(&bytes);
    }
    let (start, mut footer) = footer(file)?.ok_or(io::ErrorKind::InvalidData)?;
    let entry = entry(&footer).ok_or(io::ErrorKind::InvalidData)?;
    footer[entry.start + DIGITS..entry.end].copy_from_slice(digits.as_bytes());
    let own = hexadecimal(&footer);
    footer[entry.start..entry.start + DIGITS].copy_from_slice(own.as_bytes());
    file.seek(SeekFrom::Start(start + entry.start as u64))?;
    file.write_all(&footer[entry])?;
    Ok(())
}

/// The checksums of the column chunks, as the footer has them; none in a file without. An error if
/// the footer is damaged.
pub(super) fn verified(file: &File) -> io::Result<Option<Vec<u32>>> {
    let Some((_, mut footer)) = footer(file)? else { return Ok(None) };
    let Some(entry) = entry(&footer) else { return Ok(None) };
    let damaged = || io::Error::new(io::ErrorKind::InvalidData, "the checksum of its metadata differs");
    let digits = String::from_utf8(footer[entry.clone()].to_vec()).map_err(|_| damaged())?;
    let (own, chunks) = digits.split_at_checked(DIGITS).ok_or_else(damaged)?;
    footer[entry.start..entry.start + DIGITS].fill(b'0');
    if hexadecimal(&footer) != own {
        return Err(damaged());
    }
    let sums =
        chunks.as_bytes().chunks(DIGITS).map(|sum| u32::from_str_radix(str::from_utf8(sum).ok()?, 16).ok());
    sums.collect::<Option<Vec<u32>>>().map(Some).ok_or_else(damaged)
}

fn hexadecimal(bytes: &[u8]) -> String {
    format!("{:08x}", crc32fast::hash(bytes))
}

/// Where the footer begins, and its bytes; none if the file has no room for it.
fn footer(mut file: &File) -> io::Result<Option<(u64, Vec<u8>)>> {
    let Some(end) = file.metadata()?.len().checked_sub(TAIL as u64) else { return Ok(None) };
    let mut tail = [0; TAIL];
    file.seek(SeekFrom::Start(end))?;
    file.read_exact(&mut tail)?;
    let [a, b, c, d, ..] = tail;
    let length = u32::from_le_bytes([a, b, c, d]);
    let Some(start) = end.checked_sub(length.into()) else { return Ok(None) };
    file.seek(SeekFrom::Start(start))?;
    let mut footer = Vec::new();
    file.take(length.into()).read_to_end(&mut footer)?;
    Ok(Some((start, footer)))
}

/// Where the digits are in a footer. Thrift's compact protocol has the name, the type of the next
/// field (0x18: bytes), the length of the value in groups of seven bits, and the value.
fn entry(footer: &[u8]) -> Option<Range<usize>> {
    let name = footer.windows(KEY.len()).rposition(|window| window == KEY.as_bytes())?;
    let mut at = name + KEY.len();
    if footer.get(at) != Some(&0x18) {
        return None;
    }
    let (mut length, mut shift) = (0_usize, 0);
    loop {
        at += 1;
        let byte = *footer.get(at)?;
        length |= usize::from(byte & 0x7f).checked_shl(shift)?;
        shift += 7;
        if byte & 0x80 == 0 {
            break;
        }
    }
    let start = at + 1;
    let end = start.checked_add(length)?;
    (length >= DIGITS && length % DIGITS == 0 && end <= footer.len()).then_some(start..end)
}

/// The first byte and the length of every column chunk, row group by row group.
fn ranges(metadata: &ParquetMetaData) -> Vec<(u64, u64)> {
    metadata
        .row_groups()
        .iter()
        .flat_map(RowGroupMetaData::columns)
        .map(ColumnChunkMetaData::byte_range)
        .collect()
}

/// A file whose column chunks are verified when they are first read.
pub(super) struct Verified {
    file: File,
    length: u64,
    metadata: Arc<ParquetMetaData>,
    ranges: Vec<(u64, u64)>,
    sums: Arc<[u32]>,
    /// The chunk of each column that was read last.
    held: Mutex<Vec<Option<(usize, Bytes)>>>,
}

impl Verified {
    pub(super) fn new(file: File, metadata: Arc<ParquetMetaData>, sums: Arc<[u32]>) -> Result<Verified> {
        let length = file.metadata()?.len();
        let ranges = ranges(&metadata);
        if ranges.len() != sums.len() {
            return Err(ParquetError::General("it has not one checksum for each column".to_owned()));
        }
        let held = Mutex::new(vec![None; columns(&metadata)]);
        Ok(Verified { file, length, metadata, ranges, sums, held })
    }

    /// Bytes from here to the end of a chunk.
    fn rest(&self, start: u64) -> Result<Bytes> {
        let is_in = |&(from, length): &(u64, u64)| start >= from && start - from < length;
        let chunk = self.ranges.iter().position(is_in).ok_or_else(outside)?;
        let column = chunk % columns(&self.metadata);
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        let bytes = match &held[column] {
            Some((known, bytes)) if *known == chunk => bytes.clone(),
            _ => {
                // What is not needed any more goes first.
                held[column] = None;
                let (from, length) = self.ranges[chunk];
                let length = usize::try_from(length).map_err(|_| outside())?;
                let bytes = self.file.get_bytes(from, length)?;
                if crc32fast::hash(&bytes) != self.sums[chunk] {
                    let group = chunk / columns(&self.metadata);
                    let column = self.metadata.row_group(group).column(column).column_path();
                    return Err(ParquetError::General(format!(
                        "the checksum of its column {column} differs"
                    )));
                }
                held[column] = Some((chunk, bytes.clone()));
                bytes
            }
        };
        drop(held);
        let at = usize::try_from(start - self.ranges[chunk].0).map_err(|_| outside())?;
        Ok(bytes.slice(at..))
    }
}

fn columns(metadata: &ParquetMetaData) -> usize {
    metadata.file_metadata().schema_descr().num_columns().max(1)
}

fn outside() -> ParquetError {
    ParquetError::General("a page lies outside of its column".to_owned())
}

impl Length for Verified {
    fn len(&self) -> u64 {
        self.length
    }
}

impl ChunkReader for Verified {
    type T = Reader<Bytes>;

    fn get_read(&self, start: u64) -> Result<Reader<Bytes>> {
        Ok(self.rest(start)?.reader())
    }

    fn get_bytes(&self, start: u64, length: usize) -> Result<Bytes> {
        let rest = self.rest(start)?;
        (length <= rest.len()).then(|| rest.slice(..length)).ok_or_else(outside)
    }
}

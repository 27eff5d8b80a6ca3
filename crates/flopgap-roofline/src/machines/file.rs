//! The file of a machine: a header in JSON, then the sizes and times of each table, column by
//! column, so that Zstandard finds what repeats (`docs/FORMATS.md`).

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::io::{self, Read as _};

use flopgap_files::Hint;
use flopgap_files::unpack::{Compression, Meter};
use serde::{Deserialize, Serialize};

use super::class::{Class, sizes};
use super::table::{Judged, Row, Table, Tails, field, value};
use super::{Machine, Peaks, Transfer};
use crate::floor::Floor;

/// The first bytes: name and version of the format.
const MAGIC: &[u8] = b"flopgap-machine 1\n";
/// Steps of the logarithm of time over floor: times are kept within 0.8 %.
const STEPS: f64 = 64.0;

/// A machine's file that cannot be read.
#[derive(Debug, thiserror::Error)]
#[error("{name}: {what}")]
pub struct MachineError {
    /// The machine or file.
    pub name: String,
    /// What is wrong.
    pub what: String,
}

impl Hint for MachineError {}

#[derive(Serialize, Deserialize)]
struct Header {
    name: String,
    device: String,
    software: Vec<String>,
    peaks: Peaks,
    transfer: BTreeMap<String, Transfer>,
    tables: Vec<Described>,
}

#[derive(Serialize, Deserialize)]
struct Described {
    class: Class,
    rows: usize,
    judged: Judged,
    tails: Tails,
    growth: f64,
}

impl Machine {
    /// The file, which is small after compression by `zstd -19`.
    ///
    /// # Errors
    /// When a size or time is beyond what the format holds.
    pub fn to_bytes(&self) -> Result<Vec<u8>, MachineError> {
        let fail = |what: String| MachineError { name: self.name.clone(), what };
        let described = self.tables.iter().map(|(class, table)| Described {
            class: *class,
            rows: table.rows.len(),
            judged: table.judged,
            tails: table.tails,
            growth: table.growth,
        });
        let header = Header {
            name: self.name.clone(),
            device: self.device.clone(),
            software: self.software.clone(),
            peaks: self.peaks,
            transfer: self.transfer.clone(),
            tables: described.collect(),
        };
        let header = serde_json::to_vec(&header).map_err(|error| fail(error.to_string()))?;
        let mut bytes = [MAGIC, &header, b"\n"].concat();
        for (class, table) in &self.tables {
            let mut rows: Vec<(Vec<u64>, &Row)> =
                table.rows.iter().map(|row| (sizes(&row.kernel), row)).collect();
            rows.sort_by(|a, b| a.0.cmp(&b.0));
            for place in 0..class.sizes() {
                let mut known: Vec<u64> = rows.iter().map(|(sizes, _)| sizes[place]).collect();
                known.sort_unstable();
                known.dedup();
                let count = u8::try_from(known.len())
                    .map_err(|_| fail(format!("{} values of one size; at most 255", known.len())))?;
                bytes.push(count);
                bytes.extend(known.iter().flat_map(|size| size.to_le_bytes()));
                let mut last = 0_u8;
                for (sizes, _) in &rows {
                    // There are at most 255.
                    let index = known.partition_point(|size| *size < sizes[place]).to_le_bytes()[0];
                    bytes.push(index.wrapping_sub(last));
                    last = index;
                }
            }
            let mut last = 0_i16;
            let mut planes = [Vec::new(), Vec::new()];
            for (_, row) in &rows {
                let steps = steps(value(row, *class, &self.peaks));
                let change = steps.wrapping_sub(last);
                // Small changes of either sign are small numbers.
                let folded = ((change << 1) ^ (change >> 15)).to_le_bytes();
                planes[0].push(folded[0]);
                planes[1].push(folded[1]);
                last = steps;
            }
            bytes.extend(planes.concat());
        }
        Ok(bytes)
    }

    /// Reads a file, compressed or not; `name` is what errors call it.
    ///
    /// # Errors
    /// When it is damaged or of another version.
    pub fn parse(bytes: &[u8], name: &str) -> Result<Self, MachineError> {
        let fail = |what: String| MachineError { name: name.to_owned(), what };
        let bytes = unpacked(bytes).map_err(|error| fail(error.to_string()))?;
        let rest = bytes.strip_prefix(MAGIC);
        let rest = rest.ok_or_else(|| fail("not a file of a machine in version 1".to_owned()))?;
        let end = rest.iter().position(|byte| *byte == b'\n');
        let (header, rest) = rest.split_at(end.ok_or_else(|| fail("the header does not end".to_owned()))?);
        let header: Header = serde_json::from_slice(header).map_err(|error| fail(error.to_string()))?;
        let mut body = Body { rest: &rest[1..] };
        let mut tables = BTreeMap::new();
        for described in header.tables {
            let table = body.table(&described, &header.peaks);
            let table = table.ok_or_else(|| fail(format!("damaged table of {}", described.class.kind())))?;
            tables.insert(described.class, table);
        }
        let Header { name, device, software, peaks, transfer, .. } = header;
        Ok(Self { name, device, software, peaks, transfer, tables })
    }
}

/// The bytes of a file that may be compressed.
pub(crate) fn unpacked(bytes: &[u8]) -> io::Result<Cow<'_, [u8]>> {
    let Some(compression) = Compression::of(bytes) else { return Ok(Cow::Borrowed(bytes)) };
    let meter = Meter::default();
    let mut unpacked = Vec::new();
    meter.unpack(compression, meter.packed(bytes))?.read_to_end(&mut unpacked)?;
    Ok(Cow::Owned(unpacked))
}

/// A logarithm in steps; beyond what 16 bits hold, the last of them.
#[expect(clippy::cast_possible_truncation, reason = "bounded, and in whole steps")]
fn steps(value: f64) -> i16 {
    (value * STEPS).round().clamp(f64::from(i16::MIN), f64::from(i16::MAX)) as i16
}

/// What was not read yet.
struct Body<'a> {
    rest: &'a [u8],
}

impl<'a> Body<'a> {
    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.rest.split_at_checked(count)?;
        self.rest = rest;
        Some(taken)
    }

    fn table(&mut self, described: &Described, peaks: &Peaks) -> Option<Table> {
        let class = described.class;
        let mut columns = Vec::new();
        for _ in 0..class.sizes() {
            let count = usize::from(*self.take(1)?.first()?);
            let known = self.take(8 * count)?.as_chunks::<8>().0;
            let known: Vec<u64> = known.iter().map(|bytes| u64::from_le_bytes(*bytes)).collect();
            let mut index = 0_u8;
            let sizes = self.take(described.rows)?.iter().map(|change| {
                index = index.wrapping_add(*change);
                known.get(usize::from(index)).copied()
            });
            columns.push(sizes.collect::<Option<Vec<u64>>>()?);
        }
        let (small, large) = (self.take(described.rows)?, self.take(described.rows)?);
        let mut steps = 0_i16;
        let mut rows = Vec::with_capacity(described.rows);
        for place in 0..described.rows {
            let folded = u16::from_le_bytes([small[place], large[place]]);
            let change = (folded >> 1).cast_signed() ^ -(folded & 1).cast_signed();
            steps = steps.wrapping_add(change);
            let sizes: Vec<u64> = columns.iter().map(|column| column[place]).collect();
            let kernel = class.kernel(&sizes)?;
            let floor = Floor::of(&kernel, class, peaks).seconds() * 1e9;
            rows.push(Row { kernel, nanoseconds: floor * (f64::from(steps) / STEPS).exp() });
        }
        let field = field(class, &rows, peaks);
        let Described { judged, tails, growth, .. } = *described;
        Some(Table { judged, tails, growth, field, rows })
    }
}

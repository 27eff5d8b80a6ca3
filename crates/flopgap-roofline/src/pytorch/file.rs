//! The file of measured calls: a line about them, a line with the calls' kinds, then their numbers
//! column by column, so that Zstandard finds what repeats (`docs/FORMATS.md`).

use std::borrow::Cow;
use std::collections::BTreeMap;

use flopgap_files::Hint;
use serde::{Deserialize, Serialize};

use super::{About, Arithmetic, Call, Kind, Phase, Row};
use crate::machines::unpacked;

/// The first line: name and version of the format.
const MAGIC: &[u8] = b"flopgap-pytorch 1\n";

/// A file of measured calls that cannot be read.
#[derive(Debug, thiserror::Error)]
#[error("{name}: {what}")]
pub struct PyTorchError {
    /// The file.
    pub name: String,
    /// What is wrong.
    pub what: String,
}

impl Hint for PyTorchError {}

/// What the calls of a table have in common.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
struct Header<'a> {
    kind: Kind,
    #[serde(default, skip_serializing_if = "Phase::is_forward")]
    phase: Phase,
    arithmetic: Arithmetic,
    operator: Cow<'a, str>,
}

/// The calls of a table. Numbers are differences from the call before.
#[derive(Serialize, Deserialize)]
struct Columns {
    sizes: Vec<Vec<i64>>,
    flops: Vec<i64>,
    bytes: Vec<i64>,
    nanoseconds: Vec<i64>,
    kernels: Vec<f64>,
}

/// The file of measured calls, which is small after compression by `zstd -22`. Times are kept in
/// whole nanoseconds, tables in their order.
///
/// # Errors
/// When a number is none.
pub fn to_bytes(about: &About, rows: &[Row]) -> Result<Vec<u8>, PyTorchError> {
    let fail = |what: String| PyTorchError { name: about.device.clone(), what };
    let mut tables: BTreeMap<Header<'_>, Vec<&Row>> = BTreeMap::new();
    for row in rows {
        let Call { kind, phase, arithmetic, ref operator, .. } = row.call;
        let header = Header { kind, phase, arithmetic, operator: Cow::Borrowed(operator) };
        tables.entry(header).or_default().push(row);
    }
    let mut columns = Vec::with_capacity(tables.len());
    for (header, rows) in &mut tables {
        if rows.iter().any(|row| row.call.sizes.len() != header.kind.sizes()) {
            return Err(fail(format!("calls of {} that have other sizes", header.kind.name())));
        }
        rows.sort_by(|a, b| a.call.cmp(&b.call));
        columns.push(Columns {
            sizes: (0..header.kind.sizes())
                .map(|place| differences(rows, |row| row.call.sizes[place]))
                .collect(),
            flops: differences(rows, |row| row.call.flops),
            bytes: differences(rows, |row| row.call.bytes),
            nanoseconds: differences(rows, |row| whole(row.nanoseconds)),
            kernels: rows.iter().map(|row| row.kernels).collect(),
        });
    }
    let json = |error: serde_json::Error| fail(error.to_string());
    let mut bytes = MAGIC.to_vec();
    serde_json::to_writer(&mut bytes, about).map_err(json)?;
    bytes.push(b'\n');
    serde_json::to_writer(&mut bytes, &tables.keys().collect::<Vec<_>>()).map_err(json)?;
    bytes.push(b'\n');
    postcard::to_extend(&columns, bytes).map_err(|error| fail(error.to_string()))
}

/// Reads a file, compressed or not; `name` is what errors call it.
///
/// # Errors
/// When it is damaged or of another version.
pub fn parse(bytes: &[u8], name: &str) -> Result<(About, Vec<Row>), PyTorchError> {
    let fail = |what: &str| PyTorchError { name: name.to_owned(), what: what.to_owned() };
    let bytes = unpacked(bytes).map_err(|error| fail(&error.to_string()))?;
    let rest = bytes.strip_prefix(MAGIC);
    let rest = rest.ok_or_else(|| fail("not a file of measured calls in version 1"))?;
    let mut parts = rest.splitn(3, |byte| *byte == b'\n');
    let mut line = || parts.next().unwrap_or_default();
    let json = |error: serde_json::Error| fail(&error.to_string());
    let about = serde_json::from_slice(line()).map_err(json)?;
    let headers: Vec<Header<'_>> = serde_json::from_slice(line()).map_err(json)?;
    let columns: Vec<Columns> =
        postcard::from_bytes(line()).map_err(|error| fail(&format!("damaged calls: {error}")))?;
    if headers.len() != columns.len() {
        return Err(fail("as many kinds of calls as tables are expected"));
    }
    let mut rows = Vec::new();
    for (header, columns) in headers.iter().zip(columns) {
        let table = header.rows(columns);
        rows.extend(table.ok_or_else(|| fail("a table whose columns differ in length"))?);
    }
    Ok((about, rows))
}

impl Header<'_> {
    /// The calls of a table; `None` where numbers are missing.
    fn rows(&self, columns: Columns) -> Option<Vec<Row>> {
        let Columns { sizes, flops, bytes, nanoseconds, kernels } = columns;
        let count = kernels.len();
        let is_whole = |column: &Vec<i64>| column.len() == count;
        if sizes.len() != self.kind.sizes()
            || !sizes.iter().chain([&flops, &bytes, &nanoseconds]).all(is_whole)
        {
            return None;
        }
        let sizes: Vec<Vec<u64>> = sizes.iter().map(|column| sums(column).collect()).collect();
        let numbers = sums(&flops).zip(sums(&bytes)).zip(sums(&nanoseconds)).zip(kernels);
        let row = |(place, (((flops, bytes), nanoseconds), kernels))| Row {
            call: Call {
                kind: self.kind,
                phase: self.phase,
                arithmetic: self.arithmetic,
                operator: Cow::Owned(self.operator.to_string()),
                sizes: sizes.iter().map(|column: &Vec<u64>| column[place]).collect(),
                flops,
                bytes,
            },
            kernels,
            nanoseconds: nanoseconds as f64,
        };
        Some(numbers.enumerate().map(row).collect())
    }
}

/// Each number less the one before.
fn differences(rows: &[&Row], of: impl Fn(&Row) -> u64) -> Vec<i64> {
    let mut last = 0;
    let difference = |row: &&Row| {
        let number = of(row);
        number.wrapping_sub(std::mem::replace(&mut last, number)).cast_signed()
    };
    rows.iter().map(difference).collect()
}

/// The numbers that have these differences.
fn sums(differences: &[i64]) -> impl Iterator<Item = u64> + '_ {
    differences.iter().scan(0_u64, |last, difference| {
        *last = last.wrapping_add_signed(*difference);
        Some(*last)
    })
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "rounded, and never below 0")]
fn whole(nanoseconds: f64) -> u64 {
    nanoseconds.round() as u64
}

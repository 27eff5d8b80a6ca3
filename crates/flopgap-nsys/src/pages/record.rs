//! The columns of a row.

use super::varint::varint;
use super::{Fault, damage};

/// Where a column is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Slot {
    /// Nowhere: the table does not have it.
    Absent,
    /// It is another name of the row id.
    Rowid,
    /// In the record.
    Stored {
        /// Its place there, counted from 0.
        place: usize,
        /// Whether `SQLite` calls whole numbers in it real, as it does in columns of type `REAL`.
        real: bool,
    },
}

/// A value as `SQLite` gives it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Value<'a> {
    Null,
    Int(i64),
    Real(f64),
    /// Text, which may not be UTF-8 although the file says so.
    Text(&'a [u8]),
    Blob(&'a [u8]),
}

/// The value of one column within a record.
#[derive(Clone, Copy, Debug, Default)]
struct Field {
    offset: u32,
    length: u32,
    /// `SQLite`'s serial type; those of texts and blobs by [`Field::TEXT`] and [`Field::BLOB`] alone.
    kind: u8,
}

impl Field {
    const BLOB: u8 = 12;
    const TEXT: u8 = 13;
}

/// How many bytes a value of each of the first serial types takes.
const LENGTHS: [u8; 10] = [0, 1, 2, 3, 4, 6, 8, 8, 0, 0];

/// Where the columns of the last record lay. Rows of one table are alike: the next often has the same header.
#[derive(Debug)]
pub(super) struct Layout {
    slots: Vec<Slot>,
    /// How many stored columns are needed.
    needed: usize,
    /// The header of the last record up to the last needed column; empty before the first.
    header: Vec<u8>,
    fields: Vec<Field>,
    /// Where the last needed column ends.
    end: usize,
}

impl Layout {
    pub(super) fn of(slots: Vec<Slot>) -> Layout {
        let places = slots.iter().filter_map(|slot| match slot {
            Slot::Stored { place, .. } => Some(place + 1),
            Slot::Absent | Slot::Rowid => None,
        });
        let needed = places.max().unwrap_or(0);
        Layout { slots, needed, header: Vec::new(), fields: Vec::new(), end: 0 }
    }

    /// Learns where the columns of a record lie of which `bytes` are the beginning and `size` the length; false when more bytes
    /// are needed.
    #[inline]
    pub(super) fn fits(&mut self, bytes: &[u8], size: u64, page: u32) -> Result<bool, Fault> {
        if self.header.is_empty() || !bytes.starts_with(&self.header) {
            match self.learn(bytes, size) {
                Ok(()) => {}
                Err(Unlearned::Incomplete) if (bytes.len() as u64) < size => {
                    self.header.clear();
                    return Ok(false);
                }
                Err(Unlearned::Incomplete) => return damage(page, "has a row whose header is cut off"),
                Err(Unlearned::Wrong(what)) => return damage(page, what),
            }
        }
        if self.end as u64 > size {
            return damage(page, "has a row that ends before its columns");
        }
        Ok(self.end <= bytes.len())
    }

    fn learn(&mut self, bytes: &[u8], size: u64) -> Result<(), Unlearned> {
        const RESERVED: Unlearned = Unlearned::Wrong("has a value of a type that SQLite does not have");
        self.fields.clear();
        let (length, mut at) = varint(bytes).ok_or(Unlearned::Incomplete)?;
        // A length that counts itself alone is that of a row without columns.
        if length > size || length < at as u64 {
            return Err(Unlearned::Wrong("has a row whose header is longer than the row"));
        }
        let header = usize::try_from(length).map_err(|_| Unlearned::Incomplete)?;
        let mut offset = length;
        while self.fields.len() < self.needed && at < header {
            let (kind, taken) =
                varint(bytes.get(at..).ok_or(Unlearned::Incomplete)?).ok_or(Unlearned::Incomplete)?;
            at += taken;
            if at > header {
                return Err(Unlearned::Wrong("has a row whose header ends within a number"));
            }
            let (kind, length) = match kind {
                0..=9 => (kind.to_le_bytes()[0], u64::from(LENGTHS[usize::from(kind.to_le_bytes()[0])])),
                10 | 11 => return Err(RESERVED),
                _ if kind % 2 == 0 => (Field::BLOB, (kind - 12) / 2),
                _ => (Field::TEXT, (kind - 13) / 2),
            };
            let place = (u32::try_from(offset), u32::try_from(length));
            let (Ok(place), Ok(length)) = place else {
                return Err(Unlearned::Wrong("has a value of more than 4 GB"));
            };
            self.fields.push(Field { offset: place, length, kind });
            offset += u64::from(length);
        }
        self.header.clear();
        self.header.extend_from_slice(bytes.get(..at).ok_or(Unlearned::Incomplete)?);
        self.end = usize::try_from(offset).map_err(|_| Unlearned::Incomplete)?;
        Ok(())
    }
}

/// Why a header could not be read.
enum Unlearned {
    /// More of it lies on other pages.
    Incomplete,
    Wrong(&'static str),
}

/// A row.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Record<'a> {
    rowid: i64,
    payload: &'a [u8],
    slots: &'a [Slot],
    fields: &'a [Field],
}

impl<'a> Record<'a> {
    /// `layout` was found to fit the payload.
    #[inline]
    pub(super) fn new(rowid: i64, payload: &'a [u8], layout: &'a Layout) -> Record<'a> {
        Record { rowid, payload, slots: &layout.slots, fields: &layout.fields }
    }

    /// The row id.
    #[inline]
    pub(crate) fn rowid(&self) -> i64 {
        self.rowid
    }

    /// The value of a column, counted as the slots were given.
    #[inline]
    pub(crate) fn value(&self, column: usize) -> Value<'a> {
        let (place, real) = match self.slots.get(column) {
            Some(Slot::Stored { place, real }) => (*place, *real),
            Some(Slot::Rowid) => return Value::Int(self.rowid),
            Some(Slot::Absent) | None => return Value::Null,
        };
        // A column that was added to the table after the row has no field; nor has the row more than NULL in it.
        let Some(field) = self.fields.get(place) else { return Value::Null };
        let (start, length) = (field.offset as usize, field.length as usize);
        let Some(bytes) = self.payload.get(start..start + length) else { return Value::Null };
        let int = match field.kind {
            1 => int_of::<1>(bytes),
            2 => int_of::<2>(bytes),
            3 => int_of::<3>(bytes),
            4 => int_of::<4>(bytes),
            5 => int_of::<6>(bytes),
            6 => int_of::<8>(bytes),
            7 => {
                let value = f64::from_bits(int_of::<8>(bytes).cast_unsigned());
                // SQLite has no NaN.
                return if value.is_nan() { Value::Null } else { Value::Real(value) };
            }
            8 => 0,
            9 => 1,
            Field::TEXT => return Value::Text(bytes),
            Field::BLOB => return Value::Blob(bytes),
            _ => return Value::Null,
        };
        if real { Value::Real(int as f64) } else { Value::Int(int) }
    }
}

/// The integer of `N` bytes, the most significant first.
#[inline]
fn int_of<const N: usize>(bytes: &[u8]) -> i64 {
    let mut wide = [0; 8];
    if let Some(bytes) = bytes.first_chunk::<N>() {
        wide[..N].copy_from_slice(bytes);
    }
    i64::from_be_bytes(wide) >> (64 - 8 * N)
}

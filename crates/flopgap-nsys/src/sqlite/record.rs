//! The columns of a row.

use super::error::{Damage, Fault};
use super::varint::varint;

/// Where a column is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Slot {
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

impl Slot {
    /// A column that rows store at `place`, counted from 0, whose declared type is `declared`
    /// (`PRAGMA table_info` calls them `cid` and `type`).
    ///
    /// ```
    /// use flopgap_nsys::sqlite::Slot;
    ///
    /// assert_eq!(Slot::stored(3, "double"), Slot::Stored { place: 3, real: true });
    /// assert_eq!(Slot::stored(3, "POINT"), Slot::Stored { place: 3, real: false });
    /// ```
    pub fn stored(place: usize, declared: &str) -> Slot {
        let declared = declared.to_ascii_uppercase();
        let names = |words: &[&str]| words.iter().any(|word| declared.contains(word));
        // The rules of affinity:
        // https://www.sqlite.org/datatype3.html#determination_of_column_affinity.
        let real = !names(&["INT", "CHAR", "CLOB", "TEXT", "BLOB"]) && names(&["REAL", "FLOA", "DOUB"]);
        Slot::Stored { place, real }
    }
}

/// A value as `SQLite` gives it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Value<'a> {
    /// `NULL`.
    Null,
    /// A whole number.
    Int(i64),
    /// A number of double precision.
    Real(f64),
    /// Text, which may not be UTF-8 although the file says so.
    Text(&'a [u8]),
    /// Bytes.
    Blob(&'a [u8]),
}

/// The value of one column within a record.
#[derive(Clone, Copy, Debug, Default)]
struct Field {
    offset: u32,
    length: u32,
    kind: Kind,
}

/// What a value is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Kind {
    #[default]
    Null,
    /// A whole number of 1, 2, 3, 4, 6 or 8 bytes, the most significant first.
    Int,
    Zero,
    One,
    /// A whole number that is to be called real.
    IntAsReal,
    ZeroAsReal,
    OneAsReal,
    Real,
    Text,
    Blob,
    Rowid,
}

impl Kind {
    /// Of a serial type.
    fn of(serial: u64) -> Option<Kind> {
        Some(match serial {
            0 => Kind::Null,
            1..=6 => Kind::Int,
            7 => Kind::Real,
            8 => Kind::Zero,
            9 => Kind::One,
            10 | 11 => return None,
            _ if serial.is_multiple_of(2) => Kind::Blob,
            _ => Kind::Text,
        })
    }

    fn as_real(self) -> Kind {
        match self {
            Kind::Int => Kind::IntAsReal,
            Kind::Zero => Kind::ZeroAsReal,
            Kind::One => Kind::OneAsReal,
            other => other,
        }
    }
}

/// How many bytes a value of each of the first serial types takes.
const LENGTHS: [u8; 10] = [0, 1, 2, 3, 4, 6, 8, 8, 0, 0];

/// Where the columns of records lie. Rows of one table are alike: the next often has the same
/// header as one of the last.
#[derive(Debug)]
pub(crate) struct Layout {
    slots: Vec<Slot>,
    /// How many stored columns are needed.
    needed: usize,
    /// The latest headers that differ.
    known: Vec<Known>,
    /// That of the last record.
    current: usize,
    /// The next to be forgotten.
    oldest: usize,
    /// The values of the stored columns, while they are learned.
    stored: Vec<Field>,
}

/// Where the columns of a record with a certain header lie.
#[derive(Debug, Default)]
struct Known {
    /// The header up to the last needed column.
    header: Vec<u8>,
    /// The values of the columns that are requested.
    fields: Vec<Field>,
    /// Where the last needed column ends.
    end: usize,
}

/// How many headers are kept. Numbers of a row take from none to eight bytes, so that a table has a
/// few dozen, most of them seldom.
const KEPT: usize = 16;

impl Layout {
    pub(crate) fn new(slots: Vec<Slot>) -> Layout {
        let places = slots.iter().filter_map(|slot| match slot {
            Slot::Stored { place, .. } => Some(place + 1),
            Slot::Absent | Slot::Rowid => None,
        });
        let needed = places.max().unwrap_or(0);
        Layout { slots, needed, known: Vec::new(), current: 0, oldest: 0, stored: Vec::new() }
    }

    /// Learns where the columns of a record lie of which `bytes` are the beginning and `size` the
    /// length; false when more bytes are needed.
    #[inline]
    pub(crate) fn fits(&mut self, bytes: &[u8], size: u64, page: u32) -> Result<bool, Fault> {
        if !self.known.get(self.current).is_some_and(|known| bytes.starts_with(&known.header)) {
            match self.find(bytes, size) {
                Ok(()) => {}
                Err(Unlearned::Incomplete) if (bytes.len() as u64) < size => return Ok(false),
                Err(Unlearned::Incomplete) => return Damage::HeaderCutOff.on(page),
                Err(Unlearned::Wrong(what)) => return what.on(page),
            }
        }
        let end = self.known[self.current].end;
        if end as u64 > size {
            return Damage::RowTooShort.on(page);
        }
        Ok(end <= bytes.len())
    }

    /// Goes to the header that a record has, which is learned when it is not known.
    fn find(&mut self, bytes: &[u8], size: u64) -> Result<(), Unlearned> {
        if let Some(at) = self.known.iter().position(|known| bytes.starts_with(&known.header)) {
            self.current = at;
            return Ok(());
        }
        let learned = self.learn(bytes, size)?;
        if self.known.len() < KEPT {
            self.current = self.known.len();
            self.known.push(learned);
        } else {
            self.current = self.oldest;
            self.oldest = (self.oldest + 1) % KEPT;
            self.known[self.current] = learned;
        }
        Ok(())
    }

    fn learn(&mut self, bytes: &[u8], size: u64) -> Result<Known, Unlearned> {
        self.stored.clear();
        let (length, mut at) = varint(bytes).ok_or(Unlearned::Incomplete)?;
        // A length that counts itself alone is that of a row without columns.
        if length == 0 {
            return Err(Unlearned::Wrong(Damage::HeaderEmpty));
        }
        if length > size || length < at as u64 {
            return Err(Unlearned::Wrong(Damage::HeaderTooLong));
        }
        let header = usize::try_from(length).map_err(|_| Unlearned::Incomplete)?;
        let mut offset = length;
        while self.stored.len() < self.needed && at < header {
            let (serial, taken) =
                varint(bytes.get(at..).ok_or(Unlearned::Incomplete)?).ok_or(Unlearned::Incomplete)?;
            at += taken;
            if at > header {
                return Err(Unlearned::Wrong(Damage::HeaderSplit));
            }
            let kind = Kind::of(serial).ok_or(Unlearned::Wrong(Damage::ReservedType))?;
            let length = match kind {
                Kind::Text | Kind::Blob => (serial - 12) / 2,
                _ => u64::from(LENGTHS[usize::from(serial.to_le_bytes()[0])]),
            };
            let place = (u32::try_from(offset), u32::try_from(length));
            let (Ok(place), Ok(length)) = place else {
                return Err(Unlearned::Wrong(Damage::ValueTooLong));
            };
            self.stored.push(Field { offset: place, length, kind });
            offset += u64::from(length);
        }
        let fields = self.slots.iter().map(|slot| match *slot {
            Slot::Absent => Field::default(),
            Slot::Rowid => Field { kind: Kind::Rowid, ..Field::default() },
            Slot::Stored { place, real } => match self.stored.get(place) {
                Some(field) if real => Field { kind: field.kind.as_real(), ..*field },
                Some(field) => *field,
                // A column that was added to the table after the row: NULL.
                None => Field::default(),
            },
        });
        Ok(Known {
            header: bytes.get(..at).ok_or(Unlearned::Incomplete)?.to_vec(),
            fields: fields.collect(),
            end: usize::try_from(offset).map_err(|_| Unlearned::Incomplete)?,
        })
    }
}

/// Why a header could not be read.
enum Unlearned {
    /// More of it lies on other pages.
    Incomplete,
    Wrong(Damage),
}

/// A row.
#[derive(Clone, Copy, Debug)]
pub struct Record<'a> {
    rowid: i64,
    payload: &'a [u8],
    fields: &'a [Field],
}

impl<'a> Record<'a> {
    /// `layout` was found to fit the payload, which may be followed by other bytes.
    #[inline]
    pub(crate) fn new(rowid: i64, payload: &'a [u8], layout: &'a Layout) -> Record<'a> {
        let fields = layout.known.get(layout.current).map_or(&[][..], |known| &known.fields);
        Record { rowid, payload, fields }
    }

    /// The row id.
    #[inline]
    pub fn rowid(&self) -> i64 {
        self.rowid
    }

    /// The value of a column, counted as the slots were given.
    #[inline]
    pub fn value(&self, column: usize) -> Value<'a> {
        match self.fields.get(column) {
            Some(field) if field.kind == Kind::Int => Value::Int(self.int(*field)),
            Some(field) => self.other(*field),
            None => Value::Null,
        }
    }

    fn other(&self, field: Field) -> Value<'a> {
        match field.kind {
            Kind::Null => Value::Null,
            Kind::Int => Value::Int(self.int(field)),
            Kind::Zero => Value::Int(0),
            Kind::One => Value::Int(1),
            Kind::IntAsReal => Value::Real(self.int(field) as f64),
            Kind::ZeroAsReal => Value::Real(0.0),
            Kind::OneAsReal => Value::Real(1.0),
            Kind::Real => {
                let value = f64::from_bits(self.int(field).cast_unsigned());
                // SQLite has no NaN.
                if value.is_nan() { Value::Null } else { Value::Real(value) }
            }
            Kind::Text => Value::Text(self.bytes(field)),
            Kind::Blob => Value::Blob(self.bytes(field)),
            Kind::Rowid => Value::Int(self.rowid),
        }
    }

    fn bytes(&self, field: Field) -> &'a [u8] {
        let (start, length) = (field.offset as usize, field.length as usize);
        self.payload.get(start..start + length).unwrap_or_default()
    }

    /// The number of a field of 1 to 8 bytes.
    #[inline]
    fn int(&self, field: Field) -> i64 {
        let wide = match self.payload.get(field.offset as usize..).and_then(|bytes| bytes.first_chunk()) {
            Some(wide) => *wide,
            None => padded(self.bytes(field)),
        };
        // What follows the number is shifted out.
        i64::from_be_bytes(wide) >> (64 - 8 * field.length.clamp(1, 8))
    }
}

/// The number at the very end of a row, where no eight bytes are left.
fn padded(bytes: &[u8]) -> [u8; 8] {
    let mut wide = [0; 8];
    wide.iter_mut().zip(bytes).for_each(|(wide, byte)| *wide = *byte);
    wide
}

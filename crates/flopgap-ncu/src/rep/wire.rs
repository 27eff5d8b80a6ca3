//! The protobuf wire format, walked in place.
//!
//! A report is mostly metrics, and every one of them becomes a few bytes of a
//! [`Launch`](crate::Launch): walking the fields where they lie needs no intermediate message, so
//! memory stays proportional to the input whatever the input says, and text that is not UTF-8 (an
//! NVTX range named in another encoding) is no reason to lose a launch.

use std::borrow::Cow;
use std::fmt;

use super::FormatFault;

/// The position and kind of damage.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Damage {
    /// Byte offset in the file.
    pub(super) at: u64,
    /// What is wrong there.
    pub(super) fault: FormatFault,
}

impl Damage {
    pub(super) fn new(at: u64, fault: FormatFault) -> Self {
        Damage { at, fault }
    }
}

/// The bytes of one message (or string) and where they stand in the file.
#[derive(Clone, Copy)]
pub(super) struct Message<'a> {
    pub(super) at: u64,
    pub(super) bytes: &'a [u8],
}

impl fmt::Debug for Message<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes at {}", self.bytes.len(), self.at)
    }
}

impl<'a> Message<'a> {
    /// The fields in file order; ends after the first damaged one.
    pub(super) fn fields(self) -> Fields<'a> {
        Fields { message: self, next: 0 }
    }

    /// The last number with this field number.
    pub(super) fn number(self, number: u32) -> Result<Option<u64>, Damage> {
        self.fields().try_fold(None, |last, field| match field? {
            (found, Field::Varint(value)) if found == number => Ok(Some(value)),
            _ => Ok(last),
        })
    }

    /// Field 1, which must be a number: it identifies domains, threads and strings alike.
    pub(super) fn id(self, part: &'static str) -> Result<u64, Damage> {
        let lacks = FormatFault::Lacks { part, what: "number" };
        self.number(1)?.ok_or_else(|| Damage::new(self.at, lacks))
    }

    /// The strings or messages with this field number.
    pub(super) fn all(self, number: u32) -> impl Iterator<Item = Result<Message<'a>, Damage>> {
        self.fields().filter_map(move |field| match field {
            Ok((found, Field::Bytes(message))) if found == number => Some(Ok(message)),
            Ok(_) => None,
            Err(damage) => Some(Err(damage)),
        })
    }

    /// The last of them.
    pub(super) fn message(self, number: u32) -> Result<Option<Message<'a>>, Damage> {
        self.all(number).try_fold(None, |_, message| message.map(Some))
    }

    /// The bytes as text; what is not UTF-8 becomes U+FFFD.
    pub(super) fn text(self) -> Cow<'a, str> {
        String::from_utf8_lossy(self.bytes)
    }
}

/// The value of one field.
#[derive(Debug, Clone, Copy)]
pub(super) enum Field<'a> {
    /// `uint32`, `uint64`, `bool` and enums.
    Varint(u64),
    /// `double`, as its bits.
    Fixed64(u64),
    /// `float`, as its bits.
    Fixed32(u32),
    /// A string, bytes or a nested message.
    Bytes(Message<'a>),
}

/// Iterates over the fields of one message; see [`Message::fields`].
pub(super) struct Fields<'a> {
    message: Message<'a>,
    next: usize,
}

impl<'a> Fields<'a> {
    fn damage<T>(&self, from: usize, fault: FormatFault) -> Result<T, Damage> {
        Err(Damage::new(self.message.at + from as u64, fault))
    }

    fn varint(&mut self) -> Result<u64, Damage> {
        let from = self.next;
        let mut value = 0_u64;
        for shift in (0..64).step_by(7) {
            let Some(&byte) = self.message.bytes.get(self.next) else {
                return self.damage(from, FormatFault::NumberCut);
            };
            self.next += 1;
            let bits = u64::from(byte & 0x7f);
            if shift == 63 && bits > 1 {
                break;
            }
            value |= bits << shift;
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        self.damage(from, FormatFault::NumberTooLong)
    }

    fn take(&mut self, length: u64) -> Result<Message<'a>, Damage> {
        let from = self.next;
        let rest = &self.message.bytes[from..];
        match usize::try_from(length).ok().and_then(|length| rest.get(..length)) {
            Some(bytes) => {
                self.next += bytes.len();
                Ok(Message { at: self.message.at + from as u64, bytes })
            }
            None => self.damage(from, FormatFault::FieldTooLong),
        }
    }

    fn fixed<const N: usize>(&mut self) -> Result<[u8; N], Damage> {
        let mut bytes = [0; N];
        bytes.copy_from_slice(self.take(N as u64)?.bytes);
        Ok(bytes)
    }

    fn field(&mut self) -> Result<(u32, Field<'a>), Damage> {
        let from = self.next;
        let key = self.varint()?;
        let number = match u32::try_from(key >> 3) {
            Ok(number) if number > 0 => number,
            _ => return self.damage(from, FormatFault::FieldNumber),
        };
        let field = match key & 7 {
            0 => Field::Varint(self.varint()?),
            1 => Field::Fixed64(u64::from_le_bytes(self.fixed()?)),
            2 => {
                let length = self.varint()?;
                Field::Bytes(self.take(length)?)
            }
            5 => Field::Fixed32(u32::from_le_bytes(self.fixed()?)),
            // 3 and 4 are protobuf's groups, which no message of a report uses.
            _ => return self.damage(from, FormatFault::FieldType),
        };
        Ok((number, field))
    }
}

impl<'a> Iterator for Fields<'a> {
    type Item = Result<(u32, Field<'a>), Damage>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.next >= self.message.bytes.len() {
            return None;
        }
        let field = self.field();
        if field.is_err() {
            self.next = self.message.bytes.len();
        }
        Some(field)
    }
}

/// A `uint32` field.
pub(super) fn u32_of(value: u64, at: u64, part: &'static str) -> Result<u32, Damage> {
    u32::try_from(value).map_err(|_| Damage::new(at, FormatFault::Exceeds32Bits { part, value }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn walk(bytes: &[u8]) -> Result<Vec<String>, Damage> {
        Message { at: 100, bytes }
            .fields()
            .map(|field| {
                field.map(|(number, field)| match field {
                    Field::Varint(value) => format!("{number}: {value}"),
                    Field::Fixed64(bits) => format!("{number}: {:?}", f64::from_bits(bits)),
                    Field::Fixed32(bits) => format!("{number}: {:?}f", f32::from_bits(bits)),
                    Field::Bytes(bytes) => format!("{number}: {:?} at {}", bytes.text(), bytes.at),
                })
            })
            .collect()
    }

    #[test]
    fn every_wire_type_is_read() {
        let mut bytes = vec![0x08, 0x96, 0x01, 0x11];
        bytes.extend(1.5_f64.to_le_bytes());
        bytes.extend([0x1a, 2, b'h', b'i', 0x25]);
        bytes.extend(0.25_f32.to_le_bytes());
        bytes.extend([0x28, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01]);
        let expected = ["1: 150", "2: 1.5", "3: \"hi\" at 114", "4: 0.25f", "5: 18446744073709551615"];
        assert_eq!(walk(&bytes).unwrap(), expected);
    }

    #[test]
    fn broken_bytes_say_where() {
        let broken: [(&[u8], u64, FormatFault); 6] = [
            (&[0x08, 0x80], 101, FormatFault::NumberCut),
            (
                &[0x08, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x02],
                101,
                FormatFault::NumberTooLong,
            ),
            (&[0x1a, 3, b'h', b'i'], 102, FormatFault::FieldTooLong),
            (
                &[0x1a, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01],
                111,
                FormatFault::FieldTooLong,
            ),
            (&[0x00, 0x00], 100, FormatFault::FieldNumber),
            (&[0x0b], 100, FormatFault::FieldType),
        ];
        for (bytes, at, fault) in broken {
            let damage = walk(bytes).unwrap_err();
            assert_eq!(damage, Damage { at, fault }, "{bytes:?}");
        }
    }

    #[test]
    fn text_in_another_encoding_is_kept_as_far_as_possible() {
        assert_eq!(Message { at: 0, bytes: b"gr\xfc\xdfe" }.text(), "gr\u{fffd}\u{fffd}e");
    }
}

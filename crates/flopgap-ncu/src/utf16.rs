//! UTF-16 as UTF-8.

use std::io::{self, Read};
use std::ops::Range;

/// How many bytes are read at once.
const CHUNK: usize = 64 * 1024;

/// Which byte of a unit comes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Order {
    Little,
    Big,
}

/// Reads UTF-16 as UTF-8, without a byte order mark; unpaired surrogates and half a unit become
/// U+FFFD.
pub(crate) struct Utf16<R> {
    input: R,
    order: Order,
    raw: Box<[u8]>,
    text: Vec<u8>,
    /// What of the text was not read yet.
    left: Range<usize>,
    /// The first byte of a unit whose second one is not read yet.
    half: Option<u8>,
    /// The first unit of a pair.
    lead: Option<u16>,
    /// Whether a unit was read: a mark after it is a character.
    begun: bool,
    ended: bool,
}

impl<R: Read> Utf16<R> {
    pub(crate) fn new(input: R, order: Order) -> Self {
        Utf16 {
            input,
            order,
            raw: vec![0; CHUNK].into_boxed_slice(),
            // A unit of two bytes becomes at most three, after a replacement of three.
            text: Vec::with_capacity(2 * CHUNK),
            left: 0..0,
            half: None,
            lead: None,
            begun: false,
            ended: false,
        }
    }

    /// Decodes what is read next.
    fn refill(&mut self) -> io::Result<()> {
        self.text.clear();
        let count = self.input.read(&mut self.raw)?;
        let raw = std::mem::take(&mut self.raw);
        let mut bytes = &raw[..count];
        if let (Some(first), Some((second, rest))) = (self.half, bytes.split_first()) {
            self.half = None;
            self.unit([first, *second]);
            bytes = rest;
        }
        let (pairs, odd) = bytes.as_chunks::<2>();
        for &pair in pairs {
            self.unit(pair);
        }
        self.half = self.half.or(odd.first().copied());
        if count == 0 {
            self.ended = true;
            // A character that does not end is one error, however much of it is there.
            if self.half.take().is_some() | self.lead.take().is_some() {
                self.push(char::REPLACEMENT_CHARACTER);
            }
        }
        self.raw = raw;
        self.left = 0..self.text.len();
        Ok(())
    }

    #[inline]
    fn unit(&mut self, bytes: [u8; 2]) {
        let unit = match self.order {
            Order::Little => u16::from_le_bytes(bytes),
            Order::Big => u16::from_be_bytes(bytes),
        };
        match u8::try_from(unit) {
            Ok(ascii) if ascii < 0x80 && self.lead.is_none() => {
                self.begun = true;
                self.text.push(ascii);
            }
            _ => self.other(unit),
        }
    }

    fn other(&mut self, unit: u16) {
        let is_mark = unit == 0xfeff && !self.begun;
        self.begun = true;
        if is_mark {
            return;
        }
        if let Some(lead) = self.lead.take() {
            if let Some(Ok(pair)) = char::decode_utf16([lead, unit]).next() {
                self.push(pair);
                return;
            }
            self.push(char::REPLACEMENT_CHARACTER);
        }
        match char::from_u32(unit.into()) {
            Some(character) => self.push(character),
            None if unit < 0xdc00 => self.lead = Some(unit),
            None => self.push(char::REPLACEMENT_CHARACTER),
        }
    }

    fn push(&mut self, character: char) {
        self.text.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
    }
}

impl<R: Read> Read for Utf16<R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        while self.left.is_empty() && !self.ended {
            self.refill()?;
        }
        let count = out.len().min(self.left.len());
        out[..count].copy_from_slice(&self.text[self.left.start..self.left.start + count]);
        self.left.start += count;
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Gives a few bytes at once.
    struct Slow<'a>(&'a [u8], usize);

    impl Read for Slow<'_> {
        fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
            let count = self.1.min(out.len());
            self.0.read(&mut out[..count])
        }
    }

    fn read(bytes: &[u8], order: Order, at_once: usize) -> String {
        let mut text = String::new();
        Utf16::new(Slow(bytes, at_once), order).read_to_string(&mut text).unwrap();
        text
    }

    #[test]
    fn half_a_character_at_the_end_is_one_error() {
        assert_eq!(read(b"a\0b", Order::Little, 1), "a\u{fffd}");
        assert_eq!(read(b"\0a\xd8\0", Order::Big, 3), "a\u{fffd}");
        assert_eq!(read(b"\0a\xd8\0\xdc", Order::Big, 9), "a\u{fffd}");
        assert_eq!(read(b"", Order::Big, 1), "");
    }

    #[test]
    fn a_mark_is_no_text_at_the_beginning_alone() {
        assert_eq!(read(b"\xff\xfea\0\xff\xfe", Order::Little, 4), "a\u{feff}");
    }

    proptest! {
        #[test]
        fn units_are_read_as_the_standard_library_reads_them(
            units in prop::collection::vec(
                prop_oneof![any::<u16>(), 0xd7f0_u16..0xe010, 0_u16..0x80, Just(0xfeff)], 0..40),
            at_once in 1_usize..9,
            big in any::<bool>(),
        ) {
            let bytes: Vec<u8> = units
                .iter()
                .flat_map(|unit| if big { unit.to_be_bytes() } else { unit.to_le_bytes() })
                .collect();
            let marked = units.first() == Some(&0xfeff);
            let expected = String::from_utf16_lossy(&units[usize::from(marked)..]);
            prop_assert_eq!(read(&bytes, if big { Order::Big } else { Order::Little }, at_once), expected);
        }
    }
}

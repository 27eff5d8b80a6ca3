//! Bytes of the file to interned strings.

use std::borrow::Cow;

use crate::model::{Strings, Symbol};

const SLOTS: usize = 1024;

/// Finds the symbol of bytes seen before by comparing them, so that a kernel name of 2 kB is hashed
/// once and not once a launch.
#[derive(Debug)]
pub(super) struct Interner {
    slots: Box<[Symbol; SLOTS]>,
}

impl Default for Interner {
    fn default() -> Self {
        Interner { slots: Box::new([Symbol::EMPTY; SLOTS]) }
    }
}

impl Interner {
    /// The symbol of `bytes`; what is not UTF-8 becomes U+FFFD.
    pub(super) fn intern(&mut self, strings: &mut Strings, bytes: &[u8]) -> Symbol {
        if bytes.is_empty() {
            return Symbol::EMPTY;
        }
        let slot = slot(bytes);
        let known = self.slots[slot];
        if strings.get(known).as_bytes() == bytes {
            return known;
        }
        let symbol = strings.intern(&lossy(bytes));
        self.slots[slot] = symbol;
        symbol
    }
}

/// `bytes` as text.
pub(super) fn lossy(bytes: &[u8]) -> Cow<'_, str> {
    String::from_utf8_lossy(bytes)
}

/// Samples a few words: names that collide cost a hash, nothing else.
fn slot(bytes: &[u8]) -> usize {
    let word = |at: usize| {
        let mut word = [0; 8];
        let part = &bytes[at..(at + 8).min(bytes.len())];
        word[..part.len()].copy_from_slice(part);
        u64::from_le_bytes(word)
    };
    let len = bytes.len();
    let mut hash = len as u64;
    for at in [0, len / 4, len / 2, len / 2 + len / 4, len.saturating_sub(8)] {
        hash = (hash.rotate_left(5) ^ word(at)).wrapping_mul(0x517c_c1b7_2722_0a95);
    }
    (hash >> 48) as usize % SLOTS
}

//! `SQLite`'s numbers of one to nine bytes.

/// The number at the beginning of `bytes` and how many of them it takes; `None` when they end
/// before it does.
#[inline]
pub(crate) fn varint(bytes: &[u8]) -> Option<(u64, usize)> {
    match *bytes {
        [first, ..] if first < 0x80 => Some((u64::from(first), 1)),
        [first, second, ..] if second < 0x80 => Some((u64::from(first & 0x7f) << 7 | u64::from(second), 2)),
        _ => long(bytes),
    }
}

fn long(bytes: &[u8]) -> Option<(u64, usize)> {
    let mut value = 0;
    for (at, &byte) in bytes.iter().take(8).enumerate() {
        value = value << 7 | u64::from(byte & 0x7f);
        if byte < 0x80 {
            return Some((value, at + 1));
        }
    }
    // The ninth byte has no flag: all its bits count.
    bytes.get(8).map(|&last| (value << 8 | u64::from(last), 9))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_and_ends() {
        assert_eq!(varint(&[0x7f]), Some((127, 1)));
        assert_eq!(varint(&[0x81, 0x00, 9]), Some((128, 2)));
        assert_eq!(varint(&[0x81, 0x80, 0x01]), Some((16_385, 3)));
        assert_eq!(varint(&[0xff; 9]), Some((u64::MAX, 9)));
        assert_eq!(varint(&[0xff; 12]), Some((u64::MAX, 9)));
        for cut in [&[][..], &[0x80], &[0xff; 8]] {
            assert_eq!(varint(cut), None);
        }
    }
}

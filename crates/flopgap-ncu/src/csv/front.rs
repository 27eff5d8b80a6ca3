//! Caches the launch columns of rows. Kernels are launched again and again, mostly in the same
//! order, so the columns after the id are compared with those that followed last time before they
//! are parsed.

use std::hash::Hasher;

use rustc_hash::{FxHashMap, FxHasher};

use crate::model::Launch;

/// The bytes behind a row's id up to the metric's columns, and the launch that they describe.
#[derive(Debug)]
struct Front {
    bytes: Box<[u8]>,
    /// Everything but id, segment, position and metrics.
    launch: Launch,
    /// The front that followed it last time.
    next: usize,
}

/// Bytes kept at most.
const MAX_BYTES: usize = 2 * 1024 * 1024;
const NONE: usize = usize::MAX;

/// The fronts of a table.
#[derive(Debug)]
pub(super) struct Fronts {
    known: Vec<Front>,
    by_hash: FxHashMap<u64, usize>,
    bytes: usize,
    last: usize,
}

impl Fronts {
    pub(super) fn new() -> Self {
        Fronts { known: Vec::new(), by_hash: FxHashMap::default(), bytes: 0, last: NONE }
    }

    /// Reads a quoted id and the front that is expected behind it: the id, the launch and the bytes
    /// that both take.
    #[inline]
    pub(super) fn predict(&mut self, bytes: &[u8]) -> Option<(u64, &Launch, usize)> {
        let next = self.known.get(self.last)?.next;
        let front = self.known.get(next)?;
        let id_bytes = bytes.strip_prefix(b"\"")?;
        let digits = id_bytes.iter().take(19).take_while(|byte| byte.is_ascii_digit()).count();
        if !(1..=18).contains(&digits) || !id_bytes[digits..].starts_with(&front.bytes) {
            return None;
        }
        let id = id_bytes[..digits].iter().fold(0, |id, byte| id * 10 + u64::from(byte - b'0'));
        self.last = next;
        Some((id, &front.launch, 1 + digits + front.bytes.len()))
    }

    /// Remembers the front of a launch that was parsed. `front` begins with the id's closing quote.
    pub(super) fn learn(&mut self, front: &[u8], launch: &Launch) {
        let mut hasher = FxHasher::default();
        hasher.write(front);
        let hash = hasher.finish();
        let found = self.by_hash.get(&hash).copied().filter(|&index| *self.known[index].bytes == *front);
        let index = match found {
            Some(index) => index,
            None if self.bytes + front.len() <= MAX_BYTES => {
                let mut launch = launch.clone();
                launch.metrics = Vec::new();
                self.bytes += front.len() + 32 * launch.nvtx.len() + 256;
                self.known.push(Front { bytes: front.into(), launch, next: NONE });
                self.by_hash.insert(hash, self.known.len() - 1);
                self.known.len() - 1
            }
            None => NONE,
        };
        if let Some(last) = self.known.get_mut(self.last) {
            last.next = index;
        }
        self.last = index;
    }
}

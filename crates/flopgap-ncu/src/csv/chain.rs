//! Texts that follow each other in the same order again and again, with what they mean: kernels are
//! launched in loops and have the same metrics, so that comparing saves parsing.

use rustc_hash::FxHashMap;

/// Bytes kept at most: a file that makes up new texts in every row gets none for them.
const MAX_BYTES: usize = 2 * 1024 * 1024;
const NONE: usize = usize::MAX;

/// A text and its meaning.
#[derive(Debug)]
pub(super) struct Link<T> {
    pub(super) bytes: Box<[u8]>,
    pub(super) meaning: T,
    /// The link that followed it last time.
    next: usize,
}

/// The texts of a table, each kept once.
#[derive(Debug)]
pub(super) struct Chain<T> {
    links: Vec<Link<T>>,
    by_bytes: FxHashMap<Box<[u8]>, usize>,
    bytes: usize,
    last: usize,
}

impl<T> Chain<T> {
    pub(super) fn new() -> Self {
        Chain { links: Vec::new(), by_bytes: FxHashMap::default(), bytes: 0, last: NONE }
    }

    /// What followed the last text the time before.
    #[inline]
    pub(super) fn expected(&self) -> Option<&Link<T>> {
        self.links.get(self.links.get(self.last)?.next)
    }

    /// Takes the expected text for the last one.
    #[inline]
    pub(super) fn follow(&mut self) -> Option<&Link<T>> {
        self.last = self.links.get(self.last)?.next;
        self.links.get(self.last)
    }

    /// The next text will be unlike all others.
    pub(super) fn interrupt(&mut self) {
        self.last = NONE;
    }

    /// Remembers a text that was parsed as the last one.
    pub(super) fn learn(&mut self, bytes: &[u8], meaning: impl FnOnce() -> T) {
        let index = match self.by_bytes.get(bytes) {
            Some(&index) => index,
            None if self.bytes + bytes.len() <= MAX_BYTES => {
                self.bytes += bytes.len() + 256;
                self.by_bytes.insert(bytes.into(), self.links.len());
                self.links.push(Link { bytes: bytes.into(), meaning: meaning(), next: NONE });
                self.links.len() - 1
            }
            None => NONE,
        };
        if let Some(last) = self.links.get_mut(self.last) {
            last.next = index;
        }
        self.last = index;
    }
}

//! Reads the texts of string ids on demand.

use std::borrow::Borrow;
use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::{Error, StringId, Trace};

/// The texts of a trace's string ids, with a cache of the latest.
pub(crate) struct Strings<T> {
    trace: T,
    known: FxHashMap<StringId, Arc<str>>,
}

impl<T: Borrow<Trace>> Strings<T> {
    /// Enough for every kernel and API name; a trace may have millions of distinct range names.
    const KEPT: usize = 1 << 16;

    pub(crate) fn new(trace: T) -> Self {
        Strings { trace, known: FxHashMap::default() }
    }

    /// The text of an id, or the id where it has none.
    pub(crate) fn get(&mut self, id: StringId) -> Result<Arc<str>, Error> {
        if let Some(text) = self.known.get(&id) {
            return Ok(text.clone());
        }
        if self.known.len() >= Self::KEPT {
            self.known.clear();
        }
        let text = self.trace.borrow().string_or_id(id)?;
        self.known.insert(id, text.clone());
        Ok(text)
    }
}

//! Dictionary-encoded strings.

use std::sync::Arc;

use arrow_array::types::Int32Type;
use arrow_array::{ArrayRef, DictionaryArray, Int32Array, StringArray};
use arrow_schema::ArrowError;
use rustc_hash::FxHashMap;

/// Once a dictionary has this many values, the next batch starts a new one: each batch carries its
/// whole dictionary.
const MOST: usize = 1 << 16;
/// Bytes of text addressable by 32-bit offsets, minus room for one more batch.
const MOST_BYTES: usize = 1 << 30;

/// A string column as an Arrow dictionary. Values are unique, and keys stay the same from batch to
/// batch until it is full.
#[derive(Debug, Default)]
pub(crate) struct Dictionary {
    keys: FxHashMap<Arc<str>, i32>,
    texts: Vec<Arc<str>>,
    bytes: usize,
    /// The values of the latest batch, reused by the next one if nothing was added.
    values: Option<Arc<StringArray>>,
}

impl Dictionary {
    /// The key of a string, which is added if new.
    pub(crate) fn key(&mut self, text: &str) -> Result<i32, ArrowError> {
        if let Some(&key) = self.keys.get(text) {
            return Ok(key);
        }
        let key = i32::try_from(self.texts.len()).map_err(|_| ArrowError::DictionaryKeyOverflowError)?;
        let text: Arc<str> = text.into();
        self.bytes += text.len();
        self.texts.push(text.clone());
        self.keys.insert(text, key);
        self.values = None;
        Ok(key)
    }

    /// The array of a batch with these keys.
    pub(crate) fn array(&mut self, keys: Int32Array) -> Result<ArrayRef, ArrowError> {
        if self.bytes > i32::MAX as usize {
            return Err(ArrowError::OffsetOverflowError(self.bytes));
        }
        let texts = &self.texts;
        let values =
            self.values.get_or_insert_with(|| Arc::new(StringArray::from_iter_values(texts))).clone();
        Ok(Arc::new(DictionaryArray::<Int32Type>::try_new(keys, values)?))
    }

    /// Whether the next batch should start with an empty dictionary. Anything derived from the old
    /// keys is then invalid.
    pub(crate) fn is_full(&self) -> bool {
        self.texts.len() >= MOST || self.bytes >= MOST_BYTES
    }
}

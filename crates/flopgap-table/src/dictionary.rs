//! Texts that repeat, each kept once.

use std::sync::Arc;

use arrow_array::types::Int32Type;
use arrow_array::{ArrayRef, DictionaryArray, Int32Array, StringArray};
use arrow_schema::ArrowError;
use rustc_hash::FxHashMap;

/// When a dictionary has grown to so many values, the next batch begins another: each batch carries
/// its dictionary along.
const MOST: usize = 1 << 16;
/// Bytes of text that offsets of 32 bits reach, with room for what one batch may add.
const MOST_BYTES: usize = 1 << 30;

/// A column of texts as Arrow dictionary. Values are unique, and keys stay what they are from batch
/// to batch until it is full.
#[derive(Debug, Default)]
pub(crate) struct Dictionary {
    keys: FxHashMap<Arc<str>, i32>,
    texts: Vec<Arc<str>>,
    bytes: usize,
    /// The values of the latest batch: the next one has the same when nothing was added.
    values: Option<Arc<StringArray>>,
}

impl Dictionary {
    /// The key of a text, which is added when it is new.
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

    /// The array of a batch whose keys these are.
    pub(crate) fn array(&mut self, keys: Int32Array) -> Result<ArrayRef, ArrowError> {
        if self.bytes > i32::MAX as usize {
            return Err(ArrowError::OffsetOverflowError(self.bytes));
        }
        let texts = &self.texts;
        let values =
            self.values.get_or_insert_with(|| Arc::new(StringArray::from_iter_values(texts))).clone();
        Ok(Arc::new(DictionaryArray::<Int32Type>::try_new(keys, values)?))
    }

    /// Whether the next batch should begin with an empty one. What was derived from its keys is
    /// void then.
    pub(crate) fn is_full(&self) -> bool {
        self.texts.len() >= MOST || self.bytes >= MOST_BYTES
    }
}

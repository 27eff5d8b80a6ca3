//! The texts that rows refer to by id.

use std::sync::{Arc, PoisonError};

use crate::sqlite::{Slot, Value};
use crate::{Error, StringId, Trace};

const TABLE: &str = "StringIds";
const ID: &str = "id";
const TEXT: &str = "value";

impl Trace {
    /// The text of a row of `StringIds`; `None` when there is no such row.
    pub fn string(&self, id: StringId) -> Result<Option<Arc<str>>, Error> {
        let StringId(id) = id;
        let schema = self.schema();
        let Some(table) = schema.table(TABLE) else { return Ok(None) };
        let (database, root) = self.pages(table)?;
        let (Some(Slot::Rowid), Some(column)) = (schema.slot(table, ID), schema.slot(table, TEXT)) else {
            return Err(self.not_plain(table));
        };
        let take = |value: Value<'_>| match value {
            Value::Text(bytes) => Some(Arc::from(&*String::from_utf8_lossy(bytes))),
            _ => None,
        };
        let mut cache = self.strings_cache().lock().unwrap_or_else(PoisonError::into_inner);
        let found = database.find(&mut cache, root, id, column, take);
        Ok(found.map_err(|error| self.fault(table, error))?.flatten())
    }

    /// The text of a row of `StringIds`, or a text that names the id that has none.
    pub(crate) fn string_or_id(&self, id: StringId) -> Result<Arc<str>, Error> {
        Ok(self.string(id)?.unwrap_or_else(|| format!("[unknown string {id}]").into()))
    }
}

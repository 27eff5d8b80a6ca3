//! The texts that rows refer to by id.

use std::sync::{Arc, PoisonError};

use crate::sqlite::{Slot, Value};
use rusqlite::OptionalExtension as _;
use rusqlite::types::ValueRef;

use crate::trace::connect;
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
        let text = |bytes: &[u8]| -> Arc<str> { String::from_utf8_lossy(bytes).as_ref().into() };
        let slots = (schema.slot(table, ID), schema.slot(table, TEXT));
        if let (Some((database, root)), (Some(Slot::Rowid), Some(column))) = (self.plain(table), slots) {
            let take = |value: Value<'_>| match value {
                Value::Text(bytes) => Some(text(bytes)),
                _ => None,
            };
            let mut cache = self.strings_cache().lock().unwrap_or_else(PoisonError::into_inner);
            let found = database.find(&mut cache, root, id, column, take);
            return Ok(found.map_err(|error| self.fault(table, error))?.flatten());
        }
        let sqlite = |source| self.sqlite(source);
        let mut fallback = self.strings_fallback().lock().unwrap_or_else(PoisonError::into_inner);
        let connection = match &mut *fallback {
            Some(connection) => connection,
            none => none.insert(connect(self.file())?),
        };
        let sql = format!("SELECT \"{TEXT}\" FROM \"{table}\" WHERE \"{ID}\" = ?1");
        let mut statement = connection.prepare_cached(&sql).map_err(sqlite)?;
        let found = statement.query_row([id], |row| match row.get_ref(0)? {
            ValueRef::Text(bytes) => Ok(Some(text(bytes))),
            _ => Ok(None),
        });
        Ok(found.optional().map_err(sqlite)?.flatten())
    }

    /// The text of a row of `StringIds`, or a text that names the id that has none.
    pub(crate) fn string_or_id(&self, id: StringId) -> Result<Arc<str>, Error> {
        Ok(self.string(id)?.unwrap_or_else(|| format!("[unknown string {id}]").into()))
    }
}

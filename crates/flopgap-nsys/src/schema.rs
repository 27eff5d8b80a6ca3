//! The tables and columns of an export.

use crate::sqlite::Slot;
use rusqlite::{Connection, Row};
use rustc_hash::FxHashMap;

/// The tables and columns of one export, looked up once when it is opened.
///
/// nsys writes a table only when it has rows, and has renamed and added columns for years; nothing
/// is assumed to be there.
#[derive(Clone, Debug)]
pub struct Schema {
    tables: FxHashMap<String, Table>,
    /// `EXPORT_SCHEMA_VERSION`, such as `3.20.3`; `None` before 2022.
    pub version: Option<String>,
    /// `EXPORT_PRODUCT_VERSION`: the version of nsys that exported the trace.
    pub product: Option<String>,
}

/// A table as it lies in the file.
#[derive(Clone, Debug, Default)]
struct Table {
    /// The first page of its b-tree; `None` when its rows do not lie there plainly.
    root: Option<u32>,
    columns: FxHashMap<String, Slot>,
}

/// Each column of each table, in the order in which rows store them.
const COLUMNS: &str = "
    SELECT m.name, m.rootpage, (SELECT l.wr FROM pragma_table_list(m.name) AS l WHERE l.schema = 'main'),
           c.name, c.cid, c.type, c.dflt_value IS NOT NULL, c.hidden,
           c.pk = 1 AND upper(c.type) = 'INTEGER'
               AND NOT EXISTS (SELECT 1 FROM pragma_table_xinfo(m.name) WHERE pk > 1)
               AND NOT EXISTS (SELECT 1 FROM pragma_index_list(m.name) WHERE origin = 'pk')
    FROM sqlite_master AS m, pragma_table_xinfo(m.name) AS c
    WHERE m.type = 'table' ORDER BY m.rowid, c.cid";

/// The tables of which an export of any age has at least one.
const KNOWN: [&str; 6] = [
    "StringIds",
    "NVTX_EVENTS",
    "META_DATA_EXPORT",
    "EXPORT_META_DATA",
    "TARGET_INFO_SESSION_START_TIME",
    "ENUM_NSYS_EVENT_TYPE",
];

impl Schema {
    /// Reads the schema of `connection`.
    pub(crate) fn probe(connection: &Connection) -> rusqlite::Result<Schema> {
        let mut tables: FxHashMap<String, Table> = FxHashMap::default();
        let mut statement = connection.prepare(COLUMNS)?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            let (name, rowid) = (row.get::<_, String>(0)?, row.get(2) == Ok(Some(false)));
            let table = match tables.get_mut(&name) {
                Some(table) => table,
                None => tables.entry(name).or_insert(Table {
                    // Without row ids the rows lie in an index, in another order.
                    root: row.get::<_, Option<u32>>(1)?.filter(|root| *root > 1 && rowid),
                    columns: FxHashMap::default(),
                }),
            };
            if !stored_plainly(row)? {
                table.root = None;
            }
            table.columns.insert(row.get(3)?, slot(row)?);
        }
        drop(rows);
        drop(statement);
        let mut schema = Schema { tables, version: None, product: None };
        for table in ["META_DATA_EXPORT", "EXPORT_META_DATA"] {
            if !(schema.has(table, "name") && schema.has(table, "value")) {
                continue;
            }
            let mut statement = connection.prepare(&format!("SELECT name, value FROM {table}"))?;
            let mut rows = statement.query([])?;
            while let Some(row) = rows.next()? {
                let (Ok(name), Ok(value)) = (row.get_ref(0)?.as_str(), row.get_ref(1)?.as_str()) else {
                    continue;
                };
                match name {
                    "EXPORT_SCHEMA_VERSION" => schema.version = Some(value.to_owned()),
                    "EXPORT_PRODUCT_VERSION" => schema.product = Some(value.to_owned()),
                    _ => {}
                }
            }
        }
        Ok(schema)
    }

    /// Whether any table says that nsys wrote this database.
    pub(crate) fn is_export(&self) -> bool {
        KNOWN.iter().any(|table| self.tables.contains_key(*table))
            || self.tables.keys().any(|table| table.starts_with("CUPTI_ACTIVITY_KIND_"))
    }

    /// The name under which the export holds `table`: itself, or the highest of its `_V2`, `_V3`…
    /// successors.
    pub fn table(&self, table: &str) -> Option<&str> {
        if let Some((name, _)) = self.tables.get_key_value(table) {
            return Some(name);
        }
        let version = |name: &str| name.strip_prefix(table)?.strip_prefix("_V")?.parse::<u32>().ok();
        let named = self.tables.keys().filter_map(|name| Some((version(name)?, name)));
        named.max().map(|(_, name)| name.as_str())
    }

    /// Whether `table` (as [`Schema::table`] finds it) has `column`.
    pub fn has(&self, table: &str, column: &str) -> bool {
        let columns = self.table(table).and_then(|name| self.tables.get(name));
        columns.is_some_and(|table| table.columns.contains_key(column))
    }

    /// The first page of `table` (a name that this export has); `None` when its rows do not lie
    /// there plainly.
    pub(crate) fn root(&self, table: &str) -> Option<u32> {
        self.tables.get(table)?.root
    }

    /// Where rows of `table` (a name that this export has) hold `column`; `None` when they do not.
    pub(crate) fn slot(&self, table: &str, column: &str) -> Option<Slot> {
        self.tables.get(table)?.columns.get(column).copied()
    }

    /// The names of all tables.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.tables.keys().map(String::as_str)
    }
}

/// Whether a row of [`COLUMNS`] is a column that each row stores: a default stands in for what
/// older rows lack, and a computed column is not stored, which shifts those that follow it.
fn stored_plainly(row: &Row<'_>) -> rusqlite::Result<bool> {
    Ok(!row.get::<_, bool>(6)? && row.get::<_, i64>(7)? == 0)
}

fn slot(row: &Row<'_>) -> rusqlite::Result<Slot> {
    if row.get(8)? {
        return Ok(Slot::Rowid);
    }
    let declared = row.get::<_, Option<String>>(5)?.unwrap_or_default();
    Ok(Slot::stored(row.get::<_, u16>(4)?.into(), &declared))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_where_sqlite_keeps_them() {
        let connection = Connection::open_in_memory().unwrap();
        connection
            .execute_batch(
                "CREATE TABLE plain(a TEXT, id INTEGER PRIMARY KEY, b REAL);
                 CREATE TABLE pair(a INTEGER, b INTEGER, PRIMARY KEY (a, b));
                 CREATE TABLE defaulted(a INTEGER DEFAULT 7);
                 CREATE TABLE computed(a INTEGER, b INTEGER AS (a + 1), c INTEGER);
                 CREATE TABLE indexed(a INTEGER PRIMARY KEY) WITHOUT ROWID;",
            )
            .unwrap();
        let schema = Schema::probe(&connection).unwrap();
        let slot = |table, column| schema.slot(table, column).unwrap();
        assert_eq!(slot("plain", "a"), Slot::Stored { place: 0, real: false });
        assert_eq!(slot("plain", "id"), Slot::Rowid);
        assert_eq!(slot("plain", "b"), Slot::Stored { place: 2, real: true });
        assert_eq!(slot("pair", "a"), Slot::Stored { place: 0, real: false });
        assert_eq!(schema.slot("plain", "c"), None);
        let plain = |table| schema.root(table).is_some();
        assert!(plain("plain") && plain("pair"));
        assert!(!plain("defaulted") && !plain("computed") && !plain("indexed"));
    }
}

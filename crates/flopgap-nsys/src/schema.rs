//! Which tables and columns an export has.

use rusqlite::Connection;
use rustc_hash::{FxHashMap, FxHashSet};

/// The tables and columns of one export, looked up once when it is opened.
///
/// nsys writes a table only when it has rows, and has renamed and added columns for years; nothing is assumed to be there.
#[derive(Clone, Debug)]
pub struct Schema {
    tables: FxHashMap<String, FxHashSet<String>>,
    /// `EXPORT_SCHEMA_VERSION`, such as `3.20.3`; none before 2022.
    pub version: Option<String>,
    /// `EXPORT_PRODUCT_VERSION`: the version of nsys that exported the trace.
    pub product: Option<String>,
}

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
        let mut tables: FxHashMap<String, FxHashSet<String>> = FxHashMap::default();
        let mut statement = connection.prepare(
            "SELECT m.name, c.name FROM sqlite_master AS m, pragma_table_info(m.name) AS c WHERE m.type = 'table'",
        )?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            tables.entry(row.get(0)?).or_default().insert(row.get(1)?);
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

    /// The name under which the export holds `table`: itself, or the highest of its `_V2`, `_V3`… successors.
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
        columns.is_some_and(|columns| columns.contains(column))
    }

    /// How many tables there are.
    pub fn len(&self) -> usize {
        self.tables.len()
    }

    /// Whether there is no table at all.
    pub fn is_empty(&self) -> bool {
        self.tables.is_empty()
    }
}

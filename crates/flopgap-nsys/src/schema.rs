//! The tables and columns of an export.

use rustc_hash::FxHashMap;

use crate::sqlite::{self, Database, Slot, Value};

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
#[derive(Clone, Debug)]
struct Table {
    /// The first page of its b-tree; `None` when its rows do not lie there plainly.
    root: Option<u32>,
    columns: FxHashMap<String, Slot>,
}

impl Table {
    fn of(table: sqlite::Table) -> Table {
        Table { root: table.root, columns: table.columns.into_iter().collect() }
    }
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
    /// Reads the schema of a database.
    pub(crate) fn probe(database: &Database) -> Result<Schema, sqlite::Error> {
        let tables = database.tables()?.into_iter().map(|table| (table.name.clone(), Table::of(table)));
        let mut schema = Schema { tables: tables.collect(), version: None, product: None };
        for table in ["META_DATA_EXPORT", "EXPORT_META_DATA"] {
            let (Some(root), Some(name), Some(value)) =
                (schema.root(table), schema.slot(table, "name"), schema.slot(table, "value"))
            else {
                continue;
            };
            let mut rows = database.rows(root, &[name, value])?;
            while let Some(row) = rows.next_row()? {
                let (Value::Text(name), Value::Text(value)) = (row.value(0), row.value(1)) else { continue };
                let Ok(value) = std::str::from_utf8(value) else { continue };
                match name {
                    b"EXPORT_SCHEMA_VERSION" => schema.version = Some(value.to_owned()),
                    b"EXPORT_PRODUCT_VERSION" => schema.product = Some(value.to_owned()),
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

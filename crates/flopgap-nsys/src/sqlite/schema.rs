//! The tables of a database, as its first page names them.

use super::create::declared;
use super::database::{Database, SCHEMA};
use super::error::{Damage, Error, Fault};
use super::record::{Slot, Value};
use super::rows::Rows;

/// A table of a database.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Table {
    /// Its name.
    pub name: String,
    /// The first page of its rows; `None` when they do not lie there as [`Database::rows`] reads
    /// them: in a virtual table, in one `WITHOUT ROWID`, and where a column is computed or has a
    /// default, which stands in for what older rows lack.
    pub root: Option<u32>,
    /// Its columns and where rows keep them; none of a virtual table.
    pub columns: Vec<(String, Slot)>,
}

impl Table {
    /// Where rows keep a column; [`Slot::Absent`] when the table does not have it.
    pub fn slot(&self, column: &str) -> Slot {
        let found = self.columns.iter().find(|(name, _)| name == column);
        found.map_or(Slot::Absent, |(_, slot)| *slot)
    }
}

impl Database {
    /// The tables of the database, in the order in which it names them.
    ///
    /// # Errors
    /// [`Fault::Damaged`] when a page that names them does not follow the file format.
    pub fn tables(&self) -> Result<Vec<Table>, Error> {
        // Type, name, root page and statement; the table's own name stands between.
        let columns = [0, 1, 3, 4].map(|place| Slot::Stored { place, real: false });
        if self.count < SCHEMA {
            return Err(self.error(Fault::Damaged { page: SCHEMA, damage: Damage::OutsideFile }));
        }
        let mut rows = Rows::new(self, SCHEMA, &columns);
        let mut tables = Vec::new();
        while let Some(row) = rows.next_row()? {
            let (Value::Text(b"table"), Value::Text(name)) = (row.value(0), row.value(1)) else { continue };
            let Ok(name) = std::str::from_utf8(name) else { continue };
            let root = match row.value(2) {
                Value::Int(root) => u32::try_from(root).ok().filter(|root| *root > SCHEMA),
                _ => None,
            };
            let declared = match row.value(3) {
                Value::Text(sql) => std::str::from_utf8(sql).ok().and_then(declared),
                _ => None,
            };
            let (root, columns) = match declared {
                Some(declared) => (root.filter(|_| declared.plain), declared.columns),
                None => (None, Vec::new()),
            };
            tables.push(Table { name: name.to_owned(), root, columns });
        }
        Ok(tables)
    }
}

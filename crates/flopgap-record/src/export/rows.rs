//! Rows of tables that exist only where they have rows.

use rusqlite::{Connection, Params};

use super::schema::OnDemand;

/// A table, which the first row creates.
#[derive(Debug, Default)]
pub(super) struct Table {
    pub(super) rows: u64,
}

impl Table {
    pub(super) fn insert(
        &mut self,
        database: &Connection,
        table: &OnDemand,
        row: impl Params,
    ) -> rusqlite::Result<()> {
        if self.rows == 0 {
            database.execute_batch(table.create)?;
        }
        self.rows += 1;
        database.prepare_cached(table.insert)?.execute(row)?;
        Ok(())
    }
}

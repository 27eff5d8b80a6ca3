//! Rows of tables that exist only where they have rows.

use rusqlite::{Connection, Params, Statement};

use super::schema::OnDemand;

/// A table, which the first row creates.
#[derive(Debug, Default)]
pub(super) struct Table<'d> {
    pub(super) rows: u64,
    insert: Option<Statement<'d>>,
}

impl<'d> Table<'d> {
    pub(super) fn insert(
        &mut self,
        database: &'d Connection,
        table: &OnDemand,
        row: impl Params,
    ) -> rusqlite::Result<()> {
        let insert = match &mut self.insert {
            Some(insert) => insert,
            empty => {
                database.execute_batch(table.create)?;
                empty.insert(database.prepare(table.insert)?)
            }
        };
        self.rows += 1;
        insert.execute(row)?;
        Ok(())
    }
}

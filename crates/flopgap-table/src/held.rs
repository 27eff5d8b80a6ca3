//! Tables of rows that are in memory.

use std::ops::Deref;
use std::path::Path;
use std::sync::Arc;

use crate::Table;
use crate::column::Column;
use crate::table::Rows;

/// A row of a list that readers share.
pub(crate) struct Held<R>(Arc<[R]>, usize);

impl<R> Deref for Held<R> {
    type Target = R;

    fn deref(&self) -> &R {
        &self.0[self.1]
    }
}

/// An in-memory table: its name, description, columns and rows.
pub(crate) fn table<R: Send + Sync + 'static>(
    path: &Path,
    it: (&'static str, &'static str),
    columns: Vec<Column<Held<R>>>,
    rows: Vec<R>,
) -> Table {
    let rows: Arc<[R]> = rows.into();
    Table::new(&path.into(), it, columns, move || {
        let rows = rows.clone();
        Ok(Box::new((0..rows.len()).map(move |at| Ok(Held(rows.clone(), at)))) as Rows<Held<R>>)
    })
}

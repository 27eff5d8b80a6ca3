//! Tables as the templates read them, and what all pages share.

use minijinja::Environment;
use serde::Serialize;

use crate::ReportError;
use crate::table::{Align, Cell, Column, NO_ROWS, Table};

/// Style of every page.
pub(super) const STYLE: &str = include_str!("../../assets/page/page.css");
/// The state of a page in its address, and sorting and filtering of tables.
pub(super) const TABLES: &str =
    concat!(include_str!("../../assets/page/address.js"), include_str!("../../assets/page/tables.js"));

const TEMPLATES: [(&str, &str); 3] = [
    ("document.html", include_str!("../../assets/page/document.html")),
    ("explorer.html", include_str!("../../assets/page/explorer.html")),
    ("table.html", include_str!("../../assets/page/table.html")),
];

/// The templates; a name's suffix turns HTML escaping on.
pub(super) fn environment() -> Result<Environment<'static>, ReportError> {
    let mut environment = Environment::new();
    for (name, template) in TEMPLATES {
        environment.add_template(name, template).map_err(ReportError::template)?;
    }
    Ok(environment)
}

#[derive(Serialize)]
pub(super) struct TableView<'a> {
    title: &'a str,
    /// Heading, and whether values are lined up right.
    columns: Vec<(String, bool)>,
    rows: Vec<Vec<String>>,
    no_rows: &'static str,
}

impl<'a> From<&'a Table> for TableView<'a> {
    fn from(table: &'a Table) -> Self {
        let column = |column: &Column| (column.heading(), column.align() == Align::Right);
        TableView {
            title: table.title(),
            columns: table.columns().iter().map(column).collect(),
            rows: table.rows().iter().map(|row| row.iter().map(Cell::display).collect()).collect(),
            no_rows: NO_ROWS,
        }
    }
}

//! One table, four formats.
//!
//! A [`Table`] holds raw values. [`Table::render`] turns it into terminal text or Markdown for
//! readers, or CSV or JSON for machines; [`Format`] is the choice, parsed from a command line.

mod cell;
mod data;
mod fit;
mod format;
mod formulas;
mod markdown;
mod text;

pub use cell::Cell;
pub use format::Format;
pub use formulas::WithoutFormulas;
#[cfg(feature = "pages")]
pub(crate) use markdown::escape as escape_markdown;
pub use text::{TextOptions, terminal_width};

use crate::ReportError;

/// What readers see below the header of an empty table.
pub(crate) const NO_ROWS: &str = "(no rows)";

/// Side on which a column's values are lined up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Align {
    /// For words.
    Left,
    /// For numbers, so that digits of one weight stand under each other.
    Right,
}

/// A column: what machines call it, what readers call it, and its unit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Column {
    key: String,
    name: String,
    align: Align,
    unit: Option<String>,
    prose: bool,
    /// Absent where the place in the table decides.
    rank: Option<u8>,
}

impl Column {
    /// A column of words, lined up left. `key` names it in CSV and JSON, `name` in its heading.
    pub fn text(key: impl Into<String>, name: impl Into<String>) -> Self {
        Self { key: key.into(), name: name.into(), align: Align::Left, unit: None, prose: false, rank: None }
    }

    /// A column of sentences, which wrap between words where names are shortened.
    pub fn prose(key: impl Into<String>, name: impl Into<String>) -> Self {
        Self { prose: true, ..Self::text(key, name) }
    }

    /// A column of numbers, lined up right.
    pub fn number(key: impl Into<String>, name: impl Into<String>) -> Self {
        Self { align: Align::Right, ..Self::text(key, name) }
    }

    /// The column with a unit, which its heading shows in brackets.
    #[must_use]
    pub fn unit(mut self, unit: impl Into<String>) -> Self {
        self.unit = Some(unit.into());
        self
    }

    /// How readily the column is left out where a terminal is too narrow: higher ranks first, among
    /// equals the last column first, and rank 0 never. By default the first column and the first
    /// column of text have rank 0 and all others rank 1.
    #[must_use]
    pub fn rank(mut self, rank: u8) -> Self {
        self.rank = Some(rank);
        self
    }

    /// The name in CSV and JSON.
    pub fn key(&self) -> &str {
        &self.key
    }

    /// The side on which values are lined up.
    #[cfg(feature = "pages")]
    pub(crate) fn align(&self) -> Align {
        self.align
    }

    /// What readers see above the column: the name, and the unit in brackets.
    pub fn heading(&self) -> String {
        match &self.unit {
            Some(unit) => format!("{} ({unit})", self.name),
            None => self.name.clone(),
        }
    }
}

/// A titled table of [`Cell`]s.
///
/// ```
/// use flopgap_report::table::{Cell, Column, Format, Table, TextOptions};
///
/// let mut table = Table::new(
///     "Kernels",
///     [Column::text("kernel", "kernel"), Column::number("flops", "work").unit("FLOP"), Column::number("share", "share")],
/// )?;
/// table.push([Cell::from("gemm"), Cell::from(2_684_354_560_u64), Cell::percent(0.98, 1)])?;
/// table.push([Cell::from("sigmoid"), Cell::Absent, Cell::Absent])?;
/// assert_eq!(
///     table.render(Format::Table, &TextOptions::default())?,
///     "\
/// Kernels
/// kernel     work (FLOP)  share
/// ─────────────────────────────
/// gemm     2,684,354,560  98.0%
/// sigmoid              -      -
/// "
/// );
/// assert_eq!(
///     table.render(Format::Csv, &TextOptions::default())?,
///     "kernel,flops,share\ngemm,2684354560,0.98\nsigmoid,,\n"
/// );
/// # Ok::<(), flopgap_report::ReportError>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Table {
    title: String,
    columns: Vec<Column>,
    rows: Vec<Vec<Cell>>,
}

impl Table {
    /// An empty table. `title` may be empty.
    ///
    /// # Errors
    /// [`ReportError::DuplicateColumn`] when two columns have the same key.
    pub fn new(
        title: impl Into<String>,
        columns: impl IntoIterator<Item = Column>,
    ) -> Result<Self, ReportError> {
        let title = title.into();
        let columns: Vec<Column> = columns.into_iter().collect();
        for (i, column) in columns.iter().enumerate() {
            if columns[..i].iter().any(|earlier| earlier.key == column.key) {
                return Err(ReportError::DuplicateColumn { title, key: column.key.clone() });
            }
        }
        Ok(Self { title, columns, rows: Vec::new() })
    }

    /// Adds a row: one cell for each column, in column order.
    ///
    /// # Errors
    /// [`ReportError::RowLength`] when the number of cells differs from the number of columns; the
    /// table is unchanged.
    pub fn push(&mut self, row: impl IntoIterator<Item = Cell>) -> Result<(), ReportError> {
        let row: Vec<Cell> = row.into_iter().collect();
        if row.len() != self.columns.len() {
            return Err(ReportError::RowLength {
                title: self.title.clone(),
                row: self.rows.len() + 1,
                found: row.len(),
                expected: self.columns.len(),
            });
        }
        self.rows.push(row);
        Ok(())
    }

    /// The title; empty when the table has none.
    pub fn title(&self) -> &str {
        &self.title
    }

    /// The columns.
    pub fn columns(&self) -> &[Column] {
        &self.columns
    }

    /// The rows, each with one cell for each column.
    pub fn rows(&self) -> &[Vec<Cell>] {
        &self.rows
    }

    /// Whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The table in one of the formats, with a newline at its end. `options` concerns
    /// [`Format::Table`] alone.
    pub fn render(&self, format: Format, options: &TextOptions) -> Result<String, ReportError> {
        match format {
            Format::Table => Ok(self.to_text(options)),
            Format::Markdown => Ok(self.to_markdown()),
            Format::Csv => self.to_csv(),
            Format::CsvEscaped => self.to_escaped_csv(),
            Format::Json => self.to_json(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refuses_ragged_rows_and_duplicate_keys() {
        let mut table = Table::new("t", [Column::text("a", "A"), Column::number("b", "B")]).unwrap();
        table.push([Cell::from("x"), Cell::from(1_u64)]).unwrap();
        let error = table.push([Cell::from("y")]).unwrap_err();
        assert_eq!(error.to_string(), "table `t`: row 2 has 1 cells; expected 2, one for each column");
        assert_eq!(table.rows().len(), 1);

        let error = Table::new("t", [Column::text("a", "A"), Column::text("a", "B")]).unwrap_err();
        assert_eq!(error.to_string(), "table `t`: two columns have the key `a`");
    }
}

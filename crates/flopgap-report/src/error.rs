//! Errors of tables, plots and pages.

use flopgap_files::Hint;

/// An error of a table, a plot or a page.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReportError {
    /// A row has more or fewer cells than the table has columns.
    #[error("table `{title}`: row {row} has {found} cells; expected {expected}, one for each column")]
    RowLength {
        /// Title of the table.
        title: String,
        /// Number of the row, from 1.
        row: usize,
        /// Cells in the row.
        found: usize,
        /// Columns of the table.
        expected: usize,
    },
    /// Two columns have the same machine key, so one would hide the other in JSON.
    #[error("table `{title}`: two columns have the key `{key}`")]
    DuplicateColumn {
        /// Title of the table.
        title: String,
        /// The key.
        key: String,
    },
    /// The axes or values of a plot are inconsistent.
    #[error("plot `{title}`: {reason}")]
    InvalidPlot {
        /// Title of the plot.
        title: String,
        /// What is wrong.
        reason: String,
    },
    /// The plot has no value to draw. A caller that draws many plots usually skips it with a note.
    #[error("plot `{title}`: nothing to draw: {reason}")]
    NothingToDraw {
        /// Title of the plot.
        title: String,
        /// Why it is empty.
        reason: String,
    },
    /// The drawing backend failed.
    #[error("plot `{title}`: cannot be drawn: {reason}")]
    Drawing {
        /// Title of the plot.
        title: String,
        /// What the backend said.
        reason: String,
    },
    /// The data of a page are inconsistent.
    #[error("report page: {reason}")]
    InvalidPage {
        /// What is wrong.
        reason: String,
    },
    /// The page template could not be rendered.
    #[error("cannot render the page")]
    Template(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// CSV could not be written.
    #[error("cannot write the table as CSV")]
    Csv(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// JSON could not be written.
    #[error("cannot write the table as JSON")]
    Json(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// The output could not be written.
    #[error("cannot write the output")]
    Io(#[from] std::io::Error),
}

impl ReportError {
    #[cfg(feature = "pages")]
    pub(crate) fn template(error: minijinja::Error) -> ReportError {
        ReportError::Template(error.into())
    }

    pub(crate) fn csv(error: csv::Error) -> ReportError {
        ReportError::Csv(error.into())
    }

    pub(crate) fn json(error: serde_json::Error) -> ReportError {
        ReportError::Json(error.into())
    }
}

impl Hint for ReportError {}

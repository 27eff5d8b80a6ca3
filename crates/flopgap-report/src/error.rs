/// Why a table, plot or page could not be made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReportError {
    /// A row does not have one cell for each column.
    #[error("table `{title}`: row {row} has {found} cells, the table has {expected} columns")]
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
    /// The axes or values of a plot contradict each other.
    #[error("plot `{title}`: {reason}")]
    InvalidPlot {
        /// Title of the plot.
        title: String,
        /// What is wrong.
        reason: String,
    },
    /// The plot has no value to draw. A caller that draws many plots usually skips this one and says so.
    #[error("plot `{title}` has nothing to draw: {reason}")]
    NothingToDraw {
        /// Title of the plot.
        title: String,
        /// Why it is empty.
        reason: String,
    },
    /// The drawing backend failed.
    #[error("plot `{title}` could not be drawn: {reason}")]
    Drawing {
        /// Title of the plot.
        title: String,
        /// What the backend said.
        reason: String,
    },
    /// The data of a page contradict each other.
    #[error("report page: {reason}")]
    InvalidPage {
        /// What is wrong.
        reason: String,
    },
    /// The page template could not be rendered.
    #[error("the report page could not be rendered: {0}")]
    Template(#[from] minijinja::Error),
    /// CSV could not be written.
    #[error("the table could not be written as CSV: {0}")]
    Csv(#[from] csv::Error),
    /// JSON could not be written.
    #[error("the table could not be written as JSON: {0}")]
    Json(#[from] serde_json::Error),
    /// The output could not be written.
    #[error("the output could not be written: {0}")]
    Io(#[from] std::io::Error),
}

use super::TextOptions;
use crate::text::wrap;

/// How a table is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[cfg_attr(feature = "clap", derive(clap::ValueEnum))]
pub enum Format {
    /// Aligned columns for reading in a terminal.
    #[default]
    Table,
    /// One JSON document, numbers unformatted.
    Json,
    /// Comma-separated values with a header, numbers unformatted.
    Csv,
    /// As csv, for spreadsheet programs: an apostrophe before text that they would take for a
    /// formula.
    CsvEscaped,
    /// Tables for a Markdown document.
    Markdown,
}

impl Format {
    /// Sentences beside tables: in lines that fit the terminal if tables do, otherwise unchanged.
    ///
    /// ```
    /// use flopgap_report::table::{Format, TextOptions};
    ///
    /// let narrow = TextOptions { width: Some(10), ..TextOptions::default() };
    /// assert_eq!(Format::Table.sentences("a step of 40.861 ms", &narrow), "a step of\n40.861 ms");
    /// assert_eq!(Format::Markdown.sentences("a step of 40.861 ms", &narrow), "a step of 40.861 ms");
    /// ```
    pub fn sentences(self, text: &str, options: &TextOptions) -> String {
        match options.width.filter(|_| self == Self::Table) {
            Some(width) => wrap(text, width.into()).join("\n"),
            None => text.to_owned(),
        }
    }

    /// Whether it is CSV of either kind: one table of exact values.
    pub fn is_csv(self) -> bool {
        matches!(self, Self::Csv | Self::CsvEscaped)
    }
}

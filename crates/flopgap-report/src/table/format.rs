use std::{fmt, str::FromStr};

use super::TextOptions;
use crate::text::wrap;

/// How a table is written.
///
/// ```
/// use flopgap_report::table::Format;
/// assert_eq!("md".parse::<Format>()?, Format::Markdown);
/// assert_eq!(Format::Json.to_string(), "json");
/// let error = "yaml".parse::<Format>().unwrap_err();
/// assert_eq!(error.to_string(), "unknown output format `yaml`; expected table, json, csv, csv-escaped or markdown");
/// # Ok::<(), flopgap_report::table::ParseFormatError>(())
/// ```
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
    /// Every format, in the order in which help texts list them.
    pub const ALL: [Self; 5] = [Self::Table, Self::Json, Self::Csv, Self::CsvEscaped, Self::Markdown];

    /// The word that selects the format.
    pub fn name(self) -> &'static str {
        match self {
            Self::Table => "table",
            Self::Json => "json",
            Self::Csv => "csv",
            Self::CsvEscaped => "csv-escaped",
            Self::Markdown => "markdown",
        }
    }
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

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// An unknown name of a [`Format`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown output format `{found}`; expected table, json, csv, csv-escaped or markdown")]
pub struct ParseFormatError {
    /// The name.
    pub found: String,
}

impl FromStr for Format {
    type Err = ParseFormatError;

    fn from_str(word: &str) -> Result<Self, Self::Err> {
        let lower = word.to_ascii_lowercase();
        match lower.as_str() {
            "md" => Ok(Self::Markdown),
            _ => Self::ALL
                .into_iter()
                .find(|format| format.name() == lower)
                .ok_or_else(|| ParseFormatError { found: word.to_owned() }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_read_back() {
        for format in Format::ALL {
            assert_eq!(format.to_string().parse(), Ok(format));
            assert_eq!(format.name().to_uppercase().parse(), Ok(format));
        }
        assert_eq!(format!("{:<6}|", Format::Csv), "csv   |");
        assert!("".parse::<Format>().is_err());
    }
}

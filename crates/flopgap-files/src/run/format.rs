//! JSON files that begin with their format and its version.

use std::fs;
use std::io;
use std::path::Path;

use crate::{ErrorKind, Hint, InFile, Text};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// A kind of JSON file.
#[derive(Debug, PartialEq, Eq)]
pub struct Format {
    /// The value of its field `format`.
    pub name: &'static str,
    /// The value of its field `version`, the only one that is read.
    pub version: u32,
    /// What a file of it is called in messages: `manifest`.
    pub noun: &'static str,
}

/// An error of such a file: where, and the fault.
pub type FormatError = InFile<FormatFault>;

/// Why a file is not one of its format.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FormatFault {
    /// The file cannot be read.
    #[error("cannot be read")]
    Io {
        /// The error of the system.
        source: io::Error,
    },
    /// It is not JSON of the right shape.
    #[error("not a {noun}")]
    Shape {
        /// What it should be.
        noun: &'static str,
        /// What is wrong, with line and column.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// It was written by another version of the program, or by another program.
    #[error("unsupported format `{format}` version {version}; supported: {} version {}", supported.name, supported.version)]
    Version {
        /// Its `format`.
        format: String,
        /// Its `version`.
        version: u32,
        /// What is supported.
        supported: &'static Format,
    },
}

impl Hint for FormatFault {
    fn hint(&self) -> Option<Text<'_>> {
        match self {
            Self::Version { supported, .. } => {
                Some(format!("use the version of flopgap that wrote the {}", supported.noun).into())
            }
            Self::Io { .. } | Self::Shape { .. } => None,
        }
    }

    fn kind(&self) -> ErrorKind {
        match self {
            Self::Io { source } if source.kind() == io::ErrorKind::NotFound => ErrorKind::Absent,
            _ => ErrorKind::Failed,
        }
    }
}

/// The two fields, before others.
#[derive(Serialize)]
struct Labeled<'a, T> {
    format: &'static str,
    version: u32,
    #[serde(flatten)]
    contents: &'a T,
}

impl Format {
    /// The contents of a file, whose format and version are checked first: in another version
    /// everything else may differ.
    ///
    /// # Errors
    /// [`FormatFault::Shape`] and [`FormatFault::Version`].
    pub fn parse<T: DeserializeOwned>(&'static self, json: &[u8]) -> Result<T, FormatFault> {
        #[derive(Deserialize)]
        struct Label {
            format: String,
            version: u32,
        }
        let Label { format, version } = serde_json::from_slice(json).map_err(|error| self.shape(error))?;
        if (format.as_str(), version) != (self.name, self.version) {
            return Err(FormatFault::Version { format, version, supported: self });
        }
        serde_json::from_slice(json).map_err(|error| self.shape(error))
    }

    /// The fault of JSON that has another shape.
    pub fn shape(&self, source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> FormatFault {
        FormatFault::Shape { noun: self.noun, source: source.into() }
    }

    /// Reads a file; `None` if there is none.
    ///
    /// # Errors
    /// As [`Format::parse`], and [`FormatFault::Io`].
    pub fn read<T: DeserializeOwned>(&'static self, path: &Path) -> Result<Option<T>, FormatError> {
        let json = match fs::read(path) {
            Err(source) if source.kind() == io::ErrorKind::NotFound => return Ok(None),
            json => json.map_err(|source| InFile::new(path, FormatFault::Io { source }))?,
        };
        self.parse(&json).map(Some).map_err(|fault| InFile::new(path, fault))
    }

    /// The file of these contents, indented.
    pub fn pretty(&self, contents: &impl Serialize) -> String {
        let json = serde_json::to_string_pretty(&self.label(contents));
        // Maps of these files have text for keys, so that nothing can fail.
        json.unwrap_or_else(|error| unreachable!("{error}")) + "\n"
    }

    /// The file of these contents in one line.
    pub fn line(&self, contents: &impl Serialize) -> String {
        let json = serde_json::to_string(&self.label(contents));
        json.unwrap_or_else(|error| unreachable!("{error}")) + "\n"
    }

    fn label<'a, T>(&self, contents: &'a T) -> Labeled<'a, T> {
        Labeled { format: self.name, version: self.version, contents }
    }
}

#[cfg(test)]
mod tests {
    use crate::chain;

    use super::*;

    static FORMAT: Format = Format { name: "flopgap-test", version: 1, noun: "list of sizes" };

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct Sizes {
        sizes: Vec<u64>,
    }

    #[test]
    fn contents_come_back_and_the_label_comes_first() {
        let sizes = Sizes { sizes: vec![1, u64::MAX] };
        let line = FORMAT.line(&sizes);
        assert_eq!(line, "{\"format\":\"flopgap-test\",\"version\":1,\"sizes\":[1,18446744073709551615]}\n");
        for text in [line, FORMAT.pretty(&sizes)] {
            assert_eq!(FORMAT.parse::<Sizes>(text.as_bytes()).unwrap(), sizes);
        }
    }

    #[test]
    fn what_is_not_of_the_format_is_refused_in_words() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("sizes.json");
        assert!(FORMAT.read::<Sizes>(&path).unwrap().is_none());
        for (text, expected) in [
            (
                r#"{"format":"flopgap-test","version":2,"anything":"else"}"#,
                "unsupported format `flopgap-test` version 2; supported: flopgap-test version 1",
            ),
            (
                r#"{"format":"other","version":1}"#,
                "unsupported format `other` version 1; supported: flopgap-test version 1",
            ),
            (
                r#"{"format":"flopgap-test","version":1}"#,
                "not a list of sizes: missing field `sizes` at line 1 column 37",
            ),
            ("{", "not a list of sizes: EOF while parsing an object at line 1 column 1"),
        ] {
            fs::write(&path, text).unwrap();
            let error = FORMAT.read::<Sizes>(&path).unwrap_err();
            assert_eq!(chain(&error).to_string(), format!("{}: {expected}", path.display()));
        }
    }
}

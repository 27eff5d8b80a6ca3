//! Errors of language models.

use std::io;
use std::path::PathBuf;

use flopgap_files::{Hint, Text};

/// A language model that cannot be read or divided.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LanguageError {
    /// The file cannot be read.
    #[error("{}: cannot be read", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
    /// The configuration is of an architecture that is not known.
    #[error("{name}: the architecture `{kind}` is not known")]
    Unknown {
        /// The file.
        name: String,
        /// Its `model_type`.
        kind: String,
        /// What is known.
        known: &'static [&'static str],
    },
    /// A value is missing or wrong.
    #[error("{name}: {what}")]
    Config {
        /// The file.
        name: String,
        /// What is wrong.
        what: String,
    },
    /// The model cannot be divided over so many GPUs.
    #[error("{what}")]
    Division {
        /// What does not divide.
        what: String,
    },
}

impl Hint for LanguageError {
    fn hint(&self) -> Option<Text<'_>> {
        match self {
            Self::Unknown { known, .. } => Some(format!("known: {}", known.join(", ")).into()),
            _ => None,
        }
    }
}

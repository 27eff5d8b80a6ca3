//! Errors of the browser.

use std::fmt::Display;

/// An error of the browser or of a page.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Chromium is not installed.
    #[error("{0}")]
    Missing(String),
    /// The browser or the page did not do what was requested.
    #[error("{what}: {reason}")]
    Failed {
        /// The command or expression.
        what: String,
        /// The answer.
        reason: String,
    },
}

impl Error {
    pub(crate) fn failed(what: &str, reason: impl Display) -> Error {
        Error::Failed { what: what.to_owned(), reason: reason.to_string() }
    }
}

//! What goes wrong with a browser.

use std::fmt::Display;

/// What went wrong.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// There is no Chromium.
    #[error("{0}")]
    Missing(String),
    /// The browser or the page did not do what it was asked to.
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

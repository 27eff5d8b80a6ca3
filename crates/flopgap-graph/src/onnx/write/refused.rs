//! Refusals of what cannot be written.

use crate::error::GraphError;

/// A refusal: of what, and why.
pub(super) fn refused(what: &str, reason: &str) -> GraphError {
    GraphError::Write { what: what.to_owned(), reason: reason.to_owned() }
}

//! Errors of layers that cannot be written.

use crate::error::GraphError;

/// An error that names the layer and the reason.
pub(super) fn refused(what: &str, reason: &str) -> GraphError {
    GraphError::Write { what: what.to_owned(), reason: reason.to_owned() }
}

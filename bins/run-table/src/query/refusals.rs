//! What is not answered.

use flopgap_cli::{Exit, Failure};

pub(super) fn refused(message: &str, hint: &str) -> Failure {
    Failure::new(format!("SQL: {message}")).hint(hint).exit(Exit::Usage)
}

/// A form of SQL whose answer by the engine is wrong or was not checked.
pub(super) fn unknown(form: impl std::fmt::Display) -> Failure {
    refused(
        &format!("`{form}` is not answered here"),
        "ask in another way, or ask DuckDB: the files are plain Parquet",
    )
}

//! The file of measured calls: a line about them, and a line of JSON for each call
//! (`docs/FORMATS.md`).

use flopgap_files::Hint;

use super::{About, Row};
use crate::machines::unpacked;

/// The first line: name and version of the format.
const MAGIC: &str = "flopgap-pytorch 1";

/// A file of measured calls that cannot be read.
#[derive(Debug, thiserror::Error)]
#[error("{name}: {what}")]
pub struct PyTorchError {
    /// The file.
    pub name: String,
    /// What is wrong.
    pub what: String,
}

impl Hint for PyTorchError {}

/// The file of measured calls.
///
/// # Errors
/// When a number is none.
pub fn to_text(about: &About, rows: &[Row]) -> Result<String, serde_json::Error> {
    let mut text = format!("{MAGIC}\n{}\n", serde_json::to_string(about)?);
    for row in rows {
        text += &serde_json::to_string(row)?;
        text.push('\n');
    }
    Ok(text)
}

/// Reads a file, compressed or not; `name` is what errors call it.
///
/// # Errors
/// When it is damaged or of another version.
pub fn parse(bytes: &[u8], name: &str) -> Result<(About, Vec<Row>), PyTorchError> {
    let fail = |what: String| PyTorchError { name: name.to_owned(), what };
    let bytes = unpacked(bytes).map_err(|error| fail(error.to_string()))?;
    let text = std::str::from_utf8(&bytes).map_err(|error| fail(error.to_string()))?;
    let mut lines = text.lines();
    if lines.next() != Some(MAGIC) {
        return Err(fail("not a file of measured calls in version 1".to_owned()));
    }
    let about = serde_json::from_str(lines.next().unwrap_or_default());
    let rows = lines.map(serde_json::from_str::<Row>).collect::<Result<Vec<Row>, _>>();
    about.and_then(|about| Ok((about, rows?))).map_err(|error| fail(error.to_string()))
}

//! Parameters in files beside the model.

use std::cell::RefCell;
use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};

use rten_onnx::onnx::{DataLocation, GraphProto, TensorProto};

use super::node::KEPT;
use crate::error::GraphError;

/// The files with parameters, of which only shapes are needed, and the values of small ones.
#[derive(Default)]
pub(super) struct External {
    path: PathBuf,
    /// How many tensors are in files that are not there; the first, and its file.
    missing: Option<(usize, String, String)>,
}

/// Where a tensor is: file, offset and length.
fn place(path: &Path, tensor: &TensorProto) -> Option<(PathBuf, String, u64, Option<u64>)> {
    if tensor.data_location != Some(DataLocation::EXTERNAL) {
        return None;
    }
    let entry = |key: &str| {
        let entry = tensor.external_data.iter().find(|entry| entry.key.as_deref() == Some(key));
        entry.and_then(|entry| entry.value.clone())
    };
    let number = |key| entry(key).and_then(|value| value.parse::<u64>().ok());
    let location = entry("location").unwrap_or_default();
    let beside = path.parent().unwrap_or(Path::new("")).join(&location);
    Some((beside, location, number("offset").unwrap_or(0), number("length")))
}

impl External {
    /// Searches for the files next to the model.
    ///
    /// # Errors
    /// [`GraphError::Damaged`] where a file ends before its tensors do.
    pub(super) fn new(path: &Path, graph: &GraphProto) -> Result<Self, GraphError> {
        let mut missing: Option<(usize, String, String)> = None;
        for tensor in &graph.initializer {
            let Some((beside, location, offset, length)) = place(path, tensor) else { continue };
            let name = tensor.name.clone().unwrap_or_default();
            match std::fs::metadata(&beside) {
                Ok(found) if found.is_file() => {
                    let end = offset.saturating_add(length.unwrap_or(0));
                    if end > found.len() {
                        return Err(GraphError::Damaged {
                            path: beside,
                            place: format!("tensor `{name}`"),
                            reason: format!(
                                "it ends at byte {end} of {}; the file is truncated",
                                found.len()
                            ),
                        });
                    }
                }
                _ => match &mut missing {
                    Some((count, _, _)) => *count += 1,
                    None => missing = Some((1, name, location)),
                },
            }
        }
        Ok(Self { path: path.to_owned(), missing })
    }

    /// Whether the values of a tensor are in a file that is not there.
    pub(super) fn is_missing(&self, tensor: &TensorProto) -> bool {
        let place = place(&self.path, tensor);
        self.missing.is_some() && place.is_some_and(|(beside, ..)| !beside.is_file())
    }

    /// The error for values that are needed and not there.
    pub(super) fn error(&self) -> Option<GraphError> {
        let (count, tensor, location) = self.missing.clone()?;
        Some(GraphError::ExternalData { path: self.path.clone(), count, tensor, location })
    }

    /// A small tensor with its values, as if the model held them.
    pub(super) fn loaded(&self, tensor: &TensorProto) -> Option<TensorProto> {
        let (beside, _, offset, length) = place(&self.path, tensor)?;
        let length = length.filter(|&length| length <= 8 * KEPT as u64)?;
        let mut file = File::open(beside).ok()?;
        file.seek(SeekFrom::Start(offset)).ok()?;
        let mut bytes = Vec::new();
        file.take(length).read_to_end(&mut bytes).ok()?;
        Some(TensorProto { raw_data: Some(RefCell::new(bytes)), ..tensor.clone() })
    }
}
